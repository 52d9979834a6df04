#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The daemon is killed at random moments of a training with all levels on: no segment is damaged, at most LOST_MS_MAX of steps
# before a kill is not stored, and no step is stored twice.
#
#   tests/e2e/kills.sh [KILLS]    default 5, as in CI; 1000 in a nightly run (an hour). BUILD as for the other tests.
#
# The lost time is that from the end of the newest stored step to the kill. Rows wait for at most a second; the rest is the
# step that was not over, and the transaction.
source "$(dirname "$0")/lib.sh"
KILLS=${1:-5}
LOST_MS_MAX=1300
[[ $KILLS =~ ^[1-9][0-9]{0,5}$ ]] || fail "KILLS is a number from 1, not '$KILLS'"

e2e_start
"$tracectl" set L1=true L2=true L3=true L1.launches=true >/dev/null || fail "not all levels can be turned on"
for rank in 0 1; do
	train ddp RANK=$rank WORLD_SIZE=2 LOCAL_RANK=$rank LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$((20000 + $$ % 20000)) -- \
		--mode ddp --steps 10000000 --hidden 64 --batch 16 --sleep-data 2
	[ "$rank" -eq 1 ] || trained=$last
done
wait_for 60 stepping "$trained" 50 || { cat "$work/ddp.log" >&2; fail "the training did not start"; }
rank_instance=$(query "select max(instance) from ranks where pid = $trained")
newest() { query "select coalesce(max(start_ns + duration_ns), 0) from steps where instance = $rank_instance and start_ns > $1"; }

lost_ms=()
nothing=0
checked=0
for kill in $(seq "$KILLS"); do
	life_ns=$(date +%s%N)
	# Between 0.2 and 3.2 s of life: before, in and after the first rows, and around flushes.
	sleep "$(printf '%d.%03d' $((RANDOM % 3)) $((200 + RANDOM % 800)))"
	kill -0 "${children[@]}" 2>/dev/null || fail "the training ended"
	kill -0 "$daemon" 2>/dev/null || fail "the daemon ended before kill $kill: $(tail -3 "$work/daemon.log")"
	killed_ns=$(date +%s%N)
	kill -9 "$daemon"
	wait "$daemon" 2>/dev/null || true
	daemon=
	for db in "$state"/db/*.db; do
		# What is written in place of it is the last two of each tier; the others were looked through before.
		[ "$kill" -eq "$KILLS" ] || [ "$db" -nt "$work/checked" ] || [ ! -e "$work/checked" ] || continue
		[ "$(sqlite3 -readonly "$db" 'pragma quick_check')" = ok ] || fail "$db is damaged after kill $kill"
		checked=$((checked + 1))
	done
	touch "$work/checked"
	last_ns=$("$tracectl" query --state-dir "$state" --csv "select coalesce(max(start_ns + duration_ns), 0) from steps where instance = $rank_instance and start_ns > $life_ns" |
		tail -1 | tr -d '\r')
	if [ "$last_ns" -gt 0 ]; then
		lost_ms+=($(((killed_ns - last_ns) / 1000000)))
	else # it was killed before its first rows were written: all of its life since the probes
		nothing=$((nothing + 1))
		[ $((killed_ns - life_ns)) -lt 3000000000 ] || fail "nothing is stored of a life of $(((killed_ns - life_ns) / 1000000)) ms"
	fi
	e2e_start
done
flush
[ ${#lost_ms[@]} -gt 0 ] || fail "no life was long enough to store a row"
mapfile -t sorted < <(printf '%s\n' "${lost_ms[@]}" | sort -n)
at() { echo "${sorted[$(((${#sorted[@]} - 1) * $1 / 100))]}"; }
echo "$KILLS kills, $checked files checked, $nothing before the first row; lost: median $(at 50) ms, 95 of 100 below $(at 95) ms, at most $(at 100) ms"
damaged=$(find "$state/db" -name '*.corrupt*' | wc -l)
[ "$damaged" -eq 0 ] || fail "$damaged segments were set aside as damaged"
twice=$(query "select count(*) from (select 1 from steps group by instance, step having count(*) > 1)")
[ "$twice" -eq 0 ] || fail "$twice steps are stored twice"
[ "$(at 100)" -le "$LOST_MS_MAX" ] || fail "a kill lost $(at 100) ms"
before=$(newest 0)
more() { [ "$(newest "$before")" -gt 0 ]; }
wait_for 20 more || fail "no steps are recorded after the last kill"
for pid in "${children[@]}"; do kill -9 "$pid" 2>/dev/null || true; done
children=()
e2e_stop
e2e_done
