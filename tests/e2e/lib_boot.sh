# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# A booted container for tests of the installed tree: the system's /usr overlaid with `cmake --install`, empty /etc and /var,
# systemd as process 1. Writes go to memory; mounts are in a private namespace.
#
# A container's systemd is in a private PID namespace, but the kernel reports ranks by the machine's pids. $MACHINE_PROC in
# the root is the machine's /proc, for a service that needs these pids.
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

# boot_prepare: creates the root with the install tree.
boot_prepare() {
	local name
	DESTDIR=$work/stage cmake --install "$build" >/dev/null
	# With merged /usr, files installed below /lib belong below /usr.
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

# wait_for SECONDS COMMAND...: until the command succeeds.
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

# boot: starts the container and waits for basic.target.
boot() {
	# On a machine with cgroup v1 alone, the container gets a cgroup v2 tree.
	if [ "$(stat -f -c %T /sys/fs/cgroup)" != cgroup2fs ]; then
		mount -t cgroup2 cgroup2 /sys/fs/cgroup || skip "no cgroup v2 tree for the container"
	fi
	SYSTEMD_SECCOMP=0 systemd-nspawn --quiet --directory="$root" --boot --keep-unit --register=no --capability=all \
		--private-network --bind-ro=/proc:"$MACHINE_PROC" --console=passive --kill-signal=SIGRTMIN+3 >"$work/console.log" 2>&1 &
	nspawn=$!
	wait_for 60 booted || fail "the container does not boot"
}

# machine_pid PID: the machine's pid of a process in the root.
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

# bpf_of PID: BPF objects that a process holds, "link 17" per line. Descriptors closed meanwhile are skipped.
bpf_of() { { sed -nE 's/^(link|prog|map)_id:[[:space:]]*([0-9]+)$/\1 \2/p' /proc/"$1"/fdinfo/* 2>/dev/null || true; } | sort -u; }
# bpf_alive FILE: prints the lines whose objects exist in the kernel.
bpf_alive() {
	local kind id
	while read -r kind id; do
		! bpftool "$kind" show id "$id" >/dev/null 2>&1 || echo "$kind $id"
	done <"$1"
}
