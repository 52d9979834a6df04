/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that keep the others waiting: those of training steps and those of steps with a checkpoint, each judged among
 * themselves (slow_rank_internal.h), and what more would have to be seen.
 *
 * Steps with a checkpoint are judged by what the checkpoint took (slow_rank_internal.h, which also says whose last
 * two are enough), and a verdict on one lasts until the next one. Other frames that are no training
 * steps are left out: steps with an evaluation are long on the rank that reads, by design.
 */
#include "analyzers/base/robust.h"
#include "analyzers/detect/detector.h"
#include "analyzers/detect/slow_rank_internal.h"

#include <stdlib.h>
#include <string.h>

static double seen_of(const struct frame *frame, size_t i)
{
	const struct frame_rank *of = &frame->rank[i];
	uint64_t loading = of->stage_ns[STAGE_DATALOADER], collecting = of->stage_ns[STAGE_GC];

	/* One may lie in the other. */
	return (double)(loading > collecting ? loading : collecting);
}

static bool is_seen(const struct frame *frame, const struct measures *measures, uint32_t rank, double *scratch)
{
	const struct measure_rank *of = &measures->rank[rank];
	double excess = of->ratio > 1 ? (double)of->self_ns * (1 - 1 / of->ratio) : 0, more;
	size_t n = 0;

	for (size_t i = 0; i < measures->ranks && i < frame->ranks; i++) {
		if (measures->rank[i].class == of->class)
			scratch[n++] = seen_of(frame, i);
	}
	more = seen_of(frame, rank) - robust_median(scratch, n);
	return more > 0 && more >= COMMON_LOADING * excess;
}

bool slow_rank_common(const struct frame *frame, const struct measures *measures, const uint32_t *set, size_t n,
	size_t all, double *scratch)
{
	size_t unseen = all;

	if (frame->tier != FRAME_TIER_STAGES || all <= COMMON_FEW || all <= frame->ranks / COMMON_PART)
		return false;
	for (size_t i = 0; i < n; i++)
		unseen -= is_seen(frame, measures, set[i], scratch);
	return unseen > COMMON_FEW && unseen > frame->ranks / COMMON_PART;
}

void view_init(struct view *view, const struct detect_options *options)
{
	series_init(&view->series, options);
	for (size_t k = 0; k < MEASURE_STAGED_KINDS; k++) {
		series_init(&view->staged[k], options);
		view->staged[k].by_stages = k == MEASURE_OWN_STAGES;
		view->has_staged[k] = false;
	}
}

void view_free(struct view *view)
{
	series_free(&view->series);
	for (size_t k = 0; k < MEASURE_STAGED_KINDS; k++) {
		series_free(&view->staged[k]);
		view->has_staged[k] = false;
	}
}

int view_frame(struct view *view, const struct frame *frame, const struct measures *measures)
{
	struct measures staged = *measures;
	struct frame stages = *frame;
	int r = series_frame(&view->series, frame, measures);

	staged.lost = 0;
	stages.tier = FRAME_TIER_STAGES;
	for (size_t k = 0; k < MEASURE_STAGED_KINDS; k++) {
		view->has_staged[k] = false;
		if (r < 0 || !measures->staged[k])
			continue;
		staged.rank = measures->staged[k];
		view->staged[k].grown = view->series.grown;
		view->staged[k].longer = view->series.longer;
		r = series_frame(&view->staged[k], &stages, &staged);
		view->has_staged[k] = r >= 0;
	}
	return r;
}

/* MEASURE_STAGED_KINDS: as all operations show. */
static size_t slow_rank_view_kind_of(const struct view *view, size_t rank)
{
	size_t k = 0;

	if (view->series.rank[rank].candidate)
		return MEASURE_STAGED_KINDS;
	while (k < MEASURE_STAGED_KINDS &&
		!(view->has_staged[k] && rank < view->staged[k].ranks && view->staged[k].rank[rank].candidate))
		k++;
	return k;
}

const struct series_rank *view_rank(const struct view *view, size_t rank)
{
	size_t k = slow_rank_view_kind_of(view, rank);

	return k < MEASURE_STAGED_KINDS ? &view->staged[k].rank[rank] : &view->series.rank[rank];
}

const struct measure_rank *view_measured(const struct view *view, const struct measures *measures, size_t rank)
{
	size_t k = slow_rank_view_kind_of(view, rank);

	return k < MEASURE_STAGED_KINDS ? &measures->staged[k][rank] : &measures->rank[rank];
}

#define LOST_SHARE 0.5
#define EQUAL 0.75 /* of the largest gain of the set: then they are equals */

static double gain_without(const struct gain_set *set, const uint32_t *rank, const uint64_t *excess, size_t n)
{
	uint64_t as_is = 0, whatif = measure_whatif(set->measure, set->frame, rank, excess, n, &as_is);

	return whatif && as_is && whatif < as_is ? 1 - (double)whatif / (double)as_is : 0;
}

/* What others waited for it, beyond what they did for its class, ns. */
static double waited_for(const struct gain_set *set, uint32_t rank)
{
	const struct measures *measures = set->measures;
	const struct measure_rank *of = &measures->rank[rank];
	size_t n = 0;

	for (size_t i = 0; i < measures->ranks; i++) {
		if (measures->rank[i].class == of->class)
			set->scratch[n++] = (double)measures->rank[i].last_ns;
	}
	return fmax(0, (double)of->last_ns - robust_median(set->scratch, n));
}

/* What one of the set costs at least, where a replay misses waits: a share of the step, at most its excess. */
static double gain_at_least(const struct gain_set *set, size_t i)
{
	double excess = (double)set->excess[i], step_ns = (double)set->measures->step_ns;

	if (!set->measures->step_ns || set->loss == GAIN_WHOLE)
		return 0;
	if (set->loss == GAIN_LOST_CHECKPOINT)
		return fmin(excess, checkpoint_lead_ns(set->frame, set->rank, set->n, set->rank[i])) / step_ns;
	return fmin(excess, LOST_SHARE * waited_for(set, set->rank[i])) / step_ns;
}

/* What one costs if the others alone were repaired, of what all of them cost. */
static double gain_alone(const struct gain_set *set, size_t i, double all)
{
	uint64_t others_excess[GAIN_SET_MAX];
	uint32_t others[GAIN_SET_MAX];
	size_t m = 0;

	for (size_t j = 0; j < set->n; j++) {
		if (j == i)
			continue;
		others[m] = set->rank[j];
		others_excess[m++] = set->excess[j];
	}
	return set->n == 1 ? all : all - gain_without(set, others, others_excess, m);
}

void gain_of_set(const struct gain_set *set, double *ret)
{
	double alone[GAIN_SET_MAX], sum = 0, most = 0, all;

	all = gain_without(set, set->rank, set->excess, set->n);
	for (size_t i = 0; i < set->n; i++) {
		alone[i] = fmax(gain_alone(set, i, all), gain_at_least(set, i));
		sum += alone[i];
		most = fmax(most, alone[i]);
		all = fmax(all, alone[i]);
	}
	for (size_t i = 0; i < set->n; i++) {
		/* Shares are of the whole where they would be more than it. */
		double gain = sum > all ? all * alone[i] / sum : alone[i];

		/* One of several equals would not pass with its share: it costs all that if it is the only one left.
		 * Who costs much less than the slowest may only wait for it, unseen. */
		if (gain < alone[i] && alone[i] >= set->least && gain < set->least && alone[i] >= EQUAL * most)
			gain = set->least;
		ret[i] = gain;
	}
}

/* Of what a rank costs, what-ifs find 0.74 to 1.05 (medians in tests/sim, by job and number of culprits, of 6 % of the
 * step and more; a quarter find less than 0.58 to 0.91): waits that computing hid are not in the replay, and several
 * share. */
#define GAIN_FOUND 0.8
#define WHATIFS_LOST 3 /* of the last WHATIFS_LOST_OF what-ifs, before one is confirmed where records are lost */
#define WHATIFS_LOST_OF 4
#define COLLS_A_WHATIF 16384 /* a frame of more operations is replayed only so much more rarely */
#define WHATIF_EVERY_MAX 16
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

		candidate->verdict[i].reported = false;
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
static void slow_rank_candidate_check(struct candidate *candidate, const struct frame *frame,
	const struct measures *measures, struct measure *measure, const uint32_t *set, size_t n)
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

static void slow_rank_candidate_check_due(struct candidate *candidate, const struct frame *frame,
	const struct measures *measures, struct measure *measure, const uint32_t *set, size_t n)
{
	size_t every = frame->ops / COLLS_A_WHATIF + 1;
	bool same = n == candidate->n_set && !memcmp(set, candidate->set, n * sizeof(*set));

	if (!n || (same && candidate->frames < candidate->next_check))
		return;
	slow_rank_candidate_check(candidate, frame, measures, measure, set, n);
	memcpy(candidate->set, set, n * sizeof(*set));
	candidate->n_set = n;
	candidate->next_check = candidate->frames + (every > WHATIF_EVERY_MAX ? WHATIF_EVERY_MAX : every);
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

static void slow_rank_candidate_emit(struct candidate *candidate, const struct frame *frame,
	const struct measures *measures, uint32_t i, bool only, const struct detector_out *out)
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
	out->emit(out->arg, &verdict);
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
	return __builtin_popcount(verdict->found & ((1U << WHATIFS_LOST_OF) - 1)) >= WHATIFS_LOST;
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
		verdict->reported = true;
		any = true;
		slow_rank_candidate_emit(candidate, frame, measures, set[i], n == 1, out);
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
	slow_rank_candidate_check_due(candidate, frame, measures, measure, set, n);
	*ret_said = slow_rank_candidate_judge(candidate, frame, measures, set, n, out);
	candidate->frames++;
	return common;
}

struct slow_rank {
	struct candidate steps, checkpoints;
	struct slow_rank_checkpoint checkpoint;
	struct verdict reported[GAIN_SET_MAX]; /* of the last checkpoint */
	size_t n_reported;
	struct cause *cause;
	struct growth growth;
};

static void *slow_rank_free(void *arg)
{
	struct slow_rank *state = arg;

	if (!state)
		return NULL;
	candidate_free(&state->steps);
	candidate_free(&state->checkpoints);
	checkpoint_free(&state->checkpoint);
	cause_free(state->cause);
	free(state);
	return NULL;
}

static void *slow_rank_new(const struct detect_options *options)
{
	struct slow_rank *state = calloc(1, sizeof(*state));
	struct detect_options of_checkpoints = *options;

	if (!state)
		return NULL;
	state->cause = cause_new();
	if (!state->cause)
		return slow_rank_free(state);
	candidate_init(&state->steps, options, state->cause);
	state->steps.growth = &state->growth;
	of_checkpoints.slow_z = fmin(options->slow_z, CHECKPOINT_Z);
	candidate_init(&state->checkpoints, &of_checkpoints, state->cause);
	state->checkpoints.checkpoint = &state->checkpoint;
	state->checkpoints.view.series.timed = true;
	return state;
}

static void slow_rank_want(const struct frame *frame, const char *why, const struct detector_out *out)
{
	unsigned int wants = DETECT_WANT_SYSTEM;

	if (!out->want)
		return;
	if (frame->tier == FRAME_TIER_STAGES)
		wants |= DETECT_WANT_OPERATIONS;
	out->want(out->arg, wants, why);
}

/* Who listens to what is said of a checkpoint. */
struct listener {
	struct slow_rank *state;
	const struct detector_out *out;
	uint64_t checkpoint_ns;
};

static void on_checkpoint(void *arg, const struct verdict *verdict)
{
	struct listener *listener = arg;
	struct slow_rank *state = listener->state;
	struct verdict *reported;

	if (state->n_reported == GAIN_SET_MAX)
		return;
	reported = &state->reported[state->n_reported++];
	*reported = *verdict;
	reported->finding.slowdown = checkpoint_slowdown(
		&state->checkpoint, reported->lost_ns, (double)listener->checkpoint_ns, growth_typical(&state->growth));
	listener->out->emit(listener->out->arg, reported);
	reported->lost_ns = 0;
}

static void judge_checkpoint(struct slow_rank *state, const struct frame *frame, const struct measures *measures,
	struct measure *measure, const struct detector_out *out)
{
	const struct measures *of =
		checkpoint_measures(&state->checkpoint, frame, measures, growth_typical(&state->growth));
	struct listener listener = {state, out, of ? of->step_ns : 0};
	const struct detector_out taken = {.emit = on_checkpoint, .arg = &listener};
	bool reported;

	state->n_reported = 0;
	state->checkpoints.lost = measures->lost > 0;
	if (of)
		candidate_hold(&state->checkpoints, frame, of, measure, &taken, &reported);
}

/* It lasts until the next one differs, or does not come. A rank is reported once: if it keeps the others waiting
 * in all steps, for that. */
static void repeat_checkpoint(struct slow_rank *state, const struct frame *frame, const struct detector_out *out)
{
	if (checkpoint_past(&state->checkpoint, frame->step))
		state->n_reported = 0;
	for (size_t i = 0; i < state->n_reported; i++) {
		size_t rank = (size_t)state->reported[i].finding.rank;

		if (rank < state->steps.ranks && !state->steps.verdict[rank].reported)
			out->emit(out->arg, &state->reported[i]);
	}
}

static uint64_t longest(const struct frame *frame)
{
	uint64_t ns = 0;

	for (size_t i = 0; i < frame->ranks; i++) {
		if (frame->rank[i].here && frame->rank[i].step_ns != FRAME_UNKNOWN && frame->rank[i].step_ns > ns)
			ns = frame->rank[i].step_ns;
	}
	return ns;
}

static void slow_rank_frame(void *arg, const struct frame *frame, const struct measures *measures,
	struct measure *measure, const struct detector_out *out)
{
	struct slow_rank *state = arg;
	bool later, reported, common;

	cause_frame(state->cause, frame, measures);
	if (!measures->ranks)
		return;
	if (frame->class == FRAME_CHECKPOINT)
		judge_checkpoint(state, frame, measures, measure, out);
	if (frame->class != FRAME_TRAIN)
		return;
	growth_step(&state->growth, frame->step, measures->step_ns, longest(frame), frame->tier);
	later = growth_slower(&state->growth); /* and stages do not show the culprit */
	state->steps.view.series.grown = growth_ln(&state->growth);
	state->steps.view.series.longer = growth_is_long(&state->growth);
	common = candidate_hold(&state->steps, frame, measures, measure, out, &reported);
	repeat_checkpoint(state, frame, out);
	if (reported)
		slow_rank_want(frame, "a rank keeps the others waiting", out);
	if (frame->tier == FRAME_TIER_STAGES && (later || common))
		slow_rank_want(frame, "steps are longer, and stages do not show why", out);
}

const struct detector slow_rank_detector = {
	.name = "slow_rank",
	.new = slow_rank_new,
	.free = slow_rank_free,
	.frame = slow_rank_frame,
};
