#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every kind of training loop: steps and stage shares in the store equal the script's own.
source "$(dirname "$0")/lib.sh"

# MODE SHARES ARGS...: SHARES are the stages compared. Python between the script's timer and the framework's mark takes some
# tenths of a millisecond per stage; steps are long enough that it is far below two percentage points. Their medians are compared.
steps=15
cases=(
	"plain dataloader,zero_grad,forward,backward,optimizer --hidden 512"
	"plain dataloader --workers 2 --sleep-data 20 --hidden 512"
	"accumulate backward,optimizer --hidden 256" # four batches a step
	"amp backward --hidden 768"
	"checkpoint backward,optimizer --hidden 512"
	"two_optimizers backward --hidden 512"
	"user_stages dataloader,backward,optimizer --hidden 512"
	"eval -"
	"no_loader backward,optimizer --hidden 512"
	"inference dataloader --hidden 512"
)

# With another PyTorch: what it may have changed. The rest differs in the script only.
[ -z "${TORCH_ROOT:-}" ] || mapfile -t cases < <(printf '%s\n' "${cases[@]}" | grep -E '^(plain|checkpoint|user_stages|inference) ')

declare -A pid_of
# Shares are of wall time: other load on the machine must not run between the script's timers and the marks.
renice -n -15 -p $$ >/dev/null
e2e_start
# All come up at once, which takes longer than the steps of one; then one trains at a time.
port=$((20000 + RANDOM % 10000))
for i in "${!cases[@]}"; do
	read -r mode shares rest <<<"${cases[i]}"
	# shellcheck disable=SC2086
	hold "$mode.$i" RANK=0 WORLD_SIZE=1 -- --mode "$mode" --steps $steps $rest
	pids[i]=$last
	pid_of[$mode]=$last
done
for rank in 0 1; do
	hold ddp RANK=$rank WORLD_SIZE=2 LOCAL_RANK=$rank MASTER_ADDR=127.0.0.1 MASTER_PORT=$port -- --mode ddp --steps $steps --hidden 512
	ddp[rank]=$last
done
# Trained alone: the others are up, and wait.
for pid in "${children[@]}"; do
	wait_for 120 probed "$pid" || { cat "$work"/*.[0-9]*.log "$work/ddp.log" >&2; fail "no probes on process $pid"; }
done
for i in "${!cases[@]}"; do
	echo "--- ${cases[i]}"
	release "${cases[i]%% *}.$i" "${pids[i]}"
	wait "${pids[i]}" || { cat "$work"/*.log >&2; fail "the training failed"; }
done
children=("${ddp[@]}")
echo "--- ddp, two ranks"
release ddp "${ddp[@]}"
wait_train
flush

for i in "${!cases[@]}"; do
	read -r mode shares rest <<<"${cases[i]}"
	echo "--- $mode $rest"
	[ "$shares" != - ] || shares= # evaluation lies between the steps
	compare "$truth/$mode.$i.0.json" 0 --pid "${pids[i]}" --shares "$shares"
done
echo "--- ddp, two ranks"
for rank in 0 1; do compare "$truth/ddp.$rank.json" "$rank" --pid "${ddp[rank]}" --shares dataloader,forward,backward,optimizer; done

echo "--- user-named stages, and the checkpoint"
# count_stages MODE STAGE: stages of that training only; others may run on the machine.
count_stages() {
	query "select count(*) from stages where stage = '$2'
		and instance = (select max(instance) from ranks where pid = ${pid_of[$1]})"
}
for stage in 'my model' 'perte à minimiser' '梯度裁剪' 'clip 🚀'; do
	count=$(count_stages user_stages "$stage")
	[ "$count" -eq $steps ] || fail "$count stages '$stage', $steps expected"
done
count=$(count_stages checkpoint checkpoint)
[ "$count" -eq 3 ] || fail "$count checkpoints, 3 expected"

[ "$(query "select count(*) from steps where kind = 'backward'")" -eq 0 ] || fail "names could not be read: steps were derived"
[ "$(query "select coalesce(sum(count), 0) from drops")" -eq 0 ] || fail "something was dropped"
e2e_stop
e2e_done
