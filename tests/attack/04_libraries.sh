#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# More library files with probed names than the daemon keeps, all of one user, before another user's ranks begin.
source "$(dirname "$0")/lib.sh"

attack_install "$build/tests/fixtures/attack" "$build"/fixtures/attack_torch/libtorch_python.so "$build"/fixtures/attack_nccl/libnccl.so.2

files=()
for i in $(seq 1100); do files+=("$attacker_dir/libtorch_python.so.$i"); done
tee "${files[@]}" <"$work/bin/libtorch_python.so" >/dev/null
chmod 755 "${files[@]}"
attack_daemon_start
attack_begin
attacker_start env RANK=0 WORLD_SIZE=1 "$work/bin/attack" files "${files[@]}"
full() { grep -qE "cannot use .*: No space left|is suspected: more library files" "$work/daemon.log"; }
wait_for 60 full || fail "the attacker's files do not reach the bound"
attack_victim_start
sleep 2
attack_status_under_1s
attack_victim_exact
attack_daemon_alive
attack_done
