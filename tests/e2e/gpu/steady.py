#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What windows of levels cost a training (steady.sh): its steps in each window beside those just before and after it. The training of
cost.py, launch-bound; without cards on CPUs over gloo, to try the scripts.

  steady.py train OUT                as a rank (RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT), until OUT/end exists
  steady.py stamp                    lines of the daemon's log, each behind its time on the monotonic clock, ns
  steady.py report OUT               of OUT/daemon.log and OUT/steps.0
  steady.py self-test

The machine's pace drifts by 10 % and more within a minute, so that phases of a minute are no measure, and neighbours of a second are.
"""
import array
import bisect
import os
import random
import re
import statistics
import sys
import tempfile
import time

BATCH = 20  # steps, whose end has a time
NEAR_NS = 1500000000  # on each side of a window: steps that it is compared with
EDGE_NS = 100000000  # probes are attached and detached within it, before and after the log says so


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


def stamp():
    for line in sys.stdin:
        print(time.monotonic_ns(), line, end="", flush=True)


def ends(path):
    """The end and the length of each step, ns: a batch ends at a time, and its steps follow each other."""
    values, steps, found = array.array("q"), [], []
    with open(path, "rb") as file:
        values.frombytes(file.read())
    for value in values:
        if value >= 0:
            steps.append(value)
            continue
        end = -value
        for ns in reversed(steps):
            found.append((end, ns))
            end -= ns
        steps = []
    return sorted(found)


def windows(path):
    """(begin, end) of the windows, those that overlap as one; the time from which on the last level is in windows."""
    opened, spans, settled = {}, [], {}
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            at = int(line.split(" ", 1)[0])
            found = re.search(r"guard: a window of (L\d) (opens|ends)", line)
            turned = re.search(r"guard: (L\d) is on in windows", line)
            if turned:
                settled.setdefault(turned[1], at)
            elif found and found[2] == "opens":
                opened[found[1]] = at
            elif found and found[1] in opened:
                spans.append((opened.pop(found[1]), at, found[1]))
    joined = []
    for begin, end, level in sorted(spans):
        if joined and begin <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]), joined[-1][2] | {level})
        else:
            joined.append((begin, end, {level}))
    return joined, max(settled.values(), default=None)


def interval(values, of=statistics.median):
    """Of the median, or another figure of them: 95 %, by bootstrap."""
    draw = random.Random(1)
    found = sorted(of(draw.choices(values, k=len(values))) for _ in range(2000))
    return found[50], found[1949]


def report(out):
    """The part of the time that windows take, in percent, with its interval; None: there was none."""
    steps = ends(os.path.join(out, "steps.0"))
    spans, since = windows(os.path.join(out, "daemon.log"))
    at = [end for end, _ in steps]

    def lengths(begin, end):
        return [ns for _, ns in steps[bisect.bisect_left(at, begin):bisect.bisect_left(at, end)]]

    excess, grown, opened = [], [], 0
    for i, (begin, end, _) in enumerate(spans):
        begin, end = begin - EDGE_NS, end + EDGE_NS
        before = max(begin - NEAR_NS, spans[i - 1][1] + EDGE_NS if i else 0)
        after = min(end + NEAR_NS, spans[i + 1][0] - EDGE_NS if i + 1 < len(spans) else end + NEAR_NS)
        inside, near = lengths(begin, end), lengths(before, begin) + lengths(end, after)
        if since is None or before < since or len(inside) < 5 or len(near) < 5:
            continue
        usual = statistics.fmean(near)
        excess.append(sum(inside) - usual * len(inside))
        length = spans[i][1] - spans[i][0]
        grown.append(excess[-1] / max(1, length - excess[-1]))
        opened += length
    if not excess:
        print("no window with steps beside it")
        return None
    watched = sum(lengths(since, at[-1]))
    percent, low, high = (100 * value / watched for value in (sum(excess), *interval(excess, sum)))
    print(f"step {watched / len(lengths(since, at[-1])) / 1e6:.3f} ms; {len(excess)} windows of {', '.join(sorted(set().union(*(s[2] for s in spans))))},"
          f" open {100 * opened / watched:.2f} % of {watched / 1e9:.0f} s; steps in them {100 * statistics.median(grown):+.2f} %"
          f" ({100 * interval(grown)[0]:+.2f} to {100 * interval(grown)[1]:+.2f})")
    print(f"windows take {percent:+.3f} % of the time ({low:+.3f} to {high:+.3f})")
    return percent


def self_test():
    """Steps of 10 ms that drift to 15 ms; a second in ten is a window, in which they take 10 % longer."""
    with tempfile.TemporaryDirectory() as out:
        values, now, spans, taken = array.array("q"), 10**12, [], 0
        begin = now
        while now < begin + 300 * 10**9:
            for _ in range(BATCH):
                second = (now - begin) // 10**9
                inside = second % 10 == 5
                if inside and (not spans or spans[-1][0] != second):
                    spans.append((second, now))
                ns = int(1e7 * (1 + 0.5 * (now - begin) / 300e9))
                taken += ns // 10 if inside else 0
                ns += ns // 10 if inside else 0
                values.append(ns)
                now += ns
            values.append(-now)
        with open(os.path.join(out, "steps.0"), "wb") as file:
            values.tofile(file)
        with open(os.path.join(out, "daemon.log"), "w", encoding="utf-8") as file:
            file.write(f"{begin} ranktraced: notice: guard: L2 is on in windows, 10 % of the time\n")
            for second, _ in spans:
                file.write(f"{begin + second * 10**9} ranktraced: debug: guard: a window of L2 opens\n")
                file.write(f"{begin + (second + 1) * 10**9} ranktraced: debug: guard: a window of L2 ends\n")
        found = report(out)
        assert len(spans) == 30 and abs(found - 100 * taken / (now - begin)) < 0.03, (found, 100 * taken / (now - begin))


if __name__ == "__main__":
    if sys.argv[1] in ("self-test", "stamp"):
        {"self-test": self_test, "stamp": stamp}[sys.argv[1]]()
    else:
        {"train": train, "report": report}[sys.argv[1]](sys.argv[2])
