/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory: calls as slices, and what is taken as a counter a device, a library and kind of memory. A runtime's
 * calls and the driver's within them are different counters, for they are the same memory. What was taken before the
 * window is counted from the store's older rows; what was taken before L2 was on is not known, so a counter is of what
 * was seen.
 */
#include <string.h>

#include "analyzers/timeline/timeline_internal.h"

enum { ALLOC_BYTES = COL_MORE, ALLOC_DEVICE, ALLOC_RESULT };

static const struct {
	const char *prefix, *name;
} libraries[] = {
	{"cuda", "CUDA runtime"},
	{"cu", "CUDA driver"},
	{"hip", "HIP"},
	{"aclrt", "AscendCL"},
	{"hal", "Ascend driver"},
	{"", "other"},
};

static const char *library_of(const char *op)
{
	size_t i = 0;

	while (strncmp(op, libraries[i].prefix, strlen(libraries[i].prefix)) != 0)
		i++;
	return libraries[i].name;
}

static bool gives_back(const char *op)
{
	return strstr(op, "Free") || strstr(op, "Release");
}

static struct timeline_track *counter_of(struct timeline *t, struct timeline_rank *rank, const char *op, int64_t device)
{
	char label[TIMELINE_LABEL_BYTES], number[32] = "";

	if (device >= 0)
		snprintf(number, sizeof(number), " %lld", (long long)device);
	snprintf(label, sizeof(label), "memory of %s%s, %s|bytes", strstr(op, "Host") ? "the host, pinned" : "device",
		number, library_of(op));
	return timeline_track(t, rank, TRACK_COUNTER, 0, label);
}

static int64_t device_of(sqlite3_stmt *s, int column)
{
	return sqlite3_column_type(s, column) == SQLITE_NULL ? -1 : sqlite3_column_int64(s, column);
}

/* Sums by function, of one process after the other. */
static int add_before(struct timeline *t, void *arg, sqlite3_stmt *s)
{
	const char *op = (const char *)sqlite3_column_text(s, 1);
	struct timeline_rank *rank = timeline_rank_find(t, t->node, sqlite3_column_int64(s, 0));
	struct timeline_track *counter = NULL;

	(void)arg;
	if (op && rank && rank->wanted && rank->seen_ns >= (uint64_t)t->options->since_ns)
		counter = counter_of(t, rank, op, device_of(s, 2));
	if (counter)
		counter->value += gives_back(op) ? -sqlite3_column_double(s, 3) : sqlite3_column_double(s, 3);
	return 0;
}

int rows_memory_before(struct timeline *t)
{
	return timeline_each(t,
		"select instance, op, device, total(bytes) from allocations where start_ns < :from and "
		"coalesce(result, 0) = 0 and bytes > 0 and RANKS group by 1, 2, 3",
		add_before, NULL);
}

static void count(struct timeline *t, struct timeline_rank *rank, sqlite3_stmt *s, const struct trace_event *event)
{
	int64_t bytes = sqlite3_column_int64(s, ALLOC_BYTES);
	struct timeline_track *counter;
	double value;

	if (sqlite3_column_int64(s, ALLOC_RESULT) != 0 || bytes <= 0)
		return;
	counter = counter_of(t, rank, event->name, device_of(s, ALLOC_DEVICE));
	if (!counter) {
		t->counts.crowded++;
		return;
	}
	value = counter->value + (gives_back(event->name) ? -(double)bytes : (double)bytes);
	if (event->start_ns >= t->options->since_ns)
		timeline_value(t, counter, event->start_ns, value);
	counter->value = value;
}

void rows_allocation(struct timeline *t, const struct stream *stream, struct timeline_rank *rank, sqlite3_stmt *s)
{
	struct timeline_track *track;
	struct trace_event event;

	if (!timeline_event(t, stream, s, &event))
		return;
	count(t, rank, s, &event);
	if (event.end_ns < t->options->since_ns)
		return;
	track = timeline_track(t, rank, stream->class, sqlite3_column_int64(s, COL_THREAD), "");
	if (track)
		(void)timeline_put(t, track, &event, NULL);
	else
		t->counts.crowded++;
}
