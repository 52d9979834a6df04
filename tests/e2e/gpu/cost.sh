#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What levels cost a training on one or two NVIDIA cards, what the guard says of it, and gauges beside nvidia-smi, in BOUND_S
# (default 80) and BIG_S (default 40) seconds and some 60 s; with 0, a shape does not run. A round takes 2 to 3 s. Needs root and
# a python3 with PyTorch; the programs may come from tests/jobs/bundle.sh, with their libraries in lib/. Prints the figures; the
# rest is in OUT.
#
#   BUILD=DIR tests/e2e/gpu/cost.sh OUT      PYTHON=python3   BOUND_S=80   BIG_S=40   PHASE_S=0.3   CARDS=2   CASES="off L0"
#   BPFTRACE=bpftrace (a program: a case with its probes on the functions of L0)
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "$0")/lib.sh" "${1:-}"
cards=${CARDS:-$(nvidia-smi -L | wc -l)}
[ "$cards" -le 2 ] || cards=2
export TRACECTL=$tracectl
# shellcheck disable=SC2317 # the trap calls it
at_end() { grep guard "$out/cost.daemon.log"; }
configure '[findings]' 'raise = no' 'profile = no'
daemon_start "$out/cost.daemon.log"

# train SHAPE SECONDS
train() {
	[ "$2" != 0 ] || return 0
	local failed=0
	run_ranks "cost.$1" "$cards" "$python" "$here/cost.py" "$out" "$2" "$1"
	wait_ranks || failed=1
	cat "$out/cost.$1.0.log"
	[ $failed = 0 ] || echo "FAIL: $1"
}

train bound "${BOUND_S:-80}"
train big "${BIG_S:-40}"
# Gauges beside nvidia-smi, of cards that are idle now: the same second.
nvidia-smi --query-gpu=uuid,temperature.gpu,power.draw,clocks.sm,clocks.mem,memory.used,pcie.link.width.current --format=csv,noheader,nounits | tee "$out/cost.smi"
sleep 2
"$tracectl" query --csv "select object, name, value, unit from gauges where source = 'nvml' and object like 'GPU-%' and object not like '%/%'
	and start_ns + duration_ns > (select max(start_ns + duration_ns) from gauges) - 15000000000 order by 1, 2" | tee "$out/cost.gauges" | grep -E 'temperature|power|clock|pcie|memory' | head -40
"$tracectl" query --csv "select rank, level, sum(watched_ns) / 1000000000 as watched_s, sum(hits) as hits, 100.0 * sum(cost_ns) / sum(watched_ns) as percent from coverage group by 1, 2"
