#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A library with 4 million section headers in a sparse file: libelf would allocate for all of them when it opens the file.
source "$(dirname "$0")/lib.sh"
source "$(dirname "$0")/reader_lib.sh"

attack_scripts
attack_daemon_start
attack_victim_start
attacker "$python" "$work/bin/hostile_elf.py" sections "$attacker_dir/libtorch_python.so"
attack_begin
attack_rank "$python" "$work/bin/map_files.py" "$attacker_dir/libtorch_python.so"
wait_for 30 rank_known "$last" || fail "the attacker is no rank"
wait_for 60 attack_left_out || fail "check does not say that the file is not read"
sleep 3
attack_status_under_1s
attack_victim_exact
attack_daemon_alive
# Not read again, also by the next daemon.
reads() { grep -a 'is not read again' "$work/daemon.log" | grep -cF "$attacker_dir/"; }
before=$(reads)
attack_restart
attack_left_out || fail "after a restart check does not say that the file is not read"
sleep 3
[ "$(reads)" -eq "$before" ] || fail "after a restart the file was read again"
attack_done
