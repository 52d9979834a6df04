#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Launches in sampled windows: rows at about one window a second, each launch counted once where the runtime ends in the
# driver, nothing attached between windows nor with the switch off.
source "$(dirname "$0")/lib.sh"

bin=$build/tests/e2e
pause_ms=7
# Links of the daemon to uprobes, as the kernel lists them for its descriptors.
links() { grep -lE "^link_type:[[:space:]]*(uprobe_multi|perf)" /proc/"$daemon"/fdinfo/* 2>/dev/null | wc -l; }
# rank NAME PROGRAM LAUNCHES: its process id goes to $last.
rank() {
	RANK=$4 WORLD_SIZE=3 "$bin/$2" "$3" "$pause_ms" >"$work/$1.out" &
	last=$!
	children+=("$last")
}
rows() { query "select $1 from launches where instance = $(instance "$2")"; }
windows() { [ "$(rows 'count(distinct start_ns)' "$1")" -ge 8 ]; }

e2e_start
"$tracectl" set L0=false >/dev/null # so that all links are ours
[ "$("$tracectl" print L1.launches)" = "L1.launches: false" ] || fail "the switch is not off by default"
rank both launcher_runtime 50 0; both=$last
rank alone launcher_runtime_alone 50 1; alone=$last
rank quiet launcher_runtime 0 2; quiet=$last
known() { [ -n "$(query "select 1 from ranks where pid = $1")" ]; }
for pid in "$both" "$alone" "$quiet"; do wait_for 30 known "$pid" || fail "the rank is not seen"; done
for _ in $(seq 100); do [ "$(links)" -eq 0 ] || fail "the switch is off and something is attached"; done

answer=$("$tracectl" set L1.launches=true)
echo "$answer"
grep -qE 'L1.launches on: a window of 50 ms in every 1 s on [2-9] functions in [2-9] libraries' <<<"$answer" || fail "set does not say what was done"
grep -q 'L1: false' <<<"$("$tracectl" print L1)" || fail "the switch turned its level on"
grep -q 'L1.launches on' <<<"$("$tracectl" status)" || fail "status does not show the switch"
for pid in "$both" "$alone" "$quiet"; do wait_for 60 windows "$pid" || fail "no rows of process $pid"; done
open=0
for _ in $(seq 300); do [ "$(links)" -eq 0 ] || open=$((open + 1)); done
echo "probes were attached in $open of 300 looks"
[ "$open" -lt 150 ] || fail "probes stay attached between windows"

"$tracectl" set L1.launches=false
[ "$(links)" -eq 0 ] || fail "set answered and something is attached"
flush
read -r count span_ns <<<"$(rows "count(distinct start_ns) || ' ' || (max(start_ns) - min(start_ns))" "$both")"
echo "$count windows in $((span_ns / 1000000)) ms"
[ $((2 * count * 1000)) -ge $((span_ns / 1000000)) ] || fail "fewer than a window in two seconds"
[ $((count * 1000)) -le $((span_ns / 1000000 * 2 + 2000)) ] || fail "more than two windows a second"
[ "$(rows "group_concat(distinct api)" "$both")" = cuLaunchKernel ] || fail "a launch through runtime and driver is not counted in the driver alone"
[ "$(rows "group_concat(distinct api)" "$alone")" = cudaLaunchKernel ] || fail "a launch of a runtime without driver is not counted"
[ "$(rows "count(*) - count(distinct start_ns)" "$both")" -eq 0 ] || fail "more than one row a window, thread and API"
[ "$(rows "sum(count) || ' ' || count(api) || ' ' || count(thread_id)" "$quiet")" = "0 0 0" ] || fail "the quiet rank has launches"
[ "$(rows "min(longest_gap_ns = duration_ns)" "$quiet")" -eq 1 ] || fail "the gap of the quiet rank is not the window"
for pid in "$both" "$alone"; do
	[ "$(rows "min(longest_gap_ns) >= $pause_ms * 1000000 and max(longest_gap_ns <= duration_ns)" "$pid")" -eq 1 ] || fail "the pause between launches is not seen"
	[ "$(rows "group_concat(distinct thread_id)" "$pid")" = "$pid" ] || fail "the thread is wrong"
done
# What the windows saw stands for the whole: the rate in them is the rank's own, within a factor of two.
kill -TERM "$both" "$alone" "$quiet"
for name in both alone; do
	wait "${!name}"
	read -r made lived_ns <"$work/$name.out"
	read -r seen_count seen_ns <<<"$(rows "sum(count) || ' ' || sum(duration_ns)" "${!name}")"
	echo "$name: $((made * 1000000000 / lived_ns)) launches a second, in windows $((seen_count * 1000000000 / seen_ns))"
	[ $((seen_count * 1000000000 / seen_ns * 2)) -gt $((made * 1000000000 / lived_ns)) ] || fail "windows miss launches"
	[ $((seen_count * 1000000000 / seen_ns)) -lt $((made * 1000000000 / lived_ns * 2)) ] || fail "windows count launches twice"
done
wait "$quiet"
children=()

"$tracectl" set L1.launches=true --for 2s >/dev/null
off() { grep -q 'L1.launches: false' <<<"$("$tracectl" print L1.launches)"; }
if off; then fail "set --for did not turn the switch on"; fi
wait_for 10 off || fail "set --for 2s is over and the switch is on"
"$tracectl" set L1.launches=true >/dev/null
e2e_stop
e2e_start
grep -q '  L1.launches: true' <<<"$("$tracectl" print all)" || fail "the switch did not survive the restart"
code=0
"$tracectl" interval L1.launches=5 2>/dev/null || code=$?
[ "$code" -eq 2 ] || fail "a switch took an interval"
e2e_done
