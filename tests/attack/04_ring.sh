#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Two ranks that mark as fast as they can: more than the daemon can read.
source "$(dirname "$0")/lib.sh"

attack_install "$build/tests/fixtures/attack" "$build"/fixtures/attack_torch/libtorch_python.so "$build"/fixtures/attack_nccl/libnccl.so.2

attack_daemon_start
attack_victim_start
attack_begin
attack_weak
attacker_start nice -n 19 "$work/bin/attack" flood "$work/bin/libtorch_python.so" 2
sleep 8
"$tracectl" ranks
attack_status_under_1s
attack_victim_exact
attack_daemon_alive
attack_ranks_lost kernel
attack_done
