#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Refused requests by the thousand, and connections that do nothing: the log does not grow with them, and others are answered.
source "$(dirname "$0")/lib.sh"

attack_daemon_start
attack_victim_start
attack_begin
cat >"$attacker_dir/flood.py" <<'PY'
import socket
import struct
import sys
import time

def connect():
    one = socket.socket(socket.AF_UNIX)
    one.settimeout(5)
    one.connect(sys.argv[1])
    return one

refused = 0
for i in range(3000):
    try:
        one = connect()
        one.sendall(bytes([i % 256]) * 64)
        refused += bool(one.recv(4096))
        one.close()
    except OSError:
        pass
print(refused, flush=True)
# As many connections as it gets, held open and opened again.
until = time.monotonic() + 4
held = []
while time.monotonic() < until:
    try:
        held.append(connect())
    except OSError:
        time.sleep(0.01)
    if len(held) > 200:
        held = held[100:]
PY
logged() { # beside others: of connections alone
	if [ -n "${ATTACK_TOGETHER:-}" ]; then grep -ac ': control: ' "$work/daemon.log" || true; else wc -l <"$work/daemon.log"; fi
}
before=$(logged)
attacker_start "$python" flood.py "$RANKTRACE_SOCKET" >"$work/flood"
flood=$last
flooded() { [ -s "$work/flood" ]; }
wait_for 60 flooded || fail "the flood does not end"
sleep 1
# While the connections are held: root (watched) and any third user are answered.
"${as_victim[@]}" timeout 5 "$tracectl" status >/dev/null || fail "another user is not answered while one holds connections"
wait "$flood" || true
refused=$(cat "$work/flood")
lines=$(($(logged) - before))
echo "$refused requests refused, $lines lines in the log"
attack_figure "refused=$refused" "lines=$lines"
[ "$refused" -gt 1000 ] || fail "only $refused of 3,000 requests were refused: too few to say anything"
[ "$lines" -lt 200 ] || fail "the log grew by $lines lines"
attack_status_under_1s
attack_victim_exact
attack_daemon_alive
attack_done
