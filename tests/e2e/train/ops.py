#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Uninstrumented gloo collectives for the end-to-end tests: every kind, on several groups.

usage: ops.py kinds|run|stop|mismatch. Each rank writes its calls to the file named by TRUTH (%r becomes the rank): per
operation group, number, name, data type, elements, bytes, and begin and completion by CLOCK_MONOTONIC. Runs on PyTorch
1.13 and later with nothing else installed.

  kinds     every kind of operation at least once, then exit
  run       operations until the file STOP exists
  mismatch  rank 1 calls a broadcast where the others call an allreduce, and all wait
"""
import json
import os
import sys
import time
import warnings

warnings.filterwarnings("ignore")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

LATE_S = 0.15  # delay of the late rank of an operation


class Group:
    """A process group, its calls, and the delay of its late members."""

    def __init__(self, name, ranks, group):
        self.name, self.ranks, self.group = name, ranks, group
        self.rank = ranks.index(dist.get_rank())
        self.seq = 0
        self.peers = {}


class Calls:
    def __init__(self):
        self.rows = []

    def note(self, group, op, tensor, start_ns, **more):
        row = {"group": group.name, "member": group.rank, "members": len(group.ranks), "op": op, "start_ns": start_ns,
               "end_ns": time.monotonic_ns(), "peer": None, "dtype": None, "count": None, "bytes": None, "least_ns": 0}
        if tensor is not None:
            row["dtype"] = str(tensor.dtype).replace("torch.", "")
            row["count"] = tensor.numel()
            row["bytes"] = tensor.numel() * tensor.element_size()
        row.update(more)
        if row["peer"] is None:
            group.seq += 1
            row["seq"] = group.seq
        else:
            key = (row["op"], row["peer"])
            group.peers[key] = group.peers.get(key, 0) + 1
            row["seq"] = group.peers[key]
        self.rows.append(row)

    def call(self, group, op, tensor, function, *args, late=False, **kwargs):
        """One operation. late: the group's last member begins LATE_S after all others began."""
        least_ns = 0
        if late and group.rank == len(group.ranks) - 1:
            time.sleep(2 * LATE_S)
        elif late:
            least_ns = int(LATE_S * 1e9)
        start_ns = time.monotonic_ns()
        work = function(*args, group=group.group, **kwargs)
        if kwargs.get("async_op"):
            work.wait()
        self.note(group, op, tensor, start_ns, least_ns=least_ns)


def every_kind(calls, group):
    """Each kind that this gloo supports. Reductions and barriers complete only after all members began."""
    members, root = len(group.ranks), group.ranks[0]
    calls.call(group, "Barrier", None, dist.barrier)
    for dtype, count in ((torch.float32, 1000), (torch.float64, 1), (torch.int64, 33), (torch.uint8, 4096),
                         (torch.int8, 77), (torch.int32, 3 * 7 * 11)):
        tensor = torch.ones(count, dtype=dtype)
        calls.call(group, "AllReduce", tensor, dist.all_reduce, tensor)
    tensor = torch.ones(8, 4, 2)
    calls.call(group, "AllReduce", tensor, dist.all_reduce, tensor, late=True)
    calls.call(group, "AllReduce", tensor, dist.all_reduce, tensor, async_op=True)
    tensor = torch.ones(500, dtype=torch.float64)
    calls.call(group, "Broadcast", tensor, dist.broadcast, tensor, root)
    tensor = torch.ones(12)
    calls.call(group, "Reduce", tensor, dist.reduce, tensor, root)
    tensor = torch.ones(300, dtype=torch.int32)
    calls.call(group, "AllGather", tensor, dist.all_gather, [torch.zeros_like(tensor) for _ in range(members)], tensor, late=True)
    lists = [torch.zeros_like(tensor) for _ in range(members)] if group.rank == 0 else None
    calls.call(group, "Gather", tensor, dist.gather, tensor, lists, dst=root)
    lists = [torch.zeros_like(tensor) for _ in range(members)] if group.rank == 0 else None
    calls.call(group, "Scatter", tensor, dist.scatter, tensor, lists, src=root)
    tensor = torch.ones(6 * members, dtype=torch.int64)
    calls.call(group, "AlltoAllV", tensor, dist.all_to_all_single, torch.zeros_like(tensor), tensor)
    if hasattr(dist, "reduce_scatter_tensor") and not torch.__version__.startswith("1."):
        tensor = torch.ones(10 * members)
        calls.call(group, "ReduceScatter", tensor, dist.reduce_scatter_tensor, torch.zeros(10), tensor)
        tensor = torch.ones(10)
        calls.call(group, "AllGather", tensor, dist.all_gather_into_tensor, torch.zeros(10 * members), tensor)
    try:  # rejected before numbering: no operation
        dist.broadcast(torch.ones(3).to_sparse(), root, group=group.group)
    except (RuntimeError, ValueError):
        pass
    else:
        raise AssertionError("the broadcast of a sparse tensor was not refused")
    calls.call(group, "Barrier", None, dist.barrier, late=True)


def in_flight(calls, group):
    """Several at a time."""
    tensors = [torch.ones(100 + i) for i in range(5)]
    started = []
    for tensor in tensors:
        start_ns = time.monotonic_ns()
        started.append((tensor, start_ns, dist.all_reduce(tensor, group=group.group, async_op=True)))
    for tensor, start_ns, work in started:
        work.wait()
        calls.note(group, "AllReduce", tensor, start_ns)


def pairs(calls, group):
    """Rank 0 sends to 1, 1 sends back; once both asynchronously at the same time."""
    if group.rank > 1:
        return
    other = 1 - group.rank
    for count in (5, 600):
        for sender in (0, 1):
            tensor = torch.ones(count)
            start_ns = time.monotonic_ns()
            if group.rank == sender:
                dist.send(tensor, group.ranks[other], group=group.group)
            else:
                dist.recv(tensor, group.ranks[other], group=group.group)
            calls.note(group, "Send" if group.rank == sender else "Recv", tensor, start_ns, peer=other)
    out, back = torch.ones(40), torch.ones(40)
    start_ns = time.monotonic_ns()
    works = [dist.isend(out, group.ranks[other], group=group.group), dist.irecv(back, group.ranks[other], group=group.group)]
    for work in works:
        work.wait()
    calls.note(group, "Send", out, start_ns, peer=other)
    calls.note(group, "Recv", back, start_ns, peer=other)


def make_groups():
    """The default group, two halves, and a group of three that overlaps both: those of which all members exist."""
    groups = []
    for name, ranks in (("world", None), ("half", [0, 1]), ("half2", [2, 3]), ("three", [0, 2, 3])):
        if ranks and dist.get_world_size() <= max(ranks):
            continue
        group = dist.group.WORLD if ranks is None else dist.new_group(ranks)
        if ranks is None or dist.get_rank() in ranks:
            groups.append(Group(name, ranks or list(range(dist.get_world_size())), group))
    return groups


def write(name, value):
    path = os.environ[name].replace("%r", str(dist.get_rank()))
    with open(path + ".part", "w") as file:
        json.dump(value, file)
    os.rename(path + ".part", path)


def wait_for(path):
    while not os.path.exists(path):
        time.sleep(0.02)


def main():
    mode = sys.argv[1]
    torch.set_num_threads(1)
    os.environ.setdefault("USE_LIBUV", "0")  # the distributions build without
    dist.init_process_group("gloo", rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]))
    groups, calls = make_groups(), Calls()
    write("READY", {"pid": os.getpid()})
    if mode == "kinds":
        wait_for(os.environ["START"])
        for group in groups:
            every_kind(calls, group)
            in_flight(calls, group)
            pairs(calls, group)
    while mode == "run":
        for group in groups:
            tensor = torch.ones(16 + group.seq % 5)
            calls.call(group, "AllReduce", tensor, dist.all_reduce, tensor)
            calls.call(group, "Barrier", None, dist.barrier)
        time.sleep(0.005)
        stop = torch.tensor([int(os.path.exists(os.environ["STOP"]))])
        calls.call(groups[0], "AllReduce", stop, dist.all_reduce, stop)
        if stop.item():
            break
    if mode == "mismatch":
        world, tensor = groups[0], torch.ones(256)
        for _ in range(3):
            calls.call(world, "AllReduce", tensor, dist.all_reduce, tensor)
        if world.rank == 1:
            calls.call(world, "Broadcast", tensor, dist.broadcast, tensor, 1)
        else:
            calls.call(world, "AllReduce", tensor, dist.all_reduce, tensor)
    write("TRUTH", {"pid": os.getpid(), "torch": torch.__version__, "calls": calls.rows})
    wait_for(os.environ["STOP"])
    sys.stdout.flush()
    os._exit(0)  # threads of PyTorch 2.6 may abort a process that ends by itself


if __name__ == "__main__":
    main()
