#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares stacks that stack_reader printed with what truth.py said of itself at that moment.

judge.py SOURCE < LINES
judge.py --dump DUMP < LINES    with a dump of faulthandler: each thread, each frame

An exact truth: all frames outside publish() equal in function, file, line and first line. A path: the functions p_N on
the stack are those that were entered and not left; one more may be at its first or last line. In both, each p_N that
called another one is at a line that calls this one, and a function made by exec is at the line that its name contains.
Exit status 1: a stack is wrong.
"""
import collections
import json
import re
import sys

WAITS = {"spin", "nap", "lock", "wait_select", "key", "hashes"}


def short(name):
    return name.rsplit(".", 1)[-1]


class Judge:
    def __init__(self, source_path):
        with open(source_path) as file:
            self.lines = file.read().split("\n")
        self.path = source_path.rsplit("/", 1)[-1]
        self.counts = collections.Counter()
        self.wrong = []
        self.tries = collections.Counter()
        self.round_ns = []
        self.stack_ns = []

    def number(self, frame):
        """N of p_N; None for other functions."""
        if frame[1].rsplit("/", 1)[-1] != self.path:
            return None
        match = re.match(r"p_(\d+)$", short(frame[0]))
        return int(match.group(1)) if match else None

    def text(self, line):
        """The statement that begins at or before this line and goes on in deeper lines."""
        return " ".join(self.lines[max(line - 3, 0):line + 2]) if self.continued(line) else self.lines[line - 1]

    def continued(self, line):
        return any(self.lines[i].endswith("( ") for i in range(max(line - 3, 0), min(line, len(self.lines))))

    def check_lines(self, frames):
        outer = None
        for frame in frames:
            number = self.number(frame)
            match = re.match(r"\D_(\d+)$", short(frame[0]))
            if number is None and match and frame[1] == short(frame[0]):
                self.counts["functions of exec"] += 1
                if int(match.group(1)) != frame[2] or frame[4] != frame[2]:
                    return "exec: %s" % frame
            if number is None:
                continue
            if not re.search(r"def p_%d\(" % number, self.lines[frame[4] - 1]):
                return "first line: %s" % frame
            if outer and not re.search(r"\bp_%d\b" % number, self.text(outer[2])):
                return "line %d does not call p_%d" % (outer[2], number)
            outer = frame
        return None

    def check_path(self, frames, path):
        found = [n for n in map(self.number, frames) if n is not None]
        if found == path or found[:-1] == path:
            return None
        return "functions %s, truth %s" % (found, path)

    def check_exact(self, frames, truth):
        truth = truth[::-1]
        found = [[f[0], f[1], f[2], f[4]] for f in frames]
        if found[:len(truth)] != truth:
            return "frames %s, truth %s" % (found, truth)
        inner = [f[0] for f in found[len(truth):]]
        if not inner or inner[0] != "publish" or (len(inner) > 1 and inner[1] not in WAITS):
            return "inner frames %s" % inner
        return None

    def stack(self, row):
        self.counts["stacks"] += 1
        self.counts["state " + row["state"]] += 1
        self.tries[row["tries"]] += 1
        self.stack_ns.append(row["ns"])
        problem = self.check_lines(row["frames"])
        if not problem and row.get("mode") == 2:
            self.counts["exact"] += 1
            problem = self.check_exact(row["frames"], json.loads(bytes.fromhex(row["truth"])))
        elif not problem and row.get("mode") == 1:
            self.counts["path"] += 1
            problem = self.check_path(row["frames"], list(bytes.fromhex(row["truth"])))
        if problem:
            self.counts["wrong"] += 1
            self.wrong.append((problem, row))

    def line(self, row):
        if "frames" in row:
            self.stack(row)
        elif "refused" in row:
            self.counts["refused"] += 1
            self.counts["refused " + row["refused"]] += 1
        elif "error" in row:
            self.counts["thread ended"] += 1
        elif "round_ns" in row:
            self.round_ns.append(row["round_ns"])
        else:
            print(json.dumps(row))

    def report(self):
        for name in sorted(self.counts):
            print("%-22s %d" % (name, self.counts[name]))
        for name, values in (("a stack", self.stack_ns), ("a round", self.round_ns)):
            if values:
                values.sort()
                print("%-22s median %.0f us, 99 %% %.0f us, most %.0f us" % (
                    name, values[len(values) // 2] / 1e3, values[len(values) * 99 // 100] / 1e3, values[-1] / 1e3))
        print("tries: %s" % dict(sorted(self.tries.items())[:8]))
        for problem, row in self.wrong[:5]:
            print("WRONG %s\n      %s" % (problem, json.dumps(row)[:3000]))
        return 1 if self.wrong or not self.counts["exact"] or not self.counts["path"] else 0


def read_dump(path):
    """Frames of each thread, outermost first: file, line, name; and the threads whose dump ends early. That of 3.14 takes
    the interpreter's own frame of a call of __init__ for an invalid one."""
    threads, current, cut = {}, None, set()
    with open(path) as file:
        for line in file:
            thread = re.match(r"(?:Current thread|Thread) 0x([0-9a-f]+)", line)
            frame = re.match(r'  File "(.*)", line (\d+|\?\?\?) in (.*)$', line)
            if thread:
                number = int(thread.group(1), 16)
                current = threads.setdefault(number, [])
            elif re.match(r"  (<invalid frame>|<freed frame>|\.\.\.)$", line):
                cut.add(number)
            elif frame and frame.group(2) != "???":
                name = frame.group(3).encode().decode("unicode_escape")
                current.insert(0, (frame.group(1).encode().decode("unicode_escape"), int(frame.group(2)), name))
    return threads, cut


def judge_dump(path):
    expected, cut = read_dump(path)
    found = {}
    for line in sys.stdin:
        row = json.loads(line)
        if "frames" in row:
            found[row["pthread"]] = [(f[1], f[2], short(f[0])) for f in row["frames"]]
    for thread in cut & found.keys():
        found[thread] = found[thread][-len(expected[thread]):]
    wrong = [(thread, expected.get(thread), found.get(thread)) for thread in expected.keys() | found.keys()
             if expected.get(thread) != found.get(thread)]
    print("faulthandler: %d threads, %d frames, %d threads cut, %d threads differ" % (
        len(expected), sum(map(len, expected.values())), len(cut), len(wrong)))
    for thread, theirs, ours in wrong[:3]:
        print("WRONG %x\n  faulthandler %s\n  ours         %s" % (thread, theirs, ours))
    return 1 if wrong or len(expected) < 2 else 0


def main():
    if sys.argv[1] == "--dump":
        sys.exit(judge_dump(sys.argv[2]))
    judge = Judge(sys.argv[1])
    for line in sys.stdin:
        judge.line(json.loads(line))
    sys.exit(judge.report())


if __name__ == "__main__":
    main()
