#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# analyze on the store repeats the daemon's verdict: same rank, same cause.
source "$(dirname "$0")/lib.sh"
[ -z "${TORCH_ROOT:-}" ] || skip "runs with the system's PyTorch only"

# true_of EXPRESSION: evaluates it with the findings on standard input as list `f`.
true_of() {
	"$python_here" -c 'import json, sys
f = json.load(sys.stdin)
sys.exit(not eval(sys.argv[1]))' "$1"
}
found() { "$tracectl" findings --json --state-dir "$state" | true_of "$1"; }
judged() { "$tracectl" analyze --json "${@:2}" | true_of "$1"; }
started() { stepping "${pids[0]}" "$1" && learned "${pids[0]}" && learned "${pids[1]}"; }

e2e_start
port=$((20000 + RANDOM % 20000))
pids=()
for rank in 0 1; do
	train "ddp$rank" RANK=$rank WORLD_SIZE=2 LOCAL_RANK=$rank TORCHELASTIC_RUN_ID=analyze MASTER_ADDR=127.0.0.1 MASTER_PORT=$port -- \
		--mode ddp --steps 100000 --sleep-data 60 --hidden 128 --dawdle-file "$work/dawdle.$rank"
	pids+=("$last")
done
wait_for 90 started 60 || fail "the ranks store no steps"

echo "--- slow data loading on one rank: the daemon"
echo 200 >"$work/dawdle.1"
# Other trainings may run on the machine.
slow='(1, "dataloader") in [(x["rank"], x["cause"]) for x in f if x["kind"] == "slow_rank" and x["job"] == "analyze" and x["severity"] != "info"]'
wait_for 40 found "$slow" || { "$tracectl" findings --all --verbose; fail "rank 1 is not named for its data loading"; }
"$tracectl" findings --state-dir "$state"

echo "--- and from the store, while the daemon writes it"
wait_for 15 judged "$slow" --state-dir "$state" || true
"$tracectl" analyze --state-dir "$state" --verbose
judged "$slow" --state-dir "$state" || fail "analyze does not name rank 1 for its data loading"

echo "--- daemon down: the store, a copy, its folders"
for pid in "${pids[@]}"; do kill -9 "$pid"; done
children=()
e2e_stop
mkdir "$work/shared"
cp -r "$state/db" "$work/shared/node-a"
judged "$slow" --dir "$work/shared" || fail "analyze does not read a shared folder"
judged 'f == []' --dir "$state" --rank 7 || fail "--rank does not filter findings"
judged 'f == []' --dir "$state" --job another || fail "--job does not select the job"
[ "$("$tracectl" analyze --dir "$state" --csv | head -1 | cut -d, -f1-3)" = kind,cause,state ] || fail "--csv has no header"
grep -q 'no rank was watched' <<<"$("$tracectl" analyze --dir "$state" --until "2020-01-01")" || fail "no message for an empty store"

echo "--- an unreadable folder is reported; the others are analyzed"
status=0
"$tracectl" analyze --json --dir "$work/nowhere" "$state" >"$work/findings.json" 2>"$work/error" || status=$?
[ "$status" -eq 1 ] || fail "exit code $status with a missing folder, not 1"
grep -q 'cannot read .*nowhere' "$work/error" || fail "the missing folder is not named: $(cat "$work/error")"
true_of "$slow" <"$work/findings.json" || fail "a missing folder hides the findings of the other"
e2e_done
