/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who can be compared with whom: see measure.h. The pipeline stage where it is known from outside. Else ranks are of
 * one class that take part in collectives of one communicator, unless two of its members send each other what pipeline
 * neighbours do: then it spans stages. Where the kinds of communicators are known, only those that join equals join;
 * where nothing was seen of operations, all ranks are of one class. A partition that differs from the one adopted must
 * be seen twice in a row.
 */
#include <errno.h>
#include <string.h>

#include "analyzers/judge/measure_internal.h"
#include "analyzers/base/robust.h"

void measure_class_free(struct measure_class_state *state)
{
	columns_free(&state->by_rank);
	columns_free(&state->by_comm);
	*state = (struct measure_class_state){0};
}

/* Other ranks: all is learned anew. */
static int measure_class_reserve(struct measure_class_state *state, size_t ranks)
{
	if (ranks == state->ranks && state->of)
		return 0;
	measure_class_free(state);
	state->by_rank = COLUMNS_OF(COLUMN_OF(state->of), COLUMN_OF(state->next_of), COLUMN_OF(state->parent),
		COLUMN_OF(state->comms), COLUMN_OF(state->comm), COLUMN_OF(state->pair));
	state->by_comm = COLUMNS_OF(COLUMN_OF(state->lead), COLUMN_OF(state->split));
	if (!columns_renew(&state->by_rank, ranks + 1))
		return -ENOMEM;
	state->ranks = ranks;
	return 0;
}

static uint32_t measure_class_root_of(uint32_t *parent, uint32_t rank)
{
	while (parent[rank] != rank) {
		parent[rank] = parent[parent[rank]];
		rank = parent[rank];
	}
	return rank;
}

static bool takes_part(const struct measure_class_state *state, uint32_t rank, uint32_t comm)
{
	for (uint32_t i = state->comms[rank]; i-- > 0;) {
		if (state->comm[rank][i] == comm)
			return true;
	}
	return false;
}

static void list_comms(struct measure *measure, const struct frame *frame)
{
	struct measure_class_state *state = &measure->classes;

	memset(state->comms, 0, frame->ranks * sizeof(*state->comms));
	for (size_t i = 0; i < frame->ops; i++) {
		const struct frame_group *group = &frame->group[frame->op[i].group];
		uint32_t rank = frame->op[i].rank;

		if (!group->p2p && state->comms[rank] < MEASURE_COMMS && !takes_part(state, rank, group->comm))
			state->comm[rank][state->comms[rank]++] = group->comm;
	}
}

/* What is sent between members of such communicators does not go from stage to stage. */
static bool within_stage(enum comm_kind kind)
{
	return kind == COMM_KIND_EXPERT || kind == COMM_KIND_CONTEXT || kind == COMM_KIND_TENSOR ||
	       kind == COMM_KIND_DATA;
}

/* Marks communicators that hold pipeline neighbours. Returns whether there are any such neighbours. */
static bool find_split(struct measure *measure, const struct frame *frame)
{
	struct measure_class_state *state = &measure->classes;
	bool pipeline = false;

	memset(state->split, 0, frame->comms * sizeof(*state->split));
	memset(state->pair, 0xff, frame->ranks * sizeof(*state->pair));
	for (size_t i = 0; i < frame->groups; i++) {
		uint32_t a = measure->group[i].last, b = measure->group[i].before;

		if (!frame->group[i].p2p || a == FRAME_NONE || within_stage(frame->comm[frame->group[i].comm].kind))
			continue;
		pipeline = true;
		if (state->pair[a] == b || state->pair[b] == a)
			continue;
		state->pair[a] = b;
		for (uint32_t j = 0; j < state->comms[a]; j++) {
			if (takes_part(state, b, state->comm[a][j]))
				state->split[state->comm[a][j]] = true;
		}
	}
	return pipeline;
}

static void measure_class_join(struct measure *measure, const struct frame *frame, bool pipeline)
{
	struct measure_class_state *state = &measure->classes;
	bool kinds = false;

	for (size_t c = 0; c < frame->comms; c++) {
		state->lead[c] = FRAME_NONE;
		kinds |= frame->comm[c].kind == COMM_KIND_DATA || frame->comm[c].kind == COMM_KIND_TENSOR;
	}
	for (uint32_t i = 0; i < frame->ranks; i++)
		state->parent[i] = i;
	for (uint32_t i = 0; i < frame->ranks; i++) {
		for (uint32_t j = 0; j < state->comms[i]; j++) {
			uint32_t c = state->comm[i][j];

			if (state->split[c] || (pipeline && kinds && !within_stage(frame->comm[c].kind)))
				continue;
			if (state->lead[c] == FRAME_NONE)
				state->lead[c] = i;
			else
				state->parent[measure_class_root_of(state->parent, i)] =
					measure_class_root_of(state->parent, state->lead[c]);
		}
	}
}

/* Numbers classes by their first rank, so that equal partitions are equal arrays. */
static size_t number_classes(struct measure_class_state *state, size_t ranks)
{
	size_t classes = 0;

	memset(state->pair, 0xff, ranks * sizeof(*state->pair));
	for (uint32_t i = 0; i < ranks; i++) {
		uint32_t root = measure_class_root_of(state->parent, i);

		if (state->pair[root] == FRAME_NONE)
			state->pair[root] = (uint32_t)classes++;
		state->next_of[i] = state->pair[root];
	}
	return classes;
}

static uint64_t identity_of(const uint32_t *of, size_t ranks)
{
	uint64_t hash = 0xcbf29ce484222325ULL;

	for (size_t i = 0; i < ranks; i++)
		hash = (hash ^ of[i]) * 0x100000001b3ULL;
	return hash;
}

/* Takes over next_of, at once if there is none yet, else when it is seen again. */
static void measure_class_adopt(struct measure_class_state *state, size_t ranks, size_t classes)
{
	uint64_t identity = identity_of(state->next_of, ranks);
	bool again = identity == state->next_identity;

	state->next_identity = identity;
	state->next_check = state->frames + (state->frames < MEASURE_CLASS_EARLY ? 1 : MEASURE_CLASS_EVERY);
	if (state->known && identity == state->identity)
		return;
	if (state->known && !again) {
		state->next_check = state->frames + 1;
		return;
	}
	memcpy(state->of, state->next_of, ranks * sizeof(*state->of));
	state->classes = classes;
	state->identity = identity;
	state->known = true;
}

/* By the pipeline stages known from outside; false where they are not. */
static bool by_stage(struct measure_class_state *state, const struct frame *frame)
{
	size_t classes = 0;

	for (size_t i = 0; i < frame->ranks; i++) {
		if (frame->who[i].stage >= frame->ranks)
			return false;
	}
	memset(state->pair, 0xff, frame->ranks * sizeof(*state->pair));
	for (size_t i = 0; i < frame->ranks; i++) {
		uint32_t *number = &state->pair[frame->who[i].stage];

		if (*number == FRAME_NONE)
			*number = (uint32_t)classes++;
		state->of[i] = *number;
	}
	state->classes = classes;
	state->known = false;
	return true;
}

int measure_classify(struct measure *measure, const struct frame *frame)
{
	struct measure_class_state *state = &measure->classes;
	int r = measure_class_reserve(state, frame->ranks);

	if (r < 0)
		return r;
	state->frames++;
	if (by_stage(state, frame))
		return 0;
	if (!state->known) {
		memset(state->of, 0, frame->ranks * sizeof(*state->of));
		state->classes = frame->ranks ? 1 : 0;
	}
	if (frame->tier == FRAME_TIER_STAGES || !frame->ops || (state->known && state->frames < state->next_check))
		return 0;
	if (!columns_renew(&state->by_comm, frame->comms + 1))
		return -ENOMEM;
	list_comms(measure, frame);
	measure_class_join(measure, frame, find_split(measure, frame));
	measure_class_adopt(state, frame->ranks, number_classes(state, frame->ranks));
	return 0;
}

void measure_by_class(struct measure *measure, const struct frame *frame)
{
	const struct measure_class_state *state = &measure->classes;
	uint32_t start = 0;

	memset(measure->class_ranks, 0, state->classes * sizeof(*measure->class_ranks));
	for (size_t i = 0; i < frame->ranks; i++) {
		if (measure->here[i])
			measure->class_ranks[state->of[i]]++;
	}
	for (size_t c = 0; c < state->classes; c++) {
		measure->class_start[c] = start;
		start += measure->class_ranks[c];
		measure->class_ranks[c] = 0;
	}
	for (uint32_t i = 0; i < frame->ranks; i++) {
		uint32_t class = state->of[i];

		if (!measure->here[i])
			continue;
		measure->by_class[measure->class_start[class] + measure->class_ranks[class]++] = i;
		measure->rank[i].class = class;
	}
	for (uint32_t i = 0; i < frame->ranks; i++) {
		if (measure->here[i] && measure->class_ranks[state->of[i]] < MEASURE_CLASS_MIN)
			measure->rank[i].class = FRAME_NONE;
	}
	measure->result.classes = state->classes;
}

static void compare_to(struct measure_rank *rank, double median, double spread)
{
	double least = 0.01 * median, excess = (double)rank->self_ns - median;

	if (median <= 0)
		return;
	rank->ratio = (double)rank->self_ns / median;
	rank->z = excess / (spread > least ? spread : least);
}

void measure_compare(struct measure *measure, struct measure_rank *of)
{
	for (uint32_t c = 0; c < measure->result.classes; c++) {
		const uint32_t *rank = measure->by_class + measure->class_start[c];
		uint32_t ranks = measure->class_ranks[c];
		double median, spread;

		if (ranks < MEASURE_CLASS_MIN)
			continue;
		if (ranks == 2) {
			compare_to(&of[rank[0]], (double)of[rank[1]].self_ns, 0);
			compare_to(&of[rank[1]], (double)of[rank[0]].self_ns, 0);
			continue;
		}
		for (uint32_t i = 0; i < ranks; i++)
			measure->scratch[i] = (double)of[rank[i]].self_ns;
		median = robust_median(measure->scratch, ranks);
		spread = robust_spread(measure->scratch, ranks, median);
		for (uint32_t i = 0; i < ranks; i++)
			compare_to(&of[rank[i]], median, spread);
	}
}
