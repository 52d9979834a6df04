# SPDX-License-Identifier: Apache-2.0
"""Faults that a rank applies to itself: what each does, where in the step, and how long it took there.

A plan is a list of {"id", "kind", "rank" (a number or "all"), "place", "from_s", "until_s", "percent"}. Times count from the
job's start; percent is the growth that is wanted of the mean clean step.
"""
import gc
import json
import mmap
import os
import statistics
import tempfile
import threading
import time

import torch

# place: where rank.py calls Faults.at(); "loader" is called by the dataset.
PLACES = ("outside", "between", "forward", "backward", "optimizer", "loader", "checkpoint")
SETTLE_S = 1.0           # after a fault, until the steps are clean again
CLEAN_STEPS = 200        # newest clean steps, which define the length of a step
BALLAST = 150000         # objects that a garbage collection has to visit
THREADS_MOST = 64
BLOCK = 1 << 20          # bytes written at a time


def now_ns():
    return time.clock_gettime_ns(time.CLOCK_REALTIME)


class Faults:
    """The faults of one rank. shared_loader_s, where given, holds how long the workers of a data loader take."""

    def __init__(self, plan, rank, device, folder, shared_loader_s=None, workers=0):
        self.plan = plan
        self.own = [f for f in plan if f["rank"] in (rank, "all")]
        self.device, self.folder, self.shared, self.workers = device, folder, shared_loader_s, workers
        self.start_ns = None
        self.active, self.took = [], {}
        self.clean_s = []
        self.checkpoint_every, self.micro = 1, {}
        self.ballast, self.threads, self.stop_threads = [], [], threading.Event()
        self.square = None
        self.pending = sorted(self.own, key=lambda f: f["from_s"])

    def begin_step(self):
        """Which faults act in the step that begins now."""
        self.took = {}
        if not self.own or self.start_ns is None:
            return
        now_s = (now_ns() - self.start_ns) / 1e9
        active = [f for f in self.own if f["from_s"] <= now_s < f["until_s"]]
        if active != self.active:
            self.change(active)
        if "deadlock" in (f["kind"] for f in active):
            lock = threading.Lock()
            lock.acquire()
            lock.acquire()
        if "exit" in (f["kind"] for f in active):
            os._exit(3)

    def is_quiet(self):
        """Whether no rank has a fault: others make this one's steps longer, and faults of all ranks are alike."""
        now_s = (now_ns() - self.start_ns) / 1e9 if self.start_ns else 0
        return not any(f["from_s"] <= now_s < f.get("until_s", f["from_s"]) + SETTLE_S for f in self.plan)

    def end_step(self, seconds, ordinary):
        if ordinary and not self.active and self.is_quiet() and (not self.shared or not self.shared.value):
            self.clean_s.append(seconds)
            del self.clean_s[:-CLEAN_STEPS]

    def step_s(self):
        if not self.clean_s:
            return 0.01
        # The host of a card runs ahead of it, and waits now and then: most of its steps are short.
        return statistics.fmean(self.clean_s) if self.device.type == "cuda" else statistics.median(self.clean_s)

    def change(self, active):
        self.active = active
        kinds = [f["kind"] for f in active]
        for f in active:
            f.setdefault("seconds", f["percent"] / 100 * self.step_s() * self.calls(f))
        if "gc" in kinds and not self.ballast:
            gc.disable()
            self.ballast = [[i] for i in range(BALLAST)]
            gc.enable()
        elif "gc" not in kinds:
            self.ballast = []
        if self.shared is not None:
            loads = [f for f in active if f["place"] == "loader"]
            # Each of the workers makes one batch while the job makes as many steps as there are workers.
            self.shared.value = self.workers * (self.step_s() + sum(f["seconds"] for f in loads)) if loads else 0.0
        wanted = min(THREADS_MOST, sum(f["threads"] for f in active if f["kind"] == "threads") * len(os.sched_getaffinity(0)))
        if wanted and not self.threads:
            self.stop_threads.clear()
            self.threads = [threading.Thread(target=self.burn, daemon=True) for _ in range(wanted)]
            for thread in self.threads:
                thread.start()
        elif not wanted and self.threads:
            self.stop_threads.set()
            self.threads = []

    def calls(self, f):
        """One over how often a step comes to the fault's place."""
        if f["kind"] == "slow_checkpoint":
            return self.checkpoint_every
        return 1 / self.micro.get(f["place"], 1)

    def burn(self):
        x = torch.randn(160, 160)
        while not self.stop_threads.is_set():
            torch.mm(x, x)

    def at(self, place):
        for f in self.active:
            if f["place"] == place:
                begin = time.perf_counter()
                getattr(self, "do_" + f["kind"], lambda seconds: None)(f["seconds"])
                took = time.perf_counter() - begin
                if f["kind"] == "matmul" and self.device.type == "cuda":  # queued
                    took = max(took, f["seconds"])
                self.took[f["id"]] = self.took.get(f["id"], 0.0) + took

    def loader(self, seconds_shared=None):
        """Called by the dataset for each batch, in the rank or in a worker."""
        if seconds_shared is not None:
            if seconds_shared.value:
                time.sleep(seconds_shared.value)
        else:
            self.at("loader")

    # What each kind does for that many seconds of a step.
    def do_python(self, seconds):
        end, n = time.perf_counter() + seconds, 0
        while time.perf_counter() < end:
            n += 1

    def do_sleep(self, seconds):
        time.sleep(seconds)

    do_loader_sleep = do_sleep

    def write(self, seconds, sync):
        end = time.perf_counter() + seconds
        data = b"\0" * BLOCK
        with tempfile.TemporaryFile(dir=self.folder) as file:
            while time.perf_counter() < end:
                file.write(data)
                if sync:
                    file.flush()
                    os.fsync(file.fileno())
                if file.tell() > 64 * BLOCK:
                    file.seek(0)

    def do_fsync(self, seconds):
        self.write(seconds, True)

    def do_loader_io(self, seconds):
        """Direct reads of 64 KiB, as from a slow disk: what the cache does not have."""
        path = os.path.join(self.folder, "samples.bin")
        if not os.path.exists(path):
            part = "%s.%d" % (path, os.getpid())
            with open(part, "wb") as file:
                file.write(os.urandom(16 * BLOCK))
                os.fsync(file.fileno())
            os.rename(part, path)
        try:
            fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
        except OSError:  # a file system in memory
            fd = os.open(path, os.O_RDONLY)
        buffer, end, offset = mmap.mmap(-1, 65536), time.perf_counter() + seconds, 0
        try:
            while time.perf_counter() < end:
                os.preadv(fd, [buffer], offset)
                offset = (offset + 65536) % (16 * BLOCK)
        finally:
            os.close(fd)

    def do_gc(self, seconds):
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            gc.collect()

    def do_slow_checkpoint(self, seconds):
        time.sleep(seconds)

    def do_matmul(self, seconds):
        if self.device.type == "cuda":
            self.card_products(seconds)
            return
        if self.square is None:
            self.square = torch.randn(48, 48)
        end = time.perf_counter() + seconds
        with torch.no_grad():
            while time.perf_counter() < end:
                torch.mm(self.square, self.square)

    def card_products(self, seconds):
        """As many products as take the card these seconds; they are queued, not waited for."""
        if self.square is None:
            self.square = torch.randn(4096, 4096, device=self.device, dtype=torch.bfloat16)
            torch.mm(self.square, self.square)
            torch.cuda.synchronize()
            begin = time.perf_counter()
            for _ in range(20):
                torch.mm(self.square, self.square)
            torch.cuda.synchronize()
            self.product_s = (time.perf_counter() - begin) / 20
        with torch.no_grad():
            for _ in range(max(1, round(seconds / self.product_s))):
                torch.mm(self.square, self.square)

    def do_item(self, seconds):
        """Reads a number back from the device, again and again."""
        value, end = torch.ones(1, device=self.device), time.perf_counter() + seconds
        while time.perf_counter() < end:
            for _ in range(20):
                (value * 2).item()

    def do_empty_cache(self, seconds):
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            blocks = [torch.empty(1 << 22, device=self.device) for _ in range(16)]
            del blocks
            torch.cuda.empty_cache()

    def do_threads(self, seconds):
        """Acts all the time, by its threads."""


class Clock:
    """Begin and end of each step by the rank's own clock, and when the job is over. A line of JSON per step, written at once: a rank
    may be killed."""

    def __init__(self, faults, folder, rank, head):
        self.faults, self.folder = faults, folder
        self.fd = os.open(os.path.join(folder, "rank.%d.jsonl" % rank), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)
        self.step, self.last = 0, None
        self.begin_ns = self.end_ns = now_ns()
        self.write(json.dumps(head))

    def write(self, text):
        os.write(self.fd, (text + "\n").encode())

    def number(self, name):
        try:
            with open(os.path.join(self.folder, name), encoding="ascii") as file:
                return int(file.read())
        except (OSError, ValueError):
            return None

    def wait(self):
        """Until the driver starts the job."""
        while self.number("start") is None:
            time.sleep(0.05)
        self.end_ns = now_ns()

    def begin(self):
        """False: the job is over."""
        if self.last is not None and self.step >= self.last:
            return False
        self.begin_ns = now_ns()
        if self.faults.start_ns is None:
            self.faults.start_ns = self.number("times")
        self.faults.begin_step()
        return True

    def end(self, klass, length=0):
        """klass: of steps that take equally long without a fault; length: of the step's sample."""
        before_ns, self.end_ns = self.end_ns, now_ns()
        self.faults.end_step((self.end_ns - before_ns) / 1e9, klass == "step")
        took = self.faults.took
        self.write('{"s":%d,"b":%d,"e":%d,"c":"%s"%s%s}' % (
            self.step, self.begin_ns, self.end_ns, klass, ',"l":%d' % length if length else "",
            ',"f":%s' % json.dumps({k: round(v, 6) for k, v in took.items()}) if took else ""))
        self.step += 1
        if self.last is None and os.path.exists(os.path.join(self.folder, "stop")):
            self.last = self.number("stop")
