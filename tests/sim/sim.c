/* SPDX-License-Identifier: Apache-2.0 */
/* The simulator's creation, steps and end. */
#include <stdlib.h>

#include "tests/sim/sim_internal.h"
#include "tests/sim/sim_random.h"

#define RANKS_MAX 16384

void sim_options_default(struct sim_options *ret)
{
	*ret = (struct sim_options){
		.seed = 1,
		.tp = 1,
		.pp = 1,
		.dp = 8,
		.ep = 1,
		.chunks = 1,
		.micro_batches = 1,
		.layers = 8,
		.step_s = 1,
		.tier = FRAME_TIER_DEVICE,
		.host_known = true,
	};
}

static bool make_a_job(const struct sim_options *o)
{
	if (!o->tp || !o->pp || !o->dp || !o->ep || !o->chunks || !o->micro_batches || !o->layers)
		return false;
	if (o->tp > RANKS_MAX || o->pp > RANKS_MAX || o->dp > RANKS_MAX || (uint64_t)o->tp * o->pp * o->dp > RANKS_MAX)
		return false;
	if (o->dp % o->ep || o->micro_batches > 4096 || o->chunks > 16 || o->layers > SIM_BUCKETS_MAX / o->chunks)
		return false;
	if (o->chunks > 1 && (o->pp < 2 || o->micro_batches % o->pp || o->blocking_sends))
		return false;
	return o->tier < FRAME_TIER_MAX && o->inject < SIM_INJECT_MAX && o->culprits <= SIM_CULPRITS_MAX &&
	       o->step_s > 0;
}

struct sim *sim_new(const struct sim_options *options)
{
	struct sim *sim;

	if (!make_a_job(options))
		return NULL;
	sim = calloc(1, sizeof(*sim));
	if (!sim)
		return NULL;
	sim->options = *options;
	if (sim_layout(sim) < 0 || sim_programs(sim) < 0)
		return sim_free(sim);
	sim->op = calloc((size_t)sim->ranks * sim->slots_max + 1, sizeof(*sim->op));
	sim->out = calloc((size_t)sim->ranks * sim->slots_max + 1, sizeof(*sim->out));
	if (!sim->op || !sim->out)
		return sim_free(sim);
	for (uint32_t r = 0; r < sim->ranks; r++) {
		sim->rank[r].speed = 1 + options->spread * sim_normal(sim_hash2(options->seed, r, 11));
		sim->rank[r].device_ns = 1000000000;
	}
	return sim;
}

struct sim *sim_free(struct sim *sim)
{
	if (!sim)
		return NULL;
	for (uint32_t s = 0; sim->program && s < sim->options.pp; s++)
		free(sim->program[s].instr);
	free(sim->program);
	free(sim->group);
	free(sim->frame_group);
	free(sim->comm);
	free(sim->p2p);
	free(sim->rank);
	free(sim->op);
	free(sim->bucket_post);
	free(sim->out);
	free(sim->frame_rank);
	free(sim->who);
	free(sim->work);
	free(sim);
	return NULL;
}

const struct frame *sim_step(struct sim *sim)
{
	sim->key = sim_hash2(sim->options.seed, sim->step, 12);
	sim_inject_step(sim);
	sim_run(sim);
	sim_frame(sim);
	sim->step++;
	return &sim->frame;
}

double sim_mean_step_ns(const struct sim_options *options, enum frame_class class, uint64_t from, uint64_t to)
{
	struct sim_options quiet = *options;
	struct sim *sim;
	double sum = 0;
	size_t n = 0;

	quiet.loss = 0;
	sim = sim_new(&quiet);
	for (uint64_t step = 0; sim && step < to; step++) {
		const struct frame *frame = sim_step(sim);

		if (step < from || frame->class != class)
			continue;
		sum += (double)frame->rank[0].step_ns;
		n++;
	}
	sim_free(sim);
	return n ? sum / (double)n : 0;
}
