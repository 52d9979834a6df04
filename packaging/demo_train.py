# SPDX-License-Identifier: Apache-2.0
"""A small, real training: a multilayer perceptron on random data, DDP over gloo, on the CPU.

It is what quickstart.sh watches where no training runs yet. Nothing here knows of ranktrace.
"""
import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 20
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())

    data = TensorDataset(torch.randn(4096, 256), torch.randint(0, 10, (4096,)))
    loader = DataLoader(data, batch_size=64, sampler=DistributedSampler(data))
    model = DistributedDataParallel(
        nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loss_of = nn.CrossEntropyLoss()

    end = time.monotonic() + seconds
    steps = 0
    more = torch.ones(1)
    while more.item():
        for batch, label in loader:
            optimizer.zero_grad()
            loss = loss_of(model(batch), label)
            loss.backward()
            optimizer.step()
            steps += 1
        # Both ranks must agree on when to stop.
        more = torch.tensor([1.0 if time.monotonic() < end else 0.0])
        dist.all_reduce(more, op=dist.ReduceOp.MIN)
        if dist.get_rank() == 0:
            path = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"ranktrace-demo-{os.getpid()}.pt")
            torch.save(model.state_dict(), path)
            os.unlink(path)
    dist.barrier()
    dist.destroy_process_group()
    # One write: ranks print at once.
    print(f"rank {os.environ['RANK']}: {steps} steps, loss {loss.item():.3f}\n", end="", flush=True)


if __name__ == "__main__":
    main()
