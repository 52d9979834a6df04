/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/judge/replay.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

struct replayed_op {
	double length_ns, alone_ns, first_ns;
	double start_ns, end_ns;
	uint32_t group, next_member;
	uint32_t edge[REPLAY_EVENT_MAX]; /* first of those that come after this event */
	uint32_t before, left;		 /* so many edges lead here; of those, not yet followed */
	bool started;
};

struct edge {
	double lag_ns;
	uint32_t to, next;
};

struct group {
	double begin_ns;
	uint32_t first_member, members, left;
	bool loose, open; /* open: one has left it before all were there */
};

struct replay {
	struct replayed_op *op;
	struct edge *edge;
	struct group *group;
	uint32_t *ready;  /* stack of operations that can start */
	uint32_t *lonely; /* loose groups with one member started; quick ones from the front, others from the back */
	size_t ops_capacity, edges_capacity, groups_capacity;
	uint32_t ops, edges, groups;
	uint32_t readies, quick, slow, done; /* quick, slow: how many of lonely */
};

struct replay *replay_new(void)
{
	return calloc(1, sizeof(struct replay));
}

struct replay *replay_free(struct replay *replay)
{
	if (!replay)
		return NULL;
	free(replay->op);
	free(replay->edge);
	free(replay->group);
	free(replay->ready);
	free(replay->lonely);
	free(replay);
	return NULL;
}

/* What was in it is not kept. */
static int capacity(void **array, size_t *ret_capacity, size_t wanted, size_t size)
{
	if (wanted >= REPLAY_NONE)
		return -E2BIG;
	if (*array && wanted <= *ret_capacity)
		return 0;
	free(*array);
	*array = calloc(wanted ? wanted : 1, size);
	*ret_capacity = *array ? wanted : 0;
	return *array ? 0 : -ENOMEM;
}

int replay_begin(struct replay *replay, size_t ops, size_t edges, size_t groups)
{
	size_t ready_capacity = replay->ops_capacity, lonely_capacity = replay->groups_capacity;
	int r = capacity((void **)&replay->op, &replay->ops_capacity, ops, sizeof(*replay->op));

	replay->ops = replay->edges = replay->groups = 0;
	if (!r)
		r = capacity((void **)&replay->edge, &replay->edges_capacity, edges, sizeof(*replay->edge));
	if (!r)
		r = capacity((void **)&replay->group, &replay->groups_capacity, groups, sizeof(*replay->group));
	if (!r)
		r = capacity((void **)&replay->ready, &ready_capacity, ops, sizeof(*replay->ready));
	if (!r)
		r = capacity((void **)&replay->lonely, &lonely_capacity, groups, sizeof(*replay->lonely));
	if (r)
		replay->ops_capacity = replay->edges_capacity = replay->groups_capacity = 0;
	return r;
}

uint32_t replay_group(struct replay *replay, bool loose)
{
	replay->group[replay->groups] = (struct group){.first_member = REPLAY_NONE, .loose = loose};
	return replay->groups++;
}

uint32_t replay_op(struct replay *replay, uint32_t group, double length_ns, double alone_ns)
{
	uint32_t index = replay->ops++;
	struct replayed_op *op = &replay->op[index];

	*op = (struct replayed_op){.length_ns = length_ns,
		.alone_ns = alone_ns,
		.group = group,
		.next_member = REPLAY_NONE,
		.edge = {REPLAY_NONE, REPLAY_NONE}};
	if (group != REPLAY_NONE) {
		op->next_member = replay->group[group].first_member;
		replay->group[group].first_member = index;
		replay->group[group].members++;
	}
	return index;
}

uint32_t replay_after(struct replay *replay, uint32_t op, uint32_t before, enum replay_event event, double lag_ns)
{
	uint32_t index = replay->edges++;

	replay->edge[index] = (struct edge){.lag_ns = lag_ns, .to = op, .next = replay->op[before].edge[event]};
	replay->op[before].edge[event] = index;
	replay->op[op].before++;
	return index;
}

void replay_set_lag(struct replay *replay, uint32_t edge, double lag_ns)
{
	replay->edge[edge].lag_ns = lag_ns;
}

void replay_set_length(struct replay *replay, uint32_t op, double length_ns)
{
	replay->op[op].length_ns = length_ns;
}

void replay_set_first(struct replay *replay, uint32_t op, double start_ns)
{
	replay->op[op].first_ns = start_ns;
}

double replay_start_ns(const struct replay *replay, uint32_t op)
{
	return replay->op[op].start_ns;
}

double replay_end_ns(const struct replay *replay, uint32_t op)
{
	return replay->op[op].end_ns;
}

static void happened(struct replay *replay, const struct replayed_op *op, enum replay_event event, double at_ns)
{
	for (uint32_t e = op->edge[event]; e != REPLAY_NONE; e = replay->edge[e].next) {
		struct replayed_op *to = &replay->op[replay->edge[e].to];
		double start_ns = at_ns + replay->edge[e].lag_ns;

		if (start_ns > to->start_ns)
			to->start_ns = start_ns;
		if (--to->left == 0)
			replay->ready[replay->readies++] = replay->edge[e].to;
	}
}

static void replay_end(struct replay *replay, struct replayed_op *op, double end_ns)
{
	op->end_ns = end_ns;
	replay->done++;
	happened(replay, op, REPLAY_END, end_ns);
}

static void replay_start(struct replay *replay, struct replayed_op *op)
{
	struct group *group;

	op->started = true;
	happened(replay, op, REPLAY_START, op->start_ns);
	if (op->group == REPLAY_NONE) {
		replay_end(replay, op, op->start_ns + op->length_ns);
		return;
	}
	group = &replay->group[op->group];
	if (op->start_ns > group->begin_ns)
		group->begin_ns = op->start_ns;
	if (group->left-- == group->members && group->loose && group->left) {
		if (op->alone_ns <= op->length_ns)
			replay->lonely[replay->quick++] = op->group;
		else
			replay->lonely[replay->groups - ++replay->slow] = op->group;
	}
	if (group->open)
		replay_end(replay, op, group->begin_ns + op->length_ns);
	else if (group->left == 0)
		for (uint32_t m = group->first_member; m != REPLAY_NONE; m = replay->op[m].next_member)
			replay_end(replay, &replay->op[m], group->begin_ns + replay->op[m].length_ns);
}

/* Lets those leave that are in the group alone. */
static void replay_leave(struct replay *replay, struct group *group)
{
	group->open = true;
	for (uint32_t m = group->first_member; m != REPLAY_NONE; m = replay->op[m].next_member) {
		struct replayed_op *op = &replay->op[m];

		if (op->started && isnan(op->end_ns))
			replay_end(replay, op, op->start_ns + op->alone_ns);
	}
}

static void rewind_all(struct replay *replay)
{
	replay->readies = replay->quick = replay->slow = replay->done = 0;
	for (uint32_t g = 0; g < replay->groups; g++) {
		replay->group[g].begin_ns = -INFINITY;
		replay->group[g].left = replay->group[g].members;
		replay->group[g].open = false;
	}
	for (uint32_t i = replay->ops; i-- > 0;) {
		struct replayed_op *op = &replay->op[i];

		op->start_ns = op->before ? -INFINITY : op->first_ns;
		op->end_ns = NAN;
		op->started = false;
		op->left = op->before;
		if (!op->before)
			replay->ready[replay->readies++] = i;
	}
}

/* Nothing goes on: who was quick has left. false: no rank can. Each group is checked once. */
static bool let_leave(struct replay *replay, uint32_t *quick, uint32_t *slow)
{
	bool left = false;

	for (; *quick < replay->quick; ++*quick) {
		struct group *group = &replay->group[replay->lonely[*quick]];

		if (group->left > 0) {
			replay_leave(replay, group);
			left = true;
		}
	}
	while (!left && *slow < replay->slow) {
		struct group *group = &replay->group[replay->lonely[replay->groups - ++*slow]];

		if (group->left > 0) {
			replay_leave(replay, group);
			left = true;
		}
	}
	return left;
}

int replay_run(struct replay *replay)
{
	uint32_t quick = 0, slow = 0;

	rewind_all(replay);
	do {
		while (replay->readies > 0)
			replay_start(replay, &replay->op[replay->ready[--replay->readies]]);
	} while (let_leave(replay, &quick, &slow));
	return replay->done == replay->ops ? 0 : -ELOOP;
}
