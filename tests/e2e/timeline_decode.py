#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Decodes a timeline with the Python standard library alone, and prints its contents as JSON.

usage: timeline_decode.py FILE           a Perfetto trace or Chrome JSON, distinguished by the first byte
       timeline_decode.py --self-test

A Perfetto trace is decoded from the wire format: packets in time order, interned texts, a stack of open slices per track,
flows as chains. Errors: an end without a begin, an undefined interning number, an undescribed track, invalid UTF-8.
"""
import collections
import json
import struct
import sys


class Broken(Exception):
    pass


# Interned messages that are no texts, and what their fields refer to: frames, callstacks, mappings.
NUMBERS = {6: {2: 5, 3: 19}, 7: {2: 6}, 19: {7: 17}}


def varint(data, at):
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise Broken("a varint has no end")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def fields(data):
    """Every field of a message: number and value; bytes for length-delimited fields."""
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        wire = tag & 7
        if wire == 0:
            value, at = varint(data, at)
        elif wire == 1:
            value, at = data[at:at + 8], at + 8
        elif wire == 2:
            size, at = varint(data, at)
            value, at = data[at:at + size], at + size
            if len(value) != size:
                raise Broken("a field is longer than its message")
        else:
            raise Broken(f"wire type {wire}")
        if at > len(data):
            raise Broken("a field is longer than its message")
        yield tag >> 3, value


def message(data):
    ret = collections.defaultdict(list)
    for number, value in fields(data):
        ret[number].append(value)
    return ret


def one(fields_of, number, default=None):
    return fields_of[number][-1] if number in fields_of else default


def signed(value):
    return value - (1 << 64) if value >= 1 << 63 else value


class Counts:
    def __init__(self):
        self.slices, self.instants, self.values = collections.Counter(), collections.Counter(), collections.Counter()
        self.open = collections.Counter()
        self.duration_ns = collections.Counter()
        self.flows = self.samples = 0
        self.processes, self.threads = {}, set()
        self.args = collections.Counter()
        self.last = {}
        self.times = []

    def as_json(self):
        return {"slices": dict(self.slices), "instants": dict(self.instants), "open": dict(self.open), "flows": self.flows,
                "samples": self.samples,
                               "values": dict(self.values), "last": self.last, "duration_ns": dict(self.duration_ns),
                "processes": sorted(self.processes.values()), "threads": len(self.threads), "args": dict(self.args),
                "from_ns": min(self.times, default=0), "to_ns": max(self.times, default=0)}


class Perfetto:
    """One sequence of packets."""

    def __init__(self):
        self.tracks, self.parents, self.counters = {}, {}, {}
        self.interned = {}
        self.events = []
        self.counts = Counts()

    def text(self, kind, number):
        if (kind, number) not in self.interned:
            raise Broken(f"text {number} of kind {kind} was not interned")
        return self.interned[kind, number]

    def describe(self, data):
        track = message(data)
        uuid = one(track, 1)
        if not uuid:
            raise Broken("a track has no number")
        if 5 in track and one(track, 5) not in self.tracks:
            raise Broken("a track came before its parent")
        self.tracks[uuid] = one(track, 2, b"").decode()
        self.parents[uuid] = one(track, 5)
        if 3 in track:
            process = message(one(track, 3))
            self.counts.processes[one(process, 1)] = one(process, 6).decode()
        if 4 in track:
            thread = message(one(track, 4))
            if one(thread, 1) not in self.counts.processes:
                raise Broken("a thread has no process")
            self.counts.threads.add((one(thread, 1), one(thread, 2)))
        if 8 in track:
            self.counters[uuid] = self.tracks[uuid]

    def packet(self, data):
        packet = message(data)
        if one(packet, 13, 0) & 1:
            self.interned.clear()
        for number, text in fields(one(packet, 12, b"")):
            entry = message(text)
            self.interned[number, one(entry, 1)] = one(entry, 2).decode() if number not in NUMBERS else entry
            for key, of in NUMBERS.get(number, {}).items():
                if not entry[key]:
                    raise Broken("a stack, frame or mapping is empty")
                for value in entry[key]:
                    self.text(of, value)
        if 60 in packet:
            self.describe(one(packet, 60))
        if 66 in packet:
            sample = message(one(packet, 66))
            self.text(7, one(sample, 4))
            if (one(sample, 2), one(sample, 3)) not in self.counts.threads:
                raise Broken("a sample is of no thread")
            self.counts.samples += 1
        if 11 not in packet:
            return
        event = message(one(packet, 11))
        if 56 in event:
            self.text(7, one(event, 56))
        name = self.text(2, one(event, 10)) if 10 in event else None
        category = self.text(1, one(event, 3)) if 3 in event else None
        for arg in event[4]:
            entry = message(arg)
            key = self.text(3, one(entry, 1))
            if 17 in entry:
                self.text(29, one(entry, 17))
            one(entry, 6, b"").decode()
            self.counts.args[key] += 1
        if one(event, 11) not in self.tracks:
            raise Broken("an event is on no track")
        value = struct.unpack("<d", one(event, 44))[0] if 44 in event else None
        self.events.append((signed(one(packet, 8)), one(event, 9), one(event, 11), name, category,
                            [struct.unpack("<Q", flow)[0] for flow in event[47]], value))

    def read(self, data):
        for number, value in fields(data):
            if number != 1:
                raise Broken("the file is no sequence of packets")
            self.packet(value)
        counts, stacks, flows = self.counts, collections.defaultdict(list), set()
        for time, kind, track, name, category, ids, value in sorted(self.events, key=lambda event: event[0]):
            counts.times.append(time)
            if kind == 1:
                stacks[track].append((time, category))
                counts.slices[category] += 1
            elif kind == 2:
                if not stacks[track]:
                    raise Broken("a slice ends that did not begin")
                start, of = stacks[track].pop()
                counts.duration_ns[of] += time - start
            elif kind == 3:
                counts.instants[category] += 1
            elif kind == 4:
                if track not in self.counters:
                    raise Broken("a value is on no counter")
                counts.values[self.counters[track]] += 1
                counts.last[self.counters[track]] = value
            for flow in ids:
                counts.flows += flow in flows
                flows.add(flow)
        for stack in stacks.values():
            for _, category in stack:
                counts.open[category] += 1
        return counts


def read_chrome(data):
    counts, begun = Counts(), collections.Counter()
    trace = json.loads(data.decode())
    lanes = collections.defaultdict(list)
    for event in trace["traceEvents"]:
        phase = event["ph"]
        if phase == "M":
            if event["name"] == "process_name":
                counts.processes[event["pid"]] = event["args"]["name"]
            elif event["name"] == "thread_name":
                counts.threads.add((event["pid"], event["tid"]))
            continue
        if event["pid"] not in counts.processes:
            raise Broken("an event is of no process")
        if phase in "XB":
            counts.slices[event["cat"]] += 1
            lanes[event["pid"], event["tid"]].append((event["ts"], event.get("dur", float("inf"))))
            counts.open[event["cat"]] += phase == "B"
            counts.duration_ns[event["cat"]] += round(1000 * event.get("dur", 0))
        elif phase == "i":
            counts.instants[event["cat"]] += 1
            counts.samples += event["cat"] == "stack" and bool(event["args"]["stack"])
        elif phase == "C":
            counts.values[event["name"]] += 1
        elif phase == "s":
            begun[event["id"]] += 1
        elif phase == "f":
            if not begun[event["id"]]:
                raise Broken("an arrow ends that did not begin")
            counts.flows += 1
        else:
            raise Broken(f"phase {phase}")
    for slices in lanes.values():
        stack = []
        for start, duration in sorted(slices, key=lambda s: (s[0], -s[1])):
            while stack and stack[-1] <= start + 1e-4:
                stack.pop()
            if stack and start + duration > stack[-1] + 1e-2:
                raise Broken("slices of one thread cross")
            stack.append(start + duration)
    counts.open = +counts.open
    return counts


def read(path):
    with open(path, "rb") as file:
        data = file.read()
    return read_chrome(data) if data[:1] == b"{" else Perfetto().read(data)


def self_test():
    """Broken input must be rejected."""
    for data in (b"\x0a\x05\x08", b"\x12\x00", b"\x0a\x04\x5a\x02\x48\x02", b"\x0a\x06\x5a\x04\x48\x02\x58\x07"):
        try:
            Perfetto().read(data)
        except (Broken, TypeError):
            continue
        raise AssertionError(f"{data!r} was taken")
    for text in (b'{"traceEvents":[{"ph":"X","pid":1,"tid":1,"ts":1,"dur":2,"cat":"a"}]}',
                 b'{"traceEvents":[{"ph":"M","name":"process_name","pid":1,"args":{"name":"p"}},'
                 b'{"ph":"X","pid":1,"tid":1,"ts":1,"dur":2,"cat":"a"},{"ph":"X","pid":1,"tid":1,"ts":2,"dur":2,"cat":"a"}]}'):
        try:
            read_chrome(text)
        except Broken:
            continue
        raise AssertionError(f"{text!r} was taken")


if __name__ == "__main__":
    if sys.argv[1:] == ["--self-test"]:
        self_test()
    elif len(sys.argv) == 2:
        try:
            json.dump(read(sys.argv[1]).as_json(), sys.stdout, indent=1)
        except (Broken, UnicodeDecodeError, ValueError) as error:
            sys.exit(f"{sys.argv[1]}: {error}")
        print()
    else:
        sys.exit(__doc__)
