#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Gauges of cards beside nvidia-smi, by time.

  gauges.py load SECONDS CARD       keeps a card busy, with 4 GiB of its memory
  gauges.py smi OUT                 writes a line of nvidia-smi for each card a second, until it is ended
  gauges.py compare TRACECTL OUT PHASE SINCE UNTIL       seconds since the epoch; a line a card and gauge; exits with 1 where they differ
"""
import json
import statistics
import subprocess
import sys
import time

# Of nvidia-smi, of the table gauges, units of ours in one of theirs; and what the means of a phase may differ by, in theirs. Both read
# what changes at times of their own, and a row of ours has the mean of its time, which may begin before the phase.
QUANTITIES = (
    ("memory.used", "memory_used", 1 << 20, 32),
    ("memory.free", "memory_free", 1 << 20, 32),
    ("memory.total", "memory_total", 1 << 20, 1),
    ("temperature.gpu", "temperature", 1, 2),
    ("power.draw", "power", 1, 25),
    ("clocks.sm", "clock_sm", 1e6, 30),
    ("clocks.mem", "clock_memory", 1e6, 1),
    ("utilization.gpu", "utilization", 0.01, 5),
    ("pcie.link.gen.current", "pcie_generation", 1, 0),
    ("pcie.link.width.current", "pcie_width", 1, 0),
    ("ecc.errors.corrected.volatile.total", "ecc_corrected", 1, 0),
    ("ecc.errors.uncorrected.volatile.total", "ecc_uncorrected", 1, 0),
)


def load(seconds, card):
    import torch

    torch.cuda.set_device(card)
    held = torch.zeros(4 << 30, dtype=torch.uint8, device="cuda")
    a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for _ in range(20):
            torch.mm(a, a)
        torch.cuda.synchronize()
    del held


def smi(out):
    query = "--query-gpu=uuid," + ",".join(name for name, *_ in QUANTITIES)
    with open(out, "a", encoding="utf-8") as file:
        while True:
            text = subprocess.run(["nvidia-smi", query, "--format=csv,noheader,nounits"], capture_output=True, text=True, check=False).stdout
            for line in text.splitlines():
                file.write(json.dumps([time.time(), *[word.strip() for word in line.split(",")]]) + "\n")
            file.flush()
            time.sleep(1)


def number(text):
    try:
        return float(text)
    except ValueError:
        return None


def ours(tracectl, since_s, until_s):
    """Means over the time, by card and gauge."""
    sql = f"""SELECT object, name, sum(value * part) / sum(part) AS mean FROM (SELECT object, name, value,
        min(start_ns + duration_ns, {int(until_s * 1e9)}) - max(start_ns, {int(since_s * 1e9)}) AS part FROM gauges WHERE source = 'nvml')
        WHERE part > 0 GROUP BY 1, 2"""
    text = subprocess.run([tracectl, "query", "--json", sql], capture_output=True, text=True, check=True).stdout
    rows = json.loads(text)
    return {(row["object"], row["name"]): row["mean"] for row in (rows["rows"] if isinstance(rows, dict) else rows)}


def compare(tracectl, out, phase, since_s, until_s):
    means, wrong = ours(tracectl, since_s, until_s), 0
    with open(out, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    lines = [line for line in lines if since_s <= line[0] < until_s]
    for card in sorted({line[1] for line in lines}):
        for i, (theirs, name, unit, within) in enumerate(QUANTITIES):
            values = [number(line[2 + i]) for line in lines if line[1] == card]
            if None in values:
                continue
            mine = means.get((card, name))
            right = mine is not None and abs(mine / unit - statistics.mean(values)) <= within
            wrong += not right
            print(f"{phase} {card[:12]} {theirs}: nvidia-smi {statistics.mean(values):.1f}, gauges {'none' if mine is None else f'{mine / unit:.1f}'}{'' if right else '   WRONG'}")
    if not lines:
        print(f"{phase}: no line of nvidia-smi   WRONG")
    sys.exit(wrong > 0 or not lines)


if __name__ == "__main__":
    if sys.argv[1] == "load":
        load(float(sys.argv[2]), int(sys.argv[3]))
    elif sys.argv[1] == "smi":
        smi(sys.argv[2])
    else:
        compare(*sys.argv[2:5], *map(float, sys.argv[5:7]))
