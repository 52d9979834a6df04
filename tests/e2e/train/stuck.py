# SPDX-License-Identifier: Apache-2.0
"""Ranks that get stuck in known places: stuck.py KIND [FILE]... train GO FIFO: three ranks over gloo, rank 1 reads a FIFO;
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


def spin(until):
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
        return file.read()  # line of train


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


def train(go, path):
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
            read_batch(path)


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


if sys.argv[1] == "train":
    train(*sys.argv[2:])
elif sys.argv[1] == "pair":
    pair(*sys.argv[2:])
elif sys.argv[1] == "loader":
    load()
ctypes.CDLL(os.environ["TRAINING_LIBRARY"])
if sys.argv[1] == "lock":
    hold_lock()
elif sys.argv[1] == "loop":
    spin(time.monotonic() + 600)
elif sys.argv[1] == "disk":
    wait_for_disk(sys.argv[2])
elif sys.argv[1] == "stop":
    stop_here()
