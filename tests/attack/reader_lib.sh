# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Shared by the attacks on what reads files of ranks. After lib.sh.

attack_scripts() { install -d -m 755 "$work/bin" && install -m 644 "$source_dir"/tests/attack/*.py "$work/bin/"; }
# attack_rank COMMAND...: the attacker's, as a rank.
attack_rank() { attacker_start env RANK=0 WORLD_SIZE=1 MASTER_PORT=$((RANDOM + 1024)) "$@"; }
# attack_left_out: the daemon says that it does not read a file any more.
attack_left_out() { "$tracectl" check 2>/dev/null | grep -q 'library file.* not read'; }
# attack_restart: the daemon stops and is back within five seconds each, whatever the attacker does.
attack_restart() {
	[ -z "${ATTACK_TOGETHER:-}" ] || return 0
	local before=$SECONDS
	kill -TERM "$daemon"
	for _ in $(seq 50); do kill -0 "$daemon" 2>/dev/null || break; sleep 0.1; done
	kill -0 "$daemon" 2>/dev/null && fail "the daemon does not stop in 5 s"
	wait "$daemon" || fail "the daemon did not stop as asked"
	before=$SECONDS
	attack_daemon_start
	[ $((SECONDS - before)) -le 5 ] || fail "the daemon took more than 5 s to start again"
}
