#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What L2 costs a report of the framework's allocator, and an asynchronous copy to the device and within it, by the fixture's runtime
# and driver of CUDA: ns with L2 on and off, in turn; the median of the pairs' differences and the interval that holds it with 95 %.
# BUILD=build PAIRS=10 tests/bench/memory.sh
source "$(dirname "$0")/../e2e/lib.sh"
e2e_start
runtime=$build/fixtures/libcudart.so.13
for case in "512 bytes" "65536 bytes" "1048576 bytes" "1 $runtime" "3 $runtime"; do
	read -r number library <<<"$case"
	[ "$library" = bytes ] && library=
	RANK=0 WORLD_SIZE=1 "$build/tests/bench/bench_memory" "$number" ${library:+"$library"} >"$work/rounds" &
	pid=$!
	children+=("$pid")
	is_rank() { [ -n "$(query "select 1 from ranks where pid = $pid")" ]; }
	wait_for 30 is_rank || fail "not a rank: $(cat "$work/rounds")"
	: >"$work/turns"
	for _ in $(seq "${PAIRS:-10}"); do
		for state in on off; do
			"$tracectl" set "L2=$state" >/dev/null
			sleep 0.6
			begin=$(cut -d' ' -f1 /proc/uptime)
			sleep 1
			echo "$state $begin $(cut -d' ' -f1 /proc/uptime)" >>"$work/turns"
		done
	done
	kill "$pid"
	"$python_here" - "$work" "$(case $case in *bytes) echo "a report of $case" ;; 1*) echo "a copy to the device" ;; *) echo "a copy within it" ;; esac)" <<'END'
import statistics, sys
work, what = sys.argv[1:]
rounds = [tuple(map(float, line.split())) for line in open(work + "/rounds") if len(line.split()) == 2]
turns = [(s, float(a), float(b)) for s, a, b in map(str.split, open(work + "/turns"))]
value = [statistics.median([ns for at, ns in rounds if a <= at < b]) for _, a, b in turns]
pairs = sorted(on - off for on, off in zip(value[::2], value[1::2]))
n = len(pairs)
low = max(0, int(n / 2 - 0.98 * n ** 0.5))
print("%-25s off %.0f ns, L2 %+.0f ns (%.0f to %.0f, %d pairs)" %
      (what, statistics.median(value[1::2]), statistics.median(pairs), pairs[low], pairs[n - 1 - low], n))
END
done
uptime
e2e_done
