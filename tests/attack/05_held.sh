#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A rank that holds its own memory map, for as long as its file server is silent: the kernel waits for it to probe the library that
# the rank maps, and holds every fork() of the node meanwhile. The probe arrives when the rank has released the map.
source "$(dirname "$0")/lib.sh"
source "$(dirname "$0")/reader_lib.sh"

held_s=4
[ -c /dev/fuse ] || skip "this kernel has no FUSE"
mounted=$work/mounted
library=$work/bin/held/libnccl.so.2
attack_own_cleanup() { umount -f "$mounted" 2>/dev/null; umount -l "$mounted" 2>/dev/null; true; }
attack_scripts
install -d -m 755 "$work/bin/held"
install -m 755 "$build"/fixtures/attack_nccl/libnccl.so.2 "$library"
attack_install "$build"/fixtures/attack_torch/libtorch_python.so
attack_daemon_start
attack_victim_start
install -d -m 755 "$mounted"
"$python" "$work/bin/dead_fuse.py" "$mounted" file "$attacker_uid" "$attacker_uid" "$library" "$held_s" >"$work/fuse.log" 2>&1 &
server=$!
children+=("$server")
wait_for 20 grep -q ready "$work/fuse.log" || skip "cannot mount: $(cat "$work/fuse.log")"
attack_begin
attack_rank "$python" "$work/bin/hold_map.py" "$work/bin/libtorch_python.so" "$library" "$mounted/file" "$server" >"$work/hold.log" 2>&1
wait_for 30 grep -q ready "$work/hold.log" || fail "the attacker does not begin"
wait_for 30 rank_known "$last" || fail "the attacker is no rank"
kill -USR1 "$last"
wait_for 30 grep -q released "$work/hold.log" || fail "the attacker does not release its map"
attached() { grep -q "$library: [0-9]* probes\? attached" "$work/daemon.log"; }
wait_for 30 attached || fail "the probe does not arrive"
attack_status_under_1s
attack_victim_exact
attack_daemon_alive
attack_done
