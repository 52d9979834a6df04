/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tells which steps of two processes are the same one: operations that both took part in, and the ends of their
 * steps where they are of one node.
 */
#include "analyzers/detect/framer_internal.h"

#include <stdlib.h>

#define AGREE 3	      /* steps in a row whose closest is the same */
#define SHIFTS_MAX 16 /* step ends in a row that lie whole steps off */
#define CLOSE 10      /* and no farther from another's than a tenth of a step */
#define EVIDENCE_MIN 1024
#define EVIDENCE_MAX 131072
#define EVIDENCE_A_RANK 8 /* a few steps of each */

static const struct align_past *align_evidence_past(const struct align_process *process, uint64_t back)
{
	return &process->past[(process->steps_seen - 1 - back) % ALIGN_HISTORY];
}

static uint64_t history(const struct align_process *process)
{
	return process->steps_seen < ALIGN_HISTORY ? process->steps_seen : ALIGN_HISTORY;
}

static int align_evidence_compare(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

uint64_t align_process_median(const struct align_process *process)
{
	uint64_t length[ALIGN_HISTORY], count = history(process);

	if (!count)
		return 0;
	for (uint64_t i = 0; i < count; i++)
		length[i] = align_evidence_past(process, i)->step_ns;
	qsort(length, count, sizeof(*length), align_evidence_compare);
	return length[count / 2];
}

static uint64_t align_evidence_distance(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

static const struct align_past *align_evidence_closest(const struct align_process *process, uint64_t end_ns)
{
	const struct align_past *best = NULL;

	for (uint64_t i = 0; i < history(process); i++) {
		const struct align_past *one = align_evidence_past(process, i);

		if (!best || align_evidence_distance(one->end_ns, end_ns) < align_evidence_distance(best->end_ns, end_ns))
			best = one;
	}
	return best;
}

bool align_evidence_time(const struct align_process *process, const struct align_process *ref, int64_t *ret_offset)
{
	unsigned agree = 0;
	int64_t offset = 0;

	for (uint64_t i = 0; i < history(process) && agree < AGREE; i++) {
		const struct align_past *mine = align_evidence_past(process, i), *theirs = align_evidence_closest(ref, mine->end_ns);
		int64_t next;

		/* The other one's step that ends closest may not be told yet, or be forgotten. */
		if (!theirs || theirs == align_evidence_past(ref, history(ref) - 1))
			break;
		if (theirs == align_evidence_past(ref, 0) && mine->end_ns > theirs->end_ns)
			continue;
		next = align_frame_of(ref, theirs->step) - mine->step;
		agree = agree && next == offset ? agree + 1 : 1;
		offset = next;
	}
	*ret_offset = offset;
	return agree >= AGREE;
}

void align_evidence_shift(struct align *align, struct align_process *process, const struct align_process *ref)
{
	const struct align_past *mine = align_evidence_past(process, 0), *theirs = align_evidence_closest(ref, mine->end_ns);
	int64_t shift = theirs ? align_frame_of(ref, theirs->step) - align_frame_of(process, mine->step) : 0;

	if (!shift || align_evidence_distance(mine->end_ns, theirs->end_ns) > mine->step_ns / CLOSE) {
		process->shifts = 0;
		return;
	}
	process->shifts = process->shifts && shift == process->shift ? process->shifts + 1 : 1;
	process->shift = shift;
	if (process->shifts < SHIFTS_MAX)
		return;
	/* As many votes as make a change at once. */
	process->vote = (struct align_vote){0};
	for (int i = 0; i < SHIFTS_MAX && process->shifts; i++)
		align_steps_vote(align, process, process->offset + shift);
	process->align = ALIGN_BY_TIME;
}

void align_evidence_op(struct align *align, struct align_process *process, uint64_t key, int64_t step)
{
	struct align_job *job = align_job_of(align, process);
	uint32_t half = (uint32_t)(key >> 32) | 1; /* 0: nothing is there */
	struct align_evidence *evidence;
	struct align_process *other;

	if (!job->evidences) {
		size_t size = EVIDENCE_MIN;

		while (size < job->ranks * EVIDENCE_A_RANK && size < EVIDENCE_MAX)
			size *= 2;
		job->evidence = calloc(size, sizeof(*job->evidence));
		if (!job->evidence)
			return;
		job->evidences = size;
	}
	evidence = &job->evidence[key & (job->evidences - 1)];
	other = evidence->key == half ? align_process_get(align, evidence->process) : NULL;
	if (!other || other == process || other->job != process->job) {
		*evidence = (struct align_evidence){half, process->number, step};
		return;
	}
	if (other->align == ALIGN_UNPLACED || job->ref == process->number) {
		int64_t theirs = evidence->step;

		*evidence = (struct align_evidence){half, process->number, step};
		if (process->align != ALIGN_UNPLACED)
			align_steps_vote(align, other, align_frame_of(process, step) - theirs);
		return;
	}
	align_steps_vote(align, process, align_frame_of(other, evidence->step) - step);
}
