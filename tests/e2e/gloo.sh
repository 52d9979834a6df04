#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Collectives of real gloo ranks: the store holds the calls of the ranks, joined across ranks by identity and number alone;
# from the start and, with the system's PyTorch, attached in mid-run. Missing ranks and mismatches are reported during the hang.
source "$(dirname "$0")/lib.sh"

ranks=4
folder=$work
script=$source_dir/tests/e2e/train/ops.py
if [ -n "${TORCH_ROOT:-}" ]; then
	truth=$TORCH_ROOT$work
	mkdir -p "$truth"
	cp "$script" "$truth/"
	script=$folder/ops.py
fi
# job NAME MODE: starts its ranks in the background. pid_of[rank]: their pids.
declare -a pid_of
job() {
	local name=$1 mode=$2 port=$((20000 + RANDOM % 10000)) rank
	for ((rank = 0; rank < ranks; rank++)); do
		env RANK=$rank WORLD_SIZE=$ranks LOCAL_RANK=$rank MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
			TRUTH="$folder/$name.%r.json" READY="$folder/$name.%r.ready" START="$folder/$name.start" STOP="$folder/$name.stop" \
			${TORCH_ROOT:+chroot "$TORCH_ROOT"} "$python" "$script" "$mode" >"$work/$name.$rank.log" 2>&1 &
		pid_of[rank]=$!
		children+=("$!")
	done
}
ready() { [ "$(find "$truth" -name "$1.*.ready" | wc -l)" -eq "$ranks" ]; }
called() { [ "$(find "$truth" -name "$1.*.json" | wc -l)" -eq "$ranks" ]; }
broken() {
	cat "$work"/*.log >&2
	fail "$1"
}
compare_ops() { "$python_here" "$source_dir/tests/e2e/compare_ops.py" "$tracectl" "$@" || fail "the store differs from the calls"; }
probes() { "$tracectl" status --json | "$python_here" -c '
import json, sys
print(sum(c["probes_attached"] for c in json.load(sys.stdin)["collectors"] if c["name"] == "call"))'; }
watched() {
	local rank
	for ((rank = 0; rank < ranks; rank++)); do
		[ "$(query "select count(*) from ranks where pid = ${pid_of[rank]}")" -eq 1 ] || return 1
	done
	[ "$(probes)" -gt "$1" ] && attached
}
# group_state STATE PID...: tracectl ops reports STATE for a group, with exactly these processes missing.
group_state() {
	"$tracectl" ops --json | "$python_here" -c '
import json, sys
state, job, missing = sys.argv[1], set(map(int, sys.argv[2].split())), set(map(int, sys.argv[3:]))
for group in json.load(sys.stdin)["communicators"]:
    absent = {rank["pid"] for rank in group["ranks"] if rank["missing"]}
    if group["state"] == state and job & {rank["pid"] for rank in group["ranks"]} and absent == missing:
        print(group["sentence"])
        sys.exit(0)
sys.exit(1)' "$1" "${pid_of[*]}" "${@:2}"
}

e2e_start
"$tracectl" set L1=true >/dev/null
without=$(probes)

echo "--- every operation"
job kinds kinds
wait_for 60 ready kinds || broken "the ranks do not come up"
wait_for 30 watched "$without" || fail "no probes for the ranks"
touch "$truth/kinds.start"
wait_for 60 called kinds || broken "the ranks do not come to their end"
flush
compare_ops "$truth"/kinds.[0-9].json
touch "$truth/kinds.stop"
wait_train
if [ -n "${TORCH_ROOT:-}" ]; then # the rest depends on no PyTorch
	e2e_stop
	e2e_done
	exit 0
fi

echo "--- attached in mid-run"
"$tracectl" set L1=false >/dev/null
job run run
wait_for 60 ready run || broken "the ranks do not come up"
wait_for 30 watched 0 || fail "the ranks are not known"
"$tracectl" set L1=true >/dev/null
on_ns=$("$python_here" -c 'import time; print(time.monotonic_ns())')
seen() { [ "$(query "select count(*) from collectives where instance = $(instance "${pid_of[3]}")")" -gt 200 ]; }
wait_for 30 seen || fail "no collectives stored of a running job"

echo "--- stopped"
kill -STOP "${pid_of[2]}"
wait_for 5 group_state MISSING_RANKS "${pid_of[2]}" || { "$tracectl" ops >&2; fail "the stopped rank is not named within 5 s"; }
kill -CONT "${pid_of[2]}"
running() { ! group_state MISSING_RANKS "${pid_of[2]}" >/dev/null; }
wait_for 10 running || fail "the rank resumed but is reported missing"
touch "$truth/run.stop"
wait_for 60 called run || broken "the ranks do not come to their end"
wait_train
flush
compare_ops --from "$on_ns" "$truth"/run.[0-9].json

echo "--- one rank calls another collective"
ranks=2 pid_of=()
job mismatch mismatch
wait_for 60 group_state COLLECTIVE_TYPE_MISMATCH || { "$tracectl" ops >&2; broken "the mismatch is not reported"; }
for pid in "${pid_of[@]}"; do
	kill -9 "$pid" 2>/dev/null || true
	wait "$pid" 2>/dev/null || true
done
children=()
e2e_stop
e2e_done
