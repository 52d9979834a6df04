/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "analyzers/detect/detect.h"
#include "tests/sim/accuracy_judge.h"

#define HEARD_MAX 512

/* A finding that was opened: as it was told last, and when it was opened. */
struct heard {
	struct finding finding;
	uint64_t opened_step;
	unsigned opened_frame; /* so many frames in which it could show came before, from the onset on */
};

struct hearing {
	const struct case_spec *spec;
	const struct sim_options *options;
	const struct sim *sim;
	struct heard heard[HEARD_MAX];
	size_t n;
	uint64_t step;
	unsigned frames;
	bool verbose;
	struct yardstick *yardstick; /* NULL: it does not judge this */
};

static void on_finding(void *arg, const struct finding *finding)
{
	struct hearing *hearing = arg;
	struct heard *heard = NULL;

	if (hearing->verbose)
		printf("  step %llu: %s %s: %s\n", (unsigned long long)hearing->step,
			finding_state_word(finding->state), finding_kind_word(finding->kind), finding->sentence);
	for (size_t i = 0; i < hearing->n && !heard; i++) {
		if (hearing->heard[i].finding.id == finding->id)
			heard = &hearing->heard[i];
	}
	if (!heard && (finding->state != FINDING_OPEN || hearing->n == HEARD_MAX))
		return;
	if (!heard) {
		heard = &hearing->heard[hearing->n++];
		heard->opened_step = hearing->step;
		heard->opened_frame = hearing->frames;
	}
	heard->finding = *finding;
}

/* "0-7,12" has a rank of that node. */
static bool others_have(const char *others, uint32_t node)
{
	while (*others >= '0' && *others <= '9') {
		char *end;
		unsigned long from = strtoul(others, &end, 10), to = from;

		if (*end == '-')
			to = strtoul(end + 1, &end, 10);
		if (sim_node((uint32_t)from) <= node && node <= sim_node((uint32_t)to))
			return true;
		others = *end == ',' ? end + 1 : end;
	}
	return false;
}

/* A node or a pair is named, or a communicator that goes over it. */
static bool names_link(const struct hearing *hearing, const struct finding *finding)
{
	const struct sim_options *o = hearing->options;
	bool pair = hearing->spec->inject == SIM_LINK_PAIR;
	char host[16];

	for (unsigned i = 0; i < (pair ? 2 : 1); i++) {
		snprintf(host, sizeof(host), "node%u", o->culprit[i]);
		if (!strcmp(finding->host, host))
			return true;
	}
	if (finding->communicator[0])
		return sim_comm_has_node(hearing->sim, finding->communicator, o->culprit[0]) &&
		       (!pair || sim_comm_has_node(hearing->sim, finding->communicator, o->culprit[1]));
	return others_have(finding->others, o->culprit[0]) && (!pair || others_have(finding->others, o->culprit[1]));
}

static bool is_culprit(const struct hearing *hearing, const struct finding *finding)
{
	const struct sim_options *o = hearing->options;

	if (finding->kind != case_kinds[hearing->spec->inject].expected)
		return false;
	if (finding->kind == FINDING_SLOW_RANK) {
		for (uint32_t i = 0; i < o->culprits; i++) {
			if (finding->rank == (int32_t)o->culprit[i])
				return true;
		}
		return false;
	}
	if (finding->kind == FINDING_SLOW_COMMUNICATION)
		return names_link(hearing, finding);
	return true;
}

static bool has_cause(const struct hearing *hearing, const struct finding *finding)
{
	const struct case_kind *kind = &case_kinds[hearing->spec->inject];

	for (unsigned i = 0; i < CASE_CAUSES_MAX; i++) {
		if (kind->cause[i] != CAUSE_UNKNOWN && kind->cause[i] == finding->cause)
			return true;
	}
	return false;
}

static bool accuses(const struct finding *finding)
{
	return finding->kind == FINDING_SLOW_RANK || finding->kind == FINDING_SLOW_COMMUNICATION;
}

static bool is_known(const struct hearing *hearing, size_t before, const struct finding *finding)
{
	for (size_t i = 0; i < before; i++) {
		const struct finding *other = &hearing->heard[i].finding;

		if (other->kind == finding->kind && other->rank == finding->rank && is_culprit(hearing, other))
			return true;
	}
	return false;
}

static void wrongly(const struct heard *heard, const char *what, struct outcome *ret)
{
	if (!strncmp(ret->seen, "wrong", 5))
		return;
	snprintf(ret->seen, sizeof(ret->seen), "wrong%s at step %llu: %s %s rank %d %s %s %s", what,
		(unsigned long long)heard->opened_step, finding_kind_word(heard->finding.kind),
		finding_cause_word(heard->finding.cause), heard->finding.rank, heard->finding.communicator,
		heard->finding.host, heard->finding.others);
}

static void count_right(const struct hearing *hearing, size_t i, struct outcome *ret)
{
	const struct heard *heard = &hearing->heard[i];

	if (is_known(hearing, i, &heard->finding) && heard->finding.kind == FINDING_SLOW_RANK)
		return;
	if (!ret->named)
		ret->delay = heard->opened_frame;
	ret->named = true;
	ret->right++;
	ret->told += heard->finding.slowdown >= 1 ? 1 - 1 / heard->finding.slowdown : 0;
	ret->causes++;
	if (has_cause(hearing, &heard->finding))
		ret->causes_right++;
	else if (!ret->seen[0])
		snprintf(ret->seen, sizeof(ret->seen), "cause %s", finding_cause_word(heard->finding.cause));
}

static void count(const struct hearing *hearing, struct outcome *ret)
{
	const struct heard *top = NULL;

	ret->delay = -1;
	for (size_t i = 0; i < hearing->n; i++) {
		const struct heard *heard = &hearing->heard[i];

		if (is_culprit(hearing, &heard->finding) && heard->opened_step >= hearing->options->onset) {
			count_right(hearing, i, ret);
		} else if (accuses(&heard->finding)) {
			ret->wrong++;
			ret->wrong_ranks += heard->finding.kind == FINDING_SLOW_RANK;
			wrongly(heard, "", ret);
		} else if (heard->finding.kind == FINDING_IMBALANCE || hearing->spec->inject == SIM_CLEAN) {
			ret->wrong_others++;
			wrongly(heard, " kind", ret);
		}
		if ((accuses(&heard->finding) || is_culprit(hearing, &heard->finding)) &&
			(!top || heard->finding.cost_card_hours > top->finding.cost_card_hours))
			top = heard;
	}
	ret->top = top && is_culprit(hearing, &top->finding);
	ret->culprits = hearing->options->culprits ? hearing->options->culprits : hearing->spec->inject != SIM_CLEAN;
	ret->all = hearing->options->culprits ? ret->right >= ret->culprits : ret->named;
}

static double cpu_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* The rank whose steps tell the truth: one that is there. */
static double step_of(const struct frame *frame)
{
	for (size_t i = 0; i < frame->ranks; i++) {
		if (frame->rank[i].here)
			return (double)frame->rank[i].step_ns;
	}
	return 0;
}

static void run(struct hearing *hearing, struct detect *detect, struct sim *sim, unsigned steps, struct outcome *ret)
{
	enum frame_class class = case_class(hearing->spec);
	struct sim_options clean = *hearing->options;
	double with = 0, whatif, all = 0;
	uint64_t from = hearing->options->onset > SIM_FIRST_STEPS ? hearing->options->onset : SIM_FIRST_STEPS;
	unsigned n = 0;

	for (unsigned i = 0; i < steps; i++) {
		const struct frame *frame = sim_step(sim);
		double begun = cpu_s();

		hearing->step = i;
		all += step_of(frame);
		if (i >= from && frame->class == class) {
			with += step_of(frame);
			n++;
			hearing->frames++;
		}
		detect_frame(detect, "job", frame);
		ret->detect_s += cpu_s() - begun;
		if (hearing->yardstick)
			yardstick_step(hearing->yardstick, frame);
		ret->ops += frame->ops;
	}
	ret->rank_days =
		all * 1e-9 / 86400 * (double)hearing->options->tp * hearing->options->pp * hearing->options->dp;
	clean.inject = SIM_CLEAN;
	if (hearing->spec->inject == SIM_CLEAN)
		return;
	whatif = sim_mean_step_ns(&clean, class, from, steps);
	ret->gain = n && with > 0 ? 1 - whatif * n / with : 0;
	ret->required = ret->gain >= JUDGE_GAIN_MIN;
}

/* What is true. */
static void print_case(const struct sim_options *o)
{
	printf("  true: from step %llu, of", (unsigned long long)o->onset);
	for (uint32_t i = 0; i < o->culprits; i++)
		printf(" %u", o->culprit[i]);
	printf("; %u micro-batches, jitter %.3f, drift %.3f, loss %.2f,%s%s%s%s\n", o->micro_batches, o->jitter,
		o->drift, o->loss, o->sharded ? " sharded" : "", o->world_op ? " world" : "",
		o->blocking_sends ? " blocking" : "", o->stage_known ? " stages known" : "");
}

int judge_case(const struct case_spec *spec, bool verbose, struct outcome *ret)
{
	static struct hearing hearing;
	struct sim_options options;
	unsigned steps = case_options(spec, &options);
	struct sim *sim = sim_new(&options);
	struct detect_sink sink = {.finding = on_finding, .arg = &hearing};
	struct detect_options detect_options;
	struct detect *detect;

	*ret = (struct outcome){0};
	memset(&hearing, 0, sizeof(hearing));
	hearing.spec = spec;
	hearing.options = &options;
	hearing.sim = sim;
	hearing.verbose = verbose;
	if (verbose)
		print_case(&options);
	hearing.yardstick = yardstick_new(spec, &options);
	detect_options_default(&detect_options);
	detect = detect_new(&detect_options, &sink);
	if (sim && detect) {
		run(&hearing, detect, sim, steps, ret);
		count(&hearing, ret);
		if (hearing.yardstick)
			yardstick_judge(hearing.yardstick, &ret->theirs);
	}
	yardstick_free(hearing.yardstick);
	detect_free(detect);
	sim_free(sim);
	return sim && detect ? 0 : -ENOMEM;
}
