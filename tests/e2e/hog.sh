#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A rank whose core is taken by a CPU hog shows the hog's name and pid; the other rank does not.
source "$(dirname "$0")/lib.sh"

cpus=($(taskset -pc $$ | sed 's/.*: //' | tr ',' '\n' | awk -F- '{for (i = $1; i <= ($2 ? $2 : $1); i++) print i}'))
[ "${#cpus[@]}" -ge 2 ] || skip "needs two CPUs to tell a slowed rank from another"
e2e_start
"$tracectl" set L3=true
for rank in 0 1; do
	train job RANK=$rank WORLD_SIZE=2 -- --mode plain --steps 400
	rank_pid[rank]=$last
	taskset -apc "${cpus[rank]}" "$last" >/dev/null
done
wait_for 60 stepping "${rank_pid[1]}" 10 || fail "the training did not start"
"$build/tests/e2e/hog" "${cpus[1]}" 6 &
hog=$!
children+=("$hog")
sleep 6.5
flush
"$tracectl" query "select rank, previous_name, previous_pid, next_name, next_pid, count(*) times, sum(run_delay_ns) / 1000000 waited_ms from offcpu
	where run_delay_ns > 0 group by rank, previous_pid, next_pid order by waited_ms desc limit 6"
named() { query "select count(*) from offcpu where rank = $1 and thread_id = ${rank_pid[$1]} and next_pid = $hog and next_name = 'rt-hog'"; }
echo "rank 1 lost its CPU to the hog $(named 1) times, rank 0 $(named 0) times"
[ "$(named 1)" -gt 20 ] || fail "the hog is not named for the rank that it slows"
[ "$(named 0)" -eq 0 ] || fail "the hog is named for the other rank"
top=$(query "select next_pid from offcpu where rank = 1 and thread_id = ${rank_pid[1]} and next_pid <> 0 group by next_pid order by sum(run_delay_ns) desc limit 1")
[ "$top" = "$hog" ] || fail "the hog (pid $hog) is not first: pid $top is"
e2e_done
