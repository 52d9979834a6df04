#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Waits until `tracectl ops --json` names a rank as missing: l1_missing.py TRACECTL RANK PID SECONDS | self-test

Prints the delay and the view's verdict. Exit code 1: not named in time, or another rank named.
"""
import json
import subprocess
import sys
import time


def walk(value):
    if isinstance(value, dict):
        yield value
        for inner in value.values():
            yield from walk(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from walk(inner)


def missing(view):
    """The pids, or else ranks, reported missing by any communicator, and the sentences."""
    found, sentences = set(), []
    for part in walk(view):
        if part.get("missing") is True:
            found.add(("pid", part["pid"]) if "pid" in part else ("rank", part.get("rank")))
        if part.get("state") == "MISSING_RANKS" and part.get("sentence"):
            sentences.append(part["sentence"])
    return found, sentences


def self_test():
    view = {"communicators": [{"communicator": "aa", "state": "MISSING_RANKS", "sentence": "rank 1 has not called it", "members": [
        {"rank": 0, "pid": 10, "missing": False}, {"rank": 1, "pid": 11, "missing": True}]}]}
    assert missing(view) == ({("pid", 11)}, ["rank 1 has not called it"])
    assert missing({"communicators": []}) == (set(), [])
    print("self-test passed")


def main():
    if sys.argv[1:] == ["self-test"]:
        return self_test()
    tracectl, rank, pid, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
    start, text = time.monotonic(), ""
    while time.monotonic() - start < seconds:
        text = subprocess.run([tracectl, "ops", "--json"], capture_output=True, text=True).stdout
        found, sentences = missing(json.loads(text)) if text.strip() else (set(), [])
        if found:
            print(f"  named after {time.monotonic() - start:.2f} s: {sorted(found)}")
            print("\n".join("  " + s for s in sentences))
            if found <= {("pid", pid), ("rank", rank)}:
                return 0
            print(f"FAIL: named {sorted(found)}, stopped rank {rank} of pid {pid}")
            return 1
        time.sleep(0.1)
    print(f"FAIL: rank {rank} (pid {pid}) was not named within {seconds} s; the view: {text[:3000]}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
