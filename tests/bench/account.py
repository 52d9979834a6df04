#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Do the parts of a rank's thread add up? Its CPU time by its own clock, and by L3 the time in which it was ready without a CPU
and that in which it was blocked, beside the time that passed.

  RANK=0 WORLD_SIZE=1 with_daemon.sh PROBES account.py [SECONDS]     60 without one; exit 1: more than 0.1 % is missing

The thread computes, sleeps, reads a file, waits for another thread, and shares its CPU with a process that needs it.
"""
import csv
import io
import os
import subprocess
import sys
import tempfile
import threading
import time

import torch  # noqa: F401  what makes this process a rank

LIMIT = 0.001


def control(*words):
    done = subprocess.run([os.environ["TRACECTL"], *words], capture_output=True, text=True)
    if done.returncode:
        sys.exit("account: tracectl %s: %s" % (" ".join(words), done.stderr.strip()))
    return done.stdout


def query(sql):
    return [[int(v or 0) for v in row] for row in list(csv.reader(io.StringIO(control("query", "--csv", sql))))[1:]]


def work(until_s, path):
    turn, event = 0, threading.Event()
    while time.monotonic() < until_s:
        turn += 1
        end_s = time.monotonic() + 0.004
        while time.monotonic() < end_s:
            pass
        time.sleep(0.0003 if turn % 2 else 0.006)
        with open(path, "rb") as file:
            file.read()
        event.clear()
        threading.Timer(0.002, event.set).start()
        event.wait()


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60
    cpu = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cpu})
    for _ in range(100):
        if query("select count(*) from ranks where pid = %d" % os.getpid())[0][0]:
            break
        time.sleep(0.1)
    control("set", "L3=true")
    load = subprocess.Popen(["taskset", "-c", str(cpu), "sh", "-c", "while :; do :; done"])
    thread = threading.get_native_id()
    with tempfile.NamedTemporaryFile() as file:
        file.write(os.urandom(1 << 20))
        file.flush()
        work(time.monotonic() + 2, file.name)
        # The thread leaves the CPU here: what is before the time is in no interval of it.
        time.sleep(0.005)
        start_utc, start_ns, start_cpu = time.time_ns(), time.monotonic_ns(), time.thread_time_ns()
        work(time.monotonic() + seconds, file.name)
        end_cpu, end_ns, end_utc = time.thread_time_ns(), time.monotonic_ns(), time.time_ns()
        load.kill()
        load.wait()
        time.sleep(3)
    where = "thread_id = %d and start_ns + duration_ns > %d and start_ns < %d" % (thread, start_utc, end_utc)
    off = ready = 0
    for begin, took, delay in query("select start_ns, duration_ns, run_delay_ns from offcpu where " + where):
        part = min(begin + took, end_utc) - max(begin, start_utc)
        off += part
        ready += delay * part // max(took, 1)
    # Sums cover the second that they begin in.
    for begin, took, delay in query(
            "select start_ns, duration_ns, run_delay_ns from offcpu_sums where thread_id = %d and start_ns > %d and start_ns < %d" % (thread, start_utc - 10**9, end_utc)):
        part = min(begin + 10**9, end_utc) - max(begin, start_utc)
        off += took * part // 10**9
        ready += delay * part // 10**9
    wall, on = end_ns - start_ns, end_cpu - start_cpu
    missing = (wall - on - off) / wall
    print("wall %.3f s: on a CPU %.3f, ready %.3f, blocked %.3f; not accounted for %+.4f %%" %
          (wall / 1e9, on / 1e9, ready / 1e9, (off - ready) / 1e9, 100 * missing))
    sys.exit(abs(missing) > LIMIT)


if __name__ == "__main__":
    main()
