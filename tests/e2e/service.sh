#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The installed tree under a real systemd, from installation to removal: order, user and rights, ranks inside and outside the
# root, reload, kill -9, watchdog timeout, persistent levels, the socket, the report on demand and by its timer, the journal's
# fields, another state folder, and complete detaching. Prints a transcript.
source "$(dirname "$0")/lib_boot.sh"

service=ranktraced.service
exec 3>&1 # the transcript
units=(ranktraced.service ranktraced.socket ranktrace-report.service ranktrace-report.timer)
python=/usr/bin/python3
script=$source_dir/tests/e2e/train/train.py
"$python" -c 'import importlib.util as u, sys; sys.exit(not u.find_spec("torch"))' 2>/dev/null || skip "$python has no torch"
command -v bpftool >/dev/null || skip "no bpftool, needed to list BPF objects"

# say COMMAND...: runs it in the root and adds it to the transcript.
say() {
	echo "# $*" >&3
	inside "$@"
}
# drop_in UNIT NAME LINE...
drop_in() {
	local folder=$root/etc/systemd/system/$1.d name=$2
	shift 2
	mkdir -p "$folder"
	printf '%s\n' "$@" >"$folder/$name.conf"
}
property() { inside systemctl show --value --property "$1" "${2:-$service}"; }
is() { [ "$(property "$1")" = "$2" ]; }
journal_says() { inside journalctl -q --no-pager -o cat -u "$service" | grep -F "$1"; }
tracectl() { inside tracectl "$@"; }
query() { tracectl query --csv "$1" | tail -n +2 | tr -d '\r'; }
# up RESTARTS: the service is active after that many restarts.
up() { is ActiveState active && is SubState running && is NRestarts "$1" && tracectl status; }
levels() { tracectl print all; }
# steps PID: its stored steps, across daemons. more PID N: more than N.
steps() { query "select count(*) from steps where instance in (select instance from ranks where pid = $1)"; }
more() { [ "$(steps "$1")" -gt "$2" ]; }

boot_prepare
[ -x "$(find "$work/stage" -path '*/ranktrace/report' -type f)" ] || fail "no report is installed"
configuration=$(cd "$work/stage" && find . -path '*/ranktrace/ranktrace.conf' -not -path '*/sysusers.d/*' | sed 's/^\.//')
[ -n "$configuration" ] || fail "no configuration is installed"
# Only tracectl sets levels here: findings on other trainings must not.
sed -i 's/^#raise = yes/raise = no/' "$root$configuration"
grep -q '^raise = no' "$root$configuration" || fail "the configuration has no key raise"

echo "--- installed: user and presets"
systemd-sysusers --root="$root" >/dev/null 2>&1
grep '^ranktrace:' "$root/etc/passwd" || fail "systemd-sysusers did not create user ranktrace"
systemctl --root="$root" preset ranktraced.service ranktraced.socket ranktrace-report.timer 2>&1
for unit in multi-user.target.wants/ranktraced.service sockets.target.wants/ranktraced.socket timers.target.wants/ranktrace-report.timer; do
	[ -L "$root/etc/systemd/system/$unit" ] || fail "the preset does not enable $unit"
done
# The units with shorter times, so that the test can wait for them.
drop_in "$service" test '[Service]' WatchdogSec=3 RestartSec=1
boot
wait_for 60 inside systemctl is-active "$service" || fail "the unit does not become active"

echo "--- systemd's checks of the units"
paths=()
for unit in "${units[@]}"; do paths+=("$(property FragmentPath "$unit")"); done
say systemd-analyze verify --man=no "${paths[@]}" 2>&1 | tee "$work/verify"
! grep ranktrace <(tail -n +2 "$work/verify") || fail "systemd-analyze verify has warnings"
for unit in ranktraced ranktrace-report; do
	say systemd-analyze security --threshold=23 --no-pager "$unit.service" >"$work/security" || fail "$(tail -1 "$work/security")"
	tail -1 "$work/security"
done
say systemctl is-active ranktraced.socket ranktrace-report.timer || fail "the socket or the timer is not active"

echo "--- started after its socket, with readiness notification"
pid=$(property MainPID)
for pair in Type=notify SubState=running NRestarts=0 User=ranktrace; do
	is "${pair%%=*}" "${pair#*=}" || fail "${pair%%=*} is $(property "${pair%%=*}"), not ${pair#*=}"
done
[ "$(property ActiveEnterTimestampMonotonic ranktraced.socket)" -le "$(property ExecMainStartTimestampMonotonic)" ] ||
	fail "the service was started before its socket"
[ "$(property ExecMainStartTimestampMonotonic)" -lt "$(property ActiveEnterTimestampMonotonic)" ] || fail "the service was active before it was ready"
property After ranktrace-report.service | tr ' ' '\n' | grep -x "$service" >"$work/after" || fail "the report is not ordered after the daemon"
say systemctl status --no-pager -n 0 "$service" | grep -E 'Status: ".*L0 on' || fail "systemctl status has no status text of the daemon"

echo "--- rights"
inside cat "/proc/$pid/status" >"$work/status"
grep -E '^(Uid|CapEff|CapBnd|CapAmb|NoNewPrivs|Seccomp):' "$work/status"
[ "$(awk '$1 == "Uid:" { print $2 }' "$work/status")" = "$(awk -F: '$1 == "ranktrace" { print $3 }' "$root/etc/passwd")" ] ||
	fail "the daemon does not run as user ranktrace"
wanted=$(printf '%016x' $((1 << 2 | 1 << 19 | 1 << 38 | 1 << 39)))
for set in CapEff CapBnd CapAmb; do
	[ "$(awk -v set="$set:" '$1 == set { print $2 }' "$work/status")" = "$wanted" ] || fail "$set is not the four capabilities"
done
[ "$(awk '$1 == "Seccomp:" { print $2 }' "$work/status")" = 2 ] || fail "no system call filter is active"
# With the daemon's user and capabilities: memory of another user's process can be read, not written.
caps=-all,+dac_read_search,+sys_ptrace,+perfmon,+bpf
as_daemon() { inside setpriv --reuid=ranktrace --regid=ranktrace --clear-groups --inh-caps="$caps" --ambient-caps="$caps" --bounding-set="$caps" bash -c "$1"; }
as_daemon 'grep -q "^CapEff:.*'"$wanted"'" /proc/self/status && exec 3</proc/1/mem' || fail "cannot open memory of another process as the daemon can"
! as_daemon 'exec 3<>/proc/1/mem' 2>"$work/mem" || fail "the daemon can write memory of another user's process"
grep -q "Permission denied" "$work/mem" || fail "opening memory for writing: $(cat "$work/mem")"
inside stat -c '%U %a %n' /var/lib/ranktrace | grep '^ranktrace 750 ' || fail "the state folder has the wrong owner or mode"
! inside setpriv --reuid=nobody --regid=65534 --clear-groups tracectl set L0=false || fail "user nobody may change levels"

echo "--- in a private PID namespace the daemon reports that it sees no ranks"
has_component() { inside journalctl -q -o json -u "$service" "RANKTRACE_COMPONENT=$1" | grep '"CODE_FUNC"'; }
wait_for 5 has_component loop || fail "the journal has no field RANKTRACE_COMPONENT"
wait_for 5 journal_says "PID namespace of its own" || fail "the journal does not report the PID namespace"
tracectl status | grep 'PID namespace of its own' || fail "status does not report the PID namespace"
tracectl check >"$work/check" || true
grep 'missing.*pid namespace' "$work/check" || fail "check does not report the PID namespace"
! grep -E '^missing' "$work/check" | grep -v 'pid namespace' || fail "something else is missing under the unit's restrictions"

echo "--- with the machine's /proc: one rank in the root, one outside"
drop_in "$service" proc '[Service]' "BindReadOnlyPaths=$MACHINE_PROC:/proc"
inside systemctl daemon-reload
say systemctl restart "$service" || fail "the service does not start with the machine's /proc"
say tracectl check || fail "check reports something missing"
cp "$script" "$root/out/"
# in_root NAME RANK WORLD ARGS...: runs a training as a unit in the root.
in_root() {
	local name=$1 rank=$2 world=$3
	shift 3
	inside systemd-run --quiet --unit="$name" -E "RANK=$rank" -E "WORLD_SIZE=$world" -E OMP_NUM_THREADS=1 \
		-E "TRUTH=/out/$name.%r.json" "$python" /out/train.py "$@"
}
printf '#!/bin/sh\nexec nsenter --target %s --root --wd=/ --mount --uts --ipc --net --pid --cgroup -- tracectl "$@"\n' "$container" >"$work/tracectl"
chmod +x "$work/tracectl"
in_root training 5 6 --steps 20 --hidden 512 --linger 5
inner=
find_inner() { inner=$(machine_pid "$(property MainPID training.service)"); }
wait_for 10 find_inner || fail "the training did not start"
env OMP_NUM_THREADS=1 RANK=3 WORLD_SIZE=4 TRUTH="$work/outside.%r.json" "$python" "$script" --steps 20 --hidden 512 >"$work/outside.log" 2>&1 &
outer=$!
children+=("$outer")
echo "a training has pid $(property MainPID training.service) in the root and $inner on the machine; another outside the root has pid $outer"
stored() { [ -s "$root/out/training.5.json" ] && [ "$(steps "$inner")" -ge 20 ] && [ "$(steps "$outer")" -ge 20 ]; }
wait_for 60 stored || fail "the steps of both ranks are not stored: $(steps "$inner") and $(steps "$outer") of 20"
compare() { "$python" "$source_dir/tests/e2e/compare.py" "$work/tracectl" "$@" || fail "the store differs from the script's measurements"; }
compare "$root/out/training.5.json" 5 --pid "$inner" --shares dataloader,backward
compare "$work/outside.3.json" 3 --pid "$outer" --shares dataloader,backward

echo "--- collectives of three ranks in the root"
say tracectl set L1=true L3=true
say tracectl interval L1=10
levels >"$work/levels"
cp "$source_dir/tests/e2e/train/ops.py" "$root/out/"
declare -a op_pid
for rank in 0 1 2; do
	inside systemd-run --quiet --unit="ops$rank" -E "RANK=$rank" -E "LOCAL_RANK=$rank" -E WORLD_SIZE=3 -E OMP_NUM_THREADS=1 \
		-E MASTER_ADDR=127.0.0.1 -E MASTER_PORT=29511 -E "TRUTH=/out/kinds.%r.json" -E "READY=/out/kinds.%r.ready" \
		-E START=/out/kinds.start -E STOP=/out/kinds.stop "$python" /out/ops.py kinds
done
at_hand() {
	local rank
	for rank in 0 1 2; do
		[ -s "$root/out/kinds.$rank.ready" ] && op_pid[rank]=$(machine_pid "$(property MainPID "ops$rank.service")") || return 1
		[ "$(query "select count(*) from ranks where pid = ${op_pid[rank]}")" -eq 1 ] || return 1
	done
}
wait_for 60 at_hand || fail "the three ranks did not start"
touch "$root/out/kinds.start"
called() { [ "$(find "$root/out" -name 'kinds.*.json' | wc -l)" -eq 3 ]; }
wait_for 60 called || fail "the three ranks did not finish"
# Their own pids are those of the root.
for rank in 0 1 2; do sed -i "s/\"pid\": [0-9]*/\"pid\": ${op_pid[rank]}/" "$root/out/kinds.$rank.json"; done
collectives() { "$python" "$source_dir/tests/e2e/compare_ops.py" "$work/tracectl" "$root"/out/kinds.[0-9].json; }
wait_for 10 collectives || { collectives || fail "the store differs from the calls"; }
collectives
touch "$root/out/kinds.stop"

echo "--- kill -9: restarted with its levels, recording of the rank resumes"
in_root long 7 8 --steps 1000000 --hidden 64 --batch 16 --sleep-data 20
find_inner() { inner=$(machine_pid "$(property MainPID long.service)"); }
wait_for 10 find_inner || fail "the training did not start"
wait_for 30 more "$inner" 5 || fail "no steps stored of the rank"
held() { bpf_of "$(machine_pid "$(property MainPID)")" >"$work/held"; }
# lost: its BPF objects are gone from the kernel.
lost() { [ -z "$(bpf_alive "$work/held")" ]; }
held
count() { grep -c "^$1" "$work/held" || true; }
echo "held: $(count link) links, $(count prog) programs, $(count map) maps"
[ "$(count link)" -gt 3 ] && ! lost || fail "nothing is attached"
# again WHY RESTARTS: checks after each restart.
again() {
	wait_for 30 up "$2" || fail "not active after $1"
	[ "$(property MainPID)" != "$pid" ] || fail "the same process runs"
	pid=$(property MainPID)
	wait_for 5 lost || fail "BPF objects of the previous process exist"
	levels | diff "$work/levels" - || fail "levels did not survive $1"
	before=$(steps "$inner")
	wait_for 30 more "$inner" "$((before + 5))" || fail "no steps of the running rank after $1"
	held
	echo "$before steps before, $(steps "$inner") now; same levels; $(count link) links, the previous ones are gone"
	[ "$(count link)" -gt 3 ] || fail "nothing is attached after $1"
}
pid=$(property MainPID)
say systemctl kill --signal=KILL "$service"
again "kill -9" 1

echo "--- the watchdog: fed, then starved"
fed_at=$(property WatchdogTimestampMonotonic)
fed() { [ "$(property WatchdogTimestampMonotonic)" -gt "$fed_at" ]; }
wait_for 10 fed || fail "the watchdog is not fed"
say kill -STOP "$pid"
again "a watchdog's timeout" 2
journal_says "Watchdog timeout" || fail "the journal does not report the watchdog timeout"

echo "--- reload with another configuration, and with an invalid one"
as_nobody() { inside setpriv --reuid=nobody --regid=65534 --clear-groups tracectl set L2=false; }
! as_nobody || fail "user nobody may change levels"
cp "$root$configuration" "$work/ranktrace.conf"
sed -i 's/^#group = .*/group = nogroup/' "$root$configuration"
say systemctl reload "$service" || fail "reload fails"
wait_for 10 as_nobody || fail "the new configuration is not in effect"
wait_for 10 journal_says "configuration reloaded" || fail "the journal does not report the reload"
printf 'no_such_key = 1\n' >>"$root$configuration"
! say systemctl reload "$service" || fail "reload with an invalid configuration succeeds"
wait_for 10 journal_says "no_such_key" || fail "the journal does not report the invalid configuration"
wait_for 10 up 2 || fail "not active after a reload"
as_nobody || fail "an invalid configuration changed the settings"
is MainPID "$pid" || fail "the reload restarted the daemon"
cp "$work/ranktrace.conf" "$root$configuration"
say systemctl reload "$service"

echo "--- the report, on demand"
say systemctl start ranktrace-report || fail "no report on demand"
reports() { inside journalctl -q --no-pager -o json RANKTRACE_KIND=report | wc -l; }
reported() { [ "$(reports)" -ge "$1" ]; }
wait_for 5 reported 1 || fail "the journal has no report by its field"
say journalctl -q --no-pager -t ranktrace-report -o cat | tee "$work/report"
[ -s "$work/report" ] || fail "the journal has no report by its identifier"
say journalctl -q --no-pager RANKTRACE_KIND=report -o verbose | grep -E '^ +(RANKTRACE_|SYSLOG_ID|PRIORITY|_SYSTEMD_UNIT|_UID)' | tee "$work/report"
for field in VERDICT= SENTENCE= CARDS= NODES=; do grep -q "RANKTRACE_$field" "$work/report" || fail "the report has no field RANKTRACE_$field"; done
grep -q '_SYSTEMD_UNIT=ranktrace-report.service' "$work/report" || fail "the report has another unit"
for form in txt json html; do
	inside stat -L -c '%U %a %s %n' "/var/lib/ranktrace/report/latest.$form" | grep '^ranktrace ' || fail "no report saved as $form"
done

echo "--- the report, by its timer"
drop_in ranktrace-report.timer test '[Timer]' OnActiveSec=1s AccuracySec=100ms RandomizedDelaySec=0
inside systemctl daemon-reload
say systemctl restart ranktrace-report.timer
wait_for 20 reported 2 || fail "no report by the timer"
[ -n "$(property LastTriggerUSec ranktrace-report.timer)" ] || fail "the timer was never triggered"
say systemctl list-timers --no-pager --all ranktrace-report.timer

echo "--- stop: everything is detached; a connection starts the service"
held
! lost || fail "nothing is attached before the stop"
say systemctl stop "$service"
is Result success || fail "the service stopped with $(property Result)"
wait_for 5 lost || fail "after the stop the kernel has: $(bpf_alive "$work/held" | paste -sd,)"
inside systemctl is-active long.service >/dev/null || fail "the training ended with the service"
inside systemctl is-active ranktraced.socket >/dev/null || fail "the socket stopped with the service"
say tracectl status >"$work/status" || fail "a connection does not start the service"
head -2 "$work/status"
wait_for 20 is ActiveState active || fail "a connection does not start the service"
[ "$(property MainPID)" != "$pid" ] || fail "the service did not stop"
levels | diff "$work/levels" - || fail "levels did not survive a stop"
held

echo "--- another state folder: the journal's advice is sufficient"
inside install -d -o ranktrace -g ranktrace -m 750 /srv/ranktrace
sed -i 's|^#state_dir = .*|state_dir = /srv/ranktrace|' "$root$configuration"
! say systemctl restart "$service" || fail "the service starts with a read-only state folder"
wait_for 5 journal_says "needs ReadWritePaths=" || fail "the journal does not name ReadWritePaths="
inside systemctl stop "$service" ranktraced.socket
drop_in "$service" state '[Service]' ReadWritePaths=/srv/ranktrace
inside systemctl daemon-reload
inside systemctl reset-failed
say systemctl start ranktraced.socket "$service" || fail "the service does not start with another state folder"
[ -d "$root/srv/ranktrace/db" ] || fail "the store is not in the configured folder"
echo RANKTRACE_STATE_DIR=/srv/ranktrace >>"$root${configuration%/*}/report.conf"
before=$(reports)
say systemctl start ranktrace-report || fail "no report for another state folder"
wait_for 5 reported $((before + 1)) || fail "the journal has no report for another state folder"
held

echo "--- remove: only the state remains"
# As in the package's scripts (%systemd_preun, %postun).
say systemctl disable --now ranktraced.service ranktraced.socket ranktrace-report.timer || fail "the units cannot be disabled"
is Result success || fail "the service stopped with $(property Result)"
(cd "$work/stage" && find . -not -type d) | sed "s|^\./|$root/|" >"$work/installed"
xargs -d '\n' rm -f <"$work/installed"
inside systemctl daemon-reload
wait_for 5 lost || fail "after the removal the kernel has: $(bpf_alive "$work/held" | paste -sd,)"
! inside pgrep -u ranktrace || fail "a process of user ranktrace remains"
[ ! -e "$root/run/ranktrace/control.sock" ] && ! inside test -e /run/ranktrace/control.sock || fail "the socket remains"
left=$(inside find /sys/fs/bpf /run/ranktrace /etc/systemd/system/*.wants -name '*rank*' -not -type d 2>/dev/null || true)
[ -z "$left" ] || fail "files remain: $left"
for unit in "${units[@]}"; do
	[ "$(property LoadState "$unit")" = not-found ] || [ "$(property ActiveState "$unit")" = inactive ] || fail "$unit remains"
done
inside systemctl is-active long.service >/dev/null || fail "the training ended with the service"
say ls /var/lib/ranktrace
[ -d "$root/var/lib/ranktrace/db" ] || fail "the state was removed"
echo PASS
