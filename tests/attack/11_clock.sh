#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The node's clock is set ten years ahead: the store keeps its segments, and goes on.
source "$(dirname "$0")/lib.sh"

shift_file=$work/shift
set_clock() { echo "$1" >"$shift_file.new" && mv "$shift_file.new" "$shift_file"; }
set_clock 0
library=$(find "$build/tests/attack" -name 'libclock_shift.so' | head -n 1)
[ -n "$library" ] || skip "the library that shifts a clock is not built"
install -d -m 755 "$work/shim"
install -m 755 "$library" "$work/shim/"
export CLOCK_SHIFT=$shift_file
LD_PRELOAD=$work/shim/libclock_shift.so attack_daemon_start store.segment=10s store.events_age_max=1h store.summary_age_max=1h
unset LD_PRELOAD
RANK=0 WORLD_SIZE=1 "${as_victim[@]}" "$python" "$source_dir/tests/e2e/train/train.py" --steps 1000000 --hidden 64 --batch 16 --sleep-data 5 \
	>"$work/train.log" 2>&1 &
rank=$!
children+=("$rank")
wait_for 60 stepping "$rank" 20 || fail "no steps are stored"
segments() { find "$state/db" -name '*.db' | wc -l; }
for i in $(seq 8); do # a segment of each tier for each
	set_clock "$((i * 12))"
	sleep 1.2
done
before=$(segments)
[ "$before" -ge 12 ] || fail "$before segments: too few to say anything"
attack_begin
oldest=$(find "$state/db" -name '*.db' -printf '%f\n' | sort | head -n 1)
set_clock "$((10 * 365 * 24 * 3600))"
sleep 4
after=$(segments)
echo "$before segments before the clock was set, $after after"
attack_figure "segments_before=$before" "segments_after=$after"
# Both tiers begin a new segment under the wrong clock, and may remove two each for it.
[ "$after" -ge "$((before - 2))" ] || fail "the wrong clock took $((before - after)) of $before segments"
set_clock 100
stored=$(steps_of "$rank")
more() { [ "$(steps_of "$rank")" -gt "$stored" ]; }
wait_for 20 more || fail "nothing is recorded after the clock was set right"
echo "oldest segment before: $oldest"
attack_status_under_1s
attack_daemon_alive
attack_done
