/* SPDX-License-Identifier: Apache-2.0 */
/* Findings as slices, with an instant at their confirmation; clock steps of a node. */
#include <string.h>

#include "analyzers/timeline/timeline_internal.h"

enum { FINDING_RANK = COL_MORE, FINDING_JOB, FINDING_HOST, FINDING_NOTICED };

#define CLOCK_STEP_NS 10000000 /* the store has smaller ones only at the start of a segment */

static const char *timeline_rows_findings_text_or_null(const struct row *row, size_t cell)
{
	return *row_text(row, cell) ? row->cell[cell].text : NULL;
}

static void put_finding(struct timeline *t, struct timeline_rank *rank, struct trace_event *event, int64_t noticed_ns)
{
	struct timeline_track *track = timeline_track(t, rank, TRACK_FINDINGS, 0, "");
	struct trace_event noticed = *event;
	char name[TRACE_NAME_BYTES];

	if (!timeline_put(t, track, event, NULL) && !track)
		return;
	if (noticed_ns < t->options->since_ns || noticed_ns >= t->options->until_ns)
		return;
	noticed.start_ns = noticed.end_ns = noticed_ns;
	noticed.instant = true;
	snprintf(name, sizeof(name), "confirmed: %s", event->name);
	noticed.name = name;
	(void)timeline_put(t, track, &noticed, NULL);
}

/* On the finding's rank, else on the reporting node. */
void rows_finding(struct timeline *t, const struct stream *stream, struct timeline_rank *none, const struct row *row)
{
	bool of_rank = row_has(row, FINDING_RANK);
	int64_t number = row_int(row, FINDING_RANK);
	const char *job = timeline_rows_findings_text_or_null(row, FINDING_JOB);
	struct timeline_rank *rank;
	struct trace_event event;

	if ((of_rank && !ranges_have(&t->options->ranks, number)) ||
		(t->options->job && (!job || strcmp(job, t->options->job) != 0)))
		return;
	if (!timeline_event(t, stream, row, &event))
		return;
	if (event.start_ns < t->options->since_ns)
		event.start_ns = t->options->since_ns;
	if (event.end_ns < event.start_ns)
		event.end_ns = event.start_ns;
	rank = of_rank ? timeline_rank_named(t, number, job, timeline_rows_findings_text_or_null(row, FINDING_HOST))
		       : none;
	put_finding(t, rank && rank->wanted ? rank : none, &event, row_int(row, FINDING_NOTICED));
}

/* The clocks' difference changes when UTC is set; a monotonic clock that goes back means a reboot. */
void rows_clock(struct timeline *t, const struct stream *stream, struct timeline_rank *none, const struct row *row)
{
	int64_t utc_ns = row_int(row, COL_START), monotonic_ns = row_int(row, COL_MORE);
	int64_t before_ns = t->clock_monotonic_ns, offset_ns, step_ns;
	struct trace_event event;
	char name[64];

	if (monotonic_ns <= 0 || utc_ns < monotonic_ns || !timeline_event(t, stream, row, &event)) {
		t->counts.odd++;
		return;
	}
	offset_ns = utc_ns - monotonic_ns;
	step_ns = offset_ns - t->clock_offset_ns;
	t->clock_monotonic_ns = monotonic_ns;
	t->clock_offset_ns = offset_ns;
	if (!before_ns || utc_ns < t->options->since_ns || (step_ns < CLOCK_STEP_NS && step_ns > -CLOCK_STEP_NS))
		return;
	if (monotonic_ns < before_ns)
		snprintf(name, sizeof(name), "booted");
	else
		snprintf(name, sizeof(name), "clock set by %+.3f s", (double)step_ns / 1e9);
	event.name = name;
	(void)timeline_put(t, timeline_track(t, none, stream->class, 0, ""), &event, NULL);
}
