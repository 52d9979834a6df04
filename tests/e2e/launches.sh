#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Kernel launches in sampled windows: about one window a second, each launch counted once where the runtime calls the
# driver, no probe attached between windows or with the switch off.
source "$(dirname "$0")/lib.sh"

bin=$build/tests/e2e
pause_ms=7
# Links of the daemon to uprobes, as the kernel lists them for its descriptors.
links() { grep -lE "^link_type:[[:space:]]*(uprobe_multi|perf)" /proc/"$daemon"/fdinfo/* 2>/dev/null | wc -l; }
# rank NAME PROGRAM LAUNCHES: starts a rank; its pid goes to $last.
rank() {
	RANK=$4 WORLD_SIZE=3 "$bin/$2" "$3" "$pause_ms" >"$work/$1.out" &
	last=$!
	children+=("$last")
}
rows() { query "select $1 from launches where instance = $(instance "$2")"; }
windows() { [ "$(rows 'count(distinct start_ns)' "$1")" -ge 8 ]; }

e2e_start
"$tracectl" set L0=false >/dev/null # only links of launches remain
[ "$("$tracectl" print L1.launches)" = "L1.launches: false" ] || fail "the switch is not off by default"
rank both launcher_runtime 50 0; both=$last
rank alone launcher_runtime_alone 50 1; alone=$last
rank quiet launcher_runtime 0 2; quiet=$last
for pid in "$both" "$alone" "$quiet"; do wait_for 30 rank_known "$pid" || fail "the rank is not known"; done
# The guard's own, at the first rank.
wait_for 20 grep -q 'guard: a hit costs' "$work/daemon.log" || fail "the guard is not calibrated"
for _ in $(seq 30); do [ "$(links)" -eq 0 ] || fail "the switch is off but probes are attached"; done

answer=$("$tracectl" set L1.launches=true)
echo "$answer"
grep -qE 'L1.launches on: a window of 50 ms in every 1 s on the launch functions of [3-9] ranks' <<<"$answer" || fail "set does not report windows and ranks"
grep -q 'L1: false' <<<"$("$tracectl" print L1)" || fail "the switch turned its level on"
grep -q 'L1.launches on' <<<"$("$tracectl" status)" || fail "status does not show the switch"
for pid in "$both" "$alone" "$quiet"; do wait_for 60 windows "$pid" || fail "no rows of process $pid"; done
open=0
for _ in $(seq 100); do
	[ "$(links)" -eq 0 ] || open=$((open + 1))
	sleep 0.03 # some seconds in all: windows of several
done
echo "probes were attached in $open of 100 checks"
[ "$open" -lt 50 ] || fail "probes are attached between windows"

"$tracectl" set L1.launches=false
[ "$(links)" -eq 0 ] || fail "the switch is off but probes are attached"
flush
read -r count span_ns <<<"$(rows "count(distinct start_ns) || ' ' || (max(start_ns) - min(start_ns))" "$both")"
echo "$count windows in $((span_ns / 1000000)) ms"
[ $((2 * count * 1000)) -ge $((span_ns / 1000000)) ] || fail "fewer than a window in two seconds"
[ $((count * 1000)) -le $((span_ns / 1000000 * 2 + 2000)) ] || fail "more than two windows per second"
[ "$(rows "group_concat(distinct api)" "$both")" = cuLaunchKernel ] || fail "a launch through runtime and driver is not counted once, in the driver: $(query "select * from launches where instance = $(instance "$both")")"
[ "$(rows "group_concat(distinct api)" "$alone")" = cudaLaunchKernel ] || fail "a launch of a runtime without driver is not counted"
[ "$(rows "count(*) - count(distinct start_ns)" "$both")" -eq 0 ] || fail "more than one row a window, thread and API"
[ "$(rows "sum(count) || ' ' || count(api) || ' ' || count(thread_id)" "$quiet")" = "0 0 0" ] || fail "the quiet rank has launches"
[ "$(rows "min(longest_gap_ns = duration_ns)" "$quiet")" -eq 1 ] || fail "the gap of the quiet rank is not the window"
for pid in "$both" "$alone"; do
	[ "$(rows "min(longest_gap_ns) >= $pause_ms * 1000000 and max(longest_gap_ns <= duration_ns)" "$pid")" -eq 1 ] || fail "the pause between launches is not measured"
	[ "$(rows "group_concat(distinct thread_id)" "$pid")" = "$pid" ] || fail "wrong thread_id"
done
# The windows' rate is the rank's own rate, within a factor of two.
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
wait_for 10 off || fail "the switch is on after set --for 2s"
"$tracectl" set L1.launches=true >/dev/null
e2e_stop
e2e_start
grep -q '  L1.launches: true' <<<"$("$tracectl" print all)" || fail "the switch did not survive the restart"
code=0
"$tracectl" interval L1.launches=5 2>/dev/null || code=$?
[ "$code" -eq 2 ] || fail "a switch accepted an interval"
e2e_done
