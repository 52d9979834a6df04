#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# bench_call.sh PAIRS CALLS [FUNCTION...]: ns a call of known functions with no probe, with ours and with bpftrace's uprobe,
# interleaved in one process that is pinned to one CPU. The cases:
#   chosen        our engine at the chosen offset, the process is a rank: a record a call into the ring, which is drained
#   chosen-other  the same, but the process is no rank: what every other process with that library pays
#   entry         our engine at the function's first byte, as other tools do it
#   bpftrace      its uprobe with count()
#   span-insn     (push and sub only) begin and end, the end at the return instruction: two records a call
#   span-probe    (push and sub only) the same, the end by a return probe
#   bpftrace-both (push and sub only) its uprobe and uretprobe
# RANKTRACE_BENCH_ATTACH: another program than bench_attach for our cases, to compare two builds of the engine. It is started
# as `COMMAND CASE LIBRARY SYMBOL PID`, prints "attached" on a line of its own when its probe is in place, and on SIGTERM takes
# it away and prints "records N drops N". A sample with a drop, or without the records that it should have, is left out.
set -euo pipefail
bin=${RANKTRACE_BENCH_BIN:?}
ours=${RANKTRACE_BENCH_ATTACH:-$bin/bench_attach}
pairs=${1:?} calls=${2:?}
shift 2
functions=("$@")
[ ${#functions[@]} -gt 0 ] || functions=(landing push sub lea nop nop5)
library=$(readlink -f "$bin/libtarget.so")
scratch=$(mktemp -d)
probe=
detach() {
	[ -n "$probe" ] || return 0
	kill -TERM "$probe" 2>/dev/null || true
	wait "$probe" 2>/dev/null || true
	probe=
}
trap 'detach; rm -rf "$scratch"' EXIT

coproc calls_process { exec "$bin/bench_calls" "$calls"; }
calls_pid=$calls_process_PID

# attach COMMAND...: starts it and waits, 30 s at most, for its word.
attach() {
	: >"$scratch/out"
	"$@" >"$scratch/out" 2>"$scratch/err" &
	probe=$!
	for _ in $(seq 600); do
		if grep -qs '^attached' "$scratch/out"; then return 0; fi
		kill -0 "$probe" 2>/dev/null || break
		sleep 0.05
	done
	echo "bench_call: cannot attach: $1: $(tail -n 1 "$scratch/err")" >&2
	detach
	return 1
}

# attach_case CASE FUNCTION
attach_case() {
	local program="uprobe:$library:target_$2 { @hits = count(); }"
	case $1 in
	"no probe"*) ;;
	bpftrace*)
		[ "$1" = bpftrace ] || program+=" uretprobe:$library:target_$2 { @ends = count(); }"
		# Without a BTF or a tracefs it still can do uprobes. The interval probe starts after the uprobe is in place.
		attach env LD_PRELOAD="$bin/libmemlock.so" bpftrace -e \
			"$program interval:ms:200 { printf(\"attached\\n\"); }"
		;;
	*) attach "$ours" "$1" "$library" "target_$2" "$calls_pid" ;;
	esac
}

# proven CASE: checks in the final output of a probe that all of it was attached during the measurement.
proven() {
	case $1 in
	"no probe"*) ;;
	bpftrace*) grep -qs '^@hits: [1-9]' "$scratch/out" ;;
	chosen-other) grep -qs '^records 0 drops 0$' "$scratch/out" ;;
	*) grep -qsE '^records [1-9][0-9]* drops 0$' "$scratch/out" ;;
	esac
}

# sample CASE FUNCTION PAIR
sample() {
	local ns
	attach_case "$1" "$2" || return 0
	echo "$2" >&"${calls_process[1]}"
	read -r ns <&"${calls_process[0]}" || { echo "bench_call: bench_calls ended" >&2; exit 1; }
	detach
	if ! proven "$1"; then
		echo "bench_call: $1 on target_$2 saw no hit or dropped some, leaving this sample out: $(tail -n 1 "$scratch/out")" >&2
		return 0
	fi
	printf 'call %s\t%s\tns/call\t%s\t%s\n' "$2" "$1" "$3" "$ns"
}

if "$ours" chosen "$library" target_push "$calls_pid" </dev/null >"$scratch/out" 2>"$scratch/err" & then probe=$!; fi
for _ in $(seq 100); do
	grep -qs '^attached' "$scratch/out" && break
	kill -0 "$probe" 2>/dev/null || { cat "$scratch/err" >&2; echo "bench_call: no uprobe can be attached here" >&2; exit 77; }
	sleep 0.05
done
detach

both=1
command -v bpftrace >/dev/null || { both=0; echo "bench_call: bpftrace is not installed, leaving it out" >&2; }
for function in "${functions[@]}"; do
	cases=("no probe" chosen chosen-other entry)
	[ $both = 0 ] || cases+=(bpftrace)
	case $function in
	push | sub)
		cases+=(span-insn span-probe)
		[ $both = 0 ] || cases+=(bpftrace-both)
		;;
	esac
	for ((pair = 0; pair < pairs; pair++)); do
		for case in "${cases[@]}" "no probe, again"; do
			sample "$case" "$function" "$pair"
		done
	done
done
