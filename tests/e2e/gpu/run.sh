#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests and figures of a GPU machine; needs 2 GPUs, NCCL, a python3 with PyTorch. Step counts, stage shares, no probe with
# the level off, and the cost of L0, L3 and PyTorch's profiler for a launch-bound and a compute-bound step.
#
#   BUILD=DIR tests/e2e/gpu/run.sh OUT      DIR holds daemon/ranktraced, ctl/tracectl, libexec/ranktrace/query
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "$0")/lib.sh" "${1:-}"
pairs=${PAIRS:-60} # short interleaved phases: these machines drift by more than a probe costs
daemon_start "$out/daemon.log"
# ranks FILE...: two ranks of a program, one per GPU.
port=29600
ranks() {
	local rank pids=()
	port=$((port + 1))
	for rank in 0 1; do
		# Separate cores per rank: less noise, and CPUs for the threads of NCCL and autograd.
		env RANK=$rank LOCAL_RANK=$rank WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
			taskset -c $((2 + 6 * rank))-$((7 + 6 * rank)) "$python" "$@" >"$work/rank.$rank.out" 2>"$work/rank.$rank.err" &
		pids+=($!)
	done
	rank_pids=("${pids[@]}")
	for rank in "${pids[@]}"; do wait "$rank" || { tail -20 "$work"/rank.*.err; bad "a rank of '$*' failed"; }; done
}
links() { grep -lE '^link_type:[[:space:]]*(uprobe_multi|perf)' /proc/$daemon/fdinfo/* 2>/dev/null | wc -l; }

echo "== machine"
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
"$python" -c 'import sys, torch; print("python", sys.version.split()[0], "torch", torch.__version__, "nccl", torch.cuda.nccl.version())'
uname -r
nproc
"$tracectl" check

echo "== steps and shares: DDP over NCCL, 2 ranks"
export TRUTH=$work/truth.%r.json
ranks "$source_dir/tests/e2e/train/train.py" --mode ddp --device cuda --steps 300 --hidden 1024 --batch 256
sleep 2
for rank in 0 1; do
	"$python" "$source_dir/tests/e2e/compare.py" "$tracectl" "$work/truth.$rank.json" "$rank" --pid "${rank_pids[rank]}" \
		--shares dataloader,forward,zero_grad,backward,optimizer || bad "rank $rank: the store differs from the script's measurements"
done
"$tracectl" query --json 'select rank, count(*) n from steps group by rank'
"$tracectl" query 'select rank, stage, name, count(*) n, sum(duration_ns)/1e6 ms from stages where stage <> "gc" group by rank, stage, name order by rank, ms desc'
echo "== modes on one GPU"
for mode in plain checkpoint accumulate workers user_stages; do
	ranks "$source_dir/tests/e2e/train/train.py" --mode $mode --device cuda --steps 30
	sleep 2
	for rank in 0 1; do
		"$python" "$source_dir/tests/e2e/compare.py" "$tracectl" "$work/truth.$rank.json" "$rank" --pid "${rank_pids[rank]}" ||
			bad "$mode, rank $rank"
	done
done
"$tracectl" status

echo "== cost of a step"
for shape in launch compute; do
	for level in ${LEVELS:-L0 L3}; do
		export PHASE_CMD_OFF="$tracectl set $level=false" PHASE_CMD_ON="$tracectl set $level=true"
		case $shape in
		launch) sizes="--pairs $pairs --steps 60 --settle 5 --layers 10" ;;
		compute) sizes="--pairs 7 --steps 40 --settle 5" ;;
		esac
		# shellcheck disable=SC2086
		ranks "$source_dir/tests/e2e/gpu/train_gpu.py" --shape $shape $sizes
		cp "$work/rank.0.out" "$out/cost.$shape.$level.json"
		cp "$work/rank.0.err" "$out/cost.$shape.$level.err"
		"$python" - "$out/cost.$shape.$level.json" $level <<'PY'
import json, sys
r = json.load(open(sys.argv[1]))
each = sorted(r["on_change_percent_each"])
print(f"{r['shape']} {sys.argv[2]}: median step ms", {k: round(v, 3) for k, v in r["median_ms"].items()},
      f"change {r['on_change_percent']:+.2f} % (pairs {each[0]:+.2f} .. {each[-1]:+.2f}, n={len(each)})")
PY
		"$tracectl" set L0=true >/dev/null
		"$tracectl" set L3=false >/dev/null
	done
done
echo "== PyTorch's profiler beside it"
unset PHASE_CMD_OFF PHASE_CMD_ON
"$tracectl" set L0=false >/dev/null
ranks "$source_dir/tests/e2e/gpu/train_gpu.py" --shape launch --pairs 7 --steps 60 --settle 5 --layers 10 --profiler
cp "$work/rank.0.out" "$out/cost.profiler.json"
"$python" -c 'import json, sys; print("launch, off and with torch.profiler: median step ms", json.load(open(sys.argv[1]))["median_ms"])' "$out/cost.profiler.json"
echo "== L0 off: no probe"
"$tracectl" set L0=false
[ "$(links)" -eq 0 ] || bad "links remain: $(links)"
echo "links of the daemon in the kernel: $(links)"
"$tracectl" status
echo "$failures failures"
exit $((failures > 0))
