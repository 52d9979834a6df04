/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks against their classes, by all that is seen of them and by what their stages alone tell (struct measures). Pure.
 * Inside slow_rank.c. Who stands out by stages, and not by all, is seen as stages tell, first as those
 * do that hold no wait; everybody else as all does.
 * What stages tell goes on from tier to tier, with operations or without.
 */
#ifndef RANKTRACE_DETECT_SLOW_RANK_VIEW_H
#define RANKTRACE_DETECT_SLOW_RANK_VIEW_H

#include "analyzers/detect/slow_rank_series.h"

struct view {
	struct series series, staged[MEASURE_STAGED_KINDS];
	bool has_staged[MEASURE_STAGED_KINDS]; /* of the newest frame */
};

void view_init(struct view *view, const struct detect_options *options);
void view_free(struct view *view);
/* As series_frame(), of which grown is set in view->series. */
int view_frame(struct view *view, const struct frame *frame, const struct measures *measures);
/* Of a rank in view->series. */
const struct series_rank *view_rank(const struct view *view, size_t rank);
const struct measure_rank *view_measured(const struct view *view, const struct measures *measures, size_t rank);

#endif
