#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A library on a file system whose server answers that it is opened, then no read and no close. The server is the
# attacker's; that others may use the file system is as configured for file servers in user space (user_allow_other).
source "$(dirname "$0")/lib.sh"
source "$(dirname "$0")/reader_lib.sh"

[ -c /dev/fuse ] || skip "this kernel has no FUSE"
mounted=$work/mounted
attack_own_cleanup() { umount -f "$mounted" 2>/dev/null; umount -l "$mounted" 2>/dev/null; true; }
attack_scripts
attack_daemon_start
attack_victim_start
install -d -m 755 "$mounted"
"$python" "$work/bin/dead_fuse.py" "$mounted" libtorch_python.so "$attacker_uid" >"$work/fuse.log" 2>&1 &
children+=($!)
wait_for 20 grep -q ready "$work/fuse.log" || skip "cannot mount: $(cat "$work/fuse.log")"
attack_begin
attack_rank "$python" "$work/bin/map_files.py" "$mounted/libtorch_python.so"
wait_for 30 attack_rank_known "$last" || fail "the attacker is no rank"
wait_for 60 attack_left_out || fail "check does not say that the file is not read"
sleep 3
attack_status_under_1s
attack_victim_exact
attack_daemon_alive
# It stops and starts while the file system still does not answer.
attack_restart
attack_done
