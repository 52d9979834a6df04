#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A level that is off has no probe in the kernel, by status and by the kernel's list of links.
source "$(dirname "$0")/lib.sh"

probes() { "$tracectl" status --json | "$python_here" -c '
import json, sys
print(sum(c["probes_attached"] for c in json.load(sys.stdin)["collectors"] if c["name"] == sys.argv[1]))' "$1"; }
# Links of the daemon by type, from the kernel's fdinfo. Descriptors open and close meanwhile: a vanished one is no failure.
links() { { grep -lE "^link_type:[[:space:]]*($1)" /proc/"$daemon"/fdinfo/* 2>/dev/null || true; } | wc -l; }
uprobes='uprobe_multi|perf'
tracing='tracing|raw_tracepoint'

# Findings on other trainings of this machine would turn on levels.
e2e_start findings.raise=no
base=$(links "$tracing")
train job RANK=0 WORLD_SIZE=1 -- --mode plain --steps 3000 --hidden 64 --batch 16 --sleep-data 20
stages() { query "select count(*) from stages where instance = $(instance "$last")"; }
seen() { [ "$(stages)" -gt 20 ]; }
wait_for 60 seen || fail "no stages stored"
echo "L0 on: status says $(probes call) probes, the kernel $(links "$uprobes") links"
[ "$(probes call)" -gt 0 ] && [ "$(links "$uprobes")" -gt 0 ] || fail "L0 is on but no probe is attached"

answer=$("$tracectl" set L0=false)
echo "$answer"
echo "L0 off: status says $(probes call) probes, the kernel $(links "$uprobes") links"
[ "$(probes call)" -eq 0 ] && [ "$(links "$uprobes")" -eq 0 ] || fail "L0 is off but probes are attached"
flush
before=$(stages)
sleep 2
[ "$(stages)" -eq "$before" ] || fail "stages were stored although L0 is off"

answer=$("$tracectl" set L0=true)
echo "$answer"
grep -qE 'L0 on: [0-9]+ probes in [0-9]+ libraries, [0-9]+ rank' <<<"$answer" || fail "set does not report probes, libraries and ranks"
more() { [ "$(stages)" -gt "$before" ]; }
wait_for 20 more || fail "no stages after L0 was turned on again"
stepped() { [ "$(query "select count(*) from steps where instance = $(instance "$last")")" -gt $((steps + 20)) ]; }
steps=$(query "select count(*) from steps where instance = $(instance "$last")")
wait_for 20 stepped || fail "no steps after L0 was turned on again"
longest=$(query "select max(duration_ns) / 1000000 from steps where instance = $(instance "$last") and step > 1")
echo "longest step: $longest ms"
[ "$longest" -lt 2000 ] || fail "a step spans the time with L0 off"

"$tracectl" set L3=true
[ "$(links "$tracing")" -gt "$base" ] || fail "L3 is on but nothing is attached"
"$tracectl" set L3=false
[ "$(links "$tracing")" -eq "$base" ] || fail "L3 is off but probes are attached"

"$tracectl" set L3=true --for 2s
on() { grep -q 'L3: true' <<<"$("$tracectl" print L3)"; }
off() { ! on; }
on || fail "set --for did not turn L3 on"
wait_for 10 off || fail "L3 is on after set --for 2s"

"$tracectl" interval L1=10
"$tracectl" set L2=true
e2e_stop
e2e_start findings.raise=no
grep -q 'L2: true' <<<"$("$tracectl" print)" || fail "a level did not survive the restart"
grep -q 'L1_interval: 10' <<<"$("$tracectl" print L1)" || fail "an interval did not survive the restart"
e2e_done
