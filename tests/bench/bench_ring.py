#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""From the ring to the disk: the highest rate of marks that a rank may make with none lost.

Run by with_daemon.sh with the tables of probes.d here. bench_burst, a rank, calls probed functions at rising rates;
after each the daemon's own counters say what arrived, was dropped and was stored. The rate doubles until something is
dropped, or the CPU cannot make more, then the gap is halved a few times. Beside it stands a bare SQLite insert of as
many rows. Prints one sample a line for table.awk.
"""
import argparse
import json
import os
import subprocess
import sys
import time

RATE_FIRST = 50000
HALVINGS = 3
SETTLE_S = 2.5  # rows wait at most a second in memory


def status():
    text = subprocess.run([os.environ["TRACECTL"], "status", "--json"], capture_output=True, check=True).stdout
    body = json.loads(text)
    call = [item for item in body["collectors"] if item["name"] == "call"][0]
    me = body["self"]
    return {"events": call["events"], "dropped": call["drops"] + body["store"]["rows_dropped"],
            "rows": body["store"]["rows"], "probes": call["probes_attached"],
            "cpu_ns": me["cpu_user_ns"] + me["cpu_system_ns"]}


class Rank:
    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=dict(os.environ, RANK="0", WORLD_SIZE="1"))

    def wait_for_probes(self):
        end = time.monotonic() + 30
        while status()["probes"] == 0:
            if time.monotonic() > end:
                sys.exit("bench_ring: the daemon attached nothing to bench_burst")
            time.sleep(0.2)

    def burst(self, rate, seconds):
        """What one burst did, None where it lost something."""
        before = status()
        self.process.stdin.write("%d %g\n" % (rate, seconds))
        self.process.stdin.flush()
        marks, took_s = self.process.stdout.readline().split()
        time.sleep(SETTLE_S)
        after = status()
        gone = {key: after[key] - before[key] for key in before}
        print("bench_ring: %d marks/s asked, %.0f made, %d dropped, %d rows stored" % (
            rate, int(marks) / float(took_s), gone["dropped"], gone["rows"]), file=sys.stderr)
        if gone["dropped"] or gone["events"] < int(marks):
            return None
        return {"asked": rate, "rate": int(marks) / float(took_s), "rows_rate": gone["rows"] / float(took_s),
                "rows": gone["rows"], "cpu_ns": gone["cpu_ns"] / int(marks)}

    def highest(self, seconds):
        best, rate = None, RATE_FIRST
        while True:
            done = self.burst(rate, seconds)
            if not done:
                break
            best = done
            if done["rate"] < 0.9 * rate:  # the CPU makes no more
                return best
            rate *= 2
        low, high = (best["asked"] if best else 0), rate
        for _ in range(HALVINGS):
            done = self.burst((low + high) // 2, seconds)
            if done:
                best, low = done, (low + high) // 2
            else:
                high = (low + high) // 2
        return best


def bare_sqlite(program, folder, rows):
    text = subprocess.run([program, folder, "1", str(rows)], capture_output=True, check=True, text=True).stdout
    for line in text.splitlines():
        fields = line.split("\t")
        if fields[:3] == ["store", "bare SQLite", "rows/s"]:
            return float(fields[4])
    sys.exit("bench_ring: bench_store says nothing of SQLite")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bin", help="folder of the benchmark programs")
    parser.add_argument("folder", help="for the bare database")
    parser.add_argument("rounds", type=int)
    parser.add_argument("seconds", type=float, help="of each burst")
    args = parser.parse_args()
    rank = Rank(os.path.join(args.bin, "bench_burst"))
    rank.wait_for_probes()
    for turn in range(args.rounds):
        best = rank.highest(args.seconds)
        if not best:
            sys.exit("bench_ring: even the lowest rate lost records")
        for what, case, unit, value in (
                ("rate", "ring to disk", "events/s", best["rate"]),
                ("rows", "ring to disk", "rows/s", best["rows_rate"]),
                ("rows", "bare SQLite", "rows/s",
                 bare_sqlite(os.path.join(args.bin, "bench_store"), args.folder, best["rows"])),
                ("daemon", "ring to disk", "ns CPU/event", best["cpu_ns"])):
            print("ring %s\t%s\t%s\t%d\t%.1f" % (what, case, unit, turn, value), flush=True)
    rank.process.stdin.close()
    rank.process.wait()


if __name__ == "__main__":
    main()
