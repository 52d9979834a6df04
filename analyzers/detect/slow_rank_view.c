/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/detect/slow_rank_view.h"

void view_init(struct view *view, const struct detect_options *options)
{
	series_init(&view->series, options);
	for (size_t k = 0; k < MEASURE_STAGED_KINDS; k++) {
		series_init(&view->staged[k], options);
		view->staged[k].by_stages = k == MEASURE_OWN_STAGES;
		view->has_staged[k] = false;
	}
}

void view_free(struct view *view)
{
	series_free(&view->series);
	for (size_t k = 0; k < MEASURE_STAGED_KINDS; k++) {
		series_free(&view->staged[k]);
		view->has_staged[k] = false;
	}
}

int view_frame(struct view *view, const struct frame *frame, const struct measures *measures)
{
	struct measures staged = *measures;
	struct frame stages = *frame;
	int r = series_frame(&view->series, frame, measures);

	staged.lost = 0;
	stages.tier = FRAME_TIER_STAGES;
	for (size_t k = 0; k < MEASURE_STAGED_KINDS; k++) {
		view->has_staged[k] = false;
		if (r < 0 || !measures->staged[k])
			continue;
		staged.rank = measures->staged[k];
		view->staged[k].grown = view->series.grown;
		view->staged[k].longer = view->series.longer;
		r = series_frame(&view->staged[k], &stages, &staged);
		view->has_staged[k] = r >= 0;
	}
	return r;
}

/* MEASURE_STAGED_KINDS: as all tells. */
static size_t slow_rank_view_kind_of(const struct view *view, size_t rank)
{
	size_t k = 0;

	if (view->series.rank[rank].candidate)
		return MEASURE_STAGED_KINDS;
	while (k < MEASURE_STAGED_KINDS &&
		!(view->has_staged[k] && rank < view->staged[k].ranks && view->staged[k].rank[rank].candidate))
		k++;
	return k;
}

const struct series_rank *view_rank(const struct view *view, size_t rank)
{
	size_t k = slow_rank_view_kind_of(view, rank);

	return k < MEASURE_STAGED_KINDS ? &view->staged[k].rank[rank] : &view->series.rank[rank];
}

const struct measure_rank *view_measured(const struct view *view, const struct measures *measures, size_t rank)
{
	size_t k = slow_rank_view_kind_of(view, rank);

	return k < MEASURE_STAGED_KINDS ? &measures->staged[k][rank] : &measures->rank[rank];
}
