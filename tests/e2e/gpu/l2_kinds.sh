#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Leaks of 1 to 100 % of a step's blocks, lists and sums that keep graphs, and trainings that seem to, all at one time on one
# card; then requests that fail for each of the reasons that tracectl knows. In SECONDS_EACH and some 5 min more. Without a card the
# host's memory is judged, and nothing fails. Needs root and a python3 with PyTorch; the programs may come from
# tests/jobs/bundle.sh, with their libraries in lib/. Prints a line a kind.
#
#   BUILD=DIR tests/e2e/gpu/l2_kinds.sh OUT      PYTHON=python3   SECONDS_EACH=180   KINDS="leak5 ring"
#   PERCENT=0.01 (the budget of a rank: reports are seen in windows that cost so much; default 100: each is seen)
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "$0")/lib.sh" "${1:-}"
kinds=$("$python" "$here/l2_kinds.py" list) oom=$("$python" "$here/l2_kinds.py" list oom)
parts=${KINDS:-$kinds $oom}
budget=('[budget]' "rank_percent = ${PERCENT:-100}" 'cpu_percent = 1000')
configure "${budget[@]}" '[findings]' 'profile = no'
rm -f "$out"/kinds.*
daemon_start "$out/kinds.daemon.log"
"$tracectl" set L2=true || bad "L2 cannot be switched on"
begin() {
	RANK=0 LOCAL_RANK=0 WORLD_SIZE=1 TORCHELASTIC_RUN_ID=$1 OMP_NUM_THREADS=1 \
		"$python" "$here/l2_kinds.py" run "$1" "$2" "$out" >"$out/kinds.$1.log" 2>&1 &
	ranks+=("$!")
}
for kind in $kinds; do
	if wants "$kind"; then begin "$kind" "${SECONDS_EACH:-180}"; fi
done
wait_ranks || bad "a program failed: $(tail -n 3 "$out"/kinds.*.log)"
if nvidia-smi -L >/dev/null 2>&1; then
	for kind in $oom; do
		wants "$kind" || continue
		if [ "$kind" = neighbour ]; then
			"$python" -c 'import time, torch
held = torch.empty(int(torch.cuda.mem_get_info()[0] * 0.8), dtype=torch.uint8, device="cuda")
time.sleep(60)' &
			neighbour=$!
			sleep 6
		fi
		begin "$kind" 60
		wait_ranks # it fails
	done
	[ -z "${neighbour:-}" ] || kill "$neighbour"
fi
sleep 3
"$tracectl" memory >"$out/kinds.live.txt"
"$tracectl" status | grep -iE '^memory|in windows' # how much of the time was seen
"$python" "$here/l2_kinds.py" score "$tracectl" "$out" || bad "kinds are judged wrong"
echo "== $failures failures"
[ "$failures" = 0 ]
