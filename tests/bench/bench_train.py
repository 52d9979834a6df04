#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A real training loop (DDP over gloo, one CPU rank) whose steps are timed while levels go on and off around it.

Run by with_daemon.sh with RANK set. Each round has a phase with all levels off, one with L0 and one with L0
and L3, in an order that moves on by one each round, so that drift of the machine hits all alike. Prints one sample a
line for table.awk: the median time of a phase's steps, the median CPU time in them (which holds what the probes cost and
little of what other work on the machine does), and the daemon's CPU time meanwhile.
"""
import argparse
import os
import statistics
import subprocess
import sys
import time
import warnings

warnings.filterwarnings("ignore")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

# Layers, width, batch: about 3 ms and 30 ms a step on the machine of RESULTS.md.
SHAPES = {"short steps": (4, 64, 64), "long steps": (6, 224, 64)}
CASES = [("off", "L0=false", "L3=false"), ("L0", "L0=true", "L3=false"), ("L0 and L3", "L0=true", "L3=true")]
SETTLE_STEPS = 10


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1.0, help="a phase, about")
    return parser.parse_args()


def endless(loader):
    while True:
        yield from loader


class Loop:
    def __init__(self, layers, width, batch):
        torch.manual_seed(0)
        model = nn.Sequential(*[part for _ in range(layers) for part in (nn.Linear(width, width), nn.ReLU())],
                              nn.Linear(width, 10))
        self.model = nn.parallel.DistributedDataParallel(model)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        self.loss = nn.CrossEntropyLoss()
        samples = TensorDataset(torch.randn(16 * batch, width), torch.randint(0, 10, (16 * batch,)))
        self.batches = endless(DataLoader(samples, batch_size=batch))

    def run(self, count):
        """Microseconds of each step, and of CPU time in each."""
        times, cpu_times = [], []
        for _ in range(count):
            start_ns, start_cpu_ns = time.monotonic_ns(), time.process_time_ns()
            x, y = next(self.batches)
            self.optimizer.zero_grad()
            loss = self.loss(self.model(x), y)
            loss.backward()
            self.optimizer.step()
            cpu_times.append((time.process_time_ns() - start_cpu_ns) / 1e3)
            times.append((time.monotonic_ns() - start_ns) / 1e3)
        return times, cpu_times


def daemon_cpu_s(pid):
    with open("/proc/%s/stat" % pid) as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def set_levels(*words):
    for word in words:
        done = subprocess.run([os.environ["TRACECTL"], "set", word], capture_output=True, text=True)
        if done.returncode:
            sys.exit("bench_train: tracectl set %s: %s" % (word, done.stderr.strip()))


def measure(args, name, shape):
    loop = Loop(*shape)
    steps = max(20, int(args.seconds * 1e6 / statistics.median(loop.run(30)[0][10:])))
    for turn in range(args.rounds):
        for i in range(len(CASES)):
            case, *words = CASES[(turn + i) % len(CASES)]
            set_levels(*words)
            loop.run(SETTLE_STEPS)
            cpu_s, start_s = daemon_cpu_s(os.environ["DAEMON_PID"]), time.monotonic()
            times, cpu_times = loop.run(steps)
            wall_s = time.monotonic() - start_s
            cpu_s = daemon_cpu_s(os.environ["DAEMON_PID"]) - cpu_s
            for what, unit, value in (("median", "us/step", statistics.median(times)),
                                      ("CPU", "us/step", statistics.median(cpu_times)),
                                      ("daemon", "% of a CPU", 100 * cpu_s / wall_s)):
                print("train %s, %s\t%s\t%s\t%d\t%.2f" % (name, what, case, unit, turn, value), flush=True)


def main():
    args = parse()
    # One CPU for the rank, the rest for the daemon: as on a node where ranks are pinned.
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=os.environ.get("MASTER_PORT", "29533"), USE_LIBUV="0")
    dist.init_process_group("gloo", rank=0, world_size=1)
    for name, shape in SHAPES.items():
        measure(args, name, shape)
    dist.destroy_process_group()
    # The steps must have been seen, or the figures mean nothing.
    time.sleep(1.5)
    count = subprocess.run([os.environ["TRACECTL"], "query", "--csv", "select count(*) from steps"],
                           capture_output=True, text=True).stdout.split()
    if not count or count[-1] == "0":
        sys.exit("bench_train: the daemon saw no step")


if __name__ == "__main__":
    main()
