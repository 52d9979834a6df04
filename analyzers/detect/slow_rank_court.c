/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/detect/slow_rank_court.h"

#include <stdlib.h>
#include <string.h>

#include "analyzers/detect/robust.h"
#include "analyzers/detect/slow_rank_common.h"

/* Of what a rank costs, what-ifs find 0.74 to 1.05 (medians in tests/sim, by job and number of culprits, of 6 % of the
 * step and more; a quarter find less than 0.58 to 0.91): waits that computing hid are not in the replay, and several
 * share. */
#define GAIN_FOUND 0.8
#define LOOKS_LOST 3 /* of the last LOOKS_LOST_OF what-ifs, before one is confirmed where records are lost */
#define LOOKS_LOST_OF 4
#define COLL_A_LOOK 16384 /* a frame of more operations is replayed only so much more rarely */
#define LOOK_EVERY_MAX 16
/* At least that share of what steps have grown by has to be found, for all of it to be put down to the rank. */
#define GROWTH_EXPLAINED (1.0 / 3)
#define GAIN_MEMORY 4 /* what-ifs that a gain is the mean of, about */

void candidate_init(struct candidate *candidate, const struct detect_options *options, struct cause *cause)
{
	*candidate = (struct candidate){.options = *options, .cause = cause};
	view_init(&candidate->view, options);
}

void candidate_free(struct candidate *candidate)
{
	view_free(&candidate->view);
	free(candidate->verdict);
	free(candidate->scratch);
	candidate->verdict = NULL;
	candidate->scratch = NULL;
	candidate->ranks = 0;
}

static bool slow_rank_candidate_reserve(struct candidate *candidate, size_t ranks)
{
	struct candidate_verdict *verdict;
	double *scratch;

	if (ranks <= candidate->ranks)
		return true;
	scratch = realloc(candidate->scratch, ranks * sizeof(*scratch));
	if (!scratch)
		return false;
	candidate->scratch = scratch;
	verdict = realloc(candidate->verdict, ranks * sizeof(*verdict));
	if (!verdict)
		return false;
	memset(verdict + candidate->ranks, 0, (ranks - candidate->ranks) * sizeof(*verdict));
	candidate->verdict = verdict;
	candidate->ranks = ranks;
	return true;
}

/* Still so, of one that was confirmed: less is asked for than to confirm it. */
static bool goes_on(const struct series_rank *rank)
{
	return rank->here && rank->middle > SERIES_LEAST / 2 && (rank->slow & 0xff || rank->middle > SERIES_LEAST);
}

static bool stands_out(const struct candidate *candidate, size_t i)
{
	const struct series_rank *rank = view_rank(&candidate->view, i);

	return rank->candidate || rank->suspect || (rank->held && rank->here) ||
	       (candidate->verdict[i].open && goes_on(rank));
}

/* The slowest ones that stand out, in the order of their numbers; how many stand out. */
static size_t slow_rank_candidate_gather(struct candidate *candidate, uint32_t *set, size_t *ret_set)
{
	size_t n = 0, all = 0;

	for (uint32_t i = 0; i < candidate->view.series.ranks && i < candidate->ranks; i++) {
		size_t least = 0;

		candidate->verdict[i].said = false;
		if (!stands_out(candidate, i)) {
			if (candidate->view.series.rank[i].here)
				candidate->verdict[i] = (struct candidate_verdict){0};
			continue;
		}
		all++;
		if (n < GAIN_SET_MAX) {
			set[n++] = i;
			continue;
		}
		for (size_t j = 1; j < n; j++) {
			if (view_rank(&candidate->view, set[j])->middle < view_rank(&candidate->view, set[least])->middle)
				least = j;
		}
		if (view_rank(&candidate->view, set[least])->middle >= view_rank(&candidate->view, i)->middle)
			continue;
		memmove(set + least, set + least + 1, (n - least - 1) * sizeof(*set));
		set[n - 1] = i;
	}
	*ret_set = n;
	return all;
}

/* Gains of the set in this frame. */
static void slow_rank_candidate_look(struct candidate *candidate, const struct frame *frame, const struct measures *measures,
	struct measure *measure, const uint32_t *set, size_t n)
{
	bool lost = candidate->checkpoint ? candidate->lost : candidate->view.series.loss;
	uint64_t excess[GAIN_SET_MAX];
	double gain[GAIN_SET_MAX];
	const struct gain_set of = {.frame = frame,
		.measures = measures,
		.measure = measure,
		.loss = !lost		    ? GAIN_WHOLE
			: candidate->checkpoint ? GAIN_LOST_CHECKPOINT
					    : GAIN_LOST_WAITS,
		.least = candidate->options.gain_min,
		.n = n,
		.rank = set,
		.excess = excess,
		.scratch = candidate->scratch};

	for (size_t i = 0; i < n; i++) {
		const struct measure_rank *rank = view_measured(&candidate->view, measures, set[i]);

		excess[i] = rank->ratio > 1 ? (uint64_t)((double)rank->self_ns * (1 - 1 / rank->ratio)) : 0;
	}
	gain_of_set(&of, gain);
	for (size_t i = 0; i < n; i++) {
		struct candidate_verdict *verdict = &candidate->verdict[set[i]];

		verdict->checks += verdict->checks < GAIN_MEMORY;
		verdict->found = (uint8_t)(verdict->found << 1 | (gain[i] >= candidate->options.gain_min * GAIN_FOUND / 2));
		verdict->gain += (float)((gain[i] - (double)verdict->gain) / verdict->checks);
	}
}

static void look_at_times(struct candidate *candidate, const struct frame *frame, const struct measures *measures,
	struct measure *measure, const uint32_t *set, size_t n)
{
	size_t every = frame->ops / COLL_A_LOOK + 1;
	bool same = n == candidate->n_set && !memcmp(set, candidate->set, n * sizeof(*set));

	if (!n || (same && candidate->frames < candidate->next_look))
		return;
	slow_rank_candidate_look(candidate, frame, measures, measure, set, n);
	memcpy(candidate->set, set, n * sizeof(*set));
	candidate->n_set = n;
	candidate->next_look = candidate->frames + (every > LOOK_EVERY_MAX ? LOOK_EVERY_MAX : every);
}

static double confidence_of(
	const struct candidate *candidate, const struct frame *frame, const struct series_rank *rank, bool confirmed)
{
	static const double of_tier[FRAME_TIER_MAX] = {
		[FRAME_TIER_STAGES] = 0.7, [FRAME_TIER_HOST] = 0.9, [FRAME_TIER_DEVICE] = 0.95};
	unsigned int of = candidate->view.series.of, slow = (unsigned int)__builtin_popcount(rank->slow & ((1U << of) - 1));
	double often = 0.7 + 0.3 * slow / of;

	return (frame->tier < FRAME_TIER_MAX ? of_tier[frame->tier] : 0.5) * often * (confirmed ? 1 : 0.5);
}

/* Its what-if's; of the only one that stands out, what steps have grown by since then, if that is not mostly something
 * else's. */
static double gain_of(struct candidate *candidate, uint32_t i, bool only)
{
	struct candidate_verdict *verdict = &candidate->verdict[i];
	double gain = (double)verdict->gain, share;

	if (candidate->growth && only && verdict->open) {
		if (!(verdict->onset.before_ns > 0))
			verdict->onset = growth_since(candidate->growth, view_rank(&candidate->view, i)->since_step);
		share = growth_share(candidate->growth, &verdict->onset);
		verdict->explains = gain >= GROWTH_EXPLAINED * share;
		if (verdict->explains)
			gain = fmax(gain, share);
	}
	return fmin(gain, 0.99);
}

/* Since it shows; what it alone explains has been so since steps grew, which showed before. */
static void slow_rank_candidate_date(const struct candidate_verdict *verdict, const struct series_rank *rank, struct finding *finding)
{
	uint64_t earlier_ns = verdict->open && verdict->explains ? verdict->onset.earlier_ns : 0;

	finding->since_step = rank->since_step;
	finding->since_ns = rank->since_ns;
	if (!earlier_ns || earlier_ns >= rank->since_ns)
		return;
	finding->since_step = verdict->onset.step;
	finding->since_ns -= earlier_ns;
}

static void slow_rank_candidate_say(struct candidate *candidate, const struct frame *frame, const struct measures *measures, uint32_t i, bool only,
	const struct detector_out *out)
{
	const struct series_rank *rank = view_rank(&candidate->view, i);
	const struct measure_rank *measured = view_measured(&candidate->view, measures, i);
	bool confirmed = candidate->verdict[i].open;
	double gain = gain_of(candidate, i, only), excess, found_ns;
	struct verdict verdict = {.confirmed = confirmed, .lost_ns = gain * (double)measures->step_ns};
	struct finding *finding = &verdict.finding;

	excess = (double)measured->self_ns * (1 - exp(-(double)rank->middle));
	/* Waits that computing hid count in its peers' favour, so that its excess may seem longer than what it costs
	 * is. */
	found_ns = (double)candidate->verdict[i].gain * (double)measures->step_ns;
	if (frame->tier != FRAME_TIER_STAGES && measured->wait_ns != FRAME_UNKNOWN)
		excess = fmin(excess, fmax(found_ns * 1.25, 0.03 * (double)measured->self_ns));
	finding->kind = FINDING_SLOW_RANK;
	finding->rank = (int32_t)i;
	finding->tier = frame->tier;
	slow_rank_candidate_date(&candidate->verdict[i], rank, finding);
	finding->confidence = confidence_of(candidate, frame, rank, confirmed);
	finding->severity = gain >= 0.2 ? SEVERITY_CRITICAL : SEVERITY_WARNING;
	finding->slowdown = 1 / (1 - gain);
	finding_add(finding, "self_time", "ns", (double)measured->self_ns,
		measured->ratio > 0 ? (double)measured->self_ns / measured->ratio : NAN, NULL);
	cause_of(candidate->cause, i, excess, finding);
	out->say(out->arg, &verdict);
}

/* Is it what steps grew by, before it was seen who it is? */
static bool is_early(const struct candidate *candidate, uint32_t i)
{
	const struct series *series = &candidate->view.series;
	const struct series_rank *rank = &series->rank[i];
	const struct candidate_verdict *verdict = &candidate->verdict[i];
	const struct growth *growth = candidate->growth;
	struct growth_onset onset;
	double share, grown;

	if (!growth || growth->tier == FRAME_TIER_STAGES || growth->of_tier < EARLY_FRAMES ||
		growth->of_tier > EARLY_WITHIN || series->loss)
		return false;
	onset = growth_since(growth, rank->since_step);
	share = growth_share(growth, &onset);
	if (share < EARLY_LEAST || onset.steps < growth->of_tier + EARLY_UNSEEN ||
		(double)verdict->gain < EARLY_GAIN * share)
		return false;
	grown = -log(1 - share);
	for (unsigned int back = 0; back < EARLY_FRAMES; back++) {
		double value = series_value(series, rank, back);

		if (!(rank->slow >> back & 1) || value < EARLY_OF_GROWTH * grown || value > EARLY_BEYOND * grown)
			return false;
	}
	return true;
}

static bool found_often(const struct candidate_verdict *verdict)
{
	return __builtin_popcount(verdict->found & ((1U << LOOKS_LOST_OF) - 1)) >= LOOKS_LOST;
}

/* True if it said something. */
static bool slow_rank_candidate_judge(struct candidate *candidate, const struct frame *frame, const struct measures *measures, const uint32_t *set,
	size_t n, const struct detector_out *out)
{
	bool any = false;

	for (size_t i = 0; i < n; i++) {
		const struct series_rank *rank = view_rank(&candidate->view, set[i]);
		struct candidate_verdict *verdict = &candidate->verdict[set[i]];
		double least = verdict->open ? candidate->options.gain_min / 2 : candidate->options.gain_min;

		if (!verdict->checks || (double)verdict->gain < least * GAIN_FOUND ||
			measures->rank[set[i]].wait_ns == FRAME_UNKNOWN) {
			verdict->open = false;
			verdict->explains = false;
			verdict->onset = (struct growth_onset){0};
			continue;
		}
		verdict->open |= (rank->candidate && (!candidate->view.series.loss || found_often(verdict))) ||
				 (n == 1 && is_early(candidate, set[i]));
		verdict->said = true;
		any = true;
		slow_rank_candidate_say(candidate, frame, measures, set[i], n == 1, out);
	}
	return any;
}

bool candidate_hold(struct candidate *candidate, const struct frame *frame, const struct measures *measures,
	struct measure *measure, const struct detector_out *out, bool *ret_said)
{
	uint32_t set[GAIN_SET_MAX];
	size_t n = 0, all;
	bool common;

	*ret_said = false;
	if (!slow_rank_candidate_reserve(candidate, measures->ranks) || view_frame(&candidate->view, frame, measures) < 0)
		return false;
	for (size_t i = 0; candidate->checkpoint && i < measures->ranks; i++) {
		if (checkpoint_is_far(candidate->checkpoint, i))
			series_choose(&candidate->view.series, i, CHECKPOINT_IN_A_ROW);
	}
	all = slow_rank_candidate_gather(candidate, set, &n);
	common = slow_rank_common(frame, measures, set, n, all, candidate->scratch);
	if (common)
		n = 0;
	look_at_times(candidate, frame, measures, measure, set, n);
	*ret_said = slow_rank_candidate_judge(candidate, frame, measures, set, n, out);
	candidate->frames++;
	return common;
}
