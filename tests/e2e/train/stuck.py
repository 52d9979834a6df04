# SPDX-License-Identifier: Apache-2.0
"""Ranks that get stuck in known places: stuck.py KIND [FILE]... train GO KIND [FILE]: ranks over gloo, of which rank 1 gets stuck;
pair GO: two that send, and no mark shows where: rank 1 begins no step. They are stuck once the file GO exists.
The others load the library in $TRAINING_LIBRARY in place of PyTorch, as what maps a training library is a rank."""
import ctypes
import os
import signal
import sys
import threading
import time

PR_SET_PDEATHSIG = 1


def hold_lock():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()  # line of lock


def spin():
    until = time.monotonic() + 600
    while time.monotonic() < until:  # line of loop
        pass


def stop_here():
    os.kill(os.getpid(), signal.SIGSTOP)  # line of stop


def wait_for_disk(path):
    # The parent of a vfork() sleeps uninterruptibly until its child executes, and the child waits for a writer.
    action = (os.POSIX_SPAWN_OPEN, 0, path, os.O_RDONLY, 0)
    os.posix_spawn("/bin/true", ["true"], {}, file_actions=[action])  # line of disk


def read_batch(path):
    with open(path) as file:
        return file.read()  # line of read


def load():
    import torch

    class Slow(torch.utils.data.Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, index):
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # a killed rank leaves no worker behind
            time.sleep(600)  # line of loader
            return index

    next(iter(torch.utils.data.DataLoader(Slow(), num_workers=1)))


def train(go, kind, *path):
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    while True:
        optimizer.zero_grad()
        model(torch.randn(4, 8)).sum().backward()
        optimizer.step()
        time.sleep(0.05)
        if dist.get_rank() == 1 and os.path.exists(go):
            STUCK[kind](*path)


def pair(go):
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    weights = torch.nn.Parameter(torch.zeros(8))
    optimizer = torch.optim.SGD([weights], lr=0.1)
    while True:
        if dist.get_rank() == 1 and os.path.exists(go):
            hold_lock()
        optimizer.zero_grad()
        time.sleep(0.02)
        if dist.get_rank() == 0:
            dist.send(torch.zeros(8), 1)
            dist.recv(torch.zeros(8), 1)
        else:
            dist.recv(torch.zeros(8), 0)
            dist.send(torch.zeros(8), 0)
        weights.sum().backward()
        optimizer.step()


TRAININGS = {"train": train, "pair": pair, "loader": load}
STUCK = {"lock": hold_lock, "loop": spin, "disk": wait_for_disk, "stop": stop_here, "read": read_batch}

kind, *arguments = sys.argv[1:]
if kind in TRAININGS:
    TRAININGS[kind](*arguments)
else:
    ctypes.CDLL(os.environ["TRAINING_LIBRARY"])
    STUCK[kind](*arguments)
