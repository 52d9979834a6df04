# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# A booted root for a test of the installed tree: the running system's own /usr under what `cmake --install` puts there, /etc
# and /var new, systemd as its process 1. What is written there is in memory; mounts are in a namespace of the test.
#
# A container's systemd lives in a PID namespace of its own, from which there is no way out, and the kernel tells of ranks by
# the machine's process ids. The machine's /proc is at $MACHINE_PROC in the root, for a service that must know these.
set -euo pipefail

source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=${BUILD:?the build folder, given by ctest}
MACHINE_PROC=/machine/proc
container=
nspawn=
work=

skip() { echo "SKIP: $1"; exit 77; }
fail() {
	echo "FAIL: $1" >&2
	[ -z "$work" ] || tail -20 "$work/console.log" >&2 || true
	[ -z "$container" ] || inside journalctl --no-pager -n 60 >&2 || true
	exit 1
}
[ "$(id -u)" -eq 0 ] || skip "needs root to boot a container"
command -v systemd-nspawn >/dev/null || skip "no systemd-nspawn (packaging/install-deps.sh --tests installs it)"
[ -n "${RANKTRACE_UNSHARED:-}" ] || RANKTRACE_UNSHARED=1 exec unshare --mount --propagation private "$0" "$@"

work=$(mktemp -d "${TMPDIR:-/tmp}/ranktrace-boot.XXXXXX")
root=$work/root
children=()
boot_cleanup() {
	local pid
	for pid in "${children[@]}"; do kill -KILL "$pid" 2>/dev/null || true; done
	[ -z "$nspawn" ] || kill -KILL $container "$nspawn" 2>/dev/null || true
	wait 2>/dev/null || true
	umount "$root/usr" "$work/written" 2>/dev/null || true
	rm -rf --one-file-system "$work"
}
trap boot_cleanup EXIT
trap 'echo "FAIL: line $LINENO: $BASH_COMMAND" >&2' ERR

# boot_prepare: makes the root, with the install tree in it.
boot_prepare() {
	local name
	DESTDIR=$work/stage cmake --install "$build" >/dev/null
	# On a machine where /lib is /usr/lib, what is installed below /lib is found below /usr.
	if [ -L /lib ] && [ -d "$work/stage/lib" ]; then
		mkdir -p "$work/stage/usr/lib"
		cp -a "$work/stage/lib/." "$work/stage/usr/lib/"
	fi
	mkdir -p "$root"/{usr,etc,var,run,proc,sys,dev,tmp,out} "$root$MACHINE_PROC" "$work/stage/usr" "$work/written"
	mount -t tmpfs tmpfs "$work/written"
	mkdir "$work/written"/{upper,work}
	mount -t overlay overlay -o "lowerdir=$work/stage/usr:/usr,upperdir=$work/written/upper,workdir=$work/written/work" \
		"$root/usr" || skip "the kernel has no overlay file system"
	for name in bin sbin lib lib32 lib64 libx32; do [ ! -L "/$name" ] || ln -s "usr/$name" "$root/$name"; done
	for name in etc var; do [ ! -d "$work/stage/$name" ] || cp -a "$work/stage/$name/." "$root/$name/"; done
	cp -a /etc/ld.so.cache /etc/os-release /etc/alternatives "$root/etc/" 2>/dev/null || true
	od -An -N16 -tx1 /dev/urandom | tr -d ' \n' >"$root/etc/machine-id"
}

# wait_for SECONDS COMMAND...: until the command is true.
wait_for() {
	local tries=$(($1 * 5))
	shift
	for _ in $(seq "$tries"); do
		if "$@" >/dev/null 2>&1; then return 0; fi
		sleep 0.2
	done
	return 1
}
inside() { nsenter --target "$container" --root --wd=/ --mount --uts --ipc --net --pid --cgroup -- "$@"; }
booted() {
	container=$(pgrep -P "$nspawn" | head -1)
	[ -n "$container" ] && inside systemctl is-active basic.target
}

# boot: starts it, and waits for basic.target.
boot() {
	# A machine with the old cgroup tree alone has no place for a container's systemd: ours gets the unified one.
	if [ "$(stat -f -c %T /sys/fs/cgroup)" != cgroup2fs ]; then
		mount -t cgroup2 cgroup2 /sys/fs/cgroup || skip "no unified cgroup tree for the container"
	fi
	SYSTEMD_SECCOMP=0 systemd-nspawn --quiet --directory="$root" --boot --keep-unit --register=no --capability=all \
		--private-network --bind-ro=/proc:"$MACHINE_PROC" --console=passive --kill-signal=SIGRTMIN+3 >"$work/console.log" 2>&1 &
	nspawn=$!
	wait_for 60 booted || fail "the container does not boot"
}

# machine_pid PID: the machine's number of a process of the root.
machine_pid() {
	local name namespace status
	namespace=$(readlink "/proc/$container/ns/pid")
	for status in $(grep -lE "^NSpid:.*[[:space:]]$1\$" /proc/[0-9]*/status 2>/dev/null); do
		name=${status#/proc/}
		name=${name%/status}
		[ "$(readlink "/proc/$name/ns/pid" 2>/dev/null)" != "$namespace" ] || { echo "$name"; return; }
	done
	return 1
}

# bpf_of PID: what a process of the machine holds of BPF, "link 17" a line. Files that it closes meanwhile are left out.
bpf_of() { { sed -nE 's/^(link|prog|map)_id:[[:space:]]*([0-9]+)$/\1 \2/p' /proc/"$1"/fdinfo/* 2>/dev/null || true; } | sort -u; }
# bpf_alive FILE: those of such lines that the kernel still has.
bpf_alive() {
	local kind id
	while read -r kind id; do
		! bpftool "$kind" show id "$id" >/dev/null 2>&1 || echo "$kind $id"
	done <"$1"
}
