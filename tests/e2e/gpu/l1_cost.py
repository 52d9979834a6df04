#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Cost of L1 per training step, interleaved: off, L0, L0 and L1 from the host, and with the marker library.

The marker library is loaded at process start or not at all, so two trainings, with and without it, alternate on the same
GPUs. A round is one phase of every variant in its own order. Comparisons are within a round, because these machines
drift by more than a probe costs, and within one training, because two processes of one program differ by up to 13 %
(measured). Prints per variant the median over rounds of its change against its own training's `off`, with a bootstrap
interval; the `off` with the library is compared with the other one's, which is mostly that difference.

  l1_cost.py --gpus N --tracectl PATH [--plugin PATH] [--shape launch] [--rounds 30] [--out FILE.json]
  l1_cost.py --worker ...      one rank of one training; reads "VARIANT STEPS SETTLE" lines, answers with step times
"""
import argparse
import json
import os
import random
import statistics
import subprocess
import sys

# name: (which training, levels)
OFF = {"plain": "off", "marker": "marker loaded, off"}
VARIANTS = {
    "off": ("plain", {"L0": "false", "L1": "false"}),
    "L0": ("plain", {"L0": "true", "L1": "false"}),
    "L0+L1 host": ("plain", {"L0": "true", "L1": "true"}),
    "marker loaded, off": ("marker", {"L0": "false", "L1": "false"}),
    "L0+L1 host+marker": ("marker", {"L0": "true", "L1": "true"}),
}


def worker(args):
    import torch
    import torch.distributed as dist
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import train_gpu

    rank, local = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
    torch.set_num_threads(1)
    device = torch.device(args.device, local) if args.device == "cuda" else torch.device("cpu")
    if args.device == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if args.device == "cuda" else "gloo", rank=rank, world_size=int(os.environ["WORLD_SIZE"]))
    args.layers, args.hidden, args.batch = train_gpu.SHAPES[args.shape]
    if args.shape == "launch":
        args.layers = 10
    if args.device == "cpu":
        args.layers, args.hidden = 2, 64
    loop = train_gpu.Loop(args, rank, device)
    loop.run(args.warmup)
    print("ready", flush=True)
    for line in sys.stdin:
        variant, steps, settle = line.rsplit(" ", 2)
        train_gpu.barrier(loop)
        loop.run(int(settle))
        if variant == "torch.profiler":
            with torch.profiler.profile():
                times = loop.run(int(steps))
        else:
            times = loop.run(int(steps))
        print(json.dumps(times), flush=True)
    train_gpu.barrier(loop)
    dist.destroy_process_group()


class Job:
    """One training, one process per GPU; runs a phase on request."""

    def __init__(self, args, name, port):
        self.name, self.process = name, []
        cores = max((os.cpu_count() or 1) // args.gpus, 1)
        for rank in range(args.gpus):
            env = dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(args.gpus), LOCAL_WORLD_SIZE=str(args.gpus),
                       MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
            env.pop("NCCL_PROFILER_PLUGIN", None)
            if name == "marker":
                env["NCCL_PROFILER_PLUGIN"] = args.plugin
            command = [sys.executable, os.path.abspath(__file__), "--worker", "--shape", args.shape, "--device", args.device]
            if cores > 1:
                command = ["taskset", "-c", f"{cores * rank}-{cores * (rank + 1) - 1}"] + command
            self.process.append(subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        for process in self.process:
            if process.stdout.readline() != "ready\n":
                sys.exit(f"l1_cost.py: a rank of the training '{name}' did not start")

    def phase(self, variant, steps, settle):
        """The step times of the slowest rank."""
        for process in self.process:
            process.stdin.write(f"{variant} {steps} {settle}\n")
            process.stdin.flush()
        lines = [process.stdout.readline() for process in self.process]
        if not all(lines):
            sys.exit(f"l1_cost.py: a rank of the training '{self.name}' ended")
        return [max(times) for times in zip(*(json.loads(line) for line in lines))]

    def end(self):
        for process in self.process:
            process.stdin.close()
        for process in self.process:
            process.wait()


def bootstrap(values, rng, times=4000):
    """95 % interval of the median."""
    medians = sorted(statistics.median(rng.choices(values, k=len(values))) for _ in range(times))
    return medians[int(0.025 * times)], medians[int(0.975 * times)]


def summarize(rounds, rng):
    """rounds: list of {variant: median step ms}. Returns variant -> cost."""
    result = {}
    for name in [n for n in list(VARIANTS) + ["torch.profiler"] if n in rounds[0]]:
        base = "off" if name in OFF.values() else OFF[VARIANTS.get(name, ("plain",))[0]]
        both = [r for r in rounds if name in r]
        change = [100 * (r[name] / r[base] - 1) for r in both]
        low, high = bootstrap(change, rng)
        result[name] = {"median_ms": statistics.median(r[name] for r in both), "change_percent": statistics.median(change),
                        "interval_percent": [low, high], "rounds": len(both), "against": base}
    return result


def switch(args, levels, now):
    for level, value in levels.items():
        if now.get(level) != value and args.tracectl:
            subprocess.run([args.tracectl, "set", f"{level}={value}"], check=True, stdout=subprocess.DEVNULL)
        now[level] = value


def conduct(args):
    rng = random.Random(1)
    variants = {n: v for n, v in VARIANTS.items() if args.plugin or v[0] == "plain"}
    jobs = {"plain": Job(args, "plain", args.port)}
    if args.plugin:
        jobs["marker"] = Job(args, "marker", args.port + 1)
    rounds, now = [], {}
    for number in range(args.rounds):
        order = list(variants)
        rng.shuffle(order)
        medians = {}
        for name in order:
            job, levels = variants[name]
            switch(args, levels, now)
            medians[name] = statistics.median(jobs[job].phase(name, args.steps, args.settle))
        if number < args.profiler_rounds:
            switch(args, VARIANTS["off"][1], now)
            medians["torch.profiler"] = statistics.median(jobs["plain"].phase("torch.profiler", args.steps, args.settle))
        rounds.append(medians)
    switch(args, {"L0": "true", "L1": "false"}, now)
    for job in jobs.values():
        job.end()
    result = summarize(rounds, rng)
    print(f"{args.shape}-bound, {args.gpus} ranks, {len(rounds)} rounds of {args.steps} steps; median change, 95 % interval of the median")
    failed = False
    for name, r in result.items():
        print(f"  {name:20} {r['median_ms']:9.3f} ms  {r['change_percent']:+6.2f} %  [{r['interval_percent'][0]:+.2f}, {r['interval_percent'][1]:+.2f}] against {r['against']}")
        if name.startswith("L0") and r["change_percent"] > args.limit:
            print(f"FAIL: {name} costs {r['change_percent']:+.2f} % of a step ({args.shape}-bound), at most {args.limit} %")
            failed = True
    if args.out:
        with open(args.out, "w", encoding="utf-8") as f:
            json.dump({"shape": args.shape, "gpus": args.gpus, "steps": args.steps, "result": result, "rounds": rounds}, f)
    return 1 if failed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--shape", choices=["launch", "compute"], default="launch")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--gpus", type=int, default=2)
    parser.add_argument("--tracectl")
    parser.add_argument("--plugin", help="the marker library; omit to skip the variants that need it")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--settle", type=int, default=5)
    parser.add_argument("--warmup", type=int, default=20)
    parser.add_argument("--profiler-rounds", type=int, default=3, help="rounds that include PyTorch's profiler")
    parser.add_argument("--limit", type=float, default=1.0, help="maximum cost of a level in percent")
    parser.add_argument("--port", type=int, default=29700)
    parser.add_argument("--out")
    args = parser.parse_args()
    return worker(args) if args.worker else conduct(args)


if __name__ == "__main__":
    sys.exit(main())
