#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The finding of a hang names the rank and holds the line where it is stuck: a deadlock, a stop, a wait that no signal ends,
# as of a file server that does not answer, and an endless loop. Of each a training of two ranks, all under one daemon.
source "$(dirname "$0")/lib.sh"
[ -z "${TORCH_ROOT:-}" ] || skip "runs with the system's PyTorch only"

script=$source_dir/tests/e2e/train/stuck.py
declare -A function=([lock]=hold_lock [stop]=stop_here [disk]=wait_for_disk [loop]=spin) cause=([lock]=missing [stop]=stopped [disk]=missing [loop]=missing)
kinds=(lock stop disk loop)
declare -A fifo=([disk]=$work/disk)
mkfifo "${fifo[disk]}"
# Lets the child go that a rank in uninterruptible sleep waits for.
on_cleanup() { exec 8<>"$work/disk"; }
# A rank that computes may evaluate or compile: by default it is given 10 min.
e2e_start findings.profile=no findings.hang_busy_after=20s
declare -A second
for i in "${!kinds[@]}"; do
	kind=${kinds[i]}
	for rank in 0 1; do
		RANK=$rank WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$((29660 + i)) TORCHELASTIC_RUN_ID=$kind \
			"$python" "$script" train "$work/go" "$kind" ${fifo[$kind]:-} >"$work/$kind$rank.log" 2>&1 &
		children+=($!)
		second[$kind]=$!
	done
done
training() { [ "$(query "select count(*) from steps where instance = $(instance "$1")")" -gt 20 ]; }
for kind in "${kinds[@]}"; do wait_for 90 training "${second[$kind]}" || fail "$kind does not train: $(cat "$work/$kind"?.log)"; done
touch "$work/go"
begun=$SECONDS
said() { query "select cause || ': ' || sentence from findings where kind = 'hang' and job = '$1' and rank = 1 and state = 'open'"; }
for kind in "${kinds[@]}"; do
	line=$(grep -n "# line of $kind\$" "$script" | cut -d: -f1)
	held() { [[ $(said "$kind") == "${cause[$kind]}: "*"rank 1 is alone in ${function[$kind]} (stuck.py:$line)"* ]]; }
	wait_for 40 held || fail "$kind: no finding names rank 1 and line $line: $("$tracectl" findings --all --verbose)"
	echo "$kind, $((SECONDS - begun)) s: $(said "$kind")"
done
accused() { [ "$(query "select count(*) from findings where kind = 'hang' and rank = 0")" -gt 0 ]; }
! accused || fail "rank 0 is accused: $("$tracectl" findings --all)"
kill -9 "${children[@]}"
children=()
on_cleanup
e2e_stop
e2e_done
