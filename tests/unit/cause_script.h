/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of eight ranks, one of which, or all, have an excess somewhere. */
#ifndef RANKTRACE_TESTS_CAUSE_SCRIPT_H
#define RANKTRACE_TESTS_CAUSE_SCRIPT_H

#include "analyzers/detect/cause.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define RANKS 8
#define SLOW 3
#define MS 1000000ULL

static struct frame_who who[RANKS];
static struct frame_rank ranks[RANKS];
static struct measure_rank measured[RANKS];
static uint32_t class_ranks[RANKS];
static struct frame frame;
static struct measures measures;
static struct measure_group group;
static struct frame_group frame_group;
static struct cause *cause;
static struct finding finding;
static uint32_t noise;

static inline int begin(void **state)
{
	(void)state;
	cause = cause_new();
	assert_non_null(cause);
	noise = 1;
	memset(&finding, 0, sizeof(finding));
	memset(who, 0, sizeof(who));
	frame = (struct frame){.class = FRAME_TRAIN,
		.tier = FRAME_TIER_HOST,
		.world_size = RANKS,
		.ranks = RANKS,
		.who = who,
		.rank = ranks,
		.groups = 0,
		.group = &frame_group};
	class_ranks[0] = RANKS;
	measures = (struct measures){
		.ranks = RANKS, .classes = 1, .rank = measured, .class_ranks = class_ranks, .group = &group};
	for (uint32_t i = 0; i < RANKS; i++) {
		measured[i] = (struct measure_rank){.class = 0};
		who[i].rank = (int32_t)i;
	}
	return 0;
}

static inline int end(void **state)
{
	(void)state;
	cause = cause_free(cause);
	return 0;
}

/* Up to 2 % of it. */
static inline uint64_t about(uint64_t ns)
{
	noise = noise * 1664525U + 1013904223U;
	return ns + ns / 100 * (noise >> 24) / 128;
}

/* A step of 200 ms, half of it waiting for others; ranks that compute on the CPU. */
static inline void quiet(void)
{
	for (uint32_t i = 0; i < RANKS; i++) {
		struct frame_rank *rank = &ranks[i];

		*rank = (struct frame_rank){.here = true, .step_ns = 200 * MS};
		rank->stage_ns[STAGE_DATALOADER] = about(5 * MS);
		rank->stage_ns[STAGE_FORWARD] = about(40 * MS);
		rank->stage_ns[STAGE_BACKWARD] = about(140 * MS);
		rank->stage_ns[STAGE_OPTIMIZER] = about(10 * MS);
		rank->stage_ns[STAGE_GC] = about(MS);
		rank->host = (struct frame_host){.cpu_ns = about(100 * MS),
			.run_delay_ns = about(2 * MS),
			.throttled_ns = 0,
			.major_faults = 0,
			.launch_gap_ns = FRAME_UNKNOWN};
		measured[i].self_ns = about(100 * MS);
		measured[i].wait_ns = 100 * MS;
	}
	measures.step_ns = 200 * MS;
}

static inline void feed(void)
{
	frame.step++;
	cause_frame(cause, &frame, &measures);
}

static inline enum finding_cause ask(uint64_t excess_ns)
{
	memset(&finding, 0, sizeof(finding));
	cause_of(cause, SLOW, (double)excess_ns, &finding);
	return finding.cause;
}

/* What a test does to the slow rank's record of a step. */
typedef void inject_fn(struct frame_rank *rank);

static inline enum finding_cause run(inject_fn *inject, uint64_t excess_ns)
{
	for (int i = 0; i < 20; i++) {
		quiet();
		inject(&ranks[SLOW]);
		measured[SLOW].self_ns += excess_ns;
		feed();
	}
	return ask(excess_ns);
}

static inline const struct finding_evidence *evidence(const char *name)
{
	for (size_t i = 0; i < finding.evidences; i++) {
		if (strcmp(finding.evidence[i].name, name) == 0)
			return &finding.evidence[i];
	}
	fail_msg("no evidence %s", name);
	return NULL;
}

static inline void loads(struct frame_rank *rank)
{
	rank->stage_ns[STAGE_DATALOADER] += 60 * MS;
}

static inline void loads_throttled(struct frame_rank *rank)
{
	loads(rank);
	rank->host.throttled_ns = 55 * MS;
	rank->host.run_delay_ns = 58 * MS;
}

static inline void saves(struct frame_rank *rank)
{
	rank->stage_ns[STAGE_CHECKPOINT] = 60 * MS;
}

static inline void is_throttled(struct frame_rank *rank)
{
	rank->stage_ns[STAGE_FORWARD] += 60 * MS;
	rank->host.run_delay_ns += 50 * MS;
	rank->host.preemptor_ns = 40 * MS;
	rank->host.throttled_ns = 45 * MS;
	rank->host.preemptor_pid = 4711;
}

static inline void computes(struct frame_rank *rank)
{
	rank->stage_ns[STAGE_FORWARD] += 60 * MS;
	rank->host.cpu_ns += 60 * MS;
}

#define T(name) cmocka_unit_test_setup_teardown(name, begin, end)

#endif
