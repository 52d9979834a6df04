#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Links in folders that another user made, or made open to all: a daemon of root, `tracectl dump`, `report -o` and `timeline
# -o` follow none of them. What the links lead to is unchanged.
source "$(dirname "$0")/lib.sh"

precious=$work/precious
install -d -m 755 "$precious"
echo precious >"$precious/file"
echo precious >"$precious/keep.timeline"
seal() { find "$precious" -printf '%p %s %T@ %i\n' | sort; }
sealed=$(seal)
intact() { [ "$(seal)" = "$sealed" ] || { diff <(echo "$sealed") <(seal) >&2; fail "$1 followed a link"; }; }

# plant FOLDER: what the daemon and the tools would open, remove or rename in a state folder.
plant() {
	attacker "$python" - "$1" "$precious" <<'PY'
import os, sys
folder, precious = sys.argv[1:]
os.makedirs(folder + "/dump/old/20200101T000000Z", exist_ok=True)
for name in "lock", "levels.new", "findings", "dump/lock", "dump/state.new":
    os.symlink(precious + "/file", folder + "/" + name)
os.symlink(precious + "/created", folder + "/levels")
os.symlink(precious, folder + "/db")
for kind in "timeline", "mspti", "hbm_trace", "osprobe":
    os.symlink(precious, folder + "/dump/" + kind)
    os.symlink(precious, folder + "/dump/old/20200101T000000Z/" + kind)
PY
}
# refused NAME FOLDER: a daemon of root does not start there, and says why in one sentence.
refused() {
	local code=0
	RANKTRACE_SOCKET=$work/refused.sock timeout 20 "$build/daemon/ranktraced" --foreground --config "$work/refused.conf" --state-dir "$2" \
		--socket "$work/refused.sock" 2>"$work/refused.log" || code=$?
	intact "$1"
	[ "$code" -ne 0 ] && [ "$code" -ne 124 ] || fail "$1: the daemon starts in $2"
	[ "$(grep -cE ': error: .*(can plant links|plant links there)' "$work/refused.log")" -eq 1 ] ||
		{ cat "$work/refused.log" >&2; fail "$1: it does not say why"; }
}
printf '[daemon]\nprobes_base_dir = %s\n' "$source_dir/bpf/probes.d" >"$work/refused.conf"

install -d -m 1777 "$work/tmp"
plant "$work/tmp/ranktrace"
refused "a folder that another user made" "$work/tmp/ranktrace"
install -d -m 777 "$work/open"
plant "$work/open"
refused "a folder that is open to all" "$work/open"
install -d -m 700 "$work/private"
attacker ln -s "$work/private" "$work/tmp/link"
refused "a link of another user" "$work/tmp/link"
attacker mkdir "$work/tmp/above"
install -d -m 700 "$work/tmp/above/state"
refused "a folder below one of another user" "$work/tmp/above/state"

echo "--- a daemon in a folder of its own, and tools of root that write where the attacker can"
attack_daemon_start
attack_victim_start
attack_begin
sleep 2
for name in report.html report.html.new trace trace.new; do attacker ln -s "$precious/file" "$work/tmp/$name"; done
# Where the system protects links in sticky folders itself, only the folder of the attacker is left to try.
attacker mkdir "$work/tmp/theirs"
for name in report.html report.html.new trace trace.new; do attacker ln -s "$precious/file" "$work/tmp/theirs/$name"; done
for folder in "$work/tmp" "$work/tmp/theirs"; do
	"$tracectl" report --html -o "$folder/report.html" || fail "report -o $folder/report.html fails"
	intact "report -o"
	"$tracectl" timeline -o "$folder/trace" 2>/dev/null || fail "timeline -o $folder/trace fails"
	intact "timeline -o"
	[ -f "$folder/report.html" ] && [ ! -L "$folder/report.html" ] || fail "report -o wrote no file of its own"
	[ -f "$folder/trace" ] && [ ! -L "$folder/trace" ] || fail "timeline -o wrote no file of its own"
done
! "$tracectl" dump -o "$work/tmp/ranktrace/dump" 2>"$work/dump.err" || fail "dump -o writes into a folder of another user"
intact "dump -o"
grep -q 'folder of another user' "$work/dump.err" || { cat "$work/dump.err" >&2; fail "dump -o does not say why"; }
! "$tracectl" report --keep "$work/tmp/ranktrace" >/dev/null 2>"$work/keep.err" || fail "report --keep writes into a folder of another user"
intact "report --keep"
grep -q 'belongs to user' "$work/keep.err" || fail "report --keep does not say why"
"$tracectl" dump -o "$work/dumped" >/dev/null || fail "dump -o into a folder of one's own fails"
attack_status_under_1s
attack_victim_exact
attack_daemon_alive

# The advice names no folder that anybody can make first.
! grep -n 'ranktraced --state-dir /tmp\|mkdir[^;]* /tmp' "$source_dir/packaging/quickstart.sh" || fail "quickstart's advice uses a folder in /tmp"
attack_done
