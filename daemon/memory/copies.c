/* SPDX-License-Identifier: Apache-2.0 */
/* See copies.h. */
#include "daemon/memory/copies.h"
#include "bpf/copies.h"
#include "daemon/calls/call_fields.h"
#include "daemon/core/context.h"
#include "daemon/kernel/kernel.h"
#include "daemon/memory/call_errors.h"
#include "daemon/steps/rank_steps.h"
#include "daemon/store/store.h"

static const char *const copies_directions[RT_COPY_DIRECTIONS] = {
	"host to host", "to device", "to host", "in devices", "unknown"};

/* What was put of a slot. */
struct copies_rank {
	int64_t instance; /* 0: none */
	struct rt_copies put;
};

struct copies {
	struct context *context;
	bool on;
	uint64_t second;
	size_t slots;
	struct copies_rank slot[];
};

static void copies_put(struct copies *copies, const struct rank *rank, uint64_t second, bool async, size_t direction,
	const struct rt_copy_sum *now, const struct rt_copy_sum *before)
{
	const struct rank_steps *steps = copies->context->steps;
	struct store *store = copies->context->store;
	int64_t step = steps ? rank_steps_step(steps, rank, (second + 1) * NSEC_PER_SEC) : STEPS_NONE;
	bool is_longest = now->longest_ns > before->longest_ns;

	store_put_copies(store, &(struct row_copies){
					.rank = field_int(rank->env.rank),
					.start_ns = field_time(store_utc_ns(store, second * NSEC_PER_SEC)),
					.step = field_int_if(step != STEPS_NONE, step),
					.direction = field_text(copies_directions[direction]),
					.is_async = field_int(async),
					.count = field_int((int64_t)(now->count - before->count)),
					.bytes = field_int((int64_t)(now->bytes - before->bytes)),
					.duration_ns = field_duration(now->ns - before->ns),
					.longest_ns = field_duration_if(is_longest, now->longest_ns),
					.held_count = field_int((int64_t)(now->held_count - before->held_count)),
					.held_bytes = field_int((int64_t)(now->held_bytes - before->held_bytes)),
					.held_ns = field_duration(now->held_ns - before->held_ns),
					.instance = field_int(rank->instance),
				});
}

/* What was summed since the last time, as rows of this second. */
static void copies_read(struct copies *copies, const struct rank *rank, uint64_t second)
{
	struct copies_rank *slot = rank->slot < copies->slots ? &copies->slot[rank->slot] : NULL;
	struct rt_copies now;

	if (!slot || !kernel_copies(copies->context->kernel, rank->slot, &now))
		return;
	for (size_t async = 0; slot->instance == rank->instance && async < 2; async++)
		for (size_t i = 0; i < RT_COPY_DIRECTIONS; i++)
			if (now.sum[async][i].count != slot->put.sum[async][i].count)
				copies_put(
					copies, rank, second, async, i, &now.sum[async][i], &slot->put.sum[async][i]);
	*slot = (struct copies_rank){rank->instance, now};
}

static void copies_on_rank(void *arg, const struct rank *rank, enum rank_change change)
{
	struct copies *copies = arg;

	if (copies->on && (change == RANK_ENDED || rank->role == RANK_ROLE_RANK))
		copies_read(copies, rank, monotonic_ns() / NSEC_PER_SEC);
}

static void copies_read_rank(void *arg, const struct rank *rank)
{
	struct copies *copies = arg;

	if (rank->role == RANK_ROLE_RANK)
		copies_read(copies, rank, copies->second);
}

static void copies_tick(struct context *context, uint64_t now_ns)
{
	struct copies *copies = context->copies;

	if (!copies || !copies->on || now_ns / NSEC_PER_SEC == copies->second)
		return;
	ranks_each(context->ranks, copies_read_rank, copies);
	copies->second = now_ns / NSEC_PER_SEC;
}

static void copies_level(struct context *context, enum level level, bool on)
{
	struct copies *copies = context->copies;

	if (level != LEVEL_L2 || !copies || copies->on == on)
		return;
	copies->second = monotonic_ns() / NSEC_PER_SEC;
	copies->on = true;
	ranks_each(context->ranks, copies_read_rank, copies);
	copies->on = on;
}

int copies_new(struct context *context, struct copies **ret)
{
	size_t slots = context->config.ranks_max;
	struct copies *copies = calloc(1, sizeof(*copies) + slots * sizeof(copies->slot[0]));
	int r;

	if (!copies)
		return -ENOMEM;
	copies->context = context;
	copies->slots = slots;
	r = ranks_observe(context->ranks, copies_on_rank, copies);
	if (r < 0) {
		free(copies);
		return r;
	}
	*ret = copies;
	return 0;
}

struct copies *copies_free(struct copies *copies)
{
	free(copies);
	return NULL;
}

static bool copies_takes(const char *event)
{
	return streq(event, "copy") || streq(event, "copy_async");
}

/* One that failed. */
static void copies_feed(struct context *context, const struct rank *rank, const struct call_record *record)
{
	const struct rt_call_event *event = record->event;
	struct call_fields fields;

	call_fields(record->probe, event->arg, event->event.flags, event->event.flags & RT_CALL_END, &fields);
	call_errors_put(context, rank, record, call_field(&fields, OP_FIELD_BYTES));
}

const struct call_sink copies_sink = {
	.takes = copies_takes, .feed = copies_feed, .level = copies_level, .tick = copies_tick};
