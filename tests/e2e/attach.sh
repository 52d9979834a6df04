#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Attach in mid-run: whole steps only, and every step after the first.
source "$(dirname "$0")/lib.sh"

train late RANK=3 WORLD_SIZE=8 -- --mode plain --steps 400 --hidden 64 --batch 16 --sleep-data 20
pid=$last
wait_for 60 grep -q 'libtorch_python' "/proc/$pid/maps" || fail "the training did not start"
sleep 2
before_ns=$(awk '{printf "%d", $1 * 1e9}' /proc/uptime)
e2e_start
wait_train
flush
"$python_here" - "$tracectl" "$truth/late.3.json" "$before_ns" <<'PY' || fail "wrong steps after attaching in mid-run"
import json, subprocess, sys
tracectl, path, before_ns = sys.argv[1], sys.argv[2], int(sys.argv[3])
truth = json.load(open(path))
rows = json.loads(subprocess.run([tracectl, "query", "--json", "select step, duration_ns from steps where rank = 3 and instance = (select max(instance) from ranks where rank = 3 and world_size = 8) order by step"],
                                 check=True, capture_output=True, text=True).stdout)
ends = truth["step_end_monotonic_ns"]
durations = [b - a for a, b in zip(ends, ends[1:])]
after = sum(1 for e in ends if e > before_ns)
print(f"{len(rows)} steps stored, {after} ended after the daemon was started, {len(ends)} in all")
assert 10 < len(rows) <= after, "too few or too many steps"
assert [r["step"] for r in rows] == list(range(1, len(rows) + 1)), "numbers are not 1, 2, 3 ..."
# They match the script's last steps one to one.
tail = durations[-len(rows):]
off = max(abs(r["duration_ns"] - d) / d for r, d in zip(rows, tail))
print(f"largest difference of a step's duration from the script's: {100 * off:.1f} %")
same = sum(1 for r, d in zip(rows, tail) if abs(r["duration_ns"] - d) < 0.2 * d)
assert same >= 0.9 * len(rows), f"only {same} of {len(rows)} durations are the script's"
PY
e2e_done
