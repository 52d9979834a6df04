#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# CPU contention: the off-CPU intervals of the preempted rank name the preemptor and its pid; those of the other do not.
source "$(dirname "$0")/lib.sh"

cpus=($(taskset -pc $$ | sed 's/.*: //' | tr ',' '\n' | awk -F- '{for (i = $1; i <= ($2 ? $2 : $1); i++) print i}'))
[ "${#cpus[@]}" -ge 2 ] || skip "needs two CPUs: one per rank"
e2e_start
"$tracectl" set L3=true
for rank in 0 1; do
	train job RANK=$rank WORLD_SIZE=2 -- --mode plain --steps 400
	rank_pid[rank]=$last
	taskset -apc "${cpus[rank]}" "$last" >/dev/null
done
wait_for 60 stepping "${rank_pid[1]}" 10 || fail "the training did not start"
"$build/tests/e2e/preemptor" "${cpus[1]}" 6 &
preemptor=$!
children+=("$preemptor")
sleep 6.5
flush
"$tracectl" query "select rank, previous_name, previous_pid, next_name, next_pid, count(*) times, sum(run_delay_ns) / 1000000 waited_ms from offcpu
	where run_delay_ns > 0 group by rank, previous_pid, next_pid order by waited_ms desc limit 6"
named() { query "select count(*) from offcpu where rank = $1 and thread_id = ${rank_pid[$1]} and next_pid = $preemptor and next_name = 'rt-preemptor'"; }
echo "preemptions by the preemptor: rank 1 $(named 1), rank 0 $(named 0)"
[ "$(named 1)" -gt 20 ] || fail "the preempted rank does not name the preemptor"
[ "$(named 0)" -eq 0 ] || fail "the other rank names the preemptor"
top=$(query "select next_pid from offcpu where rank = 1 and thread_id = ${rank_pid[1]} and next_pid <> 0 group by next_pid order by sum(run_delay_ns) desc limit 1")
[ "$top" = "$preemptor" ] || fail "longest run delay is from pid $top, not the preemptor (pid $preemptor)"
e2e_done
