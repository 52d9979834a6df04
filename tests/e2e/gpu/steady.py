#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a daemon with all levels on costs a training once the guard has settled: it is started and stopped around one run
(steady.sh). The training of cost.py, launch-bound; without cards on CPUs over gloo, to try the scripts.

  steady.py train OUT                as a rank (RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT), until OUT/end exists
  steady.py report OUT               of OUT/phases (a line each: name, begin and end on the monotonic clock, ns) and OUT/steps.RANK
  steady.py self-test

A pair is a phase and the mean of the phases `off` before and after it; windows are part of a mean, so means are compared, of rank 0.
"""
import array
import os
import random
import statistics
import sys
import tempfile
import time

BATCH = 20  # steps, whose end has a time


def train(out):
    import torch
    import torch.distributed as dist

    from cost import Loop

    rank, cuda = int(os.environ["RANK"]), torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if cuda else "gloo")
    loop, steps = Loop("bound", rank, device), array.array("q")
    go = torch.ones(1, device=device)
    while True:
        if rank == 0:
            go[0] = float(not os.path.exists(os.path.join(out, "end")))
        dist.broadcast(go, 0)
        if go.item() == 0:
            break
        for us in loop.run(BATCH):
            steps.append(int(us * 1e3))
        steps.append(-time.monotonic_ns())  # the end of the steps before it
    with open(os.path.join(out, f"steps.{rank}"), "wb") as file:
        steps.tofile(file)
    dist.barrier()
    dist.destroy_process_group()


def batches(path):
    """(end, steps) of each batch."""
    values, steps = array.array("q"), []
    with open(path, "rb") as file:
        values.frombytes(file.read())
    for value in values:
        if value < 0:
            yield -value, steps
            steps = []
        else:
            steps.append(value)


def interval(ratios):
    """Of the median, 95 %, by bootstrap."""
    draw = random.Random(1)
    medians = sorted(statistics.median(draw.choices(ratios, k=len(ratios))) for _ in range(2000))
    return medians[50], medians[1949]


def report(out):
    with open(os.path.join(out, "phases"), encoding="utf-8") as file:
        phases = [(name, int(begin), int(end)) for name, begin, end in (line.split() for line in file)]
    runs = list(batches(os.path.join(out, "steps.0")))
    means = []
    for name, begin, end in phases:
        inside = [ns for at, steps in runs if begin + sum(steps) <= at <= end for ns in steps]
        if not inside:
            print(f"{name}: no batch of {BATCH} steps lies within it")
            continue
        means.append((name, statistics.fmean(inside), len(inside)))
        print(f"{name}: {len(inside)} steps, mean {means[-1][1] / 1e6:.3f} ms")
    found = {}
    for name in dict.fromkeys(name for name, _, _ in means if name != "off"):
        ratios = []
        for i, (what, mean, _) in enumerate(means):
            off = [next((m[1] for m in side if m[0] == "off"), None) for side in (means[i::-1], means[i:])]
            if what == name and None not in off:
                ratios.append(mean / statistics.fmean(off))
        if ratios:
            found[name] = statistics.median(ratios)
            low, high = interval(ratios)
            print(f"{name}: {100 * (statistics.median(ratios) - 1):+.2f} % ({100 * (low - 1):+.2f} to {100 * (high - 1):+.2f}), {len(ratios)} pairs")
    return found


def self_test():
    """A run that drifts by 1 % a phase; `steady` takes 3 % more, and a batch that reaches out of its phase is slow."""
    with tempfile.TemporaryDirectory() as out, open(os.path.join(out, "phases"), "w", encoding="utf-8") as phases:
        values, now = array.array("q"), 1000
        for i, name in enumerate(["off", "steady"] * 5 + ["off"]):
            begin = now
            for batch in range(11):
                ns = int(1e6 * (1 + 0.01 * i) * (1.03 if name == "steady" else 1)) * (1 if batch else 5)
                values.extend([ns] * BATCH)
                now += ns * BATCH
                values.append(-now)
                begin = begin if batch else now - 1
            phases.write(f"{name} {begin} {now}\n")
        phases.flush()
        with open(os.path.join(out, "steps.0"), "wb") as file:
            values.tofile(file)
        found = report(out)
    assert list(found) == ["steady"] and abs(found["steady"] - 1.03) < 0.001, found


if __name__ == "__main__":
    if sys.argv[1] == "self-test":
        self_test()
    else:
        {"train": train, "report": report}[sys.argv[1]](sys.argv[2])
