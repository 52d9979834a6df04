#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests of L2 on a machine with one NVIDIA card, in about 5 min: allocation calls, the framework's allocator with each
# report seen and with reports seen in windows, failed requests, memory that is given back in each step, and the cost of a step.
# Needs root and a python3 with PyTorch; the programs may come from tests/jobs/bundle.sh, with their libraries in lib/.
#
#   BUILD=DIR tests/e2e/gpu/l2.sh OUT      PARTS="calls memory again windows cost big"   PYTHON=python3   COST_SECONDS=85   BIG_SECONDS=30
#   PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True (a failed request is then one of many calls of cuMemCreate)
#   WINDOWS_PERCENT=0.5 (the budget of a rank from the part `windows` on)   WINDOWS_STEPS=16000 (a window takes 0.2 s, in 1/60 of the time)
set -uo pipefail
source_dir=$(cd "$(dirname "$0")/../../.." && pwd)
here=$source_dir/tests/e2e/gpu
build=$(cd "${BUILD:?the folder of the programs}" && pwd)
mkdir -p "${1:?a folder for the results}"
out=$(cd "$1" && pwd)
python=${PYTHON:-python3}
parts=${PARTS:-calls memory again windows cost big}
work=$(mktemp -d)
mountpoint -q /sys/kernel/tracing || mount -t tracefs nodev /sys/kernel/tracing
mountpoint -q /sys/fs/bpf || mount -t bpf bpf /sys/fs/bpf
export RANKTRACE_SOCKET=$work/control.sock RANKTRACE_LIBEXEC=$build/libexec/ranktrace RANKTRACE_STATE_DIR=$work/state
export RANK=0 LOCAL_RANK=0 WORLD_SIZE=1
tracectl=$work/tracectl
# The bundle's libraries are for our programs alone.
for program in daemon/ranktraced ctl/tracectl; do
	printf '#!/bin/sh\nLD_LIBRARY_PATH=%q exec %q "$@"\n' "$build/lib" "$build/$program" >"$work/${program##*/}"
	chmod +x "$work/${program##*/}"
done
configure() { printf '[daemon]\nprobes_base_dir = %s\n[budget]\nrank_percent = %s\ncpu_percent = 1000\n' "$source_dir/bpf/probes.d" "$1" >"$work/ranktrace.conf"; }
configure 100 # each report is seen
"$work/ranktraced" --config "$work/ranktrace.conf" --state-dir "$work/state" --socket "$RANKTRACE_SOCKET" 2>"$out/l2.daemon.log" &
daemon=$!
job=
clean() {
	[ -z "$job" ] || kill -9 "$job" 2>/dev/null
	kill "$daemon" && wait "$daemon"
	cp "$work"/state/db/*.db "$out/" 2>/dev/null
	rm -rf "$work"
}
trap clean EXIT
for _ in $(seq 100); do "$tracectl" status >/dev/null 2>&1 && break; sleep 0.1; done
failures=0
bad() {
	echo "FAIL: $1"
	failures=$((failures + 1))
}
wants() { case " $parts " in *" $1 "*) true ;; *) false ;; esac; }
# begin NAME COMMAND...: a rank in the background; its allocator is followed when it returns.
begin() {
	local name=$1
	shift
	"$@" >"$out/$name.log" 2>&1 &
	job=$!
	for _ in $(seq 400); do
		grep -q libcudart "/proc/$job/maps" 2>/dev/null && "$tracectl" ranks | grep -qw "$job" && break
		sleep 0.1
	done
	sleep 3
}
finish() {
	wait "$job" || { tail -n 12 "$out/$1.log"; bad "$1: the program failed"; }
	job=
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
if wants again; then
	echo "== memory given back and taken again in each step"
	begin again "$python" "$here/l2_memory.py" again 42
	finish again
	"$tracectl" findings --all --json >"$out/again.json"
	grep -q memory_calls "$out/again.json" || bad "no finding of memory that is taken again"
	"$tracectl" findings --all --verbose
	"$tracectl" query "SELECT op, count(*) AS calls, sum(stack IS NOT NULL) AS with_stack FROM allocations GROUP BY op" || bad "allocations"
fi
configure "${WINDOWS_PERCENT:-0.5}"
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
