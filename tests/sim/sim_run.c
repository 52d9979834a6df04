/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs all ranks' programs. A rank runs until it waits for others; the last to enter a group starts it and wakes the
 * waiting ranks. The result does not depend on the order of ranks: times are maxima and sums.
 */
#include "tests/sim/sim_internal.h"
#include "tests/sim/sim_random.h"

#define LAUNCH_PART 0.3 /* host time to launch a piece, as a part of its device time */

static void arrive(struct sim *sim, uint32_t r, uint32_t g, uint16_t slot, int64_t begin_ns, int64_t ready_ns);

static int64_t later(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* Accounts the time since the last call to the stage. */
static void sim_account_stage(struct sim *sim, uint32_t r, uint8_t stage)
{
	struct sim_rank *rank = &sim->rank[r];

	if (!sim_device(sim))
		rank->host_ns = rank->device_ns;
	if (stage < STAGE_KIND_MAX && rank->host_ns > rank->stage_end_ns)
		sim->frame_rank[r].activity_ns[activity_of_stage(stage)] +=
			(uint64_t)(rank->host_ns - rank->stage_end_ns);
	rank->stage_end_ns = later(rank->stage_end_ns, rank->host_ns);
}

static void host_waits(struct sim_rank *rank)
{
	rank->host_ns = later(rank->host_ns, rank->device_ns);
}

/* Time of the host and, on the CPU, of computing. */
static void host_spends(struct sim *sim, struct sim_rank *rank, int64_t ns)
{
	if (sim_device(sim))
		rank->host_ns += ns;
	else
		rank->device_ns += ns;
}

/* In the stage, whose account follows. */
static void pause_rank(struct sim *sim, uint32_t r, uint8_t stage)
{
	struct sim_rank *rank = &sim->rank[r];

	if (!rank->pause_ns || rank->pc < rank->pause_at)
		return;
	host_spends(sim, rank, rank->pause_ns);
	rank->busy_ns += rank->pause_ns;
	sim->frame_rank[r].activity_ns[ACTIVITY_GC] += (uint64_t)rank->pause_ns;
	sim->frame_rank[r].activity_ns[activity_of_stage(stage)] -= (uint64_t)rank->pause_ns;
	rank->pause_ns = 0;
}

static void compute(struct sim *sim, uint32_t r, const struct sim_instr *instr)
{
	struct sim_rank *rank = &sim->rank[r];
	int64_t work = (int64_t)sim_work(sim, rank, instr), late = 0;

	pause_rank(sim, r, instr->stage);
	if (sim_device(sim)) {
		/* The device begins with the first kernel, and ends once it has the last one and its work is done. */
		int64_t launch = (int64_t)(LAUNCH_PART * (double)work), begin = later(rank->device_ns, rank->host_ns);

		if (rank->late > 0)
			late = (int64_t)((1 + rank->late - LAUNCH_PART) * instr->work_ns);
		rank->host_ns += launch + late;
		rank->gap_ns = later(rank->gap_ns, late ? late : launch / 4);
		rank->device_ns = later(begin + work, rank->host_ns);
	} else {
		late = (int64_t)(rank->late * instr->work_ns);
		rank->device_ns += work + late;
	}
	rank->late_ns += late;
	rank->busy_ns += work;
}

static void next(struct sim *sim, uint32_t r)
{
	sim->rank[r].blocked = false;
	sim->work[sim->works++] = r;
}

/* The gradients' queue is sequential. */
static void begin_bucket(struct sim *sim, uint32_t r)
{
	struct sim_rank *rank = &sim->rank[r];
	const struct sim_program *program = &sim->program[rank->stage];
	const struct sim_instr *instr;
	int64_t posted, begin;

	if (rank->buckets_begun == rank->buckets_posted || rank->buckets_begun > rank->buckets_done)
		return;
	instr = &program->instr[program->bucket[rank->buckets_begun]];
	posted = sim->bucket_post[(size_t)r * SIM_BUCKETS_MAX + rank->buckets_begun++];
	begin = later(posted, rank->bucket_free_ns);
	arrive(sim, r, sim_group_of(sim, instr, rank), instr->slot, sim_device(sim) ? begin : posted, begin);
}

static struct frame_op *record_of(struct sim *sim, uint32_t r, uint16_t slot)
{
	return &sim->op[(size_t)r * sim->slots_max + slot];
}

static const struct sim_instr *at(const struct sim *sim, const struct sim_rank *rank)
{
	return &sim->program[rank->stage].instr[rank->pc];
}

static bool sends_over(const struct sim_rank *rank)
{
	return rank->sends_done == rank->sends_posted;
}

static void bucket_done(struct sim *sim, uint32_t r, int64_t done_ns)
{
	struct sim_rank *rank = &sim->rank[r];

	rank->bucket_free_ns = done_ns;
	rank->buckets_done++;
	if (rank->blocked && at(sim, rank)->what == SIM_DO_BUCKETS && rank->buckets_done == rank->buckets_posted)
		next(sim, r);
	else
		begin_bucket(sim, r);
}

static void send_done(struct sim *sim, uint32_t r, uint16_t slot, bool backward, int64_t done_ns)
{
	struct sim_rank *rank = &sim->rank[r];
	struct frame_op *op = record_of(sim, r, slot);

	/* On a device sends are sequential. */
	if (sim_device(sim) && rank->sent_ns[backward] > op->start_ns && rank->sent_ns[backward] < done_ns)
		op->start_ns = rank->sent_ns[backward];
	op->duration_ns = (uint64_t)(done_ns - op->start_ns);
	rank->sent_ns[backward] = later(rank->sent_ns[backward], done_ns);
	rank->sends_done++;
	if (rank->blocked && at(sim, rank)->what == SIM_DO_SENDS && sends_over(rank))
		next(sim, r);
}

static void member_done(
	struct sim *sim, uint32_t r, const struct sim_group *group, bool sender, bool p2p, int64_t done_ns)
{
	struct sim_rank *rank = &sim->rank[r];
	const struct sim_instr *instr = at(sim, rank);
	struct frame_op *op;

	if (p2p && sender) {
		send_done(sim, r, group->slot[0], group->backward, done_ns);
		return;
	}
	if (group->bucket) {
		op = record_of(sim, r, group->slot[0]);
		op->duration_ns = (uint64_t)(done_ns - op->start_ns);
		bucket_done(sim, r, done_ns);
		return;
	}
	op = record_of(sim, r, instr->slot);
	op->duration_ns = (uint64_t)(done_ns - op->start_ns);
	rank->device_ns = done_ns;
	if (p2p)
		host_waits(rank);
	sim_account_stage(sim, r, instr->stage);
	rank->pc++;
	next(sim, r);
}

static void arrive(struct sim *sim, uint32_t r, uint32_t g, uint16_t slot, int64_t begin_ns, int64_t ready_ns)
{
	struct sim_group *group = &sim->group[g];
	struct frame_op *op = record_of(sim, r, slot);
	bool p2p = sim->frame_group[g].p2p;
	double transfer;

	*op = (struct frame_op){.group = g, .rank = r, .start_ns = begin_ns};
	group->ready_ns = group->arrived ? later(group->ready_ns, ready_ns) : ready_ns;
	if (++group->arrived < group->members)
		return;
	transfer = group->transfer_ns;
	if (sim->options.jitter > 0)
		transfer *= 1 + sim->options.jitter * sim_normal(sim_hash2(sim->key, g, 7));
	for (uint32_t i = 0; i < group->members; i++)
		member_done(sim, (uint32_t)((int64_t)group->first + (int64_t)i * group->stride), group, i == 0, p2p,
			group->ready_ns + 1 + (int64_t)transfer);
}

/* From the host's call to the operation's start on the device. */
static void sim_note_lead(struct sim *sim, uint32_t r, int64_t start_ns)
{
	int64_t lead_ns = start_ns - sim->rank[r].host_ns;

	if (sim->options.tier != FRAME_TIER_DEVICE)
		return;
	sim->frame_rank[r].leads++;
	sim->frame_rank[r].lead_ns += lead_ns > 0 ? (uint64_t)lead_ns : 0;
}

static void wait_here(struct sim *sim, uint32_t r, const struct sim_instr *instr)
{
	struct sim_rank *rank = &sim->rank[r];
	int64_t now = sim_device(sim) ? later(rank->device_ns, rank->host_ns) : rank->device_ns;

	sim_note_lead(sim, r, now);
	rank->device_ns = now;
	rank->blocked = true;
	arrive(sim, r, sim_group_of(sim, instr, rank), instr->slot, now, now);
}

static void post(struct sim *sim, uint32_t r, const struct sim_instr *instr)
{
	struct sim_rank *rank = &sim->rank[r];

	sim_note_lead(sim, r, rank->device_ns);
	if (instr->what == SIM_DO_BUCKET) {
		sim->bucket_post[(size_t)r * SIM_BUCKETS_MAX + rank->buckets_posted++] = rank->device_ns;
		begin_bucket(sim, r);
		return;
	}
	rank->sends_posted++;
	arrive(sim, r, sim_group_of(sim, instr, rank), instr->slot, rank->device_ns, rank->device_ns);
}

/* Waits for posted operations; false: not complete. */
static bool posted_over(struct sim_rank *rank, bool sends)
{
	if (sends ? !sends_over(rank) : rank->buckets_done != rank->buckets_posted) {
		rank->blocked = true;
		return false;
	}
	rank->device_ns =
		later(rank->device_ns, sends ? later(rank->sent_ns[0], rank->sent_ns[1]) : rank->bucket_free_ns);
	host_waits(rank);
	return true;
}

/* One instruction; false: the rank waits (or has ended). */
static bool go(struct sim *sim, uint32_t r)
{
	struct sim_rank *rank = &sim->rank[r];
	const struct sim_instr *instr = at(sim, rank);

	switch (instr->what) {
	case SIM_DO_COMPUTE:
	case SIM_DO_OPTIMIZER:
		compute(sim, r, instr);
		break;
	case SIM_DO_LOAD:
		host_spends(sim, rank, rank->load_ns);
		break;
	case SIM_DO_CHECKPOINT:
		if (!rank->checkpoint_ns)
			break;
		host_waits(rank);
		sim_account_stage(sim, r, SIM_NO_STAGE);
		host_spends(sim, rank, rank->checkpoint_ns);
		break;
	case SIM_DO_EVALUATE:
		host_spends(
			sim, rank, sim_evaluation_step(&sim->options, sim->step) ? (int64_t)(3 * sim->nominal_ns) : 0);
		break;
	case SIM_DO_BARRIER:
		if (!sim_checkpoint_step(&sim->options, sim->step))
			break;
		wait_here(sim, r, instr);
		return false;
	case SIM_DO_COLLECTIVE:
	case SIM_DO_RECEIVE:
		wait_here(sim, r, instr);
		return false;
	case SIM_DO_BUCKET:
	case SIM_DO_SEND:
		post(sim, r, instr);
		break;
	case SIM_DO_BUCKETS:
	case SIM_DO_SENDS:
		if (!posted_over(rank, instr->what == SIM_DO_SENDS))
			return false;
		break;
	default:
		host_waits(rank);
		rank->device_ns = later(rank->device_ns, rank->host_ns);
		sim_account_stage(sim, r, instr->stage);
		return false;
	}
	sim_account_stage(sim, r, instr->stage);
	rank->pc++;
	return true;
}

static void begin_step(struct sim *sim)
{
	for (size_t g = 0; g < sim->groups; g++)
		sim->group[g].arrived = 0;
	for (uint32_t r = 0; r < sim->ranks; r++) {
		struct sim_rank *rank = &sim->rank[r];

		for (uint32_t i = 0; i < sim->slots_max; i++)
			record_of(sim, r, (uint16_t)i)->duration_ns = 0;
		sim->frame_rank[r] = (struct frame_rank){.here = true};
		rank->host_ns = rank->stage_end_ns = rank->start_ns = rank->device_ns;
		rank->pc = rank->buckets_posted = rank->buckets_begun = rank->buckets_done = 0;
		rank->sends_posted = rank->sends_done = 0;
		next(sim, r);
	}
}

void sim_run(struct sim *sim)
{
	begin_step(sim);
	while (sim->works > 0) {
		uint32_t r = sim->work[--sim->works];

		while (go(sim, r))
			;
	}
}
