#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A training whose collectives PyTorch's profiler records to a file, for comparison.

One process per GPU, with RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT set. Modes:

  ddp fsdp fsdp2 mix   --steps of training under torch.profiler. mix: further collectives on the world and on a pair of
                       groups of half the ranks. OUT.RANK.json lists every NCCL kernel of the profiler, in order
  loop                 DDP until the file --until exists: for attaching, and for stopping a rank
"""
import argparse
import json
import os
import sys
import tempfile
import time

import torch
import torch.distributed as dist
from torch import nn

HIDDEN, LAYERS, BATCH = 4096, 6, 64  # gradients of 64 MiB per layer, the size of real models' buckets and shards


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mode", choices=["ddp", "fsdp", "fsdp2", "mix", "loop"], default="ddp")
    parser.add_argument("--out", help="path prefix of the output file")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--until", help="mode loop: ends when this file exists")
    parser.add_argument("--pause-ms", type=float, default=1.0, help="mode loop: between steps")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--backend", default="nccl")
    return parser.parse_args()


def make_model(mode, device):
    torch.manual_seed(7)
    layers = []
    for _ in range(LAYERS):
        layers += [nn.Linear(HIDDEN, HIDDEN), nn.ReLU()]
    model = nn.Sequential(*layers, nn.Linear(HIDDEN, 10)).to(device)
    if mode == "fsdp":
        from torch.distributed.fsdp import FullyShardedDataParallel
        from torch.distributed.fsdp.wrap import ModuleWrapPolicy
        return FullyShardedDataParallel(model, auto_wrap_policy=ModuleWrapPolicy({nn.Linear}), device_id=device)
    if mode == "fsdp2":
        from torch.distributed.fsdp import fully_shard
        for layer in model:
            if isinstance(layer, nn.Linear):
                fully_shard(layer)
        return fully_shard(model)
    return nn.parallel.DistributedDataParallel(model, device_ids=[device.index] if device.type == "cuda" else None)


class Training:
    def __init__(self, mode, rank, device):
        self.device = device
        self.model = make_model(mode, device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3)
        generator = torch.Generator().manual_seed(rank)
        self.x = torch.randn(BATCH, HIDDEN, generator=generator).to(device)

    def step(self):
        self.optimizer.zero_grad()
        self.model(self.x).square().mean().backward()
        self.optimizer.step()
        sync(self.device)


class Mix:
    """Collectives of many kinds, sizes and types, on the world and on a group of half of it."""

    def __init__(self, rank, world, device):
        self.rank, self.world, self.device = rank, world, device
        half = world // 2 if world >= 4 else world  # a group of one rank launches no kernel
        named = [{}, {}] if device.type == "cpu" else [{"group_desc": "low half"}, {"group_desc": "high half"}]
        groups = [dist.new_group(list(range(half)), **named[0])]
        if half < world:
            groups.append(dist.new_group(list(range(half, world)), **named[1]))
        self.group = groups[0] if rank < half else groups[1]
        self.first = 0 if rank < half else half
        self.half = dist.get_world_size(self.group)
        self.dtypes = [torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.uint8]
        if device.type == "cpu":
            self.dtypes = [torch.float32, torch.int64, torch.uint8]
        self.turn = 0

    def step(self):
        dtype, n = self.dtypes[self.turn % len(self.dtypes)], 1000 + 4096 * (self.turn % 7)
        self.turn += 1
        whole = torch.ones(n * self.world, dtype=dtype, device=self.device)
        part = torch.ones(n, dtype=dtype, device=self.device)
        dist.all_reduce(part)
        dist.broadcast(part, self.turn % self.world)
        dist.reduce(part, self.turn % self.world)
        if self.device.type == "cuda":
            dist.all_gather_into_tensor(whole, part)
            dist.reduce_scatter_tensor(part, whole)
        dist.all_reduce(part, group=self.group)
        dist.broadcast(part, self.first, group=self.group)
        if self.device.type == "cuda":
            dist.reduce_scatter_tensor(torch.ones(n, dtype=dtype, device=self.device),
                                       torch.ones(n * self.half, dtype=dtype, device=self.device), group=self.group)
        sync(self.device)


def sync(device):
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def nccl_kernels(trace):
    """The NCCL kernels of an exported trace by start, with the profiler's fields."""
    found = []
    for event in trace["traceEvents"] if isinstance(trace, dict) else trace:
        if event.get("cat") != "kernel" or "nccl" not in event.get("name", "").lower():
            continue
        args = event.get("args", {})
        found.append({"kernel": event["name"].split("(")[0], "start_us": float(event["ts"]), "duration_us": float(event["dur"]),
                      "name": args.get("Collective name", ""), "in": args.get("In msg nelems"), "out": args.get("Out msg nelems"),
                      "dtype": args.get("dtype", ""), "group": args.get("Process Group Name", ""),
                      "group_name": args.get("Process Group Description", ""), "ranks": args.get("Process Group Ranks", ""),
                      "group_size": args.get("Group size"), "stream": args.get("stream")})
    return sorted(found, key=lambda k: k["start_us"])


def profiled(training, args, rank, device):
    for _ in range(args.warmup):
        training.step()
    activities = [torch.profiler.ProfilerActivity.CPU]
    if device.type == "cuda":
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    with torch.profiler.profile(activities=activities) as profiler:
        # The window's ends are in pauses without NCCL calls.
        sync(device)
        time.sleep(0.02)
        start_ns = time.time_ns()
        for _ in range(args.steps):
            training.step()
        end_ns = time.time_ns()
        time.sleep(0.02)
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        profiler.export_chrome_trace(file.name)
        with open(file.name, encoding="utf-8") as f:
            kernels = nccl_kernels(json.load(f))
    with open(f"{args.out}.{rank}.json", "w", encoding="utf-8") as f:
        json.dump({"mode": args.mode, "rank": rank, "world": dist.get_world_size(), "pid": os.getpid(), "steps": args.steps,
                   "start_ns": start_ns - 10_000_000, "end_ns": end_ns + 10_000_000, "kernels": kernels}, f)


def loop(training, args, device):
    """All ranks must end in the same step: a rank would wait for one that ended."""
    done = torch.zeros(1, device=device)
    step = 0
    while not done.item():
        training.step()
        step += 1
        if args.pause_ms:
            time.sleep(args.pause_ms / 1e3)
        if step % 10 == 0:
            done.fill_(float(os.path.exists(args.until)))
            dist.all_reduce(done, op=dist.ReduceOp.MAX)
    print(json.dumps({"steps": step}), flush=True)


def main():
    args = parse()
    rank, local = int(os.environ["RANK"]), int(os.environ.get("LOCAL_RANK", "0"))
    world = int(os.environ["WORLD_SIZE"])
    torch.set_num_threads(1)
    device = torch.device("cuda", local) if args.device == "cuda" else torch.device("cpu")
    if args.device == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group(args.backend, rank=rank, world_size=world)
    training = Mix(rank, world, device) if args.mode == "mix" else Training(args.mode, rank, device)
    if args.mode == "loop":
        if not args.until:
            sys.exit("l1_train.py: mode loop needs --until")
        loop(training, args, device)
    else:
        profiled(training, args, rank, device)
    sync(device)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
