#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What each NVML call of daemon/gauges/gauge_nvml.c costs, and what it does to a job on the card.

Times every call (duration and CPU time), then makes it in a loop beside a loop of small kernels, whose steps are bound by
launches, and compares these steps with those without. Last, whether the counts that nvmlDeviceGetFieldValues gives are those of
the calls that it replaces. Needs a card of NVIDIA and, but for --no-load, PyTorch.
"""
import argparse
import ctypes
import json
import statistics
import struct
import subprocess
import sys
import time

LINKS = 18
LINK_KINDS = {"replays": (0, 52), "recoveries": (1, 59), "CRC of flits": (2, 38), "CRC of data": (3, 45)}  # type of a call, field
LINK_FIELDS = {"replays": 161, "recoveries": 162, "CRC of flits": 163}  # of a link, its number is their scope; from NVLink 4 on
ERROR_FIELDS = (3, 4, 142, 143, 144, 145, 94)
FIELD = struct.Struct("IIqqIIQ")  # nvmlFieldValue_t
MEMORY_V2 = 40 | 2 << 24  # nvmlMemory_v2_t
LAUNCHES = 60  # of a step
EACH_SECOND = 13  # of calls_of(): what the daemon calls once a second, unless it costs too much


def load(seconds):
    """The job: prints the end and duration of each step."""
    import torch

    x = torch.randn(256, 256, device="cuda")
    for _ in range(50):
        x @ x
    torch.cuda.synchronize()
    print("ready", flush=True)
    steps, last = [], time.monotonic()
    until = last + seconds
    while last < until:
        for _ in range(LAUNCHES):
            x @ x
        torch.cuda.synchronize()
        now = time.monotonic()
        steps.append((now, now - last))
        last = now
    json.dump(steps, sys.stdout)


class Nvml:
    def __init__(self, library, card):
        self.library = ctypes.CDLL(library)
        self.card = ctypes.c_void_p()
        self.buffer = ctypes.create_string_buffer(65536)
        self.check("nvmlInit_v2")
        self.check("nvmlDeviceGetHandleByIndex_v2", card, ctypes.byref(self.card))

    def check(self, name, *args):
        code = getattr(self.library, name)(*args)
        if code:
            sys.exit(f"nvml: {name}: error {code}")

    def of_card(self, name, *args):
        """A call, its result below the buffer; 13: the library has no such function."""
        function = getattr(self.library, name, None)
        return function(self.card, *args, self.buffer) if function else 13

    def memory(self):
        struct.pack_into("I", self.buffer, 0, MEMORY_V2)
        return self.of_card("nvmlDeviceGetMemoryInfo_v2")

    def word(self, offset=0):
        return struct.unpack_from("I", self.buffer, offset)[0]

    def long(self):
        return struct.unpack_from("Q", self.buffer)[0]

    def rows(self):
        words = [ctypes.byref(self.buffer, 4 * i) for i in range(4)]
        return self.library.nvmlDeviceGetRemappedRows(self.card, *words)

    def processes(self):
        count = ctypes.c_uint(64)
        return self.library.nvmlDeviceGetComputeRunningProcesses_v3(self.card, ctypes.byref(count), self.buffer)

    def fields(self, ids):
        return self.scoped([(field, 0) for field in ids])

    def scoped(self, pairs):
        for i, (field, scope) in enumerate(pairs):
            FIELD.pack_into(self.buffer, i * FIELD.size, field, scope, 0, 0, 0, 0, 0)
        return self.library.nvmlDeviceGetFieldValues(self.card, len(pairs), self.buffer)

    def scoped_values(self, pairs):
        """None where the card has none."""
        if self.scoped(pairs):
            return [None] * len(pairs)
        values = []
        for i in range(len(pairs)):
            _, _, _, _, kind, code, value = FIELD.unpack_from(self.buffer, i * FIELD.size)
            values.append(None if code else value & 0xffffffff if kind == 1 else value)
        return values

    def field_values(self, ids):
        """By id."""
        return dict(zip(ids, self.scoped_values([(field, 0) for field in ids])))

    def link_fields(self):
        return self.scoped([(field, link) for field in LINK_FIELDS.values() for link in range(LINKS)])

    def link_field_sum(self, field):
        """None: no link has it."""
        counts = [value for value in self.scoped_values([(field, link) for link in range(LINKS)]) if value is not None]
        return sum(counts) if counts else None

    def link_states(self):
        return min(self.of_card("nvmlDeviceGetNvLinkState", link) for link in range(LINKS))

    def link_errors(self):
        return min(self.of_card("nvmlDeviceGetNvLinkErrorCounter", link, kind)
                   for link in range(LINKS) for kind, _ in LINK_KINDS.values())

    def link_sum(self, kind):
        """None: no link has it."""
        counts = [self.long() for link in range(LINKS) if self.of_card("nvmlDeviceGetNvLinkErrorCounter", link, kind) == 0]
        return sum(counts) if counts else None


def calls_of(nvml):
    """Name and function of each call: EACH_SECOND, once a minute, and in place of fields where there are none."""
    def simple(name, *args):
        return name.removeprefix("nvmlDeviceGet"), lambda: nvml.of_card(name, *args)

    return [
        simple("nvmlDeviceGetUtilizationRates"),
        ("MemoryInfo_v2", nvml.memory),
        simple("nvmlDeviceGetTemperature", 0),
        simple("nvmlDeviceGetPowerUsage"),
        ("ClockInfo (SM)", lambda: nvml.of_card("nvmlDeviceGetClockInfo", 1)),
        ("ClockInfo (memory)", lambda: nvml.of_card("nvmlDeviceGetClockInfo", 2)),
        simple("nvmlDeviceGetCurrentClocksEventReasons"),
        ("FieldValues (errors)", lambda: nvml.fields(ERROR_FIELDS)),
        ("FieldValues (NVLinks)", lambda: nvml.fields([field for _, field in LINK_KINDS.values()])),
        ("NvLinkState, 18 links", nvml.link_states),
        simple("nvmlDeviceGetCurrPcieLinkWidth"),
        simple("nvmlDeviceGetCurrPcieLinkGeneration"),
        ("ComputeRunningProcesses", nvml.processes),
        simple("nvmlDeviceGetEnforcedPowerLimit"),
        simple("nvmlDeviceGetMaxPcieLinkWidth"),
        simple("nvmlDeviceGetMaxPcieLinkGeneration"),
        ("MaxClockInfo (SM)", lambda: nvml.of_card("nvmlDeviceGetMaxClockInfo", 1)),
        ("TotalEccErrors (of a field)", lambda: nvml.of_card("nvmlDeviceGetTotalEccErrors", 0, 0)),
        ("RemappedRows (of four fields)", nvml.rows),
        ("PcieReplayCounter (of a field)", lambda: nvml.of_card("nvmlDeviceGetPcieReplayCounter")),
        ("NvLinkErrorCounter, 72 calls (of 4 fields)", nvml.link_errors),
        ("FieldValues (3 of each NVLink)", nvml.link_fields),
    ]


def time_call(function, count):
    """Result, median and longest duration, mean CPU time; us."""
    walls, cpu, code = [], time.thread_time(), 0
    for _ in range(count):
        begin = time.perf_counter()
        code = function()
        walls.append(time.perf_counter() - begin)
    return code, statistics.median(walls) * 1e6, max(walls) * 1e6, (time.thread_time() - cpu) / count * 1e6


class Spans:
    """When what was called in a loop."""

    def __init__(self):
        self.spans = []

    def run(self, name, function, seconds):
        begin = time.monotonic()
        while time.monotonic() < begin + seconds:
            function()
        self.spans.append((name, begin, time.monotonic()))

    def steps(self, steps, name):
        """Durations in ms of the steps wholly within the spans of the name."""
        return [1e3 * took for end, took in steps
                for of, begin, until in self.spans if of == name and begin < end - took and end < until]


def describe(steps):
    ordered = sorted(steps)
    return (f"median {statistics.median(ordered):.3f} mean {statistics.mean(ordered):.3f} "
            f"p99 {ordered[int(len(ordered) * 0.99)]:.3f} max {ordered[-1]:.2f} ms ({len(ordered)} steps)" if ordered else "no step")


def compare(nvml):
    """Counts by fields beside those by calls."""
    by_field = nvml.field_values([*ERROR_FIELDS, *(field for _, field in LINK_KINDS.values())])
    pairs = []
    for name, kind, field in (("ECC corrected", 0, 3), ("ECC uncorrected", 1, 4)):
        value = nvml.long() if nvml.of_card("nvmlDeviceGetTotalEccErrors", kind, 0) == 0 else None
        pairs.append((name, by_field[field], value))
    rows = [nvml.word(4 * i) for i in range(4)] if nvml.rows() == 0 else [None] * 4
    pairs += [(f"rows ({name})", by_field[142 + i], rows[i]) for i, name in enumerate(("corrected", "uncorrected", "pending", "failed"))]
    pairs.append(("PCIe replays", by_field[94], nvml.word() if nvml.of_card("nvmlDeviceGetPcieReplayCounter") == 0 else None))
    pairs += [(f"NVLink {name}", by_field[field], nvml.link_sum(kind)) for name, (kind, field) in LINK_KINDS.items()]
    pairs += [(f"NVLink {name}, each", nvml.link_field_sum(field), nvml.link_sum(LINK_KINDS[name][0])) for name, field in LINK_FIELDS.items()]
    for name, field, call in pairs:
        print(f"{name:24} by field {field}, by calls {call}{'' if field == call else '   DIFFERENT'}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--card", type=int, default=0, help="number of the card in NVML's order (default 0)")
    parser.add_argument("--calls", type=int, default=15, help="calls of each kind that are timed (default 15)")
    parser.add_argument("--seconds", type=float, default=1.2, help="of each call in a loop (default 1.2)")
    parser.add_argument("--library", default="libnvidia-ml.so.1", help="NVML")
    parser.add_argument("--no-load", action="store_true", help="times calls only, without a job")
    parser.add_argument("--load", type=float, metavar="SECONDS", help="is the job, as this program starts itself")
    args = parser.parse_args()
    if args.load:
        load(args.load)
        return
    nvml = Nvml(args.library, args.card)
    calls = calls_of(nvml)
    pause = "none", lambda: time.sleep(0.1), 2
    rounds = {"calls of the daemon once a second": calls[:EACH_SECOND],
              "calls without fields once a second": [call for call in calls if not call[0].startswith("FieldValues")]}
    seconds = len(calls) * (args.seconds + 0.5) + 40  # the job outlasts the spans
    job = None if args.no_load else subprocess.Popen(
        [sys.executable, __file__, "--load", str(seconds)], stdout=subprocess.PIPE, text=True)
    if job and job.stdout.readline().strip() != "ready":
        sys.exit("nvml: the job does not start")
    timed = [(name, *time_call(function, args.calls)) for name, function in calls]
    spans = Spans()
    if job:
        spans.run(*pause)
        for (name, function), (_, code, *_) in zip(calls, timed):
            if code == 0:
                spans.run(name, function, args.seconds)
        spans.run(*pause)
        for name, made in 3 * list(rounds.items()):
            spans.run(name, lambda made=made: ([function() for _, function in made], time.sleep(1)), 2)
            spans.run(*pause)
        steps = json.loads(job.communicate()[0])
        print("steps without calls:", describe(spans.steps(steps, "none")))
    for name, code, median, longest, cpu in timed:
        print(f"{name:44} result {code:3} median {median:8.1f} us, max {longest:8.1f}, CPU {cpu:8.1f}"
              + (f"; steps while in a loop: {describe(spans.steps(steps, name))}" if job and code == 0 else ""))
    for name, made in rounds.items():
        _, median, _, cpu = time_call(lambda made=made: [function() for _, function in made], 3)
        print(f"{name}: {median / 1000:.2f} ms, CPU {cpu / 1000:.2f} ms"
              + (f"; steps: {describe(spans.steps(steps, name))}" if job else ""))
    compare(nvml)


if __name__ == "__main__":
    main()
