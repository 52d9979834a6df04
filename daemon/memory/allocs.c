/* SPDX-License-Identifier: Apache-2.0 */
/* One table of live allocations per rank, by slot; writes the rows. */
#include "daemon/memory/allocs.h"
#include "daemon/calls/call_fields.h"
#include "daemon/core/context.h"
#include "daemon/memory/call_errors.h"
#include "daemon/ranks/rank_budget.h"
#include "daemon/stacks/profile_rank.h"
#include "daemon/steps/rank_steps.h"
#include "daemon/store/store.h"

#include <stdlib.h>

/* For a stack, which the kernel sends in the hit of the call's record: several drains of the ring */
#define STACK_WAIT_NS NSEC_PER_SEC

struct rank_allocs {
	int64_t instance; /* 0: none */
	bool ended;	  /* what it held is still read by the memory collector, which is notified of the end later */
	struct alloc_live live;
	bool follows;	       /* rows wait for their stacks */
	struct list_link held; /* struct alloc_held, oldest first */
	size_t held_count;
	struct memory_calls calls; /* since they were last asked for */
	uint64_t longest_ns, longest_stack;
};

struct allocs {
	struct context *context;
	uint64_t rows, not_followed;
	size_t slots, slots_used; /* slots from slots_used on never had a rank */
	struct rank_allocs slot[];
};

/* A call that failed has a row in api_errors, too. */
static void allocs_store(struct store *store, const struct row_allocations *row)
{
	store_put_allocations(store, row);
	if (row->result.value.type == STORE_INT && row->result.value.integer)
		store_put_api_errors(store, &(struct row_api_errors){
						    .rank = row->rank,
						    .start_ns = row->start_ns,
						    .step = row->step,
						    .op = row->op,
						    .bytes = row->bytes,
						    .result = row->result,
						    .error = row->error,
						    .stack = row->stack,
						    .thread_id = row->thread_id,
						    .instance = row->instance,
					    });
}

/* Rows that wait for their stacks. */

/* names: NULL: its stack is not known. True: it has a name. */
static bool allocs_put_one(struct store *store, struct alloc_held *held, const struct profile_rank *names)
{
	int64_t id = 0;
	bool named = names && profile_rank_id(names, held->stack, &id);

	held->row.stack = field_int_if(named, id);
	allocs_store(store, &held->row);
	list_unlink(&held->link);
	free(held);
	return named;
}

/* names: as allocs_put_one(). */
static void allocs_release(
	struct allocs *allocs, struct rank_allocs *slot, struct alloc_held *held, const struct profile_rank *names)
{
	uint64_t took_ns = held->took_ns, stack = held->stack;

	slot->held_count--;
	if (!allocs_put_one(allocs->context->store, held, names) || took_ns <= slot->longest_ns)
		return;
	slot->longest_ns = took_ns;
	slot->longest_stack = stack;
}

/* The stack of a call comes before the next record of its thread, or not at all. */
static void allocs_release_thread(struct allocs *allocs, struct rank_allocs *slot, uint32_t thread_id)
{
	for (struct list_link *link = slot->held.prev; link != &slot->held; link = link->prev) {
		struct alloc_held *held = CONTAINER_OF(link, struct alloc_held, link);

		if (held->thread_id != thread_id)
			continue;
		if (!held->stack)
			allocs_release(allocs, slot, held, NULL);
		return;
	}
}

static void allocs_hold(struct allocs *allocs, struct rank_allocs *slot, const struct row_allocations *row,
	const struct call_record *record, const char *stage)
{
	const struct rt_call_event *event = record->event;
	struct alloc_held *held = slot->follows && slot->held_count < ALLOC_HELD_MAX ? malloc(sizeof(*held)) : NULL;

	if (!held) {
		allocs_store(allocs->context->store, row);
		return;
	}
	*held = (struct alloc_held){.row = *row,
		.start_ns = event->start_ns,
		.held_ns = monotonic_ns(),
		.took_ns = event->event.time_ns - event->start_ns,
		.thread_id = event->event.thread_id,
		.failed = call_result(event) != 0};
	copy_text(held->stage, sizeof(held->stage), stage ? stage : "");
	held->row.stage = field_text(stage ? held->stage : NULL);
	copy_text(held->op, sizeof(held->op), record->probe->op);
	held->row.op = field_text(held->op);
	list_add_tail(&slot->held, &held->link);
	slot->held_count++;
}

bool allocs_stack(struct allocs *allocs, uint32_t slot, uint32_t thread_id, uint64_t start_ns, uint64_t stack)
{
	if (slot >= allocs->slots)
		return false;
	LIST_EACH (link, &allocs->slot[slot].held) {
		struct alloc_held *held = CONTAINER_OF(link, struct alloc_held, link);

		if (held->thread_id != thread_id || held->start_ns != start_ns)
			continue;
		held->stack = stack;
		return true;
	}
	return false;
}

bool allocs_name(struct allocs *allocs, uint32_t number, const struct profile_rank *names, uint64_t now_ns, bool end)
{
	struct rank_allocs *slot = number < allocs->slots ? &allocs->slot[number] : NULL;
	bool at_once = false;

	if (!slot || !slot->follows)
		return false;
	LIST_EACH (link, &slot->held) {
		struct alloc_held *held = CONTAINER_OF(link, struct alloc_held, link);
		bool waits =
			held->stack ? profile_rank_waits(names, held->stack) : now_ns < held->held_ns + STACK_WAIT_NS;

		if (end || !waits)
			allocs_release(allocs, slot, held, names);
		else
			at_once |= held->failed && held->stack;
	}
	slot->follows = !end;
	return at_once;
}

void allocs_hand_over(struct allocs *allocs, uint32_t number, struct list_link *to)
{
	struct rank_allocs *slot = number < allocs->slots ? &allocs->slot[number] : NULL;

	if (!slot || !slot->follows)
		return;
	LIST_EACH (link, &slot->held) {
		struct alloc_held *held = CONTAINER_OF(link, struct alloc_held, link);

		if (!held->stack) {
			allocs_release(allocs, slot, held, NULL);
			continue;
		}
		list_unlink(link);
		list_add_tail(to, link);
	}
	slot->held_count = 0;
	slot->follows = false;
}

void allocs_put_held(struct store *store, struct list_link *list, const struct profile_rank *names, bool all)
{
	LIST_EACH (link, list) {
		struct alloc_held *held = CONTAINER_OF(link, struct alloc_held, link);

		if (all || !profile_rank_waits(names, held->stack))
			(void)allocs_put_one(store, held, names);
	}
}

static void allocs_forget(struct allocs *allocs, struct rank_allocs *slot)
{
	LIST_EACH (link, &slot->held)
		allocs_release(allocs, slot, CONTAINER_OF(link, struct alloc_held, link), NULL);
	slot->follows = false;
	alloc_live_clear(&slot->live);
	slot->instance = 0;
	slot->ended = false;
}

static void allocs_shed(void *arg, uint32_t slot)
{
	struct allocs *allocs = arg;

	if (slot < allocs->slots)
		allocs_forget(allocs, &allocs->slot[slot]);
}

static void allocs_on_rank(void *arg, const struct rank *rank, enum rank_change change)
{
	struct allocs *allocs = arg;

	if (rank->slot >= allocs->slots || allocs->slot[rank->slot].instance != rank->instance)
		return;
	if (change == RANK_ENDED)
		allocs->slot[rank->slot].ended = true;
	else if (rank->role != RANK_ROLE_RANK)
		allocs_forget(allocs, &allocs->slot[rank->slot]);
}

static void allocs_tick(struct context *context, uint64_t now_ns)
{
	struct allocs *allocs = context->allocs;

	for (size_t i = 0; allocs && i < allocs->slots_used; i++)
		if (allocs->slot[i].ended)
			allocs_forget(allocs, &allocs->slot[i]);
}

int allocs_new(struct context *context, struct allocs **ret)
{
	size_t slots = context->config.ranks_max;
	struct allocs *allocs = calloc(1, sizeof(*allocs) + slots * sizeof(allocs->slot[0]));
	int r;

	if (!allocs)
		return -ENOMEM;
	allocs->context = context;
	allocs->slots = slots;
	for (size_t i = 0; i < slots; i++)
		list_reset(&allocs->slot[i].held);
	r = ranks_observe(context->ranks, allocs_on_rank, allocs);
	if (r < 0) {
		free(allocs);
		return r;
	}
	rank_budget_part(context->budget, RANK_BUDGET_ALLOCS, allocs_shed, allocs);
	*ret = allocs;
	return 0;
}

struct allocs *allocs_free(struct allocs *allocs)
{
	for (size_t i = 0; allocs && i < allocs->slots_used; i++)
		allocs_forget(allocs, &allocs->slot[i]);
	free(allocs);
	return NULL;
}

static struct rank_allocs *allocs_of_rank(struct allocs *allocs, const struct rank *rank)
{
	struct rank_allocs *slot;

	if (rank->slot >= allocs->slots)
		return NULL;
	slot = &allocs->slot[rank->slot];
	if (slot->instance == rank->instance)
		return slot;
	allocs_forget(allocs, slot);
	alloc_live_init(&slot->live, ALLOC_LIVE_MAX);
	slot->instance = rank->instance;
	if (rank->slot >= allocs->slots_used)
		allocs->slots_used = rank->slot + 1;
	return slot;
}

void allocs_follow(struct allocs *allocs, const struct rank *rank)
{
	struct rank_allocs *slot = allocs_of_rank(allocs, rank);

	if (slot)
		slot->follows = true;
}

void allocs_calls(struct allocs *allocs, uint32_t number, struct memory_calls *ret, uint64_t *ret_stack)
{
	struct rank_allocs *slot = number < allocs->slots ? &allocs->slot[number] : NULL;

	*ret = slot ? slot->calls : (struct memory_calls){0};
	*ret_stack = slot ? slot->longest_stack : 0;
	if (!slot)
		return;
	slot->calls = (struct memory_calls){0};
	slot->longest_ns = slot->longest_stack = 0;
}

struct allocation {
	uint64_t address; /* 0 or COLL_UNKNOWN: none */
	uint64_t bytes;	  /* COLL_UNKNOWN: unknown */
	uint64_t device;
};

static void allocs_put(struct allocs *allocs, struct rank_allocs *slot, const struct rank *rank,
	const struct call_record *record, const struct allocation *allocation, bool wants_stack)
{
	const struct rt_call_event *event = record->event;
	struct rank_steps *steps = allocs->context->steps;
	struct store *store = allocs->context->store;
	struct steps_open open = {.step = STEPS_NONE};
	bool staged = steps && rank_steps_stage(steps, rank, event->event.thread_id, &open);
	int64_t step = !staged && steps ? rank_steps_step(steps, rank, event->start_ns) : open.step;
	bool whole = event->event.flags & RT_CALL_END && event->event.time_ns >= event->start_ns;
	const struct row_allocations row = {
		.rank = field_int(rank->env.rank),
		.step = field_int_if(step != STEPS_NONE, step),
		.stage = field_text(staged ? open.stage : NULL),
		.op = field_text(record->probe->op),
		.address =
			field_int_if(allocation->address && allocation->address != COLL_UNKNOWN, allocation->address),
		.bytes = field_int_if(allocation->bytes != COLL_UNKNOWN, allocation->bytes),
		.result = field_int_if(event->event.flags & RT_CALL_RESULT, call_result(event)),
		.error = call_errors_name(
			record->probe->op, event->event.flags & RT_CALL_RESULT ? call_result(event) : 0),
		.start_ns = field_time(store_utc_ns(store, event->start_ns)),
		.duration_ns = field_duration_if(whole, event->event.time_ns - event->start_ns),
		.device = field_int_if(allocation->device != COLL_UNKNOWN, (int32_t)allocation->device),
		.stack = field_int_if(false, 0),
		.thread_id = field_int(event->event.thread_id),
		.instance = field_int(rank->instance),
	};

	allocs->rows++;
	allocs_release_thread(allocs, slot, event->event.thread_id);
	if (wants_stack)
		allocs_hold(allocs, slot, &row, record, staged ? open.stage : NULL);
	else
		allocs_store(store, &row);
}

/* By its name: memory of the host, and physical memory, whose address is a handle. */
static enum alloc_kind allocs_kind(const char *op)
{
	return strstr(op, "Host") || strstr(op, "Create") || strstr(op, "Physical") ? ALLOC_OTHER : ALLOC_DEVICE;
}

static void on_alloc(struct allocs *allocs, struct rank_allocs *slot, bool failed, const struct call_record *record,
	struct allocation *allocation)
{
	if (failed)
		allocation->address = COLL_UNKNOWN; /* the pointer's value before the call */
	else if (allocation->address && allocation->address != COLL_UNKNOWN)
		allocs->not_followed += !alloc_live_add(
			&slot->live, allocation->address, allocation->bytes, allocs_kind(record->probe->op));
}

static void on_free(struct allocs *allocs, struct rank_allocs *slot, bool failed, const struct call_record *record,
	struct allocation *allocation)
{
	uint64_t bytes;

	(void)allocs;
	if (!failed && alloc_live_drop(&slot->live, allocation->address, record->event->start_ns, &bytes))
		allocation->bytes = bytes;
}

static void on_map(struct allocs *allocs, struct rank_allocs *slot, bool failed, const struct call_record *record,
	struct allocation *allocation)
{
	(void)record;
	if (!failed && allocation->address && allocation->address != COLL_UNKNOWN)
		allocs->not_followed +=
			!alloc_live_add(&slot->live, allocation->address, allocation->bytes, ALLOC_MAPPED);
}

static const struct {
	const char *event;
	bool row; /* of the view */
	void (*run)(struct allocs *allocs, struct rank_allocs *slot, bool failed, const struct call_record *record,
		struct allocation *allocation);
} events[] = {{"alloc", true, on_alloc}, {"free", true, on_free}, {"map", false, on_map}, {"unmap", false, on_free}};

static bool allocs_takes(const char *event)
{
	for (size_t i = 0; i < ARRAY_SIZE(events); i++)
		if (streq(events[i].event, event))
			return true;
	return false;
}

/* One that failed takes time and no memory: the allocator then gives back what it can. */
static void allocs_sum(struct rank_allocs *slot, const struct call_record *record, bool failed, uint64_t bytes)
{
	const struct rt_call_event *event = record->event;
	double ns = (double)(event->event.time_ns - event->start_ns);
	bool gives = streq(record->probe->event, "free");

	if (strstr(record->probe->op, "Host") || bytes == COLL_UNKNOWN || !(event->event.flags & RT_CALL_END) ||
		event->event.time_ns < event->start_ns)
		return;
	*(gives ? &slot->calls.give_ns : &slot->calls.take_ns) += ns;
	*(gives ? &slot->calls.give_bytes : &slot->calls.take_bytes) += failed ? 0 : (double)bytes;
}

static void allocs_feed(struct context *context, const struct rank *rank, const struct call_record *record)
{
	struct allocs *allocs = context->allocs;
	bool admitted = rank_budget_admits(context->budget, rank);
	struct rank_allocs *slot = allocs && admitted ? allocs_of_rank(allocs, rank) : NULL;
	bool failed = record->event->event.flags & RT_CALL_RESULT && call_result(record->event) != 0;
	struct allocation allocation;
	struct call_fields fields;

	if (!slot)
		return;
	call_fields(record->probe, record->event->arg, record->event->event.flags,
		record->event->event.flags & RT_CALL_END, &fields);
	allocation = (struct allocation){
		.address = call_field(&fields, OP_FIELD_ADDRESS),
		.bytes = call_field(&fields, OP_FIELD_BYTES),
		.device = call_field(&fields, OP_FIELD_DEVICE),
	};
	for (size_t i = 0; i < ARRAY_SIZE(events); i++) {
		if (!streq(events[i].event, record->probe->event))
			continue;
		events[i].run(allocs, slot, failed, record, &allocation);
		if (!events[i].row)
			continue;
		allocs_sum(slot, record, failed, allocation.bytes);
		allocs_put(
			allocs, slot, rank, record, &allocation, failed || record->probe->spec.flags & RT_CALL_STACK);
	}
	rank_budget_set(context->budget, RANK_BUDGET_ALLOCS, rank,
		slot->live.capacity * sizeof(struct alloc_live_entry) + slot->held_count * sizeof(struct alloc_held));
}

/* Addresses are reused while the level is off: the table would be wrong. */
static void allocs_level(struct context *context, enum level level, bool on)
{
	if (level != LEVEL_L2 || on || !context->allocs)
		return;
	for (size_t i = 0; i < context->allocs->slots_used; i++)
		allocs_forget(context->allocs, &context->allocs->slot[i]);
}

void allocs_counts(const struct allocs *allocs, struct allocs_counts *ret)
{
	*ret = (struct allocs_counts){.rows = allocs->rows, .not_followed = allocs->not_followed};
	for (size_t i = 0; i < allocs->slots_used; i++)
		ret->live += allocs->slot[i].live.lives;
}

size_t allocs_segments(
	const struct allocs *allocs, uint32_t slot, int64_t instance, struct memory_segment *ret, size_t max)
{
	const struct alloc_live *live =
		slot < allocs->slots && allocs->slot[slot].instance == instance ? &allocs->slot[slot].live : NULL;
	size_t count = 0;

	for (size_t i = 0; live && i < live->capacity && count < max; i++)
		if (live->entry[i].address && !live->entry[i].freed_ns && live->entry[i].kind &&
			live->entry[i].bytes != COLL_UNKNOWN)
			ret[count++] = (struct memory_segment){.address = live->entry[i].address,
				.bytes = live->entry[i].bytes,
				.is_expandable = live->entry[i].kind == ALLOC_MAPPED};
	return count;
}

const struct call_sink allocs_sink = {
	.takes = allocs_takes, .feed = allocs_feed, .level = allocs_level, .tick = allocs_tick};
