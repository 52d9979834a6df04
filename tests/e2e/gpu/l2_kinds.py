#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trainings that leak memory of their device, and trainings that seem to, each a process and a job of its own.

  l2_kinds.py run KIND SECONDS OUT      trains, and writes its own books to OUT/kinds.KIND.json
  l2_kinds.py list [oom]                names of the kinds; oom: those that run out of memory, on cards alone
  l2_kinds.py score TRACECTL OUT        what the daemon says of them, a line a kind; exits with 1 where it is wrong

Without a card PyTorch reports blocks of the host's memory, under its profiler. A step takes 0.1 s and has 100 blocks of 64 KiB.
"""
import collections
import json
import os
import random
import subprocess
import sys
import time

import torch

BLOCK = 16384  # elements, 64 KiB
STEP_S = 0.1
LATE_S = 40


class Training:
    def __init__(self, kind, seconds):
        self.kind, self.seconds = kind, seconds
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(4)]).to(self.device)
        self.optimizer = torch.optim.Adam(self.model.parameters())
        self.base = [torch.zeros(1 << 22, device=self.device) for _ in range(8)]  # 128 MiB
        self.kept, self.total, self.begin_s, self.held = [], 0, None, 0
        self.random = random.Random(7)

    def block(self, count=1):
        return torch.empty(BLOCK * count, device=self.device)

    def loss(self):
        return self.model(torch.randn(64, 64, device=self.device)).square().mean()

    def begins(self, second):
        if self.begin_s is None:
            self.begin_s, self.begin_ns = second, time.time_ns()

    # Leaks.

    def keep_part(self, part, second):
        self.begins(second)
        for _ in range(100):
            block = self.block()
            if self.random.random() < part:
                self.kept.append(block)

    def leak100(self, second):
        self.keep_part(1, second)

    def leak20(self, second):
        self.keep_part(0.2, second)

    def leak5(self, second):
        self.keep_part(0.05, second)

    def leak1(self, second):
        self.keep_part(0.01, second)

    def late(self, second):
        if second >= LATE_S:
            self.keep_part(0.05, second)

    def losses(self, second):
        """A list of losses, each with its graph."""
        self.begins(second)
        self.kept.append(self.loss())

    def graph(self, second):
        """A sum that keeps the graph of each step alive."""
        self.begins(second)
        self.total = self.total + self.loss()

    # No leaks.

    def steady(self, second):
        for _ in range(100):
            self.block()

    def cache(self, second):
        if len(self.kept) < 400:
            self.kept.append(self.block(4))

    def weights(self, second):
        if second < 20:
            self.base.append(self.block(16))

    def ring(self, second):
        self.kept = self.kept if isinstance(self.kept, collections.deque) else collections.deque(maxlen=50)
        self.kept.append(self.block(1 + self.random.randrange(16)))

    def objects(self, second):
        """Each lives for 60 steps."""
        self.ring(second)
        self.kept = collections.deque(self.kept, maxlen=60)

    def sawtooth(self, second):
        """As validation's outputs: they are kept for 15 s, then released."""
        self.kept.append(self.block(2))
        if len(self.kept) == 150:
            self.kept.clear()

    # What ends it, on a card. A part of the card is the whole of it: a step is over at 2 GiB.

    def limit(self, gib):
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(gib * 2**30 / total)

    def capacity(self, second):
        self.limit(2)
        if second > 5:
            torch.empty(3 << 30, dtype=torch.uint8, device=self.device)

    def leaked(self, second):
        self.limit(2)
        self.kept += [self.block(16) for _ in range(3 if second < 45 else 300)]

    def fragmented(self, second):
        """Three of four pieces are released, 1.3 GiB, and no two of them that touch make a large one."""
        self.limit(2)
        if second > 5:
            pieces = [torch.empty(5 << 18, dtype=torch.uint8, device=self.device) for _ in range(1400)]
            self.kept = pieces[::4]
            del pieces
            torch.empty(1 << 30, dtype=torch.uint8, device=self.device)

    def neighbour(self, second):
        """Another process holds what this one asks for."""
        if second > 5:
            free, _ = torch.cuda.mem_get_info()
            torch.empty(free + (1 << 30), dtype=torch.uint8, device=self.device)

    def update(self):
        self.optimizer.zero_grad()
        self.loss().backward()
        self.optimizer.step()

    def train(self):
        for _ in range(3):  # what the libraries take for themselves comes first
            self.update()
        before = allocated(self)
        start, steps = time.monotonic(), 0
        method = getattr(self, self.kind)
        while time.monotonic() - start < self.seconds:
            second = time.monotonic() - start
            self.update()
            method(second)
            steps += 1
            time.sleep(max(0, start + steps * STEP_S - time.monotonic()))
        return allocated(self) - before, time.monotonic() - start


# The function that is to be named.
LEAKS = {"leak100": "block", "leak20": "block", "leak5": "block", "leak1": "block", "late": "block", "losses": "loss", "graph": "loss"}
HEALTHY = ("steady", "cache", "weights", "ring", "objects", "sawtooth")
OOM = {"capacity": "capacity", "leaked": "leak", "fragmented": "fragmentation", "neighbour": "neighbour"}


def allocated(training):
    if training.device.type == "cuda":
        return torch.cuda.memory_allocated()
    return sum(t.numel() * t.element_size() for t in training.kept) if training.kind in ("leak100", "leak20", "leak5", "leak1", "late") else 0


def run(kind, seconds, out):
    training = Training(kind, seconds)
    with torch.autograd.profiler.profile(enabled=training.device.type == "cpu", profile_memory=True, use_kineto=False):
        grown, took_s = training.train()
        truth = {"grown": grown, "took_s": took_s - (training.begin_s or 0), "begin_ns": getattr(training, "begin_ns", 0)}
        with open(os.path.join(out, f"kinds.{kind}.json"), "w", encoding="utf-8") as file:
            json.dump(truth, file)
        os._exit(0)  # the profiler would take minutes to sort what it has of all steps


def tool(tracectl, *words):
    return json.loads(subprocess.run([tracectl, *words, "--json"], capture_output=True, text=True, check=False).stdout or "{}")


def score(tracectl, out):
    wrong = 0
    found = collections.defaultdict(list)
    for finding in tool(tracectl, "findings", "--since", "1h"):
        found[finding["job"]].append(finding)
    for kind in [*LEAKS, *HEALTHY]:
        if not os.path.exists(os.path.join(out, f"kinds.{kind}.json")):
            continue
        with open(os.path.join(out, f"kinds.{kind}.json"), encoding="utf-8") as file:
            truth = json.load(file)
        leaks = [f for f in found[kind] if f["cause"] == "memory_leak"]
        line = kind + ": "
        if leaks:
            first = min(leaks, key=lambda f: f["noticed_ns"])
            evidence = {e["name"]: e for e in first["evidence"]}
            place = evidence.get("stack", {}).get("detail") or ""
            line += f"a leak after {(first['noticed_ns'] - (truth['begin_ns'] or first['since_ns'])) / 1e9:.0f} s, {place or 'no line'}"
            if truth["grown"] and truth["begin_ns"]:
                true = truth["grown"] / truth["took_s"] * 3600
                line += f", {evidence['memory_hourly']['value'] / true - 1:+.1%} of the true growth an hour"
            right = kind in LEAKS and LEAKS[kind] in place
        else:
            line += "nothing"
            right = kind in HEALTHY
        wrong += not right
        print(line + ("" if right else "   WRONG"))
    if torch.cuda.is_available():
        for failure in tool(tracectl, "memory", "oom")["oom"]:
            kinds = [kind for kind in OOM if f"{kind} (l2_kinds.py" in failure["where"]] or ["leaked"] * ("block (l2_kinds.py" in failure["where"])
            right = kinds and failure["cause"] == OOM[kinds[0]]
            wrong += not right
            print(f"out of memory in {failure['where']}: {failure['cause']}" + ("" if right else "   WRONG"))
    sys.exit(wrong > 0)


if __name__ == "__main__":
    if sys.argv[1] == "run":
        run(sys.argv[2], float(sys.argv[3]), sys.argv[4])
    elif sys.argv[1] == "list":
        print(*(OOM if sys.argv[2:] else [*LEAKS, *HEALTHY]))
    else:
        score(*sys.argv[2:])
