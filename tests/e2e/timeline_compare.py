#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares counts of slices, instants, flows and counter values in a timeline with the store's.

usage: timeline_compare.py TRACECTL STATE SINCE UNTIL FILE [TRACE_PROCESSOR]

STATE is the store's folder, SINCE and UNTIL (ns since the epoch) the window of the timeline. The store is queried by SQL;
the file is read by timeline_decode.py and, if given, by Perfetto's trace_processor. Nothing may cross the window's ends.
"""
import csv
import io
import subprocess
import sys
import tempfile

import timeline_decode

WINDOW = "{0} >= {1} and {0} < {2}"
JOINED = ("communicator is not null and seq > 0 and seq_from <> 'attach'")
SLICES = {
    "step": "select count(*) from steps where {start_ns}",
    "stage": "select (select count(*) from stages where {start_ns}) + (select count(*) from in_flight)",
    "collective": "select count(host_duration_ns) from collectives where {host_start_ns}",
    "device": "select count(device_duration_ns) from collectives where {host_start_ns}",
    "memory": "select count(duration_ns) from allocations where {start_ns}",
    "offcpu": "select count(*) from offcpu where {start_ns}",
    "stack": "select count(*) from samples where {start_ns} and kind = 'off_cpu'",
    "finding": "select count(*) from findings where {since_ns} and state in ('open', 'closed')",
}
INSTANTS = {
    "collective": "select count(*) from collectives where {host_start_ns} and host_duration_ns is null",
    "memory": "select count(*) from allocations where {start_ns} and duration_ns is null",
    "finding": "select count(*) from findings where {noticed_ns} and state in ('open', 'closed')",
    "lost": "select count(*) from drops where {start_ns}",
}
FLOWS = [
    f"select coalesce(sum(n - 1), 0) from (select count(*) n from collectives where {{host_start_ns}} and {JOINED} and peer "
    "is null group by communicator, seq)",
    "select coalesce(sum(n - 1), 0) from (select count(*) n from collectives o join communicators c on c.communicator_key = "
    f"o.communicator_key where {{host_start_ns}} and o.{JOINED} and peer is not null and member is not null group by "
    "o.communicator, seq, case when op like 'Recv%' then peer else member end, case when op like 'Recv%' then member else "
    "peer end)",
    "select count(device_start_ns) from collectives where {host_start_ns} and communicator is not null and seq > 0",
]
VALUES = {
    "CPU of the process": "select count(cpu_ns) from host_samples where {start_ns} and duration_ns > 0",
    "run delay": "select count(run_delay_ns) from host_samples where {start_ns} and duration_ns > 0",
    "memory of the process": "select count(resident_bytes) from host_samples where {start_ns}",
    "short off-CPU intervals": "select count(*) from offcpu_sums where {start_ns}",
}
UNITS = {"CPU of the process": "cores", "run delay": "%", "memory of the process": "bytes", "short off-CPU intervals": "times"}
LENGTHS = {
    "step": "select total(duration_ns) from steps where {start_ns}",
    "stage": "select total(duration_ns) from stages where {start_ns}",
    "collective": "select total(host_duration_ns) from collectives where {host_start_ns}",
    "device": "select total(device_duration_ns) from collectives where {host_start_ns}",
    "offcpu": "select total(duration_ns) from offcpu where {start_ns}",
    "stack": "select total(duration_ns) from samples where {start_ns}",
}
PROCESSOR = {
    "slices": "select category, count(*) from slice group by 1",
    "ns": "select category, sum(dur) from slice where dur > 0 group by 1",
    "open": "select category, count(*) from slice where dur = -1 group by 1",
    "flows": "select 'flows', count(*) from flow",
    "values": "select t.name, count(*) from counter c join counter_track t on t.id = c.track_id group by 1",
    "processes": "select 'processes', count(*) from process where name like 'rank %'",
    "errors": "select name, value from stats where severity = 'error' and value > 0",
}


class Store:
    def __init__(self, tracectl, state, since, until):
        self.command, self.state, self.since, self.until = tracectl, state, since, until

    def number(self, sql):
        columns = ("start_ns", "host_start_ns", "since_ns", "noticed_ns")
        sql = sql.format(**{column: WINDOW.format(column, self.since, self.until) for column in columns})
        text = subprocess.run([self.command, "query", "--state-dir", self.state, "--csv", sql], check=True,
                              capture_output=True, text=True).stdout
        return int(float(list(csv.reader(io.StringIO(text)))[1][0]))


def processor_counts(program, path):
    """The same counts by trace_processor: instants are slices of length 0, counters of JSON have the unit in their name."""
    ret = {}
    for name, sql in PROCESSOR.items():
        with tempfile.NamedTemporaryFile("w", suffix=".sql") as file:
            file.write(sql + ";\n")
            file.flush()
            done = subprocess.run([*program.split(), "-q", file.name, path], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"trace_processor: {done.stderr[-2000:]}")
        rows = list(csv.reader(io.StringIO(done.stdout.strip())))[1:]
        ret[name] = {row[0]: int(row[1]) for row in rows if len(row) == 2}
    return ret


def main():
    tracectl, state, since, until, path = sys.argv[1:6]
    program = sys.argv[6] if len(sys.argv) > 6 else ""
    store = Store(tracectl, state, since, until)
    file = timeline_decode.read(path).as_json()
    rows = []
    for name, sql in SLICES.items():
        rows.append(("slices: " + name, store.number(sql), file["slices"].get(name, 0)))
    for name, sql in INSTANTS.items():
        rows.append(("instants: " + name, store.number(sql), file["instants"].get(name, 0)))
    rows.append(("flows", sum(store.number(sql) for sql in FLOWS), file["flows"]))
    rows.append(("samples", store.number("select count(*) from samples where {start_ns} and kind = 'on_cpu' and stack is not null"),
                 file["samples"]))
    for name, sql in VALUES.items():
        of_file = sum(count for key, count in file["values"].items() if key.split(" (thread")[0] == name)
        rows.append(("values: " + name, store.number(sql), of_file))
    for name, sql in LENGTHS.items():
        rows.append(("ns: " + name, store.number(sql), file["duration_ns"].get(name, 0)))
    rows.append(("not ended: stage", store.number("select count(*) from in_flight"), file["open"].get("stage", 0)))
    theirs = processor_counts(program, path) if program else None
    bad = 0
    for name, of_store, of_file in rows:
        line = f"{name:32} store {of_store:13} file {of_file:13}"
        wrong = of_store != of_file
        if theirs is not None:
            kind, _, key = name.partition(": ")
            if kind == "slices":
                expected, got = of_file + file["instants"].get(key, 0), theirs["slices"].get(key, 0)
            elif kind == "flows":
                expected, got = of_file, theirs["flows"].get("flows", 0)
            elif kind == "values":
                expected, got = of_file, sum(n for name, n in theirs["values"].items() if name.split(" (thread")[0] in (key, f"{key} {UNITS[key]}"))
            elif kind == "ns":
                expected, got = of_file, theirs["ns"].get(key, 0)
            elif kind == "not ended":
                expected, got = of_file, theirs["open"].get(key, 0)
            else:
                expected = got = 0
            wrong |= expected != got
            line += f" trace_processor {got:13}" if kind != "instants" else ""
        print(line + ("   <-- DIFFERS" if wrong else ""))
        bad += wrong
    if theirs is not None and theirs["errors"]:
        print(f"trace_processor's errors: {theirs['errors']}")
        bad += 1
    print(f"processes: {file['processes']}")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
