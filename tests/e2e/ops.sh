#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tracectl ops and the L1 rows: one of two ranks is stopped, is killed, or is in a call that never returns.
# Fixture libraries replace hardware (tests/fixtures).
source "$(dirname "$0")/lib.sh"

rank_program=$build/tests/fixtures/fixture_rank
[ -x "$rank_program" ] || skip "no $rank_program in this build"

ops_json() { "$tracectl" ops --json; }
pids=()
# of_ops EXPRESSION: evaluates it with the answer as `o`, our first communicator as `c`, our calls in flight as `calls`.
of_ops() { ops_json | "$python_here" -c '
import json, sys
o = json.load(sys.stdin)
ours = [int(p) for p in sys.argv[2:]]
c = ([c for c in o["communicators"] if any(r["pid"] in ours for r in c["ranks"])] + [{"ranks": [], "sentence": "", "state": ""}])[0]
calls = [x for x in o["calls_in_flight"] if x["pid"] in ours]
print(eval(sys.argv[1]))' "$1" "${pids[@]}"; }
says() { grep -q "$1" <<<"$(of_ops 'c["sentence"]')"; }
is() { [ "$(of_ops "$1")" = "$2" ]; }

e2e_start
grep -q 'L1 is off' <<<"$("$tracectl" ops)" || fail "ops does not report that L1 is off"
is 'o["on"]' False || fail "--json does not report that L1 is off"
is 'isinstance(o["stages"], list)' True || fail "ops does not show stages while L1 is off"
"$tracectl" set L1=true L2=true
grep -qE "no such rank runs on this node" <<<"$("$tracectl" ops --rank 999999 2>&1)" || fail "no message for an unknown rank"

# start_ranks SCENARIO: starts two ranks of it, which begin together; their pids are in pids.
start_ranks() {
	pids=()
	rm -f "$work/go" "$work/stop"
	for rank in 0 1; do
		env RANK=$rank WORLD_SIZE=2 JOB_NUMBER=7 TORCHELASTIC_RUN_ID="$1" "$rank_program" "$1" "$work/$1.$rank.json" \
			"$work/go" "$work/stop" >"$work/$1.$rank.log" 2>&1 &
		pids+=($!)
		children+=($!)
	done
	wait_for 30 both_seen || fail "the ranks are not known"
	sleep 1
	: >"$work/go"
}
both_seen() { [ "$(query "select count(*) from ranks where pid in (${pids[0]}, ${pids[1]})")" = 2 ]; }

echo "--- a rank is stopped"
start_ranks loop
counted() { is 'len([r for r in c["ranks"] if r["entered"] and r["entered"]["seq"] > 20])' 2; }
wait_for 30 counted || fail "no calls of both ranks: $(ops_json)"
running() { is 'c["state"]' RUNNING; }
wait_for 5 running || fail "a running job is not RUNNING: $(ops_json)" # a rank may wait for a processor at one moment
# The fixtures never block: the other rank is held as by a full queue.
kill -STOP "${pids[1]}"
sleep 0.2
kill -STOP "${pids[0]}"
named() { says '^rank 1 has not called'; }
wait_for 5 named || fail "the stopped rank is not named within 5 s: $(ops_json)"
"$tracectl" ops
is 'c["state"]' MISSING_RANKS || fail "the stopped rank is not reported missing"
is '[r["missing"] for r in c["ranks"]]' '[True, False]' || fail "the missing rank is not first"
grep -qE '^rank .* has' <<<"$("$tracectl" ops)" || fail "no line of the text output begins with the rank"
[ "$("$tracectl" ops --rank 0 --json | grep -c "\"pid\": ${pids[1]},")" -eq 0 ] || fail "--rank 0 shows other ranks"
grep -q '^rank 1 has not' <<<"$("$tracectl" ops --rank 0)" || fail "--rank 0 does not name the rank it waits for"

echo "--- and killed"
kill -9 "${pids[1]}"
ended() { says "rank 1 (process ${pids[1]}) has ended"; }
wait_for 10 ended || fail "the killed rank is not named: $(ops_json)"
of_ops 'c["sentence"]'
kill -CONT "${pids[0]}"
: >"$work/stop"
wait "${pids[0]}" || fail "the other rank failed"
over() { is 'len(c["ranks"])' 0; }
wait_for 10 over || fail "the job is over but reported: $(ops_json)"
flush
for table in collectives communicators; do
	[ "$(query "select count(distinct instance) from $table where instance in ($(instance "${pids[0]}"), $(instance "${pids[1]}"))")" = 2 ] ||
		fail "no rows of both ranks in $table"
done
[ "$(query "select count(*) from collectives left join communicators using (instance, communicator) where members is not 2 and collectives.instance in ($(instance "${pids[0]}"), $(instance "${pids[1]}"))")" = 0 ] ||
	fail "operations without a communicator"

echo "--- a call that never returns"
start_ranks stuck
unreturned() { is 'len([x for x in calls if x["for_ns"] > 1e9])' 1; }
wait_for 30 unreturned || fail "the call in flight is not reported: $(ops_json)"
"$tracectl" ops
is 'calls[0]["rank"]' 1 || fail "the wrong rank is in a call"
is '[r["in_call_ns"] is not None for r in c["ranks"] if r["rank"] == 1]' '[True]' || fail "rank 1 is not in a call"
is '[r["entered"]["seq"] for r in c["ranks"] if r["rank"] == 1]' '[10]' || fail "the tenth call is not entered"
code=0
"$tracectl" ops --rank 1-0 2>"$work/usage" || code=$?
[ "$code" -eq 2 ] || fail "an invalid list has exit code $code"
grep -qE '^ops .* rows' <<<"$("$tracectl" status)" || fail "status shows no count of operations"
"$tracectl" set L1=false
grep -q 'L1 is off' <<<"$("$tracectl" ops)" || fail "ops does not report that L1 is off again"
e2e_done
