#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A library with 4 million symbols whose name nearly matches a pattern.
source "$(dirname "$0")/lib.sh"
source "$(dirname "$0")/reader_lib.sh"

attack_scripts
attack_daemon_start
attack_victim_start
attacker "$python" "$work/bin/hostile_elf.py" names "$attacker_dir/libtorch_python.so"
attack_begin
attack_rank "$python" "$work/bin/map_files.py" "$attacker_dir/libtorch_python.so"
wait_for 30 rank_known "$last" || fail "the attacker is no rank"
wait_for 60 attack_left_out || fail "check does not say that the file is not read"
sleep 3
attack_status_under_1s
attack_victim_exact
attack_daemon_alive
attack_done
