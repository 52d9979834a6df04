/* SPDX-License-Identifier: Apache-2.0 */
/* Layout of ranks, nodes, communicators, and the groups of each instruction. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/sim_internal.h"

static const struct {
	const char *name;
	enum comm_kind kind;
} overs[] = {
	[SIM_OVER_TENSOR] = {"tp", COMM_KIND_TENSOR},
	[SIM_OVER_DATA] = {"dp", COMM_KIND_DATA},
	[SIM_OVER_EXPERT] = {"ep", COMM_KIND_EXPERT},
	[SIM_OVER_LANE] = {"pp", COMM_KIND_PIPELINE},
	[SIM_OVER_WORLD] = {"world", COMM_KIND_UNCLEAR},
};
_Static_assert(sizeof(overs) / sizeof(overs[0]) == SIM_OVER_MAX, "a row for each");

uint32_t sim_node(uint32_t rank)
{
	return rank / SIM_NODE_RANKS;
}

/* Number of parallel groups in a stage. */
static uint32_t abreast(const struct sim *sim, enum sim_over over)
{
	const struct sim_options *o = &sim->options;
	const uint32_t count[SIM_OVER_MAX] = {
		[SIM_OVER_TENSOR] = o->dp,
		[SIM_OVER_DATA] = o->tp,
		[SIM_OVER_EXPERT] = o->dp / o->ep * o->tp,
		[SIM_OVER_LANE] = o->dp * o->tp,
		[SIM_OVER_WORLD] = 1,
	};

	return count[over];
}

static uint32_t members_of(const struct sim *sim, enum sim_over over)
{
	const struct sim_options *o = &sim->options;
	const uint32_t count[SIM_OVER_MAX] = {
		[SIM_OVER_TENSOR] = o->tp,
		[SIM_OVER_DATA] = o->dp,
		[SIM_OVER_EXPERT] = o->ep,
		[SIM_OVER_LANE] = o->pp,
		[SIM_OVER_WORLD] = sim->ranks,
	};

	return count[over];
}

/* The rank's group among them. */
static uint32_t which(const struct sim *sim, enum sim_over over, const struct sim_rank *rank)
{
	switch (over) {
	case SIM_OVER_TENSOR:
		return rank->d;
	case SIM_OVER_DATA:
		return rank->t;
	case SIM_OVER_EXPERT:
		return rank->d / sim->options.ep * sim->options.tp + rank->t;
	case SIM_OVER_LANE:
		return rank->d * sim->options.tp + rank->t;
	default:
		return 0;
	}
}

uint32_t sim_group_of(const struct sim *sim, const struct sim_instr *instr, const struct sim_rank *rank)
{
	return instr->group + which(sim, instr->over, rank);
}

static void place_group(const struct sim *sim, struct sim_group *group, enum sim_over over, uint32_t stage, uint32_t i)
{
	uint32_t tp = sim->options.tp, base = stage * sim->options.dp * tp;

	group->members = members_of(sim, over);
	switch (over) {
	case SIM_OVER_TENSOR:
		group->first = base + i * tp;
		group->stride = 1;
		break;
	case SIM_OVER_DATA:
		group->first = base + i;
		group->stride = (int32_t)tp;
		break;
	case SIM_OVER_EXPERT:
		group->first = base + i / tp * sim->options.ep * tp + i % tp;
		group->stride = (int32_t)tp;
		break;
	case SIM_OVER_LANE: /* a pair of it, given by the caller */
		group->first = base + i;
		group->stride = (int32_t)(sim->options.dp * tp);
		group->members = 2;
		break;
	default:
		group->first = 0;
		group->stride = 1;
	}
}

static int sim_reserve_groups(struct sim *sim, size_t more)
{
	size_t max = sim->groups_max ? sim->groups_max : 1024;
	struct sim_group *group;
	struct frame_group *frame_group;

	while (max < sim->groups + more)
		max *= 2;
	if (max == sim->groups_max)
		return 0;
	group = realloc(sim->group, max * sizeof(*group));
	if (!group)
		return -1;
	sim->group = group;
	frame_group = realloc(sim->frame_group, max * sizeof(*frame_group));
	if (!frame_group)
		return -1;
	sim->frame_group = frame_group;
	sim->groups_max = max;
	return 0;
}

/* The groups of one instruction of a stage (of point to point: of its sender's); returns the first, or negative. */
int64_t sim_groups_new(
	struct sim *sim, enum sim_over over, uint32_t stage, enum sim_op op, uint64_t bytes, double transfer_ns)
{
	uint32_t n = abreast(sim, over);
	size_t first = sim->groups;
	uint32_t comm = sim->comm_base[over];

	if (sim_reserve_groups(sim, n) < 0)
		return -1;
	if (over != SIM_OVER_WORLD && over != SIM_OVER_LANE)
		comm += stage * n;
	for (uint32_t i = 0; i < n; i++) {
		struct sim_group *group = &sim->group[sim->groups];

		*group = (struct sim_group){.slot = {SIM_NO_SLOT, SIM_NO_SLOT}, .transfer_ns = transfer_ns};
		place_group(sim, group, over, stage, i);
		sim->frame_group[sim->groups++] = (struct frame_group){
			.comm = comm + i,
			.members = group->members,
			.bytes = bytes,
			.op = (uint16_t)op,
			.p2p = over == SIM_OVER_LANE,
		};
	}
	return (int64_t)first;
}

static int make_comms(struct sim *sim)
{
	size_t count = 0;

	for (enum sim_over over = 0; over < SIM_OVER_MAX; over++) {
		sim->comm_base[over] = (uint32_t)count;
		count += (size_t)abreast(sim, over) *
			 (over == SIM_OVER_LANE || over == SIM_OVER_WORLD ? 1 : sim->options.pp);
	}
	sim->comms = count;
	sim->comm = calloc(count, sizeof(*sim->comm));
	if (!sim->comm)
		return -1;
	for (enum sim_over over = 0; over < SIM_OVER_MAX; over++) {
		size_t end = over + 1 < SIM_OVER_MAX ? sim->comm_base[over + 1] : count;

		for (size_t i = sim->comm_base[over]; i < end; i++) {
			snprintf(sim->comm[i].communicator, sizeof(sim->comm[i].communicator), "%s%zu",
				overs[over].name, i - sim->comm_base[over]);
			sim->comm[i].kind = overs[over].kind;
			sim->comm[i].members = members_of(sim, over);
		}
	}
	return 0;
}

static void make_ranks(struct sim *sim)
{
	const struct sim_options *o = &sim->options;

	for (uint32_t r = 0; r < sim->ranks; r++) {
		struct sim_rank *rank = &sim->rank[r];
		struct frame_who *who = &sim->who[r];

		rank->t = r % o->tp;
		rank->d = r / o->tp % o->dp;
		rank->stage = r / o->tp / o->dp;
		who->rank = (int32_t)r;
		who->node = sim_node(r);
		who->stage = o->stage_known ? rank->stage : FRAME_NONE;
		snprintf(who->host, sizeof(who->host), "node%u", sim_node(r));
		if (sim_device(sim))
			snprintf(who->card, sizeof(who->card), "%u", r % SIM_NODE_RANKS);
	}
}

int sim_layout(struct sim *sim)
{
	const struct sim_options *o = &sim->options;

	sim->ranks = o->tp * o->pp * o->dp;
	sim->nodes = (sim->ranks + SIM_NODE_RANKS - 1) / SIM_NODE_RANKS;
	sim->rank = calloc(sim->ranks, sizeof(*sim->rank));
	sim->who = calloc(sim->ranks, sizeof(*sim->who));
	sim->frame_rank = calloc(sim->ranks, sizeof(*sim->frame_rank));
	sim->work = calloc(sim->ranks, sizeof(*sim->work));
	sim->bucket_post = calloc((size_t)sim->ranks * SIM_BUCKETS_MAX, sizeof(*sim->bucket_post));
	if (!sim->rank || !sim->who || !sim->frame_rank || !sim->work || !sim->bucket_post)
		return -1;
	make_ranks(sim);
	return make_comms(sim);
}

bool sim_group_has_node(const struct sim *sim, uint32_t group, uint32_t node)
{
	const struct sim_group *g = &sim->group[group];

	for (uint32_t i = 0; i < g->members; i++) {
		if (sim_node((uint32_t)((int64_t)g->first + (int64_t)i * g->stride)) == node)
			return true;
	}
	return false;
}

bool sim_comm_has_node(const struct sim *sim, const char *communicator, uint32_t node)
{
	for (size_t i = 0; i < sim->groups; i++) {
		if (!strcmp(sim->comm[sim->frame_group[i].comm].communicator, communicator) &&
			sim_group_has_node(sim, (uint32_t)i, node))
			return true;
	}
	return false;
}
