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

static inline void put_process(int64_t instance, int64_t rank, int64_t pid, const char *job)
{
	store_put_ranks(store, &(struct row_ranks){.rank = field_int(rank),
				       .world_size = field_int(4),
				       .local_rank = field_int(rank),
				       .job = field_text(job),
				       .host = field_text("node7"),
				       .pid = field_int(pid),
				       .start_time_ns = field_time(t0),
				       .card = field_text("3"),
				       .source = field_text("torchrun"),
				       .first_seen_ns = field_time(t0),
				       .last_seen_ns = field_time(t0 + 90 * S),
				       .ended = field_int(0),
				       .instance = field_int(instance)});
}

static inline void put_stage_of(
	int64_t instance, int64_t thread, const char *stage, int64_t start_ns, int64_t duration_ns)
{
	store_put_stages(store, &(struct row_stages){.rank = field_int(instance - 1),
					.step = field_int(1),
					.stage = field_text(stage),
					.name = field_text("Module.forward"),
					.start_ns = field_time(start_ns),
					.duration_ns = field_duration(duration_ns),
					.thread_id = field_int(thread),
					.depth = field_int(0),
					.instance = field_int(instance)});
}

struct op {
	int64_t instance, seq, start_ns, duration_ns,
		device_ns; /* durations below 0: not known; device_ns 0: no device times */
	const char *op, *seq_from;
	int64_t peer; /* -1: none */
};

static inline void put_op(struct op op)
{
	store_put_collectives(store, &(struct row_collectives){.rank = field_int(op.instance - 1),
					     .step = field_int(1),
					     .communicator = field_text(COMM),
					     .seq = field_int(op.seq),
					     .op = field_text(op.op),
					     .dtype = field_text("float32"),
					     .count = field_int(10),
					     .bytes = field_int(40),
					     .host_start_ns = field_time(op.start_ns),
					     .host_duration_ns = field_duration_if(op.duration_ns >= 0, op.duration_ns),
					     .device_start_ns = field_time_if(op.device_ns, op.start_ns + MS),
					     .device_duration_ns = field_duration_if(op.device_ns, op.device_ns),
					     .tier = field_text(op.device_ns ? "device" : "host"),
					     .seq_from = field_text(op.seq_from ? op.seq_from : "init"),
					     .peer = field_int_if(op.peer >= 0, op.peer),
					     .captured = field_int(0),
					     .result = field_int(0),
					     .family = field_text("nccl"),
					     .thread_id = field_int(4100),
					     .instance = field_int(op.instance),
					     .communicator_key = field_int(op.instance * 10)});
}

static inline void put_comm(int64_t instance, int64_t member)
{
	store_put_communicators(store, &(struct row_communicators){.communicator = field_text(COMM),
					       .rank = field_int(instance - 1),
					       .member = field_int(member),
					       .members = field_int(4),
					       .family = field_text("nccl"),
					       .name = field_text("default_pg"),
					       .kind = field_text("data"),
					       .source = field_text("init"),
					       .first_seen_ns = field_time(t0),
					       .freed = field_int(0),
					       .instance = field_int(instance),
					       .communicator_key = field_int(instance * 10)});
}

static inline void put_alloc(int64_t instance, const char *op, int64_t bytes, int64_t result, int64_t start_ns)
{
	store_put_allocations(store, &(struct row_allocations){.rank = field_int(instance - 1),
					     .op = field_text(op),
					     .address = field_int(0x7f0000),
					     .bytes = field_int_if(bytes >= 0, bytes),
					     .result = field_int(result),
					     .start_ns = field_time(start_ns),
					     .duration_ns = field_duration(1000),
					     .thread_id = field_int(4000),
					     .instance = field_int(instance)});
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
