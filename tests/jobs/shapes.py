# SPDX-License-Identifier: Apache-2.0
"""Shapes of training jobs, by the ordinary API of PyTorch: model, data, and what one step of each shape does."""
import contextlib
import io
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, Dataset

CLASSES = 10
LENGTHS = 8, 16, 32, 48  # tokens of a sample, with variable lengths
MICRO_BATCHES = 4
REPEATS_MOST = 120       # of the layers on a card: their activations are kept in its memory


class Wait(torch.autograd.Function):
    """On a machine without cards: a sleep of the host in the place of a device that computes."""

    @staticmethod
    def forward(ctx, x, forward_s, backward_s):
        ctx.backward_s = backward_s
        time.sleep(forward_s)
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        time.sleep(ctx.backward_s)
        return grad, None, None


class Place(torch.autograd.Function):
    """Calls the faults of this place."""

    @staticmethod
    def forward(ctx, x, faults):
        ctx.faults = faults
        faults.at("forward")
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        ctx.faults.at("backward")
        return grad, None


class Sum(torch.autograd.Function):
    """All-reduce in forward, nothing in backward: the end of a tensor-parallel pair of layers."""

    @staticmethod
    def forward(ctx, x):
        x = x.contiguous().clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad


class Copy(torch.autograd.Function):
    """Nothing in forward, all-reduce in backward: the begin of a tensor-parallel pair of layers."""

    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        grad = grad.contiguous().clone()
        dist.all_reduce(grad)
        return grad


class Body(nn.Module):
    """Layers with a wait in the place of the device between them, and the places of faults."""

    def __init__(self, options, faults, width_in=None, parallel=False, last=CLASSES):
        super().__init__()
        width = options["width"]
        self.faults, self.parallel = faults, parallel
        self.forward_s, self.backward_s = (options["forward_ms"] / 2e3, options["backward_ms"] / 2e3)
        self.on_card, self.repeats = options["device"] == "cuda", 1
        self.first = nn.Linear(width_in or width, width)
        self.middle = nn.ModuleList([nn.Linear(width, width) for _ in range(options["layers"])])
        self.last = nn.Linear(width, last)

    def wait(self, x):
        return x if self.on_card or self.forward_s + self.backward_s == 0 else Wait.apply(x, self.forward_s, self.backward_s)

    def forward(self, x):
        x = self.wait(torch.relu(self.first(x)))
        for _ in range(self.repeats):
            for layer in self.middle:
                if self.parallel:
                    x = Sum.apply(layer(Copy.apply(x)))
                    x = torch.relu(x / dist.get_world_size())
                else:
                    x = torch.relu(layer(x))
        return self.last(self.wait(Place.apply(x, self.faults)))

    def sample(self, batch, device):
        return torch.randn(batch, self.first.in_features, device=device)


class Attention(nn.Module):
    """A small transformer over samples of different length; its waits are as long as the sample."""

    def __init__(self, options, faults):
        super().__init__()
        self.faults, self.options, self.repeats = faults, options, 1
        width = options["width"]
        self.embed = nn.Embedding(256, width)
        self.block = nn.TransformerEncoderLayer(width, 4, width * 2, dropout=0.0, batch_first=True)
        self.last = nn.Linear(width, CLASSES)

    def forward(self, x):
        share = x.shape[1] / max(LENGTHS)
        x = self.embed(x)
        if self.options["device"] != "cuda":
            x = Wait.apply(x, self.options["forward_ms"] / 1e3 * share, self.options["backward_ms"] / 1e3 * share)
        for _ in range(self.repeats):
            x = self.block(x)
        return self.last(Place.apply(x, self.faults).mean(1))

    def sample(self, batch, device):
        return torch.randint(0, 256, (batch, max(LENGTHS)), device=device)


class Samples(Dataset):
    """One sample is a batch. Reads take load_ms, and what a fault adds."""

    def __init__(self, options, faults, shared=None):
        self.options, self.faults, self.shared = options, faults, shared
        # On a card a sample is large: drawing it would take longer than the step.
        self.always = torch.randn(options["batch"], options["width"]) if options["device"] == "cuda" and options["shape"] != "varlen" else None

    def __len__(self):
        return 10**9

    def __getitem__(self, index):
        options = self.options
        if options["load_ms"]:
            time.sleep(options["load_ms"] / 1e3)
        self.faults.loader(self.shared)
        generator = torch.Generator().manual_seed(options["rank"] * 1000003 + index)
        y = torch.randint(0, CLASSES, (options["batch"],), generator=generator)
        if options["shape"] == "varlen":
            length = LENGTHS[int(torch.randint(0, len(LENGTHS), (1,), generator=generator))]
            return torch.randint(0, 256, (options["batch"], length), generator=generator), y
        return (torch.randn(options["batch"], options["width"], generator=generator) if self.always is None else self.always), y


def forever(loader):
    while True:
        yield from loader


def optimizer_of(parameters, faults, device):
    """An optimizer of our own, as users write them: AdamW, and what a fault adds to it."""

    class Optimizer(torch.optim.AdamW):
        def step(self, closure=None):
            faults.at("optimizer")
            return super().step(closure)

    return Optimizer(parameters, lr=1e-4)


class SlowFile(io.FileIO):
    """A file whose first write asks the faults of checkpoints."""

    def __init__(self, path, faults):
        super().__init__(path, "wb")
        self.faults = faults

    def write(self, data):
        if self.faults:
            self.faults.at("checkpoint")
            self.faults = None
        return super().write(data)


def fill_card(body, options, device):
    """Repeats the layers until forward and backward take a card step_ms. All ranks repeat as often as rank 0."""
    if device.type != "cuda" or not options.get("step_ms"):
        return body
    body.to(device)
    x = body.sample(options["batch"] // (MICRO_BATCHES if options["shape"] == "pipeline" else 1), device)
    for _ in range(2):  # the first time with the card's libraries to load
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(5):
            body(x).sum().backward()
        torch.cuda.synchronize()
        each_ms = (time.perf_counter() - begin) / 5 * 1e3
    repeats = torch.tensor([min(REPEATS_MOST, max(1, round(options["step_ms"] / each_ms)))], device=device)
    dist.broadcast(repeats, 0)
    body.repeats = int(repeats.item())
    body.zero_grad(set_to_none=True)
    return body


class Job:
    """What all shapes share: DDP over a Body. A shape overrides make() and step()."""

    micro = {}  # how often a step comes to a place of faults, where not once
    pinned = True  # copies to the card go on beside the host

    def __init__(self, options, faults, rank, world, device):
        self.options, self.faults, self.rank, self.world, self.device = options, faults, rank, world, device
        self.steps, self.klass, self.length = 0, "step", 0
        faults.micro = self.micro
        self.loss = nn.CrossEntropyLoss()
        self.make()
        shared = faults.shared if options["workers"] else None
        data = Samples(options, faults, shared)
        self.loader = DataLoader(data, batch_size=None, num_workers=options["workers"], pin_memory=self.pinned and device.type == "cuda")
        self.batches = forever(self.loader)

    def ddp(self, module):
        ids = [self.device.index] if self.device.type == "cuda" else None
        return nn.parallel.DistributedDataParallel(module.to(self.device), device_ids=ids)

    def make(self):
        self.model = self.ddp(fill_card(Body(self.options, self.faults), self.options, self.device))
        self.optimizer = optimizer_of(self.model.parameters(), self.faults, self.device)

    def batch(self):
        x, y = next(self.batches)
        return x.to(self.device, non_blocking=self.pinned), y.to(self.device, non_blocking=self.pinned)

    def loop(self, clock):
        while clock.begin():
            self.run()
            clock.end(self.klass, self.length)

    def run(self):
        """One step, and what comes after it every n steps."""
        self.klass = "step"
        self.faults.at("outside")
        self.step()
        self.steps += 1
        self.now_and_then()

    def now_and_then(self):
        every = self.options.get("checkpoint_every")
        if every and self.steps % every == 0:
            self.checkpoint()
            self.klass = "checkpoint"
        every = self.options.get("eval_every")
        if every and self.steps % every == 0:
            self.evaluate()
            self.klass += "+eval"

    def step(self):
        x, y = self.batch()
        self.optimizer.zero_grad()
        loss = self.loss(self.model(x), y)
        self.faults.at("between")
        loss.backward()
        self.optimizer.step()
        self.read(loss)

    def read(self, loss):
        """Every tenth step the loss is printed, as users do."""
        if self.steps % 10 == 0:
            loss.item()

    def checkpoint(self):
        if self.options.get("checkpoint_ranks") == "first" and self.rank:
            return
        path = os.path.join(self.options["folder"], "checkpoint.%d.%d.pt" % (os.getpid(), self.rank))
        module = self.model.module if hasattr(self.model, "module") else self.model
        state = {"model": module.state_dict(), "step": self.steps}
        if self.device.type != "cuda":  # there it is two times the model, every few seconds
            state["optimizer"] = self.optimizer.state_dict()
        with SlowFile(path, self.faults) as file:
            torch.save(state, file)

    def evaluate(self):
        self.model.eval()
        module = self.model.module if hasattr(self.model, "module") else self.model
        with torch.no_grad():
            for _ in range(5):
                x, _ = self.batch()
                module(x)
        self.model.train()


class Accumulation(Job):
    """Four micro-batches a step; gradients are exchanged with the last."""

    micro = dict(loader=MICRO_BATCHES, forward=MICRO_BATCHES, backward=MICRO_BATCHES)

    def step(self):
        self.optimizer.zero_grad()
        for i in range(MICRO_BATCHES):
            x, y = self.batch()
            with contextlib.nullcontext() if i == MICRO_BATCHES - 1 else self.model.no_sync():
                loss = self.loss(self.model(x), y) / MICRO_BATCHES
                if i == 0:
                    self.faults.at("between")
                loss.backward()
        self.optimizer.step()
        self.read(loss)


class Variable(Job):
    def make(self):
        self.model = self.ddp(fill_card(Attention(self.options, self.faults), self.options, self.device))
        self.optimizer = optimizer_of(self.model.parameters(), self.faults, self.device)

    def batch(self):
        x, y = next(self.batches)
        self.length = x.shape[1]
        return x.to(self.device, non_blocking=True), y.to(self.device, non_blocking=True)


class Unpinned(Job):
    """Batches in memory that is not pinned: a copy waits for the card, outside of all stages, as in scripts that leave DataLoader's defaults."""

    pinned = False


class Closure(Job):
    """As Lightning does it: zero_grad, forward and backward run inside optimizer.step()."""

    def step(self):
        x, y = self.batch()

        def closure():
            self.optimizer.zero_grad()
            loss = self.loss(self.model(x), y)
            self.faults.at("between")
            loss.backward()
            return loss

        self.read(self.optimizer.step(closure))


class Compiled(Job):
    """Its middle layers are compiled; faults are outside the compiled code."""

    def make(self):
        body = Body(self.options, self.faults)
        middle = nn.Sequential(*[part for layer in body.middle for part in (layer, nn.ReLU())])
        body.middle = nn.ModuleList([torch.compile(middle, backend=self.options["backend"])])
        self.model = self.ddp(fill_card(body, self.options, self.device))
        self.optimizer = optimizer_of(self.model.parameters(), self.faults, self.device)


class Sharded(Job):
    """FSDP where PyTorch has it for this device; else the same by hand: each layer's parameters are gathered before they are
    used, its gradients are summed to their owner in backward."""

    def make(self):
        body = fill_card(Body(self.options, self.faults), self.options, self.device).to(self.device)
        kind = self.options.get("fsdp")  # 1: FullyShardedDataParallel, 2: fully_shard, else by hand
        self.by_hand = not kind
        if kind == 1:
            from torch.distributed.fsdp import FullyShardedDataParallel
            self.model = FullyShardedDataParallel(body, device_id=self.device)
            owned = list(self.model.parameters())
        elif kind == 2:
            from torch.distributed.device_mesh import init_device_mesh
            from torch.distributed.fsdp import fully_shard
            mesh = init_device_mesh(self.device.type, (self.world,))
            for layer in body.middle:
                fully_shard(layer, mesh=mesh)
            self.model = fully_shard(body, mesh=mesh)
            owned = list(self.model.parameters())
        else:
            self.model = body
            everything = list(body.parameters())
            self.owner = {p: i % self.world for i, p in enumerate(everything)}
            for p in everything:
                p.register_hook(lambda grad, p=p: self.reduce(grad, p))
            owned = [p for p in everything if self.owner[p] == self.rank]
        self.optimizer = optimizer_of(owned, self.faults, self.device)

    def reduce(self, grad, p):
        grad = grad.contiguous()
        dist.reduce(grad, self.owner[p])
        return grad / self.world

    def step(self):
        x, y = self.batch()
        if self.by_hand:
            self.model.zero_grad()
            with torch.no_grad():
                for p, owner in self.owner.items():
                    dist.broadcast(p.data, owner)
        self.optimizer.zero_grad()
        loss = self.loss(self.model(x), y)
        self.faults.at("between")
        loss.backward()
        self.optimizer.step()
        self.read(loss)


class Tensor(Job):
    """Tensor parallel: all ranks work on one batch; partial sums are added within forward and backward."""

    def make(self):
        self.model = fill_card(Body(self.options, self.faults, parallel=True), self.options, self.device).to(self.device)
        self.optimizer = optimizer_of(self.model.parameters(), self.faults, self.device)


class Pipeline(Job):
    """One stage a rank, micro-batches one after the other: all forward, then all backward."""

    micro = dict(forward=MICRO_BATCHES, backward=MICRO_BATCHES)

    def make(self):
        width = self.options["width"]
        last = CLASSES if self.rank == self.world - 1 else width
        self.model = fill_card(Body(self.options, self.faults, last=last), self.options, self.device).to(self.device)
        self.optimizer = optimizer_of(self.model.parameters(), self.faults, self.device)

    def step(self):
        x, y = self.batch()
        self.optimizer.zero_grad()
        ins, outs = [], []
        for part in x.chunk(MICRO_BATCHES):
            if self.rank:
                part = torch.empty_like(part)
                dist.recv(part, self.rank - 1)
                part.requires_grad_()
            out = self.model(part)
            if self.rank < self.world - 1:
                dist.send(out.detach(), self.rank + 1)
            ins.append(part)
            outs.append(out)
        self.faults.at("between")
        loss = None
        for part, out, labels in zip(ins, outs, y.chunk(MICRO_BATCHES)):
            if self.rank == self.world - 1:
                loss = self.loss(out, labels)
                loss.backward()
            else:
                grad = torch.empty_like(out)
                dist.recv(grad, self.rank + 1)
                out.backward(grad)
            if self.rank:
                dist.send(part.grad, self.rank - 1)
        self.optimizer.step()


JOBS = {"ddp": Job, "workers": Job, "tiny": Job, "second": Job, "eval": Job, "twojobs": Job, "noisy": Job, "accum": Accumulation,
        "varlen": Variable, "closure": Closure, "unpinned": Unpinned, "compile": Compiled, "sharded": Sharded, "tensor": Tensor, "pipeline": Pipeline}
