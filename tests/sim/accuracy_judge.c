/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "analyzers/detect/detect.h"
#include "tests/sim/accuracy_judge.h"

#define REPORTED_MAX 512

/* The last state of a finding, and when it was opened. */
struct reported {
	struct finding finding;
	uint64_t opened_step;
	unsigned opened_frame; /* frames since the onset that could show it */
};

struct trial {
	const struct case_spec *spec;
	const struct sim_options *options;
	const struct sim *sim;
	struct reported reported[REPORTED_MAX];
	size_t n;
	uint64_t step;
	unsigned frames;
	bool verbose;
	struct yardstick *yardstick; /* NULL: not applicable */
};

static void on_finding(void *arg, const struct finding *finding)
{
	struct trial *trial = arg;
	struct reported *reported = NULL;

	if (trial->verbose)
		printf("  step %llu: %s %s: %s\n", (unsigned long long)trial->step, finding_state_word(finding->state),
			finding_kind_word(finding->kind), finding->sentence);
	for (size_t i = 0; i < trial->n && !reported; i++) {
		if (trial->reported[i].finding.id == finding->id)
			reported = &trial->reported[i];
	}
	if (!reported && (finding->state != FINDING_OPEN || trial->n == REPORTED_MAX))
		return;
	if (!reported) {
		reported = &trial->reported[trial->n++];
		reported->opened_step = trial->step;
		reported->opened_frame = trial->frames;
	}
	reported->finding = *finding;
}

/* Whether a list such as "0-7,12" has a rank of the node. */
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

/* The finding names the node or pair, or a communicator over it. */
static bool names_link(const struct trial *trial, const struct finding *finding)
{
	const struct sim_options *o = trial->options;
	bool pair = trial->spec->inject == SIM_LINK_PAIR;
	char host[16];

	for (unsigned i = 0; i < (pair ? 2 : 1); i++) {
		snprintf(host, sizeof(host), "node%u", o->culprit[i]);
		if (!strcmp(finding->host, host))
			return true;
	}
	if (finding->communicator[0])
		return sim_comm_has_node(trial->sim, finding->communicator, o->culprit[0]) &&
		       (!pair || sim_comm_has_node(trial->sim, finding->communicator, o->culprit[1]));
	return others_have(finding->others, o->culprit[0]) && (!pair || others_have(finding->others, o->culprit[1]));
}

static bool is_culprit(const struct trial *trial, const struct finding *finding)
{
	const struct sim_options *o = trial->options;

	if (finding->kind != case_kinds[trial->spec->inject].expected)
		return false;
	if (finding->kind == FINDING_SLOW_RANK) {
		for (uint32_t i = 0; i < o->culprits; i++) {
			if (finding->rank == (int32_t)o->culprit[i])
				return true;
		}
		return false;
	}
	if (finding->kind == FINDING_SLOW_COMMUNICATION)
		return names_link(trial, finding);
	return true;
}

static bool has_cause(const struct trial *trial, const struct finding *finding)
{
	const struct case_kind *kind = &case_kinds[trial->spec->inject];

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

static bool is_known(const struct trial *trial, size_t before, const struct finding *finding)
{
	for (size_t i = 0; i < before; i++) {
		const struct finding *other = &trial->reported[i].finding;

		if (other->kind == finding->kind && other->rank == finding->rank && is_culprit(trial, other))
			return true;
	}
	return false;
}

static void wrong_finding(const struct reported *reported, const char *what, struct outcome *ret)
{
	if (!strncmp(ret->seen, "wrong", 5))
		return;
	snprintf(ret->seen, sizeof(ret->seen), "wrong%s at step %llu: %s %s rank %d %s %s %s", what,
		(unsigned long long)reported->opened_step, finding_kind_word(reported->finding.kind),
		finding_cause_word(reported->finding.cause), reported->finding.rank, reported->finding.communicator,
		reported->finding.host, reported->finding.others);
}

static void count_right(const struct trial *trial, size_t i, struct outcome *ret)
{
	const struct reported *reported = &trial->reported[i];

	if (is_known(trial, i, &reported->finding) && reported->finding.kind == FINDING_SLOW_RANK)
		return;
	if (!ret->named)
		ret->delay = reported->opened_frame;
	ret->named = true;
	ret->right++;
	ret->reported += reported->finding.slowdown >= 1 ? 1 - 1 / reported->finding.slowdown : 0;
	ret->causes++;
	if (has_cause(trial, &reported->finding))
		ret->causes_right++;
	else if (!ret->seen[0])
		snprintf(ret->seen, sizeof(ret->seen), "cause %s", finding_cause_word(reported->finding.cause));
}

static void count(const struct trial *trial, struct outcome *ret)
{
	const struct reported *top = NULL;

	ret->delay = -1;
	for (size_t i = 0; i < trial->n; i++) {
		const struct reported *reported = &trial->reported[i];

		if (is_culprit(trial, &reported->finding) && reported->opened_step >= trial->options->onset) {
			count_right(trial, i, ret);
		} else if (accuses(&reported->finding)) {
			ret->wrong++;
			ret->wrong_ranks += reported->finding.kind == FINDING_SLOW_RANK;
			wrong_finding(reported, "", ret);
		} else if (reported->finding.kind == FINDING_IMBALANCE || trial->spec->inject == SIM_CLEAN) {
			ret->wrong_others++;
			wrong_finding(reported, " kind", ret);
		}
		if ((accuses(&reported->finding) || is_culprit(trial, &reported->finding)) &&
			(!top || reported->finding.cost_card_hours > top->finding.cost_card_hours))
			top = reported;
	}
	ret->top = top && is_culprit(trial, &top->finding);
	ret->culprits = trial->options->culprits ? trial->options->culprits : trial->spec->inject != SIM_CLEAN;
	ret->all = trial->options->culprits ? ret->right >= ret->culprits : ret->named;
}

static double cpu_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* The rank whose steps are the reference: any present one. */
static double step_of(const struct frame *frame)
{
	for (size_t i = 0; i < frame->ranks; i++) {
		if (frame->rank[i].here)
			return (double)frame->rank[i].step_ns;
	}
	return 0;
}

static void run(struct trial *trial, struct detect *detect, struct sim *sim, unsigned steps, struct outcome *ret)
{
	enum frame_class class = case_class(trial->spec);
	struct sim_options clean = *trial->options;
	double with = 0, whatif, all = 0;
	uint64_t from = trial->options->onset > SIM_FIRST_STEPS ? trial->options->onset : SIM_FIRST_STEPS;
	unsigned n = 0;

	for (unsigned i = 0; i < steps; i++) {
		const struct frame *frame = sim_step(sim);
		double begun = cpu_s();

		trial->step = i;
		all += step_of(frame);
		if (i >= from && frame->class == class) {
			with += step_of(frame);
			n++;
			trial->frames++;
		}
		detect_frame(detect, "job", frame);
		ret->detect_s += cpu_s() - begun;
		if (trial->yardstick)
			yardstick_step(trial->yardstick, frame);
		ret->ops += frame->ops;
	}
	ret->rank_days = all * 1e-9 / 86400 * (double)trial->options->tp * trial->options->pp * trial->options->dp;
	clean.inject = SIM_CLEAN;
	if (trial->spec->inject == SIM_CLEAN)
		return;
	whatif = sim_mean_step_ns(&clean, class, from, steps);
	ret->gain = n && with > 0 ? 1 - whatif * n / with : 0;
	ret->required = ret->gain >= JUDGE_GAIN_MIN;
}

/* Prints the injection. */
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
	static struct trial trial;
	struct sim_options options;
	unsigned steps = case_options(spec, &options);
	struct sim *sim = sim_new(&options);
	struct detect_sink sink = {.finding = on_finding, .arg = &trial};
	struct detect_options detect_options;
	struct detect *detect;

	*ret = (struct outcome){0};
	memset(&trial, 0, sizeof(trial));
	trial.spec = spec;
	trial.options = &options;
	trial.sim = sim;
	trial.verbose = verbose;
	if (verbose)
		print_case(&options);
	trial.yardstick = yardstick_new(spec, &options);
	detect_options_default(&detect_options);
	detect = detect_new(&detect_options, &sink);
	if (sim && detect) {
		run(&trial, detect, sim, steps, ret);
		count(&trial, ret);
		if (trial.yardstick)
			yardstick_judge(trial.yardstick, &ret->theirs);
	}
	yardstick_free(trial.yardstick);
	detect_free(detect);
	sim_free(sim);
	return sim && detect ? 0 : -ENOMEM;
}
