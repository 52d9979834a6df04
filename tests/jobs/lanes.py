#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Many jobs at one time under one daemon: lanes of CPUs side by side, in each lane one drawn job after the other.

  lanes.py OUT --seconds S --lanes N --cpus-per-lane C --seeds 1000-1062/2 [--gpu-lanes M [--gpus G] [--gpu-cpus C] [--share-cards]] [--shape S] [--l1 yes] [--levels L2] [--kept] [--clean]
  lanes.py --unpack OUT DIR

A lane has CPUs of its own: its ranks, and the processes, threads and limits of its faults, keep to them. The daemon has those that
are left over. GPU lanes alone use cards, each its own. Everything ends within S seconds; OUT gets lanes.tar.xz.00, .01, ... of at most 15 MB.
--unpack makes DIR of them, a recording of all jobs with one store, and measures the truth; score.py takes DIR. Needs root.
"""
import argparse
import collections
import json
import math
import os
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True
import outside  # noqa: E402
import plan as plans  # noqa: E402
import run as runs  # noqa: E402
import truth as truths  # noqa: E402

FIRST_S = 22.0           # of training before the first fault: the judge's first steps, and 10 s of clean time
GAP_S = 7.0, 12.0        # between two faults: findings close 5 s after the end of what they are about
LEAST_S = 60.0           # a shorter job is not begun
READY_S = 30.0           # from the start of a job's processes until it trains; later jobs of a lane: as long as the slowest before
SEEN_S = 10.0            # after the first job has begun to train, the daemon knows its ranks; asked three times
STOP_S = 8.0             # from the plan's end until all ranks have ended
PACK_S = 60.0            # of the time given: to judge, to stop the daemon, to compress
PART_BYTES = 15 << 20    # of what is copied back one file has at most 16 MiB
# What a recording that is too large is packed without, step by step.
LEFT_OUT = ("run_delay_ns * 10 < duration_ns", "of threads that slept"), ("1", "of all threads")
PORT = 21000


def seeds_of(text):
    """"1000,1004,1010-1020/2": the numbers."""
    seeds = []
    for part in text.split(","):
        span, _, step = part.partition("/")
        first, _, last = span.partition("-")
        seeds += range(int(first), int(last or first) + 1, int(step or 1))
    return seeds


def by_core(cpus):
    """CPUs, those of one core beside each other."""
    def core(cpu):
        try:
            text = pathlib.Path("/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list" % cpu).read_text(encoding="ascii")
            return int(text.replace("-", ",").split(",")[0])
        except (OSError, ValueError):
            return cpu
    return sorted(cpus, key=lambda cpu: (core(cpu), cpu))


def divide_cpus(cpus, wanted):
    """Consecutive CPUs for each lane, and what is left over; None if they do not suffice."""
    if sum(wanted) > len(cpus):
        return None
    lanes, at = [], 0
    for count in wanted:
        lanes.append(cpus[at:at + count])
        at += count
    return lanes, cpus[at:]


def job_seconds(left_s, overhead_s, most_s):
    """How long the next job of a lane lasts: the time left is shared evenly by as few jobs as it takes. None: no other is begun."""
    least = min(LEAST_S, most_s)
    count = max(1, math.ceil(left_s / (most_s + overhead_s)))
    if left_s / count - overhead_s < least and count > 1:
        count -= 1
    seconds = left_s / count - overhead_s
    return min(seconds, most_s) if seconds >= least else None


def without_name(plan):
    return any(not job["name"] for job in plan["jobs"])


def fault_count(plan):
    return sum(len(job["faults"]) for job in plan["jobs"])


def reached(faults, start_ns, end_ns):
    """The faults that began before the job's end; one from outside says when it began."""
    def began_ns(f):
        return f.get("began_ns", end_ns) if f["place"] == "-" else start_ns + int(f["from_s"] * 1e9)
    return [f for f in faults if began_ns(f) < end_ns]


class Seeds:
    """The seeds that no lane has taken yet. Of jobs without names one plan runs at a time: their findings do not distinguish two."""

    def __init__(self, seeds):
        self.left, self.lock, self.unnamed, self.skipped = list(seeds), threading.Lock(), None, collections.Counter()
        self.ran = collections.Counter()  # shapes, on cards

    def take(self, lane, seconds):
        """The next seed's plan. On cards, of which there are few lanes, that with the most faults of all that are left, then that of the
        shape that ran least."""
        best = None

        def worth(plan):
            return fault_count(plan), -self.ran[plan["shape"]]

        with self.lock:
            for seed in list(self.left):
                plan = lane.draw(seed, seconds)
                reason = lane.lacks(plan)
                if reason:
                    self.skipped[reason] += seed not in lane.refused
                    lane.refused.add(seed)
                elif not (self.unnamed and without_name(plan)) and (not best or worth(plan) > worth(best)):
                    best = plan
                if best and not lane.gpus:
                    break
            if best:
                self.left.remove(best["seed"])
                self.ran[best["shape"]] += bool(lane.gpus)
                self.unnamed = best if without_name(best) else self.unnamed
        return best

    def back(self, plan):
        with self.lock:
            if self.unnamed is plan:
                self.unnamed = None


class Kept:
    """The jobs that have ended, and their logs."""

    def __init__(self, folder):
        self.folder, self.jobs, self.lock = folder, [], threading.Lock()
        (folder / "logs").mkdir(parents=True)

    def add(self, lane, run):
        with self.lock:
            for job, start_ns in zip(run.jobs, run.starts):
                number = len(self.jobs)
                for rank in range(job.plan["ranks"]):
                    shutil.move(job.folder / ("rank.%d.jsonl" % rank), self.folder / "logs" / ("job%d.rank.%d.jsonl" % (number, rank)))
                planned = len(job.plan["faults"])
                job.plan["faults"] = reached(job.plan["faults"], start_ns, run.end_ns)
                self.jobs.append(dict(job.plan, seed=run.plan["seed"], lane=lane.number, lane_cpus=lane.cpus, noise=run.plan["noise"], pids=job.pids,
                                      planned_s=round(run.plan["seconds"], 1), not_reached=planned - len(job.plan["faults"]), start_ns=start_ns,
                                      end_ns=run.end_ns))
            return self.jobs[-len(run.jobs):]


class Lane(threading.Thread):
    """Jobs one after the other, on CPUs of its own. A thread's CPUs are inherited by all that it starts."""

    def __init__(self, number, cpus, args, shared, gpus, first_card):
        super().__init__(daemon=True)
        self.number, self.cpus, self.gpus, self.shared = number, cpus, gpus, shared
        self.args = argparse.Namespace(**dict(vars(args), gpus=gpus, first_card=first_card))
        self.device = "cuda" if gpus else "cpu"
        self.able, self.missing = shared["able"][self.device]
        self.refused, self.failed, self.current, self.ready_s = set(), 0, None, READY_S

    def draw(self, seed, seconds):
        args = self.args
        plan = plans.draw(seed, self.able, len(self.cpus), args.shape, seconds, self.device, self.gpus, first_s=FIRST_S, gap_s=GAP_S)
        for job in plan["jobs"] if args.clean else []:
            job["faults"] = []
        return plans.place(plan, self.cpus)

    def lacks(self, plan):
        if self.gpus and sum(job["ranks"] for job in plan["jobs"]) > self.gpus:
            return "%s: more ranks than cards" % plan["shape"]
        reason = runs.lacks(self.shared["has"][self.device], plan["shape"], self.gpus)
        return reason and "%s: %s" % (plan["shape"], reason)

    def run(self):
        os.sched_setaffinity(0, self.cpus)
        while True:
            seconds = job_seconds(self.shared["until"] - time.time(), self.ready_s + STOP_S, self.args.job_seconds)
            plan = seconds and self.shared["seeds"].take(self, seconds)
            if not plan:
                return
            try:
                self.one(plan)
            except (Exception, SystemExit) as error:  # a job that cannot run: the next one may
                self.failed += 1
                print("lane %d: seed %d %s failed: %s" % (self.number, plan["seed"], plan["shape"], str(error)[-1500:]), flush=True)
            finally:
                self.shared["seeds"].back(plan)

    def one(self, plan):
        folder = self.shared["work"] / ("%d-%d" % (self.number, plan["seed"]))
        folder.mkdir()
        runs.fit_options(plan, self.shared["has"][self.device])
        run = self.current = runs.Run(self.args, plan, folder)
        begin, until = time.time(), self.shared["until"]
        try:
            with self.shared["ports"]:
                port, self.shared["port"] = self.shared["port"], self.shared["port"] + len(plan["jobs"])
            run.start(port)
            run.train(max(1.0, until - time.time() - LEAST_S / 2), until - STOP_S)
            if run.crashed:
                raise RuntimeError("a rank failed: " + (run.crashed[0].folder / "output.log").read_text(encoding="utf-8", errors="replace")[-1200:])
            started_s = run.starts[0] / 1e9 - begin
            self.ready_s = max(started_s + 1, self.ready_s if self.ready_s != READY_S else 0)
            if self.shared["over"].is_set():
                return
            for row in self.shared["kept"].add(self, run):
                print("lane %d: seed %d %s: %d ranks, ready in %.0f s, trained %.0f s, %d faults%s" % (
                    self.number, row["seed"], plan["shape"], row["ranks"], started_s, (run.end_ns - row["start_ns"]) / 1e9, len(row["faults"]),
                    ", %d not reached" % row["not_reached"] if row["not_reached"] else ""), flush=True)
        finally:
            run.close()
            self.current = None
            shutil.rmtree(folder, ignore_errors=True)


def keep(args, shared, folder, daemon, load, lanes):
    """Plans, what the daemon said, and which job the store knows each pid as."""
    runs.said(daemon, folder, "findings.json")
    runs.write(folder / "status.txt", daemon.run("status").stdout)
    known = runs.jobs_of_pids(daemon, folder)
    jobs = shared["kept"].jobs
    version = subprocess.run(["git", "-C", str(runs.ROOT), "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
    row = dict(seed=None, shape="lanes", l1=args.l1 == "yes", noise=False, jobs=jobs, start_ns=[job["start_ns"] for job in jobs], end_ns=time.time_ns(),
               version=version, has=shared["has"], load=load.rows, lanes=[dict(cpus=lane.cpus, device=lane.device) for lane in lanes],
               known_as=[sorted({known[pid] or "" for pid in job["pids"] if pid in known}) for job in jobs])
    runs.write(folder / "run.json", json.dumps(row))


def compress(folder, out):
    """Small files first: of a stream that is cut off they are still there. Returns its size."""
    for part in out.glob("lanes.tar.xz.*"):
        part.unlink()
    names = sorted((path.name for path in folder.iterdir()), key=lambda name: (name == "state", name))
    tar = subprocess.Popen(["tar", "-C", str(folder), "--exclude=state/dump", "-cf", "-", *names], stdout=subprocess.PIPE)
    xz = subprocess.Popen(["xz", "-T0", "-3", "--block-size=8MiB"], stdin=tar.stdout, stdout=subprocess.PIPE)
    tar.stdout.close()
    subprocess.run(["split", "-b", str(PART_BYTES), "-d", "-a", "2", "-", str(out / "lanes.tar.xz.")], stdin=xz.stdout, check=True)
    xz.stdout.close()
    if tar.wait() or xz.wait():
        sys.exit("lanes.py: the recording cannot be packed")
    return sum(path.stat().st_size for path in out.glob("lanes.tar.xz.*"))


def without(folder, which):
    """Takes off-CPU intervals out of the store; returns how many."""
    count = 0
    for path in (folder / "state/db").glob("events-*.db"):
        store = sqlite3.connect(path, isolation_level=None)
        count += store.execute("DELETE FROM offcpu_raw WHERE " + which).rowcount
        store.execute("VACUUM")
        store.close()
    return count


def pack(folder, out, most_mb):
    size = compress(folder, out)
    for which, text in LEFT_OUT:
        if size > most_mb * 1e6:
            print("%.1f MB: packed again without %d off-CPU intervals %s" % (size / 1e6, without(folder, which), text), flush=True)
            size = compress(folder, out)
    return size


def unpack(out, folder):
    folder.mkdir(parents=True)
    parts = sorted(out.glob("lanes.tar.xz.*"))
    if not parts:
        sys.exit("lanes.py: %s has no lanes.tar.xz.00" % out)
    tar = subprocess.Popen(["tar", "-C", str(folder), "-xJf", "-"], stdin=subprocess.PIPE)
    for part in parts:
        with open(part, "rb") as file:
            shutil.copyfileobj(file, tar.stdin)
    tar.stdin.close()
    if tar.wait():
        sys.exit("lanes.py: %s cannot be unpacked" % out)
    whole = truths.of_folder(folder)
    runs.write(folder / "truth.json", json.dumps(whole))
    for line in runs.words_of(whole):
        print(line)


def with_torch(args):
    """The Python that has PyTorch, and what that can do on CPUs and cards."""
    shapes = [args.shape] if args.shape else sorted(plans.SHAPES)
    for python in [args.python] if args.python else [sys.executable, "/usr/bin/python3"]:
        args.python, args.gpus = [python], 0
        has, threads = {}, []
        for device in ("cpu", "cuda") if args.gpu_lanes else ("cpu",):
            threads.append(threading.Thread(target=lambda device=device: has.update({device: runs.ask_torch(args, device, *shapes)})))
            threads[-1].start()
        for thread in threads:
            thread.join()
        if all(has.values()):
            return has
    return runs.skip("no Python with PyTorch")


def seen(daemon, lanes, until):
    """Whether the daemon sees a rank of the first jobs: else the rest of the time is lost."""
    while time.time() < until and not any(lane.current and lane.current.starts for lane in lanes):
        time.sleep(0.2)
    for _ in range(3):
        time.sleep(SEEN_S)
        try:
            known = {row["pid"] for row in json.loads(daemon.run("ranks", "--json").stdout)}
        except (ValueError, KeyError):  # it does not answer
            continue
        if known.intersection(pid for lane in lanes if lane.current for job in lane.current.jobs for pid in job.pids):
            return True
    return False


def drive(args, lanes_cpus, common, begin):
    """All lanes under one daemon; returns whether each lane ended by itself."""
    until = begin + args.seconds - PACK_S
    gpus = args.gpus
    has = with_torch(args)
    cards = has["cuda"]["cards"] if args.gpu_lanes else 0
    sharing = 1 if args.share_cards else max(1, args.gpu_lanes)
    gpus = gpus or cards // sharing
    if args.gpu_lanes and (gpus < 2 or gpus * sharing > cards):
        sys.exit("lanes.py: each GPU lane needs two cards or more; there are %d" % cards)
    work = pathlib.Path(tempfile.mkdtemp(prefix="rtj."))
    folder = work / "kept"
    shared = dict(able={}, has=has, work=work, until=until, seeds=Seeds(args.seeds), kept=Kept(folder), ports=threading.Lock(), port=PORT, over=threading.Event())
    for device in has:
        able, missing = outside.able(device)
        shared["able"][device] = able | (set(plans.KINDS) - set(missing)), missing
        for kind in sorted(missing):
            print("SKIP fault %s on %s: %s" % (kind, device, missing[kind]))
    lanes = [Lane(i, cpus, args, shared, gpus if i < args.gpu_lanes else 0, 0 if args.share_cards else i * gpus) for i, cpus in enumerate(lanes_cpus)]
    print("%.0f s until the lanes begin; %d lanes, the daemon on CPUs %s" % (time.time() - begin, len(lanes), ",".join(map(str, common))), flush=True)
    daemon, load = None, runs.Load()
    try:
        os.sched_setaffinity(0, common)
        daemon = runs.Daemon(args, folder, work)
        if args.l1 == "yes":
            daemon.run("set", "L1=true")
        for level in filter(None, args.levels.split(",")):
            daemon.run("set", level + "=true")
        load.start()
        for lane in lanes:
            lane.start()
        if not seen(daemon, lanes, until):
            print("lanes.py: the daemon sees no rank, the recording ends:\n" + (folder / "daemon.log").read_text(encoding="utf-8")[-3000:], flush=True)
            shared["until"] = until = time.time() - 8
        for lane in lanes:
            lane.join(max(0.1, until + 8 - time.time()))
        shared["over"].set()
        late = [lane for lane in lanes if lane.is_alive()]
        for lane in late:
            print("lane %d: has not ended in time" % lane.number)
            for job in lane.current.jobs if lane.current else []:
                job.over = True
                job.kill()
        time.sleep(runs.SETTLE_S)
        keep(args, shared, folder, daemon, load, lanes)
        print("CPU of the daemon: %.1f s of %.0f s" % (outside.cpu_s(daemon.process.pid), time.time() - begin))
    finally:
        load.over.set()
        if daemon:
            daemon.stop()
    for reason, count in sorted(shared["seeds"].skipped.items()):
        print("SKIP %d seeds: %s" % (count, reason))
    jobs = shared["kept"].jobs
    store = sum(path.stat().st_size for path in (folder / "state").rglob("*") if path.is_file())
    print("%d jobs, %d faults (%d on cards), %d failed, %d seeds left; store %.1f MB, %.0f s" % (
        len(jobs), sum(len(job["faults"]) for job in jobs), sum(len(job["faults"]) for job in jobs if job["options"]["device"] == "cuda"),
        sum(lane.failed for lane in lanes), len(shared["seeds"].left), store / 1e6, time.time() - begin), flush=True)
    os.sched_setaffinity(0, {cpu for lane in lanes for cpu in lane.cpus}.union(common))
    print("packed %.1f MB, %.0f s" % (pack(folder, args.out, args.most_mb) / 1e6, time.time() - begin))
    for lane in late:
        lane.join(20)
    shutil.rmtree(work, ignore_errors=True)
    return not late


def main():
    begin = time.time()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("into", type=pathlib.Path, nargs="?", help="of --unpack")
    parser.add_argument("--unpack", action="store_true")
    parser.add_argument("--seconds", type=float, default=560)
    parser.add_argument("--lanes", type=int, default=4, help="of CPU jobs")
    parser.add_argument("--cpus-per-lane", type=int, default=2)
    parser.add_argument("--gpu-lanes", type=int, default=0, help="so many lanes more, which have the cards")
    parser.add_argument("--gpu-cpus", type=int, default=4, help="CPUs of a GPU lane")
    parser.add_argument("--gpus", type=int, default=0, help="cards of a GPU lane; default: shared evenly")
    parser.add_argument("--share-cards", action="store_true", help="all GPU lanes use the same cards: for what is not about time")
    parser.add_argument("--seeds", type=seeds_of, default=[])
    parser.add_argument("--kept", action="store_true", help="allow odd seeds")
    parser.add_argument("--shape", choices=sorted(plans.SHAPES))
    parser.add_argument("--clean", action="store_true", help="no faults: nothing is to be said of these jobs")
    parser.add_argument("--job-seconds", type=float, default=240, help="of a job, at most")
    parser.add_argument("--l1", choices=("yes", "no"), default="no", help="of all jobs: the daemon has one setting")
    parser.add_argument("--levels", default="", help="further levels to turn on: L2")
    parser.add_argument("--most-mb", type=float, default=60, help="of the packed recording: above, off-CPU intervals of sleeping threads are left out")
    parser.add_argument("--python")
    parser.add_argument("--build", default=os.environ.get("BUILD", str(runs.ROOT / "build")))
    parser.add_argument("--probes", default=str(runs.ROOT / "bpf/probes.d"))
    parser.add_argument("--libraries", help="LD_LIBRARY_PATH of our programs alone")
    parser.add_argument("--plugin", help="NCCL_PROFILER_PLUGIN of the ranks")
    parser.add_argument("--config", action="append", default=[], metavar="LINE", help="of ranktrace.conf")
    args = parser.parse_args()
    args.root = None
    if args.unpack:
        if not args.into:
            parser.error("--unpack needs a folder to make")
        unpack(args.out, args.into)
        return
    if not args.seeds:
        parser.error("--seeds is missing")
    if any(seed % 2 for seed in args.seeds) and not args.kept:
        sys.exit("lanes.py: odd seeds are kept for the last run (--kept)")
    wanted = [args.gpu_cpus] * args.gpu_lanes + [args.cpus_per_lane] * args.lanes
    all_cpus = by_core(os.sched_getaffinity(0))
    divided = divide_cpus(all_cpus, wanted)
    if not divided:
        sys.exit("lanes.py: %d CPUs asked for, %d here" % (sum(wanted), len(all_cpus)))
    if os.geteuid():
        runs.skip("needs root to load BPF programs")
    args.out.mkdir(parents=True, exist_ok=True)
    lanes, common = divided
    if not drive(args, lanes, common or all_cpus, begin):
        sys.exit(1)


if __name__ == "__main__":
    main()
