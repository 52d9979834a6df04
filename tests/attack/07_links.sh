#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A mapped library's folder is covered by a file system of the attacker's, with a link in the library's place to a file in
# somebody's private folder. The daemon may enter it; it must neither open that file nor show whether it exists.
source "$(dirname "$0")/lib.sh"
source "$(dirname "$0")/reader_lib.sh"

attack_scripts
attack_install "$build"/fixtures/attack_torch/libtorch_python.so
attacker unshare -Urm true 2>/dev/null || skip "users may make no user namespaces here"
private=$work/private
install -d -m 700 "$private"
echo secret >"$private/there"
"$python" "$work/bin/watch_open.py" "$private/there" >"$work/opened" 2>&1 &
children+=($!)
wait_for 20 grep -q ready "$work/opened" || fail "opening is not watched: $(cat "$work/opened")"
attack_daemon_start
attack_victim_start
attack_begin
for name in there absent; do
	mkdir "$work/bin/$name" && install -m 755 "$work/bin/libtorch_python.so" "$work/bin/$name/libtorch_python.so.$name"
	attack_rank unshare -Urm bash -c '
		"$1" "$2" --after "$3" "$3" >"$4" &
		until grep -q open "$4"; do sleep 0.1; done
		mount -t tmpfs none "$(dirname "$3")" && ln -s "$5" "$3"
		wait' bash "$python" "$work/bin/map_files.py" "$work/bin/$name/libtorch_python.so.$name" "$attacker_dir/$name" "$private/$name"
done
# "refused" is for the log's readers, not for the attacker.
refused() { [ "$(grep -c 'cannot use .*libtorch_python.so\.\(there\|absent\)' "$work/daemon.log")" -ge 2 ]; }
opened() { grep -q opened "$work/opened"; }
settled() { refused || opened; }
wait_for 30 settled || fail "the libraries were not refused"
sleep 2
! opened || fail "the private file was opened"
refused || fail "not both libraries were refused"
# What others read of the two is the same.
said() { grep -oE "cannot use .*libtorch_python.so\.$1 .*" "$work/daemon.log" | sed -E 's/[0-9]+/N/g; s/(there|absent)/NAME/g' | head -n 1; }
[ "$(said there)" = "$(said absent)" ] || fail "the log shows whether the file exists: '$(said there)', '$(said absent)'"
"$tracectl" status | grep -E 'libtorch_python\.so\.(there|absent)|No such file|denied|Stale' && fail "status shows the file"
attack_status_under_1s
attack_victim_exact
attack_daemon_alive
attack_done
