#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests of L2 on a machine with one NVIDIA card, in about 6 min: allocation calls, the framework's allocator with each
# report seen and with reports seen in windows, pools of graphs, failed requests, memory that is given back in each step, and the cost of a step.
# Needs root and a python3 with PyTorch; the programs may come from tests/jobs/bundle.sh, with their libraries in lib/.
#
#   BUILD=DIR tests/e2e/gpu/l2.sh OUT      PARTS="calls memory pools again windows cost big"   PYTHON=python3   COST_SECONDS=85   BIG_SECONDS=30
#   PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True (a failed request is then one of many calls of cuMemCreate)
#   WINDOWS_PERCENT=0.5 (the budget of a rank from the part `windows` on)   WINDOWS_STEPS=16000 (a window takes 0.2 s, in 1/60 of the time)
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "$0")/lib.sh" "${1:-}"
parts=${PARTS:-calls memory pools again windows cost big}
export RANK=0 LOCAL_RANK=0 WORLD_SIZE=1
budget() { configure '[budget]' "rank_percent = $1" 'cpu_percent = 1000'; }
# shellcheck disable=SC2317 # the trap calls it
at_end() { cp "$work"/state/db/*.db "$out/" 2>/dev/null; }
budget 100 # each report is seen
daemon_start "$out/l2.daemon.log"
# begin NAME COMMAND...: a rank in the background; its allocator is followed when it returns.
begin() {
	local name=$1
	shift
	"$@" >"$out/$name.log" 2>&1 &
	job=$!
	ranks=("$job")
	for _ in $(seq 400); do
		grep -q libcudart "/proc/$job/maps" 2>/dev/null && "$tracectl" ranks | grep -qw "$job" && break
		sleep 0.1
	done
	sleep 3
}
finish() {
	wait "$job" || { tail -n 12 "$out/$1.log"; bad "$1: the program failed"; }
	ranks=()
	sleep 2.5
}

echo "== machine"
nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
"$python" -c 'import sys, torch; print("python", sys.version.split()[0], "torch", torch.__version__)'
"$tracectl" set L1=true L2=true || bad "L2 cannot be switched on"
if wants calls; then
	echo "== calls"
	begin calls "$python" "$here/l2_alloc.py" run "$out/calls.json" --wait "$work/calls"
	touch "$work/calls"
	finish calls
	"$python" "$here/l2_alloc.py" compare "$tracectl" "$out/calls.json" || bad "calls differ"
fi
if wants memory; then
	echo "== the framework's allocator"
	begin memory "$python" "$here/l2_memory.py" run "$out/memory.json" --wait "$work/memory"
	touch "$work/memory"
	finish memory
	"$python" "$here/l2_memory.py" compare "$tracectl" "$out/memory.json" "$out/compare.json" || bad "memory differs"
	for view in live leaks oom fragmentation copies errors; do
		"$tracectl" memory $view >"$out/memory.$view.txt" 2>&1 || bad "tracectl memory $view"
		head -n 12 "$out/memory.$view.txt" | cut -c1-200
	done
fi
if wants pools; then
	echo "== pools of graphs, on each card"
	begin pools "$python" "$here/l2_pools.py" run "$out/pools.json" 40
	finish pools
	"$python" "$here/l2_pools.py" compare "$tracectl" "$out/pools.json" || bad "pools differ"
fi
if wants again; then
	echo "== memory given back and taken again in each step"
	begin again "$python" "$here/l2_memory.py" again 42
	finish again
	"$tracectl" findings --all --json >"$out/again.json"
	grep -q memory_calls "$out/again.json" || bad "no finding of memory that is taken again"
	"$tracectl" findings --all --verbose
	"$tracectl" query "SELECT op, count(*) AS calls, sum(stack IS NOT NULL) AS with_stack FROM allocations GROUP BY op" || bad "allocations"
fi
budget "${WINDOWS_PERCENT:-0.5}"
kill -HUP "$daemon"
if wants windows; then
	echo "== reports in windows"
	begin windows "$python" "$here/l2_memory.py" run "$out/windows.json" --wait "$work/windows" --steps "${WINDOWS_STEPS:-16000}" --windows
	touch "$work/windows"
	finish windows
	"$python" "$here/l2_memory.py" compare --windows "$tracectl" "$out/windows.json" "$out/windows.compare.json" || bad "windows differ"
fi
"$tracectl" status >"$out/l2.status.txt"
grep -iE 'drop|lost|followed|windows|not attached|unusable' "$out/l2.status.txt" | head
if wants cost; then
	echo "== cost of a step"
	"$python" "$here/l2_memory.py" cost "$tracectl" "$out/cost.json" "${COST_SECONDS:-85}" || bad "cost"
fi
if wants big; then
	echo "== cost of a big step"
	"$python" "$here/l2_memory.py" cost --big "$tracectl" "$out/cost.big.json" "${BIG_SECONDS:-30}" || bad "cost of a big step"
fi
echo "== $failures failures, $SECONDS s"
exit $((failures > 0))
