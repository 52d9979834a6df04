/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/accuracy_case.h"
#include "tests/sim/sim_random.h"

#define STEPS_BEFORE 40
#define STEPS_AFTER 30
#define CHECKPOINTS_AFTER 12
#define CHECKPOINT_EVERY 5

const struct case_size case_sizes[CASE_SIZES] = {
	{"8 dp8", 1, 1, 8, 1, 1, 1},
	{"8 tp2pp2dp2", 2, 2, 2, 1, 1, 1},
	{"64 dp64", 1, 1, 64, 1, 1, 1},
	{"64 tp4pp4dp4", 4, 4, 4, 1, 1, 1},
	{"64 tp2pp4dp8 v2", 2, 4, 8, 1, 2, 2},
	{"128 pp2dp64 ep8", 1, 2, 64, 8, 1, 4},
	{"256 tp8pp4dp8", 8, 4, 8, 1, 1, 4},
	{"1024 tp8pp8dp16", 8, 8, 16, 1, 1, 20},
	{"10240 tp8pp16dp80", 8, 16, 80, 1, 1, 400},
};

#define RANK_SEVERITIES {0.05, 0.10, 0.20, 0.50, 1.00}, 5
#define LINK_SEVERITIES {0.2, 1, 4}, 3
#define LINK_CAUSES \
	{ \
		CAUSE_LINK, CAUSE_NODE, CAUSE_COMMUNICATION \
	}

const struct case_kind case_kinds[SIM_INJECT_MAX] = {
	[SIM_CLEAN] = {{0}, 1, false, false, FINDING_KIND_MAX, {CAUSE_UNKNOWN}},
	[SIM_COMPUTE] = {RANK_SEVERITIES, true, true, FINDING_SLOW_RANK, {CAUSE_COMPUTE, CAUSE_CARD}},
	[SIM_LAUNCH] = {RANK_SEVERITIES, true, true, FINDING_SLOW_RANK, {CAUSE_LAUNCH, CAUSE_HOST}},
	[SIM_CONTENTION] = {RANK_SEVERITIES, true, true, FINDING_SLOW_RANK, {CAUSE_PREEMPTION}},
	[SIM_THROTTLE] = {RANK_SEVERITIES, false, true, FINDING_SLOW_RANK, {CAUSE_THROTTLING}},
	[SIM_FAULTS] = {RANK_SEVERITIES, false, true, FINDING_SLOW_RANK, {CAUSE_FAULTS}},
	[SIM_GC] = {RANK_SEVERITIES, false, true, FINDING_SLOW_RANK, {CAUSE_GARBAGE_COLLECTION}},
	[SIM_LOADER] = {RANK_SEVERITIES, true, true, FINDING_SLOW_RANK, {CAUSE_DATALOADER}},
	[SIM_CHECKPOINT] = {RANK_SEVERITIES, false, true, FINDING_SLOW_RANK, {CAUSE_CHECKPOINT}},
	[SIM_LINK_NODE] = {LINK_SEVERITIES, false, false, FINDING_SLOW_COMMUNICATION, LINK_CAUSES},
	[SIM_LINK_PAIR] = {LINK_SEVERITIES, false, false, FINDING_SLOW_COMMUNICATION, LINK_CAUSES},
	[SIM_STAGE] = {{0.1, 0.2, 0.5}, 3, false, false, FINDING_IMBALANCE, {CAUSE_STAGE}},
	[SIM_SEQUENCE] = {{0.1, 0.2, 0.4}, 3, false, false, FINDING_IMBALANCE, {CAUSE_SEQUENCE}},
};

bool case_makes_sense(const struct case_spec *spec)
{
	const struct case_kind *kind = &case_kinds[spec->inject];
	const struct case_size *size = &case_sizes[spec->size];
	bool link = spec->inject == SIM_LINK_NODE || spec->inject == SIM_LINK_PAIR;
	uint32_t class = size->tp * size->dp, classes = spec->inject == SIM_LOADER ? 1 : size->pp;

	if (spec->severity >= kind->severities || spec->culprits > (kind->several ? SIM_CULPRITS_MAX : 1))
		return false;
	if (spec->culprits > (class - 1) / 2 * classes)
		return false;
	if (spec->inject == SIM_LAUNCH && spec->tier != FRAME_TIER_DEVICE)
		return false;
	if (link && (size->tp * size->pp * size->dp <= 2 * SIM_NODE_RANKS || spec->tier == FRAME_TIER_STAGES))
		return false;
	if (spec->inject == SIM_STAGE && size->pp < 2)
		return false;
	/* Stages without operations separate own time from waits under data parallelism only. */
	return spec->tier != FRAME_TIER_STAGES || spec->inject == SIM_CLEAN || (size->tp == 1 && size->pp == 1);
}

enum frame_class case_class(const struct case_spec *spec)
{
	return spec->inject == SIM_CHECKPOINT ? FRAME_CHECKPOINT : FRAME_TRAIN;
}

static uint64_t draw(uint64_t *state)
{
	return *state = sim_hash(*state);
}

/* [from, to) */
static double between(uint64_t *state, double from, double to)
{
	return from + (to - from) * sim_uniform(draw(state));
}

static bool one_in(uint64_t *state, unsigned n)
{
	return (draw(state) >> 16) % n == 0;
}

static void make_noise(uint64_t *state, struct sim_options *ret)
{
	ret->jitter = between(state, 0.01, 0.05);
	if (one_in(state, 2)) {
		ret->drift = between(state, 0.003, 0.01);
		ret->drift_phi = between(state, 0.3, 0.8);
	}
	ret->spread = 0.005;
	ret->spike = 0.0005;
	ret->loss = one_in(state, 2) ? 0.05 : 0;
	ret->skew_ns = 10000000;
}

/* Two nodes that share a group. */
static void choose_pair(uint64_t *state, struct sim_options *ret)
{
	struct sim *sim = sim_new(ret);
	const struct frame *frame = sim ? sim_step(sim) : NULL;

	for (unsigned i = 0; frame && i < 10000; i++) {
		const struct frame_op *op = &frame->op[draw(state) % frame->ops];
		uint32_t node = sim_node(op->rank), other = (uint32_t)(draw(state) % (frame->ranks / SIM_NODE_RANKS));

		if (node == other || !sim_group_has_node(sim, op->group, other))
			continue;
		ret->culprit[0] = node;
		ret->culprit[1] = other;
		break;
	}
	sim_free(sim);
}

/* A duplicate, or half of its peers, whose median is then itself. */
static bool is_too_many(const struct sim_options *o, uint32_t n)
{
	uint32_t stage = o->tp * o->dp, same = 0;

	for (uint32_t k = 0; k < n; k++) {
		if (o->culprit[k] == o->culprit[n])
			return true;
		same += o->culprit[k] / stage == o->culprit[n] / stage;
	}
	return 2 * (same + 1) >= stage;
}

static void choose_culprits(uint64_t *state, const struct case_spec *spec, struct sim_options *ret)
{
	uint32_t ranks = ret->tp * ret->pp * ret->dp;
	/* The first stage loads the data. */
	uint32_t of = spec->inject == SIM_LOADER ? ret->tp * ret->dp : ranks;

	ret->culprits = case_kinds[spec->inject].rank ? spec->culprits : 0;
	for (uint32_t i = 0; i < ret->culprits; i++) {
		do
			ret->culprit[i] = (uint32_t)(draw(state) % of);
		while (is_too_many(ret, i));
	}
	if (spec->inject == SIM_STAGE)
		ret->culprit[0] = (uint32_t)(draw(state) % ret->pp);
	if (spec->inject == SIM_LINK_NODE)
		ret->culprit[0] = (uint32_t)(draw(state) % (ranks / SIM_NODE_RANKS));
	if (spec->inject == SIM_LINK_PAIR)
		choose_pair(state, ret);
}

unsigned case_options(const struct case_spec *spec, struct sim_options *ret)
{
	const struct case_size *size = &case_sizes[spec->size];
	uint64_t state = sim_hash2(
		spec->seed, (uint64_t)spec->inject << 8 | spec->size, (uint64_t)spec->tier << 8 | spec->severity);
	unsigned after = STEPS_AFTER;

	sim_options_default(ret);
	ret->seed = draw(&state);
	ret->tp = size->tp;
	ret->pp = size->pp;
	ret->dp = size->dp;
	ret->ep = size->ep;
	ret->chunks = size->chunks;
	ret->micro_batches =
		size->pp > 1 ? size->pp * (uint32_t)between(&state, 2, 4) : (uint32_t)between(&state, 1, 5);
	ret->layers = size->pp > 1 ? 1 : 8;
	ret->step_s = between(&state, 1, 10);
	ret->tier = spec->tier;
	ret->sharded = one_in(&state, 2) && spec->tier != FRAME_TIER_STAGES;
	ret->world_op = one_in(&state, 2);
	ret->blocking_sends = size->chunks == 1 && one_in(&state, 2);
	ret->stage_known = one_in(&state, 2);
	ret->checkpoint_every = one_in(&state, 2) ? 25 : 0;
	ret->evaluation_every = one_in(&state, 2) ? 40 : 0;
	make_noise(&state, ret);
	if (spec->inject == SIM_CHECKPOINT) {
		ret->checkpoint_every = CHECKPOINT_EVERY;
		after = CHECKPOINTS_AFTER * CHECKPOINT_EVERY;
	}
	if (spec->inject == SIM_CLEAN)
		return STEPS_BEFORE + STEPS_AFTER;
	ret->inject = spec->inject;
	ret->severity = case_kinds[spec->inject].severity[spec->severity];
	ret->onset = one_in(&state, 4) ? 0 : STEPS_BEFORE + (uint64_t)between(&state, 0, 10);
	choose_culprits(&state, spec, ret);
	return (unsigned)(ret->onset ? ret->onset : SIM_FIRST_STEPS) + after;
}
