#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Gauges of cards beside nvidia-smi, at rest and under load; then a job, and another process on the card of its rank 0: its finding
# has the process. In about 180 s; needs root, a python3 with PyTorch, and two cards for the last part. Programs may come from
# tests/jobs/bundle.sh, with their libraries in lib/.
#
#   BUILD=DIR tests/e2e/gpu/gauges.sh OUT      PYTHON=python3   PARTS="smi neighbour"   PHASE_S=20
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "$0")/lib.sh" "${1:-}"
parts=${PARTS:-smi neighbour} cards=$(nvidia-smi -L | wc -l) phase_s=${PHASE_S:-20} phases=()
configure '[findings]' 'profile = no'
daemon_start "$out/gauges.daemon.log"
rm -f "$out/gauges.smi"
if wants smi; then
	"$python" "$here/gauges.py" smi "$out/gauges.smi" &
	smi=$!
	ranks=("$smi")
	sleep 5
	since=$(date +%s)
	sleep "$phase_s"
	phases+=("rest $since $(date +%s)")
	for ((card = 0; card < cards; card++)); do
		"$python" "$here/gauges.py" load $((phase_s + 30)) "$card" >"$out/gauges.load.$card.log" 2>&1 &
		ranks+=("$!")
	done
	sleep 12 # it has begun, and clocks do not change any more
	since=$(date +%s)
	sleep "$phase_s"
	phases+=("load $since $(date +%s)")
	for pid in "${ranks[@]}"; do kill "$pid" 2>/dev/null; wait "$pid" 2>/dev/null; done
	ranks=()
fi
if wants neighbour && [ "$cards" -ge 2 ]; then
	run_ranks gauges 2 "$python" "$here/train_gpu.py" --shape compute --steps 100000
	sleep 45
	"$python" "$here/gauges.py" load 25 0 >"$out/gauges.neighbour.log" 2>&1 &
	neighbour=$!
	wait "$neighbour"
	sleep 8
	"$tracectl" findings --all --verbose | tee "$out/gauges.findings"
	grep "card_shared" -A 9 "$out/gauges.findings" | grep -qw "$neighbour" || bad "no finding has process $neighbour, which computes on the card of rank 0"
	for pid in "${ranks[@]}"; do kill "$pid" 2>/dev/null; wait "$pid" 2>/dev/null; done
	ranks=()
elif wants neighbour; then
	echo "SKIP: neighbour: a job of two ranks needs two cards, and there is $cards"
fi
daemon_stop # the rows of what does not change are written now
for phase in ${phases[@]+"${phases[@]}"}; do
	read -r name since until <<<"$phase"
	"$python" "$here/gauges.py" compare "$tracectl" "$out/gauges.smi" "$name" "$since" "$until" || bad "$name: gauges differ from nvidia-smi"
done
"$tracectl" query --csv "SELECT object, name, value, start_ns, duration_ns FROM gauges WHERE source = 'nvml'" >"$out/gauges.csv"
echo "== $failures failures"
[ "$failures" = 0 ]
