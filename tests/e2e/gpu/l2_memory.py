#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Device memory of a real card: what `tracectl memory` and the store say against what PyTorch says of itself.

  l2_memory.py run TRUTH --wait FILE         a launch-bound training that keeps blocks, fills a leak, runs out of memory
  l2_memory.py compare TRACECTL TRUTH OUT    its curve, the lines that hold memory, the failed request
      --windows                              reports are seen in windows: the lines are estimates, the curve has gaps
  l2_memory.py again SECONDS                 a training that gives its memory back to the driver in each step
  l2_memory.py cost TRACECTL OUT SECONDS     step times: off, L0+L1, L0+L1+L2, PyTorch's memory history, interleaved
      --big                                  steps that the card takes longer for than the host
  l2_memory.py worker                        the training of `cost`
  l2_memory.py self-test                     the comparison on synthetic data
"""
import argparse
import json
import math
import os
import random
import re
import statistics
import subprocess
import sys
import time

NAME = os.path.basename(__file__)
HUGE = 200 << 30  # more than a card has


class Training:
    """About 200 blocks a step, which is shorter on the card than on the host."""

    def __init__(self, width=512, batch=256):
        import torch
        self.torch = torch
        torch.manual_seed(0)
        layers = [torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.GELU()) for _ in range(12)]
        self.model = torch.nn.Sequential(*layers).to("cuda:0")
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        self.x = torch.randn(batch, width, device="cuda:0")
        self.kept = []

    def step(self):
        loss = self.model(self.x).pow(2).mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return loss

    def keep(self, i):
        self.kept.append(self.torch.zeros(50000 + 997 * (i % 50), device="cuda:0"))

    def keep_same(self):
        self.kept.append(self.torch.zeros(256, 512, device="cuda:0"))


def lines_of_snapshot(snapshot):
    """Bytes of blocks in use, by the innermost line of this file; "": other blocks."""
    lines = {}
    for segment in snapshot["segments"]:
        for block in segment["blocks"]:
            if block["state"] != "active_allocated":
                continue
            own = [f for f in block.get("frames") or [] if os.path.basename(f["filename"]) == NAME]
            line = f"{NAME}:{own[0]['line']}" if own else ""
            lines[line] = lines.get(line, 0) + block["size"]
    return lines


def is_expandable(env):
    """Does PyTorch take its memory from the driver in parts, by cuMemCreate, in a process with this environment?"""
    return "expandable_segments:True" in (env.get("PYTORCH_ALLOC_CONF") or env.get("PYTORCH_CUDA_ALLOC_CONF") or "").replace(" ", "").split(",")


COPIES, COPY_BYTES = 20, 8 << 20


def make_copies(torch):
    """To the card from memory that is pinned, then not; from the card."""
    plain = torch.zeros(COPY_BYTES, dtype=torch.uint8)
    pinned, card = plain.pin_memory(), torch.zeros(COPY_BYTES, dtype=torch.uint8, device="cuda:0")
    for source in (pinned, plain):
        for _ in range(COPIES):
            card.copy_(source, non_blocking=True)
            torch.cuda.synchronize()
    for _ in range(COPIES):
        pinned.copy_(card, non_blocking=True)
    torch.cuda.synchronize()
    return {"to device": 2 * COPIES * COPY_BYTES, "to host": COPIES * COPY_BYTES}


def compare_copies(truth, copies):
    wrong = Failures()
    for direction, size in truth.items():
        seen = [c for c in copies if c["direction"] == direction]
        total, held = sum(c["bytes"] for c in seen), sum(c["held_count"] for c in seen)
        print(f"  copies {direction}: {total / 2**20:.0f} MiB of {size / 2**20:.0f}, {held} held their thread, "
              f"{[round(c['bytes_per_s'] / 1e9, 1) for c in seen if c['held_count']]} GB/s")
        # The training copies little besides.
        wrong.check(size <= total < 1.1 * size, f"copies {direction}: {seen}")
        if direction == "to device":
            wrong.check(COPIES <= held < 2 * COPIES, f"held: {held} of {COPIES} from memory that is not pinned")
    return wrong


def run(args):
    import torch
    torch.cuda.memory._record_memory_history(max_entries=200000, stacks="python")
    torch.zeros(1, device="cuda:0")
    print("ready", flush=True)
    while not os.path.exists(args.wait):
        time.sleep(0.05)
    training, truth = Training(), {"pid": os.getpid(), "steps": [], "pauses": [], "expandable": is_expandable(os.environ)}
    memory = torch.cuda.memory_allocated
    for i in range(args.steps):
        training.step()
        if i % 10 == 0:
            training.keep(i)
        if i % 100 == 0:
            training.keep_same()
        truth["steps"].append([time.time_ns(), memory()])
        if not args.windows and i % (args.steps // 8) == args.steps // 16:
            torch.cuda.synchronize()
            truth["pauses"].append([time.time_ns(), memory(), torch.cuda.memory_reserved()])
            time.sleep(2.2)  # a whole second without a change
    truth["copies"] = make_copies(torch)
    stats = torch.cuda.memory_stats()
    truth["reports"] = stats["allocation.all.allocated"] + stats["allocation.all.freed"]
    truth["peak"] = torch.cuda.max_memory_allocated()
    truth["capacity"] = torch.cuda.mem_get_info()[1]
    try:
        torch.empty(HUGE, device="cuda:0", dtype=torch.uint8)
    except torch.cuda.OutOfMemoryError as error:
        truth["oom"] = str(error)[:100]
    truth["allocated"], truth["reserved"] = memory(), torch.cuda.memory_reserved()
    truth["lines"] = lines_of_snapshot(torch.cuda.memory._snapshot())
    with open(args.truth, "w", encoding="utf-8") as f:
        json.dump(truth, f)
    time.sleep(1.5)
    os._exit(0)  # nothing is released: the last snapshot of the store is that of this moment


class Failures(list):
    def check(self, right, text):
        if not right:
            self.append(text)


def compare_segments(truth, free):
    """What the driver gave to the allocator at the end, and to libraries."""
    wrong, own = Failures(), free["segment_bytes"] - free["outside_bytes"]
    print(f"  segments: {own / 2**20:.1f} MiB of the allocator's {truth['reserved'] / 2**20:.1f}, {free['outside_bytes'] / 2**20:.1f} of libraries")
    wrong.check(own == truth["reserved"], f"reserved {truth['reserved']}, stored {free}")
    wrong.check(free["used_bytes"] + free["split_bytes"] + free["empty_bytes"] == own, f"parts of the segments: {free}")
    return wrong


def compare_windows(truth, curve):
    """Rows of windows: values of the steps' range, and how much of the time they are."""
    wrong = Failures()
    seen = [r["seen_ns"] for r in curve if r["seen_ns"]]
    span = curve[-1]["start_ns"] - curve[0]["start_ns"] + 1_000_000_000 if curve else 1
    wrong.check(len(seen) >= 3, f"{len(seen)} windows")
    for row in curve:
        wrong.check(row["allocated_max_bytes"] <= truth["peak"], f"above the peak of {truth['peak']}: {row}")
    print(f"  curve: {len(seen)} windows of {sum(seen) / 1e9 / max(len(seen), 1):.3f} s, {100 * sum(seen) / span:.1f} % of {span / 1e9:.1f} s; "
          f"{sum(r['allocs'] + r['frees'] for r in curve)} of {truth['reports']} reports")
    return wrong


def compare_curve(truth, curve):
    wrong, exact = Failures(), 0
    for at, allocated, reserved in truth["pauses"]:
        row = [r for r in curve if r["start_ns"] <= at + 1_000_000_000]
        last = row[-1] if row else {}
        exact += last.get("allocated_bytes") == allocated and last.get("reserved_bytes") == reserved
        wrong.check(last.get("allocated_bytes") == allocated, f"pause: {allocated} bytes allocated, stored {last}")
    outside = 0
    for at, allocated in truth["steps"]:
        row = [r for r in curve if r["start_ns"] <= at - 20_000_000 and at + 20_000_000 < r["start_ns"] + 1_000_000_000]
        outside += bool(row) and not row[0]["allocated_min_bytes"] <= allocated <= row[0]["allocated_max_bytes"]
    wrong.check(outside == 0, f"{outside} steps are outside of their second's extremes")
    peak = max((r["allocated_max_bytes"] for r in curve), default=0)
    wrong.check(peak == truth["peak"], f"peak {truth['peak']}, stored {peak}")
    print(f"  curve: {exact} of {len(truth['pauses'])} pauses to the byte, {len(truth['steps'])} steps, {outside} outside; "
          f"peak {peak} of {truth['peak']}; {sum(r['allocs'] + r['frees'] for r in curve)} of {truth['reports']} reports")
    return wrong


def compare(truth, curve, places, failures, errors, windows=False):
    """Rows of the curve, lines that hold memory, failed requests, failed calls. Returns what is wrong, and prints figures."""
    wrong = compare_windows(truth, curve) if windows else compare_curve(truth, curve)
    ours = {}
    for place in places:
        found = re.findall(rf"\({re.escape(NAME)}:(\d+)\)", place["where"])
        line = f"{NAME}:{found[-1]}" if found else ""
        live, below, above = ours.get(line, (0, 0, 0))
        ours[line] = (live + place["live_bytes"], math.hypot(below, place["live_bytes"] - place["low_bytes"]),
                      math.hypot(above, place["high_bytes"] - place["live_bytes"]))
    for line in sorted(set(truth["lines"]) | {line for line, of in ours.items() if of[0]}):
        live, below, above = ours.get(line, (0, 0, 0))
        true = truth["lines"].get(line, 0)
        print(f"  {line or 'other':24} {true / 2**20:9.2f} MiB, stored {live / 2**20:9.2f}, 95 % {(live - below) / 2**20:.2f} to {(live + above) / 2**20:.2f}")
        # What is smaller than a sample may have none; a window misses what begins and ends between two.
        apart = (2 << 20) + (0.1 * true if windows else 0)
        # Twice as far is no chance.
        wrong.check(live - 2 * below - apart <= true <= live + 2 * above + apart, f"{line}: holds {true}, stored {live} -{below} +{above}")
    oom = [f for f in failures if f["asked_bytes"] == HUGE]
    wrong.check(len(oom) == 1 and NAME in oom[0]["where"] and oom[0]["cause"] == "capacity", f"out of memory: {oom}")
    # A request in parts fails at the first part that is not there.
    if truth["expandable"]:
        calls, others = [e for e in errors if e["op"] == "cuMemCreate" and e["result"] == 2], "cudaMalloc"
    else:
        calls, others = [e for e in errors if e["bytes"] == HUGE], "cuMem"
    print("  out of memory:", [(f["where"], f["cause"]) for f in oom], "failed calls:",
          [(e["op"], e.get("error", e["result"]), e.get("where")) for e in calls])
    wrong.check(calls and not any(e["op"].startswith(others) for e in errors if e["bytes"] == HUGE), f"failed calls: {errors}")
    wrong.check(all(NAME in e["where"] for e in calls), f"failed calls without their line: {calls}")
    return wrong


def run_compare(args):
    with open(args.truth, encoding="utf-8") as f:
        truth = json.load(f)

    def ask(*words):
        return json.loads(subprocess.run([args.tracectl, *words], check=True, capture_output=True, text=True).stdout)

    instance = f"(select max(instance) from ranks where pid = {truth['pid']})"
    curve = ask("query", "--json", f"select * from memory_curve where kind = 'cuda' and instance = {instance} order by start_ns")
    live = [p for p in ask("memory", "--json")["live"] if p["pid"] == truth["pid"] and p["kind"] == "cuda"]
    # Other programs may have run before.
    oom, errors = ([row for row in ask("memory", what, "--json")[what] if row["time_ns"] >= truth["steps"][0][0]] for what in ("oom", "errors"))
    with open(args.out, "w", encoding="utf-8") as f:
        json.dump({"truth": truth, "curve": curve, "live": live, "oom": oom, "errors": errors}, f)
    wrong = compare(truth, curve, live[0]["places"] if live else [], oom, errors, args.windows)
    if not args.windows:
        wrong += compare_segments(truth, [f for f in ask("memory", "fragmentation", "--json")["fragmentation"] if f["pid"] == truth["pid"] and f["kind"] == "cuda"][0])
    wrong += compare_copies(truth["copies"], [c for c in ask("memory", "copies", "--json")["copies"] if c["pid"] == truth["pid"]])
    for line in wrong:
        print("FAIL: " + line[:400])
    return 1 if wrong else 0


def again(args):
    import torch
    training, until = Training(), time.time() + args.seconds
    while time.time() < until:
        training.step()
        cache = torch.empty(1 << 30, dtype=torch.uint8, device="cuda:0")
        del cache
        torch.cuda.empty_cache()


def worker(args):
    """Reads "VARIANT SECONDS SETTLE" lines; answers with the mean of the step times but the longest of 50."""
    import torch
    training = Training(4096, 4096) if args.big else Training()

    def phase(seconds):
        times, end = [], time.perf_counter() + seconds
        while not times or time.perf_counter() < end:
            begin = time.perf_counter()
            training.step()
            torch.cuda.synchronize()
            times.append(time.perf_counter() - begin)
        return times

    phase(1)
    before = torch.cuda.memory_stats()["allocation.all.allocated"]
    steps = len(phase(0.3))
    events = 2 * (torch.cuda.memory_stats()["allocation.all.allocated"] - before) / steps
    print(json.dumps({"events": events}), flush=True)
    for line in sys.stdin:
        variant, seconds, settle = line.split()
        torch.cuda.memory._record_memory_history(enabled="all" if variant == "history" else None)
        phase(float(settle))
        times = sorted(phase(float(seconds)))
        print(json.dumps(statistics.mean(times[:max(1, len(times) * 49 // 50)])), flush=True)
    return 0


VARIANTS = {"off": "", "L0+L1": "L0 L1", "L0+L1+L2": "L0 L1 L2", "history": ""}
PHASE_S = 2.7  # two windows


def interval(values):
    """Median and its 95 % bootstrap interval."""
    draw = random.Random(1)
    medians = sorted(statistics.median(draw.choices(values, k=len(values))) for _ in range(1000))
    return statistics.median(values), medians[25], medians[975]


def cost(args):
    env = dict(os.environ, RANK="0", LOCAL_RANK="0", WORLD_SIZE="1")
    levels, rounds, end = None, {name: [] for name in VARIANTS if not args.big or name in ("off", "L0+L1+L2")}, time.monotonic() + args.seconds
    with subprocess.Popen([sys.executable, os.path.abspath(__file__), "worker"] + ["--big"] * args.big, env=env, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as job:
        events = json.loads(job.stdout.readline())["events"]
        order = list(rounds)
        while time.monotonic() < end:
            random.shuffle(order)
            for name in order:
                if levels != VARIANTS[name]:
                    levels = VARIANTS[name]
                    for level in ("L0", "L1", "L2"):
                        subprocess.run([args.tracectl, "set", f"{level}={str(level in levels.split()).lower()}"], check=True, stdout=subprocess.DEVNULL)
                    for _ in range(50):  # until its allocator is followed
                        text = subprocess.run([args.tracectl, "status"], capture_output=True, text=True, check=False).stdout
                        if "L2" not in levels or re.search(r"[1-9]\d* ranks? followed", text):
                            break
                        time.sleep(0.1)
                # With L2, the first second of reports decides on windows.
                job.stdin.write(f"{name} {PHASE_S} {2 if 'L2' in levels else 0.2}\n")
                job.stdin.flush()
                rounds[name].append(json.loads(job.stdout.readline()))
        job.stdin.close()
    for level in ("L0", "L1", "L2"):
        subprocess.run([args.tracectl, "set", f"{level}=true"], check=False, stdout=subprocess.DEVNULL)
    with open(args.out, "w", encoding="utf-8") as f:
        json.dump({"events_per_step": events, "mean_s": rounds}, f)
    print(f"  {events:.0f} reports a step, {len(rounds['off'])} rounds; off {1e3 * statistics.median(rounds['off']):.3f} ms a step")
    for name in list(rounds)[1:]:
        middle, low, high = interval([100 * (a / b - 1) for a, b in zip(rounds[name], rounds["off"])])
        print(f"  {name:10} {1e3 * statistics.median(rounds[name]):.3f} ms, {middle:+.2f} % ({low:+.2f} .. {high:+.2f})")
    return 0


def self_test():
    second = 1_000_000_000
    truth = {"expandable": False, "pauses": [[5 * second, 700, 900]], "steps": [[4 * second + second // 2, 650]], "peak": 800, "reports": 3,
             "lines": {f"{NAME}:1": 64 << 20, "": 100}}
    curve = [{"start_ns": 4 * second, "allocated_bytes": 700, "reserved_bytes": 900, "allocated_min_bytes": 600,
              "allocated_max_bytes": 800, "allocs": 2, "frees": 1}]
    places = [{"where": f"keep ({NAME}:1)", "live_bytes": 60 << 20, "low_bytes": 56 << 20, "high_bytes": 65 << 20}]
    oom = [{"asked_bytes": HUGE, "where": f"run ({NAME}:2)", "cause": "capacity"}]
    errors = [{"op": "cudaMalloc", "bytes": HUGE, "result": 2, "where": f"run ({NAME}:2)"}]
    parts = [{"op": "cuMemCreate", "bytes": 2 << 20, "result": 800, "where": ""}, {"op": "cuMemCreate", "bytes": 20 << 20, "result": 2, "where": f"run ({NAME}:2)"}]
    expandable = dict(truth, expandable=True)
    right = compare(truth, curve, places, oom, errors)
    wrong = [compare(truth, [dict(curve[0], allocated_bytes=701)], places, oom, errors),
             compare(truth, [dict(curve[0], allocated_max_bytes=640)], places, oom, errors),
             compare(truth, curve, [dict(places[0], live_bytes=40 << 20, low_bytes=36 << 20, high_bytes=45 << 20)], oom, errors),
             compare(truth, curve, places, [], errors),
             compare(truth, curve, places, oom, errors + [{"op": "cuMemAlloc_v2", "bytes": HUGE, "result": 2, "where": f"run ({NAME}:2)"}]),
             compare(truth, curve, places, oom, [dict(errors[0], where="")]),
             compare(truth, curve, places, oom, parts),
             compare(expandable, curve, places, oom, errors),
             compare(expandable, curve, places, oom, errors + parts),
             compare(expandable, curve, places, oom, parts[:1]),
             compare(expandable, curve, places, oom, [dict(parts[1], where="")]),
             compare(truth, [dict(curve[0], seen_ns=None)], places, oom, errors, True)]
    right += compare(truth, [dict(curve[0], seen_ns=200_000_000)] * 3, places, oom, errors, True)
    right += compare(expandable, curve, places, oom, parts)
    for conf, is_one in (("", False), ("expandable_segments:True", True), ("max_split_size_mb:128, expandable_segments: True", True),
                         ("expandable_segments:False", False)):
        right += [f"expandable: {conf}" for name in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF") if is_expandable({name: conf}) != is_one]
    copies = [{"direction": "to device", "bytes": 2 * COPIES * COPY_BYTES, "held_count": COPIES, "bytes_per_s": 1e10},
              {"direction": "to host", "bytes": COPIES * COPY_BYTES, "held_count": 0, "bytes_per_s": 0}]
    sizes = {"to device": 2 * COPIES * COPY_BYTES, "to host": COPIES * COPY_BYTES}
    right += compare_copies(sizes, copies)
    wrong += [compare_copies(sizes, copies[:1]), compare_copies(sizes, [dict(c, held_count=0) for c in copies])]
    free = {"segment_bytes": 346, "outside_bytes": 128, "used_bytes": 130, "split_bytes": 68, "empty_bytes": 20}
    right += compare_segments({"reserved": 218}, free)
    wrong += [compare_segments({"reserved": 248}, free), compare_segments({"reserved": 218}, dict(free, empty_bytes=148))]
    if right or not all(wrong):
        sys.exit(f"self-test: wrong results {right} {wrong}")
    print("self-test passed")
    return 0


def main():
    parser = argparse.ArgumentParser()
    what = parser.add_subparsers(dest="what", required=True)
    of = what.add_parser("run")
    of.add_argument("truth")
    of.add_argument("--wait", required=True)
    of.add_argument("--steps", type=int, default=3000)
    of.add_argument("--windows", action="store_true")
    of = what.add_parser("compare")
    of.add_argument("--windows", action="store_true")
    for name in ("tracectl", "truth", "out"):
        of.add_argument(name)
    what.add_parser("again").add_argument("seconds", type=float)
    of = what.add_parser("cost")
    for name in ("tracectl", "out"):
        of.add_argument(name)
    of.add_argument("seconds", type=float)
    of.add_argument("--big", action="store_true")
    what.add_parser("worker").add_argument("--big", action="store_true")
    what.add_parser("self-test")
    args = parser.parse_args()
    return {"run": lambda: run(args), "compare": lambda: run_compare(args), "again": lambda: again(args), "cost": lambda: cost(args), "worker": lambda: worker(args),
            "self-test": self_test}[args.what]()


if __name__ == "__main__":
    sys.exit(main())
