#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Serves the metrics of many simulated nodes, each under /node/N/metrics, for tests of tracectl fleet.

--jobs jobs of as many nodes each: pipelines of --stages stages, each of whole nodes. All ranks of a synchronous job take equally long for
a step; who works less waits, in backward and in its operations. Counters advance by what happened since the start, so that
a scrape at any moment is right. Faults come from stdin, a JSON object a line:
    {"job": 0, "kind": "rank"|"node"|"stage"|"link"|"none", "at": NUMBER, "growth": 0.08, "activity": "dataloader"}
and replace those before of the job, whose ranks and nodes are numbered from 0; each answer on stdout is the time of the change. Standard library only.
"""
import argparse
import bisect
import http.server
import json
import math
import random
import socketserver
import sys
import threading
import time

PER_NODE = 8
WORK = {"outside": 0.05, "dataloader": 0.05, "forward": 0.30, "backward": 0.48, "zero_grad": 0.02, "optimizer": 0.10}
OPERATIONS = {"all_reduce": "data", "send": "pipeline"}
STEP = 1.04  # s; the work of a rank is 1.00, of the last stage 1.03
BOUNDS = [0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 120]  # as the daemon's


class Job:
    """Since when which fault is there, and what each rank's counters were then."""

    def __init__(self, number, first_node, nodes, stages, noise, seed):
        self.name, self.first_node = f"sim-{number:02d}", first_node
        self.nodes, self.stages, self.noise = nodes, stages, noise
        self.ranks = nodes * PER_NODE
        draw = random.Random(seed * 1000 + number)
        # What ranks differ by, always.
        self.bias = [draw.gauss(0, 0.004) for _ in range(self.ranks)]
        self.begin, self.fault = time.time(), {"kind": "none"}
        self.before = [None] * self.ranks
        self.lock = threading.Lock()
        self.parts_of = {}
        self.template = [self.names(node) for node in range(nodes)]
        self.ticks = [[] for _ in range(self.ranks)]  # (time, sums) of scrapes of the last minute
        self.past = [[] for _ in range(self.ranks)]  # means of minutes

    def stage(self, rank):
        return rank // PER_NODE * self.stages // self.nodes

    def change(self, fault):
        with self.lock:
            now = time.time()
            self.before = [self.sums(rank, now) for rank in range(self.ranks)]
            self.begin, self.fault, self.parts_of = now, fault, {}
            return now

    def hit(self, rank):
        kind, at = self.fault["kind"], self.fault.get("at", 0)
        return kind == "rank" and rank == at or kind == "node" and rank // PER_NODE == at or kind == "stage" and self.stage(rank) == at

    def step(self):
        return STEP * (1 + self.fault.get("growth", 0))

    def parts(self, rank):
        """Of a step: activities, and what the rank waits."""
        own = dict(WORK)
        # The last stage has the loss.
        own["forward"] += self.bias[rank] + (0.03 if self.stages > 1 and self.stage(rank) == self.stages - 1 else 0)
        if self.hit(rank):
            own[self.fault["activity"]] += self.step() - STEP
        wait = max(0, self.step() - sum(own.values()))
        own["backward"] += wait
        return own, wait

    def sums(self, rank, now):
        """steps, step seconds, activities, operations."""
        steps, seconds, total, ops = self.before[rank] or (0, 0, dict.fromkeys(WORK, 0.0), {"all_reduce": 0.0, "send": 0.0})
        total, ops = dict(total), dict(ops)
        done = math.floor((now - self.begin) / self.step())
        # Noise of many steps adds up as their root.
        jitter = self.noise * math.sqrt(done) * math.sin(rank * 12.9898 + done * 78.233)
        if rank not in self.parts_of:
            self.parts_of[rank] = self.parts(rank)
        parts, wait = self.parts_of[rank]
        for activity, s in parts.items():
            total[activity] += done * s
        total["forward"] += jitter
        total["backward"] -= jitter
        # Who transfers over a slow link does so in send; the others wait in their next operation.
        on_link = self.fault["kind"] == "link" and rank // PER_NODE in (self.fault["at"], self.fault["at"] + 1)
        ops["send"] += 0.01 * done + (wait * done if on_link else 0)
        ops["all_reduce"] += 0.04 * done + (0 if on_link else wait * done)
        return steps + done, seconds + done * self.step(), total, ops

    def minute(self, rank, now, sums):
        """As daemon/metrics/metrics_minute.c: means a step of the last minute, and their lower quartile. None: unknown."""
        ticks, past = self.ticks[rank], self.past[rank]
        while len(ticks) > 1 and now - ticks[1][0] >= 60:
            ticks.pop(0)
        means = usual = None
        if ticks and sums[0] > ticks[0][1][0]:
            then, steps = ticks[0][1], sums[0] - ticks[0][1][0]
            acts = [sums[2][activity] - then[2][activity] for activity in WORK]
            step = (sums[1] - then[1]) / steps
            ops = [(sums[3][operation] - then[3][operation]) / steps for operation in OPERATIONS]
            means = [step, sum(ops)] + [step * act / sum(acts) for act in acts] + ops
            if now - ticks[0][0] >= 60 and (not past or now - past[-1][0] >= 60):
                past.append((now, means))
                del past[:-60]
        ticks.append((now, sums))
        if past:
            usual = [sorted(column)[(len(past) - 1) // 4] for column in zip(*(row for _, row in past))]
        return means, usual

    def names(self, node):
        """The page of a node with %s for each value: names and labels remain the same."""
        name = f"node-{self.first_node + node:04d}"
        out = [f'ranktrace_build_info{{version="sim",node="{name}"}} 1']
        for rank in range(node * PER_NODE, (node + 1) * PER_NODE):
            local = rank % PER_NODE
            who = f'job="{self.name}",rank="{rank}",pid="{1000 + local}"'
            out.append(f'ranktrace_rank_info{{{who},local_rank="{local}",world_size="{self.ranks}",node="{name}",card="{local}",pod="",uid="1000"}} 1')
            out.append(f"ranktrace_rank_steps_total{{{who}}} %d")
            out += [f'ranktrace_rank_step_seconds_bucket{{{who},le="{bound}"}} %d' for bound in BOUNDS + ["+Inf"]]
            out.append(f"ranktrace_rank_step_seconds_sum{{{who}}} %.6f")
            out.append(f"ranktrace_rank_step_seconds_count{{{who}}} %d")
            out += [f'ranktrace_rank_activity_seconds_total{{{who},activity="{activity}"}} %.6f' for activity in WORK]
            for operation, group in OPERATIONS.items():
                out.append(f'ranktrace_collective_seconds_total{{{who},group="{group}",operation="{operation}",size="16Mi",tier="host"}} %.6f')
            for kind in ("minute", "usual"):
                out.append(f"ranktrace_rank_{kind}_step_seconds{{{who}}} %s")
                out.append(f"ranktrace_rank_{kind}_operations_seconds{{{who}}} %s")
                out += [f'ranktrace_rank_{kind}_activity_seconds{{{who},activity="{activity}"}} %s' for activity in WORK]
        for kind in ("minute", "usual"):
            out += [f'ranktrace_node_{kind}_operation_seconds{{job="{self.name}",group="{group}",operation="{operation}"}} %s'
                    for operation, group in OPERATIONS.items()]
        return "\n".join(out) + "\n"

    def page(self, node):
        now, values = time.time(), []
        with self.lock:
            rows = [self.sums(rank, now) for rank in range(node * PER_NODE, (node + 1) * PER_NODE)]
            at = bisect.bisect_left(BOUNDS, self.step())
            minutes = [self.minute(node * PER_NODE + i, now, row) for i, row in enumerate(rows)]
        unknown, parts = [float("nan")] * (2 + len(WORK) + len(OPERATIONS)), 2 + len(WORK)
        for (steps, seconds, total, ops), both in zip(rows, minutes):
            values += [steps] + [0] * at + [steps] * (len(BOUNDS) + 1 - at) + [seconds, steps]
            values += [total[activity] for activity in WORK] + [ops["all_reduce"], ops["send"]]
            for means in both:
                values += ["%.6g" % value for value in (means or unknown)[:parts]]
        for column in zip(*minutes):  # minute, usual
            known = [means for means in column if means]
            for i in range(len(OPERATIONS)):
                values.append("%.6g" % (sum(means[parts + i] for means in known) / len(known)) if known else "NaN")
        return (self.template[node] % tuple(values)).encode()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=64)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--stages", type=int, default=4)
    parser.add_argument("--noise", type=float, default=0.01, help="s of a step")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--port", type=int, default=19797)
    options = parser.parse_args()
    each = options.nodes // options.jobs
    jobs = [Job(i, i * each, each, options.stages, options.noise, options.seed) for i in range(options.jobs)]

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            try:
                node = int(self.path.split("/")[2])
                body = jobs[node // each].page(node % each)
            except (IndexError, ValueError):
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
        daemon_threads = True
        request_queue_size = 4096

        def handle_error(self, request, client_address):
            # A store that ends closes its connections.
            if not isinstance(sys.exc_info()[1], ConnectionError):
                super().handle_error(request, client_address)

    server = Server(("127.0.0.1", options.port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print("ready", flush=True)
    for line in sys.stdin:
        fault = json.loads(line)
        print(jobs[fault["job"]].change(fault), flush=True)


if __name__ == "__main__":
    main()
