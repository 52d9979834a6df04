/* SPDX-License-Identifier: Apache-2.0 */
/* Owns one analyzer a rank, by slot, and turns what it reports into rows. */
#include "daemon/context.h"
#include "daemon/log.h"
#include "daemon/steps_room.h"
#include "daemon/store.h"

#define IDLE_NS (2 * NSEC_PER_SEC)
#define IN_FLIGHT_MAX 256

struct rank_steps {
	struct steps_room *room;
	struct steps *steps;
	int64_t instance;
	int32_t rank;
};

struct steps_room {
	struct context *context;
	size_t slots;
	uint64_t in_flight_next_ns;
	bool in_flight_rows; /* the table is not empty */
	struct rank_steps slot[];
};

static int64_t utc(struct steps_room *room, uint64_t time_ns)
{
	return (int64_t)store_utc_ns(room->context->store, time_ns);
}

static void on_stage(void *arg, const struct steps_stage *stage)
{
	struct rank_steps *rank = arg;
	const struct store_value row[] = {
		V_INT(rank->rank), stage->step == STEPS_NONE ? V_NULL : V_INT(stage->step), V_TEXT(stage->stage),
		V_TEXT(stage->name), V_INT(utc(rank->room, stage->start_ns)), V_INT(stage->duration_ns),
		V_INT(stage->thread_id), V_INT(stage->depth), V_INT(rank->instance),
	};

	(void)store_put(rank->room->context->store, TABLE_STAGES, row, ARRAY_SIZE(row)); /* the store counts its drops */
}

static void on_step(void *arg, const struct steps_step *step)
{
	struct rank_steps *rank = arg;
	const struct store_value row[] = {
		V_INT(rank->rank), V_INT(step->step), V_INT(utc(rank->room, step->start_ns)), V_INT(step->duration_ns),
		V_TEXT(step->kind), V_INT(rank->instance),
	};

	(void)store_put(rank->room->context->store, TABLE_STEPS, row, ARRAY_SIZE(row));
}

static void forget(struct rank_steps *slot)
{
	if (!slot->steps)
		return;
	steps_end(slot->steps, monotonic_ns());
	slot->steps = steps_free(slot->steps);
}

/* The analyzer of a rank, made at its first need; NULL where there is no memory. */
static struct rank_steps *of_rank(struct steps_room *room, const struct rank *rank)
{
	struct rank_steps *slot;
	int64_t last = 0;

	if (rank->slot >= room->slots)
		return NULL;
	slot = &room->slot[rank->slot];
	if (slot->steps && slot->instance == rank->instance)
		return slot;
	forget(slot);
	*slot = (struct rank_steps){.room = room, .instance = rank->instance, .rank = rank->env.rank};
	(void)store_last_step(room->context->store, rank->instance, &last); /* no earlier steps: numbers start at 1 */
	slot->steps = steps_new(&(struct steps_sink){.stage = on_stage, .step = on_step, .arg = slot}, last + 1,
				rank->from_start);
	return slot->steps ? slot : NULL;
}

static void on_rank(void *arg, const struct rank *rank, enum rank_change change)
{
	struct steps_room *room = arg;

	if (rank->slot < room->slots && room->slot[rank->slot].instance == rank->instance &&
	    (change == RANK_ENDED || rank->role != RANK_ROLE_RANK))
		forget(&room->slot[rank->slot]);
}

int steps_room_new(struct context *context, struct steps_room **ret)
{
	size_t slots = context->config.ranks_max;
	struct steps_room *room = calloc(1, sizeof(*room) + slots * sizeof(room->slot[0]));
	int r;

	if (!room)
		return -ENOMEM;
	room->context = context;
	room->slots = slots;
	r = ranks_observe(context->ranks, on_rank, room);
	if (r < 0) {
		free(room);
		return r;
	}
	*ret = room;
	return 0;
}

struct steps_room *steps_room_free(struct steps_room *room)
{
	if (!room)
		return NULL;
	for (size_t i = 0; i < room->slots; i++)
		forget(&room->slot[i]);
	(void)store_replace(room->context->store, TABLE_IN_FLIGHT); /* nothing is watched any more */
	free(room);
	return NULL;
}

void steps_room_mark(struct steps_room *room, const struct rank *rank, const struct steps_mark *mark)
{
	struct rank_steps *slot = of_rank(room, rank);

	if (slot)
		steps_feed(slot->steps, mark);
}

void steps_room_names_readable(struct steps_room *room, const struct rank *rank, bool readable)
{
	struct rank_steps *slot = of_rank(room, rank);

	if (slot)
		steps_names_readable(slot->steps, readable);
}

static size_t put_in_flight(struct steps_room *room, struct rank_steps *slot)
{
	struct steps_open open[IN_FLIGHT_MAX];
	size_t count = steps_in_flight(slot->steps, open, ARRAY_SIZE(open));

	for (size_t i = 0; i < count; i++) {
		const struct store_value row[] = {
			V_INT(slot->rank), open[i].step == STEPS_NONE ? V_NULL : V_INT(open[i].step), V_TEXT(open[i].stage),
			V_TEXT(open[i].name), V_INT(utc(room, open[i].start_ns)), V_INT(open[i].thread_id),
			V_INT(open[i].depth), V_INT(slot->instance),
		};

		(void)store_put(room->context->store, TABLE_IN_FLIGHT, row, ARRAY_SIZE(row));
	}
	return count;
}

void steps_room_tick(struct steps_room *room, uint64_t now_ns)
{
	bool refresh = now_ns >= room->in_flight_next_ns;
	size_t rows = 0;

	if (refresh) {
		room->in_flight_next_ns = now_ns + room->context->config.flush_interval_ns;
		if (room->in_flight_rows)
			(void)store_replace(room->context->store, TABLE_IN_FLIGHT);
	}
	for (size_t i = 0; i < room->slots; i++) {
		if (!room->slot[i].steps)
			continue;
		steps_idle(room->slot[i].steps, now_ns, IDLE_NS);
		if (refresh)
			rows += put_in_flight(room, &room->slot[i]);
	}
	if (refresh)
		room->in_flight_rows = rows > 0;
}

bool steps_room_current(struct steps_room *room, const struct rank *rank, struct steps_open *ret)
{
	struct steps_open open[IN_FLIGHT_MAX];
	struct rank_steps *slot;
	size_t count;

	if (rank->slot >= room->slots)
		return false;
	slot = &room->slot[rank->slot];
	if (!slot->steps || slot->instance != rank->instance)
		return false;
	count = steps_in_flight(slot->steps, open, ARRAY_SIZE(open));
	if (count == 0)
		return false;
	/* Outermost first over all threads: the last of the first thread is the innermost of it. */
	for (size_t i = 1; i < count && open[i].thread_id == open[0].thread_id; i++)
		open[0] = open[i];
	*ret = open[0];
	return true;
}
