/* SPDX-License-Identifier: Apache-2.0 */
/* Generates the frame: records by start, some of them lost, and host counters. */
#include <stdio.h>

#include "tests/sim/sim_internal.h"
#include "tests/sim/sim_random.h"

#define FAULT_NS 200000

static enum frame_class class_of(const struct sim *sim)
{
	if (sim->step < SIM_FIRST_STEPS)
		return FRAME_FIRST;
	if (sim_evaluation_step(&sim->options, sim->step))
		return FRAME_EVALUATION;
	return sim_checkpoint_step(&sim->options, sim->step) ? FRAME_CHECKPOINT : FRAME_TRAIN;
}

static void host_of(const struct sim *sim, uint32_t r, struct frame_rank *ret)
{
	const struct sim_options *o = &sim->options;
	const struct sim_rank *rank = &sim->rank[r];
	uint64_t late = (uint64_t)rank->late_ns;
	double u = sim_uniform(sim_hash2(sim->key, r, 8));
	struct frame_host *host = &ret->host;

	*host = frame_host_unknown();
	if (!o->host_known)
		return;
	/* Waiting ranks sleep on the CPU tier; hosts of devices spin. */
	if (sim_device(sim))
		host->cpu_ns = (uint64_t)((double)ret->step_ns * (0.75 + 0.05 * u)) -
			       (late < ret->step_ns / 2 ? late : ret->step_ns / 2);
	else
		host->cpu_ns = (uint64_t)rank->busy_ns + (uint64_t)(0.01 * u * (double)ret->step_ns);
	host->run_delay_ns = (uint64_t)(0.002 * u * (double)ret->step_ns);
	host->throttled_ns = 0;
	host->major_faults = (uint64_t)(3 * u);
	if (sim_device(sim))
		host->launch_gap_ns = (uint64_t)rank->gap_ns;
	if (o->inject == SIM_CONTENTION && late) {
		host->run_delay_ns += late;
		host->preemptor_ns = late;
		host->preemptor_pid = 4711;
		snprintf(host->preemptor_name, sizeof(host->preemptor_name), "stress-ng");
	}
	if (o->inject == SIM_THROTTLE)
		host->throttled_ns += late;
	if (o->inject == SIM_FAULTS)
		host->major_faults += late / FAULT_NS;
}

static size_t records_of(struct sim *sim, uint32_t r, struct frame_op *out, uint64_t *lost)
{
	const struct sim_rank *rank = &sim->rank[r];
	size_t n = 0;

	for (uint32_t i = 0; i < sim->program[rank->stage].slots; i++) {
		struct frame_op op = sim->op[(size_t)r * sim->slots_max + i];
		size_t k;

		if (!op.duration_ns)
			continue;
		if (sim->options.loss > 0 && sim_uniform(sim_hash2(sim->key, r, 1ULL << 32 | i)) < sim->options.loss) {
			++*lost;
			continue;
		}
		op.start_ns -= rank->start_ns;
		for (k = n++; k > 0 && out[k - 1].start_ns > op.start_ns; k--)
			out[k] = out[k - 1];
		out[k] = op;
	}
	return n;
}

static void whole_rank(struct sim *sim, uint32_t r)
{
	const struct sim_options *o = &sim->options;
	struct frame_rank *rank = &sim->frame_rank[r];
	int64_t skew =
		o->skew_ns ? (int64_t)(sim_hash2(o->seed, sim_node(r), 9) % (2 * o->skew_ns)) - (int64_t)o->skew_ns : 0;

	rank->step_ns = (uint64_t)(sim->rank[r].device_ns - sim->rank[r].start_ns);
	rank->end_ns = (uint64_t)(sim->rank[r].device_ns + skew);
	rank->activity_ns[ACTIVITY_OUTSIDE] = rank->step_ns;
	for (int i = ACTIVITY_OUTSIDE + 1; i < ACTIVITY_MAX; i++)
		rank->activity_ns[ACTIVITY_OUTSIDE] -= rank->activity_ns[i];
	host_of(sim, r, rank);
	if (o->loss > 0 && sim_uniform(sim_hash2(sim->key, r, 10)) < o->loss / 8)
		*rank = (struct frame_rank){.here = false};
}

void sim_frame(struct sim *sim)
{
	struct frame *frame = &sim->frame;
	bool barrier = sim->options.checkpoint_every && !sim_checkpoint_step(&sim->options, sim->step);

	*frame = (struct frame){
		.step = sim->step,
		.class = class_of(sim),
		.tier = sim->options.tier,
		.world_size = sim->ranks,
		.cards = sim->ranks,
		.ranks = sim->ranks,
		.who = sim->who,
		.rank = sim->frame_rank,
	};
	for (uint32_t r = 0; r < sim->ranks; r++) {
		whole_rank(sim, r);
		if (frame->tier != FRAME_TIER_STAGES && sim->frame_rank[r].here)
			frame->ops += records_of(sim, r, &sim->out[frame->ops], &frame->lost);
	}
	if (frame->tier == FRAME_TIER_STAGES)
		return;
	frame->comms = sim->comms;
	frame->comm = sim->comm;
	frame->groups = sim->groups - (barrier ? 1 : 0);
	frame->group = sim->frame_group;
	frame->op = sim->out;
}
