/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table behind cause_parts.h. What lies in what: time for which a thread was held back (run delay) lies in whatever
 * stage it was in, and time for which its control group was throttled is counted by the kernel as run delay too, so
 * that throttling is the deeper one. A launch gap is no time that adds up (cause.c).
 *
 * of_rest is below CAUSE_SHARE for what is measured only in part: run delay is that of the step thread, while the
 * threads that compute with it are delayed as well and it then waits for them, asleep or spinning, which nothing here
 * measures. One hog on one of a rank's four CPUs delays the step thread for a quarter of what the rank loses.
 * Throttling and faults come from samples of seconds that are spread over steps.
 */
#include "analyzers/detect/cause_parts.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#define STAGE(kind) offsetof(struct frame_rank, stage_ns) + (kind) * sizeof(uint64_t)
#define HOST(field) offsetof(struct frame_rank, host) + offsetof(struct frame_host, field)
#define LOADS (PART_BIT(PART_DATALOADER) | PART_BIT(PART_CHECKPOINT) | PART_BIT(PART_REST))

/* clang-format off */
const struct cause_part_row cause_parts[PART_MAX] = {
	[PART_STEP] = {"step_time", "ns", offsetof(struct frame_rank, step_ns), 1, 1, CAUSE_MAX, false, 0, 0, REDUCE_MAX},
	[PART_DATALOADER] = {"dataloader", "ns", STAGE(STAGE_DATALOADER), 1, 1, CAUSE_DATALOADER, true, 0, 0, REDUCE_MAX},
	[PART_CHECKPOINT] = {"checkpoint", "ns", STAGE(STAGE_CHECKPOINT), 1, 1, CAUSE_CHECKPOINT, true, 0, 0, REDUCE_MAX},
	[PART_GC] = {"gc", "ns", STAGE(STAGE_GC), 1, 1, CAUSE_GARBAGE_COLLECTION, false, LOADS, 0.5, REDUCE_MAX},
	[PART_RUN_DELAY] = {"run_delay", "ns", HOST(run_delay_ns), 1, 1, CAUSE_PREEMPTION, false, LOADS | PART_BIT(PART_GC), 0.25,
		REDUCE_MEAN},
	[PART_THROTTLED] = {"throttled", "ns", HOST(throttled_ns), 1, 1, CAUSE_THROTTLING, false,
		LOADS | PART_BIT(PART_GC) | PART_BIT(PART_RUN_DELAY), 0.25, REDUCE_MEAN},
	[PART_FAULTS] = {"major_faults", "1", HOST(major_faults), CAUSE_FAULT_NS, 4096, CAUSE_FAULTS, false, LOADS | PART_BIT(PART_GC), 0.25,
		REDUCE_MEAN},
	[PART_LAUNCH] = {"launch_gap", "ns", HOST(launch_gap_ns), 1, 1, CAUSE_LAUNCH, false, 0, 0, REDUCE_MEAN},
	[PART_FORWARD] = {"forward", "ns", STAGE(STAGE_FORWARD), 1, 1, CAUSE_MAX, false, 0, 0, REDUCE_MIN},
	[PART_ZERO_GRAD] = {"zero_grad", "ns", STAGE(STAGE_ZERO_GRAD), 1, 1, CAUSE_MAX, false, 0, 0, REDUCE_MIN},
	[PART_BACKWARD] = {"backward", "ns", STAGE(STAGE_BACKWARD), 1, 1, CAUSE_MAX, false, 0, 0, REDUCE_MIN},
	[PART_OPTIMIZER] = {"optimizer", "ns", STAGE(STAGE_OPTIMIZER), 1, 1, CAUSE_MAX, false, 0, 0, REDUCE_MIN},
	[PART_SYNC] = {"sync", "ns", STAGE(STAGE_SYNC), 1, 1, CAUSE_MAX, false, 0, 0, REDUCE_MIN},
	[PART_CPU] = {"cpu_time", "ns", HOST(cpu_ns), 1, 4096, CAUSE_MAX, false, 0, 0, REDUCE_MEAN},
	[PART_HOG] = {"hog", "ns", HOST(preemptor_ns), 1, 1, CAUSE_MAX, false, 0, 0, REDUCE_MEAN},
	[PART_SELF] = {"self_time", "ns", PART_NO_OFFSET, 1, 1, CAUSE_MAX, false, 0, 0, REDUCE_MIN},
	[PART_TRANSFER] = {"transfer", "ns", PART_NO_OFFSET, 1, 1, CAUSE_COMMUNICATION, true, 0, 0, REDUCE_NONE},
	[PART_REST] = {"compute", "ns", PART_NO_OFFSET, 1, 1, CAUSE_COMPUTE, true, 0, 0, REDUCE_NONE},
};
/* clang-format on */

static_assert(PART_SELF + 3 == PART_MAX, "what is read by its offset comes first");
static_assert(PART_MAX <= 32, "a bit a part");

/* The table is known here: what a row says is no question any more once its turn of the loop is by itself. */
#define CAUSE_UNROLL _Pragma("GCC unroll 32")

/* No more than INT64_MAX, whose conversion is an instruction: this runs for every part of every rank of every step. */
static inline float to_float(uint64_t value)
{
	return (float)(int64_t)(value < INT64_MAX ? value : INT64_MAX);
}

static inline float least(float a, float b)
{
	return a < b ? a : b;
}

void cause_parts_read(const struct frame *frame, const struct measures *measures, size_t rank, float ret[PART_MAX])
{
	const struct frame_rank *from = &frame->rank[rank];
	float step = to_float(from->step_ns);

	CAUSE_UNROLL
	for (enum cause_part part = 0; part < PART_SELF; part++) {
		const struct cause_part_row *row = &cause_parts[part];
		uint64_t value;

		memcpy(&value, (const char *)from + row->offset, sizeof(value));
		ret[part] = value == FRAME_UNKNOWN ? NAN : least(to_float(value) * row->scale, step * row->most);
	}
	for (enum cause_part part = PART_SELF; part < PART_MAX; part++)
		ret[part] = NAN;
	if (measures && rank < measures->ranks && measures->rank[rank].wait_ns != FRAME_UNKNOWN)
		ret[PART_SELF] = least(to_float(measures->rank[rank].self_ns), step);
}

/* Members' transfers add up, and each rank has its share of the sum. */
static float transfer_of(const struct frame *frame, const struct measures *measures, size_t here)
{
	double sum = 0;
	size_t groups = 0;

	if (measures == NULL || here == 0)
		return NAN;
	for (size_t i = 0; i < measures->groups && i < frame->groups; i++) {
		size_t members = frame->group[i].members < here ? frame->group[i].members : here;

		if (measures->group[i].transfer_ns == FRAME_UNKNOWN)
			continue;
		sum += (double)measures->group[i].transfer_ns * (double)members;
		groups++;
	}
	return groups > 0 ? (float)fmin(sum / (double)here, (double)measures->step_ns) : NAN;
}

void cause_sum_begin(struct cause_sum *sum)
{
	memset(sum, 0, sizeof(*sum));
	for (size_t p = 0; p < PART_MAX; p++)
		sum->most[p] = cause_parts[p].reduce == REDUCE_MAX ? -INFINITY : INFINITY;
}

/* Of a part that is not known, comparing is false and nothing is added. */
void cause_sum_add(struct cause_sum *sum, const float part[PART_MAX])
{
	CAUSE_UNROLL
	for (size_t p = 0; p < PART_MAX; p++) {
		bool known = part[p] == part[p];

		if (cause_parts[p].reduce == REDUCE_MAX)
			sum->most[p] = part[p] > sum->most[p] ? part[p] : sum->most[p];
		if (cause_parts[p].reduce == REDUCE_MIN)
			sum->most[p] = part[p] < sum->most[p] ? part[p] : sum->most[p];
		if (cause_parts[p].reduce == REDUCE_MEAN) {
			sum->count[p] += known;
			sum->sum[p] += known ? (double)part[p] : 0;
		}
	}
	sum->ranks++;
}

/* NAN: of no rank. */
static float reduced(const struct cause_sum *sum, enum cause_part part)
{
	if (cause_parts[part].reduce == REDUCE_MEAN)
		return sum->count[part] > 0 ? (float)(sum->sum[part] / sum->count[part]) : NAN;
	return isfinite(sum->most[part]) ? sum->most[part] : NAN;
}

void cause_sum_end(
	const struct cause_sum *sum, const struct frame *frame, const struct measures *measures, float ret[PART_MAX])
{
	for (enum cause_part p = 0; p < PART_MAX; p++)
		ret[p] = reduced(sum, p);
	ret[PART_TRANSFER] = transfer_of(frame, measures, sum->ranks);
}
