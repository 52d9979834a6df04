/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames of a synchronous job as a script says, and the findings of the judgement. Each step takes as long as the
 * slowest rank works; the others wait for it in one activity. script_end() verifies what must hold in every script: the
 * costs of all findings add up to no more than the job lost, and no number of a finding is NaN.
 */
#ifndef RANKTRACE_TESTS_JUDGE_SCRIPT_H
#define RANKTRACE_TESTS_JUDGE_SCRIPT_H

#include "analyzers/judge/judge.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/test.h"

#define MS 0.001
#define SCRIPT_RANKS 10240
#define SCRIPT_FINDINGS 64
#define SCRIPT_AHEAD 9
#define SCRIPT_BEGIN_NS 1000000000000ULL

/* The last state of a finding. */
struct said {
	struct finding finding;
	double first_s; /* when it was said first */
	unsigned times;
};

static struct script {
	struct judge *judge;
	size_t ranks;
	size_t world_size;			  /* with those on other nodes; 0: ranks */
	bool cards, l1, cpu;			  /* cpu: host samples have the time that a rank works */
	enum activity waiting;			  /* where ranks wait */
	bool apart;				  /* in operations that lie outside of all stages */
	double usual[ACTIVITY_MAX];		  /* s */
	double fault[SCRIPT_RANKS][ACTIVITY_MAX]; /* s that the rank works more, from now on */
	double once[SCRIPT_RANKS][ACTIVITY_MAX];  /* the same, in the next step alone */
	double late[SCRIPT_RANKS];		  /* s that the rank waits more, in the next step alone */
	double card_waits[SCRIPT_RANKS]; /* s a step that its card waits in operations, and its host does not */
	unsigned ahead;			 /* steps later a rank waits for another: hosts run ahead of their cards */
	bool in_sync;			 /* it waits for all in one step: in each of so many and one it synchronizes */
	double owed[SCRIPT_AHEAD + 1][SCRIPT_RANKS]; /* s that it will wait, by step */
	uint32_t syncs[SCRIPT_RANKS];
	uint32_t class[SCRIPT_RANKS];
	bool missing[SCRIPT_RANKS];
	bool hung;				   /* a hang was reported for the time of the steps to come */
	bool unsplit;				   /* L0 does not watch: activities are not known */
	double lead[SCRIPT_RANKS];		   /* s; 0: not known */
	double working_w[SCRIPT_RANKS], waiting_w; /* that its card takes, W; 0: not known */
	double transfer;			   /* s a step, in one operation of all ranks */
	double noise;				   /* of each activity: standard deviation */
	uint64_t lost_records;			   /* of each frame */
	double slack;				   /* s that costs may exceed what was lost */
	uint64_t now_ns, step, random, next_id;
	double clean, lost; /* s a step without faults; s lost so far */
	struct said said[SCRIPT_FINDINGS];
	size_t n_said;
	unsigned wants, n_wants;
	char why[128];
	struct frame_who who[SCRIPT_RANKS];
	struct frame_rank rank[SCRIPT_RANKS];
	struct frame_host host[SCRIPT_RANKS];
	struct measure_rank measured[SCRIPT_RANKS];
} script;

static inline double script_s(void)
{
	return (double)(script.now_ns - SCRIPT_BEGIN_NS) * 1e-9;
}

static inline void script_finding(void *arg, const struct finding *finding)
{
	size_t i = 0;

	while (i < script.n_said && script.said[i].finding.id != finding->id)
		i++;
	assert_true(i < SCRIPT_FINDINGS);
	if (i == script.n_said) {
		script.n_said++;
		script.said[i].first_s = script_s();
	}
	script.said[i].finding = *finding;
	script.said[i].times++;
	assert_null(strstr(finding->sentence, "nan"));
	assert_true(strlen(finding->sentence) > 20);
	assert_true(isfinite(finding->slowdown) && isfinite(finding->cost_card_hours));
	for (size_t e = 0; e < finding->evidences; e++)
		assert_true(isfinite(finding->evidence[e].value));
}

static inline void script_want(void *arg, unsigned wants, const char *why)
{
	script.wants |= wants;
	script.n_wants++;
	snprintf(script.why, sizeof(script.why), "%s", why);
}

static inline bool script_hung(void *arg, uint64_t begin_ns, uint64_t end_ns)
{
	(void)arg;
	assert_true(begin_ns < end_ns);
	return script.hung;
}

/* Ranks whose steps take 100.1 ms: ten are a tick. */
static inline void script_begin_options(size_t ranks, const struct judge_options *options)
{
	const struct judge_sink sink = {script_finding, script_want, script_hung, NULL};

	memset(&script, 0, sizeof(script));
	script.ranks = ranks;
	script.waiting = ACTIVITY_BACKWARD;
	script.usual[ACTIVITY_OUTSIDE] = 2.1 * MS;
	script.usual[ACTIVITY_DATALOADER] = 4 * MS;
	script.usual[ACTIVITY_FORWARD] = 30 * MS;
	script.usual[ACTIVITY_BACKWARD] = 50 * MS;
	script.usual[ACTIVITY_ZERO_GRAD] = 1 * MS;
	script.usual[ACTIVITY_OPTIMIZER] = 10 * MS;
	script.usual[ACTIVITY_SYNC] = 3 * MS;
	script.now_ns = SCRIPT_BEGIN_NS;
	script.next_id = 1;
	script.slack = 1e-6; /* rounding */
	script.random = 1;
	for (size_t r = 0; r < ranks; r++) {
		script.who[r] = (struct frame_who){
			.rank = (int32_t)r, .node = FRAME_NONE, .stage = FRAME_NONE, .host = "node-a"};
		script.syncs[r] = 1;
		script.class[r] = FRAME_NONE;
		script.host[r] = frame_host_unknown();
	}
	script.judge = judge_new(options, "job", &sink, &script.next_id);
	assert_non_null(script.judge);
}

static inline void script_begin(size_t ranks)
{
	struct judge_options options;

	judge_options_default(&options);
	script_begin_options(ranks, &options);
}

static inline void script_cards(void)
{
	script.cards = true;
	for (size_t r = 0; r < script.ranks; r++)
		snprintf(script.who[r].card, sizeof(script.who[r].card), "%zu", r);
}

/* All times of a step so many times as long. */
static inline void script_scale(double times)
{
	for (int a = 0; a < ACTIVITY_MAX; a++)
		script.usual[a] *= times;
}

/* From 0 to below 1. */
static inline double script_uniform(void)
{
	script.random = script.random * 6364136223846793005ULL + 1442695040888963407ULL;
	return (double)(script.random >> 11) * 0x1p-53;
}

/* Normal with deviation 1, cut at 3. */
static inline double script_draw(void)
{
	double sum = -6;

	for (int i = 0; i < 12; i++)
		sum += script_uniform();
	return fmin(3, fmax(-3, sum));
}

/* True with this probability. */
static inline bool script_chance(double probability)
{
	return script_uniform() < probability;
}

/* What the rank itself does in this step, s. */
static inline double script_work(size_t r, double act[ACTIVITY_MAX])
{
	double sum = 0;

	for (int a = 0; a < ACTIVITY_MAX; a++) {
		act[a] = script.usual[a] * (script.noise > 0 ? 1 + script.noise * script_draw() : 1);
		act[a] = fmax(0, act[a] + script.fault[r][a] + script.once[r][a]);
		sum += act[a];
	}
	return sum;
}

/* What a rank waits in this step, of which the others took `wait` s longer. Its clock is behind by what it has still to
 * wait. */
static inline double script_wait(size_t r, double wait, double *ret_behind)
{
	size_t now = script.step % (SCRIPT_AHEAD + 1), later = script.ahead;

	*ret_behind = 0;
	if (script.in_sync)
		later -= script.step % (script.ahead + 1);
	script.owed[(script.step + later) % (SCRIPT_AHEAD + 1)][r] += wait;
	wait = script.owed[now][r];
	script.owed[now][r] = 0;
	for (size_t i = 0; i <= SCRIPT_AHEAD; i++)
		*ret_behind += script.owed[i][r];
	return wait;
}

static inline void script_rank(size_t r, const double act[ACTIVITY_MAX], double work, double wait)
{
	struct frame_rank *rank = &script.rank[r];

	*rank = (struct frame_rank){
		.here = !script.missing[r], .end_ns = script.now_ns, .syncs = script.syncs[r], .host = script.host[r]};
	if (!rank->here) {
		*rank = (struct frame_rank){0};
		return;
	}
	for (int a = 0; a < ACTIVITY_MAX; a++) {
		double wide = a == (int)script.waiting ? wait + script.transfer + script.late[r] : 0;

		rank->activity_ns[a] = (uint64_t)((act[a] + wide) * 1e9 + 0.5);
		rank->step_ns += rank->activity_ns[a];
	}
	rank->unsplit = script.unsplit;
	if (script.unsplit) {
		memset(rank->activity_ns, 0, sizeof(rank->activity_ns));
		rank->syncs = 0;
	}
	rank->leads = script.lead[r] > 0 ? 10 : 0;
	rank->lead_ns = (uint64_t)(script.lead[r] * 10 * 1e9);
	if (script.cpu)
		rank->host.cpu_ns = (uint64_t)(work * 1e9);
	if (script.working_w[r] > 0)
		rank->host.card_energy_mj = (uint64_t)((work * script.working_w[r] + wait * script.waiting_w) * 1e3);
	script.measured[r] = (struct measure_rank){
		.wait_ns = (uint64_t)((wait + script.late[r] + script.card_waits[r]) * 1e9), .class = script.class[r]};
	script.measured[r].apart_ns = script.apart ? script.measured[r].wait_ns : 0;
}

static inline void script_step(void)
{
	static double act[SCRIPT_RANKS][ACTIVITY_MAX], work[SCRIPT_RANKS];
	struct frame_comm comm = {.kind = COMM_KIND_DATA, .members = (uint32_t)script.ranks};
	struct frame_group group = {.members = (uint32_t)script.ranks};
	struct measure_group measured_group = {.transfer_ns = (uint64_t)(script.transfer * 1e9), .last = FRAME_NONE};
	struct measures measures = {.ranks = script.ranks,
		.groups = 1,
		.rank = script.measured,
		.group = &measured_group,
		.lost = script.lost_records};
	struct frame frame = {.step = ++script.step,
		.class = FRAME_TRAIN,
		.tier = script.l1 ? script.cards ? FRAME_TIER_DEVICE : FRAME_TIER_HOST : FRAME_TIER_STAGES,
		.world_size = (uint32_t)(script.world_size ? script.world_size : script.ranks),
		.cards = (uint32_t)script.ranks,
		.ranks = script.ranks,
		.who = script.who,
		.rank = script.rank,
		.comms = 1,
		.comm = &comm,
		.groups = 1,
		.group = &group};
	double most = 0, clean = script.transfer;

	for (size_t r = 0; r < script.ranks; r++) {
		work[r] = script_work(r, act[r]);
		most = fmax(most, work[r]);
	}
	for (int a = 0; a < ACTIVITY_MAX; a++)
		clean += script.usual[a];
	if (!(script.clean > 0))
		script.clean = clean;
	script.lost += most + script.transfer + script.late[0] - script.clean;
	script.now_ns += (uint64_t)((most + script.transfer + script.late[0]) * 1e9);
	for (size_t r = 0; r < script.ranks; r++) {
		double behind, wait = script_wait(r, most - work[r], &behind);

		script_rank(r, act[r], work[r], wait);
		script.rank[r].end_ns -= script.rank[r].here ? (uint64_t)(behind * 1e9) : 0;
	}
	assert_int_equal(judge_frame(script.judge, &frame, script.l1 ? &measures : NULL), 0);
	memset(script.once, 0, sizeof(script.once[0]) * script.ranks);
	memset(script.late, 0, sizeof(script.late[0]) * script.ranks);
}

static inline void script_run(double s)
{
	uint64_t until_ns = script.now_ns + (uint64_t)(s * 1e9);

	while (script.now_ns + 1000 < until_ns)
		script_step();
}

static inline void script_all(enum activity activity, double s)
{
	for (size_t r = 0; r < script.ranks; r++)
		script.fault[r][activity] = s;
}

/* The job's usual step is shorter from now on. */
static inline void script_faster(double s)
{
	script_all(ACTIVITY_FORWARD, -s);
	script.clean -= s;
}

static inline void script_once(enum activity activity, double s)
{
	for (size_t r = 0; r < script.ranks; r++)
		script.once[r][activity] = s;
}

/* s that all findings together say the job lost. */
static inline double script_cost(void)
{
	double sum = 0;

	for (size_t i = 0; i < script.n_said; i++)
		sum += script.said[i].finding.cost_card_hours * 3600 / (double)script.ranks;
	return sum;
}

static inline void script_print(void)
{
	for (size_t i = 0; i < script.n_said; i++)
		fprintf(stderr, "%.1f s: %s, %s, x%u: %s\n", script.said[i].first_s,
			finding_state_word(script.said[i].finding.state),
			finding_severity_word(script.said[i].finding.severity), script.said[i].times,
			script.said[i].finding.sentence);
}

/* The newest finding of that rank (-1: of the job) and activity; NULL: there is none. */
static inline const struct said *script_said(int32_t rank, enum activity activity)
{
	const struct said *ret = NULL;

	for (size_t i = 0; i < script.n_said; i++)
		if (script.said[i].finding.rank == rank && script.said[i].finding.activity == activity)
			ret = &script.said[i];
	return ret;
}

static inline void script_expect(size_t findings)
{
	if (script.n_said != findings)
		script_print();
	assert_int_equal(script.n_said, findings);
}

/* There is one finding, of that rank and activity. */
static inline const struct said *script_only(int32_t rank, enum activity activity)
{
	script_expect(1);
	if (!script_said(rank, activity))
		script_print();
	assert_non_null(script_said(rank, activity));
	return &script.said[0];
}

static inline void script_over(void)
{
	if (script_cost() > script.lost + script.slack)
		script_print();
	assert_true(script_cost() <= script.lost + script.slack);
	script.judge = judge_free(script.judge);
}

/* The job ends: every finding is closed. */
static inline void script_close(void)
{
	judge_close(script.judge);
	for (size_t i = 0; i < script.n_said; i++)
		assert_int_equal(script.said[i].finding.state, FINDING_CLOSED);
}

static inline void script_end(void)
{
	script_close();
	script_over();
}

static inline const struct finding_evidence *script_evidence(const struct finding *finding, const char *name)
{
	for (size_t e = 0; e < finding->evidences; e++)
		if (!strcmp(finding->evidence[e].name, name))
			return &finding->evidence[e];
	return NULL;
}

#endif
