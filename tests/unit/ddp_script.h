/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data-parallel training of DDP_RANKS ranks of one node, as events: a step loads data, goes forward, goes backward with
 * DDP_BUCKETS all-reduces that overlap nothing, and steps the optimizer. Times have 2 % of noise, deterministic by
 * seed.
 */
#ifndef TESTS_DDP_SCRIPT_H
#define TESTS_DDP_SCRIPT_H

#include <stdio.h>
#include <string.h>

#include "analyzers/detect/detect.h"

#define DDP_RANKS 8
#define DDP_UID 4242
#define DDP_BUCKETS 4
#define DDP_TRANSFER_NS 2000000

struct ddp {
	struct detect *detect;
	struct align *align;
	enum frame_tier tier;
	uint64_t now_ns, noise, seq;
	int64_t step;
	int process[DDP_RANKS];
	uint64_t begin_ns[DDP_RANKS], end_ns[DDP_RANKS];
	uint64_t extra_ns[DDP_RANKS][STAGE_KIND_MAX]; /* may be set between steps */
};

static inline void ddp_start(
	struct ddp *ddp, struct detect *detect, const char *job, uint64_t seed, enum frame_tier tier)
{
	*ddp = (struct ddp){
		.detect = detect, .align = detect_align(detect), .tier = tier, .noise = seed, .now_ns = 1000000000000};
	for (int32_t i = 0; i < DDP_RANKS; i++) {
		char card[8];
		struct align_rank rank = {.job = job,
			.rank = i,
			.world_size = DDP_RANKS,
			.host = "node-a",
			.uid = DDP_UID,
			.card = card,
			.start_ns = ddp->now_ns - 5000000000,
			.pid = 1000 + (uint32_t)i,
			.from_start = true};

		snprintf(card, sizeof(card), "%d", i);
		ddp->process[i] = align_rank_new(ddp->align, &rank);
		assert_true(ddp->process[i] >= 0);
		if (tier != FRAME_TIER_STAGES)
			align_comm(ddp->align, ddp->process[i], "00c0ffee00c0ffee", COMM_KIND_DATA, DDP_RANKS, i);
		ddp->begin_ns[i] = ddp->now_ns;
	}
}

static inline uint64_t ddp_noise(struct ddp *ddp, uint64_t ns)
{
	double sum = 0;

	for (int i = 0; i < 4; i++) {
		ddp->noise = ddp->noise * 6364136223846793005ULL + 1442695040888963407ULL;
		sum += (double)(ddp->noise >> 40) / (1 << 24) - 0.5;
	}
	return (uint64_t)((double)ns * (1 + 0.035 * sum));
}

/* Returns its end. */
static inline uint64_t ddp_stage(struct ddp *ddp, int rank, enum stage_kind kind, uint64_t start_ns, uint64_t end_ns)
{
	struct align_stage stage = {.step = ddp->step,
		.kind = kind,
		.start_ns = start_ns,
		.duration_ns = end_ns - start_ns,
		.thread_id = 1};

	align_stage(ddp->align, ddp->process[rank], &stage);
	return end_ns;
}

static inline uint64_t ddp_own(struct ddp *ddp, int rank, enum stage_kind kind, uint64_t start_ns, uint64_t length_ns)
{
	return ddp_stage(ddp, rank, kind, start_ns, start_ns + ddp_noise(ddp, length_ns) + ddp->extra_ns[rank][kind]);
}

static inline void ddp_bucket(struct ddp *ddp, uint64_t at_ns[DDP_RANKS])
{
	uint64_t last_ns = 0;

	ddp->seq++;
	for (int i = 0; i < DDP_RANKS; i++) {
		at_ns[i] += ddp_noise(ddp, 15000000) + ddp->extra_ns[i][STAGE_BACKWARD] / DDP_BUCKETS;
		last_ns = at_ns[i] > last_ns ? at_ns[i] : last_ns;
	}
	last_ns += ddp_noise(ddp, DDP_TRANSFER_NS);
	for (int i = 0; i < DDP_RANKS; i++) {
		struct align_op op = {.communicator = "00c0ffee00c0ffee",
			.seq = ddp->seq,
			.op = "AllReduce",
			.step = ddp->step,
			.start_ns = at_ns[i],
			.duration_ns = last_ns - at_ns[i],
			.bytes = 25u << 20,
			.peer = -1,
			.member = i,
			.tier = ddp->tier};

		if (ddp->tier != FRAME_TIER_STAGES)
			align_op(ddp->align, ddp->process[i], &op);
		at_ns[i] = last_ns;
	}
}

static inline void ddp_step(struct ddp *ddp)
{
	uint64_t at_ns[DDP_RANKS], backward_ns[DDP_RANKS];

	ddp->step++;
	for (int i = 0; i < DDP_RANKS; i++) {
		at_ns[i] = ddp_own(ddp, i, STAGE_DATALOADER, ddp->begin_ns[i], 5000000);
		at_ns[i] = backward_ns[i] = ddp_own(ddp, i, STAGE_FORWARD, at_ns[i], 30000000);
	}
	for (int bucket = 0; bucket < DDP_BUCKETS; bucket++)
		ddp_bucket(ddp, at_ns);
	for (int i = 0; i < DDP_RANKS; i++) {
		struct align_step step = {.step = ddp->step, .start_ns = ddp->begin_ns[i]};

		ddp_stage(ddp, i, STAGE_BACKWARD, backward_ns[i], at_ns[i]);
		at_ns[i] = ddp_own(ddp, i, STAGE_OPTIMIZER, at_ns[i], 2000000);
		step.duration_ns = at_ns[i] - step.start_ns;
		align_step(ddp->align, ddp->process[i], &step);
		ddp->begin_ns[i] = ddp->end_ns[i] = at_ns[i];
		ddp->now_ns = at_ns[i] > ddp->now_ns ? at_ns[i] : ddp->now_ns;
	}
	detect_advance(ddp->detect, ddp->now_ns);
}

static inline void ddp_steps(struct ddp *ddp, int steps)
{
	while (steps--)
		ddp_step(ddp);
}

/* Snapshots, a second apart. stopped: the rank that the others wait for; -1: all advance. */
static inline void ddp_snapshots(struct ddp *ddp, int stopped, int checks)
{
	struct standing standing[DDP_RANKS];

	while (checks--) {
		ddp->now_ns += 1000000000;
		for (int i = 0; i < DDP_RANKS; i++) {
			standing[i] = (struct standing){.rank = (uint32_t)ddp->process[i],
				.state = i == stopped ? 'T' : 'S',
				.progress_ns = stopped < 0 ? ddp->now_ns : ddp->end_ns[i],
				.step_end_ns = ddp->end_ns[i],
				.steps = (uint64_t)ddp->step,
				.stage = i == stopped ? STAGE_FORWARD : STAGE_BACKWARD,
				.stage_since_ns = ddp->end_ns[i],
				.cpu_ns = FRAME_UNKNOWN};
			ddp->begin_ns[i] = ddp->now_ns;
		}
		detect_snapshot(ddp->detect, ddp->now_ns, standing, DDP_RANKS, NULL, NULL, 0, false);
		detect_advance(ddp->detect, ddp->now_ns);
	}
}

static inline void ddp_stop(struct ddp *ddp)
{
	for (int i = 0; i < DDP_RANKS; i++)
		align_rank_end(ddp->align, ddp->process[i], ddp->now_ns);
	ddp->now_ns += 10000000000;
	detect_advance(ddp->detect, ddp->now_ns);
}

#endif
