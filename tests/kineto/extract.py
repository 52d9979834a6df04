#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stages of training steps from PyTorch profiler traces (kineto). extract.py NAME=TRACE.json.gz... >steps.csv

A step is a ProfilerStep#N. On its thread: data loading, zero_grad and optimizer have marks; device synchronisations are
calls of the runtime. These traces do not mark backward: it lasts from the autograd thread's first operator to its last.
Forward, as ranktrace derives it, is the longer part beside zero_grad between the end of data loading and backward.
"""
import gzip
import json
import sys

MARKS = {
    "enumerate(DataLoader)#": "dataloader",
    "Optimizer.zero_grad#": "zero_grad",
    "Optimizer.step#": "optimizer",
}
SYNCS = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize")
COLUMNS = ["dataloader", "forward", "zero_grad", "backward", "optimizer", "sync"]


def complete(events, **wanted):
    return [e for e in events if e.get("ph") == "X" and all(e.get(k) == v for k, v in wanted.items())]


def steps_of(path):
    with gzip.open(path, "rt") as file:
        events = json.load(file)["traceEvents"]
    operators = complete(events, cat="Operator")
    steps = sorted((e for e in operators if e["name"].startswith("ProfilerStep#")), key=lambda e: e["ts"])
    thread = steps[0]["tid"]
    others = {e["tid"] for e in operators} - {thread}
    assert len(others) == 1, "one autograd thread"
    for step in steps:
        begin, end = step["ts"], step["ts"] + step["dur"]
        inside = [e for e in complete(events) if begin <= e["ts"] < end]
        mine = [e for e in inside if e["tid"] == thread]
        mark = {kind: [e for e in mine if e["name"].startswith(prefix)] for prefix, kind in MARKS.items()}
        assert all(len(found) == 1 for found in mark.values()), "each mark once a step"
        autograd = [e for e in inside if e["tid"] in others and e.get("cat") == "Operator"]
        stage = {kind: found[0]["dur"] for kind, found in mark.items()}
        loaded = mark["dataloader"][0]["ts"] + mark["dataloader"][0]["dur"]
        back = min(e["ts"] for e in autograd)
        zero = mark["zero_grad"][0]
        stage["backward"] = max(e["ts"] + e["dur"] for e in autograd) - back
        stage["forward"] = back - loaded
        if loaded < zero["ts"] < back:
            stage["forward"] = max(zero["ts"] - loaded, back - zero["ts"] - zero["dur"])
        stage["sync"] = sum(e["dur"] for e in mine if e["name"] in SYNCS)
        yield int(step["name"].split("#")[1]), step["dur"], stage


def main():
    print("run,trace,step,step_us," + ",".join(name + "_us" for name in COLUMNS))
    for argument in sys.argv[1:]:
        run, path = argument.split("=", 1)
        for step, length, stage in steps_of(path):
            trace = path.rsplit("/", 1)[-1].split(".")[1]
            print(",".join(map(str, [run, trace, step, length] + [stage[name] for name in COLUMNS])))


if __name__ == "__main__":
    main()
