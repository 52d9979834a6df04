#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# bench_call.sh PAIRS CALLS [FUNCTION...]: ns a call of known functions with no probe, with ours and with bpftrace's uprobe.
#
# Ours are commands named by the environment, so that any build of the call engine can be measured:
#   RANKTRACE_BENCH_CHOSEN   probes at the chosen offset      RANKTRACE_BENCH_ENTRY   probes at the function's entry
# Each is started as `COMMAND LIBRARY SYMBOL`, prints "attached" on a line of its own when its probe is in place, and takes it
# away on SIGTERM. A case whose command is not set, or bpftrace where it is not installed, is left out with a line on stderr.
set -euo pipefail
bin=${RANKTRACE_BENCH_BIN:?}
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

# attach COMMAND...: starts it and waits, 30 s at most, for its word.
attach() {
	"$@" >"$scratch/out" 2>"$scratch/err" &
	probe=$!
	for _ in $(seq 300); do
		if grep -qs '^attached' "$scratch/out"; then return 0; fi
		kill -0 "$probe" 2>/dev/null || break
		sleep 0.1
	done
	echo "bench_call: cannot attach: $1: $(tail -n 1 "$scratch/err")" >&2
	detach
	return 1
}

attach_bpftrace() {
	# Without a BTF or a tracefs it still can do uprobes. The interval probe starts after the uprobe is in place.
	attach env LD_PRELOAD="$bin/libmemlock.so" bpftrace -e \
		"uprobe:$1:$2 { @hits = count(); } interval:ms:200 { printf(\"attached\\n\"); }"
}

# sample CASE FUNCTION PAIR
sample() {
	printf 'call %s\t%s\tns/call\t%s\t%s\n' "$2" "$1" "$3" "$("$bin/bench_calls" "$2" "$calls")"
}

cases=(bpftrace)
command -v bpftrace >/dev/null || { echo "bench_call: bpftrace is not installed, leaving it out" >&2; cases=(); }
[ -n "${RANKTRACE_BENCH_ENTRY:-}" ] && cases=(entry "${cases[@]}") || echo "bench_call: RANKTRACE_BENCH_ENTRY is not set, leaving it out" >&2
[ -n "${RANKTRACE_BENCH_CHOSEN:-}" ] && cases=(chosen "${cases[@]}") || echo "bench_call: RANKTRACE_BENCH_CHOSEN is not set, leaving it out" >&2

for function in "${functions[@]}"; do
	for ((pair = 0; pair < pairs; pair++)); do
		sample "no probe" "$function" "$pair"
		for case in "${cases[@]}"; do
			case $case in
			# The commands may carry arguments of their own.
			chosen) attach $RANKTRACE_BENCH_CHOSEN "$library" "target_$function" || continue ;;
			entry) attach $RANKTRACE_BENCH_ENTRY "$library" "target_$function" || continue ;;
			bpftrace) attach_bpftrace "$library" "target_$function" || continue ;;
			esac
			line=$(sample "$case" "$function" "$pair")
			detach
			# What it says at its end tells whether the probe was there while we measured.
			if [ "$case" = bpftrace ] && ! grep -qs '^@hits: [1-9]' "$scratch/out"; then
				echo "bench_call: bpftrace saw no hit of target_$function, leaving this sample out" >&2
				continue
			fi
			printf '%s\n' "$line"
		done
		sample "no probe, again" "$function" "$pair"
	done
done
