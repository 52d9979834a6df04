#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Scores findings against the truth of recorded jobs, by lost seconds.

  score.py DIR... [--analyze] [--build B] [--json] [--verbose]

Without --analyze the findings are those that the daemon published then (findings.json); with it, those of `tracectl analyze`
over the recorded stores. README.md says what each figure means.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True
import truth as truths  # noqa: E402

EDGE_NS = 2 * 10**9      # a finding may begin or end this much beside what it is about, and the seconds count
BESIDE_NS = 30 * 10**9   # a job's findings begin from so long before its first step until so long after its end
SPOKEN = ("notice", "warning", "critical")
LOUD = ("warning", "critical")
OWN_EDGE = 5.0, 0.3      # an episode of its own: begin and end right within seconds, or within this part of its length
LOUD_CLASSES = ("50 % and more", 50, float("inf")), ("10 to 50 %", 10, 50), ("below 10 %", 0, 10)
HANGS = ("stop", "deadlock", "exit")
# Activity of a cause, where a finding has none.
ACTIVITY_OF_CAUSE = {"dataloader": "dataloader", "garbage_collection": "gc", "checkpoint": "checkpoint"}


def findings_of(folder, analyze, build):
    if not analyze:
        with open(os.path.join(folder, "findings.json"), encoding="utf-8") as file:
            text = file.read()
    else:
        build = pathlib.Path(build).resolve()
        env = dict(os.environ, RANKTRACE_LIBEXEC=str(build / "libexec/ranktrace"))
        done = subprocess.run([str(build / "ctl/tracectl"), "analyze", "--json", "--all", "--since", "2000-01-01", "--state-dir", os.path.join(folder, "state")], env=env,
                              capture_output=True, text=True, check=False)
        if done.returncode and not done.stdout:
            sys.exit("score.py: %s: %s" % (folder, done.stderr.strip()))
        sys.stderr.write(done.stderr)  # what it left out
        text = done.stdout
    rows = json.loads(text or "[]")
    return rows if isinstance(rows, list) else rows.get("findings", [])


class Finding:
    """A finding that people read: notice or worse, confirmed."""

    def __init__(self, row, end_ns):
        self.row, self.rank = row, row.get("rank")
        self.begin, self.end = row["since_ns"], row.get("until_ns") or row.get("updated_ns") or end_ns
        self.end = max(self.end, self.begin)
        self.hang = row["kind"] == "hang"
        slowdown = row.get("slowdown") or 1.0
        self.rate = 1.0 if self.hang else max(0.0, 1 - 1 / slowdown) if slowdown > 0 else 0.0
        self.loud = row.get("severity") in LOUD
        self.credited = 0.0
        self.activity = row.get("activity") or ACTIVITY_OF_CAUSE.get(row.get("cause"))

    @staticmethod
    def spoken(row):
        if row.get("kind") in ("imbalance", "overhead") or row.get("state") not in ("open", "closed"):
            return False
        return row.get("severity") in SPOKEN

    def seconds(self):
        return (self.end - self.begin) / 1e9

    def claimed(self):
        return self.seconds() * self.rate

    def overlap(self, begin, end):
        return max(0, min(self.end, end) - max(self.begin, begin)) / 1e9

    def points_at(self, fault):
        """The right rank; of all ranks alike, no rank; of a slow link, its rank or the communication."""
        if self.rank is not None:
            return self.rank == fault["rank"]
        return fault["rank"] == "all" or (fault["kind"] == "network" and self.row.get("cause") in fault["causes"])

    def names(self, fault):
        """Whether it names the fault's activity, or its cause where the fault is the machine's."""
        if self.row.get("cause") in (fault["causes"] or []):
            return True
        return self.activity is not None and self.activity in (fault["activities"] or [])


def belongs(row, job):
    if row.get("since_ns") and not job["start_ns"] - BESIDE_NS <= row["since_ns"] <= job["end_ns"] + BESIDE_NS:
        return False  # of one without a name that ran at another time
    names = [job["job"]] if job["job"] else job.get("known_as") or [None]
    return (row.get("job") or None) in [name or None for name in names]


def divide(rows, jobs):
    """The findings of each job. One that may belong to several, because they have no names, goes to the job of which it is right: by rank
    and activity, else by rank."""
    shares = [[] for _ in jobs]
    for row in rows:
        may = [i for i, job in enumerate(jobs) if belongs(row, job)]
        if len(may) > 1:
            finding = Finding(row, jobs[may[0]]["end_ns"])
            right = [[f for f in job["faults"] if finding.points_at(f)] for job in jobs]

            def lost(faults):
                return sum(truths.lost_in(f, finding.begin, finding.end) for f in faults)
            may.sort(key=lambda i: (-lost([f for f in right[i] if finding.names(f)]), -lost(right[i])))
        if may:
            shares[may[0]].append(row)
    return shares


def share_of(finding, begin, end):
    return finding.overlap(begin, end) / finding.seconds() if finding.seconds() else float(begin <= finding.begin <= end)


def own_episode(finding, fault):
    length = (fault["until_ns"] - fault["from_ns"]) / 1e9
    edge = max(OWN_EDGE[0], OWN_EDGE[1] * length)
    return abs(finding.begin - fault["from_ns"]) / 1e9 <= edge and abs(finding.end - fault["until_ns"]) / 1e9 <= edge


def score_job(job, rows):
    """Figures of one job from its findings; sums, so that jobs can be added."""
    found = [Finding(row, job["end_ns"]) for row in rows if Finding.spoken(row)]
    faults = job["faults"]
    result = []
    for f in faults:
        f = dict(f, given_s=0.0, given_activity_s=0.0, delay_s=None, own=False, side_right_s=0.0, side_said_s=0.0, said_of_job_s=0.0)
        result.append(f)
    for finding in found:
        here = [(f, truths.lost_in(f, finding.begin, finding.end)) for f in result if f["scored"]]
        right = [(f, s) for f, s in here if s > 0 and finding.points_at(f)]
        lost = sum(s for _, s in right)
        if lost > 0:
            # What it claims while these faults lasted.
            span = finding.overlap(min(f["from_ns"] for f, _ in right), max(f["until_ns"] for f, _ in right))
            part = min(1.0, finding.rate * span / lost)
            for f, s in right:
                f["given_s"] += part * s
                if finding.names(f):
                    f["given_activity_s"] += part * s
                if f["side"] and finding.row.get("side"):
                    f["side_said_s"] += part * s
                    f["side_right_s"] += part * s * (finding.row["side"] == f["side"])
                noticed = finding.row.get("noticed_ns") or finding.begin
                if f["from_ns"] - EDGE_NS <= noticed <= f["until_ns"] + truths.PAD_NS:
                    delay = max(0.0, (noticed - f["from_ns"]) / 1e9)
                    f["delay_s"] = delay if f["delay_s"] is None else min(f["delay_s"], delay)
                f["own"] = f["own"] or own_episode(finding, f)
        if finding.rank is None:
            for f, s in here:
                f["said_of_job_s"] += min(s, finding.rate * finding.overlap(f["from_ns"], f["until_ns"]))
    for f in result:
        f["given_s"], f["given_activity_s"] = min(f["given_s"], max(0.0, f["lost_s"])), min(f["given_activity_s"], max(0.0, f["lost_s"]))

    # Precision: each lost second is credited once, to the findings that name a rank first.
    left = {f["id"]: [list(s) for s in f["slices"]] for f in faults}
    for finding in sorted(found, key=lambda x: (x.rank is None, x.begin)):
        finding.credited = credit(finding, faults, left)
    clean_loud, wrong, alike = [], [], []
    for finding in found:
        windows = [(f, share_of(finding, f["from_ns"] - EDGE_NS, f["until_ns"] + truths.PAD_NS)) for f in faults]
        finding.near = [f for f, share in windows if share > 0]
        if not finding.loud:
            continue
        if sum(share for _, share in windows) < 0.5:
            clean_loud.append(finding)
        elif finding.rank is not None and finding.rank not in [f["rank"] for f in finding.near]:
            (alike if any(f["rank"] == "all" for f in finding.near) else wrong).append(finding)
    memory = [x for x in found if x.row["kind"] == "memory" and not any(f["kind"] == "empty_cache" for f in x.near)]
    return dict(shape=job["shape"], job=job["job"], memory=[announced(x, job) for x in memory], faults=[{k: v for k, v in f.items() if k != "slices"} for f in result],
                claimed_s=sum(x.claimed() for x in found), credited_s=sum(x.credited for x in found), findings=len(found),
                clean_hours=sum(b - a for a, b in job["clean"]) / 3.6e12 * job["world_size"],
                clean_loud=[announced(x, job) for x in clean_loud], wrong_rank=[announced(x, job) for x in wrong], alike_accused=[announced(x, job) for x in alike])


def credit(finding, faults, left):
    """Seconds of what it claims that were lost there; they are taken from what is left."""
    want, got = finding.claimed(), 0.0
    for f in faults:
        if not f["scored"] or (finding.rank is not None and finding.rank != f["rank"]):
            continue
        for piece in left[f["id"]]:
            begin, end, seconds = piece
            if seconds <= 0 or begin >= finding.end + EDGE_NS or end <= finding.begin - EDGE_NS:
                continue
            part = (min(end, finding.end + EDGE_NS) - max(begin, finding.begin - EDGE_NS)) / max(1, end - begin)
            take = min(seconds, seconds * part, want - got)
            piece[2] -= take
            got += take
    return got


def announced(finding, job):
    """A finding in words, with what the steps really took then."""
    really = [p for p in job.get("pace", []) if finding.begin < p[1] and finding.end > p[0]]
    took, lost = sum(p[1] - p[0] for p in really) / 1e9, sum(p[2] for p in really)
    return dict(kind=finding.row["kind"], cause=finding.row.get("cause"), activity=finding.row.get("activity"), rank=finding.rank,
                severity=finding.row.get("severity"), at_s=round((finding.begin - job["start_ns"]) / 1e9, 1), lasts_s=round(finding.seconds(), 1),
                slowdown=finding.row.get("slowdown"), job=job["job"], really_percent=round(100 * lost / max(took - lost, 1e-3), 1) if really else None,
                sentence=finding.row.get("sentence"))


def ratio(a, b):
    return a / b if b > 0 else None


def quantile(values, q):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * q))] if values else None


def sums(jobs, keep=lambda f: True):
    """Recall over the faults that matter and name a rank."""
    faults = [f for job in jobs for f in job["faults"] if f["matters"] and f["rank"] != "all" and keep(f)]
    lost = sum(f["lost_s"] for f in faults)
    return dict(faults=len(faults), lost_s=lost, recall_rank=ratio(sum(f["given_s"] for f in faults), lost),
                recall_activity=ratio(sum(f["given_activity_s"] for f in faults), lost),
                found=sum(f["given_s"] >= 0.5 * f["lost_s"] for f in faults), found_activity=sum(f["given_activity_s"] >= 0.5 * f["lost_s"] for f in faults),
                own=sum(f["own"] for f in faults),
                side=ratio(sum(f["side_right_s"] for f in faults), sum(f["side_said_s"] for f in faults)))


def whole(jobs):
    hours = sum(job["clean_hours"] for job in jobs)
    loud = sum(len(job["clean_loud"]) for job in jobs)
    result = dict(jobs=len(jobs), all=sums(jobs), hangs_aside=sums(jobs, lambda f: f["kind"] not in HANGS),
                  claimed_s=sum(job["claimed_s"] for job in jobs), precision=ratio(sum(job["credited_s"] for job in jobs), sum(job["claimed_s"] for job in jobs)),
                  clean_rank_hours=hours, clean_loud=loud, clean_loud_per_rank_hour=ratio(loud, hours),
                  wrong_rank=sum(len(job["wrong_rank"]) for job in jobs), memory=sum(len(job["memory"]) for job in jobs), findings=sum(job["findings"] for job in jobs))
    alike = [f for job in jobs for f in job["faults"] if f["rank"] == "all" and f["matters"]]
    result["alike"] = dict(faults=len(alike), lost_s=sum(f["lost_s"] for f in alike), given_to_job_s=sum(f["given_s"] for f in alike),
                           accused=sum(len(job["alike_accused"]) for job in jobs))
    result["delay"] = {}
    for name, least, below in LOUD_CLASSES:
        faults = [f for job in jobs for f in job["faults"] if f["matters"] and f["rank"] != "all" and least <= f["growth_percent"] < below and f["kind"] not in HANGS]
        delays = [f["delay_s"] for f in faults if f["delay_s"] is not None]
        result["delay"][name] = dict(faults=len(faults), announced=len(delays), median_s=quantile(delays, 0.5), p95_s=quantile(delays, 0.95))
    shapes = sorted({job["shape"] for job in jobs})
    result["shapes"] = {}
    for shape in shapes:
        some = [job for job in jobs if job["shape"] == shape]
        result["shapes"][shape] = dict(sums(some), jobs=len(some), precision=ratio(sum(j["credited_s"] for j in some), sum(j["claimed_s"] for j in some)),
                                       clean_loud=sum(len(j["clean_loud"]) for j in some), clean_rank_hours=sum(j["clean_hours"] for j in some))
    kinds = sorted({f["kind"] for job in jobs for f in job["faults"]})
    result["kinds"] = {kind: sums(jobs, lambda f, kind=kind: f["kind"] == kind) for kind in kinds}
    return result


def percent(value):
    return "-" if value is None else "%.0f %%" % (100 * value)


def seconds(value):
    return "-" if value is None else "%.1f s" % value


def show(result):
    for name, row in (("all faults", result["all"]), ("hangs aside", result["hangs_aside"])):
        print("%-12s %3d faults, %6.1f s lost: right rank %s, right activity %s; by faults %d and %d; an episode of its own %d; side %s" % (
            name, row["faults"], row["lost_s"], percent(row["recall_rank"]), percent(row["recall_activity"]), row["found"], row["found_activity"], row["own"],
            percent(row["side"])))
    print("precision    %s of %.1f s claimed by %d findings; %d of warning or worse accuse another rank during a fault" % (
        percent(result["precision"]), result["claimed_s"], result["findings"], result["wrong_rank"]))
    print("clean        %d of warning or worse in %.2f rank-hours: %s per rank-hour" % (
        result["clean_loud"], result["clean_rank_hours"], "-" if result["clean_loud_per_rank_hour"] is None else "%.1f" % result["clean_loud_per_rank_hour"]))
    print("memory       %d findings of notice or worse about memory of devices, beside those of empty_cache" % result["memory"])
    alike = result["alike"]
    print("all alike    %d faults, %.1f s lost, %.1f s attributed to the job; %d findings of warning or worse accuse a rank" % (
        alike["faults"], alike["lost_s"], alike["given_to_job_s"], alike["accused"]))
    for name, row in result["delay"].items():
        print("delay        %-13s %d of %d announced; median %s, 95 %% %s" % (name, row["announced"], row["faults"], seconds(row["median_s"]), seconds(row["p95_s"])))
    print("\n%-15s %6s %8s %6s %9s %5s %10s %6s" % ("shape", "faults", "lost s", "rank", "activity", "own", "precision", "false"))
    for name, row in result["shapes"].items():
        print("%-15s %6d %8.1f %6s %9s %5d %10s %6d" % (name, row["faults"], row["lost_s"], percent(row["recall_rank"]), percent(row["recall_activity"]), row["own"],
                                                    percent(row["precision"]), row["clean_loud"]))
    print("\n%-15s %6s %8s %6s %9s %5s %6s" % ("fault", "faults", "lost s", "rank", "activity", "own", "side"))
    for name, row in result["kinds"].items():
        print("%-15s %6d %8.1f %6s %9s %5d %6s" % (name, row["faults"], row["lost_s"], percent(row["recall_rank"]), percent(row["recall_activity"]), row["own"],
                                               percent(row["side"])))


def show_each(jobs):
    """Each fault with what was given, and each false finding."""
    print()
    for job in jobs:
        print("%s %s" % (job["shape"], job["job"]))
        for f in job["faults"]:
            print("  %-15s %-10s rank %-3s +%.0f %%, %.1f s lost%s: rank %.1f s, activity %.1f s, delay %s%s" % (
                f["kind"], f["place"], f["rank"], f["growth_percent"], f["lost_s"], "" if f["matters"] else " (below the thresholds)", f["given_s"],
                f["given_activity_s"], seconds(f["delay_s"]), ", own episode" if f["own"] else ""))
        for name in ("clean_loud", "wrong_rank", "alike_accused", "memory"):
            for x in job[name]:
                print("  %s at %.1f s for %.1f s, steps really +%s %%: %s" % (name, x["at_s"], x["lasts_s"], x["really_percent"], x["sentence"]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", metavar="DIR")
    parser.add_argument("--analyze", action="store_true", help="judge the stores again")
    parser.add_argument("--build", default=os.environ.get("BUILD", str(HERE.parent.parent / "build")))
    parser.add_argument("--device", choices=("cpu", "cuda"), help="only the jobs on these")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--verbose", action="store_true", help="each fault, each false finding")
    parser.add_argument("--again", action="store_true", help="measure the truth again from the ranks' logs")
    args = parser.parse_args()
    jobs = []
    for folder in args.folders:
        if args.again:
            whole_truth = truths.of_folder(folder)
        else:
            with open(os.path.join(folder, "truth.json"), encoding="utf-8") as file:
                whole_truth = json.load(file)
        rows = divide(findings_of(folder, args.analyze, args.build), whole_truth["jobs"])
        jobs += [score_job(job, own) for job, own in zip(whole_truth["jobs"], rows) if args.device in (None, job["device"])]
    result = whole(jobs)
    if args.json:
        json.dump(dict(result, each=jobs), sys.stdout, indent=1)
        print()
        return
    show(result)
    if args.verbose:
        show_each(jobs)


if __name__ == "__main__":
    main()
