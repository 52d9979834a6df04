#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A rank for explain.py: a plain training loop. The file CONTROL holds the word of the fault that each step makes, and how much
of it; without it steps are ordinary. FOLDER/own has the end of each step of rank 0, its length, and what its thread's own clock of CPU
time says of it but for loading of data and checkpoints, in ns.

  explain_rank.py CONTROL FOLDER
"""
import mmap
import os
import random
import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

CONTROL, FOLDER = sys.argv[1:3]
MAPPED = os.path.join(FOLDER, "mapped")
DATA = os.path.join(FOLDER, "data")
BYTES = 64 << 20
BATCH = int(os.environ.get("EXPLAIN_BATCH", "8"))  # short steps: a fault is most of a slow one
SAVE_EVERY = 4  # steps


def wanted(word):
    try:
        with open(CONTROL, encoding="ascii") as file:
            name, amount = file.read().split()
    except (OSError, ValueError):
        return 0
    return int(amount) if name == word else 0


def drop(path):
    fd = os.open(path, os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def small_reads(count):
    fd = os.open(DATA, os.O_RDONLY)
    for i in range(count):
        os.pread(fd, 64, i * 64 % BYTES)
    os.close(fd)


# What was read before belongs to another control group: with the first call it goes.
dropped = False


def read_all(times):
    global dropped
    if not dropped:
        drop(DATA)
        dropped = True
    for _ in range(times):
        with open(DATA, "rb", buffering=0) as file:
            while file.read(1 << 20):
                pass


def major_faults(pages):
    drop(MAPPED)
    with open(MAPPED, "rb") as file, mmap.mmap(file.fileno(), BYTES, prot=mmap.PROT_READ) as view:
        view.madvise(mmap.MADV_RANDOM)
        for i in range(pages):
            view[i * 16 * mmap.PAGESIZE % BYTES]


def write_through(mib):
    with open(os.path.join(FOLDER, "checkpoint"), "wb") as file:
        for _ in range(mib):
            file.write(os.urandom(4096) * 256)
            file.flush()
            os.fsync(file.fileno())


def save(model):
    """A checkpoint that is on the disk when it is done."""
    fd = os.open(os.path.join(FOLDER, "checkpoint"), os.O_WRONLY | os.O_CREAT | os.O_DSYNC, 0o600)
    with os.fdopen(fd, "wb", buffering=0) as file:
        torch.save(model.state_dict(), file)


anonymous = []


def touch(pages):
    """Of memory that is made with the first call: in the control group of that time."""
    if not anonymous:
        anonymous.append(mmap.mmap(-1, BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
        for at in range(0, BYTES, mmap.PAGESIZE):
            anonymous[0][at : at + 8] = os.urandom(8)
    for _ in range(pages):
        anonymous[0][random.randrange(BYTES)]


FAULTS = {"reads": small_reads, "cache": read_all, "faults": major_faults, "sync": write_through, "swap": touch}


class Samples(Dataset):
    def __len__(self):
        return 1 << 40

    def __getitem__(self, index):
        time.sleep(0.002)
        for word, act in FAULTS.items():
            amount = wanted(word)
            if amount:
                act(amount)
        return torch.randn(BATCH, 256), torch.randint(0, 10, (BATCH,))


def main():
    for path in MAPPED, DATA:
        if os.environ["RANK"] != "0":
            break
        with open(path, "wb") as file:
            for _ in range(BYTES >> 20):
                file.write(os.urandom(1 << 20))
            file.flush()
            os.fsync(file.fileno())
    torch.set_num_threads(1)
    model = nn.Sequential(*[part for _ in range(4) for part in (nn.Linear(256, 256), nn.ReLU())], nn.Linear(256, 10))
    if os.environ["WORLD_SIZE"] != "1":
        torch.distributed.init_process_group("gloo")
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    own = open(os.path.join(FOLDER, "own") if os.environ["RANK"] == "0" else os.devnull, "w", encoding="ascii")
    end = time.time_ns()
    for step, (x, y) in enumerate(DataLoader(Samples(), batch_size=None)):
        cpu = time.thread_time_ns()
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        for _ in range(4):
            loss = loss + model(x).square().mean()
        loss.backward()
        optimizer.step()
        cpu = time.thread_time_ns() - cpu
        if step % SAVE_EVERY == 0 and wanted("save"):
            save(model)
        now = time.time_ns()
        print(now, now - end, cpu, file=own)
        end = now


if __name__ == "__main__":
    main()
