#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run.sh [--json] [--smoke] [--pairs N] [NAME...]: runs the benchmarks store, switch, yield, call, launches, ring, train,
# detect, hour and analyze (all, unless named) and prints a table: median, minimum and maximum over N interleaved pairs, and the ratio to
# the first case of each: median, minimum and maximum too. What a benchmark measures is said at the top of its file. PYTHON: the interpreter with torch
# (default /usr/bin/python3). RANKTRACE_BENCH_BIN: where the programs are (default: build/tests/bench);
# RANKTRACE_BENCH_DIR: where the store is written (default: $TMPDIR or /var/tmp). Exit: 0, 1 failed, 2 usage.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
export RANKTRACE_BENCH_BIN=${RANKTRACE_BENCH_BIN:-$here/../../build/tests/bench}
json=0 smoke=0 pairs=5 names=()
while [ $# -gt 0 ]; do
	case $1 in
	--json) json=1 ;;
	--smoke) smoke=1 ;;
	--pairs) pairs=${2:-} && shift ;;
	store | switch | yield | call | launches | ring | train | detect | hour | analyze) names+=("$1") ;;
	*) echo "usage: run.sh [--json] [--smoke] [--pairs N] [store|switch|yield|call|launches|ring|train|detect|hour|analyze]..." >&2 && exit 2 ;;
	esac
	shift
done
case $pairs in '' | *[!0-9]* | 0) echo "run.sh: --pairs takes a number from 1" >&2 && exit 2 ;; esac
[ ${#names[@]} -gt 0 ] || names=(store switch yield call launches ring train detect hour analyze)
[ -x "$RANKTRACE_BENCH_BIN/bench_store" ] || { echo "run.sh: no programs in $RANKTRACE_BENCH_BIN: build first" >&2 && exit 1; }
rows=1000000 largest=10240 rounds=200000 calls=100000 functions=() seconds=1 launch_seconds=2 ring_seconds=5 hour_seconds=3600 analyze_ranks=64 analyze_steps=500 # longer than the ring itself can hold what is too much
folder=${RANKTRACE_BENCH_DIR:-${TMPDIR:-/var/tmp}} python=${PYTHON:-/usr/bin/python3}
if [ $smoke = 1 ]; then
	pairs=1 rows=20000 largest=320 rounds=1000 calls=1000 functions=(push) seconds=0.2 launch_seconds=0.2 ring_seconds=0.2 hour_seconds=2 analyze_ranks=8 analyze_steps=8
fi

samples=$(mktemp)
trap 'rm -f "$samples"' EXIT
failed=0
for name in "${names[@]}"; do
	r=0
	case $name in
	store) "$RANKTRACE_BENCH_BIN/bench_store" "$folder" "$pairs" "$rows" >>"$samples" || r=$? ;;
	switch) "$RANKTRACE_BENCH_BIN/bench_switch" "$pairs" "$rounds" >>"$samples" || r=$? ;;
	yield) "$RANKTRACE_BENCH_BIN/bench_yield" "$pairs" "$rounds" >>"$samples" || r=$? ;;
	call) "$here/bench_call.sh" "$pairs" "$calls" ${functions[@]+"${functions[@]}"} >>"$samples" || r=$? ;;
	detect) "$RANKTRACE_BENCH_BIN/bench_detect" "$pairs" "$largest" >>"$samples" || r=$? ;;
	hour) "$RANKTRACE_BENCH_BIN/bench_hour" "$folder" "$pairs" "$hour_seconds" "$RANKTRACE_BENCH_BIN/../../libexec/ranktrace" >>"$samples" || r=$? ;;
	analyze) "$RANKTRACE_BENCH_BIN/bench_analyze" "$folder" "$pairs" "$analyze_ranks" "$analyze_steps" "$RANKTRACE_BENCH_BIN/../../libexec/ranktrace/analyze" >>"$samples" || r=$? ;;
	launches) "$RANKTRACE_BENCH_BIN/bench_launches" "$pairs" "$launch_seconds" "$RANKTRACE_BENCH_BIN/libtarget.so" >>"$samples" || r=$? ;;
	ring) "$here/with_daemon.sh" "$here/probes.d" python3 "$here/bench_ring.py" "$RANKTRACE_BENCH_BIN" "$folder" "$pairs" "$ring_seconds" >>"$samples" || r=$? ;;
	train)
		"$python" -c 'import importlib.util as u, sys; sys.exit(not u.find_spec("torch"))' 2>/dev/null || r=77
		[ $r != 0 ] || "$here/with_daemon.sh" "$here/../../bpf/probes.d" env RANK=0 WORLD_SIZE=1 OMP_NUM_THREADS=1 "$python" \
			"$here/bench_train.py" --rounds "$pairs" --seconds "$seconds" >>"$samples" || r=$?
		;;
	esac
	case $r in
	0) ;;
	77) echo "run.sh: $name cannot run here, leaving it out" >&2 ;;
	*) failed=1 && echo "run.sh: $name failed" >&2 ;;
	esac
done
awk -v json=$json -f "$here/table.awk" "$samples"
exit $failed
