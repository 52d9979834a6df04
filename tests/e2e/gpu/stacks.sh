#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests of stacks on a machine with one NVIDIA card, in at most 100 s (and 4 s for each pair beyond 12): how ranks end, samples of a profile against what a
# program says of itself, stacks read from outside against the same, and what sampling costs a launch-bound step. Needs root
# and a python3 with PyTorch; the programs may come from tests/jobs/bundle.sh, with their libraries in lib/, and beside them
# tests/stacks' reader and tests/e2e's libtorch_launch.so.
#
#   BUILD=DIR tests/e2e/gpu/stacks.sh OUT      PARTS="ends samples truth cost"   PYTHON=python3   PAIRS=12
set -uo pipefail
source_dir=$(cd "$(dirname "$0")/../../.." && pwd)
build=$(cd "${BUILD:?the folder of the programs}" && pwd)
mkdir -p "${1:?a folder for the results}"
out=$(cd "$1" && pwd)
export PYTHON=${PYTHON:-$(command -v python3)}
parts=${PARTS:-ends samples truth cost}
pairs=${PAIRS:-12}
# The other tests take programs at their places in a build folder; the bundle's libraries are for our programs alone.
programs=$(mktemp -d)
chmod 755 "$programs"
mkdir -p "$programs"/{daemon,ctl,tests/e2e}
wrap() {
	printf '#!/bin/sh\nLD_LIBRARY_PATH=%q exec %q "$@"\n' "$build/lib" "$build/$1" >"$programs/$1"
	chmod +x "$programs/$1"
}
wrap daemon/ranktraced
wrap ctl/tracectl
ln -s "$build/libexec" "$programs/libexec"
for file in libtorch_launch.so tests/e2e/libtorch_launch.so; do
	[ ! -e "$build/$file" ] || cp "$build/$file" "$programs/tests/e2e/"
done
mountpoint -q /sys/kernel/tracing || mount -t tracefs nodev /sys/kernel/tracing
mountpoint -q /sys/fs/bpf || mount -t bpf bpf /sys/fs/bpf
failures=0
bad() {
	echo "FAIL: $1"
	failures=$((failures + 1))
}
wants() { case " $parts " in *" $1 "*) true ;; *) false ;; esac; }
daemon=
clean() {
	[ -z "$daemon" ] || { kill "$daemon" && wait "$daemon"; }
	rm -rf "$programs"
}
trap clean EXIT

echo "== machine"
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
uname -r
"$PYTHON" -c 'import sys, torch; print("python", sys.version.split()[0], "torch", torch.__version__)'
if wants ends; then
	echo "== ends, $SECONDS s"
	BUILD=$programs timeout 40 "$source_dir/tests/e2e/ends.sh" >"$out/ends.log" 2>&1 || bad "ends: $(tail -n 60 "$out/ends.log")"
	tail -n 3 "$out/ends.log"
fi
if wants samples; then
	echo "== samples of a profile, $SECONDS s"
	BUILD=$programs SECONDS_TO_SAMPLE=10 HZ=999 timeout 60 "$source_dir/tests/stacks/samples.sh" >"$out/samples.log" 2>&1 || bad "samples"
	tail -n 14 "$out/samples.log"
fi
if wants truth; then
	echo "== stacks read from outside, $SECONDS s"
	reader=$build/reader
	[ -x "$reader" ] || reader=$build/tests/stacks/stack_reader
	printf '#!/bin/sh\nLD_LIBRARY_PATH=%q exec %q "$@"\n' "$build/lib" "$reader" >"$programs/reader"
	chmod +x "$programs/reader"
	timeout 60 "$source_dir/tests/stacks/truth.sh" "$programs/reader" 25 10000 "$PYTHON" >"$out/truth.log" 2>&1 || bad "truth"
	tail -n 14 "$out/truth.log"
fi
if wants cost; then
	echo "== cost of sampling a launch-bound step, $SECONDS s"
	export RANKTRACE_SOCKET=$programs/control.sock RANKTRACE_LIBEXEC=$build/libexec/ranktrace
	# No profile but those that are asked for.
	printf '[daemon]\nprobes_base_dir = %s\n[findings]\nenabled = no\n' "$source_dir/bpf/probes.d" >"$programs/ranktrace.conf"
	"$programs/daemon/ranktraced" --config "$programs/ranktrace.conf" --state-dir "$programs/state" --socket "$RANKTRACE_SOCKET" 2>"$out/stacks.daemon.log" &
	daemon=$!
	for _ in $(seq 100); do "$programs/ctl/tracectl" status >/dev/null 2>&1 && break; sleep 0.1; done
	# Steps of some 3 ms: 300 of them within the profile, which begins when the layout is known. No phase begins before the last
	# profile has ended.
	ended="flock $programs/profile.lock true"
	PHASE_CMD_OFF="$ended; sleep 0.6" \
		PHASE_CMD_ON="$ended; flock $programs/profile.lock $PYTHON $source_dir/tests/stacks/ask.py $RANKTRACE_SOCKET 2 49 >>$out/profiles.log 2>&1 & sleep 0.6" \
		RANK=0 LOCAL_RANK=0 WORLD_SIZE=1 LOCAL_WORLD_SIZE=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=29731 \
		timeout $((60 + 6 * pairs)) taskset -c 2-9 "$PYTHON" "$source_dir/tests/e2e/gpu/train_gpu.py" --shape launch --layers 10 --pairs "$pairs" \
		--steps 300 --settle 5 >"$out/cost.json" 2>"$out/cost.err" || bad "the training failed: $(tail -n 5 "$out/cost.err")"
	"$PYTHON" - "$out/cost.json" <<'PY' || bad "no cost"
import json, math, sys
r = json.load(open(sys.argv[1]))
each = sorted(r["on_change_percent_each"])
# Order statistics: the median lies between the pairs of these ranks with 95 %, whatever the distribution.
below = [sum(math.comb(len(each), i) for i in range(k + 1)) / 2 ** len(each) for k in range(len(each))]
low = max((k for k in range(len(each)) if below[k] <= 0.025), default=0)
print("median step ms", {k: round(v, 3) for k, v in r["median_ms"].items()},
      f"change {r['on_change_percent']:+.2f} % (95 % interval {each[low]:+.2f} .. {each[-1 - low]:+.2f}, n={len(each)} pairs)")
PY
	sort "$out/profiles.log" | tail -n 3
	"$programs/ctl/tracectl" status >"$out/stacks.status.txt"
	grep -A4 '^profile' "$out/stacks.status.txt" | cut -c1-220
fi
echo "== $failures failures, $SECONDS s"
exit $((failures > 0))
