#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Faults in simulated nodes (nodes.py), a real Prometheus that scrapes them, and what tracectl fleet says.

    tests/fleet/run.py BUILD [--nodes 64] [--jobs 4] [--faults 20]

Each job has a fault at a time; rounds follow each other. Prints a row a fault, and recall, precision, delay, time and memory
of a run. Needs prometheus (Debian: package prometheus), which takes 43 s to install: it is not run by CI.
"""
import argparse
import json
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


def metric(api, name):
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(f"{api}/metrics") as page:
        for line in page.read().decode().splitlines():
            if line.startswith(name + " "):
                return float(line.split()[1])
    return 0.0


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


def config(options, port):
    targets = "\n".join(f'      - {{targets: ["127.0.0.1:{port}"], labels: {{__metrics_path__: "/node/{n}/metrics", instance: "n{n}"}}}}'
                        for n in range(options.nodes))
    return (f'global: {{scrape_interval: 15s, evaluation_interval: 15s}}\nrule_files: ["{SOURCE}/packaging/prometheus/ranktrace-fleet.rules.yml"]\n'
            f"scrape_configs:\n  - job_name: ranktrace\n    honor_labels: true\n    static_configs:\n{targets}\n")


def measure(options, draw, api, sim):
    run, begin, found = Run(options, api, sim), time.time(), []
    time.sleep(options.learn)
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
        print(f"delay: median {delays[len(delays) // 2]:.0f} s, 95 % {delays[min(len(delays) - 1, int(0.95 * len(delays)))]:.0f} s, most {delays[-1]:.0f} s")
    print(f"a run: median {sorted(run.seconds)[len(run.seconds) // 2]:.2f} s, most {max(run.seconds):.2f} s, memory {usage.ru_maxrss >> 10} MiB")
    print(f"prometheus: {metric(api, 'prometheus_tsdb_head_series'):.0f} series, {metric(api, 'process_resident_memory_bytes') / 2**20:.0f} MiB, "
          f"{100 * metric(api, 'process_cpu_seconds_total') / ran:.0f} % of a CPU in {ran:.0f} s; load {os.getloadavg()[1]:.1f}, {os.cpu_count()} CPUs")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--nodes", type=int, default=64)
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--stages", type=int, default=4)
    parser.add_argument("--faults", type=int, default=20)
    parser.add_argument("--learn", type=float, default=150, help="s without a fault at first")
    parser.add_argument("--lasts", type=float, default=75, help="s of a fault")
    parser.add_argument("--pause", type=float, default=105, help="s after a round")
    parser.add_argument("--pace", type=float, default=5, help="s between two runs")
    parser.add_argument("--since", default="30m")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if not shutil.which("prometheus"):
        print("skipped: no prometheus here (package prometheus)")
        sys.exit(77)
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
        pathlib.Path(work, "prometheus.yml").write_text(config(options, port))
        with open(os.path.join(work, "prometheus.err"), "w") as errors:
            children.append(subprocess.Popen(["prometheus", f"--config.file={work}/prometheus.yml", f"--storage.tsdb.path={work}/tsdb",
                                              f"--web.listen-address=127.0.0.1:{port + 1}"], stderr=errors))
        measure(options, draw, f"http://127.0.0.1:{port + 1}", sim)
    finally:
        for child in reversed(children):
            child.terminate()
            child.wait()
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
