#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Threads that end inside a call, 20,000 a second: the map of calls in flight is full after a second.
source "$(dirname "$0")/lib.sh"

attack_install "$build/tests/fixtures/attack" "$build"/fixtures/attack_torch/libtorch_python.so "$build"/fixtures/attack_nccl/libnccl.so.2

attack_daemon_start daemon.nice=0 # as in a cgroup of its own: the attacker takes every CPU
attack_begin
attacker_start "$work/bin/attack" inside "$work/bin/libnccl.so.2" 2
sleep 4
attack_victim_start
sleep 2
attack_status_under_1s
attack_victim_exact
attack_daemon_alive
attack_done
