#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The report of four real ranks, one with slow data loading after a clean run. With KEEP=DIR the reports are copied there.
source "$(dirname "$0")/lib.sh"
[ -z "${TORCH_ROOT:-}" ] || skip "runs with the system's PyTorch only"

# Other trainings may run on the machine.
report() { "$tracectl" report --state-dir "$state" --since 10m --job report "$@"; }
reports() {
	report --text -o "$work/$1.txt" && report --markdown -o "$work/$1.md" && report --json -o "$work/$1.json" && report --html -o "$work/$1.html" || fail "no report"
	cat "$work/$1.txt"
	"$python_here" "$source_dir/tests/report/check_page.py" "$work/$1.html" || fail "the page of a $1 run"
	[ -z "${KEEP:-}" ] || cp "$work/$1".{txt,md,json,html} "$KEEP/"
}
json() { "$python_here" -c 'import json, sys
r = json.load(open(sys.argv[1]))
sys.exit(not eval(sys.argv[2]))' "$work/$1.json" "$2"; }
slow='[x for x in f if x["job"] == "report" and x["kind"] == "slow_rank" and x["rank"] == 1 and x["state"] == "open" and x["severity"] != "info"]'
found() { "$tracectl" findings --state-dir "$state" --json | "$python_here" -c 'import json, sys
f = json.load(sys.stdin)
sys.exit(not eval(sys.argv[1]))' "$1"; }
started() { stepping "${pids[0]}" "$1" && learned "${pids[0]}" && learned "${pids[3]}"; }

e2e_start findings.raise=no
grep -q '^Nothing was watched' <<<"$(report)" || fail "wrong report without ranks: $(report)"
port=$((20000 + RANDOM % 20000))
pids=()
for rank in 0 1 2 3; do
	train "ddp$rank" RANK=$rank WORLD_SIZE=4 LOCAL_RANK=$rank TORCHELASTIC_RUN_ID=report MASTER_ADDR=127.0.0.1 MASTER_PORT=$port -- \
		--mode ddp --steps 100000 --sleep-data 60 --hidden 128 --dawdle-file "$work/dawdle.$rank"
	pids+=("$last")
done

echo "--- a clean run"
wait_for 120 started 100 || fail "the ranks store no steps"
flush
reports clean
json clean 'r["ranktrace"]["cards"] == 4 and r["ranktrace"]["jobs"][0]["steps"] >= 100' || fail "the report does not have four ranks"
# A slow machine may delay one rank's loader slightly.
json clean 'not [x for x in r["ranktrace"]["findings"] if x["kind"] == "slow_rank" and x["cause"] == "dataloader" and x["slowdown"] > 1.05]' || fail "a clean run has a data loader finding"

echo "--- slow data loading on one rank"
echo 300 >"$work/dawdle.1"
wait_for 90 found "$slow" || fail "rank 1 is not named"
# The report has it once it lasts long enough beside the rest of the time. What is missing after all is said below.
reported() {
	report --json -o "$work/slow.json" && report --html -o "$work/slow.html" || return 1
	json slow 'r["resultCode"] == 201 and r["is_anomaly"] and r["storage"]' || return 1
	json slow '[x for x in r["ranktrace"]["worst_cards"] if x["rank"] == 1]' || return 1
	grep -q 'median of 3 peers' "$work/slow.html"
}
for _ in $(seq 20); do
	! reported || break
	sleep 1
done
reports slow
json slow 'r["resultCode"] == 201 and r["is_anomaly"] and r["storage"]' || fail "sysTrace's fields do not report the anomaly"
json slow '"1" in [x["objectId"] for x in r["abnormalDetail"]]' || fail "rank 1 is not among the abnormal"
json slow '[x for x in r["ranktrace"]["worst_cards"] if x["rank"] == 1]' || fail "its card is not among the worst"
grep -q 'median of 3 peers' "$work/slow.html" || fail "no plot compares the rank with its peers"
for pid in "${pids[@]}"; do kill -9 "$pid"; done
children=()
e2e_stop
e2e_done
