#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stacks that another sampler reads of the same programs, beside ours: Austin (github.com/P403n1x87/austin), which reads the
memory of a running process from outside, too, and stops nothing.

peer.py AUSTIN READER [SECONDS [PYTHON]]

First of truth.py when it is stopped, where faulthandler says what is right; then of truth.py while it runs. A stack is
impossible if a function p_N is called from a line that calls another one, or a function made by exec is not at its line.
What a stack takes of the sampler's processor time is that of the whole program, its start included.
"""
import json
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
from judge import Judge, read_dump, short  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent


def timed(*command):
    """Its output, and the processor time that it took, in s."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    out = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return out, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def start(python, work, seconds, *words):
    process = subprocess.Popen([python, str(HERE / "truth.py"), str(work / "state"), str(work / "source.py"), str(seconds), "7", *words],
                               stdout=subprocess.PIPE, text=True)
    process.stdout.readline()
    return process


def plain(text):
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def where(text):
    """Frames of each thread in the output of `austin -w`, outermost first: file, line, name."""
    threads, current = {}, None
    for line in plain(text).split("\n"):
        thread = re.search(r"Thread \d+:(\d+)", line)
        frame = re.match(r"\s+(.*) \((.*):(\d+)\)$", line)
        if thread:
            current = threads.setdefault(int(thread.group(1)), [])
        elif frame and current is not None:
            current.append((frame.group(2), int(frame.group(3)), short(frame.group(1))))
    return threads


def stopped(austin, reader, python, work):
    process = start(python, work, 60, "stop")
    while "T (stopped)" not in pathlib.Path("/proc/%d/status" % process.pid).read_text():
        time.sleep(0.05)
    theirs, theirs_s = timed(austin, "-w", str(process.pid))
    ours, ours_s = timed(reader, str(process.pid), "1", "0")
    process.kill()
    process.wait()
    truth, cut = read_dump(str(work / "state.dump"))
    rows = [row for row in map(json.loads, ours.splitlines()) if "frames" in row and row["pthread"] not in cut]
    theirs = where(theirs)
    ours_right = sum([(f[1], f[2], short(f[0])) for f in row["frames"]] == truth[row["pthread"]] for row in rows)
    theirs_right = sum(theirs.get(row["tid"]) == truth[row["pthread"]] for row in rows)
    lines_right = sum([f[1] for f in theirs.get(row["tid"], [])] == [f[1] for f in truth[row["pthread"]]] for row in rows)
    print("stopped: of %d threads, %d frames, right: ours %d, theirs %d (lines alone, without names: %d); processor time %.1f and %.1f ms" % (
        len(rows), sum(len(row["frames"]) for row in rows), ours_right, theirs_right, lines_right, ours_s * 1e3, theirs_s * 1e3))


class Count:
    """Stacks of one sampler."""

    def __init__(self, name, work):
        self.name, self.judge = name, Judge(str(work / "source.py"))
        self.stacks = self.impossible = self.begun = self.refused = 0
        self.took_s = 0.0

    def add(self, frames):
        self.stacks += 1
        self.impossible += self.judge.check_lines(frames) is not None
        self.begun += short(frames[0][0]) not in ("<module>", "_bootstrap")

    def __str__(self):
        return "running: %-6s %6d stacks; impossible %d; without their outer frames %d; refused %d; processor time %.0f us a stack" % (
            self.name, self.stacks, self.impossible, self.begun, self.refused, self.took_s * 1e6 / max(self.stacks, 1))


def theirs_running(austin, python, work, seconds):
    process = start(python, work, seconds + 4, "log")
    output, took_s = timed(austin, "-i", "1ms", "-x", str(seconds), "-p", str(process.pid))
    process.wait()
    count = Count("theirs", work)
    count.took_s = took_s
    first = {int(name): line for line, text in enumerate(count.judge.lines, 1) for name in re.findall(r"def p_(\d+)\(", text)}
    for line in output.splitlines():
        match = re.match(r"P\d+;T\d+:\d+;(.*) \d+$", line)
        parts = [part.rsplit(":", 2) for part in match.group(1).split(";")] if match else []
        frames = [[f[1], f[0], int(f[2]), 0, int(f[2])] for f in parts if len(f) == 3 and f[2].isdigit()]
        for frame in frames:  # the first line is not there
            number = count.judge.number(frame)
            frame[4] = frame[4] if number is None else first[number]
        if frames:
            count.add(frames)
    return count


def ours_running(reader, python, work, seconds):
    process = start(python, work, seconds + 4, "log")
    end = time.monotonic() + seconds
    count = Count("ours", work)
    while time.monotonic() < end:
        output, took_s = timed(reader, str(process.pid), "500", "1000")
        count.took_s += took_s
        for row in map(json.loads, output.splitlines()):
            count.refused += "refused" in row
            if row.get("frames"):
                count.add(row["frames"])
    process.kill()
    process.wait()
    return count


def main():
    austin, reader = map(os.path.abspath, sys.argv[1:3])
    seconds = int(sys.argv[3]) if len(sys.argv) > 3 else 15
    python = sys.argv[4] if len(sys.argv) > 4 else "/usr/bin/python3"
    print(subprocess.run([austin, "--version"], capture_output=True, text=True, check=True).stdout.strip(), "beside", python)
    with tempfile.TemporaryDirectory() as folder:
        stopped(austin, reader, python, pathlib.Path(folder))
        print(ours_running(reader, python, pathlib.Path(folder), seconds))
        print(theirs_running(austin, python, pathlib.Path(folder), seconds))


if __name__ == "__main__":
    main()
