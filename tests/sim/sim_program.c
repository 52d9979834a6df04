/* SPDX-License-Identifier: Apache-2.0 */
/* The program of a pipeline stage's ranks in a step: 1F1B, interleaved if a rank has several chunks of the model. */
#include <stdlib.h>

#include "tests/sim/sim_internal.h"

#define TENSOR_PART 0.08 /* transfers, as parts of a piece of forward computing */
#define EXPERT_PART 0.10
#define PIPELINE_PART 0.03
#define BUCKET_PART 0.60
#define GATHER_PART 0.30
#define WORLD_PART 0.02
#define PIECE_BYTES (1ULL << 24)

struct build {
	struct sim *sim;
	struct sim_program *program;
	uint32_t stage;
	bool failed;
};

static struct sim_instr *add(struct build *build, enum sim_do what, uint8_t stage)
{
	struct sim_program *program = build->program;
	static struct sim_instr nowhere;

	if (program->instrs == program->max) {
		size_t max = program->max ? program->max * 2 : 64;
		struct sim_instr *instr = realloc(program->instr, max * sizeof(*instr));

		if (!instr) {
			build->failed = true;
			return &nowhere;
		}
		program->instr = instr;
		program->max = max;
	}
	program->instr[program->instrs] =
		(struct sim_instr){.what = (uint8_t)what, .stage = stage, .slot = SIM_NO_SLOT};
	return &program->instr[program->instrs++];
}

static struct sim_instr *add_op(struct build *build, enum sim_do what, uint8_t stage, enum sim_over over, int64_t group)
{
	struct sim_instr *instr = add(build, what, stage);

	if (group < 0 || build->program->slots >= SIM_NO_SLOT) {
		build->failed = true;
		return instr;
	}
	instr->over = (uint8_t)over;
	instr->group = (uint32_t)group;
	instr->slot = (uint16_t)build->program->slots++;
	return instr;
}

static void add_collective(
	struct build *build, enum sim_do what, uint8_t stage, enum sim_over over, enum sim_op op, double part)
{
	struct sim *sim = build->sim;
	int64_t group = sim_groups_new(
		sim, over, build->stage, op, (uint64_t)((double)PIECE_BYTES * part), part * sim->piece_ns);
	struct sim_instr *instr = add_op(build, what, stage, over, group);

	for (size_t i = build->failed ? sim->groups : (size_t)group; i < sim->groups; i++) {
		sim->group[i].slot[0] = sim->group[i].slot[1] = instr->slot;
		sim->group[i].bucket = what == SIM_DO_BUCKET;
	}
}

/* The first group of the pairs that carry a micro-batch from virtual stage `boundary` to the next (backward: back). */
static uint32_t *pairs(struct sim *sim, bool backward, uint32_t boundary, uint32_t micro_batch)
{
	uint32_t boundaries = sim->options.pp * sim->options.chunks;

	return &sim->p2p[((backward ? boundaries : 0) + boundary) * sim->options.micro_batches + micro_batch];
}

static void add_p2p(struct build *build, bool send, bool backward, uint32_t boundary, uint32_t micro_batch)
{
	struct sim *sim = build->sim;
	uint32_t first = *pairs(sim, backward, boundary, micro_batch), lanes = sim->options.dp * sim->options.tp;
	struct sim_instr *instr = add_op(build, send ? SIM_DO_SEND : SIM_DO_RECEIVE,
		backward ? STAGE_BACKWARD : STAGE_FORWARD, SIM_OVER_LANE, first);

	instr->backward = backward;
	instr->micro_batch = (uint16_t)micro_batch;
	for (uint32_t i = 0; i < lanes; i++)
		sim->group[first + i].slot[send ? 0 : 1] = instr->slot;
}

/* Pairs are created before the programs: two stages refer to the same pair. */
static int make_pairs(struct sim *sim)
{
	uint32_t pp = sim->options.pp, all = pp * sim->options.chunks, lanes = sim->options.dp * sim->options.tp;

	sim->p2p = calloc((size_t)2 * all * sim->options.micro_batches, sizeof(*sim->p2p));
	if (!sim->p2p)
		return -1;
	for (uint32_t i = 0; i < 2 * (all - 1) * sim->options.micro_batches; i++) {
		bool backward = i % 2;
		uint32_t boundary = i / 2 % (all - 1), micro_batch = i / 2 / (all - 1);
		uint32_t from = (boundary + backward) % pp, to = (boundary + !backward) % pp;
		int64_t group = sim_groups_new(
			sim, SIM_OVER_LANE, from, SIM_OP_SEND, PIECE_BYTES / 8, PIPELINE_PART * sim->piece_ns);

		if (group < 0)
			return -1;
		*pairs(sim, backward, boundary, micro_batch) = (uint32_t)group;
		for (size_t k = (size_t)group; k < sim->groups; k++) {
			sim->group[k].stride = ((int32_t)to - (int32_t)from) * (int32_t)lanes;
			sim->group[k].backward = backward;
		}
	}
	return 0;
}

static void add_bucket(struct build *build)
{
	const struct sim_options *o = &build->sim->options;

	if (o->dp < 2)
		return;
	if (build->program->buckets == SIM_BUCKETS_MAX) {
		build->failed = true;
		return;
	}
	build->program->bucket[build->program->buckets++] = (uint32_t)build->program->instrs;
	add_collective(build, SIM_DO_BUCKET, STAGE_BACKWARD, SIM_OVER_DATA,
		o->sharded ? SIM_OP_REDUCE_SCATTER : SIM_OP_ALL_REDUCE, BUCKET_PART);
}

/* One chunk's forward or backward of a micro-batch, with its receives and sends. */
static void add_piece(struct build *build, bool backward, uint32_t chunk, uint32_t micro_batch)
{
	struct sim *sim = build->sim;
	const struct sim_options *o = &sim->options;
	uint8_t stage = backward ? STAGE_BACKWARD : STAGE_FORWARD;
	uint32_t at = chunk * o->pp + build->stage, last = o->chunks * o->pp - 1;

	if (backward ? at < last : at > 0)
		add_p2p(build, false, backward, backward ? at : at - 1, micro_batch);
	if (o->blocking_sends && o->pp > 1)
		add(build, SIM_DO_SENDS, stage);
	for (uint32_t i = 0; i < o->layers; i++) {
		struct sim_instr *instr = add(build, SIM_DO_COMPUTE, stage);

		instr->micro_batch = (uint16_t)micro_batch;
		instr->backward = backward;
		instr->work_ns = sim->piece_ns * (backward ? 2 : 1);
		if (o->tp > 1)
			add_collective(
				build, SIM_DO_COLLECTIVE, stage, SIM_OVER_TENSOR, SIM_OP_ALL_REDUCE, TENSOR_PART);
		if (o->ep > 1)
			add_collective(
				build, SIM_DO_COLLECTIVE, stage, SIM_OVER_EXPERT, SIM_OP_ALL_TO_ALL, EXPERT_PART);
		if (backward && micro_batch == o->micro_batches - 1)
			add_bucket(build);
	}
	if (backward ? at > 0 : at < last)
		add_p2p(build, true, backward, backward ? at - 1 : at, micro_batch);
}

/* The nth forward (or backward) of a rank: groups of pp micro-batches go through its chunks in turn. */
static void add_nth(struct build *build, bool backward, uint32_t n)
{
	const struct sim_options *o = &build->sim->options;
	uint32_t chunk = 0, micro_batch = n;

	if (o->chunks > 1) {
		uint32_t round = o->pp * o->chunks;

		chunk = n % round / o->pp;
		micro_batch = n / round * o->pp + n % o->pp;
	}
	add_piece(build, backward, backward ? o->chunks - 1 - chunk : chunk, micro_batch);
}

static void add_schedule(struct build *build)
{
	const struct sim_options *o = &build->sim->options;
	uint32_t all = o->micro_batches * o->chunks, warm = o->pp - build->stage - 1;

	if (o->chunks > 1)
		warm = warm * 2 + (o->chunks - 1) * o->pp;
	if (warm > all)
		warm = all;
	for (uint32_t i = 0; i < warm; i++)
		add_nth(build, false, i);
	for (uint32_t i = warm; i < all; i++) {
		add_nth(build, false, i);
		add_nth(build, true, i - warm);
	}
	for (uint32_t i = all - warm; i < all; i++)
		add_nth(build, true, i);
}

static int make_program(struct sim *sim, uint32_t stage)
{
	const struct sim_options *o = &sim->options;
	struct build build = {.sim = sim, .program = &sim->program[stage], .stage = stage};
	uint8_t sync = o->pp > 1 ? STAGE_SYNC : STAGE_BACKWARD;

	add(&build, SIM_DO_EVALUATE, SIM_NO_STAGE);
	add(&build, SIM_DO_LOAD, STAGE_DATALOADER);
	add_schedule(&build);
	add(&build, SIM_DO_SENDS, sync);
	add(&build, SIM_DO_BUCKETS, sync);
	if (o->world_op)
		add_op(&build, SIM_DO_COLLECTIVE, SIM_NO_STAGE, SIM_OVER_WORLD, 0);
	add(&build, SIM_DO_OPTIMIZER, STAGE_OPTIMIZER)->work_ns = sim->piece_ns * o->layers * o->chunks * 0.5;
	if (o->sharded && o->dp > 1)
		add_collective(
			&build, SIM_DO_COLLECTIVE, STAGE_OPTIMIZER, SIM_OVER_DATA, SIM_OP_ALL_GATHER, GATHER_PART);
	add(&build, SIM_DO_CHECKPOINT, STAGE_CHECKPOINT);
	if (o->checkpoint_every)
		add_op(&build, SIM_DO_BARRIER, SIM_NO_STAGE, SIM_OVER_WORLD, 0);
	add(&build, SIM_DO_END, SIM_NO_STAGE);
	if (build.program->slots > sim->slots_max)
		sim->slots_max = build.program->slots;
	return build.failed ? -1 : 0;
}

/* Shared by all stages. The barrier's group is the last, so that frames without it can omit it. */
static int make_world(struct sim *sim)
{
	for (unsigned barrier = 0; barrier < 2; barrier++) {
		enum sim_op op = barrier ? SIM_OP_BARRIER : SIM_OP_ALL_REDUCE;
		int64_t group;

		if (barrier ? !sim->options.checkpoint_every : !sim->options.world_op)
			continue;
		group = sim_groups_new(sim, SIM_OVER_WORLD, 0, op, 8, WORLD_PART * sim->piece_ns);
		if (group < 0)
			return -1;
		for (uint32_t s = 0; s < sim->options.pp; s++) {
			for (size_t i = 0; i < sim->program[s].instrs; i++) {
				struct sim_instr *instr = &sim->program[s].instr[i];

				if (instr->over == SIM_OVER_WORLD && (instr->what == SIM_DO_BARRIER) == barrier)
					instr->group = (uint32_t)group;
			}
		}
	}
	return 0;
}

int sim_programs(struct sim *sim)
{
	const struct sim_options *o = &sim->options;
	double pieces = (double)o->layers * o->chunks;
	double round = 3 + (o->tp > 1 ? 2 * TENSOR_PART : 0) + (o->ep > 1 ? 2 * EXPERT_PART : 0);
	double rounds = o->micro_batches + (double)(o->pp - 1) / o->chunks;

	sim->nominal_ns = o->step_s * 1e9;
	sim->piece_ns = sim->nominal_ns / (pieces * (round * rounds + 0.5) + (o->dp > 1 ? BUCKET_PART : 0) + 0.05);
	sim->program = calloc(o->pp, sizeof(*sim->program));
	if (!sim->program || (o->pp > 1 && make_pairs(sim) < 0))
		return -1;
	for (uint32_t s = 0; s < o->pp; s++) {
		if (make_program(sim, s) < 0)
			return -1;
	}
	return make_world(sim);
}
