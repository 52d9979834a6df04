#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Attacks that need no daemon of their own, one after another on one daemon beside one victim, each as a user of its own: its
# start is most of the time of a short attack. Status, loop, victim and daemon are judged at the end, for all of them.
#
#   in_turn.sh NAME...
source "$(dirname "$0")/lib.sh"

FIRST_UID=65000 # none of these has an entry in /etc/passwd
attack_daemon_start
attack_victim_start
echo "$daemon" >"$work/daemon.pid"
echo "${victim_pids[*]}" >"$work/victim.pids"
attack_begin
uid=$FIRST_UID
for name in "$@"; do
	echo "--- $name"
	code=0
	ATTACK_TOGETHER=$work ATTACK_UID=$uid "$source_dir/tests/attack/$name.sh" || code=$?
	[ "$code" -eq 0 ] || [ "$code" -eq 77 ] || fail "$name: exit code $code"
	read -r answers unanswered status_ms loop_ms ready_ms <"$work/watch.json"
	echo "until here: $answers answers, $unanswered missing; slowest $status_ms ms, longest stop of the loop $loop_ms ms, $ready_ms ms of it without a CPU"
	uid=$((uid + 1))
done
attack_status_under_1s
attack_victim_exact
attack_daemon_alive
attack_done
