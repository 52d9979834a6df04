#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# No attack: the harness itself. What the others demand holds for a daemon that is left alone.
source "$(dirname "$0")/lib.sh"

attack_daemon_start
attack_victim_start
attack_begin
attacker_start sleep 300
attacker id -u | grep -qx "$attacker_uid" || fail "the attacker is not uid $attacker_uid"
attacker grep -qE '^CapBnd:[[:space:]]*0+$' /proc/self/status || fail "the attacker has capabilities"
[ -z "$attacker_cgroup" ] || wait_for 5 grep -qx "$last" "$attacker_cgroup/cgroup.procs" || fail "the attacker is not in its cgroup"
sleep 3
attack_status_under_1s
attack_victim_exact
attack_daemon_alive
attack_done
