#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs one drawn training job with its faults under a private daemon, and keeps the store with the truth beside it.

  run.py --seed N [--shape S] [--seconds S] [--record DIR] [--gpus N] [--l1 yes|no] [--ranks N] [--kinds a,b] [--kept] [--list]

DIR gets: state/ (the store), truth.json (what score.py reads), findings.json (what the daemon said), run.json (the plan as it was
run), logs/ (the ranks' own clocks), daemon.log, status.txt. Needs root, PyTorch, and the programs in --build. Exit code 77: this
machine lacks what the shape needs; the reason is printed.

Even seeds are for development. Odd seeds are kept for the last run: without --kept they are refused.
"""
import argparse
import gzip
import itertools
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True
import outside  # noqa: E402
import plan as plans  # noqa: E402
import truth as truths  # noqa: E402

READY_S = 240            # for all ranks to reach their first step; a GPU machine loads CUDA's libraries from a cold disk
FIRST_STEPS = 5          # of each rank, before the times of a plan count; torch.compile compiles in the first three
STOP_S = 60              # for all ranks to end after the signal
STOP_SOON_S = 10         # where the time is limited: then they are killed
STOP_AHEAD = 12, 1.0     # the last step is so many steps and so many seconds after the newest: more than ranks differ by
SETTLE_S = 4             # after the end, until the daemon has judged and written all
FULLY_SHARD = 2, 6       # PyTorch that has fully_shard beside FullyShardedDataParallel
NEEDS = """
import importlib.util as u, json, sys, torch
v = tuple(int(x) for x in torch.__version__.split("+")[0].split(".")[:2])
backend = ""
for name in ("inductor", "aot_eager") if "compile" in sys.argv and hasattr(torch, "compile") else ():
    try:
        torch.compile(torch.nn.Linear(4, 4).to(sys.argv[1]), backend=name)(torch.ones(4, 4, device=sys.argv[1])).sum().backward()
        backend = name
        break
    except Exception:
        pass
fsdp = 0
if "sharded" in sys.argv and sys.argv[1] == "cpu":  # whether fully_shard runs over gloo
    try:
        torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        from torch.distributed.fsdp import fully_shard
        from torch.distributed.device_mesh import init_device_mesh
        model = fully_shard(torch.nn.Linear(4, 4), mesh=init_device_mesh("cpu", (1,)))
        model(torch.ones(4, 4)).sum().backward()
        fsdp = 2
    except Exception:
        pass
print(json.dumps(dict(torch=torch.__version__, version=v, compile=backend, fsdp=fsdp, lightning=bool(u.find_spec("lightning") or u.find_spec("pytorch_lightning")),
                      trainer=bool(u.find_spec("transformers")), cards=torch.cuda.device_count())))
"""


def skip(text):
    print("SKIP: " + text)
    sys.exit(77)


def write(path, text):
    part = str(path) + ".part"
    with open(part, "w", encoding="utf-8") as file:
        file.write(text)
    os.rename(part, path)


class Daemon:
    def __init__(self, args, folder, sock_dir):
        self.folder, self.build = folder, pathlib.Path(args.build).resolve()
        self.env = dict(os.environ, RANKTRACE_SOCKET=str(sock_dir / "control.sock"), RANKTRACE_LIBEXEC=str(self.build / "libexec/ranktrace"))
        if args.libraries:
            self.env["LD_LIBRARY_PATH"] = args.libraries
        config = folder / "ranktrace.conf"
        config.write_text("[daemon]\nprobes_base_dir = %s\n%s" % (pathlib.Path(args.probes).resolve(), "".join(line + "\n" for line in args.config)))
        self.log = open(folder / "daemon.log", "w", encoding="utf-8")
        self.process = subprocess.Popen([str(self.build / "daemon/ranktraced"), "--foreground", "--config", str(config), "--state-dir", str(folder / "state"),
                                         "--socket", self.env["RANKTRACE_SOCKET"]], env=self.env, stderr=self.log)
        for _ in range(200):
            if self.process.poll() is not None:
                break
            if self.run("status").returncode == 0:
                return
            time.sleep(0.1)
        self.stop()
        sys.exit("run.py: the daemon does not answer: " + (folder / "daemon.log").read_text(encoding="utf-8")[-2000:])

    def run(self, *words):
        return subprocess.run([str(self.build / "ctl/tracectl"), *words], env=self.env, capture_output=True, text=True, check=False)

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.close()


class Job:
    """The processes of one job, and their files."""

    def __init__(self, plan, folder, args, device):
        """folder: as we see it; with --root the ranks see it below their root."""
        self.plan, self.folder, self.args, self.device = plan, folder, args, device
        self.seen = pathlib.Path("/") / folder.relative_to(args.root) if args.root else folder
        self.scripts = self.seen.parent if args.root else HERE
        self.processes, self.pids, self.network, self.over = [], [], None, False
        folder.mkdir()

    def start(self, port, first_card):
        plan, args = self.plan, self.args
        path = self.folder / "plan.json"
        write(path, json.dumps({"options": plan["options"], "faults": plan["faults"], "cpus": plan["cpus"], "folder": str(self.seen)}))
        path = self.seen / "plan.json"
        env = dict(os.environ, OMP_NUM_THREADS="1", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), PYTHONDONTWRITEBYTECODE="1")
        for name in ("RANKTRACE_SOCKET", "RANKTRACE_LIBEXEC", "TORCHELASTIC_RUN_ID", "SLURM_JOB_ID"):
            env.pop(name, None)
        if args.root:
            env["TMPDIR"] = str(self.seen.parent)
        if args.plugin:
            env["NCCL_PROFILER_PLUGIN"] = args.plugin
        self.log = open(self.folder / "output.log", "w", encoding="utf-8")
        count = plan["ranks"]
        if self.device == "cpu":
            env["CUDA_VISIBLE_DEVICES"] = ""
        if self.device == "cuda":
            env["CUDA_VISIBLE_DEVICES"] = ",".join(str(first_card + i) for i in range(count))
        # torchrun ends the job with its first rank: where one ends, each is started by itself, as SLURM does.
        if self.device == "cuda" and not any(f["kind"] == "exit" for f in plan["faults"]):
            words = [*args.python, "-m", "torch.distributed.run", "--nproc-per-node", str(count)]
            if plan["name"]:
                words += ["--rdzv-id", plan["name"], "--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:%d" % port]
            else:
                words += ["--master-port", str(port)]
            self.processes.append(subprocess.Popen([*words, str(self.scripts / "rank.py"), str(path)], env=env, stdout=self.log, stderr=subprocess.STDOUT))
            return
        if any(f["kind"] == "network" for f in plan["faults"]):
            self.network = outside.Network(plan["ranks"])
            env["MASTER_ADDR"], env["GLOO_SOCKET_IFNAME"] = "10.77.0.1", "eth0"
        for rank in range(count):
            own = dict(env, RANK=str(rank), WORLD_SIZE=str(plan["ranks"]), LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=str(plan["ranks"]))
            if plan["name"]:
                own["TORCHELASTIC_RUN_ID"] = plan["name"]
            prefix = self.network.prefix(rank) if self.network else []
            self.processes.append(subprocess.Popen([*prefix, *args.python, str(self.scripts / "rank.py"), str(path)], env=own, stdout=self.log,
                                                   stderr=subprocess.STDOUT))

    def heads(self):
        rows = []
        for rank in range(self.plan["ranks"]):
            path = self.folder / ("rank.%d.jsonl" % rank)
            try:
                with open(path, encoding="utf-8") as file:
                    rows.append(json.loads(file.readline()))
            except (OSError, ValueError):
                return None
        return rows

    def wait_ready(self, limit_s):
        end = time.monotonic() + limit_s
        while time.monotonic() < end:
            heads = self.heads()
            if heads:
                self.pids = [h["pid"] for h in heads]
                return
            if any(p.poll() is not None for p in self.processes):
                break
            time.sleep(0.1)
        sys.exit("run.py: the ranks of %s do not start: %s" % (self.plan["options"]["shape"], (self.folder / "output.log").read_text(encoding="utf-8")[-3000:]))

    def wait_steps(self, until):
        """Each rank has ended its first steps, in which a compiler may work for minutes; or it is too late."""
        while time.time() < until and not self.ended() and min(self.steps()) + 1 < FIRST_STEPS:
            time.sleep(0.1)

    def newest_step(self):
        """Of the rank that is furthest."""
        return max(0, *self.steps())

    def steps(self):
        """The number of each rank's newest step; -1: none yet."""
        newest = [-1] * self.plan["ranks"]
        for rank in range(self.plan["ranks"]):
            with open(self.folder / ("rank.%d.jsonl" % rank), "rb") as file:
                file.seek(max(0, os.path.getsize(file.name) - 4096))
                for line in file.read().splitlines():
                    try:
                        newest[rank] = max(newest[rank], json.loads(line).get("s", -1))
                    except ValueError:
                        pass
        return newest

    def ended(self):
        return all(p.poll() is not None for p in self.processes)

    def ask_to_stop(self, trained_s):
        newest = self.newest_step()
        write(self.folder / "stop", str(int(newest + STOP_AHEAD[0] + STOP_AHEAD[1] * newest / max(1.0, trained_s))))

    def kill(self):
        """All that this job has started, by its ids."""
        for pid in self.pids:
            if self.ours(pid):
                try:
                    os.kill(pid, 9)
                except OSError:
                    pass
        for p in self.processes:
            if p.poll() is None:
                p.kill()
            p.wait()
        if self.network:
            self.network.remove()
            self.network = None

    def ours(self, pid):
        try:
            return str(self.seen) in pathlib.Path("/proc/%d/cmdline" % pid).read_text(encoding="utf-8")
        except OSError:
            return False


class Load(threading.Thread):
    """What the machine does beside the job: running processes, every 5 s."""

    def __init__(self):
        super().__init__(daemon=True)
        self.rows, self.over = [], threading.Event()

    def run(self):
        while not self.over.wait(5):
            words = pathlib.Path("/proc/loadavg").read_text(encoding="ascii").split()
            self.rows.append([round(time.time(), 1), float(words[0]), int(words[3].split("/")[0])])


def wait_until(job, at_s):
    """False: the job ended before."""
    while not job.over and time.time() < at_s:
        time.sleep(min(0.05, max(0.0, at_s - time.time())))
    return not job.over


def act(job, faults, start_ns, groups, paths, args, first_card):
    """Faults from outside, one thread a job: they never overlap each other."""
    for f in sorted(faults, key=lambda f: f["from_s"]):
        rank = f["rank"]
        fault = outside.Outside(f, job.pids[rank], job.plan["cpus"][rank] if job.plan["cpus"] else [], first_card + rank, groups, paths.get(rank),
                                job.network, args.python)
        begin = start_ns / 1e9 + f["from_s"]
        if not wait_until(job, begin - 3):
            return
        fault.prepare()
        if not wait_until(job, begin):
            return
        try:
            f["began_ns"] = time.time_ns()
            fault.begin()
            wait_until(job, start_ns / 1e9 + f["until_s"])
        finally:
            try:
                fault.end()
            except OSError:  # the rank has ended
                pass
            f["ended_ns"] = time.time_ns()


def ask_torch(args, device, *shapes):
    """What this PyTorch can do; None without one. Only what the shapes need is tried."""
    cache = "/tmp/rtj.inductor.%d.%s" % (os.getpid(), device)
    done = subprocess.run([*args.python, "-c", NEEDS, device, *shapes], capture_output=True, text=True, check=False,
                          env=dict(os.environ, OMP_NUM_THREADS="1", TORCHINDUCTOR_CACHE_DIR=cache))
    shutil.rmtree((args.root or "") + cache, ignore_errors=True)
    return None if done.returncode else json.loads(done.stdout.splitlines()[-1])


def lacks(has, shape, cards):
    """Why a job of this shape cannot be; None if it can."""
    if has["cards"] < cards:
        return "%d cards here, %d asked for" % (has["cards"], cards)
    for name, text in (("compile", "torch.compile does not work with PyTorch %s here" % has["torch"]), ("lightning", "Lightning is not installed"),
                       ("trainer", "transformers is not installed")):
        if shape == name and not has[name]:
            return text
    return None


def needs(args, shape):
    """What this PyTorch can do; skips a shape that it cannot."""
    has = ask_torch(args, "cuda" if args.gpus else "cpu", shape)
    if not has:
        skip("%s has no working PyTorch" % " ".join(args.python))
    reason = lacks(has, shape, args.gpus)
    if reason:
        skip(reason)
    return has


def fit_options(plan, has):
    """Options that depend on this PyTorch."""
    for job in plan["jobs"]:
        if job["options"]["shape"] == "sharded":
            both = tuple(has["version"]) >= FULLY_SHARD
            job["options"]["fsdp"] = has["fsdp"] if plan["device"] == "cpu" else 2 if both and plan["seed"] // 2 % 2 else 1
        if job["options"]["shape"] == "compile":
            job["options"]["backend"] = has["compile"]


class Run:
    """The jobs of one plan, from their start to their end, under a daemon that the caller has. folder: where theirs are made."""

    names = itertools.count()

    def __init__(self, args, plan, folder):
        self.args, self.plan, self.folder = args, plan, folder
        self.jobs, self.cards, self.starts, self.groups, self.noise = [], [], [], [], None
        self.end_ns, self.hangs, self.crashed = 0, [], []

    def start(self, port):
        if self.plan["noise"]:
            self.noise = outside.Noise(self.plan["seed"])
            self.noise.start()
        card = getattr(self.args, "first_card", 0)
        for j, each in enumerate(self.plan["jobs"]):
            job = Job(each, self.folder / ("job%d" % j), self.args, self.plan["device"])
            self.jobs.append(job)
            job.start(port + j, card)
            self.cards.append(card)
            card += each["ranks"] if self.plan["device"] == "cuda" else 0

    def begin(self, ready_s, until):
        """Waits until all train, then lets the plan's times count. Returns the threads of the faults from outside."""
        threads, given = [], []
        for job, first_card in zip(self.jobs, self.cards):
            job.wait_ready(ready_s)
            kinds = {f["kind"] for f in job.plan["faults"]}
            group, paths = None, {}
            if kinds & {"cpu_max", "memory"}:
                group = outside.Groups("rtj%d.%d" % (os.getpid(), next(self.names)))
                self.groups.append(group)
                paths = {r: group.add("rank%d" % r, pid) for r, pid in enumerate(job.pids)}
            given.append((job, group, paths, first_card))
            write(job.folder / "start", "1")
        for job, group, paths, first_card in given:
            job.wait_steps(until or time.time() + ready_s)
            self.starts.append(time.time_ns() + 10**9)
            write(job.folder / "times", str(self.starts[-1]))
            external = [f for f in job.plan["faults"] if f["place"] == "-"]
            threads.append(threading.Thread(target=act, args=(job, external, self.starts[-1], group, paths, self.args, first_card)))
            threads[-1].start()
        return threads

    def train(self, ready_s=READY_S, until=None, at_hang=lambda: None):
        """Until the plan's end, at most until a time of time.time()."""
        threads = self.begin(ready_s, until)
        # A job that hangs for good ends the recording, unless another one goes on.
        last = [max([f["until_s"] for f in job.plan["faults"] if f["kind"] in plans.LAST] or [self.plan["seconds"]]) for job in self.jobs]
        finish = max(start / 1e9 + each for start, each in zip(self.starts, last))
        finish = min(finish, until or finish)
        while time.time() < finish and not all(job.ended() for job in self.jobs):
            time.sleep(0.1)
        if all(job.ended() for job in self.jobs) and any(f["kind"] == "exit" for job in self.jobs for f in job.plan["faults"]):
            time.sleep(8)  # what is said of the end
        self.end_ns = time.time_ns()
        for job in self.jobs:
            job.over = True
        for thread in threads:
            thread.join()
        # What hangs for good is killed: its last fault ends now. The others end by themselves.
        self.hangs = [job for job, start in zip(self.jobs, self.starts)
                      if any(f["kind"] in plans.LAST and start + f["from_s"] * 1e9 < self.end_ns for f in job.plan["faults"])]
        if self.hangs:
            at_hang()
            self.end_ns = time.time_ns()
        for job in self.hangs:
            job.kill()
        for job, start in zip(self.jobs, self.starts):
            if job not in self.hangs:
                job.ask_to_stop((self.end_ns - start) / 1e9)
        limit = time.monotonic() + (STOP_S if until is None else STOP_SOON_S)
        while time.monotonic() < limit and not all(job.ended() for job in self.jobs):
            time.sleep(0.1)
        self.crashed = [job for job in self.jobs if job not in self.hangs and any(p.poll() not in (0, None) for p in job.processes)]
        for job in self.jobs:
            job.kill()

    def close(self):
        if self.noise:
            self.noise.stop()
        for job in self.jobs:
            job.over = True
            job.kill()
        for group in self.groups:
            group.remove()


def jobs_of_pids(daemon, folder):
    """{pid: the job that the store knows it as}."""
    rows = daemon.run("query", "--json", "select pid, job from ranks", "--state-dir", str(folder / "state")).stdout
    try:
        return {row["pid"]: row["job"] for row in json.loads(rows)}
    except ValueError:
        print("run.py: the store's ranks cannot be read: " + rows[:200])
        return {}


def said(daemon, folder, name):
    write(folder / name, daemon.run("findings", "--json", "--all", "--state-dir", str(folder / "state")).stdout)


def record(args, plan, folder):
    has = needs(args, plan["shape"])
    fit_options(plan, has)
    socks = pathlib.Path(tempfile.mkdtemp(prefix="rtj."))
    daemon, run, inner = None, None, None
    load = Load()
    try:
        daemon = Daemon(args, folder, socks)
        for level in filter(None, args.levels.split(",")):
            daemon.run("set", level + "=true")
        if plan["l1"]:
            daemon.run("set", "L1=true")
        load.start()
        if args.root:
            inner = pathlib.Path(tempfile.mkdtemp(prefix="rtj.", dir=os.path.join(args.root, "tmp")))
            for script in HERE.glob("*.py"):
                shutil.copy(script, inner)
        run = Run(args, plan, inner or folder)
        run.start(20000 + os.getpid() % 20000)
        run.train(at_hang=lambda: said(daemon, folder, "findings.hang.json"))
        time.sleep(SETTLE_S)
        said(daemon, folder, "findings.json")
        write(folder / "findings.txt", daemon.run("findings", "--all", "--state-dir", str(folder / "state")).stdout)
        write(folder / "status.txt", daemon.run("status").stdout)
        known = jobs_of_pids(daemon, folder)
        if run.crashed:
            print("run.py: a rank failed: " + (run.crashed[0].folder / "output.log").read_text(encoding="utf-8")[-1500:])
    finally:
        load.over.set()
        if run:
            run.close()
        if daemon:
            daemon.stop()
        shutil.rmtree(socks, ignore_errors=True)
        if inner and sys.exc_info()[0]:
            shutil.rmtree(inner, ignore_errors=True)
    whole = keep(args, plan, folder, run.jobs, run.starts, run.end_ns, known, load, has)
    if inner:
        shutil.rmtree(inner, ignore_errors=True)
    return whole


def keep(args, plan, folder, jobs, starts, end_ns, known, load, has):
    """Logs, truth and the plan as it was run."""
    logs_dir = folder / "logs"
    logs_dir.mkdir()
    rows = []
    for j, job in enumerate(jobs):
        logs = {}
        for rank in range(job.plan["ranks"]):
            path = job.folder / ("rank.%d.jsonl" % rank)
            logs[rank] = truths.read_log(str(path))
            with open(path, "rb") as source, gzip.open(logs_dir / ("job%d.rank.%d.jsonl.gz" % (j, rank)), "wb") as target:
                shutil.copyfileobj(source, target)
        shutil.copy(job.folder / "output.log", logs_dir / ("job%d.output.log" % j))
        row = truths.measure(job.plan, logs, starts[j], end_ns)
        row["known_as"] = sorted({known[pid] for pid in job.pids if pid in known})
        rows.append(row)
        shutil.rmtree(job.folder)
    version = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
    write(folder / "run.json", json.dumps(dict(plan, start_ns=starts, end_ns=end_ns, version=version, has=has, load=load.rows,
                                               known_as=[row["known_as"] for row in rows])))
    whole = {"seed": plan["seed"], "shape": plan["shape"], "l1": plan["l1"], "noise": plan["noise"], "version": version, "jobs": rows}
    write(folder / "truth.json", json.dumps(whole))
    return whole


def words_of(whole):
    """The truth in words, a line a fault."""
    for job in whole["jobs"]:
        yield "%s: %d ranks, %s, step %.1f ms, %d steps, L1 %s%s" % (job["job"] or "(no name)", job["world_size"], job["device"], job["step_ms"], job["steps"],
                                                               "on" if whole["l1"] else "off", ", noisy machine" if whole["noise"] else "")
        for f in job["faults"]:
            yield "  %5.1f s for %4.1f s: %s (%s) rank %s, +%.0f %% (%.1f s lost)%s" % (
                (f["from_ns"] - job["start_ns"]) / 1e9, (f["until_ns"] - f["from_ns"]) / 1e9, f["kind"],
                "/".join((f["activities"] or []) + (f["causes"] or [])) if f["place"] == "-" else "in " + f["place"], f["rank"], f["growth_percent"], f["lost_s"],
                "" if f["matters"] else ", below the thresholds")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--kept", action="store_true", help="allow an odd seed")
    parser.add_argument("--shape", choices=sorted(plans.SHAPES))
    parser.add_argument("--seconds", type=float, default=130)
    parser.add_argument("--record", help="the folder to keep; a temporary one without it")
    parser.add_argument("--gpus", type=int, default=0)
    parser.add_argument("--ranks", type=int, help="instead of the drawn number")
    parser.add_argument("--kinds", help="only these faults")
    parser.add_argument("--l1", choices=("yes", "no"))
    parser.add_argument("--levels", default="", help="further levels to turn on: L3")
    parser.add_argument("--python", help="with PyTorch; default /usr/bin/python3, with --gpus this one")
    parser.add_argument("--root", help="of another system with PyTorch, for the ranks alone (tests/e2e/roots.sh makes some)")
    parser.add_argument("--build", default=os.environ.get("BUILD", str(ROOT / "build")))
    parser.add_argument("--probes", default=str(ROOT / "bpf/probes.d"))
    parser.add_argument("--libraries", help="LD_LIBRARY_PATH of our programs alone")
    parser.add_argument("--plugin", help="NCCL_PROFILER_PLUGIN of the ranks")
    parser.add_argument("--config", action="append", default=[], metavar="LINE", help="of ranktrace.conf")
    parser.add_argument("--list", action="store_true", help="print the plan and end")
    args = parser.parse_args()
    if args.seed is None:
        parser.error("--seed is missing")
    if args.seed % 2 and not args.kept:
        sys.exit("run.py: odd seeds are kept for the last run (--kept)")
    device = "cuda" if args.gpus else "cpu"
    args.python = [args.python or (sys.executable if args.gpus else "/usr/bin/python3")]
    if args.root:
        args.root = os.path.realpath(args.root)
        if not os.environ.get("RANKTRACE_JOBS_UNSHARED") and not args.list:
            os.environ["RANKTRACE_JOBS_UNSHARED"] = "1"
            os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", sys.executable, *sys.argv])
        args.python = ["chroot", args.root, *args.python]
    able, missing = outside.able(device)
    able |= set(plans.KINDS) - set(missing)
    if args.kinds:
        able &= set(args.kinds.split(","))
    plan = plans.draw(args.seed, able, os.cpu_count() or 1, args.shape, args.seconds, device, args.gpus, ranks=args.ranks)
    if args.l1:
        plan["l1"] = args.l1 == "yes"
    for kind in sorted(missing):
        print("SKIP fault %s: %s" % (kind, missing[kind]))
    if args.list:
        print(json.dumps(plan, indent=1))
        return
    if os.geteuid():
        skip("needs root to load BPF programs")
    folder = pathlib.Path(args.record or tempfile.mkdtemp(prefix="rtjob.")).resolve()
    if folder.exists() and any(folder.iterdir()):
        sys.exit("run.py: %s is not empty" % folder)
    folder.mkdir(parents=True, exist_ok=True)
    if args.root:  # in a mount namespace of our own: nothing is left behind
        subprocess.run(["mount", "-t", "proc", "proc", args.root + "/proc"], check=True)
        subprocess.run(["mount", "--rbind", "/dev", args.root + "/dev"], check=True)
    for line in words_of(record(args, plan, folder)):
        print(line)
    print(folder)


if __name__ == "__main__":
    main()
