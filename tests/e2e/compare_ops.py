# SPDX-License-Identifier: Apache-2.0
"""Compares the operations in the store with the calls recorded by the ranks of tests/e2e/train/ops.py.

usage: compare_ops.py TRACECTL [--from NS] TRUTH.json...

Every rank's rows must equal its script's calls: group, number, name, data type, elements, bytes, peer. A group has one
identity on all its members, unique among groups; every collective is stored on all members, by (communicator, seq)
alone. --from NS: the level was on by then (CLOCK_MONOTONIC). Every later call must be stored; earlier calls, made while
probes were being attached, may be.
"""
import argparse
import collections
import json
import subprocess
import sys

failures = []


def query(tracectl, sql):
    out = subprocess.run([tracectl, "query", "--json", sql], check=True, capture_output=True, text=True).stdout
    return json.loads(out)


def check(good, sentence):
    if not good:
        failures.append(sentence)
    return good


def rows_of(tracectl, pid):
    return query(tracectl, "select communicator, seq, op, dtype, count, bytes, peer, host_start_ns start_ns, "
                 "host_duration_ns duration_ns, seq_from, tier, family, thread_id from collectives "
                 f"where instance = (select max(instance) from ranks where pid = {pid}) order by host_start_ns")


def groups_of(tracectl, pid):
    return query(tracectl, "select communicator, member, members, name, family, source, reason from communicators "
                 f"where instance = (select max(instance) from ranks where pid = {pid})")


def name_groups(truths, stored):
    """Identity by group: the identity of each rank's calls of that group."""
    identity = {}
    for rank, truth in truths.items():
        for group in stored[rank]["groups"]:
            check(group["communicator"] and not group["reason"], f"rank {rank}: unidentified group: {group['reason']}")
        known = {(g["member"], g["members"], g["communicator"]) for g in stored[rank]["groups"]}
        for name in sorted({c["group"] for c in truth["calls"]}):
            mine = next(c for c in truth["calls"] if c["group"] == name)
            fits = {c for member, members, c in known if (member, members) == (mine["member"], mine["members"])}
            identity.setdefault(name, []).append((rank, fits))
    result = {}
    for name, candidates in identity.items():
        common = set.intersection(*(fits for _, fits in candidates))
        if check(len(common) == 1, f"group {name} has no common identity on its members: {candidates}"):
            result[name] = common.pop()
    check(len(set(result.values())) == len(result), f"two groups share an identity: {result}")
    return result


def key_of(row):
    return row["op"] if row["peer"] is not None else None, row["peer"], row["seq"]


def compare_rank(rank, calls, rows, from_ns):
    """Compares calls and rows of one group of one rank."""
    by_key = {key_of(row): row for row in rows}
    check(len(by_key) == len(rows), f"rank {rank}: duplicate numbers")
    if from_ns:
        calls = [c for c in calls if c["start_ns"] >= from_ns]
        first = min((c["seq"] for c in calls), default=0)
        check(calls, f"rank {rank}: no calls after --from")
        rows = [row for row in rows if row["seq"] >= first]
    check(len(calls) == len(rows), f"rank {rank}: {len(rows)} rows, {len(calls)} calls")
    for call in calls:
        row = by_key.get(key_of(call))
        if not check(row is not None, f"rank {rank}: no row of {call}"):
            continue
        for field in ("op", "dtype", "count", "bytes"):
            check(row[field] == call[field], f"rank {rank}: {field} of {call} is {row[field]}")
        if not check(row["duration_ns"] is not None, f"rank {rank}: no duration of {call}"):
            continue
        check(row["duration_ns"] >= call["least_ns"], f"rank {rank}: {call} is too short: {row['duration_ns']} ns")
        check(row["tier"] == "host" and row["family"] == "gloo", f"rank {rank}: {row}")
        if call["peer"] is None:
            check(row["seq_from"] == "library", f"rank {rank}: numbered from {row['seq_from']}: {call}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tracectl")
    parser.add_argument("--from", type=int, default=0, dest="from_ns")
    parser.add_argument("truth", nargs="+")
    args = parser.parse_args()
    truths, stored = {}, {}
    for rank, path in enumerate(args.truth):
        with open(path, encoding="utf-8") as f:
            truths[rank] = json.load(f)
        pid = truths[rank]["pid"]
        stored[rank] = {"rows": rows_of(args.tracectl, pid), "groups": groups_of(args.tracectl, pid)}
    identity = name_groups(truths, stored)

    members = {}
    for rank, truth in truths.items():
        known = set(identity.values())
        check(all(row["communicator"] in known for row in stored[rank]["rows"]), f"rank {rank}: rows without a group")
        for name in sorted({c["group"] for c in truth["calls"]}):
            calls = [c for c in truth["calls"] if c["group"] == name]
            members[identity.get(name)] = calls[0]["members"]
            rows = [r for r in stored[rank]["rows"] if r["communicator"] == identity.get(name)]
            collectives = [r for r in rows if r["peer"] is None]
            compare_rank(rank, [c for c in calls if c["peer"] is None], collectives, args.from_ns)
            if not args.from_ns:
                compare_rank(rank, [c for c in calls if c["peer"] is not None], [r for r in rows if r["peer"] is not None], 0)

    # Joins by the store alone: which ranks have each operation.
    joined = collections.defaultdict(set)
    begun = collections.defaultdict(int)
    for rank in stored:
        for row in stored[rank]["rows"]:
            if row["peer"] is None:
                joined[row["communicator"], row["seq"]].add((rank, row["op"]))
        # A later attach splits each rank's calls at another one.
        for call in truths[rank]["calls"] if args.from_ns else []:
            if call["peer"] is None and call["start_ns"] < args.from_ns:
                group = identity.get(call["group"])
                begun[group] = max(begun[group], call["seq"] + 1)
    whole = [key for key in joined if key[1] >= begun[key[0]]]
    orphans = [key for key in whole if len(joined[key]) != members.get(key[0]) or len({op for _, op in joined[key]}) != 1]
    print(f"{len(truths)} ranks of PyTorch {truths[0]['torch']}: {len(identity)} groups, {len(whole)} collectives, "
          f"{len(orphans)} of them not joined; {sum(len(s['rows']) for s in stored.values())} rows")
    check(whole, "no collectives")
    check(not orphans, f"not joined: {[(key, joined[key]) for key in orphans[:5]]}")
    for line in failures[:20]:
        print(f"FAIL: {line}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
