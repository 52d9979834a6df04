# SPDX-License-Identifier: Apache-2.0
"""Reads the three formats of one profile as their readers do, and compares their sums: check_formats.py FOLDED SPEEDSCOPE PPROF"""
import gzip
import json
import pathlib
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from protobuf import fields  # noqa: E402


def folded(path):
    sums = {}
    for line in open(path, encoding="utf-8"):
        stack, _, number = line.rstrip("\n").rpartition(" ")
        assert stack and all(stack.split(";")), line
        sums[stack] = sums.get(stack, 0) + int(number)
    return sum(sums.values()) / 1e6, any("burn (" in s for s in sums)


def speedscope(path):
    """By the schema of speedscope's file format: version 0.0.1, sampled profiles."""
    file = json.load(open(path, encoding="utf-8"))
    assert file["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    frames = file["shared"]["frames"]
    assert all(isinstance(f["name"], str) and f["name"] and set(f) <= {"name", "file", "line", "col"} for f in frames)
    total = burn = 0
    for profile in file["profiles"]:
        assert set(profile) == {"type", "name", "unit", "startValue", "endValue", "samples", "weights"}, profile.keys()
        assert profile["type"] == "sampled" and profile["unit"] == "nanoseconds" and profile["startValue"] == 0
        assert len(profile["samples"]) == len(profile["weights"]) > 0 and sum(profile["weights"]) == profile["endValue"]
        for sample in profile["samples"]:
            assert all(0 <= n < len(frames) for n in sample)
            burn += any(frames[n]["name"] == "burn" for n in sample)
        total += profile["endValue"]
    return total / 1e9, burn > 0


def pprof(path):
    texts, samples, locations, functions, types = [], [], {}, {}, []
    for number, value in fields(gzip.open(path).read()):
        if number == 1:
            types.append(dict(fields(value)))
        elif number == 2:
            samples.append(list(fields(value)))
        elif number == 4:
            location = dict(fields(value))
            locations[location[1]] = dict(fields(location[4]))
        elif number == 5:
            function = dict(fields(value))
            functions[function[1]] = function
        elif number == 6:
            texts.append(value.decode("utf-8"))
    assert texts[0] == "" and [texts[t[1]] + "/" + texts[t[2]] for t in types] == ["samples/count", "time/nanoseconds"]
    total = burn = 0
    for sample in samples:
        stack = [locations[v] for n, v in sample if n == 1]
        values = [v for n, v in sample if n == 2]
        labels = {texts[dict(fields(v))[1]]: dict(fields(v)) for n, v in sample if n == 3}
        assert stack and len(values) == 2 and {"rank", "thread", "cpu"} <= set(labels), sample
        names = [texts[functions[line[1]][2]] for line in stack]
        if "burn" in names:
            burn += names[0] == "burn" and labels["rank"].get(3) == 1 and stack[0][2] == 54
        total += values[1]
    return total / 1e9, burn > 0


results = [read(path) for read, path in zip((folded, speedscope, pprof), sys.argv[1:])]
print("seconds:", ", ".join(f"{total:.3f}" for total, _ in results))
assert all(found for _, found in results), results
assert max(r[0] for r in results) - min(r[0] for r in results) < 0.01, results
