#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Cost of tracing per training step on GPUs: DDP over NCCL, step times with tracing off and on, interleaved.

Run by torchrun, one rank per GPU. Before each phase rank 0 runs the shell command PHASE_CMD_OFF or PHASE_CMD_ON, if set,
between two barriers. --profiler adds a third phase to each round, with PyTorch's profiler on. Each step ends with a device
synchronisation, so its time includes the device's work. Rank 0 prints one JSON object.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

import torch
import torch.distributed as dist
from torch import nn

# Layers, width, batch: many small kernels (launch-bound), a few large ones (compute-bound).
SHAPES = {"launch": (40, 64, 8), "compute": (4, 8192, 2048)}


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shape", choices=sorted(SHAPES), default="launch")
    parser.add_argument("--layers", type=int)
    parser.add_argument("--hidden", type=int)
    parser.add_argument("--batch", type=int)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--backend", default="nccl")
    parser.add_argument("--pairs", type=int, default=5, help="off/on rounds")
    parser.add_argument("--steps", type=int, default=200, help="timed steps a phase")
    parser.add_argument("--settle", type=int, default=10, help="untimed steps at each phase's start")
    parser.add_argument("--warmup", type=int, default=50)
    parser.add_argument("--profiler", action="store_true", help="add phases with torch.profiler")
    args = parser.parse_args()
    args.layers, args.hidden, args.batch = (given or default for given, default in zip(
        (args.layers, args.hidden, args.batch), SHAPES[args.shape]))
    return args


class Loop:
    def __init__(self, args, rank, device):
        self.device = device
        layers = []
        for _ in range(args.layers):
            layers += [nn.Linear(args.hidden, args.hidden), nn.ReLU()]
        model = nn.Sequential(*layers, nn.Linear(args.hidden, 10)).to(device)
        ids = [device.index] if device.type == "cuda" else None
        self.model = nn.parallel.DistributedDataParallel(model, device_ids=ids)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        self.loss = nn.CrossEntropyLoss()
        generator = torch.Generator().manual_seed(rank)
        self.x = torch.randn(args.batch, args.hidden, generator=generator).to(device)
        self.y = torch.randint(0, 10, (args.batch,), generator=generator).to(device)
        self.steps = 0

    def sync(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def run(self, count):
        """Milliseconds of each step."""
        times = []
        for _ in range(count):
            start_ns = time.monotonic_ns()
            self.optimizer.zero_grad()
            loss = self.loss(self.model(self.x), self.y)
            loss.backward()
            self.optimizer.step()
            self.sync()
            times.append((time.monotonic_ns() - start_ns) / 1e6)
        self.steps += count
        return times


def barrier(loop):
    loop.sync()
    dist.barrier()
    loop.sync()


def switch(loop, rank, phase):
    command = os.environ.get("PHASE_CMD_" + ("ON" if phase == "on" else "OFF"))
    barrier(loop)
    failed = torch.zeros(1, device=loop.device)
    if rank == 0 and command and subprocess.run(command, shell=True, stdout=sys.stderr).returncode:
        failed += 1
    dist.broadcast(failed, 0)
    if failed.item():
        sys.exit("train_gpu.py: the command for phase %s failed" % phase)
    barrier(loop)


def measure(loop, args, phase):
    loop.run(args.settle)
    if phase != "profiler":
        return loop.run(args.steps)
    activities = [torch.profiler.ProfilerActivity.CPU]
    if loop.device.type == "cuda":
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    with torch.profiler.profile(activities=activities):
        return loop.run(args.steps)


def main():
    args = parse()
    rank, local = int(os.environ.get("RANK", "0")), int(os.environ.get("LOCAL_RANK", "0"))
    torch.set_num_threads(1)
    device = torch.device("cuda", local) if args.device == "cuda" else torch.device("cpu")
    if args.device == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group(args.backend, rank=rank, world_size=int(os.environ.get("WORLD_SIZE", "1")))
    loop = Loop(args, rank, device)
    loop.run(args.warmup)

    phases = []
    for pair in range(args.pairs):
        names = ["off", "on"] if pair % 2 == 0 else ["on", "off"]  # cancels drift of the machine
        for name in names + (["profiler"] if args.profiler else []):
            switch(loop, rank, name)
            times = measure(loop, args, name)
            phases.append({"pair": pair, "phase": name, "steps": len(times), "median_ms": statistics.median(times),
                           "p10_ms": sorted(times)[len(times) // 10], "p90_ms": sorted(times)[len(times) * 9 // 10]})
    switch(loop, rank, "off")
    if rank == 0:
        median = {name: statistics.median(p["median_ms"] for p in phases if p["phase"] == name)
                  for name in ("off", "on", "profiler") if any(p["phase"] == name for p in phases)}
        change = [100 * (on["median_ms"] / off["median_ms"] - 1) for off in phases if off["phase"] == "off"
                  for on in phases if on["phase"] == "on" and on["pair"] == off["pair"]]
        print(json.dumps({"shape": args.shape, "layers": args.layers, "hidden": args.hidden, "batch": args.batch,
                          "device": str(device), "torch": torch.__version__, "world": dist.get_world_size(),
                          "steps_in_all": loop.steps, "median_ms": median,
                          "on_change_percent": statistics.median(change),
                          "on_change_percent_each": change, "phases": phases}), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
