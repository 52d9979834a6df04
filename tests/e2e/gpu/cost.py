#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What levels cost a training on cards, while they go on and off around it: DDP over NCCL, one rank a card (RANK, WORLD_SIZE,
LOCAL_RANK, MASTER_ADDR, MASTER_PORT, TRACECTL in the environment).

  cost.py OUT SECONDS SHAPE    SHAPE: bound (launches take the time) or big (kernels do)

Each round has a phase of every case, in an order that moves on by one: off, L0 (the default), L0+L1, all; and with BPFTRACE, a
program, bpftrace, which prints a line for each hit on the functions that L0 has probes on. A pair is a phase and
the phase `off` of its round. Rank 0 prints the median ratio of the medians of steps, with an interval (bootstrap, 95 %), what
the guard estimates meanwhile, and, of an untouched run at the end, whether the steps that were counted are those that were made.
"""
import json
import os
import signal
import statistics
import subprocess
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from steady import interval

SHAPES = {"bound": (24, 256, 64), "big": (8, 8192, 4096)}
DEFAULT, ALL = "L0=true L1=false L2=false L3=false", "L0=true L1=true L2=true L3=true"
CASES = {"off": "L0=false L1=false L2=false L3=false", "L0": DEFAULT, "L0+L1": "L0=true L1=true L2=false L3=false", "all": ALL}
BPFTRACE = os.environ.get("BPFTRACE")
if BPFTRACE:
    CASES["bpftrace"] = CASES["off"]
CASES = {case: CASES[case] for case in os.environ.get("CASES", " ".join(CASES)).split()}  # off is one of them
PHASE_S = float(os.environ.get("PHASE_S", "0.3"))  # the guard samples the allocator's reports after some seconds of them
EXACT_S, EXACT_STEPS = 8, 300  # of the untouched run, at most


def begin_control(*words):
    return subprocess.Popen([os.environ["TRACECTL"], *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def control(*words):
    done = subprocess.run([os.environ["TRACECTL"], *words], capture_output=True, text=True)
    if done.returncode:
        print("tracectl", *words, "failed:", done.stderr.strip(), flush=True)
    return done.stdout


class Bpftrace:
    """begin() returns once it is attached; end() when it is gone."""

    LINE = '{ printf("%d %lu\\n", tid, nsecs); }'
    FUNCTIONS = (("libtorch_python.so", "_ZN5torch3jit37_get_operation_for_overload_or_packet*", False),
                 ("libtorch_python.so", "_Z22THPEngine_run_backwardP7_objectS0_S0_", True),
                 ("libcudart.so", "cudaDeviceSynchronize", True),
                 ("libcudart.so", "cudaStreamSynchronize", True),
                 ("libcudart.so", "cudaEventSynchronize", True))

    def __init__(self, out):
        self.lines, self.running, self.hits = os.path.join(out, "bpftrace.lines"), None, 0
        with open("/proc/self/maps", encoding="utf-8") as maps:
            files = sorted({line.split()[-1] for line in maps if "/" in line})
        self.program = ""
        for library, function, returns in self.FUNCTIONS:
            for path in [path for path in files if os.path.basename(path).startswith(library)][:1]:
                for probe in ("uprobe", "uretprobe")[:1 + returns]:
                    self.program += f"{probe}:{path}:{function} {self.LINE}\n"
        self.program += 'interval:ms:100 { printf("attached\\n"); }\n'

    def begin(self):
        with open(self.lines, "w", encoding="utf-8") as file:
            self.running = subprocess.Popen([BPFTRACE, "-e", self.program], stdout=file, stderr=subprocess.STDOUT)
        for _ in range(300):
            time.sleep(0.1)
            with open(self.lines, encoding="utf-8") as file:
                if "attached" in file.read() or self.running.poll() is not None:
                    return

    def end(self):
        if not self.running:
            return
        self.running.send_signal(signal.SIGINT)
        self.running.wait()
        self.running = None
        with open(self.lines, encoding="utf-8") as file:
            text = file.read()
        self.hits += sum(len(line.split()) == 2 and line[0].isdigit() for line in text.splitlines())
        if "attached" not in text:
            print("bpftrace failed:", text[:400], flush=True)


class Loop:
    def __init__(self, shape, rank, device):
        layers, width, batch = SHAPES[shape]
        torch.manual_seed(0)
        model = nn.Sequential(*[part for _ in range(layers) for part in (nn.Linear(width, width), nn.GELU())]).to(device)
        self.model = nn.parallel.DistributedDataParallel(model, device_ids=[device.index] if device.type == "cuda" else None)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-5)
        data = TensorDataset(torch.randn(max(256, batch), width))
        self.batches = iter(())
        self.loader = DataLoader(data, batch_size=min(batch, 256))
        self.repeat, self.device = batch // min(batch, 256), device

    def run(self, count):
        times = []
        for _ in range(count):
            start_ns = time.monotonic_ns()
            try:
                (x,) = next(self.batches)
            except StopIteration:
                self.batches = iter(self.loader)
                (x,) = next(self.batches)
            x = x.to(self.device, non_blocking=True)
            if self.repeat > 1:
                x = x.repeat(self.repeat, 1)
            self.optimizer.zero_grad()
            loss = self.model(x).square().mean()
            loss.backward()
            self.optimizer.step()
            if self.device.type == "cuda":
                torch.cuda.synchronize()
            times.append((time.monotonic_ns() - start_ns) / 1e3)
        return times


def report(shape, rounds):
    off = [r["off"] for r in rounds]
    print(f"{shape}: step {statistics.median(off) / 1e3:.3f} ms without, {len(rounds)} rounds")
    for case in list(CASES)[1:]:
        ratios = [r[case] / r["off"] for r in rounds]
        low, high = interval(ratios)
        print(f"{shape} {case}: {100 * (statistics.median(ratios) - 1):+.2f} % ({100 * (low - 1):+.2f} to {100 * (high - 1):+.2f}), {len(ratios)} pairs", flush=True)


def main():
    out, seconds, shape = sys.argv[1], float(sys.argv[2]), sys.argv[3]
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl")
    loop = Loop(shape, rank, device)
    loop.run(10)
    begin = torch.tensor([statistics.median(loop.run(20))], device=device)
    dist.all_reduce(begin, op=dist.ReduceOp.MAX)
    steps, exact = max(3, int(PHASE_S * 1e6 / begin.item())), min(EXACT_STEPS, int(EXACT_S * 1e6 / begin.item()))
    rounds, names, end = [], list(CASES), time.monotonic() + seconds
    go = torch.ones(1, device=device)
    bpftrace = Bpftrace(out) if BPFTRACE and rank == 0 else None
    while True:
        go[0] = float(time.monotonic() < end)
        dist.broadcast(go, 0)
        if go.item() == 0:
            break
        medians = {}
        for i in range(len(names)):
            case = names[(len(rounds) + i) % len(names)]
            # A card that rests meanwhile draws less power, and its next steps are faster: it goes on while levels change.
            change = begin_control("set", *CASES[case].split()) if rank == 0 else None
            go[0] = 1
            while go.item():
                loop.run(1)
                go[0] = float(change is not None and change.poll() is None)
                dist.broadcast(go, 0)
            if change and change.returncode:
                print("tracectl set failed:", case, flush=True)
            if bpftrace and case == "bpftrace":
                bpftrace.begin()
            dist.barrier()
            loop.run(max(2, steps // 6))  # what a change of levels sets going ends first
            medians[case] = statistics.median(loop.run(steps))
            if bpftrace:
                bpftrace.end()
        rounds.append(medians)
    if rank == 0:
        control("set", *ALL.split())
    dist.barrier()
    loop.run(int(12e6 / begin.item()))  # the guard's share is a mean over 10 s
    if rank == 0:
        with open(os.path.join(out, f"cost.{shape}.status.json"), "w", encoding="utf-8") as file:
            file.write(control("status", "--json"))
        print(control("status").split("store")[0])
        control("set", *DEFAULT.split())
    dist.barrier()
    loop.run(5)
    torch.cuda.synchronize()
    time.sleep(2)
    since_ns = time.time_ns()
    loop.run(exact)
    dist.barrier()  # all ranks have ended their last step
    until_ns = time.time_ns()
    time.sleep(3)
    if rank == 0:
        report(shape, rounds)
        if bpftrace:
            print(f"{shape}: bpftrace printed {bpftrace.hits} hits")
        with open(os.path.join(out, f"cost.{shape}.json"), "w", encoding="utf-8") as file:
            json.dump(rounds, file)
        # The pause is within the first step; the last one ends with the run.
        print(f"{shape}: steps counted, of {exact} made by each rank:", control("query", "--csv",
              f"select rank, count(*) from steps where start_ns + duration_ns between {since_ns} and {until_ns + 1000000} group by rank").split()[1:], flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
