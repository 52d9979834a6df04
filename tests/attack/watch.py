# SPDX-License-Identifier: Apache-2.0
"""Asks for the daemon's status five times a second until SIGTERM, and keeps the slowest answer.

usage: watch.py TRACECTL SOCKET FILE

FILE has one line, replaced after each answer: answers, requests without one (in 5 s on a connection of this process; of a new
process, whose start takes its time on a machine of which all CPUs are taken, in 75 s), milliseconds of the slowest,
milliseconds of the event loop's longest stop since the first answer, and of these milliseconds without a CPU (the daemon's own
measure; 0 where the stop has not become longer than before). Then what of a slow answer is the machine's: milliseconds of the
slowest answer without a new process, over a connection of this one, and of the slowest run of a tracectl that asks nobody; how
many of the requests by tracectl, and of these runs, took more than a second.
"""
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

INTERVAL_S = 0.2
TIMEOUT_S = 5
START_TIMEOUT_S = 75  # longer than tracectl waits: what it says then is shown
LATE_MS = 1000
REQUEST = b"RTCT" + struct.pack("<HHI", 1, 1, 4) + bytes([0x08, 1, 0x10, 4])  # proto/frame.h, control.proto: STATUS


def run(*command):
    """Its output, as soon as that is complete. A thread reaps it: others that open its files in /proc delay that."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)

    def end():
        # Where it hangs: in its start, in connect(), or without an answer.
        for name in ("stat", "wchan", "stack", "syscall", "maps"):
            try:
                with open(f"/proc/{process.pid}/{name}", encoding="ascii", errors="replace") as file:
                    print(f"watch.py: {name}:", file.read(4096), file=sys.stderr, flush=True)
            except OSError as error:
                print(f"watch.py: {name}:", error, file=sys.stderr, flush=True)
        process.kill()

    timer = threading.Timer(START_TIMEOUT_S, end)
    timer.start()
    with process.stdout, process.stderr:
        out, said = process.stdout.read().decode(), process.stderr.read().decode()
    timer.cancel()
    threading.Thread(target=process.wait, daemon=True).start()
    if not out:
        print("watch.py:", *command, "has no output:", said.strip() or f"killed after {START_TIMEOUT_S} s", file=sys.stderr, flush=True)
        raise OSError("no output")
    return out


def stop_ms(status):
    lag = status["self"]["loop_lag"] or {}
    return lag.get("max_ns", 0) / 1e6, lag.get("max_ready_ns", 0) / 1e6


def ask(path):
    with socket.socket(socket.AF_UNIX) as one:
        # Not settimeout(): with that, connect() fails at once while others wait to be accepted.
        for option in (socket.SO_SNDTIMEO, socket.SO_RCVTIMEO):
            one.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", TIMEOUT_S, 0))
        one.connect(path)
        one.sendall(REQUEST)
        left = struct.unpack("<I", one.recv(12, socket.MSG_WAITALL)[8:])[0]
        while left:
            part = len(one.recv(min(left, 1 << 16)))
            if not part:
                raise OSError("closed")
            left -= part


def took_ms(what, *arguments):
    """Milliseconds, and the result; None where it failed."""
    start = time.monotonic()
    try:
        result = what(*arguments) or ""
    except (subprocess.SubprocessError, OSError, struct.error):
        result = None
    return 1000 * (time.monotonic() - start), result


def main():
    tracectl, path, file_path = sys.argv[1:]
    answers, unanswered, slowest_ms, direct_ms, alone_ms, before_ms, stopped_ms = 0, 0, 0, 0, 0, None, (0, 0)
    late, alone_late = 0, 0
    ending = []
    signal.signal(signal.SIGTERM, lambda *_: ending.append(True))
    while not ending:
        status_ms, out = took_ms(run, tracectl, "status", "--json")
        try:
            now_ms = stop_ms(json.loads(out or ""))
            before_ms = now_ms if before_ms is None else before_ms
            stopped_ms = now_ms if now_ms[0] > before_ms[0] else (0, 0)
            answers += 1
        except ValueError:
            unanswered += 1
        slowest_ms = max(slowest_ms, status_ms)
        late += status_ms > LATE_MS
        asked_ms, answer = took_ms(ask, path)
        unanswered += answer is None
        direct_ms = max(direct_ms, asked_ms)
        nobody_ms = took_ms(run, tracectl, "--version")[0]
        alone_ms = max(alone_ms, nobody_ms)
        alone_late += nobody_ms > LATE_MS
        with open(file_path + ".part", "w", encoding="ascii") as file:
            file.write(f"{answers} {unanswered} {slowest_ms:.0f} {stopped_ms[0]:.0f} {stopped_ms[1]:.0f} {direct_ms:.0f} {alone_ms:.0f} "
                       f"{late} {alone_late}\n")
        os.rename(file_path + ".part", file_path)
        time.sleep(INTERVAL_S)


if __name__ == "__main__":
    main()
