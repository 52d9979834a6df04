#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Jobs on a machine with cards: one after the other until the time is over, then the score. Needs root, a python3 with PyTorch and
# NCCL, the bundle of bundle.sh; no network. Each recording becomes OUT/SEED-SHAPE.tar.xz, which score.py takes once unpacked.
#
#   tests/jobs/gpu.sh OUT SECONDS [SEED[:SHAPE[:JOB_SECONDS[:OPTION]]]...]
#       SECONDS  begin no job that would end later
#       SEED     default: the even seeds from 1000; an odd one needs KEPT=1 in the environment
#       OPTION   further option of run.py, as --l1=yes
# GPUS: cards a job takes, default all. BUNDLE: default build/jobs-bundle. PLUGIN=no leaves the NCCL plugin out.
set -uo pipefail
source=$(cd "$(dirname "$0")/../.." && pwd)
out=${1:?the folder for the recordings}
budget=${2:?seconds}
shift 2
bundle=${BUNDLE:-$source/build/jobs-bundle}
gpus=${GPUS:-$(nvidia-smi -L | wc -l)}
if [ $# -eq 0 ]; then
	mapfile -t seeds < <(seq 1000 2 1100)
	set -- "${seeds[@]}"
fi
mountpoint -q /sys/kernel/tracing || mount -t tracefs nodev /sys/kernel/tracing
mountpoint -q /sys/fs/bpf || mount -t bpf bpf /sys/fs/bpf
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"
options=(--gpus "$gpus" --build "$bundle" --libraries "$bundle/lib")
[ "${PLUGIN:-yes}" = no ] || options+=(--plugin "$bundle/marker/libnccl-profiler-ranktrace.so")
[ -z "${KEPT:-}" ] || options+=(--kept)
done_folders=() skipped=0 failed=0
for row in "$@"; do
	IFS=: read -r seed shape seconds option <<<"$row"
	seconds=${seconds:-120}
	[ $((SECONDS + seconds + 60)) -le "$budget" ] || break
	folder=$work/$seed${shape:+-$shape}
	status=0
	python3 "$source/tests/jobs/run.py" --seed "$seed" ${shape:+--shape "$shape"} --seconds "$seconds" --record "$folder" "${options[@]}" \
		${option:+"$option"} || status=$?
	if [ "$status" -eq 77 ]; then
		skipped=$((skipped + 1))
	elif [ "$status" -ne 0 ] || [ ! -s "$folder/truth.json" ]; then
		failed=$((failed + 1))
		tail -5 "$folder/daemon.log" 2>/dev/null
	else
		done_folders+=("$folder")
		tar -C "$work" -cf - "$(basename "$folder")" | xz -T0 -3 >"$out/$(basename "$folder").tar.xz"
	fi
done
echo "${#done_folders[@]} recorded, $skipped skipped, $failed failed, $SECONDS s"
[ ${#done_folders[@]} -eq 0 ] || python3 "$source/tests/jobs/score.py" "${done_folders[@]}" --verbose
[ "$failed" -eq 0 ]
