#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Verdicts on real ranks: a healthy job names nobody; a rank whose data loading is slow is named while it is, with its cause, and
# levels go on and off again for it; a rank that is stopped is named as the one that the others wait for.
source "$(dirname "$0")/lib.sh"
[ -z "${TORCH_ROOT:-}" ] || skip "one PyTorch is enough for it"

findings() { "$tracectl" findings --state-dir "$state" "$@"; }
# found EXPRESSION [OPTION...]: of the findings as a list `f`, whether it is true.
found() {
	local expression=$1
	shift
	findings --json "$@" | "$python_here" -c 'import json, sys
f = json.load(sys.stdin)
sys.exit(not eval(sys.argv[1]))' "$expression"
}
# judged EXPRESSION: the same, of what analyze says of the store. The rank goes on as soon as the daemon tells of it, after ten seconds:
# analyze looks once a second, and with as much asked for it would depend on chance whether it sees it.
judged() {
	"$tracectl" analyze --json --state-dir "$state" --job findings --hang-after 6s | "$python_here" -c 'import json, sys
f = json.load(sys.stdin)
sys.exit(not eval(sys.argv[1]))' "$1"
}
started() { stepping "${pids[0]}" "$1" && stepping "${pids[1]}" "$1"; }
level() { [ "$("$tracectl" print "$1" | head -1)" = "$1: $2" ]; }

e2e_start findings.raise_for=10s findings.hang_after=10s findings.raise_pause=20s
grep -q 'no rank was watched' <<<"$(findings)" || fail "it does not say that nobody was watched: $(findings)"
port=$((20000 + RANDOM % 20000))
pids=()
for rank in 0 1; do
	train "ddp$rank" RANK=$rank WORLD_SIZE=2 LOCAL_RANK=$rank TORCHELASTIC_RUN_ID=findings MASTER_ADDR=127.0.0.1 MASTER_PORT=$port -- \
		--mode ddp --steps 100000 --sleep-data 60 --hidden 128 --dawdle-file "$work/dawdle.$rank"
	pids+=("$last")
done

echo "--- a healthy job"
wait_for 60 started 150 || fail "the ranks do not train"
flush
findings --all
found 'not [x for x in f if x["kind"] != "slow_job"]' || fail "a healthy job has findings"
judged '[x for x in f if x["kind"] in ("hang", "mismatch")] == []' || fail "analyze names somebody in a healthy job"
# The machine itself may have been slow for a while, which is a finding of the job.
found 'f != []' || grep -q 'no findings: .* watched since' <<<"$(findings)" || fail "it does not say that somebody was watched"
grep -qE '^findings +[01] open' <<<"$("$tracectl" status)" || fail "status has no line of findings"

echo "--- one rank loads its data slowly"
echo 200 >"$work/dawdle.1"
slow='[x for x in f if x["kind"] == "slow_rank" and x["rank"] == 1 and x["state"] == "open" and x["cause"] == "dataloader"]'
SECONDS=0
wait_for 40 found "$slow" || { findings --all --verbose; fail "rank 1 is not named for its data loading"; }
echo "named after $SECONDS s"
findings --all --verbose
found '[x for x in f if x["kind"] == "slow_rank" and x["rank"] == 0] == []' || fail "rank 0 is accused"
found "$slow" --rank 1 && found '[x for x in f if x["rank"] == 1] == []' --rank 0 || fail "--rank does not choose"
grep -q 'what to do:' <<<"$(findings --verbose)" || fail "--verbose says nothing of what to do"
[ "$(findings --csv | head -1 | cut -d, -f1-3)" = kind,cause,state ] || fail "--csv has no header"
[ "$(query "select count(*) from findings where kind = 'slow_rank' and rank = 1 and cause = 'dataloader' and state = 'open'")" -ge 1 ] || fail "it is not in the store"
grep -q 'warning: findings: rank 1' "$work/daemon.log" || grep -q 'critical: findings: rank 1' "$work/daemon.log" || fail "it is not in the log"
if grep -q 'investigating' "$work/daemon.log"; then
	grep -m3 'investigating' "$work/daemon.log"
	grep -q 'on = true' <<<"$(grep -A1 '"L1"' "$state/levels" 2>/dev/null)" && fail "a raised level was saved"
	wait_for 40 level L1 false || fail "L1 stays on"
else
	echo "no level was raised: it was settled without"
fi

echo "--- and no longer"
rm "$work/dawdle.1"
closed='[x for x in f if x["kind"] == "slow_rank" and x["rank"] == 1 and x["state"] == "closed" and x["until_ns"]]'
wait_for 60 found "$closed" || { findings --all --verbose; fail "the finding is not closed"; }

echo "--- a rank is stopped"
kill -STOP "${pids[1]}"
SECONDS=0
hang='[x for x in f if x["kind"] == "hang" and x["state"] == "open" and x["rank"] == 1 and x["cause"] == "stopped"]'
wait_for 30 found "$hang" || { findings --all --verbose; fail "the rank that is stopped is not named"; }
echo "named after $SECONDS s"
findings --all --verbose
kill -CONT "${pids[1]}"
over='[x for x in f if x["kind"] == "hang" and x["state"] == "open"] == []'
wait_for 30 found "$over" || { findings --all; fail "a hang that is over is still open"; }
sleep 3
flush
same='[(x["rank"], x["cause"], x["state"]) for x in f if x["kind"] == "hang"] == [(1, "stopped", "closed")]'
judged "$same" || { "$tracectl" analyze --state-dir "$state" --all --verbose; fail "analyze does not name the rank that was stopped"; }
"$tracectl" analyze --state-dir "$state" --hang-after 6s

echo "--- the daemon ends, and one that was killed is tidied up after"
echo 200 >"$work/dawdle.1"
wait_for 60 found "$slow" || { findings --all --verbose; fail "rank 1 is not named again"; }
kill -9 "$daemon"
wait "$daemon" 2>/dev/null || true
[ -e "$state/findings" ] || fail "nothing says that a finding was left open"
e2e_start findings.raise=no
flush
found "$slow == []" || { findings --all; fail "a finding of a daemon that was killed is still open"; }
for pid in "${pids[@]}"; do kill -9 "$pid"; done
children=()
e2e_stop
judged "$same" || { "$tracectl" analyze --state-dir "$state" --all; fail "analyze names somebody for the end of daemons and ranks"; }
found '[x for x in f if x["state"] == "open"] == []' || fail "something is open that nobody watches"
e2e_done
