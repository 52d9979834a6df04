#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What a step takes on disk, by levels: bytes of the store's rows before and after PHASE_S seconds, divided by the steps, and those
# of L2's tables (memory_*). A PyTorch rank makes some 150 reports of its allocator a step, in steps of 0.1 s and of 5 ms. What a level writes when it
# is turned on (names, stacks) comes before, for SETTLE_S seconds.
# BUILD=build PHASE_S=45 SETTLE_S=15 tests/bench/disk.sh
source "$(dirname "$0")/../e2e/lib.sh"
# train PACE_S
cat >"$work/train.py" <<'END'
import sys, time, torch
pace_s = float(sys.argv[1])
model = torch.nn.Sequential(*[torch.nn.Linear(32, 32) for _ in range(4)])
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
with torch.autograd.profiler.profile(profile_memory=True, use_kineto=False):  # PyTorch's host allocator reports under it alone
    next_s = time.monotonic()
    while True:
        optimizer.zero_grad()
        model(torch.randn(16, 32)).square().mean().backward()
        optimizer.step()
        for _ in range(42):
            torch.empty(16384)
        next_s = max(next_s + pace_s, time.monotonic())
        time.sleep(max(0, next_s - time.monotonic()))
END
# Bytes of all rows, of L2's tables, steps, reports.
count() {
	flush
	"$python_here" - "$state" <<'END'
import glob, sqlite3, sys
used = of_l2 = 0
for path in glob.glob(sys.argv[1] + "/**/*.db", recursive=True):
    with sqlite3.connect("file:%s?mode=ro" % path, uri=True) as store:
        for table, payload in store.execute("select name, sum(payload) from dbstat where name <> 'sqlite_schema' group by 1"):
            used += payload
            of_l2 += payload * table.startswith("memory_")
print(used, of_l2, end=" ")
END
	query "select (select count(*) from steps), (select coalesce(sum(allocs) + sum(frees), 0) from memory_curve)" | tr ',' ' '
}
for pace_s in 0.1 0.005; do
	for case in "0.5 L0" "0.5 L0 L1" "0.5 L0 L1 L2" "100 L0 L1 L2"; do
		read -r percent levels <<<"$case"
		rm -rf "$state"
		e2e_start "budget.rank_percent=$percent" budget.cpu_percent=1000 findings.profile=no
		RANK=0 WORLD_SIZE=1 "$python" "$work/train.py" "$pace_s" >"$work/train.log" 2>&1 &
		pid=$!
		children+=("$pid")
		stepping_now() { rank_known "$pid" && stepping "$pid" 5; }
		wait_for 30 stepping_now || fail "no steps: $(cat "$work/train.log")"
		for level in L1 L2; do
			case " $levels " in *" $level "*) "$tracectl" set $level=true >/dev/null ;; esac
		done
		sleep "${SETTLE_S:-15}"
		read -r used of_l2 steps reports < <(count)
		sleep "${PHASE_S:-45}"
		read -r used_after of_l2_after steps_after reports_after < <(count)
		awk -v what="$levels, budget of a rank $percent %" -v bytes=$((used_after - used)) -v of_l2=$((of_l2_after - of_l2)) \
			-v steps=$((steps_after - steps)) -v reports=$((reports_after - reports)) -v seconds="${PHASE_S:-45}" \
			'BEGIN { printf "step of %.1f ms, %s: %.1f bytes a step, of L2 %.1f (%d steps, %.0f reports seen a step)\n",
				seconds / steps * 1e3, what, bytes / steps, of_l2 / steps, steps, reports / steps }'
		kill "$pid"
		e2e_stop
	done
done
uptime
e2e_done
