#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What levels cost a training on one or two NVIDIA cards, what the guard says of it, and gauges beside nvidia-smi, in BOUND_S
# (default 80) and BIG_S (default 40) seconds and some 60 s; with 0, a shape does not run. A round takes 2 to 3 s. Needs root and
# a python3 with PyTorch; the programs may come from tests/jobs/bundle.sh, with their libraries in lib/. Prints the figures; the
# rest is in OUT.
#
#   BUILD=DIR tests/e2e/gpu/cost.sh OUT      PYTHON=python3   BOUND_S=80   BIG_S=40   PHASE_S=0.3   CARDS=2   CASES="off L0"
set -uo pipefail
source_dir=$(cd "$(dirname "$0")/../../.." && pwd)
here=$source_dir/tests/e2e/gpu
build=$(cd "${BUILD:?the folder of the programs}" && pwd)
mkdir -p "${1:?a folder for the results}"
out=$(cd "$1" && pwd)
python=${PYTHON:-python3}
cards=${CARDS:-$(nvidia-smi -L | wc -l)}
[ "$cards" -le 2 ] || cards=2
work=$(mktemp -d)
mountpoint -q /sys/kernel/tracing || mount -t tracefs nodev /sys/kernel/tracing
mountpoint -q /sys/fs/bpf || mount -t bpf bpf /sys/fs/bpf
export RANKTRACE_SOCKET=$work/control.sock RANKTRACE_LIBEXEC=$build/libexec/ranktrace RANKTRACE_STATE_DIR=$work/state TRACECTL=$work/tracectl
# The bundle's libraries are for our programs alone.
for program in daemon/ranktraced ctl/tracectl; do
	printf '#!/bin/sh\nLD_LIBRARY_PATH=%q exec %q "$@"\n' "$build/lib" "$build/$program" >"$work/${program##*/}"
	chmod +x "$work/${program##*/}"
done
printf '[daemon]\nprobes_base_dir = %s\n[findings]\nraise = no\nprofile = no\n' "$source_dir/bpf/probes.d" >"$work/ranktrace.conf"
"$work/ranktraced" --config "$work/ranktrace.conf" --state-dir "$work/state" --socket "$RANKTRACE_SOCKET" 2>"$out/cost.daemon.log" &
daemon=$!
ranks=()
clean() {
	for pid in ${ranks[@]+"${ranks[@]}"}; do kill -9 "$pid" 2>/dev/null; done
	kill "$daemon" && wait "$daemon"
	grep guard "$out/cost.daemon.log"
	rm -rf "$work"
}
trap clean EXIT
for _ in $(seq 100); do "$TRACECTL" status >/dev/null 2>&1 && break; sleep 0.1; done

# train SHAPE SECONDS
train() {
	[ "$2" != 0 ] || return 0
	local port=$((20000 + RANDOM % 20000)) rank failed=0
	ranks=()
	for ((rank = 0; rank < cards; rank++)); do
		RANK=$rank LOCAL_RANK=$rank WORLD_SIZE=$cards MASTER_ADDR=127.0.0.1 MASTER_PORT=$port TORCHELASTIC_RUN_ID="cost-$1" OMP_NUM_THREADS=4 \
			"$python" "$here/cost.py" "$out" "$2" "$1" >"$out/cost.$1.$rank.log" 2>&1 &
		ranks+=("$!")
	done
	for pid in "${ranks[@]}"; do wait "$pid" || failed=1; done
	ranks=()
	cat "$out/cost.$1.0.log"
	[ $failed = 0 ] || echo "FAIL: $1"
}

train bound "${BOUND_S:-80}"
train big "${BIG_S:-40}"
# Gauges beside nvidia-smi, of cards that are idle now: the same second.
nvidia-smi --query-gpu=uuid,temperature.gpu,power.draw,clocks.sm,clocks.mem,memory.used,pcie.link.width.current --format=csv,noheader,nounits | tee "$out/cost.smi"
sleep 2
"$TRACECTL" query --csv "select object, name, value, unit from gauges where source = 'nvml' and object like 'GPU-%' and object not like '%/%'
	and start_ns + duration_ns > (select max(start_ns + duration_ns) from gauges) - 15000000000 order by 1, 2" | tee "$out/cost.gauges" | grep -E 'temperature|power|clock|pcie|memory' | head -40
"$TRACECTL" query --csv "select rank, level, sum(watched_ns) / 1000000000 as watched_s, sum(hits) as hits, 100.0 * sum(cost_ns) / sum(watched_ns) as percent from coverage group by 1, 2"
