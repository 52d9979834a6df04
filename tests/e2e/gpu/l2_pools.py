#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pools of a process: on each of several cards, the allocator's own and those that graphs keep for themselves.

  l2_pools.py run TRUTH SECONDS      trains on each card, captures a step as a graph, replays it; pauses, and says what is allocated
  l2_pools.py compare TRACECTL TRUTH its curves at these pauses, and what its lines hold
"""
import json
import os
import subprocess
import sys
import time

NAME = os.path.basename(__file__)
PAUSE_S = 2.2  # a whole second without a change
CAPTURED = 48 << 20  # bytes that each graph keeps


class Training:
    def __init__(self, torch, card):
        self.torch, self.card = torch, torch.device("cuda", card)
        width = 512 + 256 * card
        self.model = torch.nn.Sequential(*[torch.nn.Linear(width, width) for _ in range(6)]).to(self.card)
        self.x = torch.randn(256, width, device=self.card)
        self.graph = self.kept = None

    def step(self):
        self.model.zero_grad(set_to_none=True)
        self.model(self.x).pow(2).mean().backward()

    def capture(self):
        """Its blocks come from a pool that the graph has alone."""
        torch = self.torch
        with torch.no_grad(), torch.cuda.device(self.card):
            stream = torch.cuda.Stream()
            with torch.cuda.stream(stream):  # what libraries take at first is not the graph's
                self.keep()
            torch.cuda.synchronize()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph, stream=stream):
                self.kept = self.keep()

    def keep(self):
        wide = self.model(self.x)
        return self.torch.zeros(CAPTURED, dtype=self.torch.uint8, device=self.card), wide.sum()


def run(out, seconds):
    import torch
    trainings = [Training(torch, card) for card in range(torch.cuda.device_count())]
    truth = {"pid": os.getpid(), "pauses": []}

    def pause():
        for card in range(len(trainings)):
            torch.cuda.synchronize(card)
        # Some of the daemon's snapshots are of such a second.
        truth["pauses"].append([time.time_ns(), [[torch.cuda.memory_allocated(card), torch.cuda.memory_reserved(card)] for card in range(len(trainings))]])
        time.sleep(PAUSE_S)

    end, captured = time.monotonic() + seconds, False
    while time.monotonic() < end:
        part = time.monotonic() + seconds / 8
        while time.monotonic() < part:
            for training in trainings:
                training.step()
                if training.graph:
                    with torch.cuda.device(training.card):
                        training.graph.replay()
        pause()
        if not captured and time.monotonic() > end - seconds * 0.6:
            for training in trainings:
                training.capture()
            captured = True
    for training in trainings[1:]:  # a pool that goes
        training.graph.reset()
        training.graph = training.kept = None
    torch.cuda.empty_cache()
    for training in trainings:  # the allocator reports what is reserved with the next block
        training.step()
    pause()
    with open(out, "w", encoding="utf-8") as file:
        json.dump(truth, file)
    time.sleep(12)  # a snapshot of what it holds
    os._exit(0)


def ask(tracectl, *words):
    return json.loads(subprocess.run([tracectl, *words, "--json"], check=True, capture_output=True, text=True).stdout)


def compare(tracectl, path):
    with open(path, encoding="utf-8") as file:
        truth = json.load(file)
    wrong = 0
    curve = ask(tracectl, "query", "select c.* from memory_curve c join ranks r on r.instance = c.instance where kind = 'cuda' and "
                f"r.pid = {truth['pid']} order by c.start_ns")
    for time_ns, cards in truth["pauses"]:
        for card, (allocated, reserved) in enumerate(cards):
            # The newest row before the second after it began: none is written without a change.
            rows = [row for row in curve if row["device"] == card and row["start_ns"] < time_ns + 10**9]
            seen = (rows[-1]["allocated_bytes"], rows[-1]["reserved_bytes"]) if rows else None
            right = seen == (allocated, reserved)
            wrong += not right
            print(f"{time_ns // 10**9 % 10000} card {card}: {allocated} allocated, {reserved} reserved{'' if right else f', in the curve {seen}   WRONG'}")
    pools = {pool["device"]: pool for pool in ask(tracectl, "memory")["live"] if pool["pid"] == truth["pid"] and pool["kind"] == "cuda"}
    if len(pools) != len(truth["pauses"][-1][1]):
        sys.exit(f"pools of {sorted(pools)}   WRONG")
    for card, pool in sorted(pools.items()):
        held = {place["where"]: place for place in pool["places"]}
        mine = [place for where, place in held.items() if where.startswith(f"Training.keep ({NAME}:") or where.startswith(f"keep ({NAME}:")]
        bytes_held = sum(place["live_bytes"] for place in mine)
        error = sum(place["error_bytes"] for place in mine)
        expected = CAPTURED if card == 0 else 0
        right = abs(bytes_held - expected) <= max(4 * error, 2 << 20)
        wrong += not right
        print(f"card {card}: the graph's line holds {bytes_held} +- {error:.0f}, kept {expected}{'' if right else f'   WRONG {list(held)}'}")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    if sys.argv[1] == "run":
        run(sys.argv[2], float(sys.argv[3]))
    else:
        compare(*sys.argv[2:4])
