#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What a scrape costs the daemon, beside 8 real ranks with L1 on: size of the page, and the daemon's CPU time in windows with and
# without scrapes by turns. It is scraped 15 times as often as usual, so that the difference can be seen; a fifteenth is printed.
#
#   BUILD=build/ci tests/fleet/cost.sh [PAIRS]
#
# 12 pairs of 10 s windows take 5 minutes. Not run by CI: it judges nothing.
source "$(dirname "$0")/../e2e/lib.sh"
pairs=${1:-12}
port=$((20000 + RANDOM % 10000))
e2e_start "metrics.listen=127.0.0.1:$port" findings.raise=no
"$tracectl" set L1=on >/dev/null
for rank in 0 1 2 3 4 5 6 7; do
	train "ddp$rank" RANK=$rank WORLD_SIZE=8 LOCAL_RANK=$rank TORCHELASTIC_RUN_ID=cost MASTER_ADDR=127.0.0.1 MASTER_PORT=$((port + 1)) -- \
		--mode ddp --steps 100000 --sleep-data 400 --hidden 64
done
scrape() { curl --noproxy '*' -sf "http://127.0.0.1:$port/metrics"; }
stepped() { [ "$(scrape | grep '^ranktrace_rank_steps_total{job="cost"' | awk '$NF > 20' | wc -l)" -eq 8 ]; }
wait_for 120 stepped || fail "the ranks store no steps"
scrape >"$work/page"
awk '/^[^#]/ { n++ } END { print n " series" }' "$work/page"
echo "$(stat -c %s "$work/page") bytes; page: $(sed -n 's/^ranktrace_page_build_seconds //p' "$work/page") s of CPU"
# Nanoseconds of CPU of all threads of the daemon.
cpu_ns() { cat /proc/"$daemon"/task/*/schedstat | awk '{ sum += $1 } END { printf "%d\n", sum }'; }
# window SCRAPES: CPU of 10 s, ns.
window() {
	local begin end
	begin=$(cpu_ns)
	for _ in 1 2 3 4 5 6 7 8 9 10; do
		[ "$1" = no ] || scrape >/dev/null
		sleep 1
	done
	end=$(cpu_ns)
	echo $((end - begin))
}
for pair in $(seq "$pairs"); do
	if [ $((pair % 2)) = 0 ]; then with=$(window yes) without=$(window no); else without=$(window no) with=$(window yes); fi
	echo "$with $without"
done | tee "$work/pairs" | "$python_here" -c '
import math, sys
rows = [[int(word) for word in line.split()] for line in sys.stdin]
more = [(a - b) / 10 / 15 / 1e7 for a, b in rows]  # a window has 10 scrapes of 1 s; percent of a CPU at 15 s
mean = sum(more) / len(more)
half = 2.2 * math.sqrt(sum((x - mean) ** 2 for x in more) / (len(more) - 1) / len(more))
base = sum(b for _, b in rows) / len(rows) / 10 / 1e7
print(f"daemon without scrapes: {base:.3f} % of a CPU; a scrape each 15 s: {mean:+.4f} % (95 %: {mean - half:+.4f} to {mean + half:+.4f}), {len(rows)} pairs of windows of 10 s")'
e2e_done
