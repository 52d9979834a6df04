#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Memory of devices (L2) where its reports cost more than the budget allows: they are seen in windows, whose rows have values that the
# program reported. Two daemons, one after the other: a process that ended before, and one that goes on.
source "$(dirname "$0")/lib.sh"
[ -z "${TORCH_ROOT:-}" ] || skip "runs with the system's PyTorch only"
"$python" -c 'import ctypes; ctypes.CDLL("libc10.so.1.13")' 2>/dev/null || skip "no libc10 of PyTorch 1.13"

e2e_start memory.sample=4K budget.rank_percent=100 budget.cpu_percent=1000
"$tracectl" set L2=on >/dev/null
reporting() { [ -n "$(query "select 1 from memory_curve where instance = $(instance "$1")")" ]; }
# One that ends; its rank is taken by another.
touch "$work/start"
RANK=0 WORLD_SIZE=1 MASTER_PORT=29674 "$python" "$source_dir/tests/e2e/train/leak.py" "$work/start" "$work/truth" 300 "$build/fixtures/libcudart.so.13" >"$work/ended.log" 2>&1 &
pid=$!
children+=("$pid")
held() { [ -n "$(query "select 1 from memory_live where instance = $(instance "$pid")")" ]; }
wait_for 30 held || fail "no snapshot of process $pid: $(cat "$work/ended.log")"
kill -9 "$pid"
# The budget is for a quarter of what reports cost here. Beside them a program that keeps more and more, of which the second
# daemon sees the begin no more.
RANK=1 WORLD_SIZE=2 "$python" "$source_dir/tests/e2e/train/leak.py" "$work/start" "$work/truth" 300 "$build/fixtures/libcudart.so.13" card >"$work/leak.log" 2>&1 &
keeper=$!
children+=("$keeper")
RANK=0 WORLD_SIZE=1 "$build/tests/bench/bench_memory" 65536 >"$work/rounds" &
pid=$!
children+=("$pid")
for each in "$pid" "$keeper"; do
	wait_for 20 reporting "$each" || fail "no reports of process $each"
done
sleep 2
e2e_stop # writes what its levels have cost
percent=$(RANKTRACE_STATE_DIR=$state query "select printf('%.3f', 100.0 * cost_ns / watched_ns / 4) from coverage where level = 'L2' and instance = $(instance "$pid")")
echo "a quarter of the cost: $percent % of the rank's time"
e2e_start "budget.rank_percent=$percent" memory.sample=64K
"$tracectl" set L2=on >/dev/null
seen() { [ "$(query "select count(*) from memory_curve where seen_ns > 0 and instance = $(instance "$1")")" -ge 3 ]; }
windows() { seen "$pid" && seen "$keeper"; }
wait_for 60 windows || fail "no windows: $(query "select * from memory_curve where instance = $(instance $pid)")"
"$tracectl" status | grep 'seen in windows' || fail "status does not say so"
"$tracectl" memory live --json >"$work/windows"
"$tracectl" memory live
query "select allocated_min_bytes, allocated_max_bytes, allocs, frees, coalesce(seen_ns, 0), start_ns from memory_curve where instance = $(instance $pid)" >"$work/curve"
"$python_here" - "$work" "$pid" "$keeper" <<'END' || fail "rows of windows are wrong: $(cat "$work/curve")"
import json, sys
rows = [list(map(int, line.split(","))) for line in open(sys.argv[1] + "/curve")]
assert all(low % 65536 == 0 and 0 <= low <= high <= 150 * 65536 for low, high, *_ in rows), rows
assert all(allocs + frees > 0 for _, _, allocs, frees, seen, _ in rows if seen), rows
assert len({row[5] for row in rows}) == len(rows), rows
# Between two windows the probe is detached: what passes then is in no row.
span = rows[-1][5] - rows[0][5]
assert sum(row[4] for row in rows) < span * 2 // 3, rows
pool, = [pool for pool in json.load(open(sys.argv[1] + "/windows"))["live"] if pool["pid"] == int(sys.argv[2])]
assert 0 < pool["seen_share"] < 2 / 3, pool
# A window is of the time from the end of the row before it to its own end.
known = [row for row in rows if row[5] <= pool["time_ns"]]
first = [i for i, row in enumerate(known) if row[4]][0]
begin = known[first - 1][5] + 10**9 if first else known[0][5]
assert pool["seen_share"] <= 1.001 * sum(row[4] for row in known) / (known[-1][5] + known[-1][4] - begin), (pool, known)
# What it had before is known as a sum; what its line holds since then is within the interval, but for blocks that it uses for a moment.
pool, = [pool for pool in json.load(open(sys.argv[1] + "/windows"))["live"] if pool["pid"] == int(sys.argv[3])]
keep, = [place for place in pool["places"] if place["where"].startswith("keep (leak.py:")]
since, used = pool["seen_of_bytes"] - pool["before_bytes"], 8 * 300000
assert pool["before_bytes"] > 32 << 20 and not any(place["where"].startswith("weights ") for place in pool["places"]), pool
assert 0 < keep["low_bytes"] < keep["live_bytes"] < keep["high_bytes"] and since > used, keep
assert keep["low_bytes"] - used <= since <= keep["high_bytes"] + used, (keep, since)
END
# Pictures are of the processes that run now, not of those whose rank they have taken.
"$tracectl" memory --format folded -o - >"$work/folded"
grep -q 'keep (leak.py:' "$work/folded" && ! grep 'train (leak.py:' "$work/folded" || fail "a picture shows what an ended process held"
# Lines grow since L2 is on again: what they held before is not taken from what they hold now.
leaking() { "$tracectl" memory leaks --json >"$work/leaks" && grep -q "\"pid\": $keeper,\?$" "$work/leaks"; }
wait_for 60 leaking || fail "what grows before and after L2 was off is no leak: $("$tracectl" memory leaks)"
"$tracectl" memory leaks
"$python_here" - "$work/leaks" "$keeper" <<'END' || fail "lines shrink that hold nothing since L2 is on again: $(cat "$work/leaks")"
import json, sys
pool, = [pool for pool in json.load(open(sys.argv[1]))["leaks"] if pool["pid"] == int(sys.argv[2])]
assert pool["before_bytes"] > 32 << 20 and min(place["grown_bytes"] for place in pool["places"]) > -1 << 23, pool
END
# A store of three minutes ago: L2 has been off since then, or the daemon.
! "$tracectl" memory | grep 'has not watched' || fail "L2 is said to be off"
cp -r "$state" "$work/old"
"$python_here" - "$work/old" <<'END'
import glob, sqlite3, sys
for path in glob.glob(sys.argv[1] + "/db/*.db"):
    store = sqlite3.connect(path)
    for table, in store.execute("select m.name from sqlite_master m, pragma_table_info(m.name) c where m.type = 'table' and c.name = 'start_ns'").fetchall():
        store.execute(f"update {table} set start_ns = start_ns - 180000000000")
    store.commit()
END
"$tracectl" memory --state-dir "$work/old" | grep 'L2 has not watched it since .*: tracectl set L2=on' || fail "nothing says that L2 is off"
e2e_done
