#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What all levels cost a launch-bound training on two cards within the budget: they were turned on before, and the daemon is started
# and stopped around one run (what `tracectl set` has just turned on is whole for an hour). `whole` is its first seconds, `steady` from SETTLE_S on, when the guard has put into windows what costs
# more than its budget. A round takes SETTLE_S + 2 * PHASE_S and some 6 s. Needs root and a python3 with PyTorch; the programs may come from
# tests/jobs/bundle.sh. Prints the figures, and what the guard says at the end of each steady phase.
#
#   BUILD=DIR tests/e2e/gpu/steady.sh OUT      PYTHON=python3   ROUNDS=5   SETTLE_S=45   PHASE_S=20   CARDS=2
set -uo pipefail
source_dir=$(cd "$(dirname "$0")/../../.." && pwd)
here=$source_dir/tests/e2e/gpu
build=$(cd "${BUILD:?the folder of the programs}" && pwd)
mkdir -p "${1:?a folder for the results}"
out=$(cd "$1" && pwd)
python=${PYTHON:-python3} rounds=${ROUNDS:-5} settle_s=${SETTLE_S:-45} phase_s=${PHASE_S:-20} cards=${CARDS:-2}
work=$(mktemp -d)
mountpoint -q /sys/kernel/tracing || mount -t tracefs nodev /sys/kernel/tracing
mountpoint -q /sys/fs/bpf || mount -t bpf bpf /sys/fs/bpf
export RANKTRACE_SOCKET=$work/control.sock RANKTRACE_LIBEXEC=$build/libexec/ranktrace
printf '[daemon]\nprobes_base_dir = %s\n' "$source_dir/bpf/probes.d" >"$work/ranktrace.conf"
daemon='' ranks=()
# The bundle's libraries are for our programs alone.
ours() { LD_LIBRARY_PATH=$build/lib "$@"; }
now_ns() { "$python" -c 'import time; print(time.monotonic_ns())'; }
start() {
	LD_LIBRARY_PATH=$build/lib "$build/daemon/ranktraced" --config "$work/ranktrace.conf" --state-dir "$work/state" --socket "$RANKTRACE_SOCKET" >>"$out/daemon.log" 2>&1 &
	daemon=$!
	for _ in $(seq 100); do ours "$build/ctl/tracectl" status >/dev/null 2>&1 && break; sleep 0.1; done
}
stop() {
	[ -z "$daemon" ] || { kill "$daemon" && wait "$daemon"; }
	daemon=''
}
clean() {
	for pid in ${ranks[@]+"${ranks[@]}"}; do kill -9 "$pid" 2>/dev/null; done
	stop
	rm -rf "$work"
}
trap clean EXIT
# phase NAME SECONDS
phase() {
	local begin
	begin=$(now_ns)
	sleep "$2"
	echo "$1 $begin $(now_ns)" >>"$out/phases"
}

rm -f "$out/end" "$out/phases"
start
ours "$build/ctl/tracectl" set L1=on L2=on L3=on >/dev/null
stop
port=$((20000 + RANDOM % 20000))
for ((rank = 0; rank < cards; rank++)); do
	RANK=$rank LOCAL_RANK=$rank WORLD_SIZE=$cards MASTER_ADDR=127.0.0.1 MASTER_PORT=$port TORCHELASTIC_RUN_ID=steady OMP_NUM_THREADS=4 \
		"$python" "$here/steady.py" train "$out" >"$out/steady.$rank.log" 2>&1 &
	ranks+=("$!")
done
sleep "${WARM_S:-20}"
phase off "$phase_s"
for ((round = 0; round < rounds; round++)); do
	start
	sleep 5 # probes are attached
	phase whole 5
	sleep $((settle_s > 10 ? settle_s - 10 : 0))
	phase steady "$phase_s"
	ours "$build/ctl/tracectl" status >"$out/status.$round"
	sed -n '/^levels/,/^budget/p' "$out/status.$round"
	stop
	sleep 2
	phase off "$phase_s"
done
touch "$out/end"
failed=0
for pid in "${ranks[@]}"; do wait "$pid" || failed=1; done
ranks=()
[ $failed = 0 ] || { tail -3 "$out"/steady.*.log; echo "FAIL: the training"; }
"$python" "$here/steady.py" report "$out"
