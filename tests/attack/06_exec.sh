#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Ranks in the middle of execve() for seconds: the kernel lets whoever reads their stat, exe, fd, maps or environ wait meanwhile.
source "$(dirname "$0")/lib.sh"
source "$(dirname "$0")/reader_lib.sh"

attack_scripts
attack_install "$build"/fixtures/attack_torch/libtorch_python.so
attack_daemon_start
attack_victim_start
attack_begin
pids=()
for _ in 1 2 3; do
	attack_rank "$python" "$work/bin/slow_exec.py" 512 "$work/bin/libtorch_python.so"
	pids+=("$last")
done
for pid in "${pids[@]}"; do wait_for 30 rank_known "$pid" || fail "an attacker is no rank"; done
kill -USR1 "${pids[@]}"
sleep 6
# One that is waited for has been in it for longer than any stop that is allowed.
reader=
for pid in "${pids[@]}"; do
	timeout 0.5 cat "/proc/$pid/environ" >/dev/null 2>&1 || reader=waits
done
[ -n "$reader" ] || [ -n "${ATTACK_TOGETHER:-}" ] || skip "execve() of the attacker ends too soon here"
attack_status_under_1s
attack_victim_exact
attack_daemon_alive
attack_done
