#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A library on a file system that root mounted, as that of a file server: opening is answered, then no read and no close.
source "$(dirname "$0")/lib.sh"
source "$(dirname "$0")/reader_lib.sh"

[ -c /dev/fuse ] || skip "this kernel has no FUSE"
mounted=$work/mounted
attack_own_cleanup() { umount -f "$mounted" 2>/dev/null; umount -l "$mounted" 2>/dev/null; true; }
attack_scripts
attack_daemon_start
attack_victim_start
install -d -m 755 "$mounted"
"$python" "$work/bin/dead_fuse.py" "$mounted" libtorch_python.so "$attacker_uid" 0 >"$work/fuse.log" 2>&1 &
children+=($!)
wait_for 20 grep -q ready "$work/fuse.log" || skip "cannot mount: $(cat "$work/fuse.log")"
attack_begin
attack_rank "$python" "$work/bin/map_files.py" "$mounted/libtorch_python.so"
wait_for 30 rank_known "$last" || fail "the attacker is no rank"
# The reader has its time, and the file is tried again: a file server may answer later.
wait_for 60 grep -q 'libtorch_python.so of process [0-9]* is tried again later' "$work/daemon.log" || fail "the log does not say that the file is not read"
sleep 3
attack_status_under_1s
attack_victim_exact
attack_daemon_alive
# It stops and starts while the file system still does not answer.
attack_restart
attack_done
