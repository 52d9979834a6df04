#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What a stack at the begin of a stage takes of the thread, by depth of the Python stack, by the probe's own count.
#   BUILD=build DEPTHS="10 30 64" tests/bench/stage_stacks.sh
source "$(dirname "$0")/../e2e/lib.sh"
mkdir "$work/probes"
printf '[probe "getppid"]\nlevel = L0\nlibrary = libc.so.6\nsymbol = getppid\nedge = span\nreturn = probe\nstage = getppid\nhelp = a call\n' >"$work/probes/bench.conf"
cat >"$work/deep.py" <<'PY'
import ctypes, os, sys, time

ctypes.CDLL(sys.argv[2])  # makes it a rank


def work():
    end = time.monotonic() + 18
    while time.monotonic() < end:
        os.getppid()
        time.sleep(0.002)

def deep(n):
    return deep(n - 1) if n else work()

deep(int(sys.argv[1]) - 3)
PY
e2e_start "daemon.probes_dir=$work/probes"
echo "load $(cut -d' ' -f1-3 /proc/loadavg)"
echo "depth  stacks  ns each"
for depth in ${DEPTHS:-10 30 64}; do
	RANK=0 WORLD_SIZE=1 "$python" "$work/deep.py" "$depth" "$build/tests/e2e/libtorch_launch.so" &
	rank=$!
	children=("$rank")
	sleep 17
	"$tracectl" status | sed -n 's/.* \([0-9]*\) stacks at the begin of stages took \([0-9.e+-]*\) ms.*/\1 \2/p' |
		awk -v depth="$depth" '{ printf "%5d  %6d  %7.0f\n", depth, $1, $2 * 1e6 / $1; found = 1 } END { exit !found }' ||
		fail "no stacks: $("$tracectl" status)"
	"$tracectl" query "select stage, name, frames from stage_stacks join call_stacks on id = stack where stage = 'getppid' and rank = 0" | tail -n 3 | cut -c1-150
	wait "$rank"
	children=()
done
e2e_stop
e2e_done
