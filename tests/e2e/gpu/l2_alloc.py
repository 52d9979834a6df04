#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares known allocations of device memory with the store.

  l2_alloc.py run TRUTH.json [--wait FILE]     allocates through libcudart and libcuda by ctypes, waiting for FILE first
  l2_alloc.py compare TRACECTL TRUTH.json      each call with its size, its address and its result, in order
  l2_alloc.py self-test                        the comparison on synthetic data
"""
import argparse
import ctypes
import glob
import json
import os
import subprocess
import sys
import time

HUGE = 1 << 50
# Calls of the driver by others: libraries that torch loads. Calls by the runtime have no rows.
OTHERS = ("cuMem",)


def mapped(name):
    """The library mapped by torch, or the system's."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        for line in maps:
            path = line.split(maxsplit=5)[-1].strip()
            if os.path.basename(path).startswith(name + ".so"):
                return path
    found = glob.glob(f"/usr/local/cuda*/lib64/{name}.so.*")
    return found[0] if found else name + ".so.1"


class Prop(ctypes.Structure):
    """CUmemAllocationProp: pinned memory of one device."""
    _fields_ = [("type", ctypes.c_int), ("handle_types", ctypes.c_int), ("location_type", ctypes.c_int), ("location_id", ctypes.c_int),
                ("security", ctypes.c_void_p), ("flags", ctypes.c_ubyte * 8)]


class Recorder:
    def __init__(self):
        self.truth = []
        self.runtime, self.driver = ctypes.CDLL(mapped("libcudart")), ctypes.CDLL(mapped("libcuda"))

    def alloc(self, library, function, size, *more, before=()):
        address = ctypes.c_uint64(0)
        result = getattr(library, function)(*before, ctypes.byref(address), ctypes.c_size_t(size), *more)
        self.truth.append({"op": function, "bytes": size, "address": address.value if not result else None, "result": result})
        return address.value

    def free(self, library, function, address, *more):
        result = getattr(library, function)(ctypes.c_uint64(address), *more)
        self.truth.append({"op": function, "bytes": None, "address": address, "result": result})


def run(args):
    import torch
    torch.cuda.init()
    torch.zeros(1, device="cuda")
    while args.wait and not os.path.exists(args.wait):
        time.sleep(0.05)
    r = Recorder()
    rt, drv, stream = r.runtime, r.driver, ctypes.c_void_p(0)
    for turn in range(args.turns):
        size = 1000 * 1000 * (turn + 1)
        r.free(rt, "cudaFree", r.alloc(rt, "cudaMalloc", size))
        r.free(rt, "cudaFree", r.alloc(rt, "cudaMallocManaged", size + 1, ctypes.c_uint(1)))
        r.free(rt, "cudaFreeHost", r.alloc(rt, "cudaMallocHost", size + 2))
        r.free(rt, "cudaFreeHost", r.alloc(rt, "cudaHostAlloc", size + 3, ctypes.c_uint(0)))
        r.free(rt, "cudaFreeAsync", r.alloc(rt, "cudaMallocAsync", size + 4, stream), stream)
        r.free(drv, "cuMemFree_v2", r.alloc(drv, "cuMemAlloc_v2", size + 5))
        r.free(drv, "cuMemFree_v2", r.alloc(drv, "cuMemAllocManaged", size + 6, ctypes.c_uint(1)))
        r.free(drv, "cuMemFreeAsync", r.alloc(drv, "cuMemAllocAsync", size + 7, stream), stream)
        prop = Prop(type=1, location_type=1, location_id=torch.cuda.current_device())
        r.free(drv, "cuMemRelease", r.alloc(drv, "cuMemCreate", (turn + 1) << 21, ctypes.byref(prop), ctypes.c_uint64(0)))
        r.alloc(rt, "cudaMalloc", HUGE + turn)
        rt.cudaGetLastError()
        r.alloc(drv, "cuMemAlloc_v2", HUGE + 512 + turn)
        r.alloc(drv, "cuMemCreate", HUGE, ctypes.byref(prop), ctypes.c_uint64(0))
    with open(args.file, "w", encoding="utf-8") as f:
        json.dump({"pid": os.getpid(), "calls": r.truth}, f)


def same(call, row):
    return (row["op"] == call["op"] and row["result"] == call["result"] and call["bytes"] in (None, row["bytes"])
            and call["address"] in (None, int(str(row["address"] or 0), 0)))


def compare(calls, rows):
    """Every call must be stored in order; only driver functions may have extra rows. Returns failures."""
    failures, at = [], 0
    for number, call in enumerate(calls):
        nested = at
        while nested < len(rows) and not same(call, rows[nested]) and rows[nested]["op"].startswith(OTHERS):
            nested += 1
        if nested < len(rows) and same(call, rows[nested]):
            at = nested + 1
        else:
            failures.append(f"call {number}: {call}; stored there: {rows[at] if at < len(rows) else 'nothing'}")
            later = [i for i in range(at, len(rows)) if same(call, rows[i])]
            at = later[0] + 1 if later else at
    failures += [f"stored, and not called: {row}" for row in rows[at:] if not row["op"].startswith(OTHERS)]
    return failures


def run_compare(args):
    with open(args.truth, encoding="utf-8") as f:
        truth = json.load(f)
    # Rows are written at return, nested calls first: order by end.
    sql = ("select op, address, bytes, result, start_ns, duration_ns, device from allocations "
           f"where instance = (select max(instance) from ranks where pid = {truth['pid']}) order by start_ns + duration_ns")
    rows = json.loads(subprocess.run([args.file, "query", "--json", sql], check=True, capture_output=True, text=True).stdout)
    names = {call["op"] for call in truth["calls"]}
    # torch allocates before the truth begins and may free after it ends.
    first = next((i for i, row in enumerate(rows) if same(truth["calls"][0], row)), 0)
    rows = [row for row in rows[first:] if row["op"] in names]
    last = next((i for i in range(len(rows) - 1, -1, -1) if same(truth["calls"][-1], rows[i])), len(rows) - 1)
    failures = compare(truth["calls"], rows[:last + 1])
    for op in sorted(names):
        called = [c for c in truth["calls"] if c["op"] == op]
        print(f"  {op:20} called {len(called):4} (failed {sum(c['result'] != 0 for c in called):3})  "
              f"stored {sum(r['op'] == op for r in rows):4} (failed {sum(r['op'] == op and r['result'] != 0 for r in rows):3})")
    for line in failures[:20]:
        print("FAIL: " + line)
    return 1 if failures else 0


def self_test():
    calls = [{"op": "cudaMalloc", "bytes": 10, "address": 4096, "result": 0}, {"op": "cudaFree", "bytes": None, "address": 4096, "result": 0},
             {"op": "cudaMalloc", "bytes": HUGE, "address": None, "result": 2}, {"op": "cudaFree", "bytes": None, "address": 0, "result": 0}]
    rows = [{"op": "cuMemAlloc_v2", "bytes": 10, "address": 4096, "result": 0}] + [
        dict(c, address=c["address"] or None) for c in calls]
    right = not compare(calls, rows)
    wrong = [compare(calls, rows[:-1]), compare(calls, [dict(r, bytes=11) for r in rows]), compare(calls, rows + [rows[1]]),
             compare(calls, [dict(r, result=0) for r in rows])]
    if not right or not all(wrong):
        sys.exit("self-test: wrong results")
    print("self-test passed")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["run", "compare", "self-test"])
    parser.add_argument("file", nargs="?", help="run: the file to write; compare: tracectl")
    parser.add_argument("truth", nargs="?")
    parser.add_argument("--wait")
    parser.add_argument("--turns", type=int, default=5)
    args = parser.parse_args()
    return {"run": run, "compare": run_compare}.get(args.what, lambda _: self_test())(args)


if __name__ == "__main__":
    sys.exit(main())
