# SPDX-License-Identifier: Apache-2.0
"""Compares a rank's rows in the store with the training script's own measurements.

usage: compare.py TRACECTL TRUTH.json RANK [--pid PID] [--steps N] [--shares STAGE,STAGE...] [--within POINTS]

The number of steps must be equal. Each stage's share of a step must be within the given percentage points (default 2)
of the script's. Stage and step are medians over steps: a pause of the machine between a timer of the script and the
framework's mark changes one step only.
"""
import argparse
import json
import statistics
import subprocess
import sys


def query(tracectl, sql):
    out = subprocess.run([tracectl, "query", "--json", sql], check=True, capture_output=True, text=True).stdout
    return json.loads(out)


def median(values):
    return statistics.median([*values] or [float("nan")])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tracectl")
    parser.add_argument("truth")
    parser.add_argument("rank", type=int)
    parser.add_argument("--pid", type=int)
    parser.add_argument("--steps", type=int, help="expected steps (default: all of the script's)")
    parser.add_argument("--shares", default="")
    parser.add_argument("--within", type=float, default=2.0)
    args = parser.parse_args()
    with open(args.truth, encoding="utf-8") as f:
        truth = json.load(f)
    failures = []

    one = f"instance = (select max(instance) from ranks where rank = {args.rank}" + (
        f" and pid = {args.pid})" if args.pid else ")")
    expected = args.steps if args.steps is not None else truth["steps"]
    steps = query(args.tracectl, f"select count(*) n, sum(duration_ns) ns from steps where {one}")[0]
    line = f"rank {args.rank}: {steps['n']} steps stored, {expected} in the script"
    if steps["n"] != expected:
        failures.append(line)
    print(line)
    ends = truth["step_end_monotonic_ns"]
    whole_ns = ends[-1] - truth["start_monotonic_ns"]
    print(f"rank {args.rank}: steps of {(steps['ns'] or 0) / 1e6:.1f} ms stored, {whole_ns / 1e6:.1f} ms in the script")

    step_ns = median(row["ns"] for row in query(args.tracectl, f"select duration_ns ns from steps where {one}"))
    their_step_ns = median(end - begin for begin, end in zip([truth["start_monotonic_ns"]] + ends, ends))
    for stage in filter(None, args.shares.split(",")):
        stored = query(args.tracectl, f"select sum(duration_ns) ns from stages where {one} and stage = '{stage}' "
                       "and step is not null group by step")
        mine = 100 * median(row["ns"] for row in stored) / step_ns
        theirs = 100 * median(truth["stage_ns"][stage]) / their_step_ns
        line = f"rank {args.rank}: {stage} {mine:.2f} % stored, {theirs:.2f} % in the script"
        if not abs(mine - theirs) <= args.within:
            failures.append(line)
        print(line)
    for line in failures:
        print(f"FAIL: {line}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
