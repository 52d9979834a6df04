/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that keep the others waiting. Who stands out of its class is in slow_rank_series.c; here it is asked what the
 * step would be without it (measure_without()), and said.
 *
 * Several at once: where two are equally slow, one alone gains nothing, so the set is judged, gain = 1 - T(all without
 * their excess) / T; and each one's share of it goes by what it would cost if the others alone were repaired. One that
 * costs nothing then is idle rather than slow, and nobody is told of it. One that is the only one costs at least what
 * steps have grown by since its onset (slow_rank_growth.h).
 *
 * Where records were lost, the replay misses waits and finds less or nothing. Then what others waited for the rank as
 * the last to come, beyond what they did for its peers, counts by LOST_SHARE (some of that hides in others' slack), up
 * to all of its excess. As one frame's loss may make a rank look so, LOOKS_LOST of the last LOOKS_LOST_OF what-ifs must
 * have found something before anybody is told. Of a checkpoint it is the time by which it was longer than anybody
 * else's that counts.
 *
 * Who stands out by all that is seen or by stages alone (slow_rank_view.h) is looked at; the what-if says whether it
 * costs anything.
 *
 * Steps with a checkpoint are judged among themselves, by what the checkpoint took (slow_rank_checkpoint.h, which also
 * says whose last two are enough to be told), and what is said of one goes on until the next one. Other frames that are
 * no training steps are left out: steps with an evaluation are long on the rank that reads, by design.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/detect/cause.h"
#include "analyzers/detect/detector.h"
#include "analyzers/detect/robust.h"
#include "analyzers/detect/slow_rank_checkpoint.h"
#include "analyzers/detect/slow_rank_common.h"
#include "analyzers/detect/slow_rank_growth.h"
#include "analyzers/detect/slow_rank_view.h"

#define SET_MAX 8 /* judged at once: the slowest ones */
#define LOST_SHARE 0.5
/* Of what a rank costs, what-ifs find 0.74 to 1.05 (medians in tests/sim, by job and number of culprits, of 6 % of the
 * step and more; a quarter find less than 0.58 to 0.91): waits that computing hid are not in the replay, and several
 * share. */
#define GAIN_FOUND 0.8
#define EQUAL 0.75   /* of the largest gain of the set: then they are equals */
#define LOOKS_LOST 3 /* of the last LOOKS_LOST_OF what-ifs, before one is confirmed where records are lost */
#define LOOKS_LOST_OF 4
#define OPS_A_LOOK 16384 /* a frame of more operations is replayed only so much more rarely */
#define LOOK_EVERY_MAX 16
/* At least that share of what steps have grown by has to be found, for all of it to be put down to the rank. */
#define GROWTH_EXPLAINED (1.0 / 3)
#define GAIN_MEMORY 4 /* what-ifs that a gain is the mean of, about */
#define WANT_EVERY 16 /* frames */

struct verdict {
	float gain;		   /* share of the step */
	struct growth_onset onset; /* while it is open */
	uint16_t looks;
	uint8_t found;	 /* what-ifs that found half of gain_min, newest in bit 0 */
	bool open, said; /* said: of this frame */
};

/* Of frames of one class. */
struct court {
	struct detect_options options;
	struct view view;
	struct verdict *verdict;
	size_t ranks;
	uint32_t set[SET_MAX]; /* looked at last */
	size_t n_set;
	uint64_t frames, next_look;
	struct cause *cause;
	const struct growth *growth;		       /* NULL: not of these */
	double *scratch;			       /* a rank */
	const struct slow_rank_checkpoint *checkpoint; /* NULL: of steps without */
	bool lost;				       /* of checkpoints, records of this frame */
};

struct slow_rank {
	struct court steps, checkpoints;
	struct slow_rank_checkpoint checkpoint;
	struct opinion said[SET_MAX]; /* of the last checkpoint */
	size_t n_said;
	struct cause *cause;
	uint64_t next_want;
	struct growth growth;
};

static void court_free(struct court *court)
{
	view_free(&court->view);
	free(court->verdict);
	free(court->scratch);
}

static void *slow_rank_free(void *arg)
{
	struct slow_rank *state = arg;

	if (!state)
		return NULL;
	court_free(&state->steps);
	court_free(&state->checkpoints);
	checkpoint_free(&state->checkpoint);
	cause_free(state->cause);
	free(state);
	return NULL;
}

static void court_init(struct court *court, const struct detect_options *options, struct cause *cause)
{
	court->options = *options;
	court->cause = cause;
	view_init(&court->view, options);
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
	court_init(&state->steps, options, state->cause);
	state->steps.growth = &state->growth;
	of_checkpoints.slow_z = fmin(options->slow_z, CHECKPOINT_Z);
	court_init(&state->checkpoints, &of_checkpoints, state->cause);
	state->checkpoints.checkpoint = &state->checkpoint;
	state->checkpoints.view.series.timed = true;
	return state;
}

static bool make_room(struct court *court, size_t ranks)
{
	struct verdict *verdict;
	double *scratch;

	if (ranks <= court->ranks)
		return true;
	scratch = realloc(court->scratch, ranks * sizeof(*scratch));
	if (!scratch)
		return false;
	court->scratch = scratch;
	verdict = realloc(court->verdict, ranks * sizeof(*verdict));
	if (!verdict)
		return false;
	memset(verdict + court->ranks, 0, (ranks - court->ranks) * sizeof(*verdict));
	court->verdict = verdict;
	court->ranks = ranks;
	return true;
}

/* Still so, of one that was confirmed: less is asked for than to confirm it. */
static bool goes_on(const struct series_rank *rank)
{
	return rank->here && rank->middle > SERIES_LEAST / 2 && (rank->slow & 0xff || rank->middle > SERIES_LEAST);
}

static bool stands_out(const struct court *court, size_t i)
{
	const struct series_rank *rank = view_rank(&court->view, i);

	return rank->candidate || rank->suspect || rank->held || (court->verdict[i].open && goes_on(rank));
}

/* The slowest ones that stand out, in the order of their numbers; how many stand out. */
static size_t gather(struct court *court, uint32_t *set, size_t *ret_set)
{
	size_t n = 0, all = 0;

	for (uint32_t i = 0; i < court->view.series.ranks && i < court->ranks; i++) {
		size_t least = 0;

		court->verdict[i].said = false;
		if (!stands_out(court, i)) {
			if (court->view.series.rank[i].here)
				court->verdict[i] = (struct verdict){0};
			continue;
		}
		all++;
		if (n < SET_MAX) {
			set[n++] = i;
			continue;
		}
		for (size_t j = 1; j < n; j++) {
			if (view_rank(&court->view, set[j])->middle < view_rank(&court->view, set[least])->middle)
				least = j;
		}
		if (view_rank(&court->view, set[least])->middle >= view_rank(&court->view, i)->middle)
			continue;
		memmove(set + least, set + least + 1, (n - least - 1) * sizeof(*set));
		set[n - 1] = i;
	}
	*ret_set = n;
	return all;
}

static double gain_without(
	struct measure *measure, const struct frame *frame, const uint32_t *rank, const uint64_t *excess, size_t n)
{
	uint64_t as_is = 0, without = measure_without(measure, frame, rank, excess, n, &as_is);

	return without && as_is && without < as_is ? 1 - (double)without / (double)as_is : 0;
}

/* What others waited for it, beyond what they did for its class, ns. */
static double waited_for(struct court *court, const struct measures *measures, uint32_t rank)
{
	const struct measure_rank *of = &measures->rank[rank];
	size_t n = 0;

	for (size_t i = 0; i < measures->ranks; i++) {
		if (measures->rank[i].class == of->class)
			court->scratch[n++] = (double)measures->rank[i].last_ns;
	}
	return fmax(0, (double)of->last_ns - robust_median(court->scratch, n));
}

/* What one of the set costs at least, where a replay misses waits: a share of the step, at most its excess. */
static double gain_at_least(struct court *court, const struct frame *frame, const struct measures *measures,
	const uint32_t *set, size_t n, uint32_t rank, uint64_t excess)
{
	if (!measures->step_ns || !(court->checkpoint ? court->lost : court->view.series.loss))
		return 0;
	if (court->checkpoint)
		return fmin((double)excess, checkpoint_lead_ns(frame, set, n, rank)) / (double)measures->step_ns;
	return fmin((double)excess, LOST_SHARE * waited_for(court, measures, rank)) / (double)measures->step_ns;
}

/* Gains of the set in this frame. */
static void look(struct court *court, const struct frame *frame, const struct measures *measures,
	struct measure *measure, const uint32_t *set, size_t n)
{
	uint64_t excess[SET_MAX], others_excess[SET_MAX];
	uint32_t others[SET_MAX];
	double alone[SET_MAX], sum = 0, most = 0, all;

	for (size_t i = 0; i < n; i++) {
		const struct measure_rank *rank = view_measured(&court->view, measures, set[i]);

		excess[i] = rank->ratio > 1 ? (uint64_t)((double)rank->self_ns * (1 - 1 / rank->ratio)) : 0;
	}
	all = gain_without(measure, frame, set, excess, n);
	for (size_t i = 0; i < n; i++) {
		size_t m = 0;

		for (size_t j = 0; j < n; j++) {
			if (j == i)
				continue;
			others[m] = set[j];
			others_excess[m++] = excess[j];
		}
		alone[i] = n == 1 ? all : all - gain_without(measure, frame, others, others_excess, m);
		alone[i] = fmax(alone[i], gain_at_least(court, frame, measures, set, n, set[i], excess[i]));
		sum += alone[i];
		most = fmax(most, alone[i]);
		all = fmax(all, alone[i]);
	}
	for (size_t i = 0; i < n; i++) {
		struct verdict *verdict = &court->verdict[set[i]];
		/* Shares are of the whole where they would be more than it. */
		double gain = sum > all ? all * alone[i] / sum : alone[i], weight;

		/* One of several equals would not pass with its share: it costs all that if it is the only one left.
		 * Who costs much less than the slowest may only wait for it, unseen. */
		if (gain < alone[i] && alone[i] >= court->options.gain_min && gain < court->options.gain_min &&
			alone[i] >= EQUAL * most)
			gain = court->options.gain_min;
		verdict->looks += verdict->looks < GAIN_MEMORY;
		verdict->found = (uint8_t)(verdict->found << 1 | (gain >= court->options.gain_min * GAIN_FOUND / 2));
		weight = verdict->looks;
		verdict->gain += (float)((gain - (double)verdict->gain) / weight);
	}
}

static void look_at_times(struct court *court, const struct frame *frame, const struct measures *measures,
	struct measure *measure, const uint32_t *set, size_t n)
{
	size_t every = frame->ops / OPS_A_LOOK + 1;
	bool same = n == court->n_set && !memcmp(set, court->set, n * sizeof(*set));

	if (!n || (same && court->frames < court->next_look))
		return;
	look(court, frame, measures, measure, set, n);
	memcpy(court->set, set, n * sizeof(*set));
	court->n_set = n;
	court->next_look = court->frames + (every > LOOK_EVERY_MAX ? LOOK_EVERY_MAX : every);
}

static double confidence_of(
	const struct court *court, const struct frame *frame, const struct series_rank *rank, bool confirmed)
{
	static const double of_tier[FRAME_TIER_MAX] = {
		[FRAME_TIER_STAGES] = 0.7, [FRAME_TIER_HOST] = 0.9, [FRAME_TIER_DEVICE] = 0.95};
	unsigned int of = court->view.series.of, slow = (unsigned int)__builtin_popcount(rank->slow & ((1U << of) - 1));
	double often = 0.7 + 0.3 * slow / of;

	return (frame->tier < FRAME_TIER_MAX ? of_tier[frame->tier] : 0.5) * often * (confirmed ? 1 : 0.5);
}

/* Its what-if's; of the only one that stands out, what steps have grown by since then, if that is not mostly something
 * else's. */
static double gain_of(struct court *court, uint32_t i, bool only)
{
	struct verdict *verdict = &court->verdict[i];
	double gain = (double)verdict->gain, share;

	if (court->growth && only && verdict->open) {
		if (!(verdict->onset.before_ns > 0))
			verdict->onset = growth_since(court->growth, view_rank(&court->view, i)->since_step);
		share = growth_share(court->growth, &verdict->onset);
		if (gain >= GROWTH_EXPLAINED * share)
			gain = fmax(gain, share);
	}
	return fmin(gain, 0.99);
}

static void say(struct court *court, const struct frame *frame, const struct measures *measures, uint32_t i, bool only,
	const struct detector_out *out)
{
	const struct series_rank *rank = view_rank(&court->view, i);
	const struct measure_rank *measured = view_measured(&court->view, measures, i);
	bool confirmed = court->verdict[i].open;
	double gain = gain_of(court, i, only), excess, found_ns;
	struct opinion opinion = {.confirmed = confirmed, .lost_ns = gain * (double)measures->step_ns};
	struct finding *finding = &opinion.finding;

	excess = (double)measured->self_ns * (1 - exp(-(double)rank->middle));
	/* Waits that computing hid count in its peers' favour, so that its excess may seem longer than what it costs
	 * is. */
	found_ns = (double)court->verdict[i].gain * (double)measures->step_ns;
	if (frame->tier != FRAME_TIER_STAGES && measured->wait_ns != FRAME_UNKNOWN)
		excess = fmin(excess, fmax(found_ns * 1.25, 0.03 * (double)measured->self_ns));
	finding->kind = FINDING_SLOW_RANK;
	finding->rank = (int32_t)i;
	finding->tier = frame->tier;
	finding->since_step = rank->since_step;
	finding->since_ns = rank->since_ns;
	finding->confidence = confidence_of(court, frame, rank, confirmed);
	finding->severity = gain >= 0.2 ? SEVERITY_CRITICAL : SEVERITY_WARNING;
	finding->slowdown = 1 / (1 - gain);
	finding_add(finding, "self_time", "ns", (double)measured->self_ns,
		measured->ratio > 0 ? (double)measured->self_ns / measured->ratio : NAN, NULL);
	cause_of(court->cause, i, excess, finding);
	out->say(out->arg, &opinion);
}

static void want(struct slow_rank *state, const struct frame *frame, const char *why, const struct detector_out *out)
{
	unsigned int wants = DETECT_WANT_SYSTEM;

	if (!out->want || state->steps.frames < state->next_want)
		return;
	if (frame->tier == FRAME_TIER_STAGES)
		wants |= DETECT_WANT_OPERATIONS;
	out->want(out->arg, wants, why);
	state->next_want = state->steps.frames + WANT_EVERY;
}

static bool found_often(const struct verdict *verdict)
{
	return __builtin_popcount(verdict->found & ((1U << LOOKS_LOST_OF) - 1)) >= LOOKS_LOST;
}

/* True if it said something. */
static bool judge(struct court *court, const struct frame *frame, const struct measures *measures, const uint32_t *set,
	size_t n, const struct detector_out *out)
{
	bool any = false;

	for (size_t i = 0; i < n; i++) {
		const struct series_rank *rank = view_rank(&court->view, set[i]);
		struct verdict *verdict = &court->verdict[set[i]];
		double least = verdict->open ? court->options.gain_min / 2 : court->options.gain_min;

		if (!verdict->looks || (double)verdict->gain < least * GAIN_FOUND ||
			measures->rank[set[i]].wait_ns == FRAME_UNKNOWN) {
			verdict->open = false;
			verdict->onset = (struct growth_onset){0, 0};
			continue;
		}
		verdict->open |= rank->candidate && (!court->view.series.loss || found_often(verdict));
		verdict->said = true;
		any = true;
		say(court, frame, measures, set[i], n == 1, out);
	}
	return any;
}

/* One frame, measured. True if so many stand out that they have something in common; *ret_said: something was said. */
static bool hold(struct court *court, const struct frame *frame, const struct measures *measures,
	struct measure *measure, const struct detector_out *out, bool *ret_said)
{
	uint32_t set[SET_MAX];
	size_t n = 0, all;
	bool common;

	*ret_said = false;
	if (!make_room(court, measures->ranks) || view_frame(&court->view, frame, measures) < 0)
		return false;
	for (size_t i = 0; court->checkpoint && i < measures->ranks; i++) {
		if (checkpoint_is_far(court->checkpoint, i))
			series_choose(&court->view.series, i, CHECKPOINT_IN_A_ROW);
	}
	all = gather(court, set, &n);
	common = slow_rank_common(frame, measures, set, n, all, court->scratch);
	if (common)
		n = 0;
	look_at_times(court, frame, measures, measure, set, n);
	*ret_said = judge(court, frame, measures, set, n, out);
	court->frames++;
	return common;
}

/* Who listens to what is said of a checkpoint. */
struct listener {
	struct slow_rank *state;
	const struct detector_out *out;
	uint64_t checkpoint_ns;
};

static void on_checkpoint(void *arg, const struct opinion *opinion)
{
	struct listener *listener = arg;
	struct slow_rank *state = listener->state;
	struct opinion *said;

	if (state->n_said == SET_MAX)
		return;
	said = &state->said[state->n_said++];
	*said = *opinion;
	said->finding.slowdown = checkpoint_slowdown(
		&state->checkpoint, said->lost_ns, (double)listener->checkpoint_ns, growth_usual(&state->growth));
	listener->out->say(listener->out->arg, said);
	said->lost_ns = 0;
}

static void judge_checkpoint(struct slow_rank *state, const struct frame *frame, const struct measures *measures,
	struct measure *measure, const struct detector_out *out)
{
	const struct measures *of =
		checkpoint_measures(&state->checkpoint, frame, measures, growth_usual(&state->growth));
	struct listener listener = {state, out, measures->step_ns};
	const struct detector_out heard = {.say = on_checkpoint, .arg = &listener};
	bool said;

	state->n_said = 0;
	state->checkpoints.lost = measures->lost > 0;
	if (of)
		hold(&state->checkpoints, frame, of, measure, &heard, &said);
}

/* It is so until the next one tells otherwise, or does not come. A rank is told of once: if it keeps the others waiting
 * in all steps, for that. */
static void repeat_checkpoint(struct slow_rank *state, const struct frame *frame, const struct detector_out *out)
{
	if (checkpoint_past(&state->checkpoint, frame->step))
		state->n_said = 0;
	for (size_t i = 0; i < state->n_said; i++) {
		size_t rank = (size_t)state->said[i].finding.rank;

		if (rank < state->steps.ranks && !state->steps.verdict[rank].said)
			out->say(out->arg, &state->said[i]);
	}
}

static void slow_rank_frame(void *arg, const struct frame *frame, const struct measures *measures,
	struct measure *measure, const struct detector_out *out)
{
	struct slow_rank *state = arg;
	bool later, said, common;

	cause_frame(state->cause, frame, measures);
	if (!measures->ranks)
		return;
	if (frame->class == FRAME_CHECKPOINT)
		judge_checkpoint(state, frame, measures, measure, out);
	if (frame->class != FRAME_TRAIN)
		return;
	growth_step(&state->growth, frame->step, measures->step_ns, frame->tier);
	later = growth_slower(&state->growth); /* and stages do not tell whose fault it is */
	state->steps.view.series.grown = growth_ln(&state->growth);
	common = hold(&state->steps, frame, measures, measure, out, &said);
	repeat_checkpoint(state, frame, out);
	if (said)
		want(state, frame, "a rank keeps the others waiting", out);
	if (frame->tier == FRAME_TIER_STAGES && (later || common))
		want(state, frame, "steps are longer, and stages do not tell why", out);
}

const struct detector slow_rank_detector = {
	.name = "slow_rank",
	.new = slow_rank_new,
	.free = slow_rank_free,
	.frame = slow_rank_frame,
};
