#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The timeline of real gloo ranks: counts in both formats equal the store's, by our own decoder and by Perfetto's
# trace_processor if there is one (TRACE_PROCESSOR or in PATH). Invalid requests are refused.
source "$(dirname "$0")/lib.sh"
[ -z "${TORCH_ROOT:-}" ] || skip "runs with the system's PyTorch only"
export PYTHONDONTWRITEBYTECODE=1

ranks=${TIMELINE_RANKS:-2} steps=${TIMELINE_STEPS:-60} job=timeline-$$ # other trainings may run on the machine
now_ns() { date +%s%N; }
timeline() { RANKTRACE_STATE_DIR=$state "$tracectl" timeline "$@"; }
# refused CODE PATTERN ARGS...: exit code, and one matching line of error.
refused() {
	local code=$1 pattern=$2 got=0 said
	shift 2
	said=$(timeline "$@" 2>&1 >"$work/refused") || got=$?
	[ "$got" -eq "$code" ] && grep -q "$pattern" <<<"$said" && [ "$(wc -l <<<"$said")" -eq 1 ] || fail "timeline $*: $got: $said"
	[ ! -s "$work/refused" ] || fail "timeline $* wrote output"
}
"$python_here" "$source_dir/tests/e2e/timeline_decode.py" --self-test || fail "the decoder accepts broken input"

since=$(now_ns) # before the daemon starts: it records losses without ranks, too
e2e_start
for level in L1 L2 L3; do "$tracectl" set "$level=true" >/dev/null; done
port=$((20000 + RANDOM % 20000))
for ((rank = 0; rank < ranks; rank++)); do
	hold "ddp$rank" RANK="$rank" WORLD_SIZE="$ranks" LOCAL_RANK="$rank" TORCHELASTIC_RUN_ID="$job" MASTER_ADDR=127.0.0.1 \
		MASTER_PORT="$port" -- --mode ddp --steps "$steps" --sleep-data 20 --hidden 128
done
for ((rank = 0; rank < ranks; rank++)); do release "ddp$rank" "${children[@]}"; done
"$tracectl" sample --for 1s >/dev/null || fail "no samples"
wait_train
flush
e2e_stop
until=$(now_ns)

echo "--- contents"
processor=${TRACE_PROCESSOR:-$(command -v trace_processor_shell || command -v trace_processor || true)}
[ -n "$processor" ] || echo "no trace_processor: read by our own decoder only"
at() { date -d "@$((($1 + $2) / 1000000000))" '+%Y-%m-%d %H:%M:%S'; }
from=$(at "$since" -2000000000) to=$(at "$until" 2000000000)
timeline --since "$from" --until "$to" --verbose -o "$work/t.pftrace" || fail "no timeline"
timeline --since "$from" --until "$to" --chrome >"$work/t.json" || fail "no timeline for Chrome"
for file in t.pftrace t.json; do
	"$python_here" "$source_dir/tests/e2e/timeline_compare.py" "$tracectl" "$state" "$((since - 4000000000))" "$((until + 4000000000))" \
		"$work/$file" $processor || fail "$file differs from the store"
done
# decode FILE EXPRESSION: evaluates it with counts `c` and the ranks' processes `p`.
decode() { "$python_here" "$source_dir/tests/e2e/timeline_decode.py" "$1" | "$python_here" -c '
import json, sys
c = json.load(sys.stdin)
p = [name for name in c["processes"] if name.startswith("rank ") and sys.argv[2] in name]
sys.exit(not eval(sys.argv[1]))' "$2" "$job"; }
decode "$work/t.pftrace" "len(p) == $ranks and c['slices']['step'] >= $ranks * $steps and c['flows'] >= $steps and c['samples'] > 0" ||
	fail "the timeline is empty"
decode "$work/t.pftrace" "c['slices'].get('offcpu', 0) > 0 and c['args']['seq'] > 0 and c['duration_ns']['stage'] > 10**9" ||
	fail "levels are missing in the timeline"

echo "--- one rank, part of the time, standard output"
timeline --since "$from" --until "$to" --job "$job" --rank 1 -o - >"$work/one.pftrace"
decode "$work/one.pftrace" "len(p) == 1 and p[0].startswith('rank 1, ') and c['slices']['step'] == $steps and c['flows'] == 0" ||
	fail "--rank does not filter"
timeline --since "$from" --until "$to" --dir "$state/db" -o "$work/dir.pftrace"
cmp "$work/dir.pftrace" "$work/t.pftrace" || fail "--dir changes the contents"

echo "--- refused requests"
refused 1 'nothing was seen' --since 1980-01-01 --until 1980-01-02
refused 1 'nothing was seen' --job other --since "$from"
refused 2 'not before --until' --since 10m --until 20m
refused 2 'takes ranks' --rank x
refused 2 'takes a time' --since tomorrow
refused 2 'unexpected' x
refused 1 'cannot write' -o "$work/none/t"
refused 1 'cannot read' --dir "$work/none"
[ ! -e "$work/t.pftrace.new" ] || fail "a partial file was not removed"
if command -v script >/dev/null; then
	said=$(script -qec "$tracectl --state-dir $state timeline --since 1h" /dev/null </dev/null || true)
	grep -q 'refusing to write a trace to a terminal' <<<"$said" || fail "a trace went to a terminal: ${said:0:200}"
fi
e2e_done
