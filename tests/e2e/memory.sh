#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Memory of devices (L2) through the allocator of a real PyTorch: the curve equals the books of the script to the byte, the
# lines that hold memory are named, and what they hold is right within the stated error; a request that failed has its
# line and cause.
source "$(dirname "$0")/lib.sh"
[ -z "${TORCH_ROOT:-}" ] || skip "runs with the system's PyTorch only"
"$python" -c 'import ctypes; ctypes.CDLL("libc10.so.1.13")' 2>/dev/null || skip "no libc10 of PyTorch 1.13"

e2e_start memory.sample=4K budget.rank_percent=100 budget.cpu_percent=1000
"$tracectl" set L2=on >/dev/null
RANK=0 WORLD_SIZE=1 MASTER_PORT=29673 "$python" "$source_dir/tests/e2e/train/leak.py" "$work/start" "$work/truth" 4 "$build/fixtures/libcudart.so.13" >"$work/leak.log" 2>&1 &
pid=$!
children+=("$pid")
followed() { "$tracectl" status | grep -q '[1-9][0-9]* ranks\? followed' && grep -q 'libc10[^ ]*: [1-9]' "$work/daemon.log" &&
	grep -q 'libcudart[^ ]*: [1-9]' "$work/daemon.log"; }
wait_for 30 followed || fail "its allocator is not followed: $(cat "$work/leak.log")"
"$tracectl" check >"$work/check" || true
grep -q 'L2 .* memory: .* among those of call$' "$work/check" || fail "check does not know the allocator's probes: $(grep L2 "$work/check")"
touch "$work/start"
wait_train
flush

"$tracectl" status | grep '[1-9][0-9]* of [0-9]* calls of the driver without a stack' || fail "status does not count calls without a stack: $("$tracectl" status)"
"$tracectl" memory --json >"$work/live"
"$tracectl" memory oom --json >"$work/oom"
"$tracectl" memory errors --json >"$work/errors"
"$tracectl" memory fragmentation --json >"$work/fragmentation"
"$tracectl" memory copies --json >"$work/copies"
"$tracectl" memory
"$tracectl" memory oom
"$tracectl" memory errors
"$tracectl" memory fragmentation
"$tracectl" memory copies
query "select allocated_bytes, before_bytes from memory_curve where kind = 'cuda' order by start_ns desc limit 1" >"$work/last"
query "select max(allocated_max_bytes), sum(allocs) + sum(frees) from memory_curve where kind = 'cuda'" >>"$work/last"
query "select op, bytes, result, error, (select frames from call_stacks where id = stack limit 1) as frames from allocations" >"$work/calls"
# To give memory back waits for the device: each such call is a synchronization of the step, too.
query "select (select count(*) from stages where stage = 'sync'), (select count(*) from allocations where op = 'cudaFree')" >"$work/syncs"
IFS=, read -r syncs frees <"$work/syncs"
[ "$frees" -gt 0 ] && [ "$syncs" -ge "$frees" ] || fail "$frees calls of cudaFree, and $syncs synchronizations"
"$python_here" - "$work" "$source_dir/tests/e2e/train/leak.py" <<'END' || fail "the store differs from the books of the script"
import csv, json, sys
work, script = sys.argv[1:]
truth = json.load(open(work + "/truth"))
last, sums = (list(map(int, line.split(","))) for line in open(work + "/last"))
assert last == [truth["allocated"], 0], (last, truth)
assert sums == [truth["peak"], truth["reports"]], (sums, truth)
pools = {pool["kind"]: pool for pool in json.load(open(work + "/live"))["live"]}
assert pools["cuda"]["ended"] and pools["cuda"]["device"] == 0, pools["cuda"]
places = {place["where"].split(" ")[0]: place for place in pools["cuda"]["places"]}
# Large blocks are all followed; of small ones the sum is an estimate, and 5 standard errors are no chance.
assert places["weights"]["live_bytes"] == truth["weights"] and places["weights"]["error_bytes"] == 0, places["weights"]
assert places["pieces"]["live_bytes"] == 16 << 20, places["pieces"]
free, = [pool for pool in json.load(open(work + "/fragmentation"))["fragmentation"] if pool["kind"] == "cuda"]
assert [free[key] for key in ("segments", "segment_bytes", "used_bytes", "split_bytes", "empty_bytes", "outside_bytes", "largest_piece_bytes", "asked_bytes")] == [
    2, 96 << 20, 16 << 20, 16 << 20, 0, 64 << 20, 12 << 20, 1 << 31], free
# Which of the two takes longer is the machine's.
assert free["calls"] >= 10 and free["calls_where"].split(" (leak.py:")[0] in ("retry", "burst"), free
kept = places["keep"]
assert abs(kept["live_bytes"] - truth["keep"]) <= 5 * kept["error_bytes"], (kept, truth)
assert kept["error_bytes"] < truth["keep"] / 2, kept
assert kept["low_bytes"] < kept["live_bytes"] < kept["high_bytes"], kept
assert places["weights"]["low_bytes"] == places["weights"]["high_bytes"] == truth["weights"], places["weights"]
assert abs(places["use"]["live_bytes"]) == 0, places["use"]
line = 1 + [i for i, text in enumerate(open(script)) if "loss = model" in text][0]
assert pools["cpu"]["places"][0]["where"].endswith("train (leak.py:%d)" % line), pools["cpu"]["places"][0]
failure, = json.load(open(work + "/oom"))["oom"]
assert failure["asked_bytes"] == 1 << 31 and failure["allocated_bytes"] == truth["allocated"], failure
assert failure["count"] == 3 and failure["time_ns"] - failure["first_ns"] >= 2 * 10**8, failure
assert failure["where"].startswith("ask (leak.py:") and failure["cause"] == "capacity", failure
# The snapshot that the daemon took then.
assert failure["largest_piece_bytes"] == 12 << 20 and failure["card_free_bytes"] is None, failure
assert {place["where"].split(" ")[0] for place in failure["places"]} >= {"weights", "pieces", "keep"}, failure
assert 0.98 * failure["allocated_bytes"] < sum(place["live_bytes"] for place in failure["places"]) <= failure["allocated_bytes"], failure
last, error, copy, wait = json.load(open(work + "/errors"))["errors"]
line = 1 + [i for i, text in enumerate(open(script)) if "cudart.cudaMalloc(" in text and "1 << 41" in text][0]
assert error["op"] == "cudaMalloc" and error["bytes"] == 1 << 41 and error["result"] == 2, error
assert error["where"] == "call (leak.py:%d)" % line, error
# The last one of a burst, whose other calls had all the stacks that they may have.
line = 1 + [i for i, text in enumerate(open(script)) if "cudart.cudaMalloc(" in text and "1 << 42" in text][0]
assert last["bytes"] == 1 << 42 and last["where"] == "burst (leak.py:%d)" % line, last
line = 1 + [i for i, text in enumerate(open(script)) if "cudart.cudaMemcpy(" in text][0]
assert [copy[key] for key in ("op", "bytes", "error", "where")] == ["cuMemcpyHtoD_v2", 1 << 41, "CUDA_ERROR_INVALID_VALUE", "copy_too_much (leak.py:%d)" % line], copy
# An error of a kernel, by the call that waited for it.
line = 1 + [i for i, text in enumerate(open(script)) if "cudart.cudaStreamSynchronize(" in text][0]
assert [wait[key] for key in ("op", "bytes", "error", "where")] == ["cudaStreamSynchronize", None, "cudaErrorIllegalAddress", "wait (leak.py:%d)" % line], wait
assert wait["step"] == copy["step"] > 0, wait
assert all(each["step"] is None or each["step"] > 0 for each in (last, error, failure)), (last, error, failure)
assert [last["count"], error["count"], copy["count"], wait["count"]] == [1, 1, 1, 2], (last, error, copy, wait)
# Each call that allocates has the stack of its line; of a burst as many as may be read, and status counts the others.
calls = list(csv.reader(open(work + "/calls")))
where = lambda text: "(leak.py:%d)" % (1 + [i for i, line in enumerate(open(script)) if text in line][0])
segment, = [row for row in calls if row[:2] == ["cudaMalloc", str(32 << 20)]]
assert "pieces " in segment[4] and "leak.py" in segment[4] and not segment[3], segment
last, refused = [row for row in calls if row[2] == "2"]
assert "burst " in last[4] and "call " in refused[4] and last[3] == "cudaErrorMemoryAllocation", (last, refused)
burst = [row[4] for row in calls if row[:2] == ["cudaMalloc", "4096"]]
assert len(burst) == 400 and 40 <= sum("burst " in frames for frames in burst) < 400, burst # 50 in 100 ms, with the calls before
assert all("burst " in frames or not frames for frames in burst), burst
assert not any(row[4] for row in calls if row[0] == "cudaFree"), calls
copies = {(c["direction"], c["async"]): c for c in json.load(open(work + "/copies"))["copies"]}
assert {key: (c["count"], c["bytes"], c["held_count"] >= 10, c["held_bytes"] >= 70 << 20) for key, c in copies.items()} == {
    ("to device", False): (10, 10 << 20, False, False), ("to host", False): (10, 30 << 20, False, False),
    ("to device", True): (30, (120 << 20) + 90, True, True), ("in devices", True): (10, 110 << 20, False, False)}, copies
within = copies.pop(("in devices", True)) # whose time is not measured
assert within["duration_ns"] == within["longest_ns"] == within["bytes_per_s"] == 0, within
assert all(0 < c["bytes_per_s"] < 1e12 for c in copies.values()), copies
END
"$tracectl" findings | grep 'ran out of memory of cuda:0 in ask (leak.py:[0-9]*): 2 GiB asked for' ||
	fail "no finding of the failed request: $("$tracectl" findings)"
# sysTrace's files have the same stacks.
"$tracectl" dump --since 1h --level L2 -o "$work/dump" >/dev/null || fail "no dump"
"$python_here" - "$tracectl" "$work/dump" "$pid" "$source_dir/tests/e2e" <<'END' || fail "the dump differs from the store"
import sys
tracectl, folder, pid, here = sys.argv[1:]
sys.dont_write_bytecode = True
sys.path.insert(0, here)
import dumps
dumped, _ = dumps.files(folder, "L2", {int(pid)})
kept = dumps.stored(tracectl, "L2")
assert dumped and dumped == {row: n for row, n in kept.items() if row[1] == int(pid)}, (dumped, kept)
segment, = [row for row in dumped if row[6] == 32 << 20]
line = 1 + [i for i, text in enumerate(open(here + "/train/leak.py")) if "cudart.cudaMalloc(" in text and "32 << 20" in text][0]
assert ("pieces (leak.py:%d)" % line, 0) in segment[7] and any(address for _, address in filter(None, segment[7])), segment
END
# Pictures of the same: each format has the bytes of the lines; PyTorch's own reader takes the snapshot.
for file in held.folded held.html held.speedscope.json held.pb.gz held.pickle; do
	"$tracectl" memory -o "$work/$file" || fail "$file is not written"
done
"$tracectl" memory --format folded --allocated -o - >"$work/allocated"
! "$tracectl" memory leaks -o "$work/none" 2>/dev/null || fail "a picture of leaks is not refused"
code=0
"$tracectl" memory --format svg --state-dir "$work/none" 2>"$work/usage" || code=$?
[ "$code" -eq 2 ] && grep -q 'format takes html' "$work/usage" || fail "a wrong format without a store is no error of usage: $code, $(cat "$work/usage")"
code=0
"$tracectl" memory --rank 7 --json >"$work/nothing" 2>"$work/usage" || code=$?
[ "$code" -eq 1 ] && grep -q '"live": \[\]' "$work/nothing" && grep -q 'of these ranks is stored' "$work/usage" || fail "no rows are no error: $code, $(cat "$work/nothing" "$work/usage")"
"$tracectl" memory --format map -o "$work/map.html" || fail "no map"
grep -q '"failures":\[{"ns":' "$work/map.html" || fail "the map has no failed request"
grep -q '"bytes":true' "$work/held.html" || fail "the page has no bytes"
"$python" - "$work" <<'END' || fail "the pictures differ from what is held"
import json, pickle, sys
from torch.cuda import _memory_viz
work = sys.argv[1]
held = sum(p["live_bytes"] for pool in json.load(open(work + "/live"))["live"] for p in pool["places"] if p["live_bytes"] > 0)
snapshot = pickle.load(open(work + "/held.pickle", "rb"))
blocks = [b for segment in snapshot["segments"] for b in segment["blocks"]]
used = [b for b in blocks if b["state"] == "active_allocated"]
assert sum(b["size"] for b in used) == held, (held, used)
assert all(sum(b["size"] for b in s["blocks"]) == s["total_size"] for s in snapshot["segments"])
assert len(snapshot["device_traces"]) == len(snapshot["segments"])
inner = {(b["frames"][0]["name"], b["frames"][0]["filename"].rsplit("/", 1)[-1]) for b in used if b["frames"]}
names = {f["name"] for b in used for f in b["frames"]}
assert {"keep", "weights", "train"} <= names, (inner, names)
assert "active_allocated" in str(_memory_viz.stats(snapshot["segments"]))
folded = [line.rsplit(" ", 1) for line in open(work + "/held.folded")]
assert abs(sum(int(n) for _, n in folded) - held) <= len(folded), (folded, held)
assert any("keep (leak.py:" in stack for stack, _ in folded), folded
assert not any("reportMemoryUsageToProfiler" in stack for stack, _ in folded), folded
assert sum(int(line.rsplit(" ", 1)[1]) for line in open(work + "/allocated")) > held
assert sum(json.load(open(work + "/held.speedscope.json"))["profiles"][0]["weights"]) > 0
END

# Calls that give back memory and take it again, at each step, are found, and those of the training above were not.
! "$tracectl" findings | grep 'takes it again\|took it again' || fail "a few calls are a finding"
RANK=0 WORLD_SIZE=1 MASTER_PORT=29674 "$python" "$source_dir/tests/e2e/train/leak.py" "$work/start" "$work/truth" 300 "$build/fixtures/libcudart.so.13" retries >"$work/leak.log" 2>&1 &
pid=$!
children+=("$pid")
again() { "$tracectl" findings | grep 'gives back device memory and takes it again .*: the calls take [1-9][0-9] % of its time, the longest in retries (leak.py:[0-9]*)'; }
wait_for 40 again || fail "no finding of the calls: $("$tracectl" findings; "$tracectl" memory fragmentation)"
kill "$pid"
ended() { ! "$tracectl" findings | grep 'takes it again'; }
wait_for 10 ended || fail "the finding of a process that has ended is not over: $("$tracectl" findings)"
children=()

# A process whose allocator reports nothing is there by its calls of the driver.
RANK=1 WORLD_SIZE=2 "$python" - "$work/driver" "$build/fixtures/libcudart.so.13" <<'END' &
import ctypes, os, sys, time, torch
cudart, address = ctypes.CDLL(sys.argv[2]), ctypes.c_void_p()
while not os.path.exists(sys.argv[1]):
    cudart.cudaMalloc(ctypes.byref(address), ctypes.c_size_t(1 << 20))
    cudart.cudaFree(address)
    time.sleep(0.02)
END
driver=$!
children+=("$driver")
driven() { "$tracectl" memory fragmentation --rank 1 | grep -A1 "^rank 1 (.*pid $driver): calls of the driver alone are known" | grep -q '^  calls *[1-9]'; }
wait_for 20 driven || fail "calls of a process without reports are not there: $("$tracectl" memory fragmentation)"
touch "$work/driver"
e2e_done
