#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What a profile costs the sampled threads, by depth of the Python stack: the program's rate while it is profiled and while it
# is not, in turn, the share of its time by the probe's own count, and what it counts for a sample. "bare" is a program without
# Python, "marks" one that begins a stage again and again: the last column is then what the stack at such a hit takes.
#   BUILD=build PAIRS=6 DEPTHS="10 64" KINDS="busy naps waits marks" tests/bench/profile.sh
source "$(dirname "$0")/../e2e/lib.sh"
cat >"$work/deep.py" <<'PY'
import sys, time
import torch  # makes it a rank


def busy():
    sum(range(2000))

def naps():
    time.sleep(0.0002)

def waits():
    time.sleep(0.002)

def marks():
    with torch.autograd.profiler.record_function("mark"):
        time.sleep(0.002)

def work(kind, seconds, log):
    at = time.monotonic()
    end, loops = at + seconds, 0
    while at < end:
        for _ in range(20):
            kind()
        loops += 20
        now = time.monotonic()
        if now - at >= 0.25:
            log.write("%f %f %f\n" % (at, now, loops / (now - at)))
            log.flush()
            at, loops = now, 0

def deep(n, *rest):
    return deep(n - 1, *rest) if n else work(*rest)

deep(int(sys.argv[1]), globals()[sys.argv[2]], float(sys.argv[3]), open(sys.argv[4], "w"))
PY
cat >"$work/pairs.py" <<'PY'
import re, statistics, subprocess, sys, time

ask, socket, tracectl, log, hz, pairs, kind, depth = sys.argv[1:]
def status():
    text = subprocess.run([tracectl, "status"], capture_output=True, text=True).stdout
    found = re.search(r"suspicions; (\d+) samples.*?took ([0-9.e+-]+) ms", " ".join(text.split()))
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
each = "-" if kind == "naps" else "%.2f" % (1e3 * took / max(samples, 1))  # waits that are too short for a sample are read, too
if kind == "bare":
    print("%5s  %-5s %46s  %7.2f %%  %8.1f  %s" % ("", kind, "", took / (3e3 * len(windows)) * 100, samples / len(windows), each))
    sys.exit()
rows = [list(map(float, line.split())) for line in open(log)]
def rate(window):
    return statistics.mean(r for a, b, r in rows if a >= window[0] and b <= window[1])
on, off = [rate(w[0]) for w in windows], [rate(w[1]) for w in windows]
lost = sorted(100 * (1 - a / b) for a, b in zip(on, off))
print("%5s  %-5s %9.0f  %7.2f %% (%.2f to %.2f)  %7.2f %%  %8.1f  %s" % (
    depth, kind, statistics.median(off), statistics.median(lost), lost[0], lost[-1],
    took / (3e3 * len(windows)) * 100, samples / len(windows), each))
PY
# run KIND DEPTH: a rank; sets $rank.
run() {
	local command=("$python" "$work/deep.py" $(($2 - 4)) "$1" 200 "$work/log")
	# What maps a training library is a rank.
	[ "$1" != bare ] || command=(env "LD_PRELOAD=$build/tests/e2e/libtorch_launch.so" perl -e 'while (1) {}')
	RANK=0 WORLD_SIZE=1 "${command[@]}" >/dev/null 2>&1 &
	rank=$!
	children=("$rank")
	known() { "$tracectl" ranks | grep -q "\b$rank\b"; }
	wait_for 60 known || fail "the rank is not found"
	sleep 1
}
end() {
	kill "$rank"
	wait "$rank" 2>/dev/null || true
	children=()
}
pairs() {
	run "$1" "$2"
	"$python_here" "$work/pairs.py" "$source_dir/tests/stacks/ask.py" "$RANKTRACE_SOCKET" "$tracectl" "$work/log" "${HZ:-49}" \
		"${PAIRS:-6}" "$1" "$2" || fail "no profile"
	"$tracectl" status | grep -o '[0-9.]* % of .* read' || true
	end
}
# Stacks of stages are read at some hits, after 1, 2, 4, 8 s.
marks() {
	local took
	run marks "$1"
	sleep 18
	took=$("$tracectl" status | tr -s ' \n' ' ' | grep -o '[0-9]* stacks at the begin of stages took [0-9.e+-]* ms') || fail "no stack of a stage"
	awk -v depth="$1" '{ printf "%5s  marks %46s  %9s  %8s  %.2f\n", depth, "", "", $1, 1e3 * $(NF - 1) / $1 }' <<<"$took"
	end
}
e2e_start
echo "load $(cut -d' ' -f1-3 /proc/loadavg), ${HZ:-49} Hz, ${PAIRS:-6} pairs of 3 s"
echo "depth  work   loops/s  slower, paired (least to most)  by its count  samples  us each"
pairs bare 0
for depth in ${DEPTHS:-10 64}; do
	for kind in ${KINDS:-busy naps waits marks}; do
		if [ "$kind" = marks ]; then marks "$depth"; else pairs "$kind" "$depth"; fi
	done
done
e2e_stop
e2e_done
