#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# More library files with probed names than the daemon keeps, all of one user, before another user's ranks begin.
source "$(dirname "$0")/lib.sh"

attack_install "$build/tests/fixtures/attack" "$build"/fixtures/attack_torch/libtorch_python.so "$build"/fixtures/attack_nccl/libnccl.so.2

# Two processes: of one the daemon uses 512 files (MAPS_FILES_MAX), which is a user's part of the table.
files=()
for i in $(seq 700); do files+=("$attacker_dir/libtorch_python.so.$i"); done
tee "${files[@]}" <"$work/bin/libtorch_python.so" >/dev/null
chmod 755 "${files[@]}"
attack_daemon_start ranks.scan_interval=200ms
attack_begin
attacker_start env RANK=0 WORLD_SIZE=2 "$work/bin/attack" files "${files[@]:0:350}"
first=$last
attacker_start env RANK=1 WORLD_SIZE=2 "$work/bin/attack" files "${files[@]:350}"
full() { grep -q "user $attacker_uid is suspected: more library files" "$work/daemon.log"; }
wait_for 90 full || fail "the attacker's files do not reach the bound"
attack_victim_start
# They end and begin again with the same files: hundreds of files are detached, and some of them attached meanwhile.
kill -9 "$first" "$last"
attacker_start env RANK=0 WORLD_SIZE=1 "$work/bin/attack" files "${files[@]:0:64}"
sleep 4
attack_status_under_1s
attack_victim_exact
attack_daemon_alive
attack_done
