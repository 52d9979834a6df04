#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# How ranks end, and where: an exception that nobody catches, a fault, an abort of another thread, a signal, _exit(). Rows,
# findings, and what they say of a rank that waits. Lines are those of the script.
source "$(dirname "$0")/lib.sh"

kinds=(exception fault killed spin exit abort deep normal status)
# A process that maps a training library is a rank. With ENDS_ROOT another Python than the system's.
library=$build/tests/e2e/libtorch_launch.so
script=$source_dir/tests/e2e/train/dying.py
line() { grep -n "# line of $1\$" "$script" | cut -d: -f1; }
run=("$python")
if [ -n "${ENDS_PYTHON:-}" ]; then run=("$ENDS_PYTHON"); fi
if [ -n "${ENDS_ROOT:-}" ]; then
	mkdir -p "$ENDS_ROOT$work"
	cp "$library" "$script" "$ENDS_ROOT$work/"
	TORCH_ROOT=$ENDS_ROOT # its folder is removed at the end
	library=$work/libtorch_launch.so script=$work/dying.py
	run=(chroot "$ENDS_ROOT" "$python")
fi
e2e_start
declare -A pids
for i in "${!kinds[@]}"; do
	RANK=0 WORLD_SIZE=1 TORCHELASTIC_RUN_ID=${kinds[i]} "${run[@]}" "$script" "$library" "$work/start" "${kinds[i]}" >"$work/${kinds[i]}.log" 2>&1 &
	pids[${kinds[i]}]=$!
done
# Of one job the first to fail is the finding: others follow it. The third goes on, so that the others' ends are errors.
for i in 1 2 3; do
	RANK=$i WORLD_SIZE=4 TORCHELASTIC_RUN_ID=team "${run[@]}" "$script" "$library" "$work/never" killed >"$work/team$i.log" 2>&1 &
	pids[team$i]=$!
done
# A rank whose cgroup has less memory than it wants.
memory_cgroup() {
	local base=/sys/fs/cgroup file=memory.limit_in_bytes
	if [ -d "$base/memory" ]; then
		base=$base/memory
	else
		file=memory.max
		grep -qw memory "$base/cgroup.subtree_control" || echo +memory >"$base/cgroup.subtree_control" || return 1
	fi 2>/dev/null
	cgroup=$base/ranktrace-ends-$$
	mkdir "$cgroup" && echo 100M >"$cgroup/$file"
}
cgroup=
on_cleanup() { [ -z "$cgroup" ] || rmdir "$cgroup" || true; }
ranks=$((${#kinds[@]} + 3)) crashes=7
if memory_cgroup; then
	(
		echo "$BASHPID" >"$cgroup/cgroup.procs"
		RANK=0 WORLD_SIZE=1 TORCHELASTIC_RUN_ID=memory exec "${run[@]}" "$script" "$library" "$work/start" memory >"$work/memory.log" 2>&1
	) &
	pids[memory]=$!
	ranks=$((ranks + 1)) crashes=$((crashes + 1))
else
	echo "no cgroup with a limit of memory can be made here: a rank that is killed for memory is not tested"
fi
children=("${pids[@]}")
followed() { "$tracectl" status | grep -q "$ranks ranks followed, $ranks with Python frames" && grep -q 'python3[^ ]*: .*probes attached' "$work/daemon.log"; }
wait_for 30 followed || fail "not all ranks are followed"
# Stages have the stack of their begin.
staged() { query "select frames from stage_stacks join call_stacks on id = stack where stage = 'gc'" | tr '\n' '|' | grep -q "main ([^|]*dying.py:$(line stage))\""; }
wait_for 15 staged || fail "no stack of a stage: $(query "select stage, name, frames from stage_stacks left join call_stacks on id = stack")"
touch "$work/start" ${ENDS_ROOT:+"$ENDS_ROOT$work/start"}
sleep 1
kill -9 "${pids[killed]}" "${pids[spin]}" "${pids[team1]}"
sleep 0.3
kill -SEGV "${pids[team2]}"

# row KIND MAIN JOB: detail and innermost frame.
row() { query "select coalesce(detail, '-'), frames from ends join ranks using (instance) left join call_stacks on id = stack where ends.kind = '$1' and main = $2 and job = '$3'" | tr '\n' '|'; }
all_ended() { [ "$(query "select count(*) from ranks where ended = 1")" -ge $((${#kinds[@]} + 2)) ]; }
wait_for 10 all_ended || fail "ranks live: $(query "select job, ended from ranks")"
# shows JOB KIND MAIN FUNCTION LINE [DETAIL]
shows() {
	local got
	for _ in $(seq 60); do
		got=$(row "$2" "$3" "$1")
		[[ $got == *"$4 ("*"dying.py:$5)\""* && $got == "${6:-}"* ]] && return 0
		sleep 0.1
	done
	fail "$1: ends has $2: '$got', not $4 at line $5 ${6:-}"
}
shows exception exception 1 parse "$(line exception)" ValueError
shows deep exception 1 deep "$(line deep)" RecursionError
shows fault signal 1 fault "$(line fault)" "SIGSEGV in lib"
shows killed killed 1 wait_forever "$(line killed)" "SIGKILL from "
shows spin killed 1 spin_forever "$(line spin)"
shows abort signal 0 abort_later "$(line abort)" SIGABRT
[[ $(row killed 1 abort) == *"wait_for_other"* ]] || fail "the main thread of an abort: $(row killed 1 abort)"
if query "select 1 from ends where kind = 'exit'" | grep -q 1; then
	shows exit exit 1 give_up "$(line exit)"
else
	echo "the kernel reports an exit after the memory is gone (before Linux 6.16)"
fi
[ -z "$(row killed 1 normal)$(row exit 1 normal)" ] || fail "a normal end has rows"
status() { query "select coalesce(exit_status, 'signal ' || exit_signal) from ranks where job = '$1' and ended = 1 order by rank" | tr '\n' ' '; }
for pair in "exception=1 " "fault=signal 11 " "killed=signal 9 " "exit=3 " "abort=signal 6 " "normal=0 " "status=7 " "team=signal 9 signal 11 "; do
	[ "$(status "${pair%%=*}")" = "${pair#*=}" ] || fail "status of ${pair%%=*}: $(status "${pair%%=*}")"
done

# Findings: errors, and the first end of a job that goes on.
sentence() { query "select sentence from findings where kind = 'crash' and job = '$1'"; }
found() { [ "$(query "select count(*) from findings where kind = 'crash'")" -eq $crashes ]; }
wait_for 10 found || fail "findings: $(query "select job, sentence from findings")"
[[ $(sentence exception) == *"ended with an error: exit status 1, ValueError in parse (dying.py:$(line exception))"* ]] || fail "$(sentence exception)"
[[ $(sentence fault) == *"SIGSEGV in "*"fault (dying.py:$(line fault))"* ]] || fail "$(sentence fault)"
[[ $(sentence abort) == *"SIGABRT in abort_later (dying.py:$(line abort))"* ]] || fail "$(sentence abort)"
[[ $(sentence status) == *"exit status 7"* ]] || fail "$(sentence status)"
[[ $(sentence team) == "rank 1 ("*"SIGKILL from "*" (pid $$) in main (dying.py:"* ]] || fail "$(sentence team)"
[ -z "$cgroup" ] || [[ $(sentence memory) == *"SIGKILL from the kernel, out of memory: limit of control group "*"/${cgroup##*/} in fill_memory (dying.py:$(line memory))"* ]] || fail "$(sentence memory)"
[ -z "$(sentence killed)$(sentence normal)" ] || fail "a job that was killed as a whole is a finding: $(sentence killed)"
"$tracectl" findings --all --verbose >"$work/findings"
grep -q "(main), signal, SIGSEGV in lib.*> fault (dying.py:$(line fault))" "$work/findings" || fail "findings --verbose: $(cat "$work/findings")"
"$tracectl" ops >"$work/ops" 2>&1 || true
grep -q "ago: rank 0 ended: SIGSEGV in fault (dying.py:$(line fault))" "$work/ops" || fail "ops: $(cat "$work/ops")"
kill -9 "${pids[team3]}"
children=()
e2e_stop
e2e_done
