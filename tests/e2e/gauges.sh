#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Gauges of this machine are what /proc and /sys say, and those of cards what a library that stands in for NVML says; its
# calls may hang, and the daemon answers all the same.
source "$(dirname "$0")/lib.sh"

export RANKTRACE_STATE_DIR=$state
cards=$work/cards
card() { # POWER_MW CLOCK REASONS
	printf '0 uuid GPU-0\n0 pci 0000:3b:00\n0 serial 165\n0 minor 0\n0 utilization 98\n0 memory_busy 40\n'
	printf '0 power_mw %d\n0 clock_sm_mhz %d\n0 reasons %s\n' "$1" "$2" "$3"
}
card 300000 1980 0 >"$cards"
daemon_prefix=(env "LD_LIBRARY_PATH=$build/fixtures/cards" "RANKTRACE_CARDS=$cards")
e2e_start

echo "--- this machine"
busy() { awk '/^cpu0 / { print $2 + $3 + $4 + $7 + $8 }' /proc/stat; }
sleep 3
before=$(busy)
begin_ns=$(date +%s%N)
timeout 6 taskset -c 0 sh -c 'while :; do :; done' || true
after=$(busy)
end_ns=$(date +%s%N)
sleep 3
"$tracectl" check | grep gauges
e2e_stop
# The open rows end with the daemon. What lies across begin and end counts by its part.
stored=$(query "select sum(value * (min(start_ns + duration_ns, $end_ns) - max(start_ns, $begin_ns)) / 1e7) from gauges
	where source = 'cpu' and object = 'cpu0' and name = 'busy' and start_ns < $end_ns and start_ns + duration_ns > $begin_ns")
awk -v s="$stored" -v t="$((after - before))" 'BEGIN { print "cpu0 busy:", s, "ticks stored,", t, "in /proc/stat"; exit !(s > 0.75 * t && s < 1.25 * t) }' ||
	fail "cpu0 was busy for $((after - before)) ticks, the store has $stored"
available=$(query "select value from gauges where source = 'memory' and name = 'available' order by start_ns desc limit 1")
awk -v s="$available" -v t="$(awk '/^MemAvailable/ { print $2 * 1024 }' /proc/meminfo)" 'BEGIN { exit !(s > 0.8 * t && s < 1.2 * t) }' ||
	fail "available memory: $available"
for interface in /sys/class/net/*; do
	interface=${interface##*/}
	stored=$(query "select value from gauges where source = 'network' and object = '$interface' and name = 'link_changes' order by start_ns desc limit 1")
	if [ -e "/sys/class/net/$interface/device" ]; then
		[ "${stored%.0}" = "$(cat "/sys/class/net/$interface/carrier_changes")" ] || fail "$interface: '$stored' changes of the link"
	else
		[ -z "$stored" ] || fail "$interface has no device, and gauges"
	fi
done
[ -e /dev/nvidiactl ] || [ -e /sys/class/infiniband ] || [ -z "$(query "select 1 from gauges where source = 'infiniband' limit 1")" ] ||
	fail "gauges of what is not here"
rows=$(query "select count(*) from gauges")
[ "$rows" -gt 20 ] || fail "only $rows rows"

echo "--- a card"
query "select name, round(value, 3), unit from gauges where source = 'nvml'"
[ "$(query "select round(value) from gauges where object = 'GPU-0' and name = 'power' limit 1")" = 300.0 ] || fail "its power"
[ "$(query "select pci || ' ' || serial from cards where object = 'GPU-0'")" = '0000:3b:00.0 165' ] || fail "its identity"
[ -z "$(query "select 1 from gauges where name = 'temperature' limit 1")" ] || fail "a temperature that the card does not have"

echo "--- its driver hangs"
{ card 700000 1200 0x4 && echo '0 block_ms 20000'; } >"$cards"
e2e_start
for _ in 1 2 3 4 5; do
	begin_ns=$(date +%s%N)
	"$tracectl" status >/dev/null || fail "no status"
	[ $((($(date +%s%N) - begin_ns) / 1000000)) -lt 1000 ] || fail "status waited for the card"
	sleep 1
done
wait_for 15 grep -q 'nvml has not answered' "$work/daemon.log" || fail "the silence of the card is not reported"
"$tracectl" check | grep -q 'nvml: no answer for more than 10 s' || fail "check: $("$tracectl" check | grep nvml)"
grep -q 'cpu: time of each CPU' <<<"$("$tracectl" check)" || fail "other sources stopped, too"
e2e_stop
echo "gauges: done"
