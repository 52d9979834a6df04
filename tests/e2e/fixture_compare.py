#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the store with the calls of the fixture ranks: every call, in order, and no other.

  fixture_compare.py TRACECTL calls PID:TRUTH...      [--lettered] [--from-middle] [--least N]
  fixture_compare.py TRACECTL memory PID:TRUTH...

--lettered: the truth's identities are letters: equal letters mean equal identities, "" means none.
--from-middle: attached in mid-run: the store holds a tail of the truth, numbered from the attach.
"""
import argparse
import json
import subprocess
import sys

FIELDS = ("op", "dtype", "count", "bytes", "peer", "result")


def query(tracectl, sql):
    out = subprocess.run([tracectl, "query", "--json", sql], check=True, capture_output=True, text=True).stdout
    return json.loads(out)


def load(path):
    with open(path, encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def instance(pid):
    return f"(select max(instance) from ranks where pid = {pid})"


class Failures(list):
    def check(self, right, line):
        if not right:
            self.append(line)
        return right


def plain(call):
    return {field: call.get(field) or (0 if field in ("result", "peer", "count") and call.get(field) == 0 else None)
            for field in FIELDS}


def match_groups(pid, truth, rows, failures):
    """Calls of one group share a number; others have none."""
    number = {}
    for t, r in zip(truth, rows):
        mine, stored = t["group"], r["group_id"] or 0
        failures.check(number.setdefault(mine, stored) == stored and bool(mine) == bool(stored),
                       f"{pid}: {t['op']} of {t.get('count')} is in group {stored}, called in {mine} (else {number})")
    failures.check(len(set(number.values())) == len(number), f"{pid}: two groups share a number: {number}")


def compare_calls(args, failures):
    shared = {}
    seen = {}
    for pair in args.pairs:
        pid, path = pair.split(":", 1)
        truth = load(path)
        rows = query(args.tracectl, "select communicator, seq, seq_from, op, dtype, count, bytes, peer, result, group_id, "
                     f"host_duration_ns, tier from collectives where instance = {instance(pid)} order by host_start_ns")
        print(f"rank of pid {pid}: {len(truth)} called, {len(rows)} stored")
        if args.from_middle:
            failures.check(len(rows) >= args.least, f"{pid}: {len(rows)} stored, at least {args.least} expected")
            truth = truth[len(truth) - len(rows):] if len(rows) <= len(truth) else truth
        failures.check(len(truth) == len(rows), f"{pid}: {len(truth)} called, {len(rows)} stored")
        for number, (t, r) in enumerate(zip(truth, rows)):
            if not failures.check(plain(t) == plain(r), f"{pid}: call {number}: called {plain(t)}, stored {plain(r)}"):
                break
            failures.check(r["tier"] == "host", f"{pid}: call {number} is of tier {r['tier']}")
            if args.lettered:
                failures.check(bool(t["communicator"]) == bool(r["communicator"]), f"{pid}: call {number}: {t} stored as {r}")
                known = shared.setdefault(t["communicator"], r["communicator"])
                failures.check(known == r["communicator"], f"{pid}: call {number}: {t} is of {r['communicator']}, others of {known}")
            else:
                failures.check(t["communicator"] == r["communicator"], f"{pid}: call {number}: {t} stored as {r}")
            if t["seq"] and not args.from_middle:
                failures.check(t["seq"] == r["seq"], f"{pid}: call {number}: {t} stored as {r}")
                failures.check(r["seq_from"] == "init", f"{pid}: call {number}: numbered from {r['seq_from']}")
            if args.from_middle:
                failures.check(r["seq_from"] == "attach", f"{pid}: call {number}: numbered from {r['seq_from']}, expected attach")
            if t["seq"] and t.get("peer") is None and not args.from_middle:
                seen.setdefault((t["communicator"], t["seq"]), []).append((t["op"], r["op"], r["seq"]))
        if not args.from_middle:
            match_groups(pid, truth, rows, failures)
    if args.lettered:
        failures.check(len(set(shared.values())) == len(shared), f"two communicators share an identity: {shared}")
    for key, of in seen.items():
        failures.check(len(set(of)) == 1, f"{key}: ranks differ: {of}")


def compare_memory(args, failures):
    for pair in args.pairs:
        pid, path = pair.split(":", 1)
        truth = load(path)
        rows = query(args.tracectl, "select op, address, bytes, result, device, duration_ns from allocations "
                     f"where instance = {instance(pid)} order by start_ns + duration_ns, start_ns desc")
        print(f"pid {pid}: {len(truth)} called, {len(rows)} stored")
        # The runtime's calls of the driver have no rows.
        failures.check(len(rows) == len(truth), f"{pid}: {len(truth)} called, {len(rows)} stored")
        live = {}
        for number, (t, r) in enumerate(zip(truth, rows)):
            size = t["bytes"]
            if "ree" in t["op"] or t["op"] == "cuMemRelease":
                size = live.pop(t["address"], None)
            elif not t["result"]:
                live[t["address"]] = size
            want = {"op": t["op"], "address": t["address"] or None, "bytes": size, "result": t["result"]}
            have = {k: r[k] or (0 if k == "result" else None) for k in want}
            failures.check(want == have, f"{pid}: call {number}: called {want}, stored {have}")
            if t["op"] == "cuMemCreate":
                failures.check(r["device"] == 3, f"{pid}: call {number}: device {r['device']}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tracectl")
    parser.add_argument("what", choices=["calls", "memory"])
    parser.add_argument("pairs", nargs="+")
    parser.add_argument("--lettered", action="store_true")
    parser.add_argument("--from-middle", action="store_true")
    parser.add_argument("--least", type=int, default=1)
    args = parser.parse_args()
    failures = Failures()
    (compare_calls if args.what == "calls" else compare_memory)(args, failures)
    for line in failures[:15]:
        print(f"FAIL: {line}", file=sys.stderr)
    if len(failures) > 15:
        print(f"FAIL: {len(failures)} in all", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
