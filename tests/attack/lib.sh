# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Shared by the attacks: the daemon as the unit runs it, a victim whose steps and operations are compared exactly, an
# attacker without privileges. An attack is NN_NAME.sh; it sources this file and ends with attack_done:
#
#   attack_daemon_start [SECTION.KEY=VALUE...]   plain user, four capabilities, 512 MiB; L1 is on; answers
#   attack_victim_start                          one PyTorch training and two ranks with collectives, of another user
#   attack_begin                                 status is asked for from now on
#   attacker COMMAND...                          as uid 65534 with no capability; attacker_start: in the background
#   attack_status_under_1s                       status answered within a second, the loop stopped for less than 250 ms. A
#                                                tracectl may be late where one that asks nobody is as well
#   attack_victim_exact                          stops the victim: the store has its steps and calls, each once, and no drops
#   attack_victim_steps_exact                    the same of its steps, where L1 was off for a while
#   attack_daemon_alive                          same process, no kill for memory
#   attack_done
#
# With ATTACK_TOGETHER, the folder of together.sh, there is one daemon and one victim for all attacks, which it judges: the
# functions above then do nothing but this attack's part. ATTACK_UID is then the attacker's own user.
#
# From tests/e2e/lib.sh: $work (for everything, removed at the end), $state, $build, $tracectl, fail, skip, query, wait_for,
# flush. $attacker_dir is the attacker's own folder. The daemon's log is $work/daemon.log.
source "$(dirname "${BASH_SOURCE[0]}")/../e2e/lib.sh"

ATTACK_MEMORY_MIB=512	# MemoryMax of systemd/ranktraced.service
ATTACK_STATUS_MS_MAX=1000
ATTACK_LOOP_MS_MAX=250
ATTACK_TOGETHER_PATIENCE=4	# times as long as alone
daemon_uid=64990 # none of these has an entry in /etc/passwd
victim_uid=64991
attacker_uid=${ATTACK_UID:-65534}
attacker_dir=$work/attacker
attack_watch_pid=
attack_first_daemon=
attack_is_weak=
victim_pids=()
victim_truths=()
attack_cgroups=()

plain_user=(--clear-groups --no-new-privs "--inh-caps=-all" "--bounding-set=-all")
grep -q ambient-caps <<<"$(setpriv --help 2>/dev/null)" || skip "setpriv of this util-linux has no --ambient-caps"
[ -x "$build/tests/fixtures/fixture_rank" ] || skip "the fixture program is not built"

# ---- cgroups: a limit for the daemon, and every process of the attacker, also those that left their parents ----

# attack_cgroup NAME: makes a cgroup with memory accounting and prints its folder; fails where there are none.
attack_cgroup() {
	local base=/sys/fs/cgroup folder
	if [ -d "$base/memory" ]; then
		base=$base/memory
	elif [ -f "$base/cgroup.subtree_control" ]; then
		grep -qw memory "$base/cgroup.subtree_control" || echo +memory >"$base/cgroup.subtree_control" || return 1
	else
		return 1
	fi 2>/dev/null
	folder=$base/ranktrace-attack-$1-$$
	mkdir "$folder" 2>/dev/null || return 1
	echo "$folder"
}
# attack_cgroup_value FOLDER V1-FILE V2-FILE
attack_cgroup_value() { cat "$1/$2" 2>/dev/null || cat "$1/$3" 2>/dev/null; }
attack_memory_peak_mib() { echo $(($(attack_cgroup_value "$daemon_cgroup" memory.max_usage_in_bytes memory.peak) >> 20)); }
attack_memory_kills() { attack_cgroup_value "$daemon_cgroup" memory.oom_control memory.events | sed -n 's/^oom_kill //p'; }
attack_limit() {
	local file
	for file in memory.limit_in_bytes memory.max; do
		[ ! -e "$1/$file" ] || { echo "${ATTACK_MEMORY_MIB}M" >"$1/$file"; return; }
	done
	return 1
}
attack_cgroup_kill() {
	local pid
	for _ in $(seq 100); do
		[ -n "$(cat "$1/cgroup.procs")" ] || return 0
		while read -r pid; do kill -9 "$pid" 2>/dev/null || true; done <"$1/cgroup.procs"
		sleep 0.05
	done
}
attack_cleanup() {
	set +e
	local folder
	for folder in "${attack_cgroups[@]}"; do attack_cgroup_kill "$folder"; done
	[ -z "$attack_watch_pid" ] || kill -9 "$attack_watch_pid" 2>/dev/null || true
	[ "$(type -t attack_own_cleanup)" != function ] || attack_own_cleanup
	e2e_cleanup # waits for them
	for folder in "${attack_cgroups[@]}"; do wait_for 10 rmdir "$folder" 2>/dev/null || echo "cannot remove $folder" >&2; done
}
trap attack_cleanup EXIT

no_cgroup="no memory cgroup can be made here: the daemon runs without its limit of $ATTACK_MEMORY_MIB MiB"
daemon_cgroup=
if [ -z "${ATTACK_TOGETHER:-}" ]; then
	daemon_cgroup=$(attack_cgroup daemon) && attack_cgroups+=("$daemon_cgroup") && attack_limit "$daemon_cgroup" || {
		echo "NOTE: $no_cgroup"
		daemon_cgroup=
	}
fi
# The daemon has a share of the CPUs of its own, as every unit has under systemd: here most of all, so that what is judged is
# the daemon, and not how many other processes the machine runs (attack_weak is the same of the attacker).
daemon_cpu_cgroup=
if [ -z "${ATTACK_TOGETHER:-}" ] && [ -d /sys/fs/cgroup/cpu ] && mkdir /sys/fs/cgroup/cpu/ranktrace-attack-daemon-$$ 2>/dev/null; then
	daemon_cpu_cgroup=/sys/fs/cgroup/cpu/ranktrace-attack-daemon-$$
	attack_cgroups+=("$daemon_cpu_cgroup")
	echo 65536 >"$daemon_cpu_cgroup/cpu.shares"
elif [ -n "$daemon_cgroup" ] && [ -e "$daemon_cgroup/cpu.weight" ]; then
	echo 1000 >"$daemon_cgroup/cpu.weight"
fi
attacker_cgroup=$(attack_cgroup attacker) && attack_cgroups+=("$attacker_cgroup") || attacker_cgroup=
# Enters a cgroup, "" for none, then runs the command.
enter=(bash -c '[ -z "$0" ] || echo $$ >"$0/cgroup.procs"; exec "$@"')
install -d -m 700 -o "$attacker_uid" -g "$attacker_uid" "$attacker_dir"

# attack_figure NAME=VALUE...: for the table of run.sh.
attack_figure() {
	echo "figures: $*"
	[ -z "${ATTACK_FIGURES:-}" ] || printf '%s\n' "$@" >>"$ATTACK_FIGURES"
}

# Where the daemon ended, that comes first: what else failed follows from it.
eval "e2e_$(declare -f fail)"
fail() {
	local why=$1
	[ -z "$attack_first_daemon" ] || kill -0 "$attack_first_daemon" 2>/dev/null ||
		why="the daemon ended${daemon_cgroup:+, killed $(attack_memory_kills) times for memory}; then: $why"
	e2e_fail "$why"
}

# ---- the daemon ----

attack_daemon_start() {
	local capabilities names=() list=-all name
	read -r -a capabilities < <(sed -n 's/^AmbientCapabilities=//p' "$build/systemd/ranktraced.service")
	for name in "${capabilities[@]}"; do names+=("${name#CAP_}"); done
	[ "${#names[@]}" -eq 4 ] || fail "the unit names ${#names[@]} capabilities, not four: ${names[*]}"
	for name in "${names[@]}"; do list+=,+${name,,}; done
	[ -e "$state" ] || install -d -m 700 -o "$daemon_uid" -g "$daemon_uid" "$state"
	install -d -m 755 -o "$daemon_uid" -g "$daemon_uid" "$work/run"
	touch "$work/daemon.log"
	export RANKTRACE_SOCKET=$work/run/control.sock
	daemon_prefix=("${enter[@]}" "$daemon_cpu_cgroup" "${enter[@]}" "$daemon_cgroup" setpriv "--reuid=$daemon_uid" "--regid=$daemon_uid" --clear-groups --no-new-privs
		"--inh-caps=$list" "--bounding-set=$list" "--ambient-caps=$list")
	e2e_start "$@"
	"$tracectl" set L1=true >/dev/null || fail "L1 cannot be turned on"
	attack_first_daemon=$daemon
}
attack_daemon_alive() {
	local kills=0
	kill -0 "$attack_first_daemon" 2>/dev/null || fail "the daemon ended"
	if [ -n "$daemon_cgroup" ]; then
		kills=$(attack_memory_kills)
		attack_figure "memory_mib=$(attack_memory_peak_mib)"
	fi
	[ "${kills:-0}" -eq 0 ] || fail "the daemon was killed $kills times for memory"
}

# ---- the victim ----

as_victim=(setpriv "--reuid=$victim_uid" "--regid=$victim_uid" "${plain_user[@]}")

# Copies programs where a user other than root can run them: the build folder may be private.
attack_install() {
	install -d -m 755 "$work/bin"
	install -m 755 "$@" "$work/bin/"
}
victim_known() { [ "$(query "select count(distinct pid) from ranks where pid in ($(IFS=,; echo "${victim_pids[*]}"))")" -eq "${#victim_pids[@]}" ]; }
victim_called() {
	local file
	for file in "${victim_truths[@]}"; do [ "$(wc -l <"$file")" -ge 20 ] || return 1; done
}
# attack_victim_start: it trains and calls when this returns.
attack_victim_start() {
	local rank folder=$work/victim
	install -d -m 755 -o "$victim_uid" -g "$victim_uid" "$folder"
	attack_install "$build"/tests/fixtures/fixture_rank "$build"/fixtures/lib*.so* "$source_dir/tests/e2e/train/train.py"
	RANK=0 WORLD_SIZE=1 TRUTH="$folder/steps.json" "${as_victim[@]}" "$python" "$work/bin/train.py" --steps 100000 --hidden 64 \
		--batch 16 --sleep-data 5 --wait 300 --start-file "$folder/go" --stop-file "$folder/stop" >"$folder/train.log" 2>&1 &
	victim_pids=($!)
	for rank in 0 1; do
		victim_truths+=("$folder/calls.$rank")
		RANK=$rank LOCAL_RANK=$rank WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 JOB_NUMBER=$$ LD_LIBRARY_PATH=$work/bin "${as_victim[@]}" \
			"$work/bin/fixture_rank" loop "$folder/calls.$rank" "$folder/go" "$folder/stop" >>"$folder/fixture.log" 2>&1 &
		victim_pids+=($!)
	done
	children+=("${victim_pids[@]}")
	wait_for 60 victim_known || fail "the daemon does not know the victim"
	wait_for 60 probed "${victim_pids[0]}" || fail "no probes on the victim"
	sleep 1 # those of libraries of the other two
	touch "$folder/go"
	wait_for 30 victim_called || fail "the victim does not call"
	wait_for 60 stepping "${victim_pids[0]}" 3 || fail "the victim makes no steps"
}
attack_victim_steps_exact() {
	local pid stored steps
	touch "$work/victim/stop"
	for pid in "${victim_pids[@]}"; do
		wait "$pid" || { tail -5 "$work/victim"/*.log >&2; fail "the victim failed"; }
	done
	flush
	steps=$(sed 's/.*"steps": \([0-9]*\).*/\1/' "$work/victim/steps.json")
	stored=$(steps_of "${victim_pids[0]}")
	echo "victim: $steps steps made, $stored stored"
	[ "$steps" -gt 10 ] || fail "the victim made $steps steps: too few to say anything"
	[ "$stored" -eq "$steps" ] || fail "$stored of the victim's $steps steps are stored"
	[ "$(query "select count(*) from drops where uid = $victim_uid")" -eq 0 ] || fail "the victim lost records beyond its part"
	attack_figure "steps=$steps"
}
attack_victim_exact() {
	local i pairs=()
	attack_victim_steps_exact
	for i in "${!victim_truths[@]}"; do pairs+=("${victim_pids[i + 1]}:${victim_truths[i]}"); done
	"$python_here" "$source_dir/tests/e2e/fixture_compare.py" "$tracectl" calls "${pairs[@]}" || fail "the victim's calls differ from the stored ones"
	attack_figure "calls=$(cat "${victim_truths[@]}" | wc -l)"
}

# ---- the attacker ----

as_attacker=("${enter[@]}" "$attacker_cgroup" setpriv "--reuid=$attacker_uid" "--regid=$attacker_uid" "${plain_user[@]}")
attacker() { (cd "$attacker_dir" && exec "${as_attacker[@]}" "$@"); }
# attacker_start COMMAND...: in the background; its pid is in $last.
attacker_start() {
	(cd "$attacker_dir" && exec "${as_attacker[@]}" "$@") &
	last=$!
	children+=("$last")
}

# attack_ranks_lost SOURCE: ends the attacker's ranks; what they lost is in the view drops, by that source, with their user.
attack_ranks_lost() {
	[ -n "$attacker_cgroup" ] || return 0
	attack_cgroup_kill "$attacker_cgroup"
	attack_lost() { [ "$(query "select coalesce(sum(count), 0) from drops where uid = $attacker_uid and instance is not null and source = '$1'")" -gt 0 ]; }
	wait_for 30 attack_lost "$1" || fail "drops has nothing of what the attacker's ranks lost: $(query "select source, uid, sum(count) from drops group by 1, 2")"
}

# attack_weak: the attacker's processes get a CPU only where nobody else wants it, as under systemd, where his slice is no
# heavier than others: what is judged is the daemon, not the scheduler.
attack_weak() {
	[ -z "$attack_is_weak" ] || return 0
	attack_is_weak=1
	local folder=/sys/fs/cgroup/cpu/ranktrace-attack-weak-$$
	[ -d /sys/fs/cgroup/cpu ] || folder=/sys/fs/cgroup/ranktrace-attack-weak-$$
	mkdir "$folder" 2>/dev/null || return 0
	attack_cgroups+=("$folder")
	echo 2 >"$folder/cpu.shares" 2>/dev/null || echo 1 >"$folder/cpu.weight" 2>/dev/null || true
	[ -d /sys/fs/cgroup/cpu ] || return 0 # one hierarchy: the group of the memory has this process
	as_attacker=("${enter[@]}" "$folder" "${as_attacker[@]}")
}

# ---- what is measured during the attack ----

attack_begin() {
	attacker id -u | grep -qx "$attacker_uid" || fail "the attacker is not uid $attacker_uid"
	attacker grep -qE '^CapBnd:[[:space:]]*0+$' /proc/self/status || fail "the attacker has capabilities"
	[ -z "$attacker_cgroup" ] || attacker grep -q "/$(basename "$attacker_cgroup")\$" /proc/self/cgroup || fail "the attacker is not in its cgroup"
	# With the daemon's share: a client that has no CPU says nothing of the daemon.
	"${enter[@]}" "$daemon_cpu_cgroup" "$python_here" "$source_dir/tests/attack/watch.py" "$tracectl" "$RANKTRACE_SOCKET" "$work/watch.json" &
	attack_watch_pid=$!
	wait_for 20 test -s "$work/watch.json" || fail "status was never answered"
}
attack_status_under_1s() {
	local answers status_ms loop_ms ready_ms unanswered direct_ms alone_ms late alone_late
	kill -TERM "$attack_watch_pid" 2>/dev/null || fail "status is not watched: attack_begin first"
	wait "$attack_watch_pid" || true
	attack_watch_pid=
	read -r answers unanswered status_ms loop_ms ready_ms direct_ms alone_ms late alone_late <"$work/watch.json"
	attack_figure "status_ms=$status_ms" "loop_ms=$loop_ms" "direct_ms=$direct_ms"
	echo "status: $answers answers, the slowest after $status_ms ms; the loop's longest stop was $loop_ms ms, $ready_ms ms of it ready without a CPU"
	echo "of the machine: without a new process the slowest came after $direct_ms ms; a tracectl that asks nobody took up to $alone_ms ms;" \
		"beyond a second were $late that asked and $alone_late that did not"
	[ "$unanswered" -eq 0 ] || fail "$unanswered requests for status were not answered"
	[ "$direct_ms" -lt "$ATTACK_STATUS_MS_MAX" ] || fail "status was answered after $direct_ms ms on a connection of a process that runs"
	# Where all CPUs are taken, each new process starts late, also one that does not ask the daemon.
	[ "$status_ms" -lt "$ATTACK_STATUS_MS_MAX" ] || [ "$alone_ms" -ge "$ATTACK_STATUS_MS_MAX" ] || fail "status was answered after $status_ms ms"
	[ "$loop_ms" -lt "$ATTACK_LOOP_MS_MAX" ] || fail "the loop stopped for $loop_ms ms, $ready_ms ms of it ready without a CPU"
}
attack_done() { echo "PASS"; }

# ---- beside others ----

if [ -n "${ATTACK_TOGETHER:-}" ]; then
	attack_daemon_start() {
		state=$ATTACK_TOGETHER/state
		export RANKTRACE_SOCKET=$ATTACK_TOGETHER/run/control.sock
		ln -s "$ATTACK_TOGETHER/daemon.log" "$work/daemon.log"
		attack_first_daemon=$(cat "$ATTACK_TOGETHER/daemon.pid")
		attack_weak
	}
	attack_victim_start() {
		read -r -a victim_pids <"$ATTACK_TOGETHER/victim.pids"
		attack_install "$build"/tests/fixtures/fixture_rank "$build"/fixtures/lib*.so* "$source_dir/tests/e2e/train/train.py"
	}
	# Beside the others everything takes longer: probes on a new library, most of all.
	eval "attack_alone_$(declare -f wait_for)"
	wait_for() { attack_alone_wait_for $(($1 * ATTACK_TOGETHER_PATIENCE)) "${@:2}"; }
	export ATTACK_PROBE_WAIT_S=$((3 * ATTACK_TOGETHER_PATIENCE))
	attack_begin() { :; }
	attack_status_under_1s() { :; }
	attack_victim_exact() { :; }
	attack_victim_steps_exact() { :; }
	attack_daemon_alive() { kill -0 "$attack_first_daemon" 2>/dev/null || fail "the daemon ended"; }
fi
