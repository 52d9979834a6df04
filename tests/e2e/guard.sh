#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The guard on a real rank: hits are counted with their cost; L3, which was on at the daemon's start and exceeds a small budget, is
# on in windows, and the store says when it watched; set --for makes L3 whole. L0 exceeds it, too, and goes to windows once the
# steps have been alike for 20 s: each of them is counted all the same. A suspicion holds its windows open. The daemon leaves the
# CPU of a pinned rank.
source "$(dirname "$0")/lib.sh"

mkdir -m 700 "$state"
printf '[level "L3"]\non = true\n' >"$state/levels" # set long ago
e2e_start findings.raise=no budget.rank_percent=0.01 budget.sample_l0=yes
train job RANK=0 WORLD_SIZE=1 -- --mode plain --steps 100000 --sleep-data 2 --hidden 64
pid=$last
# level NAME EXPRESSION: of the level l, as `print` has it.
level() { "$tracectl" print all --json | "$python_here" -c 'import json, sys
l = json.load(sys.stdin)[sys.argv[1]]
sys.exit(not eval(sys.argv[2]))' "$1" "$2"; }
sampled() { level L3 'l["on"] and l.get("coverage", 1) < 1'; }
wait_for 60 sampled || fail "L3 costs more than a hundredth of a percent, and is on all the time"
"$tracectl" status | sed -n '/^levels/,/^store/p'
"$tracectl" status --json | "$python_here" -c 'import json, sys
guard = json.load(sys.stdin)["guard"]
cost = {c["level"]: c for c in guard["costs"] if c["pid"] == int(sys.argv[1])}
assert guard["calibrated"] and guard["budget_share"] == 0.0001, guard
assert 0 < guard["hit_warm_ns"] <= guard["hit_cold_ns"], guard
for level in "L0", "L3":
    c = cost[level]
    assert c["hits_per_s"] > 1 and 0 < c["share_min"] <= c["share"] <= c["share_max"] < 1, c' "$pid" || fail "status does not show what the rank pays"
off() { [ "$("$tracectl" status --json | "$python_here" -c 'import json, sys
print(sum(c["probes_attached"] for c in json.load(sys.stdin)["collectors"] if c["name"] == "sched"))')" -eq 0 ]; }
wait_for 20 off || fail "no window of L3 ends"
sleep 5 # of which L3 sees little; before, it was on as a whole
"$tracectl" set L3=true --for 1h >/dev/null
level L3 'l["on"] and "coverage" not in l' || fail "L3 is sampled although it was set for a time"
wait_for 60 level L0 'l["on"] and l.get("coverage", 1) < 1' || fail "L0 costs more than a hundredth of a percent, and is on all the time"
sleep 3
"$tracectl" status | sed -n '/^levels/,/^ranks/p'
"$tracectl" set L0=true >/dev/null
level L0 'l["on"] and "coverage" not in l' || fail "L0 is sampled although it was set"
mapfile -t cpus < <("$python_here" -c 'import os
for cpu in sorted(os.sched_getaffinity(0)): print(cpu)')
# runs_on CPU: a thread of the daemon may.
runs_on() { "$python_here" -c 'import os, sys
sys.exit(not any(int(sys.argv[2]) in os.sched_getaffinity(int(thread)) for thread in os.listdir(f"/proc/{sys.argv[1]}/task")))' "$daemon" "$1"; }
leaves() { ! runs_on "$1"; }
if [ "${#cpus[@]}" -ge 2 ]; then
	taskset -cp "${cpus[0]}" "$pid" >/dev/null
	wait_for 20 leaves "${cpus[0]}" || fail "the daemon runs on the CPU of a pinned rank"
	runs_on "${cpus[1]}" || fail "the daemon has no CPU"
	taskset -cp "$(IFS=, && echo "${cpus[*]}")" "$pid" >/dev/null
	wait_for 20 runs_on "${cpus[0]}" || fail "the daemon does not use the CPU of a rank that is not pinned any more"
fi
e2e_stop
# A row for each minute, and at the end of the daemon one for the rest.
export RANKTRACE_STATE_DIR=$state
IFS=, read -r l3 <<<"$(query "select sum(case level when 'L3' then 100 * watched_ns end) / sum(case level when 'L3' then duration_ns end) from coverage where instance = $(instance "$pid")")"
IFS=, read -r first last_step count unsplit gap <<<"$(query "select min(step), max(step), count(*), coalesce(sum(unsplit), 0),
	max(start_ns + duration_ns) - min(start_ns) - sum(duration_ns) from steps where instance = $(instance "$pid")")"
echo "watched: L3 $l3 % of the time; $unsplit of $count steps without stages"
[ "$l3" -lt 95 ] && [ "$l3" -gt 0 ] || fail "the store does not say when levels watched"
[ "$first" -eq 1 ] && [ "$last_step" -eq "$count" ] && [ "${gap#-}" -lt 1000000 ] || fail "steps $first to $last_step: $count, and $gap ns in none of them"
[ "${#cpus[@]}" -ge 2 ] || skip "needs two CPUs to pin a rank to one; the rest passed"
e2e_done
