#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A long time of many ranks in a short one: flat memory of the daemon, a bounded store, and no loss that is not counted.

  soak.py BUILD [--ranks 64] [--hours 24] [--speed 50] [--levels L1,L3]

Stand-in ranks (bench_burst) make steps of a second, --speed times as fast, for as long as --hours take at that speed. Segments of the
store are as much shorter, and the bound of its events is small, so that it is reached. Prints a row every quarter of a minute: CPU % of the daemon, and of its workers. Exit 1: the daemon has
died; its resident memory in the last third of the time is, in the mean, 5 % above that of the second one, or ever above the
budget of 128 MiB; the store is larger than its bound and two segments; or marks that were made are neither steps nor counted.
Needs root.
"""
import argparse
import json
import mmap
import os
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
MARKS_A_STEP = 8  # of bench_burst
STORE_MIB = 64
BUDGET_MIB = 128
EVERY_S = 15  # a usual interval of scrapes
SETTLED_S = 120  # until then ranks are found and read
PAGES = 500  # the daemon's heap has 900 in use each second, with 64 ranks


def idle_page_us():
    """CPU time for a page of memory that was not used for a second. In nested virtual machines it may be 20 us: then CPU time says little of the daemon."""
    with mmap.mmap(-1, PAGES * mmap.PAGESIZE, flags=mmap.MAP_PRIVATE) as memory:
        if hasattr(mmap, "MADV_NOHUGEPAGE"):
            memory.madvise(mmap.MADV_NOHUGEPAGE)
        times = []
        for _ in range(6):
            begin = time.thread_time()
            for page in range(PAGES):
                memory[page * mmap.PAGESIZE] = 1
            times.append((time.thread_time() - begin) / PAGES * 1e6)
            time.sleep(1)
    return sorted(times[1:])[2]  # first they are made


def resident_mib(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return None


def percent(last, now, what):
    return 100 * (now[what] - last[what]) / (now["s"] - last["s"])


class Soak:
    def __init__(self, build, folder, arguments):
        self.build, self.folder, self.arguments = build, folder, arguments
        self.seconds = arguments.hours * 3600 / arguments.speed
        self.env = dict(os.environ, RANKTRACE_SOCKET=str(folder / "s"), RANKTRACE_LIBEXEC=str(build / "libexec/ranktrace"))
        segment_s = max(10, 3600 // arguments.speed)
        (folder / "ranktrace.conf").write_text(
            f"[daemon]\nprobes_base_dir = {HERE}/probes.d\n[store]\nsegment = {segment_s}s\nevents_size_max = {STORE_MIB}M\n", encoding="ascii")
        self.log = open(folder / "log", "w", encoding="utf-8")
        self.daemon = subprocess.Popen(
            [build / "daemon/ranktraced", "--config", folder / "ranktrace.conf", "--state-dir", folder / "state", "--socket", folder / "s"], stderr=self.log)
        while not self.control("status") and self.daemon.poll() is None:
            time.sleep(0.1)
        self.ranks = [self.start(i) for i in range(arguments.ranks)]

    def start(self, i):
        env = dict(self.env, RANK=str(i), WORLD_SIZE=str(self.arguments.ranks), TORCHELASTIC_RUN_ID="soak")
        return subprocess.Popen([self.build / "tests/bench/bench_burst"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)

    def control(self, *words):
        return subprocess.run([self.build / "ctl/tracectl", *words], env=self.env, capture_output=True, text=True, check=False).stdout

    def sample(self, start):
        status = json.loads(self.control("status", "--json"))
        me = status["self"]
        return {
            "s": time.monotonic() - start,
            "mib": resident_mib(self.daemon.pid),
            "store_mib": sum(file.stat().st_size for file in (self.folder / "state/db").rglob("events*") if file.is_file()) / 2**20,
            "cpu_s": (me["cpu_user_ns"] + me["cpu_system_ns"]) / 1e9,
            "workers_s": me["cpu_workers_ns"] / 1e9,
            "events": sum(c["events"] for c in status["collectors"] if c["name"] == "call"),
            "drops": sum(c["drops"] for c in status["collectors"]) + status["store"]["rows_dropped"],
            "windows": [name for name, level in status["levels"].items() if "coverage" in level],
            "rows": status["store"]["rows"],
        }

    def limited(self):
        """Records beyond their rank's part: of live ranks only, and not of marks alone."""
        return sum(rank.get("limited", 0) for rank in json.loads(self.control("ranks", "--json")))

    def all_are_seen(self):
        """Whether each rank has its probes: by some marks of each."""
        before = self.sample(0)["events"]
        for rank in self.ranks:
            rank.stdin.write(f"{10 * MARKS_A_STEP} 1\n")
            rank.stdin.flush()
        made = sum(int(rank.stdout.readline().split()[0]) for rank in self.ranks)
        time.sleep(1)
        return self.sample(0)["events"] - before >= made

    def run(self):
        while json.loads(self.control("status", "--json"))["self"]["ranks"] < self.arguments.ranks:
            if any(rank.poll() is not None for rank in self.ranks):
                sys.exit("a rank has ended at its start")
            time.sleep(0.5)
        for level in filter(None, self.arguments.levels.split(",")):
            print(self.control("set", f"{level}=true").strip(), flush=True)
        while not self.all_are_seen():
            time.sleep(1)
        start, samples = time.monotonic(), []
        seen_before, limited_before = self.sample(start)["events"], self.limited()
        for rank in self.ranks:
            rank.stdin.write(f"{self.arguments.speed * MARKS_A_STEP} {self.seconds}\n")
            rank.stdin.flush()
        print("  s  resident  store   CPU % workers    events     rows   drops", flush=True)
        while time.monotonic() < start + self.seconds and self.daemon.poll() is None:
            time.sleep(EVERY_S)
            now = self.sample(start)
            last = samples[-1] if samples else now | {"s": 0}
            samples.append(now)
            print(f"{now['s']:5.0f} {now['mib']:6.1f} MiB {now['store_mib']:5.0f} MiB {percent(last, now, 'cpu_s'):6.2f} {percent(last, now, 'workers_s'):6.2f} "
                  f"{now['events']:10} {now['rows']:9} {now['drops']:6}", flush=True)
        # The ranks live on: limited() is of live ones.
        marks = sum(int(rank.stdout.readline().split()[0]) for rank in self.ranks)
        time.sleep(3)
        end = self.sample(start)
        end["events"] -= seen_before
        end["limited"] = self.limited() - limited_before
        return samples, marks, end

    def end(self):
        for rank in self.ranks:
            rank.kill()
            rank.wait()
        self.daemon.terminate()
        self.daemon.wait()
        self.log.close()


def judge(samples, marks, end, seconds):
    def mean(from_s, to_s):
        values = [s["mib"] for s in samples if from_s <= s["s"] < to_s]
        return sum(values) / len(values)

    before, after = mean(seconds / 3, 2 * seconds / 3), mean(2 * seconds / 3, seconds + EVERY_S)
    segment_mib = max(b["store_mib"] - a["store_mib"] for a, b in zip(samples, samples[1:])) if len(samples) > 1 else 0
    print(f"resident memory, second and last third: {before:.1f} and {after:.1f} MiB; most {max(s['mib'] for s in samples):.1f}")
    print(f"a page that was not used for a second takes {idle_page_us():.2f} us of CPU time here")
    settled = [s for s in samples if s["s"] >= SETTLED_S]
    if len(settled) > 1:
        own, workers = (percent(settled[0], settled[-1], what) for what in ("cpu_s", "workers_s"))
        print(f"CPU time from second {settled[0]['s']:.0f} on: {own + workers:.2f} %, of which workers {workers:.2f}")
    windows = sorted({level for s in samples for level in s["windows"]})
    print(f"{marks} marks made, {end['events']} seen, {end['drops']} records and rows dropped and {end['limited']} records of ranks beyond their part not sent, "
          f"all counted; levels in windows at times: {', '.join(windows) or 'none'}; {end['cpu_s'] + end['workers_s']:.0f} s of CPU")
    failures = [
        (after > 1.05 * before, "memory grows"),
        (max(s["mib"] for s in samples) > BUDGET_MIB, "memory is above its budget"),
        (max(s["store_mib"] for s in samples) > STORE_MIB + 2 * segment_mib + STORE_MIB / 4, "the store is above its bound"),
        ("L0" not in windows and end["events"] + end["drops"] + end["limited"] < marks, "marks are lost uncounted"),
    ]
    for failed, what in failures:
        if failed:
            print(f"FAILED: {what}")
    return any(failed for failed, _ in failures)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--hours", type=float, default=24)
    parser.add_argument("--speed", type=int, default=50)
    parser.add_argument("--levels", default="L1,L3")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        soak = Soak(arguments.build.resolve(), pathlib.Path(name), arguments)
        try:
            samples, marks, end = soak.run()
            died = soak.daemon.poll() is not None
        finally:
            soak.end()
        if died:
            print((pathlib.Path(name) / "log").read_text(encoding="utf-8")[-2000:])
    sys.exit(died or judge(samples, marks, end, soak.seconds))


if __name__ == "__main__":
    main()
