#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A rank of a real DDP training with injectable faults. Uninstrumented.

Each step it reads the file CONTROL (JSON, replaced atomically): {"kind": ..., "rank": N, "ms": x, "at_step": n}. If `rank`
is its own, the fault is active until the next change; {} removes it. Appends to PROGRESS 16 bytes per step: its number and
its end by CLOCK_REALTIME in ns.

  compute     ms of additional matrix products in each forward
  sleep       ms of sleep in each forward, split between layers
  dataloader  ms of delay for each batch
  gc          ms of garbage collections in each step
  checkpoint  writing the file takes ms longer, at least twice as long
  missing     does not begin the next step
  type, size  at step at_step all ranks make an additional reduction; this one with another operation or size
"""
import argparse
import gc
import io
import json
import os
import struct
import sys
import time
import warnings

warnings.filterwarnings("ignore")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, Dataset  # noqa: E402

CLASSES = 10
PIECES = 8
EXTRA = 4096  # elements of the additional reduction


class Control:
    """The fault requested of this rank."""

    def __init__(self, path, rank):
        self.path, self.rank, self.stamp, self.all = path, rank, None, {}

    def update(self):
        try:
            stat = os.stat(self.path)
            stamp = stat.st_ino, stat.st_mtime_ns
            if stamp != self.stamp:
                with open(self.path, encoding="ascii") as file:
                    self.all = json.load(file)
                self.stamp = stamp
        except (OSError, ValueError):
            pass

    def ms(self, kind):
        return self.all.get("ms", 0) if self.all.get("kind") == kind and self.all.get("rank") == self.rank else 0


class Samples(Dataset):
    """One sample is a batch: one delay per batch."""

    def __init__(self, control, batch, width, base_ms):
        self.control, self.base_ms = control, base_ms
        self.x, self.y = torch.randn(batch, width), torch.randint(0, CLASSES, (batch,))

    def __len__(self):
        return 1 << 40

    def __getitem__(self, index):
        time.sleep((self.base_ms + self.control.ms("dataloader")) / 1e3)
        return self.x, self.y


class Body(nn.Module):
    """Layers; faults act in forward."""

    def __init__(self, control, width, layers, device):
        super().__init__()
        self.control, self.device = control, device
        self.layers = nn.ModuleList([nn.Linear(width, width) for _ in range(layers)])
        self.last = nn.Linear(width, CLASSES)
        size = 4096 if device.type == "cuda" else 256
        self.square = torch.randn(size, size, device=device)
        self.square_s = None

    def products(self, ms):
        if self.square_s is None:  # duration of one product
            for _ in range(3):
                self.square @ self.square
            self.sync()
            start = time.perf_counter()
            for _ in range(10):
                self.square @ self.square
            self.sync()
            self.square_s = (time.perf_counter() - start) / 10
        for _ in range(max(1, round(ms / 1e3 / self.square_s))):
            self.square @ self.square

    def sync(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def forward(self, x):
        if self.control.ms("compute"):
            with torch.no_grad():
                self.products(self.control.ms("compute"))
        for i, layer in enumerate(self.layers):
            if self.control.ms("sleep") and i < PIECES:
                time.sleep(self.control.ms("sleep") / 1e3 / PIECES)
            x = torch.relu(layer(x))
        return self.last(x)


class SlowFile(io.FileIO):
    """A file with a delayed first write."""

    def __init__(self, path, ms):
        super().__init__(path, "wb")
        self.ms = ms

    def write(self, data):
        time.sleep(self.ms / 1e3)
        self.ms = 0
        return super().write(data)


OBJECTS = 300000


class Storm:
    """Repeated garbage collections over many objects."""

    def __init__(self):
        self.objects, self.one_ms = [], 0

    def blow(self, ms):
        if not ms:
            self.objects = []
            return
        if not self.objects:
            gc.disable()
            self.objects = [[i] for i in range(OBJECTS)]
            gc.enable()
            start = time.perf_counter()
            gc.collect()
            self.one_ms = (time.perf_counter() - start) * 1e3
        for _ in range(max(1, round(ms / self.one_ms))):
            gc.collect()


def extra_reduction(control, rank, step, device):
    kind = control.all.get("kind")
    if kind not in ("type", "size") or control.all.get("at_step") != step:
        return
    own = control.all.get("rank") == rank
    tensor = torch.ones(EXTRA * 2 if own and kind == "size" else EXTRA, device=device)
    if own and kind == "type":
        dist.broadcast(tensor, src=rank)
    else:
        dist.all_reduce(tensor)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--load-ms", type=float, default=5)
    parser.add_argument("--checkpoint-every", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=300)
    args = parser.parse_args()
    rank = int(os.environ["RANK"])
    if "CORE" in os.environ:
        os.sched_setaffinity(0, [int(os.environ["CORE"])])
    torch.set_num_threads(1)
    torch.manual_seed(7)
    device = torch.device(args.device)
    if device.type == "cuda":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    control = Control(os.environ["CONTROL"], rank)
    progress = os.open(os.environ["PROGRESS"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    model = Body(control, args.width, args.layers, device).to(device)
    ids = [device.index] if device.type == "cuda" else None
    ddp = nn.parallel.DistributedDataParallel(model, device_ids=ids, bucket_cap_mb=4)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=1e-4)
    loader = iter(DataLoader(Samples(control, args.batch, args.width, args.load_ms), batch_size=None))
    model.products(1)
    save_ms = 0
    storm, end, step = Storm(), time.monotonic() + args.seconds, 0
    while True:
        # All ranks stop at the same step, decided by rank 0.
        if step % 10 == 0:
            over = torch.tensor([1.0 if time.monotonic() > end else 0.0], device=device)
            dist.broadcast(over, src=0)
            if over.item():
                break
        step += 1
        control.update()
        while control.ms("missing"):
            time.sleep(0.2)
            control.update()
        x, y = next(loader)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(ddp(x.to(device)), y.to(device))
        loss.backward()
        extra_reduction(control, rank, step, device)
        optimizer.step()
        loss.item()
        storm.blow(control.ms("gc"))
        if args.checkpoint_every and step % args.checkpoint_every == 0:
            ms = control.ms("checkpoint")
            begin = time.monotonic()
            with SlowFile(f"{os.environ['PROGRESS']}.ckpt", max(ms, save_ms) if ms else 0) as file:
                torch.save(model.state_dict(), file)
            save_ms = save_ms if ms else (time.monotonic() - begin) * 1e3
        os.write(progress, struct.pack("<QQ", step, time.time_ns()))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    sys.exit(main())
