#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Gauges of this machine are what /proc and /sys say, and those of cards what a library that stands in for NVML says. What
# the card and the kernel's log report is a finding that names the rank. The card's calls may hang, and the daemon
# answers all the same. A rank that may run only far from its card is shown.
source "$(dirname "$0")/lib.sh"

export RANKTRACE_STATE_DIR=$state
host=$(hostname)
cards=$work/cards
card() { # POWER_MW CLOCK REASONS ECC
	printf '0 uuid GPU-01234567-89ab\n0 pci 0000:3b:00\n0 serial 165\n0 minor 0\n0 utilization 98\n0 memory_busy 40\n'
	printf '0 power_mw %d\n0 clock_sm_mhz %d\n0 reasons %s\n0 ecc_corrected 0\n0 ecc_uncorrected %d\n' "$1" "$2" "$3" "$4"
}
put_card() { card "$@" >"$cards.new" && mv "$cards.new" "$cards"; }
put_card 300000 1980 0 5
# The kernel's log takes no kernel's message from others: in a mount namespace of the daemon's, a pipe takes its place.
mkfifo "$work/kmsg"
# Of the PCI devices only the card is there, near a CPU that no rank may use.
mkdir -p "$work/devices/0000:3b:00.0"
echo 1000-1001,1023 >"$work/devices/0000:3b:00.0/local_cpulist"
daemon_prefix=(unshare -m sh -c "mount --bind '$work/kmsg' /dev/kmsg && mount --bind '$work/devices' /sys/bus/pci/devices && exec \"\$@\"" sh
	env "LD_LIBRARY_PATH=$build/fixtures/cards" "RANKTRACE_CARDS=$cards")
# A rank whose /dev has a card's node.
mkdir "$work/dev"
cat >"$work/rank.sh" <<END
set -e
mount -t tmpfs dev "$work/dev"
touch "$work/dev/nvidia0"
for node in null zero urandom; do
	touch "$work/dev/\$node"
	mount --bind "/dev/\$node" "$work/dev/\$node"
done
mkdir "$work/dev/shm"
mount --rbind "$work/dev" /dev
exec "\$@"
END
RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 CUDA_VISIBLE_DEVICES=0 TRUTH=$work/rank.json unshare -m sh "$work/rank.sh" \
	"$python" "$source_dir/tests/e2e/train/train.py" --steps 100000 >"$work/rank.log" 2>&1 &
rank=$!
children+=("$rank")
e2e_start

echo "--- this machine, and a card"
busy() { awk '/^cpu0 / { print $2 + $3 + $4 + $7 + $8 }' /proc/stat; }
# The sample before.
sleep 1.2
before=$(busy)
begin_ns=$(date +%s%N)
timeout 5 taskset -c 0 sh -c 'while :; do :; done' &
burn=$!
# known SQL: it has a row.
known() { [ -n "$(query "$1")" ]; }
wait_for 30 known "select 1 from ranks where pid = $rank and card = '0'" || { cat "$work/rank.log" >&2; fail "no rank with a card"; }
identity=$("$tracectl" ranks --json | "$python_here" -c 'import json, sys
for rank in json.load(sys.stdin):
	if rank["rank"] == 0 and rank["role"] == "rank": print(rank["card_uuid"], rank["card_pci"], rank["card_serial"])')
[ "$identity" = 'GPU-01234567-89ab 0000:3b:00.0 165' ] || fail "the rank's card: $identity"
cpus=$(env -u OMP_NUM_THREADS nproc)
far() { grep -q "none of the $cpus CPUs that it may use is near its card" <<<"$("$tracectl" ranks)"; }
wait_for 65 far || fail "ranks: $("$tracectl" ranks)"

echo "--- what they report"
# reported SEVERITY SENTENCE: an open finding.
reported() { known "select 1 from findings where kind = 'hardware' and state = 'open' and severity = '$1' and sentence = '$2'"; }
expect() { wait_for 6 reported "$@" || { "$tracectl" findings --verbose >&2; fail "no finding: $2"; }; }
[ -z "$(query "select 1 from findings where kind = 'hardware'")" ] || fail "findings before anything was reported"
xid="card 0 of $host (rank 0) reports Xid 31 (GPU memory page fault)"
memory="card 0 of $host (rank 0) reports errors of its memory (not corrected by ECC)"
put_card 300000 1980 0 7
echo '4,10,5000,-;NVRM: Xid (PCI:0000:3b:00): 31, pid=4711, name=python, MMU Fault' >"$work/kmsg"
expect warning "$xid"
expect critical "$memory"
"$tracectl" findings --verbose
grep -q "critical: findings: $memory" <<<"$(tr -d '()' <"$work/daemon.log")" ||
	grep -qF "findings: $memory" "$work/daemon.log" || fail "it is not in the log"
kill "$rank"

echo "--- its driver is slow"
# 36 calls of 1 ms a second, were it not for the budget: half of 1 % of a CPU is 5.
{ card 300000 1980 0 7 && echo '0 burn_us 1000'; } >"$cards.new" && mv "$cards.new" "$cards"
# slow EXPRESSION: of the groups g of the card.
slow() { "$tracectl" status --json | "$python_here" -c 'import json, sys
g = {g["name"]: g for s in json.load(sys.stdin)["gauges"] if s["name"] == "nvml" for g in s["groups"]}
sys.exit(not eval(sys.argv[1]))' "$1"; }
wait_for 20 slow 'g["usage"]["slow"] and g["links"]["slow"]' || fail "a slow driver is read as often as ever: $("$tracectl" status | grep gauges:)"
# A pace follows from the last few calls: with other work beside, one takes longer.
wait_for 20 slow 'g["presence"]["interval_s"] == 1 and g["links"]["interval_s"] > 5 and sum(x["cpus"] for x in g.values()) < 0.01' ||
	fail "its pace: $("$tracectl" status --json | "$python_here" -c 'import json, sys; print(json.dumps(json.load(sys.stdin)["gauges"]))')"
"$tracectl" status | grep gauges: | grep -q 'nvml.* links every [0-9]* s' || fail "status does not show the pace"
wait_for 5 grep -q 'group links of nvml is read every' "$work/daemon.log" || fail "the log does not say it"
took() { "$tracectl" status --json | "$python_here" -c 'import json, sys
self = json.load(sys.stdin)["self"]
print((self["cpu_user_ns"] + self["cpu_system_ns"]) // 1000000)'; }
before_ms=$(took)
sleep 10
took_ms=$(($(took) - before_ms))
echo "with a slow driver the daemon takes $took_ms ms of CPU time in 10 s; its gauges: $("$tracectl" status | grep gauges:)"
[ "$took_ms" -lt 200 ] || fail "the daemon takes $took_ms ms in 10 s"

echo "--- its driver hangs"
{ card 700000 1200 0x4 7 && echo '0 block_ms 20000'; } >"$cards.new" && mv "$cards.new" "$cards"
wait "$burn" || true
after=$(busy)
end_ns=$(date +%s%N)
for _ in 1 2 3 4 5; do
	since_ns=$(date +%s%N)
	"$tracectl" status >/dev/null || fail "no status"
	[ $((($(date +%s%N) - since_ns) / 1000000)) -lt 1000 ] || fail "status waited for the card"
	sleep 1
done
wait_for 15 grep -q 'nvml has not answered' "$work/daemon.log" || fail "the silence of the card is not reported"
"$tracectl" check | grep -q 'nvml: no answer for more than 10 s' || fail "check: $("$tracectl" check | grep nvml)"
grep -q 'cpu: time of each CPU' <<<"$("$tracectl" check)" || fail "other sources stopped, too"
"$tracectl" check | grep gauges
e2e_stop

echo "--- what is stored"
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
query "select name, round(value, 3), unit from gauges where source = 'nvml'"
[ "$(query "select round(value) from gauges where object = 'GPU-01234567-89ab' and name = 'power' limit 1")" = 300.0 ] || fail "its power"
[ "$(query "select pci || ' ' || serial from cards where object = 'GPU-01234567-89ab'")" = '0000:3b:00.0 165' ] || fail "its identity"
[ "$(query "select card_uuid || ' ' || card_pci || ' ' || card_serial from ranks where pid = $rank")" = "$identity" ] || fail "the rank's card in the store"
[ "$(query "select cpus || ' ' || near_cpus from ranks where pid = $rank")" = "$cpus 0" ] || fail "the rank's CPUs in the store"
watts=$(query "select round(1e6 * sum(card_energy_mj) / sum(duration_ns)) from host_samples join ranks using (instance) where pid = $rank and card_energy_mj is not null")
[ "$watts" = 300.0 ] || fail "the rank's card took ${watts:-no} W, 300 by its gauge"
[ -z "$(query "select 1 from gauges where name = 'temperature' limit 1")" ] || fail "a temperature that the card does not have"

echo "--- judged again from the store"
sentences=$("$tracectl" analyze --json --state-dir "$state" | "$python_here" -c 'import json, sys
for f in json.load(sys.stdin):
	if f["kind"] == "hardware": print(f["severity"], f["sentence"])' | sort)
[ "$sentences" = "critical $memory
warning $xid" ] || fail "analyze: $sentences"
echo "gauges: done"
