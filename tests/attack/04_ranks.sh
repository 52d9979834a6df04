#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# More ranks than the daemon traces, all of one user, before another user's begin.
source "$(dirname "$0")/lib.sh"

attack_install "$build/tests/fixtures/attack" "$build"/fixtures/attack_torch/libtorch_python.so "$build"/fixtures/attack_nccl/libnccl.so.2

attack_daemon_start ranks.max=64
attack_begin
attacker_start "$work/bin/attack" ranks "$work/bin/libtorch_python.so" 100
full() { [ "$(query "select count(*) from ranks where ended = 0")" -ge 64 ]; }
wait_for 30 full || fail "the attacker's ranks do not fill the table"
attack_victim_start
sleep 2
attack_status_under_1s
attack_victim_exact
attack_daemon_alive
attack_done
