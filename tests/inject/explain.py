#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes faults in a real rank, with L3 on, and asks `tracectl why`: what part of the excess is given to the right cause?

  explain.py BUILD [FAULT...]     FAULT: preempt quota reads cache faults sync disk swap interrupts slow loss, and finding, finding_loss; all of them without one

Prints a row for each fault. Exit 1: less than 90 % of its excess was given to its cause, what it has to name it did not, for that time or for its longest step, or something
else gained more than 2 % of it. Other work of the step is no part of a fault's excess as far as the clock of the rank's own thread,
which ranktrace does not read, says that it became longer: caches are cold after each wait. Needs root, a PyTorch in /usr/bin/python3, and control groups of version 1 for quota, cache, disk
and swap. finding: two ranks, of which one makes small reads: its finding has them; finding_loss: packets are lost, and the job's finding says that its operations take longer. For these, slow and loss, two ranks train together, each in a network namespace of the test's; swap uses a file of 256 MiB, on
which this machine swaps meanwhile. EXPLAIN_BATCH: samples of a step, 8 without. VERBOSE: the whole answers.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
SECONDS = 7
JOB = f"explain-{os.getpid()}"  # this machine may have other ranks
FINDINGS = ("finding", "finding_loss")
TOGETHER = ("slow", "loss", *FINDINGS)
# Classic BPF: a packet is dropped if a random number is in the first 10 % of its range.
LOSE = "4,32 0 0 4294963256,53 1 0 429496729,6 0 0 2,6 0 0 0"


def run(*words):
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


class Network:
    """Two namespaces, 0 and 1, joined by a link."""

    def __init__(self):
        self.names = [f"{JOB}-{i}" for i in range(2)]
        for name in self.names:
            run("ip", "netns", "add", name)
        run("ip", "-n", self.names[0], "link", "add", "veth0", "type", "veth", "peer", "name", "veth0", "netns", self.names[1])
        for i, name in enumerate(self.names):
            run("ip", "-n", name, "address", "add", f"10.77.0.{i + 1}/24", "dev", "veth0")
            for device in "lo", "veth0":
                run("ip", "-n", name, "link", "set", "dev", device, "up")

    def within(self, i):
        return ["ip", "netns", "exec", self.names[i]]

    def remove(self):
        for name in self.names:
            run("ip", "netns", "delete", name)


class Group:
    """A control group of version 1."""

    def __init__(self, controller, pid):
        self.path = pathlib.Path("/sys/fs/cgroup") / controller / f"explain-{pid}"
        self.path.mkdir()
        (self.path / "cgroup.procs").write_text(str(pid))

    def set(self, name, value):
        (self.path / name).write_text(str(value))

    def remove(self, pid):
        (self.path.parent / "cgroup.procs").write_text(str(pid))
        for _ in range(50):
            try:
                return self.path.rmdir()
            except OSError:
                time.sleep(0.1)


FLOOD = """
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.connect(("10.77.0.2", 9))
while True:
    try:
        s.send(b"x")
    except OSError:
        pass
"""


class Faults:
    """Each returns what undoes it."""

    def __init__(self, pid, cpu, control, network):
        self.pid, self.cpu, self.control, self.network = pid, cpu, control, network
        self.later = []  # what is undone once the steps after the fault are over

    def word(self, word, amount):
        self.control.write_text(f"{word} {amount}")
        return lambda: self.control.unlink()

    def preempt(self):
        loads = [subprocess.Popen(["taskset", "-c", str(self.cpu), "sh", "-c", "while :; do :; done"]) for _ in range(2)]
        return lambda: [load.kill() or load.wait() for load in loads]

    def quota(self):
        group = Group("cpu", self.pid)
        group.set("cpu.cfs_quota_us", 30000)
        return lambda: group.remove(self.pid)

    def reads(self):
        return self.word("reads", 30000)

    def cache(self):
        group = Group("memory", self.pid)
        group.set("memory.limit_in_bytes", 40 << 20)
        undo = self.word("cache", 2)
        return lambda: (undo(), group.remove(self.pid))

    def faults(self):
        return self.word("faults", 1000)

    def sync(self):
        return self.word("sync", 12)

    def disk(self):
        """Checkpoints in the steps before and after, too: what differs is the disk, of 3 MiB/s."""
        self.later.append(self.word("save", 1))
        time.sleep(10)
        device = os.stat(self.control.parent).st_dev
        group = Group("blkio", self.pid)
        group.set("blkio.throttle.write_bps_device", f"{os.major(device)}:{os.minor(device)} {3 << 20}")
        return lambda: group.remove(self.pid)

    def swap(self):
        file = self.control.parent / "swap"
        with open(file, "wb") as data:
            os.fchmod(data.fileno(), 0o600)
            os.posix_fallocate(data.fileno(), 0, 256 << 20)
        run("mkswap", file)
        run("swapon", file)
        group = Group("memory", self.pid)
        group.set("memory.limit_in_bytes", 40 << 20)
        undo = self.word("swap", 1000)
        return lambda: (undo(), group.remove(self.pid), run("swapoff", file))

    def interrupts(self):
        """Packets that another CPU sends: it receives them, too, in the steps before and after, and the rank's meanwhile."""
        network = Network()

        def receiver(mask):
            run(*network.within(1), "sh", "-c", f"echo {mask:x} >/sys/class/net/veth0/queues/rx-0/rps_cpus")

        flood = subprocess.Popen([*network.within(0), "taskset", "-c", str(min(os.sched_getaffinity(0))), sys.executable, "-c", FLOOD])
        self.later.append(lambda: (flood.kill(), flood.wait(), network.remove()))
        time.sleep(10)
        receiver(1 << self.cpu)
        return lambda: receiver(0)

    def slow(self):
        run("tc", "-n", self.network.names[1], "qdisc", "add", "dev", "veth0", "root", "tbf", "rate", "100mbit", "burst", "32k", "limit", "10m")
        return lambda: run("tc", "-n", self.network.names[1], "qdisc", "delete", "dev", "veth0", "root")

    def loss(self):
        for name in self.network.names:
            run("tc", "-n", name, "qdisc", "add", "dev", "veth0", "clsact")
            run("tc", "-n", name, "filter", "add", "dev", "veth0", "ingress", "bpf", "da", "bytecode", LOSE)
        return lambda: [run("tc", "-n", name, "qdisc", "delete", "dev", "veth0", "clsact") for name in self.network.names]


def grew(causes, *names):
    return any(c["what"] in names and c["chosen_ns"] > c["usual_ns"] + 1e5 for c in causes)


def gained_most(answer, mine):
    """Of the parts that are not the fault's, but for work and what other processes took."""
    gains = [(p["excess_ns"], f"{p['activity']} {p['what']}") for p in answer["parts"] if not mine(p) and p["what"] not in ("ready", "work")]
    gained, other = max([*gains, (0, "nothing")])
    return other, gained


def other_work_ns(answer, mine):
    """Work of the step itself, which own_growth_ns() has the clock of."""
    return sum(p["excess_ns"] for p in answer["parts"] if p["what"] == "work" and not mine(p) and p["activity"] not in ("dataloader", "checkpoint"))


def own_growth_ns(file, since_s, until_s):
    """By the clock of the rank's thread: CPU time of a step from since to until, less that of the second quarter, by length, of all others, which `why` calls usual."""
    steps = [tuple(map(int, line.split())) for line in file.read_text(encoding="ascii").splitlines()[1:-1]]
    chosen = [cpu for end, _, cpu in steps if since_s <= end / 1e9 < until_s]
    usual = sorted((wall, cpu) for end, wall, cpu in steps if not since_s <= end / 1e9 < until_s)
    usual = usual[len(usual) // 4 : len(usual) // 2]
    if not chosen:  # one step of more than the whole time
        return 0
    return sum(chosen) / len(chosen) - sum(cpu for _, cpu in usual) / len(usual)


def blocked_on(*names):
    return lambda answer: grew(answer["blocked_on"], *names)


def kernel_shows(*names):
    return lambda answer: grew(answer["kernel"], *names)


def in_dataloader(*kinds):
    return lambda p: p["activity"] == "dataloader" and p["what"] in kinds


# Parts of the excess that are the fault's, and what else has to be named.
EXPECTED = {
    "preempt": (lambda p: p["what"] == "ready", lambda a: any(o["name"] in ("sh", "dash", "bash") for o in a["cpu_taken_by"])),
    "quota": (lambda p: p["what"] in ("throttled", "ready"), lambda a: any(p["what"] == "throttled" and p["excess_ns"] > 0 for p in a["parts"])),
    "reads": (in_dataloader("work"), kernel_shows("reads of files")),
    "cache": (lambda p: p["activity"] == "dataloader", kernel_shows("reclaim for a memory limit")),
    # A fault counts whether its read takes time off the CPU or on it.
    "faults": (in_dataloader("blocked", "work"), lambda a: a["major_faults"] > a["major_faults_usual"] + 1),
    "sync": (in_dataloader("blocked", "work"), blocked_on("sync", "disk")),
    "disk": (lambda p: p["activity"] == "checkpoint", blocked_on("write", "disk")),
    # The limit takes what other activities allocate, too.
    "swap": (lambda p: p["what"] in ("blocked", "work"), lambda a: a["major_faults"] > a["major_faults_usual"] + 1 and a["swapped_bytes"] > 1 << 20 and kernel_shows("reclaim for a memory limit")(a)),
    # In the time of whatever runs, or by the kernel's thread for it, which preempts.
    "interrupts": (lambda p: p["what"] in ("work", "ready"), kernel_shows("softirqs")),
    # Both ranks wait for the network: in the operation, and for the end of it.
    "slow": (lambda p: p["what"] in ("waiting", "blocked"), blocked_on("poll", "futex")),
    "loss": (lambda p: p["what"] in ("waiting", "blocked"), lambda a: any(c["what"] == "TCP retransmits" and c["chosen"] > 2 * c["usual"] for c in a["counted"])),
}


class Session:
    """A daemon with L3 on and one rank, or two that train together."""

    def __init__(self, build, folder, together):
        self.build, self.folder, self.cpu = build, folder, max(os.sched_getaffinity(0))
        self.env = dict(os.environ, RANKTRACE_SOCKET=str(folder / "s"), RANKTRACE_LIBEXEC=str(build / "libexec/ranktrace"), RANKTRACE_STATE_DIR=str(folder / "state"))
        (folder / "ranktrace.conf").write_text(f"[daemon]\nprobes_base_dir = {HERE.parent.parent}/bpf/probes.d\n[findings]\nraise = no\nprofile = no\n[budget]\nrank_percent = 100\n")
        self.log = open(folder / "log", "w", encoding="utf-8")
        self.daemon = subprocess.Popen([build / "daemon/ranktraced", "--config", folder / "ranktrace.conf", "--state-dir", folder / "state", "--socket", folder / "s"], stderr=self.log)
        while not self.control("status"):
            time.sleep(0.1)
        self.network = Network() if together else None
        self.ranks = [self.start(i, 2 if together else 1) for i in range(2 if together else 1)]
        self.faults = Faults(self.ranks[0].pid, self.cpu, folder / "control", self.network)
        self.control("set", "L1=true")
        self.control("set", "L3=true")
        time.sleep(15)

    def start(self, i, size):
        within = self.network.within(i) if self.network else ["taskset", "-c", str(self.cpu)]
        env = dict(self.env, RANK=str(i), WORLD_SIZE=str(size), OMP_NUM_THREADS="1", TORCHELASTIC_RUN_ID=JOB, MASTER_ADDR="10.77.0.1", MASTER_PORT="29500", GLOO_SOCKET_IFNAME="veth0")
        return subprocess.Popen([*within, "/usr/bin/python3", HERE / "explain_rank.py", self.folder / ("control" if i == 0 else "none"), self.folder], env=env)

    def run(self, *arguments):
        return subprocess.run([self.build / "ctl/tracectl", *arguments], env=self.env, capture_output=True, text=True, check=False)

    def control(self, *arguments):
        return self.run(*arguments).stdout

    def ask(self, word):
        """Whether the fault is explained."""
        undo = getattr(self.faults, word)()
        time.sleep(1)
        since_s = round(time.time() + 0.5)
        since = time.strftime("%F %T", time.localtime(since_s))
        time.sleep(SECONDS)
        until_s = int(time.time())
        until = time.strftime("%F %T", time.localtime(until_s))
        undo()
        time.sleep(12)  # rows of samples are 10 s long
        while self.faults.later:
            self.faults.later.pop()()
        question = ["--job", JOB, "--rank", "0", "--since", since, "--until", until]
        text = self.control("why", *question)
        try:
            answer = json.loads(self.control("why", "--json", *question))
        except ValueError:
            print(f"{word}: no answer: {self.run('why', *question).stderr.strip()}", flush=True)
            return False
        mine, named = EXPECTED[word]
        given = sum(p["excess_ns"] for p in answer["parts"] if mine(p))
        # What this machine's other processes took is no part of the fault's.
        others = sum(p["excess_ns"] for p in answer["parts"] if p["what"] == "ready" and not mine(p))
        work = other_work_ns(answer, mine)
        own = max(0, min(work, own_growth_ns(self.folder / "own", since_s, until_s)))
        rest = answer["excess_ns"] - others - own
        share = given / rest if rest > 0 else 0
        other, gained = gained_most(answer, mine)
        step = self.of_one_step(since_s, until_s)
        step_named = bool(step) and named(step)
        good = step_named and share >= 0.9 and named(answer) and gained < 0.02 * rest and work - own < 0.02 * rest
        print(f"{word:10} step {answer['usual_ns'] / 1e6:7.2f} -> {answer['chosen_ns'] / 1e6:7.2f} ms, {others / 1e6:.2f} of it to others on its CPU, {own / 1e6:.2f} by its own clock to other work; "
              f"{100 * share:5.1f} % of the rest to its cause, {'named' if named(answer) else 'NOT NAMED'}, of one step {'named' if step_named else 'NOT NAMED'}; most of what else gained: {other} {100 * gained / rest:.1f} %; "
              f"more other work {100 * (work - own) / rest:.1f} %"
              f"{'' if good else '   FAILED'}", flush=True)
        if not good or os.environ.get("VERBOSE"):
            print(text, flush=True)
        return good

    def finding(self):
        """Whether the finding of a rank has what the kernel did for it."""
        undo = self.faults.reads()
        time.sleep(15)
        undo()
        time.sleep(10)
        findings = [f for f in json.loads(self.control("findings", "--all", "--json", "--job", JOB)) if f["kind"] == "slow_rank" and f["rank"] == 0]
        shown = [e for f in findings for e in f["evidence"] if e["name"] == "system" and e["detail"].startswith("reads of files")]
        print(f"finding    {shown[0]['value']:.0f} % of the time in {shown[0]['detail']}, its peer {shown[0]['peers']:.0f} %" if shown else f"finding    NOT NAMED   FAILED\n{findings}", flush=True)
        return bool(shown)

    def finding_loss(self):
        """Whether the finding of a job whose network loses packets says that operations take longer, and accuses no rank."""
        time.sleep(30)  # after other faults
        since_ns = time.time_ns()
        undo = self.faults.loss()
        time.sleep(20)
        undo()
        time.sleep(10)
        findings = [f for f in json.loads(self.control("findings", "--all", "--json", "--job", JOB)) if f["since_ns"] >= since_ns]
        good = [f for f in findings if f["cause"] in ("operations", "communication", "link")] and not any(f["kind"] == "slow_rank" for f in findings)
        print("finding_loss" + "".join(f"\n    {f['cause']}: {f['sentence']}" for f in findings) + ("" if good else "   FAILED"), flush=True)
        return bool(good)

    def of_one_step(self, since_s, until_s):
        """The answer for the longest step that began then."""
        rows = self.control("query", "--csv", f"SELECT step FROM steps WHERE rank = 0 AND start_ns BETWEEN {since_s}000000000 AND {until_s}000000000 ORDER BY duration_ns DESC LIMIT 1").split()
        try:
            return json.loads(self.control("why", "--json", "--job", JOB, "--rank", "0", "--step", rows[1]))
        except (IndexError, ValueError):
            return None

    def end(self):
        for rank in self.ranks:
            rank.kill()
            rank.wait()
        self.daemon.terminate()
        self.daemon.wait()
        self.log.close()
        if self.network:
            self.network.remove()


def main():
    wanted = sys.argv[2:] or [*EXPECTED, *FINDINGS]
    if len(sys.argv) < 2 or sys.argv[1].startswith("-") or set(wanted) - {*EXPECTED, *FINDINGS}:
        print(__doc__.strip(), file=sys.stderr)
        sys.exit(2)
    build = pathlib.Path(sys.argv[1]).resolve()
    failed = 0
    for words in [w for w in wanted if w not in TOGETHER], [w for w in wanted if w in TOGETHER]:
        if not words:
            continue
        with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
            session = Session(build, pathlib.Path(name), words[0] in TOGETHER)
            try:
                failed += sum(not (getattr(session, word)() if word in FINDINGS else session.ask(word)) for word in words)
            finally:
                session.end()
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
