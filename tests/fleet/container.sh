#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The image and its container as the DaemonSet runs it, without a registry, a runtime or a cluster: the root of the image is made
# of the distribution's packages, and the daemon runs in it with the DaemonSet's mounts, capabilities and read-only root,
# beside a training in control groups that are named as containerd and CRI-O name them.
#
#   BUILD=build/ci tests/fleet/container.sh
#
# Needs root, debootstrap and a mirror of Debian; about a minute and 300 MB in ${RANKTRACE_ROOTS:-/var/tmp/ranktrace-roots}/image. Not run by CI.
if [ -z "${RANKTRACE_IMAGE_UNSHARED:-}" ]; then
	RANKTRACE_IMAGE_UNSHARED=1 exec unshare --mount --propagation private "$0" "$@"
fi
source "$(dirname "$0")/../e2e/lib.sh"
source "$source_dir/tests/e2e/lib_debian.sh"
for program in debootstrap setpriv curl; do command -v $program >/dev/null || skip "no $program here"; done
image=${RANKTRACE_ROOTS:-/var/tmp/ranktrace-roots}/image
recipe=$source_dir/packaging/container/Containerfile
manifest=$source_dir/packaging/container/ranktrace.yaml

echo "--- the image"
packages=$(sed -n '/^FROM.*slim/,$p' "$recipe" | tr -d '\\\n' | grep -o 'no-install-recommends [^&]*' | cut -d' ' -f2-)
[ -n "$packages" ] || fail "no packages in $recipe"
if [ ! -x "$image/usr/bin/dpkg" ]; then
	mkdir -p "$image.part"
	debootstrap --variant=minbase bookworm "$image.part" "$(debian_mirror)" >"$work/image.log" 2>&1 || { tail -5 "$work/image.log"; fail "debootstrap"; }
	mv "$image.part" "$image"
fi
# shellcheck disable=SC2086
DEBIAN_FRONTEND=noninteractive chroot "$image" apt-get install -y -q --no-install-recommends $packages >"$work/packages.log" 2>&1 ||
	{ tail -5 "$work/packages.log"; fail "the image's packages"; }
chroot "$image" apt-get clean
DESTDIR=$image cmake --install "$build" --strip >"$work/install.log" || fail "the image's files"
du -sm --one-file-system "$image" | awk '{ print "image: " $1 " MiB" }'
missing=$(chroot "$image" sh -c 'ldd /usr/sbin/ranktraced /usr/bin/tracectl /usr/libexec/ranktrace/* 2>/dev/null' | grep 'not found' || true)
[ -z "$missing" ] || fail "libraries that the image lacks: $missing"

echo "--- the container"
port=$((20000 + RANDOM % 10000))
mkdir -p "$work/conf" "$work/state" "$work/run"
sed -n '/ranktrace.conf: |/,/^---/p' "$manifest" | sed -n 's/^    //p' | sed "s/0.0.0.0:9797/127.0.0.1:$port/" >"$work/conf/ranktrace.conf"
grep -q "127.0.0.1:$port" "$work/conf/ranktrace.conf" || fail "no address in the configuration of $manifest"
caps=$(sed -n 's/^ *add: \[\(.*\)\]/\1/p' "$manifest" | tr '[:upper:]' '[:lower:]' | tr -d ' ' | sed 's/^/+/; s/,/,+/g')
echo "capabilities: $caps"
mount --bind "$image" "$image"
mkdir -p "$image/etc/ranktrace-conf" "$image/run/ranktrace" "$image/var/lib/ranktrace"
mount -t proc proc "$image/proc"
mount -t sysfs -o ro sysfs "$image/sys"
mount --rbind /sys/fs/cgroup "$image/sys/fs/cgroup"
mount -t tmpfs tmpfs "$image/dev"
for node in null zero random urandom; do touch "$image/dev/$node" && mount --bind "/dev/$node" "$image/dev/$node"; done
mount --bind "$work/conf" "$image/etc/ranktrace-conf"
mount --bind "$work/state" "$image/var/lib/ranktrace"
mount --bind "$work/run" "$image/run/ranktrace"
mount -o remount,bind,ro "$image"
inside=(chroot "$image" setpriv --bounding-set="-all,$caps" --inh-caps=-all --no-new-privs)
env -u RANKTRACE_SOCKET -u RANKTRACE_LIBEXEC "${inside[@]}" /usr/sbin/ranktraced --foreground --config /etc/ranktrace-conf/ranktrace.conf 2>"$work/daemon.log" &
daemon=$!
control() { chroot "$image" env -u RANKTRACE_SOCKET -u RANKTRACE_LIBEXEC /usr/bin/tracectl "$@"; }
tracectl=control
wait_for 30 control status >/dev/null 2>&1 || fail "the daemon in the container does not answer"
grep -E '^(NoNewPrivs|CapEff)' /proc/$daemon/status
control check | sed 's/^/  /' || true

echo "--- a training in pods"
groups=()
on_cleanup() {
	local group
	for group in "${groups[@]}"; do rmdir "$group" 2>/dev/null || true; done
	umount -R "$image" 2>/dev/null || true
}
# pod PID PATH: moves the process there in each hierarchy that this machine has.
pod() {
	local pid=$1 path=$2 top made part
	for top in /sys/fs/cgroup /sys/fs/cgroup/*/; do
		[ -e "$top/cgroup.procs" ] || continue
		made=${top%/}
		for part in ${path//\// }; do
			made=$made/$part
			[ -d "$made" ] || { mkdir "$made" && groups=("$made" "${groups[@]}"); }
		done
		[[ $top != *cpuset* ]] || for part in cpus mems; do
			made=${top%/}
			for up in ${path//\// }; do
				made=$made/$up
				cat "$made/../cpuset.$part" >"$made/cpuset.$part"
			done
		done
		echo "$pid" >"$made/cgroup.procs"
	done
}
id=4d1a7a6b9c0e4f5a8b7c6d5e4f3a2b1c0d9e8f7a6b5c4d3e2f1a0b9c8d7e6f5a
uid0=0c4b7a2e-8f15-4b0c-9d57-3f0e2d1c0b9a uid1=7d9e1f30-52a4-4c1b-8e66-a1b2c3d4e5f6
paths=("kubepods/burstable/pod$uid0/$id" # containerd, version 1, without systemd
	"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod${uid1//-/_}.slice/crio-$id.scope") # CRI-O, with systemd
pids=()
for rank in 0 1; do
	train "ddp$rank" RANK=$rank WORLD_SIZE=2 LOCAL_RANK=$rank TORCHELASTIC_RUN_ID=pods POD_NAME=worker-$rank MASTER_ADDR=127.0.0.1 \
		MASTER_PORT=$((port + 1)) -- --mode ddp --steps 100000 --sleep-data 60 --hidden 128
	pids+=("$last")
	pod "$last" "${paths[rank]}"
	cut -d: -f2- /proc/"$last"/cgroup | sort | uniq -c | sort -rn | sed 's/^/  /' | head -2
done
get() { curl --noproxy '*' -sf "http://127.0.0.1:$port/metrics" | grep "$1"; }
stepped() { [ "$(get '^ranktrace_rank_steps_total{job="pods"' | awk '$NF > 20' | wc -l)" -eq 2 ]; }
wait_for 90 stepped || fail "the daemon in the container sees no steps"
get '^ranktrace_rank_info'
for rank in 0 1; do
	uid=uid$rank
	get '^ranktrace_rank_info' | grep -qE "rank=\"$rank\".*pod=\"worker-$rank\",pod_uid=\"${!uid}\",container=\"${id:0:12}" || fail "labels of rank $rank"
done
"$tracectl" ranks
"$tracectl" status | sed -n '1,12p'
grep -q train.py <<<"$("$tracectl" stack --rank 1)" || fail "no stack of a rank in the container"
[ -S "$work/run/control.sock" ] || ls -l "$work/run"
e2e_done
