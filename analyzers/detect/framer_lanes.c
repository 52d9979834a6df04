/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps that went by their plans to a frame. The first rank of a lane makes its groups, those after it that have the
 * same numbers are of the same groups, one after the other: nothing is looked up for an operation. A rank of whose
 * lanes one was seen with other numbers is taken record by record.
 */
#include "analyzers/detect/framer_groups.h"

#include <stdlib.h>
#include <string.h>

#include "analyzers/ops_hash.h"

struct framer_lanes_lane {
	struct framer_lane is;
	struct framer_shape_lane shape;
	uint32_t base;	/* its first number */
	uint32_t first; /* of its groups, in lane_group */
	uint32_t ranks;
};

void framer_lanes_begin(struct framer_scratch *scratch)
{
	scratch->lanes = scratch->lane_groups = 0;
	if (scratch->lane_hash)
		memset(scratch->lane_hash, 0, scratch->lane_hash_size * sizeof(*scratch->lane_hash));
}

static size_t align_lanes_place_of(const struct framer_scratch *scratch, const struct framer_lane *lane)
{
	size_t at = ops_mix((uint64_t)lane->comm << 1 | lane->p2p, lane->sides) & (scratch->lane_hash_size - 1);

	for (; scratch->lane_hash[at]; at = (at + 1) & (scratch->lane_hash_size - 1)) {
		const struct framer_lane *other = &scratch->lane[scratch->lane_hash[at] - 1].is;

		if (other->comm == lane->comm && other->sides == lane->sides && other->p2p == lane->p2p)
			break;
	}
	return at;
}

static bool align_lanes_reserve(struct framer_scratch *scratch, size_t lanes, size_t groups)
{
	size_t size = scratch->lane_hash_size ? scratch->lane_hash_size : 256;
	uint32_t *hash;

	if (!framer_grow((void **)&scratch->lane, &scratch->lane_room, scratch->lanes + lanes, sizeof(*scratch->lane),
		    UINT32_MAX / 2) ||
		!framer_grow((void **)&scratch->lane_group, &scratch->lane_group_room, scratch->lane_groups + groups,
			sizeof(*scratch->lane_group), UINT32_MAX / 2))
		return false;
	while (size <= (scratch->lanes + lanes) * 2)
		size *= 2;
	if (size == scratch->lane_hash_size)
		return true;
	hash = calloc(size, sizeof(*hash));
	if (!hash)
		return false;
	free(scratch->lane_hash);
	scratch->lane_hash = hash;
	scratch->lane_hash_size = size;
	for (uint32_t i = 0; i < scratch->lanes; i++)
		hash[align_lanes_place_of(scratch, &scratch->lane[i].is)] = i + 1;
	return true;
}

/* Those of the slot, by numbers in scratch->lane; *ret_new: from here on they have no groups yet. False: one is known
 * with other numbers. */
static bool find_lanes(
	struct framer_scratch *scratch, const struct framer_slot *slot, uint32_t *ret_lane, uint32_t *ret_new)
{
	const struct framer_plan *plan = slot->plan;

	*ret_new = (uint32_t)scratch->lanes;
	for (uint32_t i = 0; i < plan->lanes; i++) {
		const struct framer_shape_lane *shape = &plan->shape->lane[i];
		size_t at = align_lanes_place_of(scratch, &plan->lane[i]);
		struct framer_lanes_lane *lane;

		if (!scratch->lane_hash[at]) {
			scratch->lane[scratch->lanes] =
				(struct framer_lanes_lane){.is = plan->lane[i], .shape = *shape, .base = slot->word[i]};
			scratch->lane_hash[at] = (uint32_t)++scratch->lanes;
		}
		ret_lane[i] = scratch->lane_hash[at] - 1;
		lane = &scratch->lane[ret_lane[i]];
		if (lane->base != slot->word[i] || lane->shape.like != shape->like || lane->shape.count != shape->count)
			return false;
	}
	return true;
}

/* As if those from there on had not been found. */
static void undo(struct framer_scratch *scratch, uint32_t from)
{
	while (scratch->lanes > from) {
		/* The newest ones first: what was put in before them is found as before. */
		scratch->lane_hash[align_lanes_place_of(scratch, &scratch->lane[scratch->lanes - 1].is)] = 0;
		scratch->lanes--;
	}
}

/* Groups of the lanes that have none, in the order of their operations. False: there is one already, of another tier.
 */
static bool make_groups(struct framer_scratch *scratch, const struct framer_room *job, const struct framer_slot *slot,
	const uint32_t *lanes, uint32_t new)
{
	const struct framer_plan *plan = slot->plan;
	uint32_t *next[FRAMER_LANES_MAX];

	for (uint32_t i = 0; i < plan->lanes; i++) {
		struct framer_lanes_lane *lane = &scratch->lane[lanes[i]];

		if (lanes[i] < new)
			continue;
		lane->first = (uint32_t)scratch->lane_groups;
		next[i] = scratch->lane_group + lane->first;
		scratch->lane_groups += lane->shape.count;
	}
	for (uint32_t i = 0; i < plan->count; i++) {
		const struct framer_entry *entry = &plan->shape->entry[i];
		const struct framer_lane *lane = &plan->lane[entry->lane];
		const struct framer_group_key key = {.seq = slot->word[entry->lane] + entry->seq,
			.sides = lane->sides,
			.comm = lane->comm,
			.last = FRAME_NONE,
			.next = FRAME_NONE,
			.tier = framer_what_tier(entry->what),
			.p2p = lane->p2p};
		uint32_t group;

		if (lanes[entry->lane] < new)
			continue;
		group = scratch->hashed
				? framer_groups_find(scratch, job, &key, entry->bytes, framer_what_op(entry->what))
				: framer_groups_new(scratch, job, &key, entry->bytes, framer_what_op(entry->what));
		if (scratch->key[group].tier != key.tier)
			return false;
		*next[entry->lane]++ = group;
	}
	return true;
}

static void align_lanes_write_ops(
	struct framer_scratch *scratch, const struct framer_slot *slot, const uint32_t *lanes, uint32_t rank)
{
	const struct framer_plan *plan = slot->plan;
	const struct framer_entry *entry = plan->shape->entry, *end = entry + plan->count;
	const uint32_t *time = slot->word + plan->lanes, *group[FRAMER_LANES_MAX];
	struct frame_op *op = scratch->op + scratch->ops;
	struct shortest *shortest = scratch->shortest;
	const int64_t first_ns = (int64_t)slot->first_ns - (int64_t)slot->start_ns;
	int64_t start_ns = first_ns;

	for (uint32_t i = 0; i < plan->lanes; i++) {
		group[i] = scratch->lane_group + scratch->lane[lanes[i]].first;
		scratch->lane[lanes[i]].ranks++;
	}
	for (; entry < end; entry++, time += 2, op++) {
		start_ns += time[0];
		op->group = group[entry->lane][entry->nth];
		op->rank = rank;
		op->start_ns = start_ns;
		op->duration_ns = time[1];
		shortest_add(&shortest[op->group], time[1], rank);
	}
	scratch->ops += plan->count;
	scratch->tame &=
		(((uint64_t)first_ns + FRAME_TAME_NS) | ((uint64_t)start_ns + FRAME_TAME_NS)) < 2 * FRAME_TAME_NS;
}

bool framer_lanes_add(
	struct framer_scratch *scratch, const struct framer_room *job, const struct framer_slot *slot, uint32_t rank)
{
	const struct framer_plan *plan = slot->plan;
	uint32_t lanes[FRAMER_LANES_MAX], new;
	size_t groups = scratch->lane_groups;

	if (slot->records < plan->count || !align_lanes_reserve(scratch, plan->lanes, plan->count))
		return false;
	if (!find_lanes(scratch, slot, lanes, &new) ||
		(new < scratch->lanes && !make_groups(scratch, job, slot, lanes, new))) {
		undo(scratch, new);
		scratch->lane_groups = groups;
		return false;
	}
	align_lanes_write_ops(scratch, slot, lanes, rank);
	return true;
}

void framer_lanes_end(struct framer_scratch *scratch)
{
	for (size_t i = 0; i < scratch->lanes; i++) {
		const struct framer_lanes_lane *lane = &scratch->lane[i];

		for (uint32_t k = 0; k < lane->shape.count; k++)
			scratch->key[scratch->lane_group[lane->first + k]].count += (uint16_t)lane->ranks;
	}
}
