#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What a profile costs the sampled threads, by the probe's own count: a sample on a CPU, and a switch to wait, by depth of the
# Python stack. BUILD=build tests/bench/profile.sh
source "$(dirname "$0")/../e2e/lib.sh"
cat >"$work/deep.py" <<'PY'
import sys, time
import torch  # makes it a rank

def busy(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass

def naps(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.0002)

def deep(n, work, seconds):
    return deep(n - 1, work, seconds) if n else work(seconds)

deep(int(sys.argv[1]), {"busy": busy, "naps": naps}[sys.argv[2]], float(sys.argv[3]))
PY
e2e_start
switches() { sed -n 's/^voluntary_ctxt_switches:\t//p' "/proc/$1/status"; }
# What the probe took so far, in ms, and the samples.
taken() { "$tracectl" status | sed -n 's/.*suspicions: \([0-9]*\) samples.*they took \([0-9.e+-]*\) ms.*/\2 \1/p'; }
echo "depth  work   samples  switches  us each"
before=0 samples_before=0
for depth in 10 64; do
	for kind in busy naps; do
		RANK=0 WORLD_SIZE=1 "$python" "$work/deep.py" $((depth - 3)) "$kind" 12 >/dev/null 2>&1 &
		rank=$!
		children=("$rank")
		known() { "$tracectl" ranks | grep -q "\b$rank\b"; }
		wait_for 60 known || fail "the rank is not found"
		sleep 1
		from=$(switches "$rank")
		"$python_here" "$source_dir/tests/stacks/ask.py" "$RANKTRACE_SOCKET" 4 199 >"$work/asked" || fail "no profile"
		to=$(switches "$rank")
		read -r after samples < <(taken)
		awk -v depth="$depth" -v kind="$kind" -v ms="$after" -v before="$before" -v samples=$((samples - samples_before)) \
			-v switches=$((to - from)) \
			'BEGIN { n = kind == "busy" ? samples : switches; printf "%5d  %s  %8d  %8d  %7.1f\n", depth, kind, samples, switches, (ms - before) * 1000 / n }'
		before=$after samples_before=$samples
		kill "$rank"
		wait "$rank" 2>/dev/null || true
		children=()
	done
done
e2e_stop
e2e_done
