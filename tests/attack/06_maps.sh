#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Four ranks with as many mappings as the kernel allows, of a file whose path is 3.5 KB long: 230 MB of /proc/PID/maps each.
source "$(dirname "$0")/lib.sh"
source "$(dirname "$0")/reader_lib.sh"

attack_scripts
attack_install "$build"/fixtures/attack_torch/libtorch_python.so
attack_daemon_start
attack_victim_start
# Of folders with long names; the shell stops at PATH_MAX, so Python makes them one below the other.
# shellcheck disable=SC2016
attacker "$python" -c '
import os, sys
name = "d" * 250
for _ in range(13):
    os.mkdir(name)
    os.chdir(name)
open("f", "wb").write(bytes(4096))
print(os.path.join(os.getcwd(), "f"))' >"$work/deep"
attack_begin
pids=()
for _ in 1 2 3 4; do
	attack_rank "$python" "$work/bin/map_files.py" --times 65400 "$(cat "$work/deep")" "$work/bin/libtorch_python.so"
	pids+=("$last")
done
for pid in "${pids[@]}"; do wait_for 60 rank_known "$pid" || fail "an attacker is no rank"; done
sleep 5
lines=$(wc -l <"/proc/${pids[0]}/maps")
[ "$lines" -gt 60000 ] || fail "the attacker has $lines mappings"
attack_status_under_1s
attack_victim_exact
attack_daemon_alive
attack_done
