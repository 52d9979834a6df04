#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# 200 processes, each with 256 threads that begin 64 marks and end none: 800 MB of open stages for a daemon with 512 MiB.
source "$(dirname "$0")/lib.sh"

attack_install "$build/tests/fixtures/attack" "$build"/fixtures/attack_torch/libtorch_python.so "$build"/fixtures/attack_nccl/libnccl.so.2

attack_daemon_start
attack_victim_start
attack_begin
attack_weak
attacker_start nice -n 19 "$work/bin/attack" marks "$work/bin/libtorch_python.so" 200 64
attacker_ranks() { [ "$(query "select count(*) from ranks where world_size = 200")" -ge 200 ]; }
wait_for 30 attacker_ranks || fail "the daemon does not know the attacker's ranks"
suspected() {
	"$tracectl" check >"$work/check" || true
	grep -q "user $attacker_uid: its ranks need more memory" "$work/check"
}
wait_for 30 suspected || fail "check does not show the suspect"
grep -q '"remark": .*user suspected: its ranks need more memory' <<<"$("$tracectl" ranks --json)" || fail "ranks does not show the suspect"
sleep 10 # beyond its part
"$tracectl" status | sed -n '/limit/p'
attack_status_under_1s
attack_victim_exact
attack_daemon_alive
attack_ranks_lost ranks
attack_done
