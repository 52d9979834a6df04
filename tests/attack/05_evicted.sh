#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A library on a file system whose server answers until the library was read, then evicts its pages and is silent: a probe
# needs the page of its function, and the kernel holds every fork() of the node meanwhile.
source "$(dirname "$0")/lib.sh"
source "$(dirname "$0")/reader_lib.sh"

[ -c /dev/fuse ] || skip "this kernel has no FUSE"
mounted=$work/mounted
attack_own_cleanup() { umount -f "$mounted" 2>/dev/null; umount -l "$mounted" 2>/dev/null; true; }
attack_scripts
attack_install "$build"/fixtures/attack_nccl/libnccl.so.2
attack_daemon_start
attack_victim_start
install -d -m 755 "$mounted"
"$python" "$work/bin/dead_fuse.py" "$mounted" libnccl.so.2 "$attacker_uid" "$attacker_uid" \
	"$work/bin/libnccl.so.2" 3 >"$work/fuse.log" 2>&1 &
server=$!
children+=("$server")
wait_for 20 grep -q ready "$work/fuse.log" || skip "cannot mount: $(cat "$work/fuse.log")"
attack_begin
attack_rank "$python" "$work/bin/map_files.py" "$mounted/libnccl.so.2"
wait_for 30 rank_known "$last" || fail "the attacker is no rank"
decided() { grep -q "$mounted/libnccl.so.2" "$work/daemon.log"; }
wait_for 30 decided || fail "the daemon does not say what it does with the file"
"$tracectl" status | grep -q "a library of process $last is on a file system that its user serves" || fail "status does not say why"
# Beside other attacks L1 remains on: the victim's calls count.
[ -n "${ATTACK_TOGETHER:-}" ] || "$tracectl" set L1=false >/dev/null
kill -USR1 "$server"
wait_for 5 grep -q evicted "$work/fuse.log" || fail "the server does not evict"
"$tracectl" set L1=true >/dev/null
sleep 5
attack_status_under_1s
attack_victim_steps_exact
attack_daemon_alive
attack_done
