#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# All attacks on a daemon at one time (run.sh --together SECONDS): each begins again when it has ended. The attackers get a CPU
# where nobody else wants it (attack_weak). Each is a user of its own: of one user's attacks, one would take the shares (messages
# in the log, places in queues, the reason of a suspicion) by which another sees that it had its effect. At the end: the victim's
# rows are exact, status was answered within a second, the loop stopped for less than 250 ms, memory is below its limit, and the
# daemon is the same process.
#
# An attack may not get what it waits for beside the others, such as the whole table of libraries; its rounds are counted.
source "$(dirname "$0")/lib.sh"

seconds=$1
folder=$source_dir/tests/attack
# Not: 03_memory, for which L2 is on; 08 and 10, which attack files of tools; 11_clock, whose daemon has a clock of its own;
# 11_secrets, which waits for ranks.
attacks=(01_sections 01_tables 02_names 02_notes 03_state 04_calls 04_deleted 04_libraries 04_ranks 04_ring 05_evicted 05_fuse
	05_held 06_exec 06_maps 07_links 09_names 11_claims 11_clients 11_flood)

FIRST_UID=65000 # none of these has an entry in /etc/passwd
attack_daemon_start daemon.nice=0 # as in a cgroup of its own
attack_victim_start
echo "$daemon" >"$work/daemon.pid"
echo "${victim_pids[*]}" >"$work/victim.pids"
attack_begin
mkdir "$work/rounds"
# A round that is killed leaves its mounts.
attack_own_cleanup() { awk -v work="$work/rounds/" 'index($2, work) == 1 { print $2 }' /proc/mounts | xargs -r -n 1 umount -l; }
attack_again() { # NAME UNTIL UID
	local round=0 code
	while [ "$SECONDS" -lt "$2" ]; do
		round=$((round + 1))
		code=0
		TMPDIR=$work/rounds ATTACK_TOGETHER=$work ATTACK_UID=$3 ATTACK_FIGURES="" timeout --kill-after=10 300 "$folder/$1.sh" >"$work/rounds/$1.log" 2>&1 </dev/null || code=$?
		echo "$code $(sed -n 's/^\(FAIL\|SKIP\): //p' "$work/rounds/$1.log" | head -n 1)" >>"$work/rounds/$1"
		[ "$code" -ne 77 ] || break
	done
}
before=$SECONDS
rounds=()
for name in "${attacks[@]}"; do
	attack_again "$name" "$((before + seconds))" "$((FIRST_UID + ${#rounds[@]}))" &
	rounds+=($!)
done
for round in "${rounds[@]}"; do wait "$round"; done
echo "$((SECONDS - before)) s"
printf '%-16s %6s %10s  %s\n' attack rounds "to the end" "why not"
for name in "${attacks[@]}"; do
	printf '%-16s %6d %10d  %s\n' "$name" "$(wc -l <"$work/rounds/$name")" "$(grep -c '^0 ' "$work/rounds/$name" || true)" \
		"$(sed -n 's/^[1-9][0-9]* //p' "$work/rounds/$name" | sort | uniq -c | sort -rn | head -n 1 | cut -c1-100)"
done
"$tracectl" status | sed -n '/^cost/,/^store/p; /limit/p'
grep -a 'event loop was late' "$work/daemon.log" || true
attack_victim_exact
attack_daemon_alive
attack_status_under_1s
attack_done
