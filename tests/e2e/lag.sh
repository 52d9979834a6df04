#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A daemon that is suspended while a training runs announces no hang when it continues, and status says that it was
# behind. The ring is full by then: with L3 on, a training of short steps fills it in some seconds.
source "$(dirname "$0")/lib.sh"

suspended_s=10 # twice what a hang needs
lag_s() { "$tracectl" status --json | "$python_here" -c 'import json, sys; print(json.load(sys.stdin)["self"]["loop_lag"]["max_ns"] // 10**9)'; }
e2e_start findings.hang_after=5s findings.hang_busy_after=5s findings.raise=no
"$tracectl" set L3=true
port=$((20000 + RANDOM % 10000))
for rank in 0 1; do
	train job RANK=$rank WORLD_SIZE=2 LOCAL_RANK=$rank MASTER_ADDR=127.0.0.1 MASTER_PORT=$port -- --mode ddp --hidden 16 --batch 8 --steps 1000000
	rank_pid[rank]=$last
done
wait_for 60 stepping "${rank_pid[0]}" 100 || fail "the training did not start"
kill -STOP "$daemon"
timeout 5 "$tracectl" status >"$work/silent" 2>&1 || true
grep -q "process $daemon is stopped" "$work/silent" || fail "tracectl does not say that the daemon is stopped: $(cat "$work/silent")"
sleep "$suspended_s"
kill -CONT "$daemon"
before=$(steps_of "${rank_pid[0]}")
wait_for 60 stepping "${rank_pid[0]}" $((before + 500)) || fail "the daemon does not go on"
sleep 8 # longer than a hang needs
echo "lag $(lag_s) s; $("$tracectl" status | grep "^drops")"
"$tracectl" findings --state-dir "$state" --all
hangs=$("$tracectl" findings --state-dir "$state" --all --json | "$python_here" -c 'import json, sys; print(sum(f["kind"] == "hang" for f in json.load(sys.stdin)))')
[ "$hangs" -eq 0 ] || fail "the daemon takes its own lag for a hang"
[ "$(lag_s)" -ge $((suspended_s - 2)) ] || fail "status does not say that the daemon was behind"
# And a rank that hangs is one.
kill -STOP "${rank_pid[1]}"
hung() { "$tracectl" findings --state-dir "$state" --json | grep -q '"kind": *"hang"'; }
wait_for 40 hung || fail "a stopped rank is no hang afterwards"
kill -CONT "${rank_pid[1]}"
e2e_stop
e2e_done
