#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# No attack: the harness itself. What the others demand holds for a daemon that is left alone.
source "$(dirname "$0")/lib.sh"

attack_daemon_start
attack_victim_start
attack_begin
attacker_start sleep 300
sleep 3
attack_status_under_1s
attack_victim_exact
attack_daemon_alive
attack_done
