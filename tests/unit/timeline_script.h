/* SPDX-License-Identifier: Apache-2.0 */
/* Stores made by hand and their timelines, read back. */
#ifndef RANKTRACE_TESTS_TIMELINE_SCRIPT_H
#define RANKTRACE_TESTS_TIMELINE_SCRIPT_H

#include "tests/unit/store_fixture.h"
#include "tests/unit/trace_decode.h"

#include <jansson.h>

#include "analyzers/timeline/timeline.h"

#define MS 1000000LL
#define S 1000000000LL
#define COMM "0x00112233445566ff"

static struct store *store;
static int64_t t0; /* the window's start */
static struct timeline_options how;
static struct stores_one stores[2];
static struct timeline_counts counts;

static inline int setup(void **state)
{
	int r = store_setup(state);

	if (r < 0)
		return r;
	store = open_store();
	t0 = (int64_t)realtime_ns() - 100 * S;
	stores[0] = (struct stores_one){.path = dir};
	how = (struct timeline_options){
		.store = stores, .stores = 1, .since_ns = t0, .until_ns = t0 + 60 * S, .warning = warned};
	return 0;
}

static inline int teardown(void **state)
{
	store = store_close(store);
	return store_teardown(state);
}

static inline void put(enum schema_id table, const struct store_value *row, size_t count)
{
	assert_int_equal(store_put(store, table, row, count), 0);
}
#define PUT(table, ...) \
	do { \
		const struct store_value row_[] = {__VA_ARGS__}; \
\
		put(table, row_, ARRAY_SIZE(row_)); \
	} while (0)

static inline void put_process(int64_t instance, int64_t rank, int64_t pid, const char *job)
{
	PUT(TABLE_RANKS, V_INT(rank), V_INT(4), V_INT(rank), V_TEXT(job), V_TEXT("node7"), V_INT(pid), V_INT(t0),
		V_NULL, V_NULL, V_NULL, V_NULL, V_NULL, V_TEXT("3"), V_TEXT("torchrun"), V_INT(t0), V_INT(t0 + 90 * S),
		V_INT(0), V_INT(instance));
}

static inline void put_stage_of(
	int64_t instance, int64_t thread, const char *stage, int64_t start_ns, int64_t duration_ns)
{
	PUT(TABLE_STAGES, V_INT(instance - 1), V_INT(1), V_TEXT(stage), V_TEXT("Module.forward"), V_INT(start_ns),
		V_INT(duration_ns), V_INT(thread), V_INT(0), V_INT(instance));
}

struct op {
	int64_t instance, seq, start_ns, duration_ns,
		device_ns; /* durations below 0: not known; device_ns 0: no device times */
	const char *op, *seq_from;
	int64_t peer; /* -1: none */
};

static inline void put_op(struct op op)
{
	PUT(TABLE_COLLECTIVES, V_INT(op.instance - 1), V_INT(1), V_TEXT(COMM), V_INT(op.seq), V_TEXT(op.op),
		V_TEXT("float32"), V_INT(10), V_INT(40), V_INT(op.start_ns),
		op.duration_ns < 0 ? V_NULL : V_INT(op.duration_ns), op.device_ns ? V_INT(op.start_ns + MS) : V_NULL,
		op.device_ns ? V_INT(op.device_ns) : V_NULL, V_TEXT(op.device_ns ? "device" : "host"),
		V_TEXT(op.seq_from ? op.seq_from : "init"), op.peer < 0 ? V_NULL : V_INT(op.peer), V_NULL, V_INT(0),
		V_INT(0), V_TEXT("nccl"), V_INT(4100), V_INT(op.instance), V_INT(op.instance * 10));
}

static inline void put_comm(int64_t instance, int64_t member)
{
	PUT(TABLE_COMMUNICATORS, V_TEXT(COMM), V_INT(instance - 1), V_INT(member), V_INT(4), V_TEXT("nccl"),
		V_TEXT("default_pg"), V_TEXT("data"), V_NULL, V_NULL, V_TEXT("init"), V_NULL, V_INT(t0), V_INT(0),
		V_INT(instance), V_INT(instance * 10));
}

static inline void put_alloc(int64_t instance, const char *op, int64_t bytes, int64_t result, int64_t start_ns)
{
	PUT(TABLE_ALLOCATIONS, V_INT(instance - 1), V_NULL, V_NULL, V_TEXT(op), V_INT(0x7f0000),
		bytes < 0 ? V_NULL : V_INT(bytes), V_INT(result), V_INT(start_ns), V_INT(1000), V_NULL, V_INT(4000),
		V_INT(instance));
}

static inline char *written(const struct trace_format *format, size_t *ret_size)
{
	struct trace_options where = {.base_ns = how.since_ns, .title = "test"};
	char *text = NULL, error[512] = "";
	struct trace *trace;

	assert_int_equal(store_flush(store, (uint64_t)t0), 0);
	where.out = open_memstream(&text, ret_size);
	assert_int_equal(trace_open(format, &where, &trace), 0);
	if (timeline_write(&how, trace, &counts, error, sizeof(error)) < 0)
		fail_msg("%s", error);
	assert_int_equal(trace_finish(trace), 0);
	trace_close(trace);
	fclose(where.out);
	return text;
}

static inline struct decode *perfetto(void)
{
	size_t size;
	char *text = written(&trace_perfetto, &size);
	struct decode *d = decode_new(text, size);

	free(text);
	return d;
}

static inline json_t *chrome(void)
{
	json_error_t error;
	size_t size;
	char *text = written(&trace_chrome, &size);
	json_t *json = json_loadb(text, size, 0, &error);

	if (!json)
		fail_msg("%s at %d", error.text, error.line);
	free(text);
	return json;
}

static inline size_t phases(const json_t *json, const char *phase)
{
	const json_t *event;
	size_t i, n = 0;

	json_array_foreach(json_object_get(json, "traceEvents"), i, event) n +=
		strcmp(json_string_value(json_object_get(event, "ph")), phase) == 0;
	return n;
}

static inline const struct decode_track *track_of(struct decode *d, const struct decode_event *event)
{
	assert_non_null(event);
	return decode_track(d, event->track);
}

static inline void two_ranks(void)
{
	put_process(1, 0, 4000, "llama");
	put_process(2, 1, 4001, "llama");
	put_comm(1, 0);
	put_comm(2, 1);
}

#endif
