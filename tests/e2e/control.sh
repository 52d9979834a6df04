#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tracectl: exit codes, messages, access rights.
source "$(dirname "$0")/lib.sh"

# expect CODE PATTERN ARGS...: exit code, and a match on stderr (stdout for 0).
expect() {
	local code=$1 pattern=$2 out err=0
	shift 2
	out=$("$tracectl" "$@" 2>&1) || err=$?
	[ "$err" -eq "$code" ] || fail "tracectl $*: exit code $err instead of $code: $out"
	grep -qiE "$pattern" <<<"$out" || fail "tracectl $*: printed '$out', expected '$pattern'"
}

# A socket that takes no more connections: the answer comes after 10 s, and is read at the end.
python3 - "$work/full.sock" <<'PY' &
import socket, sys, time
listener, client = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen(0)
client.connect(sys.argv[1])
open(sys.argv[1] + ".full", "w").close()
time.sleep(60)
PY
children+=("$!")
wait_for 10 test -e "$work/full.sock.full" || fail "no socket is full"
"$tracectl" --socket "$work/full.sock" status >"$work/full.said" 2>&1 &
full=$!

expect 3 'no daemon' status
expect 3 'no daemon' query 'select 1'
expect 3 'state-dir' findings
expect 2 '.' frobnicate
expect 2 "did you mean 'status'" stat
# A wrong option is an error of usage also where no daemon runs.
expect 2 'tracectl status: unknown option .--bogus' status --bogus
expect 2 'tracectl findings: .*bogus' findings --bogus
expect 2 'tracectl findings: .*--since takes' findings --since soon
expect 2 'tracectl set: L1 cannot be' set L1=maybe
expect 2 'tracectl ranks: .*ranks as in' ranks --rank 3-1
expect 3 'tracectl set: no daemon' set l1=YES
expect 2 'ranks as in' ops --rank
expect 0 'what is slow' help
expect 0 'communicator' query --tables
expect 0 '"name": "communicators"' query --tables --json
"$tracectl" --json query --tables | python3 -c 'import json, sys; sys.exit(not all(t["columns"] for t in json.load(sys.stdin)))' ||
	fail "query --tables --json is not JSON"
expect 2 'not --csv' query --tables --csv
expect 0 'RFC 4180' findings --json --help
for verb in set status findings report timeline analyze dump query; do expect 0 'usage' "$verb" -h; done
for words in 'query --tables' 'help findings' 'findings --version'; do
	# shellcheck disable=SC2086
	if "$tracectl" $words >/dev/full 2>"$work/full"; then fail "tracectl $words: exit code 0 on a full disk"; fi
	grep -q 'cannot write.*: No space left on device' "$work/full" || fail "tracectl $words: no error message for a full disk: $(cat "$work/full")"
done
e2e_start
expect 0 'L0 on' status
expect 2 'tracectl help findings' findings --no-such-option
expect 0 'L1 is off' ops
expect 2 'ranks as in' ops --rank 3-1
expect 0 'L0: true' print
expect 0 'L0' print L0
expect 2 'level' set L9=true
expect 2 'true|false' set L1=maybe
expect 2 '.' set
expect 2 'minutes|number' interval L1=-3
expect 2 'unknown|level' print L7
expect 2 '.' set L1=true --for soon
expect 0 'L1 on' set L1=true
expect 0 'L1 off' set l1=No
expect 0 'L1 on' set l1=ON
expect 0 'event loop late by at most' status
expect 0 '"loop_lag"' status --json
expect 1 'no such rank runs on this node' ranks --rank 900
expect 1 'the store has no rank 900; ' why --rank 900 --state-dir "$state"
expect 1 'no such rank runs on this node' ops --rank 900
expect 0 'tracectl' help
expect 0 '[0-9]+\.[0-9]+' --version
expect 1 'syntax|no such' query 'selec 1'
expect 1 'may not be modified' query 'delete from steps'
expect 1 'only|read' query "attach '/etc/passwd' as x"
expect 0 '^rank' query 'select rank from steps'
expect 0 'ok|limited|missing' check
"$tracectl" check --json | "$python_here" -m json.tool >/dev/null || fail "check --json is not JSON"
[ "$("$tracectl" query --json 'select 1 as a, null as b' | "$python_here" -c 'import json, sys; print(json.load(sys.stdin))')" = "[{'a': 1, 'b': None}]" ] ||
	fail "query --json is not an array of objects"

echo "--- a second daemon on the same state folder, and a bad configuration"
if "$build/daemon/ranktraced" --state-dir "$state" --socket "$work/second.sock" 2>"$work/second.log"; then fail "a second daemon started"; fi
grep -q "another ranktraced" "$work/second.log" || fail "wrong error of the second daemon: $(cat "$work/second.log")"
printf '[daemon]\nlog_levle = debug\n' >"$work/bad.conf"
if "$build/daemon/ranktraced" --config "$work/bad.conf" 2>"$work/bad.log"; then fail "an invalid configuration was accepted"; fi
grep -q "bad.conf:2: .*log_levle" "$work/bad.log" || fail "file, line and key are not named: $(cat "$work/bad.log")"
kill -HUP "$daemon"
sleep 0.5
expect 0 'L0 on' status

echo "--- other users: read-only access"
chmod 711 "$work"
nobody() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }
nobody "$tracectl" status >/dev/null || fail "status is refused to other users"
if nobody "$tracectl" set L0=false 2>"$work/denied"; then fail "any user may set a level"; fi
grep -qi 'root\|group' "$work/denied" || fail "the refusal does not name who may: $(cat "$work/denied")"

echo "--- a stopped daemon is named, and not waited for"
kill -STOP "$daemon"
code=0
timeout 30 "$tracectl" status >/dev/null 2>"$work/stopped" || code=$?
kill -CONT "$daemon"
[ "$code" -eq 3 ] && grep -q "its process $daemon is stopped; kill -CONT $daemon" "$work/stopped" ||
	fail "of a stopped daemon tracectl says, exit $code: $(cat "$work/stopped")"
expect 0 'L0 on' status
socket=$RANKTRACE_SOCKET
e2e_stop
[ ! -e "$socket" ] || fail "the socket was not removed"
"$tracectl" query --state-dir "$state" 'select count(*) from steps' >/dev/null || fail "query fails with the daemon down"

echo "--- findings --follow ends when its reader closes"
"$tracectl" findings --state-dir "$state" --follow 2>"$work/follow" > >(sleep 1) &
last=$!
children+=("$last")
followed() { ! kill -0 "$last" 2>/dev/null; }
wait_for 30 followed || fail "findings --follow runs on without a reader"

echo "--- installed daemon down: findings come from its store"
installed=$("$tracectl" findings --help | sed -n 's/.*RANKTRACE_STATE_DIR; else \(.*\))$/\1/p')
above=$installed
while [ ! -d "$above" ]; do above=$(dirname "$above"); done
if [[ $build/ = "$above"/* || $work/ = "$above"/* || $above = / || -e /run/ranktrace/control.sock ]]; then
	echo "not tested: $installed cannot be replaced here"
else
	env -u RANKTRACE_SOCKET unshare -m bash -c "mount -t tmpfs none '$above' && mkdir -p '$installed' && cp -a '$state/db' '$installed/' &&
		'$tracectl' findings" >"$work/installed" 2>&1 || fail "findings with the daemon down: $(cat "$work/installed")"
	grep -q "no daemon answers; this is what is stored in $installed" "$work/installed" && grep -q 'no findings' "$work/installed" ||
		fail "findings with the daemon down: $(cat "$work/installed")"
fi
code=0
wait "$full" || code=$?
[ "$code" -eq 3 ] && grep -q 'no daemon answers on .*full.sock: Connection timed out' "$work/full.said" ||
	fail "with a socket that is full tracectl exits with $code: $(cat "$work/full.said")"
e2e_done
