# SPDX-License-Identifier: Apache-2.0
"""A training whose rank 1, or every rank, does something more: kinds.py CONTROL [all]. The file CONTROL names the kind; a function
or line of that kind has the comment "kind NAME".

Each takes about 30 ms of each step.
"""
import copy
import gc
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

EXTRA_S = 0.03
control = sys.argv[1]
rank = int(os.environ["RANK"])
slow = rank == 1 or sys.argv[2:] == ["all"]
kind = ""
lock = threading.Lock()
log = tempfile.TemporaryFile()
square = torch.randn(64, 64)
text = "the quick brown fox, 12345 jumps over <b>the</b> lazy dog; " * 20


def until():
    return time.perf_counter() + EXTRA_S


def burn():  # kind loop
    end, n = until(), 0
    while time.perf_counter() < end:
        n += 1


def nap():  # kind sleep
    time.sleep(EXTRA_S)


def clean_text():  # kind regex
    end = until()
    while time.perf_counter() < end:
        re.sub(r"(\w+)\s+(\w+)", r"\2 \1", text)


def flush_log():  # kind fsync
    end = until()
    while time.perf_counter() < end:
        log.write(b"x" * 65536)
        log.flush()
        os.fsync(log.fileno())


def encode():  # kind json
    end = until()
    while time.perf_counter() < end:
        json.dumps({"values": list(range(2000)), "text": text})


def checksum():  # kind hash
    end = until()
    while time.perf_counter() < end:
        hashlib.sha256(b"0" * 200000).hexdigest()


def order():  # kind sort
    end = until()
    while time.perf_counter() < end:
        sorted(((i * 7919) % 10007 for i in range(3000)), key=lambda v: -v)


def collect_garbage():  # kind gc
    end = until()
    while time.perf_counter() < end:
        gc.collect()


def walk(depth):  # kind recursion
    if depth:
        walk(depth - 1)
    else:
        end = until()
        while time.perf_counter() < end:
            pass


def extra_product():  # kind product
    end = until()
    with torch.no_grad():
        while time.perf_counter() < end:
            torch.mm(square, square)


def wait_for_lock():  # kind lock
    with lock:
        pass


def run_tool():  # kind process
    subprocess.run(["sleep", str(EXTRA_S)], check=True)


def copy_batch():  # kind copy
    end, batch = until(), {i: [float(i)] * 5 for i in range(200)}
    while time.perf_counter() < end:
        copy.deepcopy(batch)


def compress():  # kind thread
    while True:
        if kind == "thread":
            end = time.perf_counter() + 0.02
            while time.perf_counter() < end:
                pass
            time.sleep(0.01)
        else:
            time.sleep(0.1)


def hold_lock():
    while True:
        if kind == "lock":
            with lock:
                time.sleep(EXTRA_S)
            time.sleep(0.002)
        else:
            time.sleep(0.1)


def norm(x):  # kind longer
    rounds = 12 if slow and kind == "longer" else 1
    for _ in range(rounds):
        end = time.perf_counter() + 0.003
        while True:
            y = (x - x.mean()) / x.std()
            if time.perf_counter() >= end:
                break
    return y


doing = {"loop": burn, "sleep": nap, "regex": clean_text, "fsync": flush_log, "json": encode, "hash": checksum, "sort": order,
         "gc": collect_garbage, "recursion": lambda: walk(20), "product": extra_product, "lock": wait_for_lock, "process": run_tool,
         "copy": copy_batch}


class Samples(Dataset):
    def __len__(self):
        return 1 << 20

    def __getitem__(self, i):
        if slow and kind == "loader":
            load_slowly()
        return torch.full((64,), float(i % 7)), torch.tensor([1.0])


def load_slowly():  # kind loader
    time.sleep(EXTRA_S / 8)


def main():
    global kind
    dist.init_process_group("gloo")
    if slow:
        for target in (compress, hold_lock):
            threading.Thread(target=target, daemon=True).start()
    model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for x, y in DataLoader(Samples(), batch_size=8):
        x = norm(x)
        loss = ((model(x) - y) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(0.02)
        if slow and kind in doing:
            doing[kind]()
        if slow and kind == "line":
            time.sleep(EXTRA_S)  # kind line
        with open(control, encoding="utf-8") as file:
            kind = file.read().strip()


main()
