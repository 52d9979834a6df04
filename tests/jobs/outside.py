# SPDX-License-Identifier: Apache-2.0
"""Faults that hit a rank from outside: other processes on its CPUs or its card, limits of its control group, a stop."""
import itertools
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import threading
import time

TICK_S = os.sysconf("SC_CLK_TCK")
PERIOD_US = 100000       # of a CPU limit, the kernel's default
QUOTA_LEAST_US = 2000    # the kernel refuses less than 1 ms
BUSY_LOOP = """
import sys, time
duty, period = float(sys.argv[1]), 0.02
while True:
    end = time.perf_counter() + duty * period
    while time.perf_counter() < end:
        pass
    if duty < 1:
        time.sleep((1 - duty) * period)
"""
CARD_HOG = """
import sys, time, torch
a = torch.randn(6144, 6144, device="cuda:" + sys.argv[1], dtype=torch.bfloat16)
busy = float(sys.argv[2])
while True:
    begin = time.perf_counter()
    for _ in range(4):
        a @ a
    torch.cuda.synchronize()
    time.sleep((time.perf_counter() - begin) * (1 - busy) / busy)
"""


def tree(pid):
    """The process and its children: workers of a data loader."""
    pids = [pid]
    for task in pathlib.Path("/proc/%d/task" % pid).glob("*/children"):
        try:
            for child in task.read_text().split():
                pids += tree(int(child))
        except OSError:
            pass
    return pids


def cpu_s(pid):
    total = 0.0
    for each in tree(pid):
        try:
            words = pathlib.Path("/proc/%d/stat" % each).read_text().rsplit(")", 1)[1].split()
            total += (int(words[11]) + int(words[12])) / TICK_S
        except OSError:
            pass
    return total


class Groups:
    """A control group of its own for each rank, version 2 where it has the controller, else version 1."""

    def __init__(self, name):
        self.made = []
        self.v1 = pathlib.Path("/sys/fs/cgroup/cpu/cgroup.procs").exists()
        self.base = pathlib.Path("/sys/fs/cgroup/cpu" if self.v1 else "/sys/fs/cgroup") / name
        self.base.mkdir()
        self.made.append(self.base)
        if not self.v1:
            try:
                for path in (self.base.parent, self.base):
                    (path / "cgroup.subtree_control").write_text("+cpu +memory")
            except OSError:
                self.remove()
                raise

    @staticmethod
    def possible():
        """The limits that a group made here has."""
        groups = None
        try:
            groups = Groups("rtj%dx" % os.getpid())
            path = groups.make("x")
            return {kind for kind, name in (("cpu_max", "cpu.cfs_quota_us"), ("cpu_max", "cpu.max"), ("memory", "memory.high")) if (path / name).exists()}
        except OSError:
            return set()
        finally:
            if groups:
                groups.remove()

    def make(self, name):
        path = self.base / name
        path.mkdir()
        self.made.append(path)
        return path

    def add(self, name, pid):
        path = self.make(name)
        for each in tree(pid):
            (path / "cgroup.procs").write_text(str(each))
        return path

    def limit(self, path, quota_us):
        if self.v1:
            (path / "cpu.cfs_quota_us").write_text(str(quota_us or -1))
        else:
            (path / "cpu.max").write_text("%s %d" % (quota_us or "max", PERIOD_US))

    def memory(self, path, limit):
        (path / "memory.high").write_text(str(limit or "max"))

    def memory_now(self, path):
        return int((path / "memory.current").read_text())

    def remove(self):
        for path in reversed(self.made):
            for _ in range(50):
                try:
                    path.rmdir()
                    break
                except OSError:
                    time.sleep(0.1)


def able(device):
    """Which kinds of faults this machine can have from outside, and why not the others."""
    kinds, missing = {"stop"}, {}
    if os.geteuid():
        missing.update(cpu_max="not root", memory="not root", network="not root")
    else:
        groups = Groups.possible()
        for kind, text in (("cpu_max", "no control group with a CPU limit can be made"), ("memory", "no control group with memory.high can be made")):
            if kind in groups:
                kinds.add(kind)
            else:
                missing[kind] = text
        if not shutil.which("tc") or not shutil.which("ip"):
            missing["network"] = "no tc"
        elif device == "cuda":
            missing["network"] = "cards talk over NVLink or PCIe"
        elif not Network.ways():
            missing["network"] = "the kernel has neither netem nor tbf"
        else:
            kinds.add("network")
    if (os.cpu_count() or 1) >= 2:
        kinds |= {"preempt", "threads"}
    else:
        missing.update(preempt="one CPU", threads="one CPU")
    if device == "cuda":
        kinds |= {"card", "item", "empty_cache"}
    else:
        missing.update(card="no card", item="no card", empty_cache="no card")
    return kinds, missing


class Network:
    """A network namespace per rank, all on one bridge in another; one rank's interface can be made slow."""

    names = itertools.count()

    def __init__(self, ranks):
        self.name, self.made = "rtj%d.%d" % (os.getpid(), next(self.names)), []
        self.make("b")
        self.inside("b", "ip", "link", "add", "br0", "type", "bridge")
        self.inside("b", "ip", "link", "set", "br0", "up")
        for r in range(ranks):
            self.make("r%d" % r)
            sh("ip", "link", "add", "v%d" % r, "netns", self.name + "b", "type", "veth", "peer", "name", "eth0", "netns", "%sr%d" % (self.name, r))
            self.inside("b", "ip", "link", "set", "v%d" % r, "master", "br0", "up")
            self.inside("r%d" % r, "ip", "addr", "add", "10.77.0.%d/24" % (r + 1), "dev", "eth0")
            for link in ("eth0", "lo"):
                self.inside("r%d" % r, "ip", "link", "set", link, "up")

    def make(self, which):
        sh("ip", "netns", "add", self.name + which)
        self.made.append(self.name + which)

    def inside(self, which, *words):
        return sh("ip", "netns", "exec", self.name + which, *words)

    def prefix(self, rank):
        return ["ip", "netns", "exec", "%sr%d" % (self.name, rank)]

    def sent(self, rank):
        """Bytes that the rank has sent."""
        return int(self.inside("r%d" % rank, "cat", "/sys/class/net/eth0/statistics/tx_bytes").stdout)

    def slow(self, rank, delay_ms, bytes_s):
        """A delay where the kernel has netem, else a limit of the rate."""
        how = ["netem", "delay", "%gms" % delay_ms] if "netem" in self.ways() else \
            ["tbf", "rate", "%dbps" % max(1000, bytes_s), "burst", "16kb", "latency", "500ms"]
        self.inside("r%d" % rank, "tc", "qdisc", "replace", "dev", "eth0", "root", *how)

    def heal(self, rank):
        self.inside("r%d" % rank, "tc", "qdisc", "del", "dev", "eth0", "root")

    def remove(self):
        for name in reversed(self.made):
            subprocess.run(["ip", "netns", "del", name], check=False)

    found = None

    @classmethod
    def ways(cls):
        """Which of netem and tbf the kernel has, tried in a namespace of its own."""
        if cls.found is None:
            cls.found, name = [], "rtj%dx" % (os.getpid() % 100000)
            if subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False).returncode == 0:
                for way in ("netem delay 1ms", "tbf rate 1mbit burst 16kb latency 100ms"):
                    done = subprocess.run(["ip", "netns", "exec", name, "tc", "qdisc", "replace", "dev", "lo", "root", *way.split()],
                                          capture_output=True, check=False)
                    if done.returncode == 0:
                        cls.found.append(way.split()[0])
                subprocess.run(["ip", "netns", "del", name], check=False)
        return cls.found


def sh(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True)


class Outside:
    """Begins and ends one fault from outside on one rank."""

    def __init__(self, fault, pid, cpus, card, groups, group, network, python):
        self.fault, self.pid, self.cpus, self.card = fault, pid, cpus, card
        self.groups, self.group, self.network, self.python = groups, group, network, python
        self.preemptors = []

    def prepare(self):
        """What takes its time, before the fault begins: what the rank uses of the CPU or the network, over two seconds."""
        if self.fault["kind"] == "cpu_max":
            before, begin = cpu_s(self.pid), time.monotonic()
            time.sleep(2)
            self.use = (cpu_s(self.pid) - before) / (time.monotonic() - begin)
        elif self.fault["kind"] == "network":
            before, begin = self.network.sent(self.fault["rank"]), time.monotonic()
            time.sleep(2)
            self.use = (self.network.sent(self.fault["rank"]) - before) / (time.monotonic() - begin)

    def begin(self):
        fault = self.fault
        if fault["kind"] == "preempt":
            for cpu in self.cpus:
                for _ in range(fault["preemptors"]):
                    preempt = subprocess.Popen([sys.executable, "-c", BUSY_LOOP, str(fault["duty"])])
                    os.sched_setaffinity(preempt.pid, [cpu])
                    self.preemptors.append(preempt)
        elif fault["kind"] == "card":
            self.preemptors.append(subprocess.Popen([*self.python, "-c", CARD_HOG, str(self.card), str(min(1.0, fault["percent"] / 100))]))
        elif fault["kind"] == "cpu_max":
            quota = int(self.use / (1 + fault["percent"] / 100) * PERIOD_US)
            self.groups.limit(self.group, max(QUOTA_LEAST_US, quota))
        elif fault["kind"] == "memory":
            self.groups.memory(self.group, int(self.groups.memory_now(self.group) * 0.8))
        elif fault["kind"] == "network":
            self.network.slow(fault["rank"], fault["delay_ms"], self.use / (fault["percent"] / 100))
        elif fault["kind"] == "stop":
            os.kill(self.pid, signal.SIGSTOP)

    def end(self):
        kind = self.fault["kind"]
        for preempt in self.preemptors:
            preempt.kill()
            preempt.wait()
        self.preemptors = []
        if kind == "cpu_max":
            self.groups.limit(self.group, 0)
        elif kind == "memory":
            self.groups.memory(self.group, 0)
        elif kind == "network":
            self.network.heal(self.fault["rank"])
        elif kind == "stop":
            os.kill(self.pid, signal.SIGCONT)


class Noise(threading.Thread):
    """A shared machine: processes that compute for a moment, on any CPU, again and again."""

    def __init__(self, seed):
        super().__init__(daemon=True)
        self.rng, self.over, self.bursts = random.Random(seed), threading.Event(), 0

    def run(self):
        while not self.over.wait(self.rng.uniform(0.5, 6)):
            preemptors = [subprocess.Popen(["nice", "-n", str(nice), sys.executable, "-c", BUSY_LOOP, str(duty)]) for duty, nice in
                    ((self.rng.uniform(0.3, 1), self.rng.randrange(15))
                     for _ in range(self.rng.randint(1, 2)))]
            self.bursts += 1
            self.over.wait(self.rng.uniform(0.05, 1.5))
            for preempt in preemptors:
                preempt.kill()
                preempt.wait()

    def stop(self):
        self.over.set()
        self.join()
