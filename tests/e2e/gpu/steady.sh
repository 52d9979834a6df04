#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What windows of levels cost a launch-bound training on two cards, for SECONDS (default 420), once the guard has put all levels beyond its budget into
# windows. Levels are turned on before, as what `tracectl set` has just turned on is whole for an hour. Between windows a rank has the
# probes of L0 alone, whose cost cost.sh measures (CASES="off L0"). Needs root and a python3 with PyTorch; the programs may come from
# tests/jobs/bundle.sh. Prints the figures, and what the guard says at the end.
#
#   BUILD=DIR tests/e2e/gpu/steady.sh OUT      PYTHON=python3   SECONDS_OF=420   CARDS=2
set -uo pipefail
source_dir=$(cd "$(dirname "$0")/../../.." && pwd)
here=$source_dir/tests/e2e/gpu
build=$(cd "${BUILD:?the folder of the programs}" && pwd)
mkdir -p "${1:?a folder for the results}"
out=$(cd "$1" && pwd)
python=${PYTHON:-python3} seconds=${SECONDS_OF:-420} cards=${CARDS:-2}
work=$(mktemp -d)
mountpoint -q /sys/kernel/tracing || mount -t tracefs nodev /sys/kernel/tracing
mountpoint -q /sys/fs/bpf || mount -t bpf bpf /sys/fs/bpf
export RANKTRACE_SOCKET=$work/control.sock RANKTRACE_LIBEXEC=$build/libexec/ranktrace
# A finding would turn levels on as a whole.
printf '[daemon]\nprobes_base_dir = %s\nlog_level = debug\n[findings]\nraise = no\nprofile = no\n' "$source_dir/bpf/probes.d" >"$work/ranktrace.conf"
daemon='' ranks=()
# The bundle's libraries are for our programs alone.
ours() { LD_LIBRARY_PATH=$build/lib "$@"; }
start() {
	LD_LIBRARY_PATH=$build/lib "$build/daemon/ranktraced" --config "$work/ranktrace.conf" --state-dir "$work/state" --socket "$RANKTRACE_SOCKET" 2> >("$python" "$here/steady.py" stamp >>"$out/daemon.log") &
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

rm -f "$out/end" "$out/daemon.log"
start
ours "$build/ctl/tracectl" set L1=on L2=on L3=on >/dev/null
stop
start
port=$((20000 + RANDOM % 20000))
for ((rank = 0; rank < cards; rank++)); do
	RANK=$rank LOCAL_RANK=$rank WORLD_SIZE=$cards MASTER_ADDR=127.0.0.1 MASTER_PORT=$port TORCHELASTIC_RUN_ID=steady OMP_NUM_THREADS=4 \
		"$python" "$here/steady.py" train "$out" >"$out/steady.$rank.log" 2>&1 &
	ranks+=("$!")
done
sleep "$seconds"
ours "$build/ctl/tracectl" status >"$out/status"
sed -n '/^levels/,/^budget/p' "$out/status"
touch "$out/end"
failed=0
for pid in "${ranks[@]}"; do wait "$pid" || failed=1; done
ranks=()
stop
[ $failed = 0 ] || { tail -3 "$out"/steady.*.log; echo "FAIL: the training"; }
grep -o 'guard: L.*' "$out/daemon.log"
"$python" "$here/steady.py" report "$out"
