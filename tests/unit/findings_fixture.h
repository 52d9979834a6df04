/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The findings module, with a stand-in detector that records its input and emits what a test wants, and levels that
 * always switch. Included once, by a test of the module.
 */
#ifndef RANKTRACE_TESTS_FINDINGS_FIXTURE_H
#define RANKTRACE_TESTS_FINDINGS_FIXTURE_H

#include "daemon/findings/online_internal.h"
#include "daemon/stacks/profiles.h"
#include "tests/unit/call_sinks_fixture.h"
#include "tests/unit/fake_proc.h"

#define RANKS 2

/* The judge. */
static struct detect_sink sink;
static int numbers;
static struct {
	unsigned ranks, ended, stages, steps, ops, comms, hosts, checks, advances, lost;
	char job[64], card[64];
	int card_process;
	struct align_stage stage;
	struct align_op op;
	char coll_name[32], preemptor_name[16];
	struct align_host host;
	struct standing standing[8];
	size_t standings, stucks, culprits;
	int stuck_state;
	bool operations;
	uint64_t check_ns, advance_ns;
	uint64_t watched_ns, unwatched_ns;
	uint64_t step_ns; /* what the aligner says that a step takes */
} seen;

void detect_options_default(struct detect_options *ret)
{
	*ret = (struct detect_options){.slow_ratio = 1.05};
}

struct detect *detect_new(const struct detect_options *wanted, const struct detect_sink *wanted_sink)
{
	assert_true(wanted->hang_ns == 30 * NSEC_PER_SEC);
	sink = *wanted_sink;
	return (struct detect *)&sink;
}

struct detect *detect_free(struct detect *detect)
{
	return NULL;
}

/* What it has learned, as an array that a test sets; what it was given. */
static json_t *learned, *resumed;

json_t *detect_learned(const struct detect *detect)
{
	return json_incref(learned);
}

void detect_resume(struct detect *detect, json_t *given)
{
	json_decref(resumed);
	resumed = json_incref(given);
}

struct hardware *detect_hardware(struct detect *detect, const char *host)
{
	return NULL;
}

struct align *detect_align(struct detect *detect)
{
	return (struct align *)detect;
}

void detect_snapshot(struct detect *detect, uint64_t now_ns, const struct standing *standing, size_t standings,
	const struct stuck *stuck, const char *const *stuck_job, size_t stucks, bool operations)
{
	seen.checks++;
	seen.check_ns = now_ns;
	seen.stucks = stucks;
	if (stucks) {
		seen.stuck_state = stuck->state;
		seen.culprits = stuck->culprits;
	}
	seen.operations = operations;
	seen.standings = standings;
	memcpy(seen.standing, standing, (standings < 8 ? standings : 8) * sizeof(*standing));
}

void detect_advance(struct detect *detect, uint64_t now_ns)
{
	seen.advances++;
	seen.advance_ns = now_ns;
}

static struct finding open_at_end;
static bool has_open;

void detect_end(struct detect *detect)
{
	if (has_open)
		sink.finding(sink.arg, &open_at_end);
}

int align_rank_new(struct align *align, const struct align_rank *rank)
{
	seen.ranks++;
	(void)copy_text(seen.job, sizeof(seen.job), rank->job);
	return numbers++;
}

void align_rank_card(struct align *align, int process, const char *card)
{
	seen.card_process = process;
	(void)copy_text(seen.card, sizeof(seen.card), card);
}

void align_rank_end(struct align *align, int process, uint64_t end_ns)
{
	seen.ended++;
}

void align_comm(struct align *align, int process, const char *communicator, enum comm_kind kind, uint32_t members,
	int32_t member)
{
	seen.comms++;
}

void align_stage(struct align *align, int process, const struct align_stage *stage)
{
	seen.stages++;
	seen.stage = *stage;
}

void align_step(struct align *align, int process, const struct align_step *step)
{
	seen.steps++;
}

void align_op(struct align *align, int process, const struct align_op *op)
{
	seen.ops++;
	seen.op = *op;
	(void)copy_text(seen.coll_name, sizeof(seen.coll_name), op->op);
}

void align_host(struct align *align, int process, const struct align_host *host)
{
	seen.hosts++;
	seen.host = *host;
	(void)copy_text(seen.preemptor_name, sizeof(seen.preemptor_name), host->preemptor_name);
}

void align_lost(struct align *align, int process, uint64_t records)
{
	seen.lost += (unsigned)records;
}

void align_watched(struct align *align, bool on, uint64_t from_ns)
{
	seen.watched_ns = on ? from_ns : 0;
	seen.unwatched_ns = on ? 0 : from_ns;
}

bool align_job_info(const struct align *align, uint32_t job, struct align_job_info *ret)
{
	*ret = (struct align_job_info){.job = "j", .step_ns = seen.step_ns};
	return job == 0;
}

void align_counts(const struct align *align, struct align_counts *ret)
{
	*ret = (struct align_counts){.frames = 17};
}

bool align_locate(const struct align *align, int process, uint32_t *ret_job, uint32_t *ret_index)
{
	*ret_job = 0;
	*ret_index = (uint32_t)process;
	return true;
}

/* Levels that always switch. */
/* The newest profile. */
static struct profile_progress newest_profile;

__attribute__((weak)) int profiles_progress(
	const struct profiles *profiles, int64_t number, struct profile_progress *ret)
{
	if (!newest_profile.number)
		return -ENOENT;
	*ret = newest_profile;
	return 0;
}

static unsigned switches;
static void (*while_off)(void); /* called while a level is turned off */

int collectors_level(struct collectors *collectors, enum level level, bool on, char *report, size_t report_size)
{
	switches++;
	if (!on && while_off)
		while_off();
	snprintf(report, report_size, "2 probes");
	return 0;
}

static char root[128];

static inline int setup(void **state)
{
	if (fixture_setup(state) < 0)
		return -1;
	memset(&seen, 0, sizeof(seen));
	numbers = 0;
	switches = 0;
	while_off = NULL;
	has_open = false;
	learned = resumed = NULL;
	fake_new(root, sizeof(root));
	context.collectors = (struct collectors *)&context; /* only passed on */
	context.config.findings_enabled = context.config.online_auto_level = 1;
	context.config.findings_sample_ns = NSEC_PER_SEC;
	context.config.findings_hang_ns = 30 * NSEC_PER_SEC;
	context.config.online_auto_level_for_ns = 60 * NSEC_PER_SEC;
	context.config.online_auto_level_pause_ns = 300 * NSEC_PER_SEC;
	context.config.online_auto_level_percent = 10;
	snprintf(context.config.state_dir, sizeof(context.config.state_dir), "%s", dir);
	levels_defaults(&context.levels);
	context.levels.apply = collectors_level;
	assert_int_equal(online_new(&context, &context.findings), 0);
	assert_non_null(context.findings);
	context.findings->wait_ns = 60 * NSEC_PER_SEC; /* under any load */
	(void)copy_text(context.findings->proc_root, sizeof(context.findings->proc_root), root);
	(void)copy_text(context.findings->cgroup_root, sizeof(context.findings->cgroup_root), root);
	for (unsigned i = 0; i < RANKS; i++)
		notify_rank(&ranks_here[i], RANK_ADDED);
	return 0;
}

static inline int teardown(void **state)
{
	context.findings = online_free(context.findings);
	json_decref(resumed);
	json_decref(learned);
	fake_free(root);
	return fixture_teardown(state);
}

#endif
