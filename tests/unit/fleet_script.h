/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of many ranks as a script says. All ranks of a synchronous job take equally long for a step: who works less
 * waits, in backward and, with operations, in them. What is measured has noise.
 */
#ifndef RANKTRACE_TESTS_FLEET_SCRIPT_H
#define RANKTRACE_TESTS_FLEET_SCRIPT_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/fleet/fleet.h"

#include "tests/test.h"

#define FLEET_SCRIPT_RANKS 10240
#define FLEET_SCRIPT_PER_NODE 8

static struct fleet_script {
	struct fleet fleet;
	size_t ranks;
	bool operations;
	double noise;			  /* of each activity: standard deviation, s */
	double work[ACTIVITY_MAX];	  /* of every rank, s a step */
	double role[FLEET_SCRIPT_RANKS];  /* forward that the rank has more, always */
	double fault[FLEET_SCRIPT_RANKS]; /* of this activity, now */
	enum activity activity;
	double slower; /* s that backward of all ranks takes more, now */
	double link;   /* s that the network between nodes link_first.. takes more, now */
	uint32_t link_first, link_nodes;
	double early;	    /* of the minute of every third node, that was before the fault */
	bool faulty_before; /* the fault is as old as the window */
	double clean;	    /* s: the step before */
	uint64_t random;
	struct fleet_verdict verdict[FLEET_VERDICTS_MAX];
	size_t verdicts;
	char sentence[640];
} fleet_script;

static inline double fleet_script_uniform(void)
{
	fleet_script.random = fleet_script.random * 6364136223846793005ULL + 1442695040888963407ULL;
	return ((double)(fleet_script.random >> 11) + 0.5) / 9007199254740992.0;
}

static inline double fleet_script_noise(void)
{
	return fleet_script.noise * sqrt(-2 * log(fleet_script_uniform())) * cos(2 * M_PI * fleet_script_uniform());
}

/* A job of 1 s steps: 20 % data loading and the like, forward and backward. */
static inline void fleet_script_begin(size_t ranks)
{
	fleet_free(&fleet_script.fleet);
	memset(&fleet_script, 0, sizeof(fleet_script));
	fleet_script.random = 7;
	fleet_script.ranks = ranks;
	fleet_script.noise = 0.003;
	fleet_script.activity = ACTIVITY_DATALOADER;
	fleet_script.work[ACTIVITY_DATALOADER] = 0.05;
	fleet_script.work[ACTIVITY_OUTSIDE] = 0.05;
	fleet_script.work[ACTIVITY_FORWARD] = 0.3;
	fleet_script.work[ACTIVITY_BACKWARD] = 0.5;
	fleet_script.work[ACTIVITY_OPTIMIZER] = 0.1;
}

static inline double fleet_script_own(size_t r, bool now)
{
	double sum = fleet_script.role[r] + (now || fleet_script.faulty_before ? fleet_script.fault[r] : 0);

	for (int a = 0; a < ACTIVITY_MAX; a++)
		sum += fleet_script.work[a];
	return sum;
}

static inline bool fleet_script_is_early(size_t node)
{
	return fleet_script.early > 0 && node % 3 == 1;
}

/* A part of the minute, `early`, is as before. */
static inline void fleet_script_mix(size_t r, double act[ACTIVITY_MAX], double *step)
{
	double fault = fleet_script.faulty_before ? 0 : fleet_script.fault[r], gone = 0;

	act[fleet_script.activity] -= fleet_script.early * fault;
	gone = fleet_script.early * (*step - fleet_script.clean);
	act[ACTIVITY_BACKWARD] -= gone - fleet_script.early * fault;
	*step -= gone;
}

static inline void fleet_script_rank(
	size_t r, double most, bool now, double act[ACTIVITY_MAX], double *step, double *operations)
{
	double link = now ? fleet_script.link + fleet_script.slower : 0, wait = most + link - fleet_script_own(r, now);

	memcpy(act, fleet_script.work, sizeof(fleet_script.work));
	act[ACTIVITY_FORWARD] += fleet_script.role[r];
	act[fleet_script.activity] += now || fleet_script.faulty_before ? fleet_script.fault[r] : 0;
	act[ACTIVITY_BACKWARD] += wait;
	*step = most + link;
	for (int a = 0; a < ACTIVITY_COMPUTE; a++) {
		double more = act[a] > 0 ? fmax(-act[a], fleet_script_noise()) : 0;

		/* Who works longer waits less: the step is the job's. */
		act[a] += more;
		act[ACTIVITY_BACKWARD] -= more;
	}
	/* The minute of some nodes began before the fault. */
	if (now && fleet_script_is_early(r / FLEET_SCRIPT_PER_NODE))
		fleet_script_mix(r, act, step);
	wait *= now && fleet_script_is_early(r / FLEET_SCRIPT_PER_NODE) ? 1 - fleet_script.early : 1;
	*operations = fleet_script.operations ? 0.1 + wait + fabs(fleet_script_noise()) : NAN;
}

/* The table, and what the judgement says. */
static inline void fleet_script_judge(void)
{
	struct fleet *fleet = &fleet_script.fleet;
	size_t ranks = fleet_script.ranks, nodes = (ranks + FLEET_SCRIPT_PER_NODE - 1) / FLEET_SCRIPT_PER_NODE;
	double most = 0, before = 0;

	fleet_free(fleet);
	*fleet = (struct fleet){.ranks = ranks,
		.nodes = nodes,
		.jobs = 1,
		.rank = calloc(ranks, sizeof(*fleet->rank)),
		.node = calloc(nodes, sizeof(*fleet->node)),
		.job = calloc(1, sizeof(*fleet->job)),
		.operation = calloc(2 * nodes, sizeof(*fleet->operation))};
	snprintf(fleet->job[0].name, sizeof(fleet->job[0].name), "gpt");
	for (size_t r = 0; r < ranks; r++) {
		most = fmax(most, fleet_script_own(r, true));
		before = fmax(before, fleet_script_own(r, false));
	}
	fleet_script.clean = before;
	for (size_t n = 0; n < nodes; n++) {
		snprintf(fleet->node[n].name, sizeof(fleet->node[n].name), "node-%zu", n);
		if (!fleet_script.operations)
			continue;
		fleet->operation[n] = (struct fleet_operation){
			.node = (uint32_t)n, .word = "all_reduce of data", .now = 0.1, .usual = 0.1};
		fleet->operation[nodes + n] = (struct fleet_operation){
			.node = (uint32_t)n, .word = "send of pipeline", .now = 0.01, .usual = 0.01};
		fleet->operations = 2 * nodes;
		/* Those on the slow link transfer longer, the others wait for them in their next operation. */
		fleet->operation[n + (n - fleet_script.link_first < fleet_script.link_nodes ? nodes : 0)].now +=
			fleet_script.link * (fleet_script_is_early(n) ? 1 - fleet_script.early : 1);
	}
	for (size_t r = 0; r < ranks; r++) {
		struct fleet_rank *rank = &fleet->rank[r];

		rank->rank = (int32_t)r;
		rank->node = (uint32_t)(r / FLEET_SCRIPT_PER_NODE);
		fleet_script_rank(r, most, true, rank->act, &rank->step, &rank->operations);
		fleet_script_rank(r, before, false, rank->usual, &rank->step_usual, &rank->operations_usual);
	}
	assert_int_equal(fleet_judge(fleet, 0, fleet_script.verdict, &fleet_script.verdicts), 0);
	fleet_script.sentence[0] = 0;
	if (fleet_script.verdicts)
		fleet_sentence(fleet, &fleet_script.verdict[0], fleet_script.sentence, sizeof(fleet_script.sentence));
}

static inline void fleet_script_slow(size_t first, size_t count, double s)
{
	for (size_t r = first; r < first + count; r++)
		fleet_script.fault[r] = s;
}

#define fleet_script_expect(of_kind, of_first, of_last) \
	do { \
		fleet_script_judge(); \
		assert_int_equal(fleet_script.verdicts, 1); \
		assert_string_equal(fleet_kind_word(fleet_script.verdict[0].kind), fleet_kind_word(of_kind)); \
		assert_int_equal(fleet_script.verdict[0].first, of_first); \
		assert_int_equal(fleet_script.verdict[0].last, of_last); \
	} while (0)

#define fleet_script_expect_nobody() \
	do { \
		fleet_script_judge(); \
		assert_string_equal(fleet_script.sentence, ""); \
		assert_int_equal(fleet_script.verdicts, 0); \
	} while (0)

#endif
