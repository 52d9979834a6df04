#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the samples of a profile with what truth.py logged of its threads ("log").

judge_samples.py SOURCE LOG OFFSET LEAST < SAMPLES    tracectl query --json: start_ns, weight_ns, kind, thread_id, frames, cut
OFFSET: CLOCK_MONOTONIC to UTC, ns. LEAST: samples of a known stack that there must be.

A sample within a wait of truth.py has the Python frames of that wait. At most one in twenty has no stack. In every sample each p_N that called another one is
at a line that calls it, and a function made by exec is at the line that its name says. Exit status 1: one is wrong.
"""
import bisect
import collections
import json
import re
import sys

from judge import WAITS, short

REFUSED_ONE_IN = 20
FRAME = re.compile(r"(python|native|kernel) (.*?)(?: \((.*?)(?::(\d+))?\))?$")


class Samples:
    def __init__(self, source_path, log_path, offset_ns):
        with open(source_path) as file:
            self.lines = file.read().split("\n")
        self.path = source_path
        self.offset_ns = offset_ns
        self.waits = collections.defaultdict(list)
        with open(log_path) as file:
            for line in file:
                thread, start_ns, end_ns, stack = json.loads(line)
                self.waits[thread].append((start_ns, end_ns, stack[::-1]))
        self.counts = collections.Counter()
        self.wrong = []

    def wait(self, sample):
        """The wait that a sample lies in. off_cpu: it began to wait within; its end may be late."""
        at_ns = sample["start_ns"] - self.offset_ns
        waits = self.waits[sample["thread_id"]]
        i = bisect.bisect_right(waits, (at_ns, float("inf"))) - 1
        # The offset is read once; the log is written by two calls around the wait.
        margin_ns = 200000
        return waits[i] if i >= 0 and waits[i][0] + margin_ns < at_ns < waits[i][1] - margin_ns else None

    def text(self, line):
        return " ".join(self.lines[max(line - 3, 0):line + 2])

    def check_lines(self, frames):
        outer = None
        for function, path, line in frames:
            match = re.match(r"\D_(\d+)$", short(function))
            if path == short(function) and match:
                self.counts["functions of exec"] += 1
                if int(match.group(1)) != line:
                    return "exec: %s at %d" % (function, line)
            match = re.match(r"p_(\d+)$", short(function)) if path == self.path else None
            if not match:
                continue
            if outer and not re.search(r"\bp_%s\b" % match.group(1), self.text(outer)):
                return "line %d does not call %s" % (outer, function)
            outer = line
        return None

    def check_wait(self, frames, truth, cut):
        expected = [(name, path, line) for name, path, line, _ in truth]
        names = [short(frame[0]) for frame in frames]
        if "publish" not in names:
            return "no publish: %s" % (names,)
        at = len(names) - 1 - names[::-1].index("publish")
        found = frames[:at]
        if found != (expected[-len(found):] if cut else expected):
            return "frames %s, truth %s" % (found, expected)
        if names[at + 1:at + 2] and names[at + 1] not in WAITS:
            return "inner frames %s" % names[at:]
        return None

    def sample(self, sample):
        self.counts[sample["kind"]] += 1
        if not sample["frames"]:
            self.counts["%s refused" % sample["kind"]] += 1
            return
        frames = []
        for line in sample["frames"].split("\n"):
            kind, function, path, number = FRAME.match(line).groups()
            if kind == "python":
                frames.append((function, path, int(number or 0)))
            else:
                self.counts["%s frames" % kind] += 1
        if not frames:
            self.counts["without Python frames"] += 1
            return
        wait = self.wait(sample)
        problem = self.check_lines(frames)
        if not problem and wait:
            self.counts["%s of a known stack" % sample["kind"]] += 1
            problem = self.check_wait(frames, wait[2], (sample["cut"] or 0) & 1)
        if problem:
            self.wrong.append((problem, sample))

    def report(self, least):
        for name in sorted(self.counts):
            print("%-28s %d" % (name, self.counts[name]))
        print("%-28s %d" % ("wrong", len(self.wrong)))
        for problem, sample in self.wrong[:5]:
            print("WRONG %s\n      %s" % (problem[:1500], json.dumps(sample)[:1500]))
        known = min(self.counts["%s of a known stack" % kind] for kind in ("on_cpu", "off_cpu"))
        if known < least:
            print("only %d samples of a known stack" % known)
        refused = sum(self.counts["%s refused" % kind] for kind in ("on_cpu", "off_cpu"))
        if refused * REFUSED_ONE_IN > self.counts["on_cpu"] + self.counts["off_cpu"]:
            print("%d samples have no stack" % refused)
            known = 0
        return 1 if self.wrong or known < least else 0


def main():
    samples = Samples(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    for sample in json.load(sys.stdin):
        samples.sample(sample)
    sys.exit(samples.report(int(sys.argv[4])))


if __name__ == "__main__":
    main()
