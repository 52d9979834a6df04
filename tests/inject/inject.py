#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Injects faults into real ranks and checks that these ranks, and no others, are named.

  inject.py --tracectl T --daemon D [--probes DIR] [--kinds a,b,...] [--runs N] [--ranks N] [--device cpu|cuda] [--levels L1,L3] [--out DIR]

Ranks train for --warm seconds, then one gets a fault (`clean`: none); within --patience seconds a finding must be open that
names it with the right cause. With --per-job N the fault is removed and the next injected. Any other finding is a false
accusation, except of the job as a whole or of an imbalance. Prints a table, writes runs.json; exit code 1 if a run missed
or accused.
"""
import argparse
import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent

# kind: (accepted finding kinds, accepted causes, whether the finding names the rank)
EXPECTED = {
    "clean": (set(), set(), False),
    "compute": ({"slow_rank"}, {"compute", "card"}, True),
    # Without a card, sleep in forward and computing are indistinguishable.
    "sleep": ({"slow_rank"}, {"host", "launch", "compute"}, True),
    "dataloader": ({"slow_rank"}, {"dataloader"}, True),
    "gc": ({"slow_rank"}, {"garbage_collection"}, True),
    "checkpoint": ({"slow_rank"}, {"checkpoint"}, True),
    "contention": ({"slow_rank"}, {"preemption"}, True),
    "throttle": ({"slow_rank"}, {"throttling"}, True),
    "stop": ({"hang"}, {"stopped"}, True),
    "missing": ({"hang"}, {"missing"}, True),
    "type": ({"mismatch"}, {"type_mismatch"}, True),
    "size": ({"mismatch"}, {"size_mismatch"}, True),
    "link": ({"slow_communication"}, {"communication", "link", "node_network"}, False),
    "card": ({"slow_rank"}, {"card", "compute"}, True),
}
BY_CONTROL = {"compute", "sleep", "dataloader", "gc", "checkpoint", "missing", "type", "size"}
ALONE = {"link", "checkpoint"}  # these determine how the job is started
# Never in one job: ranks to be throttled have private control groups, whose CPU share limits contention.
APART = {"contention", "throttle"}
HANGS = {"stop", "missing", "type", "size"}


def sh(*words, check=True):
    return subprocess.run(words, check=check, capture_output=True, text=True)


class Daemon:
    def __init__(self, args, folder):
        self.args, self.folder = args, folder
        self.env = dict(os.environ, RANKTRACE_SOCKET=str(folder / "control.sock"),
                        RANKTRACE_LIBEXEC=str(pathlib.Path(args.tracectl).resolve().parent.parent / "libexec/ranktrace"))
        config = folder / "ranktrace.conf"
        config.write_text(f"[daemon]\nprobes_base_dir = {pathlib.Path(args.probes).resolve()}\n" + "".join(line + "\n" for line in args.config))
        self.log = open(folder / "daemon.log", "w", encoding="utf-8")
        self.process = subprocess.Popen([args.daemon, "--config", config, "--state-dir", folder / "state",
                                         "--socket", self.env["RANKTRACE_SOCKET"]], stderr=self.log)
        for _ in range(200):
            if subprocess.run([args.tracectl, "status"], env=self.env, capture_output=True).returncode == 0:
                break
            time.sleep(0.1)
        else:
            raise SystemExit("the daemon does not answer: " + (folder / "daemon.log").read_text(encoding="utf-8"))
        for level in filter(None, args.levels.split(",")):
            self.tracectl("set", f"{level}=true")

    def tracectl(self, *words):
        return subprocess.run([self.args.tracectl, *words], env=self.env, capture_output=True, text=True).stdout

    def findings(self, after_ns, job):
        out = self.tracectl("query", "--json", f"select * from findings where job = '{job}' and since_ns > {after_ns - 3600 * 10**9}")
        try:
            return json.loads(out)
        except ValueError:
            return []

    def stop(self):
        self.process.terminate()
        return self.process.wait(30)


class Group:
    """A private control group with a CPU limit, v1 or v2."""

    def __init__(self, name, pid):
        self.v1 = pathlib.Path("/sys/fs/cgroup/cpu")
        self.path = (self.v1 if self.v1.is_dir() else pathlib.Path("/sys/fs/cgroup")) / name
        if not self.v1.is_dir():
            pathlib.Path("/sys/fs/cgroup/cgroup.subtree_control").write_text("+cpu", encoding="ascii")
        self.path.mkdir(exist_ok=True)
        (self.path / "cgroup.procs").write_text(str(pid), encoding="ascii")

    def limit(self, share):
        if self.v1.is_dir():
            (self.path / "cpu.cfs_quota_us").write_text(str(int(share * 100000)) if share else "-1", encoding="ascii")
        else:
            (self.path / "cpu.max").write_text(f"{int(share * 100000)} 100000" if share else "max", encoding="ascii")

    def remove(self):
        for _ in range(50):
            try:
                self.path.rmdir()
                return
            except OSError:
                time.sleep(0.1)


class Net:
    """Private network namespaces, one per rank, on one bridge."""

    def __init__(self, ranks):
        self.name, self.ranks = f"rt{os.getpid() % 10000}", ranks
        sh("ip", "netns", "add", self.name + "b")
        self.inside("b", "ip", "link", "add", "br0", "type", "bridge")
        self.inside("b", "ip", "link", "set", "br0", "up")
        for rank in range(ranks):
            ns = f"{self.name}r{rank}"
            sh("ip", "netns", "add", ns)
            sh("ip", "link", "add", f"v{rank}", "netns", self.name + "b", "type", "veth", "peer", "name", "eth0", "netns", ns)
            self.inside("b", "ip", "link", "set", f"v{rank}", "master", "br0", "up")
            for words in (("addr", "add", f"10.77.0.{rank + 1}/24", "dev", "eth0"), ("link", "set", "eth0", "up"), ("link", "set", "lo", "up")):
                self.inside(f"r{rank}", "ip", *words)

    def inside(self, which, *words, check=True):
        return sh("ip", "netns", "exec", self.name + which, *words, check=check)

    def limit(self, rank, mbit):
        if mbit:
            self.inside(f"r{rank}", "tc", "qdisc", "replace", "dev", "eth0", "root", "tbf", "rate", f"{mbit}mbit", "burst", "64kb", "latency", "200ms")
        else:
            self.inside(f"r{rank}", "tc", "qdisc", "del", "dev", "eth0", "root", check=False)

    def remove(self):
        for rank in range(self.ranks):
            sh("ip", "netns", "del", f"{self.name}r{rank}", check=False)
        sh("ip", "netns", "del", self.name + "b", check=False)


class Run:
    """A job and its faults, one after the other, each on another rank."""

    def __init__(self, args, daemon, kinds, number):
        self.args, self.daemon, self.kinds, self.number = args, daemon, kinds, number
        self.kind, self.rank = kinds[0], number % args.ranks
        self.job = f"inject-{os.getpid()}-{number}-{'-'.join(kinds)}"
        self.folder = daemon.folder / self.job
        self.folder.mkdir()
        self.control = self.folder / "control"
        self.ask({})
        self.processes, self.undo, self.groups, self.net = [], [], [], None

    def ask(self, what):
        (self.folder / "next").write_text(json.dumps(what), encoding="ascii")
        os.replace(self.folder / "next", self.control)

    def start(self):
        args = self.args
        net = Net(args.ranks) if self.kind == "link" else None
        self.net = net
        cores = sorted(os.sched_getaffinity(0))
        share = max(1, len(cores) // args.ranks)
        for rank in range(args.ranks):
            env = dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(args.ranks), LOCAL_WORLD_SIZE=str(args.ranks),
                       MASTER_ADDR="10.77.0.1" if net else "127.0.0.1", MASTER_PORT=str(20000 + os.getpid() % 20000 + self.number % 1000),
                       TORCHELASTIC_RUN_ID=self.job, OMP_NUM_THREADS="1", CONTROL=str(self.control), PROGRESS=str(self.folder / f"progress.{rank}"))
            if args.device == "cpu":
                env["CORE"] = str(cores[rank % len(cores)])
            if args.plugin:
                env["NCCL_PROFILER_PLUGIN"] = args.plugin
            if net:
                env["GLOO_SOCKET_IFNAME"] = "eth0"
            words = [args.python, str(HERE / "rank.py"), "--device", args.device, "--width", str(args.width), "--layers", str(args.layers),
                     "--batch", str(args.batch), "--load-ms", str(args.load_ms), "--checkpoint-every", str(4 if self.kind == "checkpoint" else args.checkpoint_every)]
            if net:
                words = ["ip", "netns", "exec", f"{net.name}r{rank}", *words]
            if args.device == "cuda":
                words = ["taskset", "-c", f"{cores[rank * share]}-{cores[rank * share + share - 1]}", *words]
            log = open(self.folder / f"rank.{rank}.log", "w", encoding="utf-8")
            self.processes.append(subprocess.Popen(words, env=env, stdout=log, stderr=log))
            if "throttle" in self.kinds:
                self.groups.append(Group(f"{self.job}-{rank}", self.processes[-1].pid))

    def steps(self, rank):
        try:
            data = (self.folder / f"progress.{rank}").read_bytes()
        except OSError:
            return []
        return [struct.unpack_from("<QQ", data, at) for at in range(0, len(data) // 16 * 16, 16)]

    def warm(self):
        deadline = time.monotonic() + 120 + self.args.warm
        began = None
        while time.monotonic() < deadline:
            if any(process.poll() is not None for process in self.processes):
                raise RuntimeError("a rank ended: " + (self.folder / "rank.0.log").read_text(encoding="utf-8")[-500:])
            if began is None and all(len(self.steps(rank)) > 2 for rank in range(self.args.ranks)):
                began = time.monotonic()
            if began and time.monotonic() > began + self.args.warm and len(self.steps(0)) >= self.args.warm_steps:
                return
            time.sleep(0.1)
        raise RuntimeError("the ranks do not train")

    def pid(self):
        return self.processes[self.rank].pid

    def step_ms(self):
        ends = [ns for _, ns in self.steps(0)[-30:]]
        gaps = sorted(b - a for a, b in zip(ends, ends[1:]))
        return gaps[len(gaps) // 2] / 1e6

    def break_it(self):
        """Injects the fault; its removal goes to self.undo."""
        kind, ms = self.kind, self.step_ms() * self.args.severity
        self.acts_from_step = None
        if kind in BY_CONTROL:
            scale = 4 if kind == "checkpoint" else 1
            last = max(self.steps(rank)[-1][0] for rank in range(self.args.ranks))
            self.ask({"kind": kind, "rank": self.rank, "ms": max(1, ms * scale), "at_step": last + 3})
            if kind == "checkpoint":  # the running step has read CONTROL: the next checkpoint is slow
                self.acts_from_step = (self.steps(self.rank)[-1][0] + 2 + 3) // 4 * 4
        elif kind == "contention":
            core = sorted(os.sched_getaffinity(self.pid()))
            for cpu in core * self.args.preemptors:
                preemptor = subprocess.Popen(["taskset", "-c", str(cpu), sys.executable, "-c", "while True: pass"])
                self.undo.append(lambda preemptor=preemptor: (preemptor.kill(), preemptor.wait()))
        elif kind == "card":
            intruder = subprocess.Popen([self.args.python, "-c", "import torch\na = torch.randn(8192, 8192, device='cuda:%d')\nwhile True:\n    a @ a\n    torch.cuda.synchronize()" % self.rank])
            self.undo.append(lambda: (intruder.kill(), intruder.wait()))
            time.sleep(5)  # until it computes
        elif kind == "throttle":
            group = self.groups[self.rank]
            group.limit(self.args.cpu_share)
            self.undo.append(lambda: group.limit(0))
        elif kind == "stop":
            os.kill(self.pid(), signal.SIGSTOP)
            self.undo.append(lambda: os.kill(self.pid(), signal.SIGCONT))
        elif kind == "link":
            self.net.limit(self.rank, self.args.mbit)
            self.undo.append(lambda: self.net.limit(self.rank, 0))
        return time.time_ns()

    def judge(self, began_ns):
        """Polls until the finding is open, and --settle seconds more for other findings. Returns a row."""
        kinds, causes, named = EXPECTED[self.kind]
        named = named and not (kinds == {"mismatch"} and self.args.ranks == 2)  # two ranks differ from each other
        patience = self.args.clean if self.kind == "clean" else self.args.patience + (30 if self.kind in HANGS else 0)
        deadline, hit, findings = time.monotonic() + patience, None, []
        settled, came_back = None, {}
        before = {f["finding"] for f in self.daemon.findings(began_ns, self.job) if f["noticed_ns"] and f["state"] == "open"}
        while time.monotonic() < deadline and (settled is None or time.monotonic() < settled):
            time.sleep(0.25)
            now = [f for f in self.daemon.findings(began_ns, self.job) if f["noticed_ns"] and f["finding"] not in before]
            for f in now:  # a recurred hang keeps its first noticed_ns
                if f["noticed_ns"] < began_ns and f["state"] == "open":
                    f["noticed_ns"] = came_back.setdefault(f["finding"], time.time_ns())
            findings = [f for f in now if f["noticed_ns"] > began_ns]
            right = [f for f in findings if f["kind"] in kinds and f["cause"] in causes and (not named or f["rank"] == self.rank)]
            if right and hit is None:
                hit = min(f["noticed_ns"] for f in right)
                settled = time.monotonic() + self.args.settle
        kind_hits = [f for f in findings if f["kind"] in kinds and (not named or f["rank"] == self.rank)]
        wrong = [f for f in findings if not (f["kind"] in kinds and (not named or f["rank"] == self.rank)) and f["kind"] not in ("slow_job", "imbalance")]
        ends = [ns for rank in range(self.args.ranks) for _, ns in self.steps(rank) if ns > began_ns and (hit is None or ns <= hit)]
        acted = sum(1 for rank in range(self.args.ranks) for step, ns in self.steps(rank) if self.acts_from_step and step >= self.acts_from_step and hit and ns <= hit)
        row = {"kind": self.kind, "rank": self.rank if self.kind != "clean" else None, "ranks": self.args.ranks, "device": self.args.device,
               "named": bool(kind_hits) if self.kind != "clean" else None, "right": hit is not None,
               "delay_s": (hit - began_ns) / 1e9 if hit else None, "steps": len(ends) / self.args.ranks if hit else None, "step_ms": self.before_ms,
               "steps_since_it_acted": acted / self.args.ranks if hit and self.acts_from_step else None,
               "accused": [f["sentence"] for f in wrong], "said": [[f["kind"], f["rank"], f["cause"], f["tier"], f["state"]] for f in findings],
               "sentence": kind_hits[0]["sentence"] if kind_hits else "",
               "slowdown": kind_hits[0]["slowdown"] if kind_hits else None, "measured": None}
        after = [ns for _, ns in self.steps(0) if ns > began_ns + 10**9]
        if len(after) > 4 and self.before_ms:
            gaps = sorted(b - a for a, b in zip(after, after[1:]))
            row["measured"] = sum(gaps) / len(gaps) / 1e6 / self.before_ms
        return row

    def heal(self):
        for undo in reversed(self.undo):
            undo()
        self.undo = []
        self.ask({})

    def end(self):
        for undo in reversed(self.undo):
            undo()
        for process in self.processes:
            if process.poll() is None:
                process.kill()
        for process in self.processes:
            process.wait()
        for group in self.groups:
            group.remove()
        if self.net:
            self.net.remove()

    def run(self):
        """Yields a row per fault."""
        try:
            self.start()
            self.warm()
            for i, kind in enumerate(self.kinds):
                if i:
                    self.heal()
                    time.sleep(self.args.between)
                self.kind, self.rank = kind, (self.number + i) % self.args.ranks
                self.before_ms = self.step_ms()
                yield self.judge(self.break_it())
        except RuntimeError as error:
            yield {"kind": self.kind, "rank": None, "named": False, "right": False, "delay_s": None, "steps": None, "step_ms": 0,
                   "accused": [], "said": [], "sentence": f"did not run: {error}", "measured": None}
        finally:
            self.end()


def jobs_of(kinds, most):
    """Groups faults into jobs of at most `most`: some need their own job, some end it."""
    jobs, now = [], []
    for kind in kinds:
        if now and (kind in ALONE or len(now) == most or APART <= {kind, *now}):
            jobs.append(now)
            now = []
        now.append(kind)
        if kind in ALONE or kind in HANGS:
            jobs.append(now)
            now = []
    return jobs + ([now] if now else [])


def median(values):
    values = sorted(values)
    return values[len(values) // 2] if values else float("nan")


def table(rows):
    print(f"{'kind':<12}{'runs':>5}{'named':>7}{'right cause':>13}{'delay s: median':>17}{'most':>7}{'steps: median':>15}{'most':>6}{'step ms':>9}{'accusations':>13}")
    for kind in dict.fromkeys(row["kind"] for row in rows):
        of = [row for row in rows if row["kind"] == kind]
        delays, steps = [r["delay_s"] for r in of if r["right"]], [r["steps"] for r in of if r["right"]]
        named = "-" if kind == "clean" else sum(r["named"] for r in of)
        right = "-" if kind == "clean" else sum(r["right"] for r in of)
        print(f"{kind:<12}{len(of):>5}{named:>7}{right:>13}{median(delays):>17.1f}{max(delays, default=float('nan')):>7.1f}"
              f"{median(steps):>15.1f}{max(steps, default=float('nan')):>6.1f}{median([r['step_ms'] for r in of]):>9.0f}{sum(len(r['accused']) for r in of):>13}")
    for row in rows:
        if row["accused"] or (row["kind"] != "clean" and not row["right"]):
            print(f"MISS {row['kind']} of rank {row['rank']}: reported {row['said']}; accused {row['accused']}; {row['sentence']}")


def main():
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--tracectl", required=True)
    parser.add_argument("--daemon", required=True)
    parser.add_argument("--probes", default=str(ROOT / "bpf/probes.d"))
    parser.add_argument("--config", action="append", default=["[findings]", "raise_pause = 0s", "raise_percent = 100", "raise_for = 20s"], help="additional line of the configuration file")
    parser.add_argument("--python", default="/usr/bin/python3")
    parser.add_argument("--kinds", default="clean,compute,sleep,dataloader,gc,checkpoint,contention,throttle,stop,missing,type,size,link")
    parser.add_argument("--runs", type=int, default=1, help="runs of each kind")
    parser.add_argument("--first", type=int, default=0, help="number of the first run; selects the faulty rank")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--plugin", default="", help="NCCL profiler plugin")
    parser.add_argument("--levels", default="", help="levels turned on at the start")
    parser.add_argument("--warm", type=float, default=20, help="seconds until the fault: 15 until the usual step is known")
    parser.add_argument("--warm-steps", type=int, default=45)
    parser.add_argument("--patience", type=float, default=20)
    parser.add_argument("--clean", type=float, default=30, help="duration of a clean run after --warm, in seconds")
    parser.add_argument("--settle", type=float, default=4, help="seconds of observation after the rank is named")
    parser.add_argument("--between", type=float, default=8, help="seconds between faults of one job")
    parser.add_argument("--per-job", type=int, default=1, help="faults per job, at most one per rank")
    parser.add_argument("--severity", type=float, default=0.5, help="added delay as a fraction of the step")
    parser.add_argument("--preemptors", type=int, default=1, help="competing processes on each CPU of the rank")
    parser.add_argument("--cpu-share", type=float, default=0.5)
    parser.add_argument("--mbit", type=int, default=200)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--batch", type=int, default=48)
    parser.add_argument("--load-ms", type=float, default=5)
    parser.add_argument("--checkpoint-every", type=int, default=0)
    parser.add_argument("--out", help="folder for runs.json and the daemon's log")
    parser.add_argument("--keep", action="store_true", help="keep the daemon's store in --out as well")
    args = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as name:
        daemon = Daemon(args, pathlib.Path(name))
        try:
            number = args.first
            for kinds in jobs_of(args.kinds.split(",") * args.runs, min(args.per_job, args.ranks)):
                for row in Run(args, daemon, kinds, number).run():
                    rows.append(row)
                    print(json.dumps({k: row.get(k) for k in ("kind", "rank", "right", "delay_s", "steps", "steps_since_it_acted", "step_ms", "measured", "said", "sentence")}), flush=True)
                number += len(kinds)
        finally:
            daemon.stop()
            if args.out:
                out = pathlib.Path(args.out)
                out.mkdir(parents=True, exist_ok=True)
                (out / "runs.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")
                (out / "daemon.log").write_bytes((daemon.folder / "daemon.log").read_bytes())
                if args.keep:
                    shutil.copytree(daemon.folder / "state", out / "state", dirs_exist_ok=True)
    table(rows)
    bad = sum(bool(row["accused"]) or (row["kind"] != "clean" and not row["right"]) for row in rows)
    print(f"{len(rows)} runs, {bad} of them missed or accused another rank")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
