#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares dumps with the store row by row: dumps.py TRACECTL FOLDER PID...

Parses every file with sysTrace's names below the folders independently, and compares the rows with those of `tracectl
query` for these processes, as multisets. Exit code 1 and the differences if they differ.
"""
import collections
import csv
import io
import pathlib
import re
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from protobuf import fields  # noqa: E402

CSV_HEADER = ("Flag,Id,Kind,Name,SourceKind,Timestamp,msptiObjectId_Ds_DeviceId,msptiObjectId_Ds_StreamId,"
              "msptiObjectId_Pt_ProcessId,msptiObjectId_Pt_ThreadId").split(",")
HCCL = {"AllReduce": "HcclAllreduce", "Recv": "HcclReceive"}
CLASSES = {"dataloader": 1, "forward": 2, "backward": 3, "sync": 4, "gc": 5}


def message(data):
    found = collections.defaultdict(list)
    for number, value in fields(data):
        found[number].append(value)
    return found


def one(found, number, default=0):
    return found[number][-1] if found[number] else default


def timeline(path, rows):
    _, rank, pid = re.fullmatch(r"(.+)--(\d{5})--(\d+)\.timeline", path.name).groups()
    whole = message(path.read_bytes())
    assert one(whole, 2) == int(rank), f"{path}: rank {one(whole, 2)}"
    assert one(whole, 4), f"{path}: no job"
    for item in whole[1]:
        stage = message(item)
        name = one(stage, 2).decode()
        frames = [frame.decode() for frame in stage[5]]
        rows[int(rank), int(pid), one(stage, 1), frames[0] if frames else name, one(stage, 3), one(stage, 4)] += 1


def csv_file(path, rows):
    _, rank = re.fullmatch(r"hccl_activity-(\d+\.\d+\.\d+\.\d+)-\.(\d+)\.csv", path.name).groups()
    with open(path, newline="") as file:
        lines = list(csv.reader(file))
    assert lines[0] == CSV_HEADER, f"{path}: {lines[0]}"
    names, pids, times = {}, {}, collections.defaultdict(lambda: collections.defaultdict(list))
    for flag, ident, kind, name, source, time, _, _, pid, _ in lines[1:]:
        assert kind == "1" and flag in ("2", "4", "16", "32"), f"{path}: {flag} {kind}"
        if name:
            assert names.setdefault(ident, name) == name, f"{path}: {ident} is {name} and {names[ident]}"
        if source == "0":
            pids[ident] = int(pid)
        times[ident][source].append(int(time))
    for ident, sides in times.items():
        host, device = sides["0"], sides["1"]
        assert names[ident].startswith("comm:"), f"{path}: {names[ident]}"
        op, group, dtype, count = names[ident][len("comm:"):].split("!")
        assert len(host) <= 2 and len(device) <= 2, f"{path}: {ident} has {len(host)} and {len(device)} marks"
        rows[int(rank), pids.get(ident), op, group, dtype, int(count), min(host, default=0), max(host, default=0), min(device, default=0),
             max(device, default=0)] += 1


def place(frame):
    """Library and address, or function and file where the name of the function is a word; of other frames only that they are there."""
    frame = message(frame)
    text, address = one(frame, 2).decode(), one(frame, 1)
    return (text, address) if address or re.fullmatch(r"\w+ \([^/]+\)", text) else None


def stored_frames(text):
    found = []
    for line in reversed(text.split("\n")[-32:] if text else []):
        library = re.fullmatch(r"native (?:.*/)?([^/]+)\+0x([0-9a-f]+)", line)
        function = re.fullmatch(r"\w+ (\w+) \((?:.*/)?([^/]+)\)", line)
        if library:
            found.append((library[1], int(library[2], 16)))
        else:
            found.append((f"{function[1]} ({function[2]})", 0) if function else None)
    return tuple(found)


def memory(path, rows):
    rank, pid = re.fullmatch(r"hbm_trace_trace_rank(\d+)_(\d+)\.pb", path.name).groups()
    whole = message(path.read_bytes())
    assert one(whole, 1) == int(rank), f"{path}: rank {one(whole, 1)}"
    for item in whole[2]:
        entry = message(item)
        rows[int(rank), int(pid), "taken", one(entry, 1), one(entry, 2), one(entry, 3), one(entry, 4), tuple(place(frame) for frame in entry[5])] += 1
    for item in whole[3]:
        entry = message(item)
        rows[int(rank), int(pid), "given", one(entry, 1), one(entry, 2), one(entry, 3), 0, ()] += 1


def system(path, rows):
    _, rank, pid = re.fullmatch(r"os_trace_(\d{8}_\d\d)_rank_(\d+)_(\d+)\.pb", path.name).groups()
    before = collections.Counter()
    for item in message(path.read_bytes())[1]:
        entry = message(item)
        assert one(entry, 5) == 4 and one(entry, 6) == int(rank), f"{path}: {entry}"
        delay = one(entry, 4) - before[one(entry, 1)]
        assert delay >= 0, f"{path}: the delay of thread {one(entry, 1)} falls"
        before[one(entry, 1)] = one(entry, 4)
        rows[int(rank), int(pid), one(entry, 1), one(entry, 7, b"").decode(), one(entry, 2), one(entry, 3), delay,
             one(entry, 9), one(entry, 8, b"").decode()] += 1


KINDS = {"L0": ("timeline", timeline), "L1": ("mspti", csv_file), "L2": ("hbm_trace", memory), "L3": ("osprobe", system)}


def files(folder, kind, pids):
    name, parse = KINDS[kind]
    rows, count = collections.Counter(), 0
    for path in pathlib.Path(folder).glob(f"**/{name}/*"):
        assert not path.name.startswith("."), f"{path} is left over"
        parse(path, rows)
        count += 1
    return collections.Counter({row: n for row, n in rows.items() if row[1] in pids}), count


def query(tracectl, sql):
    text = subprocess.run([tracectl, "query", "--csv", sql], check=True, capture_output=True, text=True).stdout
    return list(csv.DictReader(io.StringIO(text, newline="")))


def integer(text):
    return int(text) if text else 0


def stored(tracectl, kind):
    process = " natural join (select instance, pid from ranks)"
    rows = collections.Counter()
    if kind == "L0":
        for r in query(tracectl, "select rank, pid, step, stage, name, start_ns, duration_ns from stages" + process):
            start, end = int(r["start_ns"]), int(r["start_ns"]) + int(r["duration_ns"])
            rows[int(r["rank"]), int(r["pid"]), integer(r["step"]), r["name"] or r["stage"], start // 1000, end // 1000] += 1
    elif kind == "L1":
        for r in query(tracectl, "select * from collectives" + process):
            host, device = integer(r["host_start_ns"]), integer(r["device_start_ns"])
            rows[int(r["rank"]), int(r["pid"]), HCCL.get(r["op"], "Hccl" + r["op"]), r["communicator"] or "unknown", r["dtype"] or "unknown",
                 integer(r["count"]), host, host + integer(r["host_duration_ns"]), device,
                 device + integer(r["device_duration_ns"])] += 1
    elif kind == "L2":
        for r in query(tracectl, "select *, (select frames from call_stacks where id = stack limit 1) as frames from allocations" + process + " where result = 0 and address is not null"):
            given = "Free" in r["op"] or "Release" in r["op"]
            rows[int(r["rank"]), int(r["pid"]), "given" if given else "taken", int(r["address"]) % 2**64, integer(r["step"]),
                 CLASSES.get(r["stage"], 0), 0 if given else integer(r["bytes"]), () if given else stored_frames(r["frames"])] += 1
    else:
        for r in query(tracectl, "select * from offcpu" + process):
            rows[int(r["rank"]), int(r["pid"]), int(r["thread_id"]), r["thread_name"], int(r["start_ns"]) // 1000,
                 int(r["duration_ns"]) // 1000, integer(r["run_delay_ns"]), integer(r["next_pid"]), r["next_name"]] += 1
    return rows


def main():
    tracectl, folder, *pids = sys.argv[1:]
    pids = {int(pid) for pid in pids}
    differ = False
    for kind in KINDS:
        dumped, count = files(folder, kind, pids)
        kept = collections.Counter({row: n for row, n in stored(tracectl, kind).items() if row[1] in pids})
        print(f"{kind}: {sum(kept.values())} rows in the store, {sum(dumped.values())} in {count} files")
        for what, rows in (("missing", kept - dumped), ("in no store", dumped - kept)):
            for row in list(rows)[:3]:
                print(f"  {what} ({sum(rows.values())}): {row}")
            differ |= bool(rows)
        if not kept:
            print(f"  no row of {kind} in the store")
            differ = True
    return differ


if __name__ == "__main__":
    sys.exit(main())
