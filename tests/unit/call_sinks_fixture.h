/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sinks of call records, with the real store and steps module, and ranks, probes and records made up here.
 * Included once, by the test of a sink.
 */
#ifndef RANKTRACE_TESTS_CALL_SINKS_FIXTURE_H
#define RANKTRACE_TESTS_CALL_SINKS_FIXTURE_H

#include "bpf/copies.h"
#include "daemon/collect/collect_internal.h"
#include "daemon/collect/collector.h"
#include "daemon/memory/allocs.h"
#include "daemon/memory/copies.h"
#include "daemon/core/context.h"
#include "daemon/kernel/kernel.h"
#include "daemon/coll/coll_snapshot.h"
#include "daemon/coll/rank_coll.h"
#include "daemon/stacks/profiles.h"
#include "daemon/stacks/stacks.h"
#include "daemon/steps/rank_steps.h"
#include "tests/unit/store_fixture.h"

#define MS NSEC_PER_MSEC

static struct context context;
static struct {
	ranks_observer callback;
	void *arg;
} observers[8];
static size_t observer_count;
static struct rank ranks_here[4];
static uint64_t kernel_lost;
static struct rt_copies kernel_sums; /* of slot 1; the others have none */
static const struct rank *ending;    /* is listed until all observers were called */

/* No workers here. */
__attribute__((weak)) int stacks_start(struct stacks *stacks, const struct stacks_take *take)
{
	return -ENOTSUP;
}

__attribute__((weak)) void profiles_suspect(struct profiles *profiles, const struct rank *rank, bool of_job)
{
}

int ranks_observe(struct ranks *ranks, ranks_observer observer, void *arg)
{
	observers[observer_count].callback = observer;
	observers[observer_count++].arg = arg;
	return 0;
}

const struct rank *ranks_by_pid(const struct ranks *ranks, uint32_t pid)
{
	for (size_t i = 0; i < ARRAY_SIZE(ranks_here); i++)
		if (ranks_here[i].pid == pid && (!ranks_here[i].ended || &ranks_here[i] == ending))
			return &ranks_here[i];
	return NULL;
}

uint64_t kernel_limited_calls(const struct kernel *kernel, uint32_t slot)
{
	(void)kernel, (void)slot;
	return 0;
}

uint64_t kernel_drops(const struct kernel *kernel, unsigned kind)
{
	return kernel_lost;
}

bool kernel_copies(const struct kernel *kernel, uint32_t slot, struct rt_copies *ret)
{
	*ret = slot == 1 ? kernel_sums : (struct rt_copies){0};
	return true;
}

#ifndef FIXTURE_HAS_RANKS_EACH /* the test lists ranks itself */
void ranks_each(const struct ranks *ranks, void (*each)(void *arg, const struct rank *rank), void *arg)
{
	for (size_t i = 0; i < ARRAY_SIZE(ranks_here); i++)
		if (ranks_here[i].pid && !ranks_here[i].ended)
			each(arg, &ranks_here[i]);
}
#endif

static inline void notify_rank(struct rank *rank, enum rank_change change)
{
	rank->ended = change == RANK_ENDED;
	ending = rank->ended ? rank : NULL;
	for (size_t i = 0; i < observer_count; i++)
		observers[i].callback(observers[i].arg, rank, change);
	ending = NULL;
}

static inline int fixture_setup(void **state)
{
	if (store_setup(state) < 0)
		return -1;
	observer_count = 0;
	kernel_lost = 0;
	memset(&kernel_sums, 0, sizeof(kernel_sums));
	memset(&context, 0, sizeof(context));
	context.config.ranks_max = 8;
	context.config.flush_interval_ns = NSEC_PER_SEC;
	context.kernel = (struct kernel *)&context; /* opaque: the functions above */
	context.store = open_store();
	assert_int_equal(rank_steps_new(&context, &context.steps), 0);
	assert_int_equal(rank_coll_new(&context, &context.ops), 0);
	assert_int_equal(allocs_new(&context, &context.allocs), 0);
	assert_int_equal(copies_new(&context, &context.copies), 0);
	for (unsigned i = 0; i < ARRAY_SIZE(ranks_here); i++) {
		ranks_here[i] = (struct rank){.pid = 100 + i,
			.instance = 1 + i,
			.slot = i,
			.env = {.rank = (int32_t)i, .world_size = 4, .job = "j"}};
		notify_rank(&ranks_here[i], RANK_ADDED);
	}
	return 0;
}

static inline int fixture_teardown(void **state)
{
	context.copies = copies_free(context.copies);
	context.allocs = allocs_free(context.allocs);
	context.ops = rank_coll_free(context.ops);
	context.steps = rank_steps_free(context.steps);
	store_close(context.store);
	return store_teardown(state);
}

static inline void flush(void)
{
	assert_int_equal(store_flush(context.store, realtime_ns()), 0);
}

/* A row of a table: event, family, op, and names of its words. */
static inline struct probe probe_of(
	const char *event, const char *family, const char *op, const enum coll_field *field, unsigned fields)
{
	struct probe probe = {.level = LEVEL_L1, .edge = RT_EDGE_CALL};

	snprintf(probe.name, sizeof(probe.name), "%s", op);
	snprintf(probe.event, sizeof(probe.event), "%s", event);
	snprintf(probe.family, sizeof(probe.family), "%s", family);
	snprintf(probe.op, sizeof(probe.op), "%s", op);
	probe.spec.args = (uint8_t)fields;
	for (unsigned i = 0; i < RT_CALL_ARGS_MAX; i++) {
		probe.field[i] = i < fields ? field[i] : OP_FIELD_MAX;
		probe.spec.arg[i].read = RT_READ_REG;
	}
	return probe;
}

#define PROBE(event, family, op, ...) \
	probe_of(event, family, op, (const enum coll_field[]){__VA_ARGS__}, \
		sizeof((const enum coll_field[]){__VA_ARGS__}) / sizeof(enum coll_field))

struct call_made {
	uint64_t start_ns, end_ns;
	int64_t result;
	uint32_t flags;
	const uint64_t *word;
	unsigned words;
	const char *text;
};

/* One whole call of a rank's main thread. */
static inline void call_made(const struct rank *rank, const struct probe *probe, const struct call_made *made)
{
	struct rt_call_event event = {
		.event = {.kind = RT_KIND_CALL,
			.pid = rank->pid,
			.thread_id = rank->pid,
			.time_ns = made->end_ns,
			.flags = (uint16_t)(RT_CALL_BEGIN | RT_CALL_END | RT_CALL_RESULT | made->flags)},
		.start_ns = made->start_ns,
		.result = made->result,
	};

	memcpy(event.arg, made->word, made->words * sizeof(event.arg[0]));
	assert_true(
		call_sinks_feed(&context, rank, &(struct call_record){probe, &event, made->text ? made->text : ""}));
}

#define WORDS(...) \
	.word = (const uint64_t[]){__VA_ARGS__}, .words = sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t)

#endif
