#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every kind of training loop: steps and stage shares in the store equal the script's own.
source "$(dirname "$0")/lib.sh"

# MODE SHARES ARGS...: SHARES are the stages compared. Python between the script's timer and the framework's mark takes some
# tenths of a millisecond per stage; steps are long enough that it is far below two percentage points.
cases=(
	"plain dataloader,zero_grad,forward,backward,optimizer --hidden 512"
	"plain dataloader --workers 2 --hidden 512"
	"plain dataloader --workers 1 --sleep-data 20 --hidden 512"
	"accumulate backward,optimizer --hidden 512"
	"amp backward --hidden 768"
	"checkpoint backward,optimizer --hidden 512"
	"two_optimizers backward --hidden 512"
	"user_stages dataloader,backward,optimizer --hidden 512"
	"eval -"
	"no_loader backward,optimizer --hidden 512"
	"inference dataloader"
)

declare -A pid_of
e2e_start
# Shares are of wall time: other load on the machine must not run between the script's timers and the marks.
renice -n -15 -p $$ >/dev/null
for case in "${cases[@]}"; do
	read -r mode shares rest <<<"$case"
	echo "--- $mode $rest"
	# shellcheck disable=SC2086
	held "$mode" RANK=0 WORLD_SIZE=1 -- --mode "$mode" --steps 30 $rest
	pid=$last
	pid_of[$mode]=$pid
	wait_train
	flush
	[ "$shares" != - ] || shares= # evaluation runs between steps
	compare "$truth/$mode.0.json" 0 --pid "$pid" --shares "$shares"
done

echo "--- user-named stages, and the checkpoint"
# count_stages MODE STAGE: stages of that training only; others may run on the machine.
count_stages() {
	query "select count(*) from stages where stage = '$2'
		and instance = (select max(instance) from ranks where pid = ${pid_of[$1]})"
}
for stage in 'my model' 'perte à minimiser' '梯度裁剪' 'clip 🚀'; do
	count=$(count_stages user_stages "$stage")
	[ "$count" -eq 30 ] || fail "$count stages '$stage', 30 expected"
done
count=$(count_stages checkpoint checkpoint)
[ "$count" -eq 3 ] || fail "$count checkpoints, 3 expected"

echo "--- ddp, two ranks"
port=$((20000 + RANDOM % 10000))
wait_for 60 unprobed || fail "the probes of the previous training are attached"
for rank in 0 1; do
	train ddp RANK=$rank WORLD_SIZE=2 LOCAL_RANK=$rank MASTER_ADDR=127.0.0.1 MASTER_PORT=$port -- --mode ddp --steps 30 --start-file "$work/ddp.start"
	pids[rank]=$last
done
for rank in 0 1; do wait_for 60 probed "${pids[rank]}" || fail "no probes on rank $rank"; done
touch "$truth/ddp.start"
wait_train
flush
for rank in 0 1; do compare "$truth/ddp.$rank.json" "$rank" --pid "${pids[rank]}" --shares dataloader,forward,backward,optimizer; done
[ "$(query "select count(*) from steps where kind = 'backward'")" -eq 0 ] || fail "steps were derived from backward: stage names were not read"
[ "$(query "select coalesce(sum(count), 0) from drops")" -eq 0 ] || fail "rows were dropped"
e2e_stop
e2e_done
