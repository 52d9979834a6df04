#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What a profile costs the sampled threads, by depth of the Python stack: the program's rate while it is profiled and while it
# is not, in turn, and the share of its time by the probe's own count. BUILD=build PAIRS=6 tests/bench/profile.sh
source "$(dirname "$0")/../e2e/lib.sh"
cat >"$work/deep.py" <<'PY'
import sys, time
import torch  # makes it a rank


def busy():
    sum(range(2000))

def naps():
    time.sleep(0.0002)

def work(kind, seconds, log):
    at = time.monotonic()
    end, loops = at + seconds, 0
    while at < end:
        for _ in range(100):
            kind()
        loops += 100
        now = time.monotonic()
        if now - at >= 0.25:
            log.write("%f %f %f\n" % (at, now, loops / (now - at)))
            log.flush()
            at, loops = now, 0

def deep(n, *rest):
    return deep(n - 1, *rest) if n else work(*rest)

deep(int(sys.argv[1]), {"busy": busy, "naps": naps}[sys.argv[2]], float(sys.argv[3]), open(sys.argv[4], "w"))
PY
cat >"$work/pairs.py" <<'PY'
import re, statistics, subprocess, sys, time

ask, socket, tracectl, log, hz, pairs, kind, depth = sys.argv[1:]
def status():
    text = subprocess.run([tracectl, "status"], capture_output=True, text=True).stdout
    found = re.search(r"suspicions: (\d+) samples.*?took ([0-9.e+-]+) ms", " ".join(text.split()))
    return [float(v) for v in found.groups()] if found else [0, 0]

windows, samples, took = [], 0, 0
for _ in range(int(pairs)):
    before, begin = status(), time.monotonic()
    subprocess.run([sys.executable, ask, socket, "3", hz], check=True, stdout=subprocess.DEVNULL)
    after = status()
    samples, took = samples + after[0] - before[0], took + after[1] - before[1]
    rest = time.monotonic()
    time.sleep(2.5)
    # The layout is read before the first sample, and names are asked for during and after a profile.
    windows.append(((begin + 0.5, begin + 3), (rest + 0.5, rest + 2.5)))
rows = [list(map(float, line.split())) for line in open(log)]
def rate(window):
    return statistics.mean(r for a, b, r in rows if a >= window[0] and b <= window[1])
on, off = [rate(w[0]) for w in windows], [rate(w[1]) for w in windows]
lost = sorted(100 * (1 - a / b) for a, b in zip(on, off))
print("%5s  %-5s %9.0f  %7.2f %% (%.2f to %.2f)  %7.2f %%  %8.1f" % (
    depth, kind, statistics.median(off), statistics.median(lost), lost[0], lost[-1],
    took / (3e3 * len(windows)) * 100, samples / len(windows)))
PY
e2e_start
echo "load $(cut -d' ' -f1-3 /proc/loadavg), ${HZ:-49} Hz, ${PAIRS:-6} pairs of 3 s"
echo "depth  work   loops/s  slower, paired (least to most)  by its count  samples"
for depth in ${DEPTHS:-10 64}; do
	for kind in busy naps; do
		RANK=0 WORLD_SIZE=1 "$python" "$work/deep.py" $((depth - 4)) "$kind" 200 "$work/log" >/dev/null 2>&1 &
		rank=$!
		children=("$rank")
		known() { "$tracectl" ranks | grep -q "\b$rank\b"; }
		wait_for 60 known || fail "the rank is not found"
		sleep 1
		"$python_here" "$work/pairs.py" "$source_dir/tests/stacks/ask.py" "$RANKTRACE_SOCKET" "$tracectl" "$work/log" "${HZ:-49}" \
			"${PAIRS:-6}" "$kind" "$depth" || fail "no profile"
		"$tracectl" status | grep -o '[0-9.]* % of .* read' || true
		kill "$rank"
		wait "$rank" 2>/dev/null || true
		children=()
	done
done
e2e_stop
e2e_done
