/* SPDX-License-Identifier: Apache-2.0 */
/* The injected fault and its ranks; noise of the others. */
#include <math.h>

#include "tests/sim/sim_internal.h"
#include "tests/sim/sim_random.h"

#define COMPILING 3.0	    /* factor of first steps */
#define CHECKPOINT_PART 0.5 /* of a step */
#define LOAD_PART 0.01
#define PAUSE_PART 0.1

static const char *const words[SIM_INJECT_MAX] = {
	[SIM_CLEAN] = "clean",
	[SIM_COMPUTE] = "compute",
	[SIM_LAUNCH] = "launch",
	[SIM_CONTENTION] = "contention",
	[SIM_THROTTLE] = "throttle",
	[SIM_FAULTS] = "faults",
	[SIM_GC] = "gc",
	[SIM_LOADER] = "loader",
	[SIM_CHECKPOINT] = "checkpoint",
	[SIM_LINK_NODE] = "link_node",
	[SIM_LINK_PAIR] = "link_pair",
	[SIM_STAGE] = "stage",
	[SIM_SEQUENCE] = "sequence",
};

const char *sim_inject_word(enum sim_inject inject)
{
	return inject < SIM_INJECT_MAX ? words[inject] : "";
}

bool sim_checkpoint_step(const struct sim_options *options, uint64_t step)
{
	return options->checkpoint_every && step >= SIM_FIRST_STEPS &&
	       step % options->checkpoint_every == options->checkpoint_every - 1;
}

bool sim_evaluation_step(const struct sim_options *options, uint64_t step)
{
	return options->evaluation_every && step > SIM_FIRST_STEPS && step % options->evaluation_every == 0;
}

static bool spans_nodes(const struct sim_group *group)
{
	int64_t last = (int64_t)group->first + (int64_t)(group->members - 1) * group->stride;

	return sim_node(group->first) != sim_node((uint32_t)last);
}

/* At the onset: transfers over the slow link take longer from now on. */
void sim_links(struct sim *sim)
{
	const struct sim_options *o = &sim->options;

	if (sim->step != o->onset || (o->inject != SIM_LINK_NODE && o->inject != SIM_LINK_PAIR))
		return;
	for (size_t g = 0; g < sim->groups; g++) {
		if (!spans_nodes(&sim->group[g]) || !sim_group_has_node(sim, (uint32_t)g, o->culprit[0]))
			continue;
		if (o->inject == SIM_LINK_PAIR && !sim_group_has_node(sim, (uint32_t)g, o->culprit[1]))
			continue;
		sim->group[g].transfer_ns *= 1 + o->severity;
	}
}

static uint32_t some_instr(const struct sim *sim, const struct sim_rank *rank, uint64_t random)
{
	return (uint32_t)(random % sim->program[rank->stage].instrs);
}

/* 1 +- `most`; exactly 1 in a run without noise. */
static double about_one(const struct sim *sim, uint32_t r, uint32_t what, double most)
{
	return sim->options.jitter > 0 ? 1 + most * (2 * sim_uniform(sim_hash2(sim->key, r, what)) - 1) : 1;
}

static void make_noise(struct sim *sim, uint32_t r)
{
	struct sim_rank *rank = &sim->rank[r];
	const struct sim_options *o = &sim->options;
	uint64_t random = sim_hash2(sim->key, r, 1);

	rank->compute = 1;
	rank->late = 0;
	rank->pause_ns = rank->load_ns = rank->checkpoint_ns = rank->gap_ns = rank->late_ns = rank->busy_ns = 0;
	if (o->drift > 0)
		rank->drift = o->drift_phi * rank->drift +
			      sqrt(1 - o->drift_phi * o->drift_phi) * o->drift * sim_normal(sim_hash2(sim->key, r, 2));
	if (sim_uniform(random) < o->spike) {
		rank->pause_ns = (int64_t)(PAUSE_PART * sim->nominal_ns);
		rank->pause_at = some_instr(sim, rank, sim_hash(random));
	}
	if (sim->step < SIM_FIRST_STEPS)
		rank->compute = COMPILING;
	if (rank->stage == 0)
		rank->load_ns = (int64_t)(LOAD_PART * sim->nominal_ns * about_one(sim, r, 3, 0.2));
	if (sim_checkpoint_step(o, sim->step))
		rank->checkpoint_ns = (int64_t)(CHECKPOINT_PART * sim->nominal_ns * about_one(sim, r, 4, 0.1));
}

static void accuse(struct sim *sim, struct sim_rank *rank)
{
	double x = sim->options.severity, lump = x * sim->nominal_ns;

	switch (sim->options.inject) {
	case SIM_COMPUTE:
		rank->compute *= 1 + x;
		break;
	case SIM_LAUNCH:
	case SIM_CONTENTION:
	case SIM_THROTTLE:
	case SIM_FAULTS:
		rank->late = x;
		break;
	case SIM_GC: /* triggered by allocations of the first forward */
		rank->pause_ns += (int64_t)(lump * about_one(sim, (uint32_t)(rank - sim->rank), 5, 0.2));
		rank->pause_at = 0;
		break;
	case SIM_LOADER:
		rank->load_ns += (int64_t)lump;
		break;
	case SIM_CHECKPOINT:
		if (rank->checkpoint_ns)
			rank->checkpoint_ns += (int64_t)lump;
		break;
	default:
		break;
	}
}

void sim_inject_step(struct sim *sim)
{
	const struct sim_options *o = &sim->options;

	for (uint32_t r = 0; r < sim->ranks; r++)
		make_noise(sim, r);
	sim_links(sim);
	if (sim->step < o->onset || o->inject == SIM_STAGE || o->inject == SIM_LINK_NODE || o->inject == SIM_LINK_PAIR)
		return;
	for (uint32_t i = 0; i < o->culprits && i < SIM_CULPRITS_MAX; i++) {
		if (o->culprit[i] < sim->ranks)
			accuse(sim, &sim->rank[o->culprit[i]]);
	}
}

/* Device time of a piece, with noise and injection. */
double sim_work(const struct sim *sim, const struct sim_rank *rank, const struct sim_instr *instr)
{
	const struct sim_options *o = &sim->options;
	double work = instr->work_ns * rank->speed * rank->compute * (1 + rank->drift);

	if (o->inject == SIM_STAGE && rank->stage == o->culprit[0] && sim->step >= o->onset)
		work *= 1 + o->severity;
	if (o->inject == SIM_SEQUENCE && instr->what == SIM_DO_COMPUTE && sim->step >= o->onset)
		work *= exp(o->severity * sim_normal(sim_hash2(sim->key, rank->d, 1000ULL + instr->micro_batch)));
	if (o->jitter > 0)
		work *= 1 +
			o->jitter * sim_normal(sim_hash2(sim->key, (uint64_t)(rank - sim->rank), 100000ULL + rank->pc));
	return work;
}
