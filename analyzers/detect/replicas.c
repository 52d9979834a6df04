/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/detect/replicas.h"

#define EARLY 4

void replicas_free(struct replicas *replicas)
{
	free(replicas->of);
	free(replicas->lead);
	*replicas = (struct replicas){0};
}

static int replicas_reserve(struct replicas *replicas, const struct frame *frame)
{
	size_t capacity = frame->comms + frame->groups;

	if (frame->ranks > replicas->rank_room) {
		free(replicas->of);
		replicas->of = calloc(frame->ranks, sizeof(*replicas->of));
		replicas->rank_room = replicas->of ? frame->ranks : 0;
		if (!replicas->of)
			return -ENOMEM;
	}
	if (capacity > replicas->capacity) {
		free(replicas->lead);
		replicas->lead = calloc(capacity, sizeof(*replicas->lead));
		replicas->capacity = replicas->lead ? capacity : 0;
		if (!replicas->lead)
			return -ENOMEM;
	}
	return 0;
}

static uint32_t replicas_root_of(uint32_t *parent, uint32_t rank)
{
	while (parent[rank] != rank) {
		parent[rank] = parent[parent[rank]];
		rank = parent[rank];
	}
	return rank;
}

static void replicas_join(uint32_t *parent, uint32_t a, uint32_t b)
{
	a = replicas_root_of(parent, a);
	b = replicas_root_of(parent, b);
	if (a < b)
		parent[b] = a;
	else
		parent[a] = b;
}

/* Where in lead what the operation joins is; SIZE_MAX: it joins nobody. Sends within one expert or data group are
 * collectives made of sends. */
static size_t replicas_place_of(const struct frame *frame, uint32_t g)
{
	const struct frame_group *group = &frame->group[g];
	enum comm_kind kind = group->comm < frame->comms ? frame->comm[group->comm].kind : COMM_KIND_UNCLEAR;

	if (group->p2p)
		return kind == COMM_KIND_UNCLEAR || kind == COMM_KIND_PIPELINE ? frame->comms + g : SIZE_MAX;
	return kind == COMM_KIND_TENSOR || kind == COMM_KIND_CONTEXT ? group->comm : SIZE_MAX;
}

/* Roots to numbers; a replica of one rank is none, and one of more than half of the ranks tells nothing. */
static void replicas_number(struct replicas *replicas, uint32_t *size)
{
	uint32_t *of = replicas->of;

	for (uint32_t i = 0; i < replicas->ranks; i++)
		of[i] = replicas_root_of(of, i);
	memset(size, 0, replicas->ranks * sizeof(*size));
	for (size_t i = 0; i < replicas->ranks; i++)
		size[of[i]]++;
	for (uint32_t i = 0; i < replicas->ranks; i++) {
		uint32_t n = size[i];

		size[i] = n < 2 || 2 * (size_t)n > replicas->ranks ? FRAME_NONE : (uint32_t)replicas->count++;
	}
	for (size_t i = 0; i < replicas->ranks; i++)
		of[i] = size[of[i]];
}

int replicas_look(struct replicas *replicas, const struct frame *frame)
{
	uint32_t *size;

	if (frame->ranks == replicas->ranks && replicas->frames++ >= EARLY && replicas->frames % REPLICAS_EVERY)
		return 0;
	if (replicas_reserve(replicas, frame) < 0)
		return -ENOMEM;
	size = calloc(frame->ranks + 1, sizeof(*size));
	if (!size)
		return -ENOMEM;
	replicas->ranks = frame->ranks;
	replicas->count = 0;
	for (uint32_t i = 0; i < frame->ranks; i++)
		replicas->of[i] = i;
	for (size_t i = 0; i < frame->comms + frame->groups; i++)
		replicas->lead[i] = FRAME_NONE;
	for (size_t i = 0; i < frame->ops; i++) {
		const struct frame_op *op = &frame->op[i];
		size_t place;

		if (op->group >= frame->groups || op->rank >= frame->ranks)
			continue;
		place = replicas_place_of(frame, op->group);
		if (place == SIZE_MAX)
			continue;
		if (replicas->lead[place] == FRAME_NONE)
			replicas->lead[place] = op->rank;
		else
			replicas_join(replicas->of, replicas->lead[place], op->rank);
	}
	replicas_number(replicas, size);
	free(size);
	return 0;
}
