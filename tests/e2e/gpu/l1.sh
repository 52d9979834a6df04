#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests of L1 and L2 on a GPU machine: collectives against PyTorch's profiler, attach in mid-run, a stopped rank,
# allocations, and the cost.
#
#   BUILD=DIR tests/e2e/gpu/l1.sh OUT     DIR holds daemon/ranktraced, ctl/tracectl, libexec/ranktrace/query and
#                                         lib/libnccl-profiler-ranktrace.so (without it: host times only)
#   PARTS="ddp fsdp fsdp2 mix launches graph attach hang alloc cost"   GPUS=2   PYTHON=python3   ROUNDS=30   FAIL_FAST=1 KEEP=1 (the store goes to OUT)
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "$0")/lib.sh" "${1:-}"
parts=${PARTS:-ddp fsdp fsdp2 mix launches graph attach hang alloc cost}
gpus=${GPUS:-$(nvidia-smi -L | wc -l)}
plugin=${PLUGIN-$build/lib/libnccl-profiler-ranktrace.so}
[ -e "$plugin" ] || { [ -z "$plugin" ] || echo "NOTE: no $plugin: device times are not tested"; plugin=; }
export OMP_NUM_THREADS=1
cores=$(($(env -u OMP_NUM_THREADS nproc) / gpus)) # nproc honours OMP_NUM_THREADS
if [ $cores -lt 1 ]; then cores=1; fi
# shellcheck disable=SC2317 # the trap calls it
at_end() { [ -z "${KEEP:-}" ] || cp -r "$work/state" "$out/"; }
daemon_start "$out/l1.daemon.log"

# start NAME ARGS...: runs $script on every GPU in the background; %r in an argument becomes the rank. $load: the marker
# library to load.
port=29600
script=$here/l1_train.py
start() {
	local rank name=$1 marker=()
	shift
	port=$((port + 1))
	ranks=()
	[ -z "$load" ] || marker=(NCCL_PROFILER_PLUGIN="$load")
	for ((rank = 0; rank < gpus; rank++)); do
		env RANK=$rank LOCAL_RANK=$rank WORLD_SIZE="$gpus" LOCAL_WORLD_SIZE="$gpus" MASTER_ADDR=127.0.0.1 MASTER_PORT=$port "${marker[@]}" \
			taskset -c $((cores * rank))-$((cores * (rank + 1) - 1)) "$python" "$script" "${@//%r/$rank}" \
			>"$out/$name.$rank.log" 2>&1 &
		ranks+=($!)
	done
}
finish() {
	local pid name=$1
	for pid in "${ranks[@]}"; do
		wait "$pid" && continue
		tail -n 12 "$out/$name".*.log
		bad "$name: a rank failed"
		[ -z "${FAIL_FAST:-}" ] || exit 1
	done
	ranks=()
}
# counted COMMAND...: counts its failure; the command prints its own FAIL lines.
counted() { "$@" || failures=$((failures + 1)); }
pids() { local IFS=,; echo "${ranks[*]}"; }
steps_of() { "$tracectl" query --csv "select count(*) from steps where instance = (select max(instance) from ranks where pid = $1)" | tail -n 1 | tr -d '\r'; }
running() { # waits until the first rank of a loop stores steps
	for _ in $(seq 400); do
		[ "$(steps_of "${ranks[0]}")" -gt 30 ] 2>/dev/null && return 0
		sleep 0.15
	done
	bad "$1: the training makes no steps"
	tail -n 12 "$out/$1".*.log
	return 1
}
now_ns() { date +%s%N; }

echo "== machine"
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
"$python" -c 'import sys, torch; print("python", sys.version.split()[0], "torch", torch.__version__, "nccl", torch.cuda.nccl.version())'
echo "plugin: ${plugin:-none}; GPUs: $gpus"
"$tracectl" set L1=true || bad "L1 cannot be switched on"

for mode in ddp fsdp fsdp2 mix; do
	wants "$mode" || continue
	echo "== $mode against PyTorch's profiler"
	load=$plugin start "$mode" --mode "$mode" --out "$out/$mode"
	finish "$mode"
	sleep 2.5
	files=()
	for ((rank = 0; rank < gpus; rank++)); do files+=("$out/$mode.$rank.json"); done
	counted "$python" "$here/l1_compare.py" profiler "$tracectl" "${files[@]}"
done

for mode in launches:model graph:graph; do
	part=${mode%:*} mode=${mode#*:}
	wants "$part" || continue
	echo "== $part against the script and PyTorch's profiler"
	"$tracectl" set L1.launches=true || bad "L1.launches cannot be switched on"
	load=$plugin script=$here/l1_launches.py start "$part" run "$out/$part.%r.json" --mode "$mode"
	finish "$part"
	sleep 2.5
	files=()
	for ((rank = 0; rank < gpus; rank++)); do files+=("$out/$part.$rank.json"); done
	counted "$python" "$here/l1_launches.py" compare "$tracectl" "$mode" "${files[@]}"
	"$tracectl" set L1.launches=false >/dev/null
done

if wants attach; then
	for with in ${plugin:+marker} host; do
		echo "== attach in mid-run: $with"
		"$tracectl" set L1=false
		rm -f "$work/stop"
		load=$([ "$with" = marker ] && echo "$plugin") start "attach.$with" --mode loop --until "$work/stop"
		if running "attach.$with"; then
			since=$(now_ns)
			"$tracectl" set L1=true
			echo "  switched on in $((($(now_ns) - since) / 1000000)) ms"
			sleep 3
			tier=()
			[ "$with" = host ] || tier=(--tier device)
			counted "$python" "$here/l1_compare.py" joined "$tracectl" --pids "$(pids)" --since "$since" --least 100 "${tier[@]}"
		fi
		touch "$work/stop"
		finish "attach.$with"
	done
	"$tracectl" set L1=true >/dev/null
fi

if wants hang; then
	for with in ${plugin:+marker} host; do
		echo "== a stopped rank: $with"
		rm -f "$work/stop"
		load=$([ "$with" = marker ] && echo "$plugin") start "hang.$with" --mode loop --until "$work/stop"
		victim=$((gpus - 1))
		if running "hang.$with"; then
			"$tracectl" ops | head -n 20
			kill -STOP "${ranks[victim]}"
			counted "$python" "$here/l1_missing.py" "$tracectl" "$victim" "${ranks[victim]}" 5
			"$tracectl" ops | head -n 20
			kill -CONT "${ranks[victim]}"
			sleep 1
			"$tracectl" ops --json | "$python" -c 'import json, sys; sys.path.insert(0, sys.argv[1]); import l1_missing
found = l1_missing.missing(json.load(sys.stdin))[0]
print("  after kill -CONT no rank is missing" if not found else f"FAIL: still missing after kill -CONT: {found}"); sys.exit(bool(found))' "$here" ||
				failures=$((failures + 1))
		fi
		touch "$work/stop"
		finish "hang.$with"
	done
fi

if wants alloc; then
	echo "== allocations"
	"$tracectl" set L2=true || bad "L2 cannot be switched on"
	rm -f "$work/go"
	env -u RANK -u WORLD_SIZE "$python" "$here/l2_alloc.py" run "$out/alloc.json" --wait "$work/go" >"$out/alloc.log" 2>&1 &
	alloc=$!
	for _ in $(seq 300); do # until the rank is known and its libraries are probed
		[ -n "$("$tracectl" query --csv "select 1 from ranks where pid = $alloc" | tail -n +2)" ] && grep -q libcudart "/proc/$alloc/maps" && break
		sleep 0.1
	done
	sleep 3
	touch "$work/go"
	wait "$alloc" || { tail -n 12 "$out/alloc.log"; bad "the allocating program failed"; }
	sleep 2.5
	counted "$python" "$here/l2_alloc.py" compare "$tracectl" "$out/alloc.json"
	"$tracectl" set L2=false >/dev/null
fi
"$tracectl" status >"$out/l1.status.txt"
grep -iE 'drop|lost|not attached|unusable' "$out/l1.status.txt" | head -n 20

if wants cost; then
	for shape in launch compute; do
		echo "== cost: $shape"
		case $shape in
		launch) sizes=(--rounds "${ROUNDS:-30}" --steps 40) ;;
		compute) sizes=(--rounds $((${ROUNDS:-30} / 8 + 1)) --steps 8 --settle 2 --warmup 5 --profiler-rounds 2) ;;
		esac
		counted "$python" "$here/l1_cost.py" --shape $shape --gpus "$gpus" --tracectl "$tracectl" ${plugin:+--plugin "$plugin"} \
			"${sizes[@]}" --port $((29700 + gpus)) --out "$out/cost.$shape.json"
	done
fi
echo "== $failures parts failed"
exit $((failures > 0))
