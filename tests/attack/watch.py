# SPDX-License-Identifier: Apache-2.0
"""Asks for the daemon's status five times a second until SIGTERM, and keeps the slowest answer.

usage: watch.py TRACECTL FILE

FILE has one line, replaced after each answer: answers, requests without one in 5 s, milliseconds of the slowest,
milliseconds of the event loop's longest stop since the first answer, and of these milliseconds without a CPU (the daemon's own
measure; 0 where the stop has not become longer than before).
"""
import json
import os
import signal
import subprocess
import sys
import time

INTERVAL_S = 0.2
TIMEOUT_S = 5


def stop_ms(status):
    lag = status["self"]["loop_lag"] or {}
    return lag.get("max_ns", 0) / 1e6, lag.get("max_ready_ns", 0) / 1e6


def main():
    tracectl, path = sys.argv[1:]
    answers, unanswered, slowest_ms, before_ms, stopped_ms = 0, 0, 0, None, (0, 0)
    ending = []
    signal.signal(signal.SIGTERM, lambda *_: ending.append(True))
    while not ending:
        start = time.monotonic()
        try:
            out = subprocess.run([tracectl, "status", "--json"], capture_output=True, check=True, text=True, timeout=TIMEOUT_S,
                                 start_new_session=True).stdout
            now_ms = stop_ms(json.loads(out))
            before_ms = now_ms if before_ms is None else before_ms
            stopped_ms = now_ms if now_ms[0] > before_ms[0] else (0, 0)
            answers += 1
        except (subprocess.SubprocessError, ValueError):
            unanswered += 1
        slowest_ms = max(slowest_ms, 1000 * (time.monotonic() - start))
        with open(path + ".part", "w", encoding="ascii") as file:
            file.write(f"{answers} {unanswered} {slowest_ms:.0f} {stopped_ms[0]:.0f} {stopped_ms[1]:.0f}\n")
        os.rename(path + ".part", path)
        time.sleep(INTERVAL_S)


if __name__ == "__main__":
    main()
