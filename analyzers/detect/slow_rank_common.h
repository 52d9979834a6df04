/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Do those who stand out have something in common that is not seen? Pure. Of frames of stages alone: what makes forward
 * longer on more than a few ranks (samples of unequal length, a tensor group that waits for one of its own) cannot be
 * told apart there, so more than COMMON_FEW ranks and more than a COMMON_PART-th of the job are not accused. Of a rank
 * whose excess is for COMMON_LOADING of it or more in loading data or in collecting garbage it is seen what it does,
 * and that nobody else does it at that time: it does not count among them.
 */
#ifndef RANKTRACE_DETECT_SLOW_RANK_COMMON_H
#define RANKTRACE_DETECT_SLOW_RANK_COMMON_H

#include "analyzers/detect/measure.h"

#define COMMON_FEW 2
#define COMMON_PART 8
#define COMMON_LOADING 0.5

/* set: n of the `all` that stand out. scratch: room for as many values as there are ranks. */
bool slow_rank_common(const struct frame *frame, const struct measures *measures, const uint32_t *set, size_t n,
	size_t all, double *scratch);

#endif
