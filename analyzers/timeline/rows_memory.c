/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory: calls as slices, and allocated bytes as counters by device, library and kind of memory. Runtime and
 * driver have separate counters, because runtime calls contain driver calls. Allocations before the window come from
 * older rows; those before L2 was on are unknown.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/array.h"
#include "analyzers/base/text_pool.h"
#include "analyzers/timeline/timeline_internal.h"

#define BEFORES_MAX 4096

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

static int64_t device_of(const struct row *row)
{
	return row_has(row, ALLOC_DEVICE) ? row_int(row, ALLOC_DEVICE) : -1;
}

/* Bytes allocated or freed by a function before the window, by process and device. */
struct before {
	int64_t instance, device;
	double bytes;
	const char *op;
	uint32_t number; /* of op; 0: free slot */
};

struct befores {
	struct text_pool *texts;
	size_t count;
	struct before before[2 * BEFORES_MAX]; /* a hash table with open addressing */
};

enum { BEFORE_INSTANCE, BEFORE_START, BEFORE_OP, BEFORE_DEVICE, BEFORE_BYTES, BEFORE_RESULT, BEFORE_RANK };

static const struct reader_scanning befores_scanning = {
	.table = TABLE_ALLOCATIONS,
	.columns = {"instance", "start_ns", "op", "device", "bytes", "result", "rank"},
};

/* NULL: full. */
static struct before *before_of(struct befores *befores, int64_t instance, uint32_t number, int64_t device)
{
	uint64_t hash = ((uint64_t)instance * 31 + (uint64_t)device) * 31 + number;
	size_t at = (size_t)(hash * 0x9e3779b97f4a7c15ULL >> 32) % (2 * BEFORES_MAX);
	struct before *before;

	for (; (before = &befores->before[at])->number; at = (at + 1) % (2 * BEFORES_MAX))
		if (before->number == number && before->instance == instance && before->device == device)
			return before;
	if (!number || befores->count == BEFORES_MAX)
		return NULL;
	befores->count++;
	*before = (struct before){.instance = instance, .number = number, .device = device};
	return before;
}

static void add_before(struct timeline *t, struct befores *befores, struct reader_scan *scan)
{
	const struct reader_row *row = reader_scan_row(scan);
	const char *op = reader_scan_text(scan, BEFORE_OP);
	int64_t device = reader_row_has(row, BEFORE_DEVICE) ? row->value[BEFORE_DEVICE] : -1;
	struct before *before;

	if (!op || row->value[BEFORE_BYTES] <= 0 || row->value[BEFORE_RESULT] != 0 ||
		!reader_row_has(row, BEFORE_START) || row->value[BEFORE_START] >= timeline_before(t) ||
		!timeline_rank_chosen(t, row, BEFORE_RANK))
		return;
	before = before_of(befores, row->value[BEFORE_INSTANCE], text_pool_number(befores->texts, op), device);
	if (before)
		before->bytes += (double)row->value[BEFORE_BYTES];
	else
		t->counts.crowded++;
}

static int timeline_rows_memory_by_process(const void *a, const void *b)
{
	const struct before *x = a, *y = b;

	return ORDER(x->instance, y->instance) ?: (x->number != y->number ? strcmp(x->op, y->op) : 0) ?:
	       ORDER(x->device, y->device);
}

/* Initial values of counters, in order of processes. */
static void begin_counters(struct timeline *t, struct befores *befores)
{
	size_t count = 0;

	for (size_t i = 0; i < 2 * BEFORES_MAX; i++)
		if (befores->before[i].number)
			befores->before[count++] = befores->before[i];
	for (size_t i = 0; i < count; i++)
		befores->before[i].op = text_pool_text(befores->texts, befores->before[i].number);
	qsort(befores->before, count, sizeof(befores->before[0]), timeline_rows_memory_by_process);
	for (size_t i = 0; i < count; i++) {
		const struct before *before = &befores->before[i];
		struct timeline_rank *rank = timeline_rank_find(t, t->node, before->instance);
		struct timeline_track *counter = NULL;

		if (rank && rank->wanted && rank->seen_ns >= (uint64_t)t->options->since_ns)
			counter = counter_of(t, rank, before->op, before->device);
		if (counter)
			counter->value += gives_back(before->op) ? -before->bytes : before->bytes;
	}
}

static int read_before(struct timeline *t, struct befores *befores)
{
	struct reader_scan *scan = NULL;
	int r = reader_scan_open(t->reader, &befores_scanning, &scan);

	if (r < 0)
		snprintf(t->error, t->error_size, "out of memory");
	else
		r = reader_scan_begin(scan, INT64_MIN, timeline_before(t), t->error, t->error_size);
	if (r == 0) {
		while ((r = reader_scan_next(scan)) > 0)
			add_before(t, befores, scan);
		if (r < 0)
			reader_scan_error(scan, t->error, t->error_size);
	}
	reader_scan_close(scan);
	return r;
}

int rows_memory_before(struct timeline *t)
{
	struct befores *befores = calloc(1, sizeof(*befores));
	int r = -ENOMEM;

	if (befores && (befores->texts = text_pool_new()))
		r = read_before(t, befores);
	else
		snprintf(t->error, t->error_size, "out of memory");
	if (r == 0)
		begin_counters(t, befores);
	text_pool_free(befores ? befores->texts : NULL);
	free(befores);
	return r;
}

static void timeline_rows_memory_count(
	struct timeline *t, struct timeline_rank *rank, const struct row *row, const struct trace_event *event)
{
	int64_t bytes = row_int(row, ALLOC_BYTES);
	struct timeline_track *counter;
	double value;

	if (row_int(row, ALLOC_RESULT) != 0 || bytes <= 0)
		return;
	counter = counter_of(t, rank, event->name, device_of(row));
	if (!counter) {
		t->counts.crowded++;
		return;
	}
	value = counter->value + (gives_back(event->name) ? -(double)bytes : (double)bytes);
	if (event->start_ns >= t->options->since_ns)
		timeline_value(t, counter, event->start_ns, value);
	counter->value = value;
}

void rows_allocation(struct timeline *t, const struct stream *stream, struct timeline_rank *rank, const struct row *row)
{
	struct trace_event event;

	if (!timeline_event(t, stream, row, &event))
		return;
	timeline_rows_memory_count(t, rank, row, &event);
	if (event.end_ns < t->options->since_ns)
		return;
	(void)timeline_put(t, timeline_track(t, rank, stream->class, row_int(row, COL_THREAD), ""), &event, NULL);
}
