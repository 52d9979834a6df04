#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares kernel launches with PyTorch's profiler, recorded graphs, and names of process groups. Needs GPUs.

  l1_launches.py run FILE --mode model|graph [--seconds S]     a rank; writes its calls
  l1_launches.py compare TRACECTL MODE FILE...                 compares the store; exit code 1 if it differs
"""
import argparse
import collections
import json
import os
import subprocess
import sys
import time

TOLERANCE = 0.10  # windows are a twentieth of the time
LAUNCHES = ("cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernel", "cuLaunchKernelEx", "cudaLaunchCooperativeKernel", "cudaGraphLaunch")


def model_run(args, torch, dist, device):
    model = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(512, 8, batch_first=True), 6).to(device)
    ddp = torch.nn.parallel.DistributedDataParallel(model, device_ids=[device.index])
    optimizer = torch.optim.AdamW(ddp.parameters(), lr=1e-4)
    x = torch.randn(16, 128, 512, device=device)

    def step():
        optimizer.zero_grad()
        ddp(x).square().mean().backward()
        optimizer.step()

    for _ in range(20):
        step()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(20):
            step()
        torch.cuda.synchronize()
    counts = collections.Counter(event.name for event in profile.events() if event.name in LAUNCHES)
    time.sleep(1)
    start_ns, steps, end = time.time_ns(), 0, time.monotonic() + args.seconds
    while True:
        for _ in range(10):
            step()
        steps += 10
        torch.cuda.synchronize()
        over = torch.tensor([float(time.monotonic() > end)], device=device)
        dist.broadcast(over, src=0)
        if over.item():
            break
    return {"profiler": counts, "launches_per_step": sum(counts.values()) / 20, "steps": steps, "start_ns": start_ns, "end_ns": time.time_ns()}


def graph_run(args, torch, dist, device):
    group = dist.new_group(list(range(dist.get_world_size())), group_desc="tensor_parallel_of_the_test")
    x = torch.randn(1024, 1024, device=device)
    total = torch.zeros(1 << 20, device=device)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            x @ x
            dist.all_reduce(total, group=group)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(4):
            x @ x
        dist.all_reduce(total, group=group)
        dist.all_reduce(total, group=group)
    dist.barrier()
    start_ns, replays, end = time.time_ns(), 0, time.monotonic() + args.seconds
    while True:
        for _ in range(100):
            graph.replay()
        replays += 100
        torch.cuda.synchronize()
        over = torch.tensor([float(time.monotonic() > end)], device=device)
        dist.broadcast(over, src=0)
        if over.item():
            break
    return {"replays": replays, "captured": 2, "start_ns": start_ns, "end_ns": time.time_ns(), "name": "tensor_parallel_of_the_test"}


def run(args):
    import torch
    import torch.distributed as dist

    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    result = {"model": model_run, "graph": graph_run}[args.mode](args, torch, dist, device)
    result["pid"] = os.getpid()
    with open(args.file, "w", encoding="ascii") as file:
        json.dump(result, file)
    dist.destroy_process_group()


def query(tracectl, sql):
    return json.loads(subprocess.run([tracectl, "query", "--json", sql], check=True, capture_output=True, text=True).stdout)


def compare(args):
    failed = 0
    for name in args.files:
        with open(name, encoding="ascii") as file:
            truth = json.load(file)
        instance = f"(select max(instance) from ranks where pid = {truth['pid']})"
        rows = query(args.tracectl, f"select api, count, start_ns, duration_ns, longest_gap_ns from launches where instance = {instance} "
                     f"and start_ns between {truth['start_ns']} and {truth['end_ns']}")
        windows = {row["start_ns"]: row["duration_ns"] for row in rows}
        seconds = sum(windows.values()) / 1e9
        seen = collections.Counter()
        for row in rows:
            seen[row["api"]] += row["count"]
        elapsed = (truth["end_ns"] - truth["start_ns"]) / 1e9
        what, expected = ("launches", truth["launches_per_step"] * truth["steps"] / elapsed) if args.mode == "model" else ("graph launches", truth["replays"] / elapsed)
        counted = sum(n for api, n in seen.items() if args.mode == "model" or "raph" in (api or "")) / seconds if seconds else 0
        print(f"  {what}: {counted:.0f} a second in {len(windows)} windows ({seconds:.2f} s), {expected:.0f} in the script; by API {dict(seen)}; profiler {truth.get('profiler', '')}")
        if not expected * (1 - TOLERANCE) <= counted <= expected * (1 + TOLERANCE):
            print(f"FAIL: {name}: launches differ")
            failed = 1
        if args.mode == "graph":
            rows = query(args.tracectl, f"select op, captured, tier, seq > 0 as numbered, count(*) n, avg(device_duration_ns) / 1e3 us from collectives where instance = {instance} group by 1, 2, 3, 4")
            print("  collectives:", json.dumps(rows))
            rows = query(args.tracectl, f"select communicator, name, kind, members, source from communicators where instance = {instance}")
            print("  communicators:", json.dumps(rows))
            if truth["name"] not in [row["name"] for row in rows]:
                print(f"FAIL: {name}: no communicator is named {truth['name']}")
                failed = 1
    return failed


def main():
    parser = argparse.ArgumentParser()
    verbs = parser.add_subparsers(dest="verb", required=True)
    runs = verbs.add_parser("run")
    runs.add_argument("file")
    runs.add_argument("--mode", choices=("model", "graph"), required=True)
    runs.add_argument("--seconds", type=float, default=12)
    compares = verbs.add_parser("compare")
    compares.add_argument("tracectl")
    compares.add_argument("mode", choices=("model", "graph"))
    compares.add_argument("files", nargs="+")
    args = parser.parse_args()
    return compare(args) if args.verb == "compare" else run(args)


if __name__ == "__main__":
    sys.exit(main())
