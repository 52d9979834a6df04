#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Faults in simulated nodes (nodes.py), a real store that scrapes them, and what tracectl fleet says.

    tests/fleet/run.py BUILD [--store prometheus|victoria] [--nodes 64] [--jobs 4] [--faults 20]

Each job has a fault at a time; rounds follow each other. Prints a row a fault, and recall, precision, delay, time and memory
of a run, and what the store needs. prometheus, victoria: Debian's packages prometheus and victoria-metrics. Not run by CI.
"""
import argparse
import json
import math
import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parent.parent
KINDS = ["rank", "node", "stage", "link", "rank"]
GROWTHS = [0.08, 0.10, 0.15, 0.25, 0.5, 1.0, 3.0]


def get(url, **options):
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(urllib.request.Request(url, **options)) as answer:
        return answer.read().decode()


def metric(api, name):
    """The sum of its samples."""
    lines = [line for line in get(f"{api}/metrics").splitlines() if line.startswith(name) and line[len(name)] in " {"]
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines)


def of_process(pid):
    """CPU seconds so far and the most memory, MiB."""
    field = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    peak = [line for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM")][0]
    return (int(field[11]) + int(field[12])) / os.sysconf("SC_CLK_TCK"), int(peak.split()[1]) / 1024


def size_of(folder):
    return sum(path.stat().st_size for path in pathlib.Path(folder).rglob("*") if path.is_file())


class Prometheus:
    def __init__(self, options, port, work):
        self.api, self.work = f"http://127.0.0.1:{port + 1}", work
        pathlib.Path(work, "store.yml").write_text(
            "global: {scrape_interval: 15s}\n" + scrape(options, port))
        self.commands = [["prometheus", f"--config.file={work}/store.yml", f"--storage.tsdb.path={work}/data", "--web.enable-admin-api",
                          f"--web.listen-address=127.0.0.1:{port + 1}"]]

    def cost(self):
        """Series, samples, and what the samples take on a disk: a block of all of them, without the log before it."""
        series = metric(self.api, "prometheus_tsdb_head_series")
        samples = metric(self.api, "prometheus_tsdb_head_samples_appended_total")
        get(f"{self.api}/api/v1/admin/tsdb/snapshot", method="POST")
        block = size_of(f"{self.work}/data/snapshots")
        return series, samples, block, size_of(f"{self.work}/data/wal")


class Victoria:
    def __init__(self, options, port, work):
        self.api, self.work = f"http://127.0.0.1:{port + 1}", work
        pathlib.Path(work, "store.yml").write_text("global: {scrape_interval: 15s}\n" + scrape(options, port))
        self.commands = [["victoria-metrics", f"-promscrape.config={work}/store.yml", f"-storageDataPath={work}/data",
                          f"-httpListenAddr=127.0.0.1:{port + 1}"]]

    def cost(self):
        get(f"{self.api}/internal/force_flush")
        get(f"{self.api}/internal/force_merge")
        samples = metric(self.api, "vm_rows_inserted_total")
        series = metric(self.api, 'vm_new_timeseries_created_total')
        time.sleep(5)
        return series, samples, size_of(f"{self.work}/data/data") + size_of(f"{self.work}/data/indexdb"), 0


STORES = {"prometheus": Prometheus, "victoria": Victoria}


def right(fault, verdict, nodes, stages, first):
    """Whether the verdict names the fault, in a job of so many nodes, the first of them numbered."""
    kind, at = fault["kind"], fault["at"]
    if kind == "rank":
        return verdict["kind"] == "slow_rank" and verdict["first_rank"] == at
    if kind == "node":
        return verdict["kind"] == "slow_node" and verdict["nodes"] == [f"node-{first + at:04d}"]
    if kind == "stage":
        per = nodes * 8 // stages
        return verdict["kind"] == "slow_stage" and (verdict["first_rank"], verdict["last_rank"]) == (at * per, (at + 1) * per - 1)
    return verdict["kind"] == "slow_link" and verdict["nodes"] == [f"node-{first + at:04d}", f"node-{first + at + 1:04d}"]


class Run:
    def __init__(self, options, api, sim):
        self.options, self.api, self.sim = options, api, sim
        self.fleet = str(pathlib.Path(options.build).resolve() / "libexec/ranktrace/fleet")
        self.each = options.nodes // options.jobs
        self.now = {}  # job: [fault, since, until, delay]
        self.seconds, self.named, self.right, self.failed = [], 0, 0, 0

    def change(self, fault):
        self.sim.stdin.write(json.dumps(fault) + "\n")
        self.sim.stdin.flush()
        return float(self.sim.stdout.readline())

    def read(self):
        begin = time.time()
        done = subprocess.run([self.fleet, "--url", self.api, "--since", self.options.since, "--json"], capture_output=True, text=True)
        self.seconds.append(time.time() - begin)
        if done.returncode:
            self.failed += 1
            print(f"a run failed: {done.stderr.strip()}", flush=True)
            return
        for verdict in json.loads(done.stdout)["fleet"]:
            job = int(verdict["job"][4:])
            row = self.now.get(job)
            # The last minute, a scrape and a rule before now hold what ended within them.
            lasts = row and begin < row[2] + 90
            self.named += 1
            if lasts and right(row[0], verdict, self.each, self.options.stages, job * self.each):
                self.right += 1
                row[3] = row[3] or time.time() - row[1]
            else:
                print(f"   wrong: {verdict['sentence']}", flush=True)

    def reads(self, until):
        while time.time() < until:
            begin = time.time()
            self.read()
            time.sleep(max(0, min(until - time.time(), begin + self.options.pace - time.time())))

    def round(self, faults, draw):
        for fault in faults:
            since = self.change(fault)
            self.now[fault["job"]] = [fault, since, float("inf"), None]
            time.sleep(draw.uniform(0, 30 / len(faults)))
        self.reads(time.time() + self.options.lasts)
        for fault in faults:
            self.now[fault["job"]][2] = self.change({"job": fault["job"], "kind": "none"})
        rows = list(self.now.values())
        # What ended is seen for a while; then every accusation is wrong.
        self.reads(time.time() + self.options.pause)
        for fault, _, _, delay in rows:
            print(f"job {fault['job']}: {fault['kind']} {fault['at']} +{100 * fault['growth']:.0f} % {fault['activity']}: "
                  + (f"after {delay:.0f} s" if delay else "not found"), flush=True)
        self.now = {}
        return [row[3] for row in rows]


def scrape(options, port):
    targets = "\n".join(f'      - {{targets: ["127.0.0.1:{port}"], labels: {{__metrics_path__: "/node/{n}/metrics", instance: "n{n}"}}}}'
                        for n in range(options.nodes))
    return f"scrape_configs:\n  - job_name: ranktrace\n    honor_labels: true\n    static_configs:\n{targets}\n"


def measure(options, draw, store, sim, pids):
    run, begin, found = Run(options, store.api, sim), time.time(), []
    # Nobody is slow yet: every accusation is wrong.
    run.reads(time.time() + options.learn)
    kinds = [KINDS[i % len(KINDS)] for i in range(options.faults)]
    growths = [GROWTHS[i % len(GROWTHS)] for i in range(options.faults)]
    for i in range(0, options.faults, options.jobs):
        faults = []
        for j in range(i, min(i + options.jobs, options.faults)):
            most = {"rank": run.each * 8, "node": run.each, "stage": options.stages, "link": run.each - 1}[kinds[j]]
            activity = "backward" if kinds[j] == "link" else draw.choice(["dataloader", "forward", "backward"])
            faults.append({"job": j - i, "kind": kinds[j], "at": draw.randrange(most), "growth": growths[j], "activity": activity})
        found += run.round(faults, draw)
    ran, delays = time.time() - begin, sorted(d for d in found if d)
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{options.nodes} nodes, {options.nodes * 8} ranks, {options.jobs} jobs: {len(delays)} of {len(found)} faults found; of {run.named} verdicts "
          f"in {len(run.seconds)} runs {run.right} right; {run.failed} runs failed")
    if delays:
        print(f"delay: median {delays[len(delays) // 2]:.0f} s, 95 % {delays[math.ceil(0.95 * len(delays)) - 1]:.0f} s, most {delays[-1]:.0f} s")
    print(f"a run: median {sorted(run.seconds)[len(run.seconds) // 2]:.2f} s, most {max(run.seconds):.2f} s, memory {usage.ru_maxrss >> 10} MiB")
    for name, pid in pids:
        cpu_s, peak = of_process(pid)
        print(f"{name}: {peak:.0f} MiB at most, {100 * cpu_s / ran:.0f} % of a CPU in {ran:.0f} s")
    print(f"load {os.getloadavg()[1]:.1f}, {os.cpu_count()} CPUs")
    series, samples, block, log = store.cost()
    print(f"{series:.0f} series, {samples:.0f} samples, {block / 2**20:.0f} MiB: {block / max(1, samples):.2f} bytes a sample; log {log / 2**20:.0f} MiB")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--nodes", type=int, default=64)
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--stages", type=int, default=4)
    parser.add_argument("--faults", type=int, default=20)
    parser.add_argument("--learn", type=float, default=150, help="s without a fault at first; the daemons need 60 for their usual")
    parser.add_argument("--lasts", type=float, default=75, help="s of a fault")
    parser.add_argument("--pause", type=float, default=105, help="s after a round")
    parser.add_argument("--pace", type=float, default=5, help="s between two runs")
    parser.add_argument("--since", default="1h")
    parser.add_argument("--store", choices=STORES, default="prometheus")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.nodes % (options.jobs * options.stages):
        parser.error("--nodes: stages are of whole nodes, so a multiple of jobs times stages")
    # With a limit of time, too, nothing is left running.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    draw = random.Random(options.seed)
    port = 20000 + os.getpid() % 10000
    work = tempfile.mkdtemp(prefix="fleet-sim.")
    children = []
    try:
        sim = subprocess.Popen([sys.executable, str(HERE / "nodes.py"), "--nodes", str(options.nodes), "--jobs", str(options.jobs), "--stages",
                                str(options.stages), "--port", str(port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        children.append(sim)
        sim.stdout.readline()
        store, pids = STORES[options.store](options, port, work), [("simulator", sim.pid)]
        for command in store.commands:
            if not shutil.which(command[0]):
                print(f"skipped: no {command[0]} here")
                sys.exit(77)
        for command in store.commands:
            with open(os.path.join(work, f"{pathlib.Path(command[0]).name}.err"), "w") as errors:
                children.append(subprocess.Popen(command, stdout=errors, stderr=errors))
            pids.append((pathlib.Path(command[0]).name, children[-1].pid))
            time.sleep(2)
        measure(options, draw, store, sim, pids)
    finally:
        for child in reversed(children):
            child.terminate()
            child.wait()
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
