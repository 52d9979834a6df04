#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of the generator of jobs: the score on known truth and findings, the truth on known logs, the plans of many seeds."""
import contextlib
import importlib.util
import io
import json
import pathlib
import sqlite3
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True
import lanes  # noqa: E402
import plan as plans  # noqa: E402
import score  # noqa: E402
import truth  # noqa: E402

S = 10**9
KINDS = set(plans.KINDS)


def fault(name, rank, begin_s, end_s, lost_s, **more):
    """A fault whose loss is spread evenly, in slices of a tenth of a second."""
    count = (end_s - begin_s) * 10
    slices = [[begin_s * S + i * S // 10, begin_s * S + (i + 1) * S // 10, lost_s / count] for i in range(count)]
    row = dict(id=name, kind="python", rank=rank, place="outside", activities=["outside"], causes=None, side="host", percent=0, from_ns=begin_s * S,
               until_ns=end_s * S, lost_s=lost_s, growth_percent=100 * lost_s / max(1e-3, end_s - begin_s - lost_s), steps=count, matters=True, scored=True,
               slices=slices)
    return dict(row, **more)


def finding(rank, begin_s, end_s, slowdown, **more):
    row = dict(kind="slow_rank" if rank is not None else "slow_job", cause="host", state="closed", severity="warning", job="j", rank=rank,
               since_ns=begin_s * S, noticed_ns=(begin_s + 2) * S, until_ns=end_s * S, slowdown=slowdown, activity=None, side=None, sentence="")
    return dict(row, **more)


def job(faults, clean, ranks=2):
    return dict(job="j", shape="ddp", world_size=ranks, start_ns=0, end_ns=200 * S, known_as=["j"], faults=faults, clean=[[a * S, b * S] for a, b in clean])


class Score(unittest.TestCase):
    def judge(self, faults, findings, clean=()):
        one = job(faults, clean)
        return score.whole([score.score_job(one, score.divide(findings, [one])[0])])

    def test_exact(self):
        got = self.judge([fault("a", 1, 20, 40, 10.0)], [finding(1, 20, 40, 2.0, activity="outside", side="host")])
        self.assertAlmostEqual(got["all"]["recall_rank"], 1, 3)
        self.assertAlmostEqual(got["all"]["recall_activity"], 1, 3)
        self.assertAlmostEqual(got["precision"], 1, 3)
        self.assertEqual((got["all"]["own"], got["all"]["side"], got["wrong_rank"], got["clean_loud"]), (1, 1.0, 0, 0))
        self.assertEqual(got["delay"]["50 % and more"]["median_s"], 2.0)

    def test_claims_too_little_and_too_much(self):
        # A growth by 25 % claims 4 of the 10 s; one by 400 % claims 16.
        got = self.judge([fault("a", 1, 20, 40, 10.0)], [finding(1, 20, 40, 1.25)])
        self.assertAlmostEqual(got["all"]["recall_rank"], 0.4, 3)
        self.assertAlmostEqual(got["precision"], 1, 3)
        got = self.judge([fault("a", 1, 20, 40, 10.0)], [finding(1, 20, 40, 5.0)])
        self.assertAlmostEqual(got["all"]["recall_rank"], 1, 3)
        self.assertAlmostEqual(got["precision"], 10 / 16, 3)

    def test_half_of_the_time(self):
        got = self.judge([fault("a", 1, 20, 40, 10.0)], [finding(1, 30, 40, 2.0)])
        self.assertAlmostEqual(got["all"]["recall_rank"], 0.5, 3)
        self.assertEqual(got["all"]["own"], 0)

    def test_activity(self):
        got = self.judge([fault("a", 1, 20, 40, 10.0)], [finding(1, 20, 40, 2.0, activity="backward", side="card")])
        self.assertEqual((got["all"]["recall_activity"], got["all"]["side"]), (0.0, 0.0))
        preempt = fault("a", 1, 20, 40, 10.0, kind="preempt", activities=[], causes=["preemption"])
        self.assertAlmostEqual(self.judge([preempt], [finding(1, 20, 40, 2.0, cause="preemption", activity="backward")])["all"]["recall_activity"], 1, 3)
        self.assertEqual(self.judge([preempt], [finding(1, 20, 40, 2.0, cause="throttling", activity="backward")])["all"]["recall_activity"], 0.0)
        loader = fault("a", 1, 20, 40, 10.0, activities=["dataloader"])
        self.assertAlmostEqual(self.judge([loader], [finding(1, 20, 40, 2.0, cause="dataloader")])["all"]["recall_activity"], 1, 3)

    def test_wrong_rank(self):
        got = self.judge([fault("a", 1, 20, 40, 10.0)], [finding(0, 20, 40, 2.0)])
        self.assertEqual((got["all"]["recall_rank"], got["precision"], got["wrong_rank"]), (0.0, 0.0, 1))

    def test_a_job_is_no_rank(self):
        got = self.judge([fault("a", 1, 20, 40, 10.0)], [finding(None, 20, 40, 2.0)])
        self.assertEqual((got["all"]["recall_rank"], got["wrong_rank"]), (0.0, 0))
        self.assertAlmostEqual(got["precision"], 1, 3)  # the seconds were lost
        got = self.judge([fault("a", 1, 20, 40, 10.0)], [finding(None, 20, 40, 2.0), finding(1, 20, 40, 2.0)])
        self.assertAlmostEqual(got["precision"], 0.5, 3)  # but only once

    def test_all_alike(self):
        alike = fault("a", "all", 20, 40, 10.0)
        got = self.judge([alike], [finding(None, 20, 40, 2.0)])
        self.assertAlmostEqual(got["alike"]["given_to_job_s"], 10, 2)
        self.assertEqual((got["alike"]["accused"], got["all"]["faults"]), (0, 0))
        got = self.judge([alike], [finding(0, 20, 40, 2.0)])
        self.assertEqual((got["alike"]["accused"], got["precision"]), (1, 0.0))

    def test_memory(self):
        said = [finding(0, 20, 40, 1.0, kind="memory", cause="memory_calls"), finding(1, 60, 70, 1.0, kind="memory", cause="leak"),
                finding(0, 60, 70, 1.0, kind="memory", cause="leak", severity="info")]
        self.assertEqual(self.judge([fault("a", 0, 20, 40, 10.0, kind="empty_cache")], said)["memory"], 1)
        self.assertEqual(self.judge([fault("a", 0, 20, 40, 10.0)], said)["memory"], 2)

    def test_clean(self):
        clean = [(0, 90), (130, 180)]
        said = [finding(0, 140, 150, 1.25), finding(0, 150, 160, 1.1, severity="notice"), finding(0, 60, 70, 3.0, severity="info"),
                finding(0, 60, 70, 3.0, state="suspected"), finding(None, 60, 70, 3.0, kind="imbalance"), finding(0, 60, 70, 3.0, job="other")]
        got = self.judge([fault("a", 1, 100, 120, 10.0)], said, clean)
        self.assertEqual((got["clean_loud"], got["findings"]), (1, 2))
        self.assertAlmostEqual(got["clean_rank_hours"], 140 * 2 / 3600, 6)
        self.assertAlmostEqual(got["claimed_s"], 2 + 10 - 10 / 1.1, 6)
        self.assertEqual(got["precision"], 0)

    def test_hang(self):
        stop = fault("a", 1, 20, 50, 30.0, kind="stop", activities=[], causes=["stopped"], growth_percent=1000.0)
        got = self.judge([stop], [finding(1, 20, 50, 0.0, kind="hang", cause="stopped")])
        self.assertAlmostEqual(got["all"]["recall_rank"], 1, 3)
        self.assertAlmostEqual(got["all"]["recall_activity"], 1, 3)
        self.assertEqual(got["hangs_aside"]["faults"], 0)

    def test_one_finding_over_two_faults(self):
        # 40 s of +50 % claim 13.3 s; 20 s were lost, in two parts with 20 s between them.
        got = self.judge([fault("a", 1, 20, 40, 10.0), fault("b", 1, 60, 80, 10.0)], [finding(1, 20, 80, 1.5)])
        self.assertAlmostEqual(got["all"]["recall_rank"], 1, 3)
        self.assertEqual(got["all"]["own"], 0)

    def test_jobs_without_names(self):
        jobs = [dict(job([fault("a", rank, 20, 40, 10.0)], []), job="", known_as=[None]) for rank in (1, 0)]
        said = [finding(0, 20, 40, 2.0, job=None), finding(1, 20, 40, 2.0, job=None), finding(1, 20, 40, 2.0, job="other")]
        got = score.whole([score.score_job(one, own) for one, own in zip(jobs, score.divide(said, jobs))])
        self.assertAlmostEqual(got["all"]["recall_rank"], 1, 3)
        self.assertEqual((got["wrong_rank"], got["findings"]), (0, 2))

    def test_of_jobs_without_names_the_activity_decides(self):
        jobs = [dict(job([fault("a", 1, 20, 60, 20.0, activities=["gc"])], []), job="", known_as=[None]),
                dict(job([fault("b", 1, 20, 40, 5.0)], []), job="", known_as=[None])]
        said = [finding(1, 20, 40, 1.5, job=None, activity="outside"), finding(1, 20, 60, 2.0, job=None, activity="gc", cause="garbage_collection")]
        self.assertEqual(score.divide(said, jobs), [said[1:], said[:1]])

    def test_jobs_with_names(self):
        jobs = [dict(job([fault("a", 1, 20, 40, 10.0)], []), job=name) for name in ("j", "k")]
        got = score.whole([score.score_job(one, own) for one, own in zip(jobs, score.divide([finding(1, 20, 40, 2.0, job="k")], jobs))])
        self.assertAlmostEqual(got["all"]["recall_rank"], 0.5, 3)

    def test_below_the_thresholds_is_not_asked_for(self):
        got = self.judge([fault("a", 1, 20, 25, 0.1, matters=False)], [])
        self.assertEqual((got["all"]["faults"], got["all"]["recall_rank"]), (0, None))


def logs_of(durations, took=lambda rank, step: {}, klass=lambda step: "step", ranks=2, length=None):
    """Logs of ranks that end their steps together."""
    logs = {}
    for rank in range(ranks):
        at, rows = 0, []
        for i, seconds in enumerate(durations):
            row = {"s": i, "b": at, "e": at + int(seconds * S), "c": klass(i)}
            if took(rank, i):
                row["f"] = took(rank, i)
            if length:
                row["l"] = length(rank, i)
            at = row["e"]
            rows.append(row)
        logs[rank] = ({"rank": rank, "pid": 100 + rank, "torch": "2"}, rows)
    return logs


def planned(faults, **options):
    options = dict(dict(shape="ddp", device="cpu", workers=0), **options)
    faults = [dict(dict(place="outside", activities=["outside"], causes=None, side="host", percent=50), **f) for f in faults]
    return dict(name="j", ranks=2, options=options, faults=faults)


class Truth(unittest.TestCase):
    def test_lost_beyond_the_clean_steps(self):
        slow = range(300, 500)
        logs = logs_of([0.15 if i in slow else 0.1 for i in range(800)], lambda rank, i: {"f0": 0.05} if rank == 1 and i in slow else {})
        got = truth.measure(planned([dict(id="f0", kind="python", rank=1, from_s=30, until_s=60)]), logs, 0, 100 * S)
        f = got["faults"][0]
        self.assertAlmostEqual(f["lost_s"], 10, 2)
        self.assertAlmostEqual(f["growth_percent"], 50, 1)
        self.assertTrue(f["matters"])
        self.assertAlmostEqual(f["from_ns"] / S, 30, 2)
        self.assertAlmostEqual(f["until_ns"] / S, 60, 2)
        self.assertAlmostEqual(got["step_ms"], 100, 3)
        self.assertAlmostEqual(truth.lost_in(f, 30 * S, 45 * S), 5, 2)
        self.assertEqual([[round(a / S), round(b / S)] for a, b in got["clean"]], [[12, 30], [63, 90]])

    def test_short_steps_are_skewed(self):
        """One step in four waits for a CPU, with the fault and without: the fault lost what it took, and clean time nothing."""
        fault = range(4000, 8000)
        logs = logs_of([0.010 + 0.020 * (i % 4 == 0) + 0.010 * (i in fault) for i in range(12000)],
                       lambda rank, i: {"f0": 0.010} if rank == 1 and i in fault else {})
        got = truth.measure(planned([dict(id="f0", kind="python", rank=1, from_s=60, until_s=160)]), logs, 0, 220 * S)
        self.assertAlmostEqual(got["faults"][0]["lost_s"], 40, 1)
        self.assertAlmostEqual(got["step_ms"], 15, 2)
        self.assertAlmostEqual(sum(lost for begin, end, lost in got["pace"] if end < 59 * S), 0, 1)

    def test_thresholds(self):
        for percent, seconds, matters in ((4, 20, False), (6, 20, True), (40, 8, False), (60, 8, True), (60, 4, False)):
            step = 0.1 * (1 + percent / 100)
            slow = range(300, 300 + int(seconds / step))
            logs = logs_of([step if i in slow else 0.1 for i in range(900)], lambda rank, i, slow=slow: {"f0": 0.01} if i in slow and rank == 0 else {})
            got = truth.measure(planned([dict(id="f0", kind="python", rank=0, from_s=30, until_s=30 + seconds)]), logs, 0, 100 * S)
            self.assertEqual(got["faults"][0]["matters"], matters, (percent, seconds))

    def test_checkpoints_are_their_own_class(self):
        klass = lambda i: "checkpoint" if i % 10 == 9 else "step"  # noqa: E731
        logs = logs_of([(0.5 if i % 10 == 9 else 0.1) + (0.1 if 300 <= i < 400 else 0) for i in range(800)],
                       lambda rank, i: {"f0": 0.1} if 300 <= i < 400 and rank == 0 else {}, klass)
        got = truth.measure(planned([dict(id="f0", kind="python", rank=0, from_s=42, until_s=66)]), logs, 0, 200 * S)
        self.assertAlmostEqual(got["faults"][0]["lost_s"], 10, 1)

    def test_length_of_the_longest_sample(self):
        length = lambda rank, i: 16 if (i + rank) % 3 == 0 else 8  # noqa: E731
        longest = [max(length(0, i), length(1, i)) for i in range(800)]
        logs = logs_of([longest[i] / 100 + (0.05 if 300 <= i < 400 else 0) for i in range(800)],
                       lambda rank, i: {"f0": 0.05} if 300 <= i < 400 and rank == 0 else {}, length=length)
        got = truth.measure(planned([dict(id="f0", kind="python", rank=0, from_s=30, until_s=50)]), logs, 0, 200 * S)
        self.assertAlmostEqual(got["faults"][0]["lost_s"], 5, 1)

    def test_two_faults_of_one_step_share_it(self):
        took = lambda rank, i: {"f0": 0.06} if rank == 0 and 300 <= i < 400 else {"f1": 0.02} if rank == 1 and 300 <= i < 400 else {}  # noqa: E731
        logs = logs_of([0.18 if 300 <= i < 400 else 0.1 for i in range(800)], took)
        got = truth.measure(planned([dict(id="f0", kind="python", rank=0, from_s=30, until_s=46), dict(id="f1", kind="sleep", rank=1, from_s=30, until_s=46)]),
                            logs, 0, 200 * S)
        self.assertAlmostEqual(got["faults"][0]["lost_s"], 6, 1)
        self.assertAlmostEqual(got["faults"][1]["lost_s"], 2, 1)

    def test_a_fault_that_another_hides_loses_nothing(self):
        took = lambda rank, i: {"f0": 0.1} if rank == 0 and 300 <= i < 400 else {"f1": 0.02} if rank == 1 and 300 <= i < 400 else {}  # noqa: E731
        logs = logs_of([0.2 if 300 <= i < 400 else 0.1 for i in range(800)], took)
        got = truth.measure(planned([dict(id="f0", kind="python", rank=0, from_s=30, until_s=50), dict(id="f1", kind="sleep", rank=1, from_s=30, until_s=50)]),
                            logs, 0, 200 * S)
        self.assertAlmostEqual(got["faults"][0]["lost_s"], 10, 1)
        self.assertAlmostEqual(got["faults"][1]["lost_s"], 0, 1)
        self.assertEqual(truth.weights([dict(id="a", rank=0), dict(id="b", rank=1)], {"a": {0: 0.1}, "b": {1: 0.1}}, 0.1), {"a": 0.1, "b": 0.1})

    def test_a_worker_took_what_the_rank_did_not(self):
        """0.12 s of its worker and 0.03 s of Python, by whose clock alone they are known; then the rank is stopped."""
        took = lambda rank, i: {"f1": 0.03} if rank == 1 and 300 <= i < 400 else {}  # noqa: E731
        logs = logs_of([0.2 if 300 <= i < 400 else 10.0 if i == 450 else 0.1 for i in range(800)], took)
        faults = [dict(id="f0", kind="loader_io", place="loader", rank=1, from_s=30, until_s=50),
                  dict(id="f1", kind="python", rank=1, from_s=30, until_s=50),
                  dict(id="f2", kind="stop", rank=1, from_s=55, until_s=65, began_ns=55 * S, ended_ns=65 * S)]
        got = [f["lost_s"] for f in truth.measure(planned(faults, workers=1), logs, 0, 200 * S)["faults"]]
        for seconds, wanted in zip(got, (7, 3, 9.9)):
            self.assertAlmostEqual(seconds, wanted, 1)

    def test_a_hang_lasts_until_the_end(self):
        logs = logs_of([0.1] * 500)
        got = truth.measure(planned([dict(id="f0", kind="deadlock", rank=0, from_s=50, until_s=90)]), logs, 0, 90 * S)
        self.assertAlmostEqual(got["faults"][0]["lost_s"], 40, 1)
        self.assertTrue(got["faults"][0]["matters"])

    def test_waits_for_a_card_are_no_loss(self):
        # The host runs ahead: nine steps of 20 ms, then one of 820; then the card takes half longer.
        logs = logs_of([(0.82 if i % 10 == 9 else 0.02) + (0.5 if i % 10 == 9 and 300 <= i < 400 else 0) for i in range(900)],
                       lambda rank, i: {"f0": 0.05} if rank == 0 and 300 <= i < 400 else {})
        got = truth.measure(planned([dict(id="f0", kind="matmul", rank=0, from_s=30, until_s=45)], device="cuda"), logs, 0, 200 * S)
        self.assertAlmostEqual(got["faults"][0]["lost_s"], 5, 1)
        self.assertAlmostEqual(got["faults"][0]["growth_percent"], 50, 0)

    def test_waits_for_a_card_are_no_drain(self):
        """Each tenth step waits for its card, before, during and after a fault of a worker, which took half a step of each."""
        logs = logs_of([(0.82 if i % 10 == 9 else 0.02) + (0.05 if 300 <= i < 400 else 0) for i in range(900)])
        got = truth.measure(planned([dict(id="f0", kind="loader_io", place="loader", rank=0, from_s=30, until_s=45)], device="cuda", workers=1), logs, 0, 200 * S)
        self.assertAlmostEqual(got["faults"][0]["lost_s"], 5, 0)
        self.assertAlmostEqual(got["faults"][0]["until_ns"] / S, 45, 0)

    def test_what_drains_ends(self):
        """A long step now and then, for ever after, is not the worker's, that was slow once."""
        logs = logs_of([0.2 if 300 <= i < 400 or i % 20 == 0 else 0.1 for i in range(900)])
        got = truth.measure(planned([dict(id="f0", kind="loader_io", place="loader", rank=0, from_s=32, until_s=52)], workers=1), logs, 0, 200 * S)
        self.assertLessEqual(got["faults"][0]["until_ns"] / S, 52.3 + truth.DRAIN_NS / S)

    def test_what_waits_for_another_took_what_it_takes_alone(self):
        """Rank 1 gives its memory back in each step, which takes 0.05 s, and as long as the other's Python in a step that has it."""
        def took(rank, i):
            if rank == 0:
                return {"f0": 0.2} if 350 <= i < 400 else {}
            return {"f1": 0.2 if 350 <= i < 400 else 0.05} if 300 <= i < 400 else {}

        logs = logs_of([0.3 if 350 <= i < 400 else 0.15 if 300 <= i < 350 else 0.1 for i in range(800)], took)
        faults = [dict(id="f0", kind="python", rank=0, from_s=37.5, until_s=52.5), dict(id="f1", kind="empty_cache", rank=1, from_s=30, until_s=52.5)]
        got = [f["lost_s"] for f in truth.measure(planned(faults, device="cuda"), logs, 0, 200 * S)["faults"]]
        for seconds, wanted in zip(got, (10, 2.5)):
            self.assertAlmostEqual(seconds, wanted, 1)


class Plan(unittest.TestCase):
    def plans(self, **more):
        return [plans.draw(seed, KINDS, 2, **more) for seed in range(2, 402, 2)]

    def test_a_seed_is_a_plan(self):
        self.assertEqual(plans.draw(4, KINDS, 2), plans.draw(4, KINDS, 2))
        self.assertNotEqual(plans.draw(4, KINDS, 2), plans.draw(6, KINDS, 2))

    def test_shapes_and_faults_are_all_drawn(self):
        drawn = self.plans(seconds=240.0)
        self.assertGreaterEqual(len({p["shape"] for p in drawn}), 14)
        kinds = {f["kind"] for p in drawn for j in p["jobs"] for f in j["faults"]}
        self.assertGreaterEqual(kinds, KINDS - plans.CARD_ONLY)
        cards = [plans.draw(seed, KINDS, 32, device="cuda", cards=2, seconds=240.0) for seed in range(2, 402, 2)]
        self.assertGreaterEqual({f["kind"] for p in cards for j in p["jobs"] for f in j["faults"]}, plans.CARD_ONLY)

    def test_faults_keep_their_bounds(self):
        for p in self.plans(seconds=240.0):
            for each in p["jobs"]:
                faults = sorted(each["faults"], key=lambda f: f["from_s"])
                for f in faults:
                    self.assertTrue(f["rank"] == "all" or 0 <= f["rank"] < each["ranks"])
                    self.assertTrue(plans.PERCENT[0] <= f["percent"] <= plans.PERCENT[1])
                    self.assertGreaterEqual(f["from_s"], plans.CLEAN_START_S)
                    self.assertLessEqual(f["until_s"], 240.0)
                    self.assertGreater(f["until_s"], f["from_s"])
                for before, after in zip(faults, faults[1:]):
                    if before["kind"] in plans.ALONE | plans.HANGS or after["kind"] in plans.ALONE | plans.HANGS:
                        self.assertLess(before["until_s"], after["from_s"])

    def test_a_hog_hits_a_rank_that_has_its_cpus_alone(self):
        for p in self.plans():
            for each in p["jobs"]:
                for f in each["faults"]:
                    if f["kind"] in ("preempt", "threads"):
                        others = set().union(*(set(c) for r, c in enumerate(each["cpus"]) if r != f["rank"]))
                        self.assertFalse(set(each["cpus"][f["rank"]]) & others)

    def test_odd_seeds_are_kept(self):
        words = [sys.executable, str(HERE / "run.py"), "--seed", "3", "--list"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("kept", done.stderr)
        self.assertNotIn("faults", done.stdout)


class Lanes(unittest.TestCase):
    def test_seeds(self):
        self.assertEqual(lanes.seeds_of("1000,1004,1010-1016/2"), [1000, 1004, 1010, 1012, 1014, 1016])
        self.assertEqual(lanes.seeds_of("2-4"), [2, 3, 4])

    def test_lanes_share_no_cpu(self):
        got, common = lanes.divide_cpus([0, 8, 1, 9, 2, 10, 3], [4, 2])
        self.assertEqual((got, common), ([[0, 8, 1, 9], [2, 10]], [3]))
        self.assertIsNone(lanes.divide_cpus([0, 1], [2, 1]))

    def test_jobs_fill_the_time(self):
        for left in range(0, 1200, 7):
            at, count = float(left), 0
            while True:
                seconds = lanes.job_seconds(at, 38, 240)
                if not seconds:
                    break
                self.assertTrue(lanes.LEAST_S <= seconds <= 240)
                at -= seconds + 38
                count += 1
            self.assertGreaterEqual(at, -1e-6)
            self.assertLess(at, lanes.LEAST_S + 38)
            self.assertEqual(count == 0, left < lanes.LEAST_S + 38)
        self.assertEqual(lanes.job_seconds(100, 38, 45), 45)  # all are to be short

    def test_a_plan_keeps_to_its_lane(self):
        for seed in range(2, 200, 2):
            plan = plans.place(plans.draw(seed, KINDS, 4, seconds=240.0, first_s=lanes.FIRST_S, gap_s=lanes.GAP_S), [5, 7, 20, 22])
            for each in plan["jobs"]:
                for own in each["cpus"] or []:
                    self.assertTrue(own and set(own) <= {5, 7, 20, 22})

    def test_density_changes_no_size_and_no_length(self):
        def rows(**more):
            faults = [f for seed in range(2, 802, 2) for j in plans.draw(seed, KINDS, 2, seconds=240.0, **more)["jobs"] for f in j["faults"]]
            lengths = sorted(f["until_s"] - f["from_s"] for f in faults)
            return len(faults), lengths[len(lengths) // 2], sorted(f["percent"] for f in faults)[len(faults) // 2]
        usual, dense = rows(), rows(first_s=lanes.FIRST_S, gap_s=lanes.GAP_S)
        self.assertGreater(dense[0], 1.2 * usual[0])
        self.assertLess(abs(dense[1] / usual[1] - 1), 0.1)
        self.assertLess(abs(dense[2] / usual[2] - 1), 0.2)

    def test_one_plan_without_names_at_a_time(self):
        class Lane:
            refused, gpus = set(), 0
            draw = staticmethod(lambda seed, seconds: {"seed": seed, "shape": "a", "jobs": [{"name": "" if seed < 5 else "x", "faults": []}]})
            lacks = staticmethod(lambda plan: "none" if plan["seed"] == 2 else None)
        seeds = lanes.Seeds([2, 3, 4, 6])
        first = seeds.take(Lane, 60)
        self.assertEqual((first["seed"], seeds.take(Lane, 60)["seed"], seeds.take(Lane, 60)), (3, 6, None))
        seeds.back(first)
        self.assertEqual(seeds.take(Lane, 60)["seed"], 4)
        self.assertEqual((dict(seeds.skipped), seeds.left), ({"none": 1}, [2]))

    def test_cards_take_the_plan_with_most_faults(self):
        class Lane:
            refused, gpus = set(), 2
            draw = staticmethod(lambda seed, seconds: {"seed": seed, "shape": "ab"[seed % 2], "jobs": [{"name": "x", "faults": [0] * (seed % 5)}]})
            lacks = staticmethod(lambda plan: "none" if plan["seed"] == 4 else None)
        seeds = lanes.Seeds([1, 3, 4, 8, 10])
        self.assertEqual([seeds.take(Lane, 60)["seed"] for _ in range(4)], [3, 8, 1, 10])
        self.assertIsNone(seeds.take(Lane, 60))
        seeds = lanes.Seeds([5, 15, 10, 20])  # without faults: by shape
        self.assertEqual([seeds.take(Lane, 60)["seed"] for _ in range(4)], [5, 10, 15, 20])

    def test_faults_that_were_not_reached_are_no_truth(self):
        faults = [dict(id="a", place="outside", from_s=30), dict(id="b", place="outside", from_s=70), dict(id="c", place="-", from_s=40, began_ns=40 * S),
                  dict(id="d", place="-", from_s=50)]
        self.assertEqual([f["id"] for f in lanes.reached(faults, 0, 60 * S)], ["a", "c"])

    def test_findings_of_another_time_belong_to_another_job(self):
        jobs = [dict(job([], []), job="", known_as=[""], start_ns=a * S, end_ns=b * S) for a, b in ((0, 100), (200, 300))]
        self.assertEqual([len(rows) for rows in score.divide([finding(0, 50, 60, 2.0, job=None), finding(0, 210, 220, 2.0, job=None)], jobs)], [1, 1])
        self.assertEqual([len(rows) for rows in score.divide([finding(0, 150, 160, 2.0, job=None)], jobs)], [0, 0])

    def test_packed_and_unpacked(self):
        with tempfile.TemporaryDirectory() as name:
            folder, out = pathlib.Path(name) / "kept", pathlib.Path(name) / "out"
            (folder / "logs").mkdir(parents=True)
            (folder / "state/db").mkdir(parents=True)
            out.mkdir()
            store = sqlite3.connect(folder / "state/db/events-1.db")
            store.execute("CREATE TABLE offcpu_raw(duration_ns INTEGER, run_delay_ns INTEGER)")
            store.executemany("INSERT INTO offcpu_raw VALUES (?, ?)", [(1000, 0), (1000, 900), (1000, 99)])
            store.commit()
            store.close()
            logs = logs_of([0.1] * 500)
            for rank, (head, rows) in logs.items():
                (folder / "logs" / ("job0.rank.%d.jsonl" % rank)).write_text("\n".join(map(json.dumps, [head, *rows])) + "\n")
            plan = dict(planned([]), end_ns=50 * S)
            (folder / "run.json").write_text(json.dumps(dict(seed=None, shape="lanes", l1=False, noise=False, jobs=[plan], start_ns=[0], end_ns=90 * S, known_as=[["j"]])))
            with contextlib.redirect_stdout(io.StringIO()) as said:
                lanes.pack(folder, out, 0)
                lanes.unpack(out, pathlib.Path(name) / "again")
            self.assertIn("without 2 off-CPU intervals of threads that slept", said.getvalue())
            self.assertIn("without 1 off-CPU intervals of all threads", said.getvalue())
            whole = json.loads((pathlib.Path(name) / "again/truth.json").read_text())
            self.assertEqual((whole["jobs"][0]["end_ns"], whole["jobs"][0]["known_as"], round(whole["jobs"][0]["step_ms"])), (50 * S, ["j"], 100))
            again = sqlite3.connect(pathlib.Path(name) / "again/state/db/events-1.db")
            self.assertEqual(again.execute("SELECT run_delay_ns FROM offcpu_raw").fetchall(), [])
            again.close()

    def test_odd_seeds_are_kept(self):
        done = subprocess.run([sys.executable, str(HERE / "lanes.py"), "/nowhere", "--seeds", "3"], capture_output=True, text=True, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("kept", done.stderr)

    @unittest.skipUnless(importlib.util.find_spec("torch"), "no PyTorch here")
    def test_clean_steps_are_those_without_a_fault_of_any_rank(self):
        import faults  # pylint: disable=import-outside-toplevel
        import torch  # pylint: disable=import-outside-toplevel
        mine = faults.Faults([dict(id="f0", kind="fsync", rank=1, place="outside", from_s=10, until_s=20, percent=100)], 0, torch.device("cpu"), "/tmp")
        for ago_s, seconds in ((5, 0.1), (15, 0.2), (20.5, 0.2), (22, 0.1)):
            mine.start_ns = faults.now_ns() - int(ago_s * S)
            mine.end_step(seconds, True)
        self.assertEqual(mine.clean_s, [0.1, 0.1])


if __name__ == "__main__":
    unittest.main()
