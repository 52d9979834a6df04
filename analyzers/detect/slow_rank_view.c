/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/detect/slow_rank_view.h"

void view_init(struct view *view, const struct detect_options *options)
{
	series_init(&view->series, options);
	series_init(&view->staged, options);
	view->staged.by_stages = true;
	view->has_staged = false;
}

void view_free(struct view *view)
{
	series_free(&view->series);
	series_free(&view->staged);
	view->has_staged = false;
}

int view_frame(struct view *view, const struct frame *frame, const struct measures *measures)
{
	struct measures staged = *measures;
	struct frame stages = *frame;
	int r = series_frame(&view->series, frame, measures);

	view->has_staged = false;
	if (r < 0 || !measures->staged)
		return r;
	staged.rank = measures->staged;
	staged.lost = 0;
	stages.tier = FRAME_TIER_STAGES;
	view->staged.grown = view->series.grown;
	r = series_frame(&view->staged, &stages, &staged);
	view->has_staged = r >= 0;
	return r;
}

static bool by_stages(const struct view *view, size_t rank)
{
	return view->has_staged && rank < view->staged.ranks && view->staged.rank[rank].candidate &&
	       !view->series.rank[rank].candidate;
}

const struct series_rank *view_rank(const struct view *view, size_t rank)
{
	return by_stages(view, rank) ? &view->staged.rank[rank] : &view->series.rank[rank];
}

const struct measure_rank *view_measured(const struct view *view, const struct measures *measures, size_t rank)
{
	return by_stages(view, rank) ? &measures->staged[rank] : &measures->rank[rank];
}
