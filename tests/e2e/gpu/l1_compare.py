#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the stored collectives with PyTorch's profiler of the same run, and across ranks.

  l1_compare.py profiler TRACECTL FILE...      a file of l1_train.py a rank: count, bytes and type of every operation, the
                                               device durations, and the join over all ranks
  l1_compare.py joined TRACECTL --pids P,P.. [--since NS] [--until NS] [--least N] [--tier device]
                                               every (communicator, seq) is stored on all members, with the same operation
  l1_compare.py self-test                      both comparisons on synthetic data; needs no GPU

Prints a table, and a line beginning with FAIL per mismatch. Exit code 1 on a mismatch.
"""
import argparse
import json
import statistics
import subprocess
import sys
from collections import Counter, defaultdict

# The profiler's names, and which of its two element counts the NCCL call has. Others (lists of tensors, several peers)
# become several calls, which the profiler does not list separately.
OPERATIONS = {
    "allreduce": ("AllReduce", "in"), "all_reduce": ("AllReduce", "in"), "_all_reduce": ("AllReduce", "in"),
    "broadcast": ("Broadcast", "in"), "_broadcast_oop": ("Broadcast", "in"),
    "reduce": ("Reduce", "in"), "_reduce_oop": ("Reduce", "in"),
    "_allgather_base": ("AllGather", "in"), "all_gather": ("AllGather", "in"), "allgather": ("AllGather", "in"),
    "_reduce_scatter_base": ("ReduceScatter", "out"), "reduce_scatter": ("ReduceScatter", "out"),
    "barrier": ("AllReduce", "in"),
    "send": ("Send", "in"), "recv": ("Recv", "out"),
}
DTYPES = {  # the profiler's name: bytes, and the store's name
    "Float": (4, "float32"), "Half": (2, "float16"), "BFloat16": (2, "bfloat16"), "Double": (8, "float64"),
    "Long": (8, "int64"), "Int": (4, "int32"), "Char": (1, "int8"), "Byte": (1, "uint8"), "Bool": (1, "uint8"),
}
WITHIN = 0.05  # of device durations
# The profiler times the whole kernel, the marker from the first channel's start to the last one's stop. The difference of
# about 3 us dominates operations of 20 us, so short ones have an absolute tolerance.
WITHIN_US = 5.0


class Report:
    def __init__(self):
        self.failures = 0

    def bad(self, line):
        self.failures += 1
        if self.failures <= 40:
            print("FAIL: " + line)

    def check(self, right, line):
        if not right:
            self.bad(line)
        return right


def query(tracectl, sql):
    out = subprocess.run([tracectl, "query", "--json", sql], check=True, capture_output=True, text=True).stdout
    return json.loads(out)


def stored_rows(tracectl, pid, since, until):
    rows = query(tracectl, "select communicator, seq, op, dtype, count, bytes, host_start_ns, host_duration_ns, device_start_ns, "
                 "device_duration_ns, tier, seq_from, captured, result from collectives "
                 f"where instance = (select max(instance) from ranks where pid = {pid}) "
                 f"and host_start_ns between {since} and {until} order by host_start_ns")
    return [r for r in rows if r["op"] not in ("Send", "Recv")]


def stored_communicators(tracectl, pids):
    listed = ",".join(str(p) for p in pids)
    return query(tracectl, "select communicator, member, members, name, kind, source, reason, instance from communicators "
                 f"where instance in (select max(instance) from ranks where pid in ({listed}) group by pid)")


def expected(kernel):
    """(operation, type, count, bytes) that the store should hold for a kernel, or None if the profiler lacks it."""
    known, dtype = OPERATIONS.get(kernel["name"]), DTYPES.get(kernel["dtype"])
    if not known or not dtype or kernel["in"] is None:
        return None
    count = kernel[known[1]]
    # Bytes of the message that this rank passes: the whole for a reduce-scatter, its part for an all-gather.
    message = kernel["out"] if known[0] == "Recv" else kernel["in"]
    return known[0], dtype[1], count, message * dtype[0]


def signature(row):
    return row["op"], row["dtype"], row["count"], row["bytes"]


def difference(want, have):
    """Describes the first difference of two sequences of signatures."""
    for i, (w, h) in enumerate(zip(want, have)):
        if w != h:
            return f"operation {i + 1}: profiler {w}, stored {h}"
    return f"profiler {len(want)} operations, stored {len(have)}"


def numbered(rank, rows, report):
    """The numbered rows; a failed call has no number."""
    for row in rows:
        report.check(row["seq"] is not None, f"rank {rank}: {row['op']} of {row['count']} has no number, result {row['result']}")
    return [row for row in rows if row["seq"] is not None]


def compare_rank(truth, rows, report):
    """Matches each process group of the profiler with a communicator of the store; returns the pairs (kernel, row)."""
    rank = truth["rank"]
    groups = defaultdict(list)
    for kernel in truth["kernels"]:
        groups[kernel["group"], kernel["ranks"]].append(kernel)
    by_communicator = defaultdict(list)
    for row in rows:
        report.check(row["communicator"], f"rank {rank}: {row['op']} of {row['count']} has no communicator")
        by_communicator[row["communicator"]].append(row)
    for of in by_communicator.values():
        of.sort(key=lambda r: r["seq"])
    pairs, free = [], dict(by_communicator)
    for (group, ranks), kernels in sorted(groups.items()):
        want = [expected(k) for k in kernels]
        if None in want:
            strange = Counter((k["name"], k["dtype"]) for k, w in zip(kernels, want) if w is None)
            report.bad(f"rank {rank}, group {group or '?'} {ranks}: the profiler does not say what these are: {dict(strange)}")
            continue
        same = [c for c, of in free.items() if [signature(r) for r in of] == want]
        if not same:
            near = min(free, key=lambda c: abs(len(free[c]) - len(want)), default=None)
            report.bad(f"rank {rank}, group {group} {ranks}: no communicator has these {len(want)} operations; nearest {near}: "
                       + difference(want, [signature(r) for r in free.get(near, [])]))
            continue
        pairs += zip(kernels, free.pop(same[0]))
    for communicator, of in free.items():
        report.bad(f"rank {rank}: {len(of)} operations of communicator {communicator} that the profiler has not: "
                   f"{dict(Counter(signature(r) for r in of).most_common(3))}")
    return pairs


def compare_durations(rank, pairs, report):
    """Device durations: the median over all operations, and over each kind of them, against the profiler's kernels."""
    have = [(k["duration_us"], r["device_duration_ns"] / 1e3, r["op"]) for k, r in pairs if r["tier"] == "device"]
    report.check(len(have) == len(pairs), f"rank {rank}: {len(pairs) - len(have)} of {len(pairs)} operations have no device time")
    if not have:
        return
    for op in ["all"] + sorted({h[2] for h in have}):
        of = [h for h in have if op in ("all", h[2])]
        theirs, ours = (statistics.median(h[i] for h in of) for i in (0, 1))
        each = statistics.median(h[1] / h[0] - 1 for h in of if h[0])
        print(f"  rank {rank} {op:14} n={len(of):5} profiler {theirs:9.1f} us  device {ours:9.1f} us  {100 * (ours / theirs - 1):+6.2f} %"
              f"  operation by operation {100 * each:+6.2f} %")
        if op == "all":
            report.check(abs(ours / theirs - 1) <= WITHIN or abs(each) <= WITHIN or (theirs < 50 and abs(ours - theirs) <= WITHIN_US),
                         f"rank {rank}: device durations are {100 * (ours / theirs - 1):+.2f} % off the profiler's, {100 * each:+.2f} % each")


def check_joined(rows_of, communicators, report, least=1, cut=False):
    """rows_of: rank -> rows. Every (communicator, seq) must be equal on all members. cut: ranks may differ at the window's ends."""
    members = {}
    for c in communicators:
        if c["communicator"]:
            members.setdefault(c["communicator"], c["members"])
    table = defaultdict(lambda: defaultdict(list))
    for rank, rows in rows_of.items():
        for row in rows:
            if report.check(row["communicator"], f"rank {rank}: {row['op']} {row['seq']} has no communicator"):
                table[row["communicator"]][row["seq"]].append((rank, row["op"], row["dtype"], row["count"]))
            report.check(row["seq_from"] != "attach", f"rank {rank}: {row['op']} {row['seq']} is numbered from the attach")
    joined = 0
    for communicator, seqs in table.items():
        if not report.check(communicator in members, f"communicator {communicator} has no row of its own"):
            continue
        ranks = {r for of in seqs.values() for r, *_ in of}
        if not report.check(len(ranks) == members[communicator],
                            f"communicator {communicator}: {members[communicator]} members, rows of {sorted(ranks)}"):
            continue
        low, high = min(seqs), max(seqs)
        if cut:
            low = max(min(s for s, of in seqs.items() if r in [x[0] for x in of]) for r in ranks)
            high = min(max(s for s, of in seqs.items() if r in [x[0] for x in of]) for r in ranks)
        for seq in range(low, high + 1):
            of = seqs.get(seq, [])
            if not report.check(len(of) == len(ranks) and len({x[0] for x in of}) == len(ranks),
                                f"{communicator} {seq}: on ranks {sorted(x[0] for x in of)} of {sorted(ranks)}"):
                continue
            if report.check(len({x[1:] for x in of}) == 1, f"{communicator} {seq}: members differ: {of}"):
                joined += 1
        print(f"  communicator {communicator}: members {members[communicator]}, numbers {low}..{high}, ranks {sorted(ranks)}")
    report.check(joined >= least, f"{joined} operations joined over the ranks, at least {least} expected")
    print(f"  {joined} operations joined over all their members")


def run_profiler(tracectl, files, report):
    truths = []
    for file in files:
        with open(file, encoding="utf-8") as f:
            truths.append(json.load(f))
    rows_of = {}
    for truth in truths:
        rows = stored_rows(tracectl, truth["pid"], truth["start_ns"], truth["end_ns"])
        rows = rows_of[truth["rank"]] = numbered(truth["rank"], rows, report)
        print(f"  rank {truth['rank']}: profiler {len(truth['kernels'])} operations, stored {len(rows)}: "
              f"{dict(Counter(r['op'] for r in rows))}")
        report.check(truth["kernels"], f"rank {truth['rank']}: the profiler recorded nothing")
        failed = [r for r in rows if r["result"]]
        report.check(not failed, f"rank {truth['rank']}: {len(failed)} calls are stored as failed")
        compare_durations(truth["rank"], compare_rank(truth, rows, report), report)
    check_joined(rows_of, stored_communicators(tracectl, [t["pid"] for t in truths]), report)


def run_joined(tracectl, args, report):
    pids = [int(p) for p in args.pids.split(",")]
    rows_of = {rank: numbered(rank, stored_rows(tracectl, pid, args.since, args.until), report) for rank, pid in enumerate(pids)}
    for rank, rows in rows_of.items():
        print(f"  rank {rank}: {len(rows)} rows, numbered from {dict(Counter(r['seq_from'] for r in rows))}, "
              f"tiers {dict(Counter(r['tier'] for r in rows))}")
        report.check(rows, f"rank {rank}: no rows")
        if args.tier:
            # The newest may lack their device record when the window ends.
            off = [r for r in rows[:-20] if r["tier"] != args.tier]
            report.check(not off, f"rank {rank}: {len(off)} of {len(rows)} rows are not of tier {args.tier}")
    communicators = stored_communicators(tracectl, pids)
    for c in communicators:
        report.check(c["communicator"], f"a communicator is not identified: {c['reason']}")
    for source, n in Counter(c["source"] for c in communicators).items():
        print(f"  {n} communicators identified by: {source}")
    check_joined(rows_of, communicators, report, args.least, cut=True)


def made_up(rank):
    kernels, rows = [], []
    for i in range(10):
        op = ("allreduce", "_allgather_base", "_reduce_scatter_base")[i % 3]
        n_in, n_out = ((64, 64), (32, 64), (64, 32))[i % 3]
        kernels.append({"name": op, "in": n_in, "out": n_out, "dtype": "Float", "group": "0", "ranks": "[0, 1]", "duration_us": 50.0 + i})
        want = expected(kernels[-1])
        rows.append({"communicator": "00000000000000aa", "seq": 100 + i, "op": want[0], "dtype": want[1], "count": want[2], "bytes": want[3],
                     "tier": "device", "device_duration_ns": 1000 * (51 + i), "seq_from": "init", "result": 0})
    return {"rank": rank, "kernels": kernels}, rows


def self_test():
    """Each kind of error must be reported, and correct data must pass."""
    def judge(spoil):
        report, rows_of = Report(), {}
        truths = [made_up(r) for r in (0, 1)]
        spoil(truths)
        for truth, rows in truths:
            compare_durations(truth["rank"], compare_rank(truth, rows, report), report)
            rows_of[truth["rank"]] = rows
        check_joined(rows_of, [{"communicator": "00000000000000aa", "members": 2}], report)
        return report.failures

    spoils = {
        "nothing": lambda t: None,
        "a count differs": lambda t: t[0][1][3].update(count=65),
        "bytes differ": lambda t: t[0][1][3].update(bytes=1),
        "a type differs": lambda t: t[1][1][3].update(dtype="float16"),
        "a row is missing": lambda t: t[1][1].pop(4),
        "a row too many": lambda t: t[1][1].append(dict(t[1][1][-1], seq=110)),
        "a number is wrong": lambda t: t[1][1][9].update(seq=111),
        "two ranks differ": lambda t: [t[1][1][5].update(op="AllReduce"), t[1][0]["kernels"][5].update(name="allreduce")],
        "the device is slow": lambda t: [r.update(device_duration_ns=2 * r["device_duration_ns"]) for r in t[0][1]],
        "no device time": lambda t: t[0][1][2].update(tier="host"),
        "numbered from the attach": lambda t: t[0][1][2].update(seq_from="attach"),
        "no communicator": lambda t: t[0][1][2].update(communicator=""),
        "an operation that the profiler does not name": lambda t: t[0][0]["kernels"][0].update(name="coalesced"),
    }
    wrong = []
    for name, spoil in spoils.items():
        print(f"-- {name}")
        if (judge(spoil) > 0) != (name != "nothing"):
            wrong.append(name)
    if wrong:
        sys.exit(f"self-test: wrong results: {wrong}")
    print("self-test passed")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["profiler", "joined", "self-test"])
    parser.add_argument("tracectl", nargs="?")
    parser.add_argument("files", nargs="*")
    parser.add_argument("--pids")
    parser.add_argument("--since", type=int, default=0)
    parser.add_argument("--until", type=int, default=2**62)
    parser.add_argument("--least", type=int, default=1)
    parser.add_argument("--tier")
    args = parser.parse_args()
    report = Report()
    if args.what == "self-test":
        return self_test()
    if args.what == "profiler":
        run_profiler(args.tracectl, args.files, report)
    else:
        run_joined(args.tracectl, args, report)
    if report.failures > 40:
        print(f"FAIL: {report.failures - 40} more")
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
