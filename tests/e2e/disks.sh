#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The disk is full, slow (SLOW_SYNC_S=10 for ten seconds a sync), read-only, or does not answer: what is lost is counted, by table,
# and nothing else is lost.
source "$(dirname "$0")/lib.sh"

# The loop does not wait for the disk: it was never late by LATE_MS_MAX, which is what a client waits at most. Time in which it
# was preempted does not count.
LATE_MS_MAX=250
STOP_MS_MAX=8000 # 5 s for the disk, and the rest of the stop
late_ms() {
	"$tracectl" status --json | "$python_here" -c 'import json, sys
lag = json.load(sys.stdin)["self"]["loop_lag"]
print((lag["max_ns"] - lag["max_ready_ns"]) // 1000000)'
}
dropped() { "$tracectl" status --json | "$python_here" -c 'import json, sys; print(json.load(sys.stdin)["store"]["rows_dropped"])'; }
prompt() {
	echo "longest delay of the loop with $1: $(late_ms) ms"
	[ "$(late_ms)" -lt "$LATE_MS_MAX" ] || fail "the loop was late by $(late_ms) ms with $1"
}

echo "--- the disk is full, then freed"
disk=$work/disk
mkdir "$disk"
mount -t tmpfs -o size=6m none "$disk" || skip "cannot mount a tmpfs here"
on_cleanup() { umount -l "$disk" 2>/dev/null || true; }
state=$disk/state
e2e_start store.segment=10s
train full RANK=0 WORLD_SIZE=1 -- --mode plain --steps 100000 --hidden 64 --batch 16 --sleep-data 5
full=$last
wait_for 60 stepping "$full" 20 || fail "the training did not start"
dd if=/dev/zero of="$disk/filler" bs=64k 2>/dev/null || true
dropping() { [ "$(dropped)" -gt 0 ]; }
wait_for 60 dropping || fail "the disk is full but no drop is counted"
echo "$(dropped) rows dropped and counted"
tables_named() { # every dropped row is of a table, and steps are among them
	"$tracectl" status --json | "$python_here" -c '
import json, sys
store = json.load(sys.stdin)["store"]
sys.exit(sum(d["rows"] for d in store["drops"]) != store["rows_dropped"] or "steps" not in [d["table"] for d in store["drops"]])'
}
wait_for 20 tables_named || fail "status does not say which tables lost rows"
grep -q 'table steps: .* dropped' <<<"$("$tracectl" status)" || fail "people are not shown which tables lost rows"
# The store removes its oldest segment to go on, so that the disk is full again and again.
says_full() { "$tracectl" status | grep -i 'is full'; }
wait_for 30 says_full || fail "status does not say that the disk is full"
rm "$disk/filler"
flush
flush
before=$(steps_of "$full")
wait_for 30 stepping "$full" $((before + 20)) || fail "no steps after the disk was freed"
# Steps have no gaps but those of rows that were dropped.
lost=$(query "select max(step) - min(step) + 1 - count(*) from steps where instance = $(instance "$full")")
counted=$("$tracectl" status --json | "$python_here" -c 'import json, sys; print(sum(d["rows"] for d in json.load(sys.stdin)["store"]["drops"] if d["table"] == "steps"))')
echo "$lost steps are missing, $counted rows of steps are counted as dropped"
[ "$lost" -gt 0 ] && [ "$lost" -eq "$counted" ] || fail "$lost steps are missing, $counted are counted"
[ "$(query "select count(*) from drops where count > 0")" -gt 0 ] || fail "the store has no drop counts"
[ "$(query "select count(*) from drops where source = 'store' and table_name = 'steps'")" -gt 0 ] || fail "the store does not say which tables lost rows"
said=$("$tracectl" findings --state-dir "$state")
grep -q 'are lost: see tracectl query' <<<"$said" || fail "findings do not say that rows are lost: $said"
prompt "a full disk"
kill -9 "$full"
wait "$full" 2>/dev/null || true
children=()
e2e_stop

daemon_prefix=(env "LD_PRELOAD=$build/tests/e2e/libdisk_fault.so" "DISK_FAULT=$work/fault")
set_fault() { echo "$1" >"$work/fault.new" && mv "$work/fault.new" "$work/fault"; }

echo "--- a disk on which each sync takes ${SLOW_SYNC_S:=1} s: late, and nothing is lost"
state=$work/slow
e2e_start store.segment=10s
hold slow RANK=0 WORLD_SIZE=1 -- --mode plain --steps 250 --hidden 64 --batch 16 --sleep-data 30
slow=$last
release slow "$slow"
set_fault "slow $SLOW_SYNC_S"
# A segment is closed, which syncs.
is_slow() { "$tracectl" status | grep -q 'is slow: a write has taken'; }
wait_for 60 is_slow || fail "status does not say that the disk is slow"
"$tracectl" status | grep -E 'is slow|waiting'
"$tracectl" set L3=true | grep -F 'a restart forgets this' || fail "a set on a slow disk does not say that it is not kept"
wait_train
rm "$work/fault"
wait_for 60 stepping "$slow" 249 || fail "$(steps_of "$slow") of 250 steps are stored"
flush
compare "$truth/slow.0.json" 0 --pid "$slow"
[ "$(dropped)" -eq 0 ] || fail "$(dropped) rows were dropped"
prompt "a slow disk"

echo "--- the disk turns read-only, and back"
train readonly RANK=0 WORLD_SIZE=1 -- --mode plain --steps 100000 --hidden 64 --batch 16 --sleep-data 5
readonly=$last
wait_for 60 stepping "$readonly" 20 || fail "the training did not start"
set_fault readonly
dropping() { [ "$(dropped)" -gt 100 ]; }
wait_for 30 dropping || fail "the disk is read-only but no drop is counted"
said=$("$tracectl" status)
grep -q 'cannot write to' <<<"$said" || fail "status does not say that the disk cannot be written to"
rm "$work/fault"
flush
before=$(steps_of "$readonly")
wait_for 30 stepping "$readonly" $((before + 20)) || fail "no steps after the disk is writable again"
lost=$(query "select sum(count) from drops where source = 'store' and table_name = 'steps'")
missing=$(query "select max(step) - min(step) + 1 - count(*) from steps where instance = $(instance "$readonly")")
echo "$missing steps are not stored, $lost are counted"
[ "$missing" -gt 0 ] && [ "$missing" -eq "$lost" ] || fail "$missing steps are not stored, $lost are counted as lost"
prompt "a read-only disk"

echo "--- a disk that does not answer: the daemon stops all the same, and the next one completes its files"
set_fault "slow 60"
wait_for 60 is_slow || fail "the disk is not reported as slow"
before_ms=$(($(date +%s%N) / 1000000))
e2e_stop
took_ms=$(($(date +%s%N) / 1000000 - before_ms))
echo "stopped in $took_ms ms"
[ "$took_ms" -lt "$STOP_MS_MAX" ] || fail "the daemon took $took_ms ms to stop"
rm "$work/fault"
e2e_start store.segment=10s
before=$(steps_of "$readonly")
wait_for 30 stepping "$readonly" $((before + 20)) || fail "no steps after the restart"
kill -9 "$readonly"
wait "$readonly" 2>/dev/null || true
children=()
e2e_stop
[ -z "$(find "$state/db" -name '*.corrupt*')" ] || fail "a segment is damaged"
e2e_done
