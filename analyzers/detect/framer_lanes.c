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

struct align_lanes_lane {
	struct align_lane is;
	struct align_shape_lane shape;
	uint32_t base;	/* its first number */
	uint32_t first; /* of its groups, in lane_group */
	uint32_t ranks;
};

void align_lanes_begin(struct align_scratch *scratch)
{
	scratch->lanes = scratch->lane_groups = 0;
	if (scratch->lane_hash)
		memset(scratch->lane_hash, 0, scratch->lane_hash_size * sizeof(*scratch->lane_hash));
}

static size_t align_lanes_place_of(const struct align_scratch *scratch, const struct align_lane *lane)
{
	size_t at = coll_mix((uint64_t)lane->comm << 1 | lane->p2p, lane->sides) & (scratch->lane_hash_size - 1);

	for (; scratch->lane_hash[at]; at = (at + 1) & (scratch->lane_hash_size - 1)) {
		const struct align_lane *other = &scratch->lane[scratch->lane_hash[at] - 1].is;

		if (other->comm == lane->comm && other->sides == lane->sides && other->p2p == lane->p2p)
			break;
	}
	return at;
}

static bool align_lanes_reserve(struct align_scratch *scratch, size_t lanes, size_t groups)
{
	size_t size = scratch->lane_hash_size ? scratch->lane_hash_size : 256;
	uint32_t *hash;

	if (!align_grow((void **)&scratch->lane, &scratch->lane_capacity, scratch->lanes + lanes, sizeof(*scratch->lane),
		    UINT32_MAX / 2) ||
		!align_grow((void **)&scratch->lane_group, &scratch->lane_group_capacity, scratch->lane_groups + groups,
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
	struct align_scratch *scratch, const struct align_slot *slot, uint32_t *ret_lane, uint32_t *ret_new)
{
	const struct align_template *plan = slot->plan;

	*ret_new = (uint32_t)scratch->lanes;
	for (uint32_t i = 0; i < plan->lanes; i++) {
		const struct align_shape_lane *shape = &plan->shape->lane[i];
		size_t at = align_lanes_place_of(scratch, &plan->lane[i]);
		struct align_lanes_lane *lane;

		if (!scratch->lane_hash[at]) {
			scratch->lane[scratch->lanes] =
				(struct align_lanes_lane){.is = plan->lane[i], .shape = *shape, .base = slot->word[i]};
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
static void undo(struct align_scratch *scratch, uint32_t from)
{
	while (scratch->lanes > from) {
		/* The newest ones first: what was put in before them is found as before. */
		scratch->lane_hash[align_lanes_place_of(scratch, &scratch->lane[scratch->lanes - 1].is)] = 0;
		scratch->lanes--;
	}
}

/* Groups of the lanes that have none, in the order of their operations. False: there is one already, of another tier.
 */
static bool make_groups(struct align_scratch *scratch, const struct align_job *job, const struct align_slot *slot,
	const uint32_t *lanes, uint32_t new)
{
	const struct align_template *plan = slot->plan;
	uint32_t *next[ALIGN_LANES_MAX];

	for (uint32_t i = 0; i < plan->lanes; i++) {
		struct align_lanes_lane *lane = &scratch->lane[lanes[i]];

		if (lanes[i] < new)
			continue;
		lane->first = (uint32_t)scratch->lane_groups;
		next[i] = scratch->lane_group + lane->first;
		scratch->lane_groups += lane->shape.count;
	}
	for (uint32_t i = 0; i < plan->count; i++) {
		const struct align_entry *entry = &plan->shape->entry[i];
		const struct align_lane *lane = &plan->lane[entry->lane];
		const struct align_group_key key = {.seq = slot->word[entry->lane] + entry->seq,
			.sides = lane->sides,
			.comm = lane->comm,
			.last = FRAME_NONE,
			.next = FRAME_NONE,
			.tier = align_what_tier(entry->what),
			.p2p = lane->p2p};
		uint32_t group;

		if (lanes[entry->lane] < new)
			continue;
		group = scratch->hashed
				? align_groups_find(scratch, job, &key, entry->bytes, align_what_op(entry->what))
				: align_groups_new(scratch, job, &key, entry->bytes, align_what_op(entry->what));
		if (scratch->key[group].tier != key.tier)
			return false;
		*next[entry->lane]++ = group;
	}
	return true;
}

static void align_lanes_write_ops(
	struct align_scratch *scratch, const struct align_slot *slot, const uint32_t *lanes, uint32_t rank)
{
	const struct align_template *plan = slot->plan;
	const struct align_entry *entry = plan->shape->entry, *end = entry + plan->count;
	const uint32_t *time = slot->word + plan->lanes, *group[ALIGN_LANES_MAX];
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

bool align_lanes_add(
	struct align_scratch *scratch, const struct align_job *job, const struct align_slot *slot, uint32_t rank)
{
	const struct align_template *plan = slot->plan;
	uint32_t lanes[ALIGN_LANES_MAX], new;
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

void align_lanes_end(struct align_scratch *scratch)
{
	for (size_t i = 0; i < scratch->lanes; i++) {
		const struct align_lanes_lane *lane = &scratch->lane[i];

		for (uint32_t k = 0; k < lane->shape.count; k++)
			scratch->key[scratch->lane_group[lane->first + k]].count += (uint16_t)lane->ranks;
	}
}
