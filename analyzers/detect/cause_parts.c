/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table behind cause_parts.h. What lies in what: time for which a thread was held back (run delay) lies in whatever
 * stage it was in, and time for which its control group was throttled is counted by the kernel as run delay too, so
 * that throttling is the deeper one. A launch gap is deep in nothing but the rest: a rank that loads data, or waits for
 * its device, launches nothing either.
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
	[PART_STEP] = {"step_time", "ns", offsetof(struct frame_rank, step_ns), 1, 1, CAUSE_MAX, false, 0, 0, PART_MAX, REDUCE_MAX},
	[PART_DATALOADER] = {"dataloader", "ns", STAGE(STAGE_DATALOADER), 1, 1, CAUSE_DATALOADER, true, 0, 0, PART_MAX, REDUCE_MAX},
	[PART_CHECKPOINT] = {"checkpoint", "ns", STAGE(STAGE_CHECKPOINT), 1, 1, CAUSE_CHECKPOINT, true, 0, 0, PART_MAX, REDUCE_MAX},
	[PART_GC] = {"gc", "ns", STAGE(STAGE_GC), 1, 1, CAUSE_GARBAGE_COLLECTION, false, LOADS, 0.5, PART_MAX, REDUCE_MAX},
	[PART_RUN_DELAY] = {"run_delay", "ns", HOST(run_delay_ns), 1, 1, CAUSE_PREEMPTION, false, LOADS | PART_BIT(PART_GC), 0.25,
		PART_MAX, REDUCE_MEAN},
	[PART_THROTTLED] = {"throttled", "ns", HOST(throttled_ns), 1, 1, CAUSE_THROTTLING, false,
		LOADS | PART_BIT(PART_GC) | PART_BIT(PART_RUN_DELAY), 0.25, PART_MAX, REDUCE_MEAN},
	[PART_FAULTS] = {"major_faults", "1", HOST(major_faults), CAUSE_FAULT_NS, 4096, CAUSE_FAULTS, false, LOADS | PART_BIT(PART_GC), 0.25,
		PART_MAX, REDUCE_MEAN},
	[PART_LAUNCH] = {"launch_gap", "ns", HOST(launch_gap_ns), 1, 1, CAUSE_LAUNCH, false, PART_BIT(PART_REST), 0.5, PART_SYNC,
		REDUCE_MEAN},
	[PART_FORWARD] = {"forward", "ns", STAGE(STAGE_FORWARD), 1, 1, CAUSE_MAX, false, 0, 0, PART_MAX, REDUCE_MIN},
	[PART_ZERO_GRAD] = {"zero_grad", "ns", STAGE(STAGE_ZERO_GRAD), 1, 1, CAUSE_MAX, false, 0, 0, PART_MAX, REDUCE_MIN},
	[PART_BACKWARD] = {"backward", "ns", STAGE(STAGE_BACKWARD), 1, 1, CAUSE_MAX, false, 0, 0, PART_MAX, REDUCE_MIN},
	[PART_OPTIMIZER] = {"optimizer", "ns", STAGE(STAGE_OPTIMIZER), 1, 1, CAUSE_MAX, false, 0, 0, PART_MAX, REDUCE_MIN},
	[PART_SYNC] = {"sync", "ns", STAGE(STAGE_SYNC), 1, 1, CAUSE_MAX, false, 0, 0, PART_MAX, REDUCE_MIN},
	[PART_CPU] = {"cpu_time", "ns", HOST(cpu_ns), 1, 4096, CAUSE_MAX, false, 0, 0, PART_MAX, REDUCE_MEAN},
	[PART_SELF] = {"self_time", "ns", PART_NO_OFFSET, 1, 1, CAUSE_MAX, false, 0, 0, PART_MAX, REDUCE_MIN},
	[PART_TRANSFER] = {"transfer", "ns", PART_NO_OFFSET, 1, 1, CAUSE_COMMUNICATION, true, 0, 0, PART_MAX, REDUCE_NONE},
	[PART_REST] = {"compute", "ns", PART_NO_OFFSET, 1, 1, CAUSE_COMPUTE, true, 0, 0, PART_MAX, REDUCE_NONE},
};
/* clang-format on */

static_assert(PART_MAX <= 32, "a bit a part");

static float read_part(const struct frame_rank *rank, enum cause_part part)
{
	const struct cause_part_row *row = &cause_parts[part];
	uint64_t value;

	if (row->offset == PART_NO_OFFSET)
		return NAN;
	memcpy(&value, (const char *)rank + row->offset, sizeof(value));
	if (value == FRAME_UNKNOWN)
		return NAN;
	return (float)fmin((double)value * row->scale, (double)rank->step_ns * row->most);
}

void cause_parts_read(const struct frame *frame, const struct measures *measures, size_t rank, float ret[PART_MAX])
{
	for (enum cause_part part = 0; part < PART_MAX; part++)
		ret[part] = read_part(&frame->rank[rank], part);
	if (measures && rank < measures->ranks && measures->rank[rank].wait_ns != FRAME_UNKNOWN)
		ret[PART_SELF] = (float)fmin((double)measures->rank[rank].self_ns, (double)frame->rank[rank].step_ns);
}

/* Members' transfers add up, and each rank has its share of the sum. */
static float transfer_of(const struct frame *frame, const struct measures *measures, size_t here)
{
	double sum = 0;
	size_t groups = 0;

	if (measures == NULL || here == 0)
		return NAN;
	for (size_t i = 0; i < measures->groups && i < frame->groups; i++) {
		if (measures->group[i].transfer_ns == FRAME_UNKNOWN)
			continue;
		sum += (double)measures->group[i].transfer_ns * fmin(frame->group[i].members, (double)here);
		groups++;
	}
	return groups > 0 ? (float)fmin(sum / (double)here, (double)measures->step_ns) : NAN;
}

static void reduce_one(enum cause_reduce reduce, float value, double *acc, size_t *count)
{
	if (isnan(value))
		return;
	if (*count == 0 || (reduce == REDUCE_MAX && value > *acc) || (reduce == REDUCE_MIN && value < *acc))
		*acc = value;
	else if (reduce == REDUCE_MEAN)
		*acc += value;
	(*count)++;
}

void cause_parts_reduce(const struct frame *frame, const struct measures *measures, float ret[PART_MAX])
{
	double acc[PART_MAX] = {0};
	size_t count[PART_MAX] = {0}, here = 0;

	for (size_t i = 0; i < frame->ranks; i++) {
		float part[PART_MAX];

		if (!frame->rank[i].here || frame->rank[i].step_ns == 0)
			continue;
		here++;
		cause_parts_read(frame, measures, i, part);
		for (enum cause_part p = 0; p < PART_MAX; p++)
			reduce_one(cause_parts[p].reduce, part[p], &acc[p], &count[p]);
	}
	for (enum cause_part p = 0; p < PART_MAX; p++) {
		double divisor = cause_parts[p].reduce == REDUCE_MEAN ? (double)count[p] : 1;

		ret[p] = count[p] > 0 ? (float)(acc[p] / divisor) : NAN;
	}
	ret[PART_TRANSFER] = transfer_of(frame, measures, here);
}
