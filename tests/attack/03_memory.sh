#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# With L2 on, 200 processes allocate device memory and free none: 65,536 live allocations each, 600 MB for a daemon with 512 MiB.
source "$(dirname "$0")/lib.sh"

attack_install "$build/tests/fixtures/attack" "$build"/fixtures/libcudart.so.13 "$build"/fixtures/libcuda.so.1 \
	"$build"/fixtures/attack_torch/libtorch_python.so

attack_daemon_start
"$tracectl" set L2=true >/dev/null || fail "L2 cannot be turned on"
attack_victim_start
attack_begin
attack_weak
# With a library of training, which makes them ranks.
LD_LIBRARY_PATH=$work/bin LD_PRELOAD=$work/bin/libtorch_python.so attacker_start nice -n 19 "$work/bin/attack" blocks "$work/bin/libcudart.so.13" 200
attacker_ranks() { [ "$(query "select count(*) from ranks where world_size = 200")" -ge 200 ]; }
wait_for 30 attacker_ranks || fail "the daemon does not know the attacker's ranks"
suspected() {
	"$tracectl" check >"$work/check" || true
	grep -q "user $attacker_uid: its ranks need more memory" "$work/check"
}
wait_for 90 suspected || fail "check does not show the suspect"
sleep 10 # beyond its part
"$tracectl" status | sed -n '/limit/p'
attack_status_under_1s
attack_victim_exact
attack_daemon_alive
attack_ranks_lost ranks
attack_done
