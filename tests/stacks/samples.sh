#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Samples that the kernel takes have the stacks that the program says it has, on and off the CPU.
#   MODULES: "torch" (default) trains beside, "" does not
#   SECONDS_TO_SAMPLE, HZ, LEAST: of the profile; samples of a known stack that there must be
source "$(dirname "$0")/../e2e/lib.sh"
here=$source_dir/tests/stacks
seconds=${SECONDS_TO_SAMPLE:-8} hz=${HZ:-199}

inside=${TORCH_ROOT:-}$work # also of another root (tests/e2e/roots.sh SUITE ../stacks/samples)
mkdir -p "$inside"
cp "$here/truth.py" "$inside"
run=("$python")
[ -z "${TORCH_ROOT:-}" ] || run=(chroot "$TORCH_ROOT" "$python")
e2e_start
RANK=0 WORLD_SIZE=1 "${run[@]}" "$work/truth.py" "$work/truth" "$work/source.py" $((seconds + 8)) "${SEED:-$RANDOM}" ${MODULES-torch} log \
	>"$work/rank.log" 2>&1 &
rank=$!
children+=("$rank")
known() { "$tracectl" ranks | grep -q "\b$rank\b"; }
wait_for 60 known || fail "the rank is not found: $(cat "$work/rank.log")"
"$python_here" "$here/ask.py" "$RANKTRACE_SOCKET" "$seconds" "$hz" >"$work/asked" || fail "no profile: $(cat "$work/asked")"
cat "$work/asked"
wait "$rank" || fail "the program failed: $(cat "$work/rank.log")"
children=()
grep "names its stacks" "$work/daemon.log" || true
[ "$inside" = "$work" ] || cp "$inside/source.py" "$inside/truth.log" "$work"
flush
offset=$(query "select max(utc_ns - monotonic_ns) from clock")
"$tracectl" query --json "with c as materialized (select id, max(frames) as frames, max(cut) as cut from call_stacks group by id)
	select start_ns, weight_ns, kind, thread_id, frames, cut from samples left join c on id = stack" >"$work/samples.json"
"$python_here" "$here/judge_samples.py" "$work/source.py" "$work/truth.log" "$offset" "${LEAST:-50}" <"$work/samples.json" ||
	fail "samples differ from what the program says"
written() { [ "$(query "select count(*) from profiles where reason = 'asked' and frequency_hz = $hz and samples > 0")" -eq 1 ]; }
wait_for 20 written || fail "no row in profiles"
"$tracectl" status | grep -A3 '^profile' | cut -c1-200
e2e_stop
e2e_done
