#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tracectl profile and diff on a real training: rank 1 does something of many kinds, one after another, and the first line
# of the comparison names it; of a clean training it names nothing. An hourly profile of the clean one is the past that it is
# compared with, too. Flame graphs of real samples in every format.
source "$(dirname "$0")/lib.sh"
[ -z "${TORCH_ROOT:-}" ] || skip "runs with the system's PyTorch only"

script=$source_dir/tests/e2e/train/kinds.py
# ALL=yes: all kinds, and two rounds without a fault; some 3 minutes.
rounds=${ROUNDS:-1} kinds=${KINDS-regex line}
[ -z "${ALL:-}" ] || rounds="1 2" kinds="loop sleep regex fsync json hash sort gc recursion product lock process copy thread longer loader line"
seconds=${SECONDS_EACH:-3}
# Profiles of suspicions would take the turn of those that are asked for; those of each hour give way.
e2e_start findings.profile=no profiles.interval=1s
: >"$work/kind"
# A file that is read while it is replaced is whole.
becomes() { echo "$1" >"$work/kind.new" && mv "$work/kind.new" "$work/kind"; }
pids=()
for rank in 0 1 2; do
	RANK=$rank WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 MASTER_PORT=29671 "$python" "$script" "$work/kind" >"$work/rank$rank.log" 2>&1 &
	children+=($!)
	pids+=($!)
done
wait_for 90 stepping "${pids[1]}" 60 || fail "the training does not step: $(tail -3 "$work/rank1.log")"

# Without a fault.
hourly() { [ "$(query "select count(*) from profiles where reason = 'hourly' and duration_ns > 9e9")" -eq 3 ]; }
wait_for 60 hourly || fail "no hourly profile"
clean=0
for round in $rounds; do
	[ "$round" -eq 1 ] || "$tracectl" sample --for 10s >/dev/null
	for rank in 0 1 2; do
		"$tracectl" diff --rank "$rank" >"$work/diff"
		grep -q "^no function of rank $rank takes longer\|in all functions alike$" "$work/diff" || {
			clean=$((clean + 1))
			echo "clean, round $round: $(head -1 "$work/diff")"
		}
	done
done
[ "$clean" -eq 0 ] || fail "of a clean training, $clean comparisons name something"

found=0 all=0
for kind in $kinds; do
	place=$(grep -n "# kind $kind\$" "$script" | cut -d: -f1)
	function=$(sed -n "${place}s/.*def \([a-z_]*\)(.*/\1/p" "$script")
	becomes "$kind"
	sleep 1
	"$tracectl" sample --for "$seconds" >/dev/null || fail "$kind is not sampled: $(tail -n 3 "$work"/rank?.log)"
	"$tracectl" diff --rank 1 >"$work/diff"
	all=$((all + 1))
	# A line of the loop by its number.
	wanted="in main (kinds.py:$place)"
	[ -z "$function" ] || wanted="in $function (kinds.py:"
	if head -1 "$work/diff" | grep -qF "$wanted"; then
		found=$((found + 1))
	else
		echo "missed: $kind"
		head -8 "$work/diff"
	fi
	echo "$kind: $(head -1 "$work/diff")"
done
# Against the hourly profile: all others are of later.
"$tracectl" diff --rank 1 --until "$(query "select strftime('%s', 'now') - max(start_ns + duration_ns) / 1000000000 - 1 from profiles where reason = 'hourly'")s" >"$work/diff"
grep -q "spends .* in ${function:-main} .*, before" "$work/diff" || [ -z "$kinds" ] || fail "not compared with before: $(head -1 "$work/diff")"
echo "the first line names $found of $all kinds"
[ $((found * 10)) -ge $((all * 9)) ] || fail "the first line names $found of $all kinds"

becomes loop
sleep 1
cd "$work" || exit 1
"$tracectl" profile --for 3s --rank 0-1 -o profile.html 2>"$work/said" || fail "profile: $(cat "$work/said")"
grep -q '"burn"' profile.html || fail "no burn in the flame graph"
number=$(query "select max(profile) from profiles")
for suffix in folded speedscope.json pb.gz; do "$tracectl" profile --profile "$number" -o "p.$suffix" 2>/dev/null; done
grep -q ';burn (kinds.py:[0-9]*)' p.folded || fail "no burn in the folded text"
"$tracectl" diff --rank 1 -o diff.html || fail "diff -o"
grep -q 'rank 1 spends' diff.html || fail "diff.html"
[ -z "${KEEP:-}" ] || cp profile.html diff.html p.* "$KEEP/"
e2e_done
