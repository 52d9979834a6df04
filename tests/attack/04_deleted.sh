#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A library without a probed function, of many scattered blocks, that is deleted and then no longer mapped: the daemon's
# descriptor is the last, and closing it frees the blocks (200 MiB of them took 14 s).
source "$(dirname "$0")/lib.sh"
source "$(dirname "$0")/reader_lib.sh"

mib=64
attack_scripts
attack_install "$build"/fixtures/attack_torch/libtorch_python.so
attack_daemon_start
attack_victim_start
attack_begin
library=$attacker_dir/libnccl.so.2
attack_rank "$python" "$work/bin/scatter_file.py" "$work/bin/libtorch_python.so" "$work/bin/libtorch_python.so" "$library" "$mib" >"$work/scatter.log" 2>&1
pid=$last
wait_for 60 grep -q . "$work/scatter.log" || fail "the attacker does not begin"
grep -q "no holes" "$work/scatter.log" && skip "$(cat "$work/scatter.log")"
wait_for 30 rank_known "$pid" || fail "the attacker is no rank"
opened() { "$tracectl" status | grep -q "$library"; } # a note of what it lacks
wait_for 30 opened || fail "the daemon does not open the library"
kill -USR1 "$pid"
dropped() { grep -q "$library: no longer mapped" "$work/daemon.log"; }
wait_for 30 dropped || fail "the daemon does not drop the library"
sleep 3
attack_status_under_1s
attack_victim_exact
attack_daemon_alive
attack_done
