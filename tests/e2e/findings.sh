#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Findings on real ranks: none for a healthy job; a rank with slow data loading is named with its cause, and levels are turned
# on and off for it; a stopped rank is named as the one that the others wait for. The report and analyze give the same verdicts
# from the store. With KEEP=DIR the reports are copied there.
source "$(dirname "$0")/lib.sh"
[ -z "${TORCH_ROOT:-}" ] || skip "runs with the system's PyTorch only"

findings() { "$tracectl" findings --state-dir "$state" "$@"; }
# true_of EXPRESSION: evaluates it with the findings on standard input as list `f`.
true_of() {
	"$python_here" -c 'import json, sys
f = json.load(sys.stdin)
sys.exit(not eval(sys.argv[1]))' "$1"
}
# found EXPRESSION [OPTION...]
found() { findings --json "${@:2}" | true_of "$1"; }
# judged EXPRESSION: the same for analyze on the store. The rank resumes once the daemon reports it, after ten seconds; analyze
# checks once a second, so with an equal threshold its result would depend on chance.
judged() { analyzed "$1" --state-dir "$state" --job findings --hang-after 6s; }
analyzed() { "$tracectl" analyze --json "${@:2}" | true_of "$1"; }
# Other trainings may run on the machine.
report() { "$tracectl" report --state-dir "$state" --since 10m --job findings "$@"; }
reports() {
	report --text -o "$work/$1.txt" && report --markdown -o "$work/$1.md" && report --json -o "$work/$1.json" && report --html -o "$work/$1.html" || fail "no report"
	cat "$work/$1.txt"
	"$python_here" "$source_dir/tests/report/check_page.py" "$work/$1.html" || fail "the page of a $1 run"
	[ -z "${KEEP:-}" ] || cp "$work/$1".{txt,md,json,html} "$KEEP/"
}
# json NAME EXPRESSION: evaluates it with that report as `r`.
json() { "$python_here" -c 'import json, sys
r = json.load(open(sys.argv[1]))
sys.exit(not eval(sys.argv[2]))' "$work/$1.json" "$2"; }
started() { stepping "${pids[0]}" "$1" && learned "${pids[0]}" && learned "${pids[1]}"; }
level() { [ "$("$tracectl" print "$1" | head -1)" = "$1: $2" ]; }

e2e_start findings.raise_for=10s findings.hang_after=10s findings.raise_pause=20s
grep -q 'no rank was watched' <<<"$(findings)" || fail "no message that no rank was watched: $(findings)"
grep -q '^Nothing was watched' <<<"$(report)" || fail "wrong report without ranks: $(report)"
port=$((20000 + RANDOM % 20000))
pids=()
for rank in 0 1; do
	train "ddp$rank" RANK=$rank WORLD_SIZE=2 LOCAL_RANK=$rank TORCHELASTIC_RUN_ID=findings MASTER_ADDR=127.0.0.1 MASTER_PORT=$port -- \
		--mode ddp --steps 100000 --sleep-data 60 --hidden 128 --dawdle-file "$work/dawdle.$rank"
	pids+=("$last")
done

echo "--- a healthy job"
wait_for 90 started 150 || fail "the ranks store no steps"
flush
findings --all
found 'not [x for x in f if x["kind"] != "slow_job"]' || fail "a healthy job has findings"
judged '[x for x in f if x["kind"] in ("hang", "mismatch")] == []' || fail "analyze reports a rank of a healthy job"
# A slow machine is a finding of the job.
found 'f != []' || grep -q 'no findings: .* watched since' <<<"$(findings)" || fail "no message since when ranks were watched"
grep -qE '^findings +[01] open' <<<"$("$tracectl" status)" || fail "status shows no findings line"
reports clean
json clean 'r["ranktrace"]["cards"] == 2 and r["ranktrace"]["jobs"][0]["steps"] >= 100' || fail "the report does not have two ranks"
# A slow machine may delay one rank's loader slightly.
json clean 'not [x for x in r["ranktrace"]["findings"] if x["kind"] == "slow_rank" and x["cause"] == "dataloader" and x["slowdown"] > 1.05]' || fail "a clean run has a data loader finding"

echo "--- slow data loading on one rank"
echo 200 >"$work/dawdle.1"
slow='[x for x in f if x["kind"] == "slow_rank" and x["rank"] == 1 and x["state"] == "open" and x["cause"] == "dataloader" and x["activity"] == "dataloader" and x["severity"] in ("warning", "critical")]'
SECONDS=0
wait_for 40 found "$slow" || { findings --all --verbose; fail "rank 1 is not named for its data loading"; }
echo "named after $SECONDS s"
findings --all --verbose
found '[x for x in f if x["kind"] == "slow_rank" and x["rank"] == 0] == []' || fail "rank 0 has a finding"
found "$slow" --rank 1 && found '[x for x in f if x["rank"] == 1] == []' --rank 0 || fail "--rank does not filter"
grep -q 'what to do:' <<<"$(findings --verbose)" || fail "--verbose suggests no remedy"
[ "$(findings --csv | head -1 | cut -d, -f1-3)" = kind,cause,state ] || fail "--csv has no header"
[ "$(query "select count(*) from findings where kind = 'slow_rank' and rank = 1 and cause = 'dataloader' and state = 'open'")" -ge 1 ] || fail "it is not in the store"
grep -q 'warning: findings: rank 1' "$work/daemon.log" || grep -q 'critical: findings: rank 1' "$work/daemon.log" || fail "it is not in the log"
if grep -q 'investigating' "$work/daemon.log"; then
	grep -m3 'investigating' "$work/daemon.log"
	grep -q 'on = true' <<<"$(grep -A1 '"L1"' "$state/levels" 2>/dev/null)" && fail "a raised level was saved"
	wait_for 40 level L1 false || fail "L1 was not turned off"
else
	echo "no level was turned on: the cause was found without"
fi

echo "--- the report, and the same verdict from the store while the daemon writes it"
# The report has it once it lasts long enough beside the rest of the time. What is missing after all is said below.
reported() {
	report --json -o "$work/slow.json" && report --html -o "$work/slow.html" || return 1
	json slow 'r["resultCode"] == 201 and r["is_anomaly"] and r["storage"]' || return 1
	json slow '[x for x in r["ranktrace"]["worst_cards"] if x["rank"] == 1]' || return 1
	grep -q '</i>the other rank' "$work/slow.html"
}
for _ in $(seq 20); do
	! reported || break
	sleep 1
done
reports slow
json slow 'r["resultCode"] == 201 and r["is_anomaly"] and r["storage"]' || fail "sysTrace's fields do not report the anomaly"
json slow '"1" in [x["objectId"] for x in r["abnormalDetail"]]' || fail "rank 1 is not among the abnormal"
json slow '[x for x in r["ranktrace"]["worst_cards"] if x["rank"] == 1]' || fail "its card is not among the worst"
grep -q '</i>the other rank' "$work/slow.html" || fail "no plot compares the rank with its peer"
stored='(1, "dataloader") in [(x["rank"], x["cause"]) for x in f if x["kind"] == "slow_rank" and x["job"] == "findings" and x["severity"] != "info"]'
found "$stored" || { findings --all --verbose; fail "rank 1 is not named for its data loading"; }
wait_for 15 analyzed "$stored" --state-dir "$state" || { "$tracectl" analyze --state-dir "$state" --verbose; fail "analyze does not name rank 1 for its data loading"; }

echo "--- data loading recovers"
rm "$work/dawdle.1"
closed='[x for x in f if x["kind"] == "slow_rank" and x["rank"] == 1 and x["state"] == "closed" and x["until_ns"]]'
wait_for 60 found "$closed" || { findings --all --verbose; fail "the finding is not closed"; }

echo "--- a rank is stopped"
kill -STOP "${pids[1]}"
SECONDS=0
hang='[x for x in f if x["kind"] == "hang" and x["state"] == "open" and x["rank"] == 1 and x["cause"] == "stopped"]'
wait_for 30 found "$hang" || { findings --all --verbose; fail "the stopped rank is not named"; }
echo "named after $SECONDS s"
findings --all --verbose
kill -CONT "${pids[1]}"
over='[x for x in f if x["kind"] == "hang" and x["state"] == "open"] == []'
wait_for 30 found "$over" || { findings --all; fail "the hang is over but its finding is open"; }
sleep 3
flush
same='[(x["rank"], x["cause"], x["state"]) for x in f if x["kind"] == "hang"] == [(1, "stopped", "closed")]'
judged "$same" || { "$tracectl" analyze --state-dir "$state" --all --verbose; fail "analyze does not name the stopped rank"; }
"$tracectl" analyze --state-dir "$state" --hang-after 6s

echo "--- the daemon is killed; the next one closes its findings, and goes on with what is usual"
wait_for 30 found "$slow == []" || { findings --all --verbose; fail "rank 1 is slow although nothing holds it back"; }
wait_for 60 test -s "$state/learned.json" || fail "what is usual is not written"
echo 200 >"$work/dawdle.1"
wait_for 60 found "$slow" || { findings --all --verbose; fail "rank 1 is not named again"; }
kill -9 "$daemon"
wait "$daemon" 2>/dev/null || true
[ -e "$state/findings" ] || fail "the open finding was not saved"
e2e_start findings.raise=no
flush
found "$slow == []" || { findings --all; fail "a finding of the killed daemon is open"; }
SECONDS=0
wait_for 30 found "$slow" || { findings --all --verbose; fail "the rank that is slow all the time of the next daemon is not named"; }
grep -q 'job findings goes on with the usual step times from before the restart' "$work/daemon.log" || fail "the next daemon does not know what was usual: $(head -c 300 "$state/learned.json")"
echo "named after $SECONDS s"
for pid in "${pids[@]}"; do kill -9 "$pid"; done
children=()
e2e_stop
judged "$same" || { "$tracectl" analyze --state-dir "$state" --all; fail "analyze reports a rank because daemons or ranks ended"; }
found '[x for x in f if x["state"] == "open"] == []' || fail "findings are open although no rank is watched"

echo "--- daemon down: the store, a copy, its folders"
mkdir "$work/shared"
cp -r "$state/db" "$work/shared/node-a"
analyzed "$stored" --dir "$work/shared" || fail "analyze does not read a shared folder"
analyzed 'f == []' --dir "$state" --rank 7 || fail "--rank does not filter findings"
analyzed 'f == []' --dir "$state" --job another || fail "--job does not select the job"
[ "$("$tracectl" analyze --dir "$state" --csv | head -1 | cut -d, -f1-3)" = kind,cause,state ] || fail "--csv has no header"
grep -q 'no rank was watched' <<<"$("$tracectl" analyze --dir "$state" --until "2020-01-01")" || fail "no message for an empty store"

echo "--- an unreadable folder is reported; the others are analyzed"
status=0
"$tracectl" analyze --json --dir "$work/nowhere" "$state" >"$work/findings.json" 2>"$work/error" || status=$?
[ "$status" -eq 1 ] || fail "exit code $status with a missing folder, not 1"
grep -q 'cannot read .*nowhere' "$work/error" || fail "the missing folder is not named: $(cat "$work/error")"
true_of "$stored" <"$work/findings.json" || fail "a missing folder hides the findings of the other"
e2e_done
