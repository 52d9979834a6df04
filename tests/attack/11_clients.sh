#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Clients that connect and ask as fast as they can, on the control socket and on the metrics: others are answered.
source "$(dirname "$0")/lib.sh"

SECONDS_EACH=4
metrics_args=()
[ -n "${ATTACK_TOGETHER:-}" ] || metrics_args=("metrics.listen=$work/run/metrics.sock")
attack_install "$build/tests/fixtures/attack" "$build"/fixtures/attack_torch/libtorch_python.so

attack_daemon_start "${metrics_args[@]}"
attack_victim_start
cp "$source_dir/tests/attack/control_flood.py" "$attacker_dir/"
# Ranks of his own give his requests something to answer.
attacker_start "$work/bin/attack" ranks "$work/bin/libtorch_python.so" 100
attack_begin
flooded() { [ -s "$work/flood" ]; }
for mode in connect ask; do
	rm -f "$work/flood"
	attacker_start "$python" control_flood.py "$mode" "$RANKTRACE_SOCKET" "$SECONDS_EACH" 16 >"$work/flood"
	wait_for 60 flooded || fail "the flood ($mode) does not end"
	attack_figure "$mode=$(cat "$work/flood")"
	[ "$(cat "$work/flood")" -gt 100 ] || fail "only $(cat "$work/flood") of $mode: too few to say anything"
done
if [ -z "${ATTACK_TOGETHER:-}" ]; then
	# As the attacker could where the metrics are on an address.
	chmod 666 "$work/run/metrics.sock"
	rm -f "$work/flood"
	attacker_start "$python" control_flood.py metrics "$work/run/metrics.sock" "$SECONDS_EACH" 1 >"$work/flood"
	sleep 1
	scrape() { "$python_here" - "$work/run/metrics.sock" <<-'PY'
		import socket, sys
		one = socket.socket(socket.AF_UNIX)
		one.settimeout(5)
		one.connect(sys.argv[1])
		one.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
		sys.exit(one.recv(12, socket.MSG_WAITALL) != b"HTTP/1.1 200")
	PY
	}
	scraped=0
	for _ in 1 2 3 4 5 6 7 8 9 10; do ! scrape || scraped=$((scraped + 1)); done
	wait_for 60 flooded || fail "the flood (metrics) does not end"
	attack_figure "scraped=$scraped"
	[ "$scraped" -gt 0 ] || fail "the metrics are not answered while one holds connections"
fi
attack_status_under_1s
attack_victim_exact
attack_daemon_alive
attack_done
