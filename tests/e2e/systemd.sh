#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The installed unit under a real systemd: the build is installed beside the running system's own /usr, booted with
# systemd-nspawn, and held against what the unit promises: user, capabilities, readiness, watchdog, journal, reload,
# socket. The container has a PID namespace of its own, so no rank can be seen there: caps.sh has that part.
set -euo pipefail

build=${BUILD:?the build folder, given by ctest}
service=ranktraced.service
container=
work=

skip() { echo "SKIP: $1"; exit 77; }
fail() {
	echo "FAIL: $1" >&2
	tail -20 "$work/console.log" >&2 || true
	[ -z "$container" ] || inside journalctl --no-pager -n 40 >&2 || true
	exit 1
}
[ "$(id -u)" -eq 0 ] || skip "needs root to boot a container"
command -v systemd-nspawn >/dev/null || skip "no systemd-nspawn (packaging/install-deps.sh --tests installs it)"
# Mounts are made in a namespace of our own, so none is left behind.
[ -n "${RANKTRACE_UNSHARED:-}" ] || RANKTRACE_UNSHARED=1 exec unshare --mount --propagation private "$0" "$@"

work=$(mktemp -d "${TMPDIR:-/tmp}/ranktrace-systemd.XXXXXX")
root=$work/root
nspawn=
cleanup() {
	[ -z "$nspawn" ] || kill -KILL "$container" "$nspawn" 2>/dev/null || true
	wait 2>/dev/null || true
	umount "$root/usr" 2>/dev/null || true
	rm -rf --one-file-system "$work"
}
trap cleanup EXIT

# The running system's /usr under what `cmake --install` puts there; /etc and /var are new.
DESTDIR=$work/stage cmake --install "$build" >/dev/null
# On a machine where /lib is /usr/lib, what is installed below /lib is found below /usr.
if [ -L /lib ] && [ -d "$work/stage/lib" ]; then
	mkdir -p "$work/stage/usr/lib"
	cp -a "$work/stage/lib/." "$work/stage/usr/lib/"
fi
mkdir -p "$root"/{usr,etc,var,run,proc,sys,dev,tmp} "$work/stage/usr"
mount -t overlay overlay -o "ro,lowerdir=$work/stage/usr:/usr" "$root/usr" || skip "the kernel has no overlay file system"
for name in bin sbin lib lib32 lib64 libx32; do [ ! -L "/$name" ] || ln -s "usr/$name" "$root/$name"; done
[ ! -d "$work/stage/etc" ] || cp -a "$work/stage/etc/." "$root/etc/"
[ ! -d "$work/stage/var" ] || cp -a "$work/stage/var/." "$root/var/"
cp -a /etc/ld.so.cache /etc/os-release "$root/etc/" 2>/dev/null || true
od -An -N16 -tx1 /dev/urandom | tr -d ' \n' >"$root/etc/machine-id"
systemd-sysusers --root="$root" >/dev/null 2>&1
grep '^ranktrace:' "$root/etc/passwd" || fail "systemd-sysusers made no user ranktrace"
systemctl --root="$root" preset ranktraced.service ranktraced.socket ranktrace-report.timer 2>&1
for unit in multi-user.target.wants/ranktraced.service sockets.target.wants/ranktraced.socket timers.target.wants/ranktrace-report.timer; do
	[ -L "$root/etc/systemd/system/$unit" ] || fail "the preset does not enable $unit"
done
# Only the watchdog's time is another than the unit's, so that a feed can be waited for.
mkdir -p "$root/etc/systemd/system/$service.d"
printf '[Service]\nWatchdogSec=3\n' >"$root/etc/systemd/system/$service.d/test.conf"

# A machine with the old cgroup tree alone has no place for a container's systemd: ours gets the unified one.
if [ "$(stat -f -c %T /sys/fs/cgroup)" != cgroup2fs ]; then
	mount -t cgroup2 cgroup2 /sys/fs/cgroup || skip "no unified cgroup tree for the container"
fi
SYSTEMD_SECCOMP=0 systemd-nspawn --quiet --directory="$root" --boot --keep-unit --register=no --capability=all \
	--private-network --console=passive --kill-signal=SIGRTMIN+3 >"$work/console.log" 2>&1 &
nspawn=$!

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
property() { inside systemctl show --value --property "$1" "$service"; }
is() { [ "$(property "$1")" = "$2" ]; }
booted() {
	container=$(pgrep -P "$nspawn" | head -1)
	[ -n "$container" ] && inside systemctl is-active basic.target
}
wait_for 40 booted || { tail -20 "$work/console.log" >&2; fail "the container does not boot"; }
wait_for 40 inside systemctl is-active "$service" || fail "the unit does not become active"

echo "--- started, and says so"
pid=$(property MainPID)
for pair in Type=notify SubState=running NRestarts=0 User=ranktrace; do
	is "${pair%%=*}" "${pair#*=}" || fail "${pair%%=*} is $(property "${pair%%=*}"), not ${pair#*=}"
done
inside systemctl status --no-pager -n 0 "$service" | grep -E 'Status: ".*L0 on' || fail "systemctl status has no text of ours"

echo "--- its rights"
inside cat "/proc/$pid/status" >"$work/status"
grep -E '^(Uid|CapEff|CapBnd|CapAmb|NoNewPrivs|Seccomp):' "$work/status"
[ "$(awk '$1 == "Uid:" { print $2 }' "$work/status")" = "$(awk -F: '$1 == "ranktrace" { print $3 }' "$root/etc/passwd")" ] ||
	fail "it does not run as user ranktrace"
wanted=$(printf '%016x' $((1 << 2 | 1 << 19 | 1 << 38 | 1 << 39)))
for set in CapEff CapBnd CapAmb; do
	[ "$(awk -v set="$set:" '$1 == set { print $2 }' "$work/status")" = "$wanted" ] || fail "$set is not the four capabilities"
done
[ "$(awk '$1 == "Seccomp:" { print $2 }' "$work/status")" = 2 ] || fail "no system call filter holds"
inside stat -c '%U %a %n' /var/lib/ranktrace | grep '^ranktrace 750 ' || fail "the state folder is not its own"

echo "--- the journal"
has_component() { inside journalctl -q -o json -u "$service" "RANKTRACE_COMPONENT=$1" | grep -q '"CODE_FUNC"'; }
wait_for 5 has_component loop || fail "the journal has no field RANKTRACE_COMPONENT"
journal_says() { inside journalctl -q --no-pager -o cat -u "$service" | grep -F "$1"; }
wait_for 5 journal_says "PID namespace of its own" || fail "it does not say that it lives in another PID namespace"
journal_says "PID namespace of its own"

echo "--- tracectl"
tracectl() { inside tracectl "$@"; }
tracectl set L0=false
tracectl set L0=true
tracectl status >"$work/status"
grep 'PID namespace of its own' "$work/status" || fail "status does not say that it lives in another PID namespace"
tracectl check >"$work/check" || true
grep 'missing.*pid namespace' "$work/check" || fail "check does not say that it lives in another PID namespace"
! grep -E '^missing' "$work/check" | grep -v 'pid namespace' || fail "something else is missing under the unit's restrictions"
inside setpriv --reuid=nobody --regid=65534 --clear-groups tracectl set L0=false && fail "nobody may change levels"
tracectl query 'select count(*) n from drops' >/dev/null || fail "the store cannot be read"

echo "--- the report"
inside systemctl is-active ranktrace-report.timer >/dev/null || fail "the timer is not active"
inside systemctl start ranktrace-report.service || fail "the report fails: $(inside journalctl -q --no-pager -u ranktrace-report)"
reported() { inside journalctl -q -o cat --no-pager -t ranktrace-report RANKTRACE_KIND=report RANKTRACE_VERDICT=not_watched; }
has_reported() { reported | grep '^Nothing was watched'; }
wait_for 10 has_reported || fail "the journal has no report: $(inside journalctl -q --no-pager -t ranktrace-report)"
reported
inside stat -L -c '%U %a %n' /var/lib/ranktrace/report/latest.txt /var/lib/ranktrace/report/latest.html | grep -c '^ranktrace 640 ' |
	grep -qx 2 || fail "the reports are not kept: $(inside ls -l /var/lib/ranktrace/report)"

echo "--- reload"
inside systemctl reload "$service"
wait_for 10 journal_says "configuration reloaded" || fail "no word of the reload"
wait_for 10 is ActiveState active || fail "it is not active after a reload"
is MainPID "$pid" || fail "the reload was a restart"

echo "--- the watchdog is fed"
first=$(property WatchdogTimestampMonotonic)
fed() { [ "$(property WatchdogTimestampMonotonic)" -gt "$first" ]; }
wait_for 10 fed || fail "the watchdog is not fed"
sleep 4
is MainPID "$pid" || fail "the watchdog bit"

echo "--- stop, and start by the socket"
inside systemctl stop "$service"
is Result success || fail "it stopped with $(property Result)"
inside systemctl is-active ranktraced.socket >/dev/null || fail "the socket went with the service"
tracectl status | head -1 || fail "a connection does not start the service"
wait_for 20 is ActiveState active || fail "a connection does not start the service"
[ "$(property MainPID)" != "$pid" ] || fail "it never stopped"
inside systemctl stop ranktraced.socket "$service"
is Result success || fail "it stopped with $(property Result)"
echo PASS
