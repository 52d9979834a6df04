/* SPDX-License-Identifier: Apache-2.0 */
/* Off-CPU intervals, samples of processes, and launches, as slices and counters; gaps in samples. */

#include "analyzers/timeline/timeline_internal.h"

#define GAP_SAMPLES 3 /* sample lengths without a sample that make a gap */

static void rows_host_value(struct timeline *t, struct timeline_rank *rank, int64_t thread, const char *label,
	int64_t time_ns, double number)
{
	timeline_value(t, timeline_track(t, rank, TRACK_COUNTER, thread, label), time_ns, number);
}

/* Cells from COL_MORE on are counters. */
static void rows_host_values(struct timeline *t, struct timeline_rank *rank, const struct row *row)
{
	int64_t start_ns = row_int(row, COL_START), thread = row_int(row, COL_THREAD);

	for (size_t i = COL_MORE; i < row->count; i++)
		if (row_has(row, i) && row->cell[i].name)
			rows_host_value(t, rank, thread, row->cell[i].name, start_ns, row_real(row, i));
}

void rows_offcpu(struct timeline *t, const struct stream *stream, struct timeline_rank *rank, const struct row *row)
{
	int64_t thread = row_int(row, COL_THREAD);
	struct trace_event event;

	if (!timeline_event(t, stream, row, &event))
		return;
	timeline_thread_name(t, rank, thread, row_text(row, row->count - 1));
	(void)timeline_put(t, timeline_track(t, rank, stream->class, thread, ""), &event, NULL);
}

void rows_values(struct timeline *t, const struct stream *stream, struct timeline_rank *rank, const struct row *row)
{
	if (row_int(row, COL_START) <= 0) {
		t->counts.odd++;
		return;
	}
	rows_host_values(t, rank, row);
}

enum { LAUNCH_RATE = COL_MORE, LAUNCH_GAP, LAUNCH_COUNT };

static void launches_of(
	struct timeline *t, struct timeline_rank *rank, int64_t thread, const char *api, int64_t start_ns, double rate)
{
	struct timeline_track *counter;
	char label[TIMELINE_LABEL_BYTES];
	bool known = false;

	snprintf(label, sizeof(label), "%.60s|launches/s", *api ? api : "launches");
	counter = timeline_track(t, rank, TRACK_COUNTER, thread, label);
	if (!counter) {
		t->counts.crowded++;
		return;
	}
	for (const struct timeline_track *at = rank->launches; at && !known; at = at->next)
		known = at == counter;
	if (!known) {
		counter->next = rank->launches;
		rank->launches = counter;
	}
	timeline_value(t, counter, start_ns, rate);
}

/* A row without a thread: no launch in the rank. */
void rows_launches(struct timeline *t, const struct stream *stream, struct timeline_rank *rank, const struct row *row)
{
	int64_t start_ns = row_int(row, COL_START), thread = row_int(row, COL_THREAD);

	if (start_ns <= 0) {
		t->counts.odd++;
		return;
	}
	if (!row_has(row, COL_THREAD)) {
		for (struct timeline_track *at = rank->launches; at; at = at->next)
			timeline_value(t, at, start_ns, 0);
		if (!rank->launches)
			launches_of(t, rank, 0, "", start_ns, 0);
		return;
	}
	launches_of(t, rank, thread, row_text(row, COL_NAME), start_ns, row_real(row, LAUNCH_RATE));
	if (row_has(row, LAUNCH_GAP))
		rows_host_value(t, rank, thread, "longest launch gap|ns", start_ns, row_real(row, LAUNCH_GAP));
}

static void timeline_rows_host_put(
	struct timeline *t, struct timeline_rank *rank, enum track_class class, struct trace_event *event)
{
	(void)timeline_put(t, timeline_track(t, rank, class, 0, ""), event, NULL);
}

/* Samples are contiguous while the daemon runs in time. */
static void rows_host_gap(struct timeline *t, struct timeline_rank *rank, const struct trace_event *sample)
{
	int64_t length_ns = sample->end_ns - sample->start_ns;
	struct trace_event event = {
		.category = "gap",
		.name = "no samples",
		.start_ns = rank->sampled_until_ns,
		.end_ns = sample->start_ns,
	};

	if (rank->sampled_until_ns && (sample->start_ns - rank->sampled_until_ns) / GAP_SAMPLES > length_ns)
		timeline_rows_host_put(t, rank, TRACK_GAPS, &event);
	if (sample->end_ns > rank->sampled_until_ns)
		rank->sampled_until_ns = sample->end_ns;
}

/* Not running and sleeping: too frequent. */
static void rows_host_state(struct timeline *t, struct timeline_rank *rank, char now, int64_t time_ns)
{
	static const struct {
		char state;
		const char *name;
	} names[] = {{'D', "uninterruptible sleep"}, {'T', "stopped"}, {'t', "stopped by a debugger"}, {'Z', "zombie"}};

	for (size_t i = 0; now != rank->state && i < sizeof(names) / sizeof(names[0]); i++)
		if (names[i].state == now)
			timeline_rows_host_put(t, rank, TRACK_STATES,
				&(struct trace_event){.category = "state",
					.name = names[i].name,
					.start_ns = time_ns,
					.end_ns = time_ns,
					.instant = true});
	rank->state = now;
}

void rows_sample(struct timeline *t, const struct stream *stream, struct timeline_rank *rank, const struct row *row)
{
	const struct stream bare = {.category = stream->category, .args = row->count};
	struct trace_event event;

	if (!timeline_event(t, &bare, row, &event) || event.end_ns == TRACE_OPEN)
		return;
	rows_host_gap(t, rank, &event);
	rows_host_state(t, rank, row_text(row, COL_NAME)[0], event.end_ns);
	rows_host_values(t, rank, row);
}
