#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A small uninstrumented training on the CPU, for the end-to-end tests.

It times its stages itself and writes them as JSON to the file named by the environment variable TRUTH (%r becomes the
rank): steps, seconds per stage, total seconds, and each step's end by CLOCK_MONOTONIC. Runs on
PyTorch 1.13 and later with nothing else installed.
"""
import argparse
import contextlib
import json
import os
import random
import sys
import tempfile
import time
import warnings

warnings.filterwarnings("ignore")

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, Dataset  # noqa: E402

MICRO_BATCHES = 4  # per step with --mode accumulate
CHECKPOINT_EVERY = 5
EPOCHS = 3  # with --mode eval
SYNC_EVERY = 10  # steps, with --device cuda: reading the loss synchronizes
EVAL_BATCHES = 7
CLASSES = 10
# Stages of --mode user_stages; CPython stores their characters in 1, 1, 2 and 4 bytes.
NAMES = "my model", "perte \u00e0 minimiser", "\u68af\u5ea6\u88c1\u526a", "clip \U0001f680"


class Samples(Dataset):
    def __init__(self, count, width, sleep_s):
        self.count, self.width, self.sleep_s = count, width, sleep_s
        self.dawdle, self.dawdle_every = None, 1

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if self.sleep_s:
            time.sleep(self.sleep_s)
        if self.dawdle and index % self.dawdle_every == 0:
            self.dawdle()
        generator = torch.Generator().manual_seed(index)
        return torch.randn(self.width, generator=generator), index % CLASSES


class Truth:
    """Seconds per stage, and the steps' ends.

    The time of all steps begins with the first stage: what a data loader does before it (with the processes that
    Python 3.14 starts afresh for it, a second or more) belongs to no step yet.
    """

    def __init__(self):
        self.steps = 0
        self.stages = {}
        self.stage_ns = {}  # of each step
        self.step_stage_ns = {}  # of the step that runs
        self.counts = {}
        self.ends_ns = []
        self.start_ns = time.monotonic_ns()
        self.entered = False

    @contextlib.contextmanager
    def stage(self, name):
        start_ns = time.monotonic_ns()
        if not self.entered:
            self.start_ns = start_ns
        self.entered = True
        try:
            yield
        finally:
            spent_ns = time.monotonic_ns() - start_ns
            self.stages[name] = self.stages.get(name, 0.0) + spent_ns / 1e9
            self.step_stage_ns[name] = self.step_stage_ns.get(name, 0) + spent_ns
            self.counts[name] = self.counts.get(name, 0) + 1

    def step(self, now_ns=None):
        self.steps += 1
        for name, spent_ns in self.step_stage_ns.items():
            self.stage_ns.setdefault(name, []).append(spent_ns)
        self.step_stage_ns = {}
        self.ends_ns.append(now_ns or time.monotonic_ns())

    def write(self, mode, rank):
        path = os.environ.get("TRUTH")
        if not path:
            return
        path = path.replace("%r", str(rank))
        with open(path + ".part", "w") as file:
            json.dump({"mode": mode, "rank": rank, "pid": os.getpid(), "torch": torch.__version__,
                       "steps": self.steps, "stages": self.stages, "stage_ns": self.stage_ns, "counts": self.counts,
                       "total_seconds": (time.monotonic_ns() - self.start_ns) / 1e9,
                       "start_monotonic_ns": self.start_ns, "step_end_monotonic_ns": self.ends_ns}, file)
        os.rename(path + ".part", path)


class Training:
    def __init__(self, args, rank):
        self.args, self.rank = args, rank
        hidden = args.hidden
        self.model = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(),
                                   nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, CLASSES))
        self.device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if args.device == "cuda" else None
        if self.device:
            torch.cuda.set_device(self.device)
            self.model.to(self.device)
        if args.mode == "ddp":
            ids = [self.device.index] if self.device else None
            self.model = nn.parallel.DistributedDataParallel(self.model, device_ids=ids)
        parameters = list(self.model.parameters())
        if args.mode == "two_optimizers":
            self.optimizers = [torch.optim.SGD(parameters[:4], lr=0.01), torch.optim.AdamW(parameters[4:], lr=0.001)]
        else:
            self.optimizers = [torch.optim.SGD(parameters, lr=0.01, momentum=0.9)]
        self.loss = nn.CrossEntropyLoss()
        self.truth = Truth()

    def loader(self, batches):
        args = self.args
        samples = Samples(batches * args.batch, args.hidden, args.sleep_data / 1e3 / args.batch)
        if args.dawdle_file:
            samples.dawdle, samples.dawdle_every = self.dawdle, args.batch
        return DataLoader(samples, batch_size=args.batch, num_workers=args.workers)

    def dawdle(self):
        """Sleeps the milliseconds given in --dawdle-file while it exists: a temporarily slow loader."""
        try:
            with open(self.args.dawdle_file) as file:
                time.sleep(float(file.read() or 0) / 1e3)
        except (OSError, TypeError):
            pass

    def batches(self, count):
        """A for loop over the loader with a timer around each next()."""
        iterator = iter(self.loader(count))
        while True:
            while self.args.stall_file and os.path.exists(self.args.stall_file):
                time.sleep(0.2)
            if self.args.stop_file and os.path.exists(self.args.stop_file):
                return
            try:
                with self.truth.stage("dataloader"):
                    batch = next(iterator)
            except StopIteration:
                return
            yield [part.to(self.device) for part in batch] if self.device else batch

    def zero_grad(self):
        for optimizer in self.optimizers:
            with self.truth.stage("zero_grad"):
                optimizer.zero_grad()

    def forward(self, x, y):
        if self.args.mode == "ddp":  # PyTorch marks the wrapped model, not the loss
            with self.truth.stage("forward"):
                out = self.model(x)
            return self.loss(out, y)
        with self.truth.stage("forward"):
            return self.loss(self.model(x), y)

    def backward(self, loss):
        with self.truth.stage("backward"):
            loss.backward()

    def optimize(self):
        for optimizer in self.optimizers:
            with self.truth.stage("optimizer"):
                optimizer.step()
        self.truth.step()

    def plain(self, count=None):
        for x, y in self.batches(count or self.args.steps):
            self.zero_grad()
            loss = self.forward(x, y)
            self.backward(loss)
            self.optimize()
            if self.device and self.truth.steps % SYNC_EVERY == 0:
                loss.item()
            if self.args.mode == "checkpoint" and self.truth.steps % CHECKPOINT_EVERY == 0:
                self.checkpoint()

    def checkpoint(self):
        with tempfile.TemporaryDirectory() as folder:
            with self.truth.stage("checkpoint"):
                torch.save(self.model.state_dict(), os.path.join(folder, "model.pt"))

    def accumulate(self):
        for i, (x, y) in enumerate(self.batches(self.args.steps * MICRO_BATCHES)):
            loss = self.forward(x, y) / MICRO_BATCHES
            self.backward(loss)
            if i % MICRO_BATCHES == MICRO_BATCHES - 1:
                self.optimize()
                self.zero_grad()

    def amp(self):
        scaler = torch.amp.GradScaler("cpu") if hasattr(torch.amp, "GradScaler") else torch.cuda.amp.GradScaler()
        for x, y in self.batches(self.args.steps):
            self.zero_grad()
            with self.truth.stage("forward"):
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    loss = self.loss(self.model(x), y)
                scaled = scaler.scale(loss)
            self.backward(scaled)
            with self.truth.stage("optimizer"):  # includes the scaler's work before it
                scaler.step(self.optimizers[0])
            scaler.update()
            self.truth.step()

    def inference(self):
        """A step lasts from the begin of data loading to the next one."""
        self.model.eval()
        iterator = iter(self.loader(self.args.steps))
        with torch.no_grad():
            while True:
                now_ns = time.monotonic_ns()
                if self.truth.counts.get("dataloader"):
                    self.truth.step(now_ns)
                try:
                    with self.truth.stage("dataloader"):
                        x, _ = next(iterator)
                except StopIteration:
                    return
                with self.truth.stage("forward"):
                    self.model(x)

    def user_stages(self):
        record = torch.autograd.profiler.record_function
        for x, y in self.batches(self.args.steps):
            self.zero_grad()
            with self.truth.stage("forward"):
                with self.truth.stage("my model"), record(NAMES[0]):
                    out = self.model(x)
                with self.truth.stage("my loss"), record(NAMES[1]):
                    loss = self.loss(out, y)
            self.backward(loss)
            with self.truth.stage("clip"), record(NAMES[2]), record(NAMES[3]):
                nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimize()

    def eval(self):
        done = 0
        for epoch in range(EPOCHS):
            count = (self.args.steps - done) // (EPOCHS - epoch)
            if count:
                self.plain(count)
            done += count
            self.model.eval()
            with torch.no_grad():
                for x, _ in self.batches(EVAL_BATCHES):
                    self.model(x)
            self.model.train()

    def no_loader(self):
        x = torch.randn(self.args.batch, self.args.hidden)
        y = torch.randint(0, CLASSES, (self.args.batch,))
        for _ in range(self.args.steps):
            self.zero_grad()
            loss = self.forward(x, y)
            self.backward(loss)
            self.optimize()

    def run(self):
        {"plain": self.plain, "ddp": self.plain, "workers": self.plain, "checkpoint": self.plain,
         "two_optimizers": self.plain}.get(self.args.mode, getattr(self, self.args.mode, None))()


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mode", default="plain", choices=[
        "plain", "ddp", "accumulate", "amp", "workers", "checkpoint", "inference", "two_optimizers", "user_stages",
        "eval", "no_loader"])
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--workers", type=int, help="workers of the data loader (default 2 with --mode workers, else 0)")
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--sleep-data", type=float, default=0, metavar="MS", help="per batch")
    parser.add_argument("--dawdle-file", metavar="F", help="file with a delay in ms for each batch, while it exists")
    parser.add_argument("--stall-file", metavar="F", help="do not begin the next step while it exists")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--linger", type=float, default=0, metavar="SECONDS", help="delay before exit, after TRUTH is written")
    parser.add_argument("--start-file", metavar="F", help="wait until it exists")
    parser.add_argument("--stop-file", metavar="F", help="end before the next step once it exists")
    parser.add_argument("--ready-file", metavar="F", help="write the pid there before waiting (%%r: the rank)")
    parser.add_argument("--wait", type=float, default=120, metavar="SECONDS", help="time limit of --start-file")
    args = parser.parse_args()
    if args.workers is None:
        args.workers = 2 if args.mode == "workers" else 0
    return args


def wait_for(path, seconds):
    end = time.monotonic() + seconds
    while not os.path.exists(path):
        if time.monotonic() > end:
            sys.exit("train.py: %s did not appear within %g s" % (path, seconds))
        time.sleep(0.02)


def main():
    args = parse()
    rank = int(os.environ.get("RANK", "0"))
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    random.seed(rank)
    if args.mode == "ddp":
        os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
        os.environ.setdefault("USE_LIBUV", "0")  # the distributions build without
        torch.distributed.init_process_group("nccl" if args.device == "cuda" else "gloo", rank=rank, world_size=int(os.environ.get("WORLD_SIZE", "1")))
    training = Training(args, rank)
    if args.ready_file:
        path = args.ready_file.replace("%r", str(rank))
        with open(path + ".part", "w") as file:
            file.write("%d\n" % os.getpid())
        os.rename(path + ".part", path)
    if args.start_file:
        wait_for(args.start_file, args.wait)
    training.truth = Truth()
    training.run()
    training.truth.write(args.mode, rank)
    if args.linger:
        time.sleep(args.linger)
    if args.mode == "ddp":
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
