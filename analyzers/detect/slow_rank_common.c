/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/detect/slow_rank_common.h"

#include "analyzers/detect/robust.h"

static double seen_of(const struct frame *frame, size_t i)
{
	const struct frame_rank *of = &frame->rank[i];
	uint64_t loading = of->stage_ns[STAGE_DATALOADER], collecting = of->stage_ns[STAGE_GC];

	/* One may lie in the other. */
	return (double)(loading > collecting ? loading : collecting);
}

static bool is_seen(const struct frame *frame, const struct measures *measures, uint32_t rank, double *scratch)
{
	const struct measure_rank *of = &measures->rank[rank];
	double excess = of->ratio > 1 ? (double)of->self_ns * (1 - 1 / of->ratio) : 0, more;
	size_t n = 0;

	for (size_t i = 0; i < measures->ranks && i < frame->ranks; i++) {
		if (measures->rank[i].class == of->class)
			scratch[n++] = seen_of(frame, i);
	}
	more = seen_of(frame, rank) - robust_median(scratch, n);
	return more > 0 && more >= COMMON_LOADING * excess;
}

bool slow_rank_common(const struct frame *frame, const struct measures *measures, const uint32_t *set, size_t n,
	size_t all, double *scratch)
{
	size_t unseen = all;

	if (frame->tier != FRAME_TIER_STAGES || all <= COMMON_FEW || all <= frame->ranks / COMMON_PART)
		return false;
	for (size_t i = 0; i < n; i++)
		unseen -= is_seen(frame, measures, set[i], scratch);
	return unseen > COMMON_FEW && unseen > frame->ranks / COMMON_PART;
}
