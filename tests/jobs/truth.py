# SPDX-License-Identifier: Apache-2.0
"""What a job's faults cost, from the ranks' own logs: nothing here comes from ranktrace.

A job's step lasts the mean over its ranks of the time between two ends of steps. A fault lost what the job's steps took beyond what
the clean steps around it usually take (usual_of()), of the same class (ordinary, with a checkpoint, with an evaluation, by length of the samples).
"""
import bisect
import gzip
import json
import os
import statistics
import sys

WARM_NS = 12 * 10**9     # after the job's start, in which no time counts as clean
AROUND_NS = 60 * 10**9   # clean steps this near a fault define what a step took without it
AROUND_LEAST = 20        # steps; with fewer, all clean steps of the class
DRAIN_NS = 15 * 10**9    # after a fault has ended: what workers have prepared slowly may last this long
GROUP = 20               # steps of which the mean is one measure; on a card two of its waits
GROUPS_LEAST = 5         # of which the median is known; with fewer, the median of the steps
PAD_NS = 3 * 10**9       # after a fault, in which time is neither lost nor clean
# Severities, as docs and manual page have them: (growth in percent, seconds).
NOTICE = ((5, 10), (50, 5))


def read_log(path):
    opener = gzip.open if path.endswith(".gz") else open
    steps, head = [], None
    with opener(path, "rt", encoding="utf-8") as file:
        for line in file:
            try:
                row = json.loads(line)
            except ValueError:  # cut off: the rank was killed
                break
            if head is None:
                head = row
            else:
                steps.append(row)
    return head, steps


class Steps:
    """Steps of a job: begin and end of each (mean over ranks), class, and what faults took in it on each rank."""

    def __init__(self, logs, ranks, on_card=False):
        count = min(len(logs[r][1]) for r in ranks)
        self.begin, self.end, self.klass, self.took = [], [], [], []
        for i in range(1, count):
            rows = [logs[r][1][i] for r in ranks]
            before = [logs[r][1][i - 1] for r in ranks]
            self.begin.append(sum(b["e"] for b in before) // len(before))
            self.end.append(sum(row["e"] for row in rows) // len(rows))
            # A card works on while its host goes on: what a sample takes there does not show in its own step.
            length = 0 if on_card else max(row.get("l", 0) for row in rows)
            klass = max((row["c"] for row in rows), key=len)
            self.klass.append("%s:%d" % (klass, length) if length else klass)
            took = {}
            for rank, row in zip(ranks, rows):
                for fault, seconds in row.get("f", {}).items():
                    took.setdefault(fault, {})[rank] = seconds
            self.took.append(took)

    def seconds(self, i):
        return (self.end[i] - self.begin[i]) / 1e9

    def around(self, i):
        """The mean step around step i: one step in which the host waits for a card has the time of several."""
        first, last = max(0, i - GROUP // 2), min(len(self.end), i + GROUP // 2) - 1
        return (self.end[last] - self.begin[first]) / 1e9 / (last - first + 1)


WAITS = ("item", "empty_cache")


def alone(steps, job):
    """{fault: the seconds that it takes of a step in which no other fault acts}, of those whose clock holds waits for the card, and so for a
    slower rank."""
    found = {}
    for f in job["faults"]:
        took = [sum(t[f["id"]].values()) for t in steps.took if f["id"] in t and len(t) == 1]
        if f["kind"] in WAITS and len(took) >= GROUPS_LEAST:
            found[f["id"]] = statistics.median(took)
    return found


def window(steps, fault, start_ns, workers):
    """From when until when a fault acted: by the steps that it took time in, else as planned."""
    begin, until = start_ns + int(fault["from_s"] * 1e9), start_ns + int(fault["until_s"] * 1e9)
    if fault.get("began_ns"):
        begin, until = fault["began_ns"], fault.get("ended_ns") or until
    own = [i for i, took in enumerate(steps.took) if fault["id"] in took]
    if own and not (workers and fault["place"] == "loader") and fault["kind"] != "threads":
        if fault["kind"] == "slow_checkpoint":  # the steps between two of them are the fault's time too
            return steps.begin[own[0]], max(until, steps.end[own[-1]])
        return steps.begin[own[0]], steps.end[own[-1]]
    return begin, until


def usual_of(seconds, on_card):
    """What a step takes: the median of means over GROUP steps. The median of the steps is less where they are skewed, as short ones are
    (some wait for a CPU): clean time would count as lost. The host runs ahead of a card and waits for it every tenth step."""
    if len(seconds) < GROUPS_LEAST * GROUP and not on_card:
        return statistics.median(seconds)
    groups = [seconds[i:i + GROUP] for i in range(0, len(seconds), GROUP)]
    if len(groups) > 1 and len(groups[-1]) < GROUP:
        groups.pop()
    return statistics.median(sum(g) / len(g) for g in groups)


def weights(acting, took, excess, workers=0, at_most=None):
    """What part of a step's excess each fault has: what the step would gain without its rank's faults. Ranks that are slow at the same
    time hide each other: what all took together beyond the excess counts for none of them, where another one took more. `at_most`: see alone()."""
    own = {f["id"]: sum(took.get(f["id"], {}).values()) or (1e-9 if len(acting) > 1 else 1.0) for f in acting}
    if len(acting) > 1:
        own.update((name, min(own[name], most)) for name, most in (at_most or {}).items() if name in own)
    # A worker's fault has no clock in the step: it took what no other one did.
    unclocked = [f["id"] for f in acting if workers and f["place"] == "loader" and f["id"] not in took]
    rest = max(0.0, excess - sum(own.values()))
    own.update((name, max(own[name], rest / len(unclocked))) for name in unclocked)
    ranks = {}
    for f in acting:
        ranks[f["rank"]] = ranks.get(f["rank"], 0.0) + own[f["id"]]
    hidden = max(0.0, sum(ranks.values()) - max(0.0, excess))
    gain = {rank: max(0.0, each - hidden) for rank, each in ranks.items()}
    if len(ranks) == 1 or not any(gain.values()):
        return own
    return {f["id"]: own[f["id"]] / ranks[f["rank"]] * gain[f["rank"]] for f in acting}


def measure(job, logs, start_ns, end_ns):
    """The truth of one job: {"job", "ranks", "faults", "clean", "step_ms", ...}. end_ns: when the driver ended it."""
    ranks = list(range(job["ranks"]))
    on_card = job["options"]["device"] == "cuda"
    steps = Steps(logs, ranks, on_card)
    workers = job["options"]["workers"]
    windows = {f["id"]: window(steps, f, start_ns, workers) for f in job["faults"]}
    planned = {name: until for name, (_, until) in windows.items()}
    at_most = alone(steps, job) if on_card else {}
    base = start_ns + WARM_NS

    def busy(a, b):
        return any(a < until + PAD_NS and b > begin for begin, until in windows.values())

    clean = [i for i in range(len(steps.end)) if steps.begin[i] >= start_ns and not busy(steps.begin[i], steps.end[i])]
    settled = [i for i in clean if steps.begin[i] >= base] or clean
    by_class = {}
    for i in settled:
        by_class.setdefault(steps.klass[i], []).append(i)
    overall = usual_of([steps.seconds(i) for i in settled], on_card) if settled else 0.0

    known = {}

    def usual(i, fault_window):
        key = steps.klass[i], fault_window
        if key not in known:
            known[key] = usual_around(i, fault_window)
        return known[key]

    def usual_around(i, fault_window):
        rows = by_class.get(steps.klass[i], [])
        near = [steps.seconds(k) for k in rows if steps.end[k] > fault_window[0] - AROUND_NS and steps.begin[k] < fault_window[1] + AROUND_NS]
        if len(near) < AROUND_LEAST:
            near = [steps.seconds(k) for k in rows]
        if near:
            return usual_of(near, on_card)
        # A class that no clean step has: as the ordinary one.
        ordinary = [steps.seconds(k) for k in settled if not steps.klass[k].startswith("checkpoint") and "eval" not in steps.klass[k]]
        return statistics.median(ordinary) if ordinary else overall

    # Of a step in which several faults acted, each has the part that it took itself.
    faults = []
    lost, slices, usual_s, counted = {f["id"]: 0.0 for f in job["faults"]}, {f["id"]: [] for f in job["faults"]}, {}, {}
    for i in range(len(steps.end)):
        acting = []
        for f in job["faults"]:
            begin, until = windows[f["id"]]
            drain = DRAIN_NS if workers and f["place"] == "loader" else 0
            if steps.end[i] > begin and steps.begin[i] < max(until, planned[f["id"]] + drain):
                acting.append(f)
        # What drains beside another fault is over.
        acting = [f for f in acting if steps.begin[i] < windows[f["id"]][1]] or acting
        if not acting:
            continue
        u = usual(i, windows[acting[0]["id"]])
        excess = steps.seconds(i) - u
        weight = weights(acting, steps.took[i], excess, workers, at_most)
        total = sum(weight.values())
        for f in acting:
            name = f["id"]
            inside = steps.begin[i] < windows[name][1]
            if not inside and (steps.around(i) if on_card else steps.seconds(i)) < 1.3 * u:
                continue
            lost[name] += excess * weight[name] / total
            slices[name].append((steps.begin[i], steps.end[i], excess * weight[name] / total))
            usual_s[name] = usual_s.get(name, 0.0) + u
            counted[name] = counted.get(name, 0) + 1
            if not inside:
                windows[name] = (windows[name][0], max(windows[name][1], steps.end[i]))
    for f in job["faults"]:
        name = f["id"]
        begin, until = windows[name]
        if f["kind"] in ("deadlock", "exit") and steps.end:
            begin, until = max(steps.end[-1], start_ns + int(f["from_s"] * 1e9)), end_ns
            lost[name], slices[name] = (until - begin) / 1e9, [(begin, until, (until - begin) / 1e9)]
        length_s = (until - begin) / 1e9
        growth = 100 * lost[name] / usual_s[name] if usual_s.get(name) else (float("inf") if lost[name] > 0 else 0.0)
        if f["kind"] in ("deadlock", "exit", "stop"):
            growth = max(growth, 1000.0)
        growth = min(growth, 1e6)
        # gloo's peers fail at once when a rank ends: nobody waits, so nothing is lost.
        scored = f["kind"] != "exit" or job["options"]["device"] == "cuda"
        matters = scored and any(growth >= g and length_s >= s for g, s in NOTICE)
        row = {k: f.get(k) for k in ("id", "kind", "rank", "place", "activities", "causes", "side", "percent")}
        row.update(from_ns=begin, until_ns=until, lost_s=round(lost[name], 3), growth_percent=round(growth, 1), steps=counted.get(name, 0),
                   matters=matters, scored=scored, slices=thin(slices[name]))
        faults.append(row)
    # Whole job: seconds beyond the usual, a row per second: what the steps really did where something was said.
    everything = (start_ns, end_ns)
    pace = thin([(steps.begin[i], steps.end[i], steps.seconds(i) - usual(i, everything)) for i in range(len(steps.end)) if steps.begin[i] >= start_ns], 10**9)
    spans, at = [], base
    last = steps.end[-1] if steps.end else base
    for begin, until in sorted(windows.values()) + [(last, last)]:
        if begin > at:
            spans.append([at, min(begin, last)])
        at = max(at, until + PAD_NS)
    spread = sorted(steps.seconds(i) for i in settled)
    return {"job": job["name"], "shape": job["options"]["shape"], "world_size": job["ranks"], "device": job["options"]["device"],
            "pids": [logs[r][0]["pid"] for r in ranks], "torch": logs[0][0]["torch"], "start_ns": start_ns, "end_ns": end_ns,
            "steps": len(steps.end), "step_ms": round(overall * 1e3, 3),
            "clean_p5_p95_ms": [round(spread[int(len(spread) * q)] * 1e3, 3) for q in (0.05, 0.95)] if spread else [],
            "options": job["options"], "faults": faults, "pace": pace, "clean": [s for s in spans if s[1] > s[0]]}


def thin(slices, step_ns=10**8):
    """Joins neighbouring slices up to a tenth of a second: [[from_ns, until_ns, seconds lost], ...]."""
    joined = []
    for begin, end, seconds in slices:
        if joined and end - joined[-1][0] <= step_ns and begin <= joined[-1][1] + 10**6:
            joined[-1][1], joined[-1][2] = end, joined[-1][2] + seconds
        else:
            joined.append([begin, end, seconds])
    return [[a, b, round(s, 5)] for a, b, s in joined]


def lost_in(fault, begin_ns, until_ns):
    """Seconds that a fault lost between two times."""
    total = 0.0
    starts = [s[0] for s in fault["slices"]]
    for i in range(max(0, bisect.bisect_left(starts, begin_ns) - 1), len(starts)):
        a, b, seconds = fault["slices"][i]
        if a >= until_ns:
            break
        overlap = min(b, until_ns) - max(a, begin_ns)
        if overlap > 0:
            total += seconds * overlap / (b - a)
    return total


def log_of(folder, job, rank):
    path = os.path.join(folder, "logs", "job%d.rank.%d.jsonl" % (job, rank))
    return path if os.path.exists(path) else path + ".gz"


def of_folder(folder):
    """Measures again from the logs of a recording."""
    with open(os.path.join(folder, "run.json"), encoding="utf-8") as file:
        run = json.load(file)
    jobs = []
    for j, job in enumerate(run["jobs"]):
        logs = {r: read_log(log_of(folder, j, r)) for r in range(job["ranks"])}
        jobs.append(measure(job, logs, run["start_ns"][j], job.get("end_ns") or run["end_ns"]))
    for row, known in zip(jobs, run.get("known_as", [])):
        row["known_as"] = known
    return {"seed": run["seed"], "shape": run["shape"], "l1": run["l1"], "noise": run["noise"], "jobs": jobs}


def main():
    """truth.py DIR...: measures recordings again, with today's rules, and writes their truth.json."""
    for folder in sys.argv[1:]:
        path = os.path.join(folder, "truth.json")
        with open(path + ".part", "w", encoding="utf-8") as file:
            json.dump(of_folder(folder), file)
        os.rename(path + ".part", path)


if __name__ == "__main__":
    main()
