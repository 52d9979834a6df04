/* SPDX-License-Identifier: Apache-2.0 */
/* One analyzer per rank, by slot; turns its output into rows. */
#include "daemon/core/context.h"
#include "daemon/base/log.h"
#include "daemon/ranks/rank_budget.h"
#include "daemon/steps/rank_steps.h"
#include "daemon/store/store.h"

#define IDLE_NS (2 * NSEC_PER_SEC)
#define IN_FLIGHT_MAX 256

struct past_step {
	int64_t step;
	uint64_t start_ns, end_ns;
};

struct rank_steps_state {
	struct rank_steps *rank_steps;
	struct steps *steps;
	int64_t instance;
	int32_t rank;
	int64_t ended; /* step open when the rank ended, or STEPS_NONE */
	uint64_t ended_ns;
	uint64_t mark_ns;   /* newest mark; 0: none since the last gap */
	uint64_t steady_ns; /* steps_may_sample() since then; 0: not */
	bool names_unreadable;
	struct past_step *past; /* ring of RANK_STEPS_PAST; NULL before the first */
	uint64_t pasts;		/* steps so far */
};

struct rank_steps {
	struct context *context;
	struct {
		const struct rank_steps_observer *observer; /* NULL: free */
		void *arg;
	} observers[RANK_STEPS_OBSERVERS];
	size_t slots, slots_used; /* slots from slots_used on never had a rank */
	uint64_t in_flight_next_ns;
	bool in_flight_rows; /* the table has rows */
	struct rank_steps_state slot[];
};

static int64_t rank_steps_utc(struct rank_steps *rank_steps, uint64_t time_ns)
{
	return (int64_t)store_utc_ns(rank_steps->context->store, time_ns);
}

static uint32_t rank_steps_number_of(const struct rank_steps_state *rank)
{
	return (uint32_t)(rank - rank->rank_steps->slot);
}

static void rank_steps_on_stage(void *arg, const struct steps_stage *stage)
{
	struct rank_steps_state *rank = arg;
	const struct row_stages row = {
		.rank = field_int(rank->rank),
		.step = field_int_if(stage->step != STEPS_NONE, stage->step),
		.stage = field_text(stage->stage),
		.name = field_text(stage->name),
		.start_ns = field_time(rank_steps_utc(rank->rank_steps, stage->start_ns)),
		.duration_ns = field_duration(stage->duration_ns),
		.thread_id = field_int(stage->thread_id),
		.depth = field_int(stage->depth),
		.instance = field_int(rank->instance),
	};

	store_put_stages(rank->rank_steps->context->store, &row);
	for (size_t i = 0; i < RANK_STEPS_OBSERVERS; i++) {
		const struct rank_steps_observer *observer = rank->rank_steps->observers[i].observer;

		if (observer && observer->stage)
			observer->stage(
				rank->rank_steps->observers[i].arg, rank_steps_number_of(rank), rank->instance, stage);
	}
}

static void rank_steps_remember(struct rank_steps_state *rank, const struct steps_step *step)
{
	if (!rank->past)
		rank->past = calloc(RANK_STEPS_PAST, sizeof(*rank->past));
	if (rank->past)
		rank->past[rank->pasts++ % RANK_STEPS_PAST] =
			(struct past_step){step->step, step->start_ns, step->start_ns + step->duration_ns};
}

static void rank_steps_on_step(void *arg, const struct steps_step *step)
{
	struct rank_steps_state *rank = arg;
	const struct row_steps row = {
		.rank = field_int(rank->rank),
		.step = field_int(step->step),
		.start_ns = field_time(rank_steps_utc(rank->rank_steps, step->start_ns)),
		.duration_ns = field_duration(step->duration_ns),
		.kind = field_text(step->kind),
		.instance = field_int(rank->instance),
		.unsplit = field_int_if(step->unsplit, 1),
	};

	store_put_steps(rank->rank_steps->context->store, &row);
	for (size_t i = 0; i < RANK_STEPS_OBSERVERS; i++) {
		const struct rank_steps_observer *observer = rank->rank_steps->observers[i].observer;

		if (observer && observer->step)
			observer->step(
				rank->rank_steps->observers[i].arg, rank_steps_number_of(rank), rank->instance, step);
	}
	rank_steps_remember(rank, step);
}

/* Stages open at the rank's end: the only evidence of where a rank died that blocks others. */
static void rank_steps_put_cut(struct rank_steps_state *slot)
{
	struct steps_open open[IN_FLIGHT_MAX];
	size_t count = steps_in_flight(slot->steps, open, ARRAY_SIZE(open));

	for (size_t i = 0; i < count; i++) {
		uint64_t start_ns = open[i].start_ns;
		const struct row_cut_stages row = {
			.rank = field_int(slot->rank),
			.step = field_int_if(open[i].step != STEPS_NONE, open[i].step),
			.stage = field_text(open[i].stage),
			.name = field_text(open[i].name),
			.start_ns = field_time(rank_steps_utc(slot->rank_steps, start_ns)),
			.duration_ns = field_duration(slot->ended_ns > start_ns ? slot->ended_ns - start_ns : 0),
			.thread_id = field_int(open[i].thread_id),
			.depth = field_int(open[i].depth),
			.instance = field_int(slot->instance),
		};

		store_put_cut_stages(slot->rank_steps->context->store, &row);
	}
}

static void rank_steps_forget(struct rank_steps_state *slot)
{
	if (!slot->steps)
		return;
	slot->ended_ns = monotonic_ns();
	rank_steps_put_cut(slot);
	slot->ended = steps_step_at(slot->steps, slot->ended_ns);
	steps_end(slot->steps, slot->ended_ns);
	slot->steps = steps_free(slot->steps);
}

static void rank_steps_account(
	struct rank_steps *rank_steps, const struct rank *rank, const struct rank_steps_state *slot)
{
	size_t past = slot->past ? RANK_STEPS_PAST * sizeof(*slot->past) : 0;

	rank_budget_set(rank_steps->context->budget, RANK_BUDGET_STEPS, rank,
		slot->steps ? steps_bytes(slot->steps) + past : past);
}

/* The rank needs too much: its open stages are lost, and its next step begins after that. */
static void rank_steps_shed(void *arg, uint32_t number)
{
	struct rank_steps *rank_steps = arg;
	struct rank_steps_state *slot = number < rank_steps->slots ? &rank_steps->slot[number] : NULL;

	if (!slot)
		return;
	slot->steps = steps_free(slot->steps);
	free(slot->past);
	slot->past = NULL;
	slot->pasts = 0;
}

/* Restarts with the next step number, as a rank not seen from its start. */
static void rank_steps_restart(struct rank_steps_state *slot)
{
	int64_t open = steps_step_at(slot->steps, monotonic_ns()), next;

	steps_end(slot->steps, monotonic_ns());
	next = steps_next(slot->steps);
	if (open != STEPS_NONE && open >= next) /* its stages have that number */
		next = open + 1;
	steps_free(slot->steps);
	slot->steps =
		steps_new(&(struct steps_sink){.stage = rank_steps_on_stage, .step = rank_steps_on_step, .arg = slot},
			next, false);
	if (slot->steps)
		steps_names_readable(slot->steps, !slot->names_unreadable);
	slot->mark_ns = 0;
}

void rank_steps_gap(struct rank_steps *rank_steps)
{
	for (size_t i = 0; i < rank_steps->slots_used; i++)
		if (rank_steps->slot[i].steps)
			rank_steps_restart(&rank_steps->slot[i]);
}

/* The rank's analyzer, created on first use; NULL: out of memory. */
static struct rank_steps_state *rank_steps_of_rank(struct rank_steps *rank_steps, const struct rank *rank)
{
	struct rank_steps_state *slot;
	int64_t last = 0;

	if (rank->slot >= rank_steps->slots)
		return NULL;
	slot = &rank_steps->slot[rank->slot];
	if (slot->steps && slot->instance == rank->instance)
		return slot;
	if (rank->slot >= rank_steps->slots_used)
		rank_steps->slots_used = rank->slot + 1;
	rank_steps_forget(slot);
	free(slot->past);
	*slot = (struct rank_steps_state){
		.rank_steps = rank_steps, .instance = rank->instance, .rank = rank->env.rank, .ended = STEPS_NONE};
	(void)store_last_step(rank_steps->context->store, rank->instance, &last); /* none: numbers start at 1 */
	slot->steps =
		steps_new(&(struct steps_sink){.stage = rank_steps_on_stage, .step = rank_steps_on_step, .arg = slot},
			last + 1, rank->from_start && !rank_budget_was_frozen(rank_steps->context->budget, rank));
	return slot->steps ? slot : NULL;
}

static void rank_steps_on_rank(void *arg, const struct rank *rank, enum rank_change change)
{
	struct rank_steps *rank_steps = arg;

	if (rank->slot < rank_steps->slots && rank_steps->slot[rank->slot].instance == rank->instance &&
		(change == RANK_ENDED || rank->role != RANK_ROLE_RANK))
		rank_steps_forget(&rank_steps->slot[rank->slot]);
}

int rank_steps_new(struct context *context, struct rank_steps **ret)
{
	size_t slots = context->config.ranks_max;
	struct rank_steps *rank_steps = calloc(1, sizeof(*rank_steps) + slots * sizeof(rank_steps->slot[0]));
	int r;

	if (!rank_steps)
		return -ENOMEM;
	rank_steps->context = context;
	rank_steps->slots = slots;
	r = ranks_observe(context->ranks, rank_steps_on_rank, rank_steps);
	if (r < 0) {
		free(rank_steps);
		return r;
	}
	rank_budget_part(context->budget, RANK_BUDGET_STEPS, rank_steps_shed, rank_steps);
	*ret = rank_steps;
	return 0;
}

int rank_steps_observe(struct rank_steps *rank_steps, const struct rank_steps_observer *observer, void *arg)
{
	for (size_t i = 0; i < RANK_STEPS_OBSERVERS; i++)
		if (rank_steps->observers[i].arg == arg)
			rank_steps->observers[i].observer = NULL;
	for (size_t i = 0; observer && i < RANK_STEPS_OBSERVERS; i++) {
		if (rank_steps->observers[i].observer)
			continue;
		rank_steps->observers[i].observer = observer;
		rank_steps->observers[i].arg = arg;
		return 0;
	}
	return observer ? -ENOSPC : 0;
}

struct rank_steps *rank_steps_free(struct rank_steps *rank_steps)
{
	if (!rank_steps)
		return NULL;
	for (size_t i = 0; i < rank_steps->slots_used; i++) {
		rank_steps_forget(&rank_steps->slot[i]);
		free(rank_steps->slot[i].past);
	}
	(void)store_replace(rank_steps->context->store, TABLE_IN_FLIGHT); /* nothing is watched any longer */
	free(rank_steps);
	return NULL;
}

void rank_steps_mark(struct rank_steps *rank_steps, const struct rank *rank, const struct steps_mark *mark)
{
	struct rank_steps_state *slot =
		rank_budget_admits(rank_steps->context->budget, rank) ? rank_steps_of_rank(rank_steps, rank) : NULL;

	if (!slot)
		return;
	if (mark->time_ns > slot->mark_ns)
		slot->mark_ns = mark->time_ns;
	steps_feed(slot->steps, mark);
	rank_steps_account(rank_steps, rank, slot);
}

void rank_steps_names_readable(struct rank_steps *rank_steps, const struct rank *rank, bool readable)
{
	struct rank_steps_state *slot =
		rank_budget_admits(rank_steps->context->budget, rank) ? rank_steps_of_rank(rank_steps, rank) : NULL;

	if (!slot)
		return;
	slot->names_unreadable = !readable;
	steps_names_readable(slot->steps, readable);
}

/* State of this rank; NULL if the slot was reused. */
static const struct rank_steps_state *rank_steps_slot_of(const struct rank_steps *rank_steps, const struct rank *rank)
{
	if (rank->slot >= rank_steps->slots || rank_steps->slot[rank->slot].instance != rank->instance)
		return NULL;
	return &rank_steps->slot[rank->slot];
}

bool rank_steps_may_sample(const struct rank_steps *rank_steps, const struct rank *rank, uint64_t now_ns)
{
	const struct rank_steps_state *slot = rank_steps_slot_of(rank_steps, rank);

	return slot && slot->steps && steps_may_sample(slot->steps) && slot->steady_ns &&
	       now_ns >= slot->steady_ns + RANK_STEPS_STEADY_NS && now_ns < slot->mark_ns + RANK_STEPS_SILENT_NS;
}

void rank_steps_sample(struct rank_steps *rank_steps, bool on)
{
	for (size_t i = 0; i < rank_steps->slots_used; i++)
		if (rank_steps->slot[i].steps)
			steps_sample(rank_steps->slot[i].steps, on);
}

void rank_steps_watch(struct rank_steps *rank_steps, bool all, uint64_t from_ns)
{
	for (size_t i = 0; i < rank_steps->slots_used; i++)
		if (rank_steps->slot[i].steps)
			steps_watch(rank_steps->slot[i].steps, all, from_ns);
}

static size_t rank_steps_put_in_flight(struct rank_steps *rank_steps, struct rank_steps_state *slot)
{
	struct steps_open open[IN_FLIGHT_MAX];
	size_t count = steps_in_flight(slot->steps, open, ARRAY_SIZE(open));

	for (size_t i = 0; i < count; i++) {
		const struct row_in_flight row = {
			.rank = field_int(slot->rank),
			.step = field_int_if(open[i].step != STEPS_NONE, open[i].step),
			.stage = field_text(open[i].stage),
			.name = field_text(open[i].name),
			.start_ns = field_time(rank_steps_utc(rank_steps, open[i].start_ns)),
			.thread_id = field_int(open[i].thread_id),
			.depth = field_int(open[i].depth),
			.instance = field_int(slot->instance),
		};

		store_put_in_flight(rank_steps->context->store, &row);
	}
	return count;
}

void rank_steps_tick(struct rank_steps *rank_steps, uint64_t now_ns)
{
	bool refresh = now_ns >= rank_steps->in_flight_next_ns;
	size_t rows = 0;

	if (refresh) {
		rank_steps->in_flight_next_ns = now_ns + rank_steps->context->config.flush_interval_ns;
		if (rank_steps->in_flight_rows)
			(void)store_replace(rank_steps->context->store, TABLE_IN_FLIGHT);
	}
	for (size_t i = 0; i < rank_steps->slots_used; i++) {
		if (!rank_steps->slot[i].steps)
			continue;
		steps_idle(rank_steps->slot[i].steps, now_ns, IDLE_NS);
		if (!steps_may_sample(rank_steps->slot[i].steps))
			rank_steps->slot[i].steady_ns = 0;
		else if (!rank_steps->slot[i].steady_ns)
			rank_steps->slot[i].steady_ns = now_ns;
		if (refresh)
			rows += rank_steps_put_in_flight(rank_steps, &rank_steps->slot[i]);
	}
	if (refresh)
		rank_steps->in_flight_rows = rows > 0;
}

/* open[] has outermost stages first; takes the last one of the thread at `first`. */
static bool rank_steps_innermost(const struct steps_open *open, size_t count, size_t first, struct steps_open *ret)
{
	size_t last = first;

	if (first >= count)
		return false;
	while (last + 1 < count && open[last + 1].thread_id == open[first].thread_id)
		last++;
	*ret = open[last];
	return true;
}

bool rank_steps_stage(
	const struct rank_steps *rank_steps, const struct rank *rank, uint32_t thread_id, struct steps_open *ret)
{
	const struct rank_steps_state *slot = rank_steps_slot_of(rank_steps, rank);
	struct steps_open open[IN_FLIGHT_MAX];
	size_t count, own = 0;

	if (!slot || !slot->steps)
		return false;
	count = steps_in_flight(slot->steps, open, ARRAY_SIZE(open));
	while (own < count && open[own].thread_id != thread_id)
		own++;
	/* Without stages of this thread: the step thread, which comes first. */
	return rank_steps_innermost(open, count, own < count ? own : 0, ret);
}

bool rank_steps_current(struct rank_steps *rank_steps, const struct rank *rank, struct steps_open *ret)
{
	return rank_steps_stage(rank_steps, rank, 0, ret);
}

bool rank_steps_progress(
	const struct rank_steps *rank_steps, uint32_t slot, int64_t instance, struct rank_steps_progress *ret)
{
	const struct rank of = {.slot = slot, .instance = instance};
	const struct rank_steps_state *rank = rank_steps_slot_of(rank_steps, &of);
	const struct past_step *past;

	if (!rank)
		return false;
	past = rank->past && rank->pasts ? &rank->past[(rank->pasts - 1) % RANK_STEPS_PAST] : NULL;
	*ret = (struct rank_steps_progress){
		.mark_ns = rank->mark_ns,
		.steps = rank->pasts,
		.step_end_ns = past ? past->end_ns : 0,
		.thread_id = rank->steps ? steps_step_thread(rank->steps) : 0,
	};
	ret->in_stage = rank_steps_stage(rank_steps, &of, ret->thread_id, &ret->stage) && ret->thread_id &&
			ret->stage.thread_id == ret->thread_id;
	return true;
}

int64_t rank_steps_step(const struct rank_steps *rank_steps, const struct rank *rank, uint64_t time_ns)
{
	const struct rank_steps_state *slot = rank_steps_slot_of(rank_steps, rank);
	uint64_t past_end_ns = 0;

	if (!slot)
		return STEPS_NONE;
	for (uint64_t i = slot->pasts; i > 0 && i + RANK_STEPS_PAST > slot->pasts; i--) {
		const struct past_step *past = &slot->past[(i - 1) % RANK_STEPS_PAST];

		if (time_ns >= past->start_ns && time_ns < past->end_ns)
			return past->step;
		past_end_ns = past->end_ns > past_end_ns ? past->end_ns : past_end_ns;
	}
	if (slot->steps)
		return steps_step_at(slot->steps, time_ns);
	return time_ns >= past_end_ns && time_ns <= slot->ended_ns ? slot->ended : STEPS_NONE;
}
