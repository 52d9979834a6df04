#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How often the evidence of a slow rank names the function that slows it.

injected.py BUILD OUT [--jobs N] [--lanes N] [--seed N] [--libraries DIR] [--kinds a,b] [--only 6,13]

Each job is a training of three ranks over gloo under one daemon. In one of them, once its step is known, a function does something of one
kind: its name, line, file, place in the step and size are drawn, among functions that all ranks call. Lanes of jobs run one after another's
faults, because the daemon profiles one suspicion at a time. A row of OUT for each job: what the finding says first, and how long after the
finding. Exit status 1: fewer than nine in ten name the function within 15 s, or a rank without a fault is accused of a function.
"""
import argparse
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
RANKS = 3
KNOWN_STEPS_S = 26      # warming and learning of the judge, and some more
FOUND_S, NAMED_S = 60, 15
APART_S = 55            # of two faults: of 300 s, suspicions of one user's jobs are profiled for 60, which is six faults

# What an injected function does, until `end` or for `seconds`.
KINDS = {
    "loop": "n = 0\nwhile time.perf_counter() < end:\n    n += 1",
    "sleep": "time.sleep(seconds)",
    "regex": "while time.perf_counter() < end:\n    re.sub(r'(\\w+)\\s+(\\w+)', r'\\2 \\1', TEXT)",
    "fsync": "with tempfile.TemporaryFile(dir='.') as file:\n    while time.perf_counter() < end:\n        file.write(b'x' * 65536)\n"
             "        file.flush()\n        os.fsync(file.fileno())",
    "json": "while time.perf_counter() < end:\n    json.dumps({'values': list(range(500)), 'text': TEXT})",
    "pickle": "while time.perf_counter() < end:\n    pickle.loads(pickle.dumps([[i] for i in range(500)]))",
    "hash": "while time.perf_counter() < end:\n    hashlib.sha256(b'0' * 100000).hexdigest()",
    "compress": "while time.perf_counter() < end:\n    zlib.compress(b'0123456789' * 5000)",
    "sort": "while time.perf_counter() < end:\n    sorted(((i * 7919) % 10007 for i in range(800)), key=lambda v: -v)",
    "gc": "while time.perf_counter() < end:\n    gc.collect()",
    "recursion": "depth = 12\ndef down(n):\n    if n:\n        return down(n - 1)\n    while time.perf_counter() < end:\n        pass\ndown(depth)",
    "product": "with torch.no_grad():\n    while time.perf_counter() < end:\n        torch.mm(SQUARE, SQUARE)",
    "item": "value = torch.ones(1)\nwhile time.perf_counter() < end:\n    (value * 2).item()",
    "lock": "LOCK.acquire(timeout=seconds)",
    "process": "subprocess.run(['sleep', str(seconds)], check=True)",
    "copy": "batch = {i: [float(i)] * 5 for i in range(50)}\nwhile time.perf_counter() < end:\n    copy.deepcopy(batch)",
    "select": "select.select([], [], [], seconds)",
    "log": "while time.perf_counter() < end:\n    LOG.warning('loss %f of step %d', 0.5, 3)",
}
PLACES = ("outside", "between", "forward", "loader", "optimizer")
WORDS = "tokenize augment collate normalize prefetch resize decode shuffle mask pack crop pad merge filter track report audit sync cache score".split()

TRAIN = """
import os, sys, time
import torch, torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset
sys.dont_write_bytecode = True
import {module} as work

rank = int(os.environ["RANK"])
torch.set_num_threads(1)
fault = None


def at(place):
    work.usual(place)
    if fault == place:
        work.{function}({seconds})


class Samples(Dataset):
    def __len__(self):
        return 1 << 20

    def __getitem__(self, i):
        if i % 8 == 0:
            at("loader")
        return torch.full((64,), float(i % 7)), torch.tensor([1.0])


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1))

    def forward(self, x):
        at("forward")
        return self.layers(x)


def main():
    global fault
    dist.init_process_group("gloo")
    model = DistributedDataParallel(Block())
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    optimizer.register_step_pre_hook(lambda *_: at("optimizer")) if hasattr(optimizer, "register_step_pre_hook") else None
    for x, y in DataLoader(Samples(), batch_size=8):
        loss = ((model(x) - y) ** 2).mean()
        at("between")
        optimizer.zero_grad()
        loss.backward()
        if not hasattr(optimizer, "register_step_pre_hook"):
            at("optimizer")
        optimizer.step()
        time.sleep(0.02)
        at("outside")
        if rank == {rank}:
            fault = "{place}" if os.path.exists("fault") else None


main()
"""
HEAD = """import copy, gc, hashlib, json, logging, os, pickle, re, select, subprocess, tempfile, threading, time, zlib
import torch
TEXT = "the quick brown fox, 12345 jumps over <b>the</b> lazy dog; " * 20
SQUARE = torch.randn(64, 64)
LOCK = threading.Lock()
LOCK.acquire()
LOG = logging.getLogger("work")
LOG.addHandler(logging.FileHandler("log.%d" % os.getpid()))
LOG.propagate = False
"""


def indented(text, by):
    return "\n".join(" " * by + line for line in text.split("\n"))


class Job:
    """A drawn job. `row`: what is known of it."""

    def __init__(self, number, kind, rng, folder):
        self.number, self.folder = number, folder
        names = ["%s_%s" % (a, b) for a in WORDS for b in WORDS if a != b]
        rng.shuffle(names)
        self.row = {"job": "injected%d" % number, "kind": kind, "function": names[0], "place": rng.choice(PLACES), "rank": rng.randrange(RANKS),
                    "seconds": round(rng.uniform(0.012, 0.04), 4)}
        self.module = names[1]
        # Each place has a function that all ranks call; the injected one lies somewhere among them.
        usual = dict(zip(PLACES, names[2:]))
        functions = ["def %s(seconds):\n    end = time.perf_counter() + seconds\n%s" % (names[0], indented(KINDS[kind], 4))]
        functions += ["def %s():\n    end = time.perf_counter() + 0.0015\n    while time.perf_counter() < end:\n        SQUARE.sum()" % n
                      for n in usual.values()]
        rng.shuffle(functions)
        gaps = ["\n" * rng.randrange(2, 40) for _ in functions]
        text = HEAD + "".join(gap + function + "\n" for gap, function in zip(gaps, functions))
        text += "\n\nUSUAL = {%s}\n\n\ndef usual(place):\n    USUAL[place]()\n" % ", ".join('"%s": %s' % each for each in usual.items())
        folder.mkdir()
        (folder / (self.module + ".py")).write_text(text, encoding="utf-8")
        (folder / "train.py").write_text(TRAIN.format(module=self.module, **self.row), encoding="utf-8")
        self.processes = []

    def start(self, python):
        env = dict(os.environ, OMP_NUM_THREADS="1", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(29700 + self.number), WORLD_SIZE=str(RANKS),
                   TORCHELASTIC_RUN_ID=self.row["job"], CUDA_VISIBLE_DEVICES="", PYTHONDONTWRITEBYTECODE="1")
        env.pop("LD_LIBRARY_PATH", None)
        for rank in range(RANKS):
            with open(self.folder / ("log.rank%d" % rank), "w", encoding="utf-8") as log:
                self.processes.append(subprocess.Popen([python, "train.py"], cwd=self.folder, stdout=log, stderr=log, env=dict(env, RANK=str(rank), LOCAL_RANK=str(rank))))

    def stop(self):
        for process in self.processes:
            process.kill()
            process.wait()


class Daemon:
    def __init__(self, build, work, libraries):
        self.build, self.work, self.next_fault_s = build, work, 0
        self.env = dict(os.environ, RANKTRACE_SOCKET=str(work / "control.sock"), RANKTRACE_LIBEXEC=str(build / "libexec/ranktrace"),
                        RANKTRACE_STATE_DIR=str(work / "state"))
        if libraries:
            self.env["LD_LIBRARY_PATH"] = libraries
        (work / "ranktrace.conf").write_text("[daemon]\nprobes_base_dir = %s\n[profiles]\ninterval = 0\n" % (ROOT / "bpf/probes.d"), encoding="utf-8")
        with open(work / "daemon.log", "w", encoding="utf-8") as log:
            self.process = subprocess.Popen([str(build / "daemon/ranktraced"), "--foreground", "--config", str(work / "ranktrace.conf"), "--state-dir",
                                             str(work / "state"), "--socket", self.env["RANKTRACE_SOCKET"]], env=self.env, stderr=log)
        while self.run("status").returncode and self.process.poll() is None:
            time.sleep(0.1)

    def run(self, *words):
        return subprocess.run([str(self.build / "ctl/tracectl"), *words], env=self.env, capture_output=True, text=True, check=False)

    def rows(self, *words):
        try:
            return json.loads(self.run(*words, "--json").stdout)
        except ValueError:
            return []

    def steps(self, job):
        found = self.rows("query", "select coalesce(max(start_ns) - min(start_ns), 0) / 1e9 as s from steps s join ranks r using (instance) "
                                   "where r.job = '%s' group by instance order by 1 limit 1" % job)
        return found[0]["s"] if found else 0

    def findings(self, job):
        """Of each of its findings: rank, first line of the differential evidence or None, sentence, kind."""
        rows = self.rows("query", "select kind, \"rank\", evidence, sentence from findings where job = '%s' and state in ('open', 'closed')" % job)
        found = []
        for row in rows:
            places = [each["detail"] for each in json.loads(row["evidence"] or "[]") if each["name"] == "function"]
            found.append((row["rank"], places[0] if places else None, row["sentence"], row["kind"]))
        return found

    def missed(self, row):
        """What there is instead: all that findings and profiles of the job say."""
        return {"findings": self.rows("query", "select kind, \"rank\", state, sentence, evidence from findings where job = '%s'" % row["job"]),
                "profiles": self.rows("query", "select p.* from profiles p join ranks using (instance) where job = '%s'" % row["job"]),
                "diff": self.run("diff", "--rank", str(row["rank"]), "--job", row["job"]).stdout.split("\n")[:8]}


def judge(row, findings, since_s):
    """Notes what the findings say now. True: nothing more is to come."""
    now_s = time.monotonic()
    for rank, place, sentence, kind in findings:
        if kind in ("hang", "imbalance"):
            continue
        if rank == row["rank"] and "found_s" not in row:
            row["found_s"] = round(now_s - since_s, 1)
        if not place:
            continue
        if rank != row["rank"]:
            row.setdefault("accused", "rank %s: %s" % (rank, place))
        elif "place_named" not in row:
            row["place_named"], row["sentence"] = place, sentence
            row["named_s"] = round(now_s - since_s - row["found_s"], 1)
    return "place_named" in row


def lane(jobs, args, daemon, turn):
    for job in jobs:
        job.start(args.python)
        try:
            end = time.monotonic() + 240
            while daemon.steps(job.row["job"]) < KNOWN_STEPS_S and time.monotonic() < end:
                time.sleep(1)
            with turn:  # one suspicion at a time is profiled
                time.sleep(max(0, daemon.next_fault_s - time.monotonic()))
                daemon.next_fault_s = time.monotonic() + APART_S
                (job.folder / "fault").touch()
                since_s = time.monotonic()
                limit_s = since_s + FOUND_S
                while time.monotonic() < limit_s and not judge(job.row, daemon.findings(job.row["job"]), since_s):
                    if "found_s" in job.row:
                        limit_s = min(limit_s, since_s + job.row["found_s"] + 2 * NAMED_S)
                    time.sleep(0.5)
                if "place_named" not in job.row:
                    job.row["missed"] = daemon.missed(job.row)
                for rank in {0, 1, 2} - {job.row["rank"]}:
                    text = daemon.run("diff", "--rank", str(rank), "--job", job.row["job"]).stdout.split("\n")[0]
                    if " spends " in text:
                        job.row["clean_named"] = text
        finally:
            job.stop()
        print(json.dumps(job.row), flush=True)


def report(jobs):
    rows = [job.row for job in jobs]
    # A function within it, as "f.<locals>.g", is on its lines.
    right = [r for r in rows if re.match(re.escape(r["function"]) + r"(\.<locals>\.\w+)? \(", r.get("place_named", "")) and r["named_s"] <= NAMED_S]
    found = [r for r in rows if "found_s" in r]
    times = sorted(r["named_s"] for r in rows if "named_s" in r)
    wrong = [r for r in rows if "accused" in r or "clean_named" in r]
    print("%d jobs, %d found, %d name the function first within %d s of the finding (%s of those found); after %s s median, %s s longest; "
          "%d comparisons of ranks without a fault name something" % (
              len(rows), len(found), len(right), NAMED_S, "%.0f %%" % (100 * len(right) / max(1, len(found))), times[len(times) // 2] if times else "-",
              times[-1] if times else "-", len(wrong)))
    return 0 if len(right) >= 0.9 * len(rows) and not wrong else 1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--lanes", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--libraries")
    parser.add_argument("--python", default="/usr/bin/python3")
    parser.add_argument("--kinds")
    parser.add_argument("--only", help="numbers of those of the drawn jobs that run")
    args = parser.parse_args()
    kinds = args.kinds.split(",") if args.kinds else list(KINDS)
    rng = random.Random(args.seed)
    work = pathlib.Path(tempfile.mkdtemp(prefix="ranktrace-injected."))
    work.chmod(0o755)
    jobs = [Job(i, kinds[i % len(kinds)], rng, work / ("job%d" % i)) for i in range(args.jobs or len(kinds))]
    if args.only:
        jobs = [jobs[int(number)] for number in args.only.split(",")]
    daemon = Daemon(args.build.resolve(), work, args.libraries)
    turn = threading.Lock()
    try:
        threads = [threading.Thread(target=lane, args=(jobs[i::args.lanes], args, daemon, turn)) for i in range(args.lanes)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        daemon.process.terminate()
        daemon.process.wait()
        for job in jobs:
            job.stop()
        args.out.mkdir(parents=True, exist_ok=True)
        (args.out / "rows.json").write_text("\n".join(json.dumps(job.row) for job in jobs) + "\n", encoding="utf-8")
        shutil.copy(work / "daemon.log", args.out / "daemon.log")
        shutil.rmtree(work)
    return report(jobs)


if __name__ == "__main__":
    sys.exit(main())
