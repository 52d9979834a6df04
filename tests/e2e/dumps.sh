#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Dumps of real ranks. sysTrace's files hold each row of the store once, for any window and after a kill. Files appear at
# their interval, complete, readable by the group only. The same on demand.
source "$(dirname "$0")/lib_fixture.sh"

# The first dump begins one window back. Under load it runs late; it must still cover the start of the training.
conf=(dump.l0_interval=2s dump.window=30s)
e2e_start "${conf[@]}"
"$tracectl" set L1=true L2=true L3=true >/dev/null
"$tracectl" interval L1=0.04 L2=0.04 L3=0.04 >/dev/null

echo "-- two data-parallel ranks, and two that allocate and free device memory"
port=$((20000 + RANDOM % 10000))
for rank in 0 1; do
	train job RANK=$rank WORLD_SIZE=2 LOCAL_RANK=$rank TORCHELASTIC_RUN_ID="dumps-$$" MASTER_ADDR=127.0.0.1 MASTER_PORT=$port -- --mode ddp --steps 40
	job_pid[rank]=$last
done
wait_for 90 stepping "${job_pid[1]}" 8 || fail "the training did not start"
dumped() { [ -n "$(find "$state/dump" -path "*/$1/*" -type f -not -name '.*' 2>/dev/null)" ]; }
for kind in timeline mspti osprobe; do wait_for 30 dumped "$kind" || fail "no dump in $kind"; done

echo "-- the daemon is killed and restarted"
kill -9 "$daemon"
wait "$daemon" 2>/dev/null || true
e2e_start "${conf[@]}"
job=("${children[@]}")
ranks memory 2
ours=("${job[@]}" "${rank_pids[@]}")
for pid in "${job[@]}"; do wait "$pid" || { cat "$work/job.log" >&2; fail "the training failed"; }; done
children=()
flush

same() { "$python_here" "$source_dir/tests/e2e/dumps.py" "$tracectl" "$state/dump" "${ours[@]}" >"$work/compared" 2>&1; }
wait_for 60 same || { cat "$work/compared" >&2; fail "the dumps differ from the store"; }
cat "$work/compared"
old_window() { [ -n "$(find "$state/dump/old" -type f 2>/dev/null)" ]; }
wait_for 60 old_window || fail "no window was moved to old/"
# The daemon may notice the end of the writer after the files appear.
all_written() {
	"$tracectl" status | grep -A5 '^dumps' >"$work/status"
	for level in L0 L1 L2 L3; do grep -q " $level: [0-9,]* rows into" "$work/status" || return 1; done
}
wait_for 20 all_written || { cat "$work/status" >&2; fail "status does not say when each level was written"; }
cat "$work/status"
! grep -q "error: " "$work/status" || fail "status reports a dump error"
open=$(find "$state/dump" -perm /027 | head -3)
[ -z "$open" ] || fail "readable or writable by others: $open"

echo "-- analyze on the dumps compares as many steps as on the store"
# judged OPTION...: ranks and steps that analyze compared.
judged() { "$tracectl" analyze --job "dumps-$$" --verbose "$@" | sed -n 's/.* rows of \([0-9]*\) ranks.*; \([0-9]*\) steps judged.*/\1 \2/p'; }
read -r ranks_of_store steps_of_store < <(judged --dir "$state")
read -r ranks_of_dump steps_of_dump < <(judged --from-systrace "$state/dump")
echo "store: $ranks_of_store ranks, $steps_of_store steps; dumps: $ranks_of_dump ranks, $steps_of_dump steps"
# A dump has no end of the last step, and the daemon was down for some steps.
[ "$ranks_of_store" -eq 2 ] && [ "$ranks_of_dump" -eq 2 ] && [ "$steps_of_dump" -ge 3 ] && [ $((steps_of_store - steps_of_dump)) -le 3 ] &&
	[ $((steps_of_dump - steps_of_store)) -le 3 ] || fail "analyze compares other steps in the dumps than in the store"

echo "-- on demand"
"$tracectl" dump --since 1h -o "$work/out" || fail "tracectl dump failed"
"$python_here" "$source_dir/tests/e2e/dumps.py" "$tracectl" "$work/out" "${ours[@]}" || fail "the files of tracectl dump differ from the store"
"$tracectl" dump --since 1h --rank 1 --level L0,L2 -o "$work/one" >/dev/null
[ -z "$(find "$work/one" -type f -not -name '*00001--*' -not -name '*rank1_*')" ] || fail "--rank 1 wrote other ranks"
[ "$(cd "$work/one" && echo *)" = "hbm_trace timeline" ] || fail "--level L0,L2 wrote $(cd "$work/one" && echo *)"

echo "-- a level that is off writes no dumps"
"$tracectl" set L1=false >/dev/null
e2e_stop
grep -q 'dump: ' "$work/daemon.log" && fail "the daemon logs dump errors: $(grep 'dump: ' "$work/daemon.log" | head -3)"
e2e_done
