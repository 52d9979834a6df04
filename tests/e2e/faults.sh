#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Faults of a node: daemon killed, rank killed in mid-step, 1,000 short processes a second, library replaced under a running rank.
# No data is corrupted and everything else is recorded. Those of its disk: disks.sh.
source "$(dirname "$0")/lib.sh"

echo "--- kill -9 of the daemon: at most a second lost, segments intact, recording resumes"
e2e_start
train killed RANK=0 WORLD_SIZE=1 -- --mode plain --steps 100000 --hidden 64 --batch 16 --sleep-data 20
trained=$last
wait_for 60 stepping "$trained" 50 || fail "the training did not start"
sleep 3
now_ns=$(date +%s%N)
kill -9 "$daemon"
wait "$daemon" 2>/dev/null || true
daemon=
for db in "$state"/db/*.db; do
	[ "$(sqlite3 "$db" 'pragma quick_check')" = ok ] || fail "$db is damaged after kill -9"
done
last_ns=$("$tracectl" query --state-dir "$state" --csv "select max(start_ns + duration_ns) from steps where instance = $(instance "$trained")" | tail -1 | tr -d "\r")
echo "newest stored step: $(((now_ns - last_ns) / 1000000)) ms before the kill"
[ $((now_ns - last_ns)) -lt 3000000000 ] || fail "more rows lost than were in memory"
e2e_start
before=$(steps_of "$trained")
wait_for 30 stepping "$trained" $((before + 20)) || fail "no steps after the restart"
twice=$(query "select count(*) from (select step from steps where instance = $(instance "$trained") group by step having count(*) > 1)")
[ "$twice" -eq 0 ] || fail "$twice duplicate step numbers after the restart"

echo "--- a rank is killed in mid-step"
kill -9 "$trained"
wait "$trained" 2>/dev/null || true
children=()
flush
[ "$(query "select ended from ranks where pid = $trained")" -eq 1 ] || fail "the killed rank has no end"
# In-flight rows are checked every second and written within another.
landed() { [ "$(query "select count(*) from in_flight where instance = $(instance "$trained")")" -eq 0 ]; }
wait_for 10 landed || fail "the killed rank has stages in flight"

echo "--- 1,000 short processes a second during a training"
held busy RANK=0 WORLD_SIZE=1 -- --mode plain --steps 30
pid=$last
"$build/tests/e2e/spawner" 1000 4 &
spawner=$!
wait_train
wait "$spawner"
flush
compare "$truth/busy.0.json" 0 --pid "$pid"
[ "$(query "select count(*) from ranks where exe like '%/true'")" -eq 0 ] || fail "short processes were recorded as ranks"

echo "--- a library is replaced under a running rank"
libs=$work/lib
mkdir "$libs"
real=$("$python" -c 'import torch, os; print(os.path.realpath(os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so")))')
soname=$(readelf -d "$real" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')
cp "$real" "$libs/$soname"
train old RANK=0 WORLD_SIZE=2 LD_LIBRARY_PATH="$libs" -- --mode plain --steps 200 --hidden 64 --batch 16 --sleep-data 30
old=$last
wait_for 60 stepping "$old" 3 || fail "the training on a copied library did not start"
grep -q "$libs/$soname" "/proc/$old/maps" || fail "the training does not use the copy"
cp "$real" "$libs/new" && mv "$libs/new" "$libs/$soname"
train new RANK=1 WORLD_SIZE=2 LD_LIBRARY_PATH="$libs" -- --mode plain --steps 60 --hidden 64 --batch 16
new=$last
wait_train
flush
compare "$truth/old.0.json" 0 --pid "$old"
compare "$truth/new.1.json" 1 --pid "$new"
for pid in "$old" "$new"; do
	[ "$(query "select count(*) from stages s join ranks r using (instance) where r.pid = $pid and stage = 'backward'")" -ge 60 ] ||
		fail "no backward recorded for process $pid after the library was replaced"
done
rm -r "$libs"
e2e_stop
e2e_done
