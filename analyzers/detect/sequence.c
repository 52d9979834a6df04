/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/detect/robust.h"
#include "analyzers/detect/sequence.h"

#define CUT 2
#define SPREAD_ALONE 0.02
#define SHARED_MOST 0.45 /* of the variance is that of replicas; then SPREAD_SHARED is enough */
#define SPREAD_SHARED 0.01
#define SHARED_SOME 0.3
#define SPREAD_SOME 0.024
#define SLOPE_MAX 6
#define CORRELATION 0.6
#define STAYS 0.35 /* of frames have the same longest rank as the one before, at most */
#define STEPS_SLOPE 1.5

void sequence_free(struct sequence *sequence)
{
	free(sequence->longest);
	free(sequence->deviation);
	free(sequence->sum);
	free(sequence->square);
	free(sequence->count);
	replicas_free(&sequence->replicas);
	*sequence = (struct sequence){0};
}

static bool make_room(struct sequence *sequence, size_t ranks)
{
	if (ranks <= sequence->room)
		return true;
	free(sequence->longest);
	free(sequence->deviation);
	free(sequence->sum);
	free(sequence->square);
	free(sequence->count);
	sequence->longest = calloc(ranks, sizeof(*sequence->longest));
	sequence->deviation = calloc(ranks, sizeof(*sequence->deviation));
	sequence->sum = calloc(ranks, sizeof(*sequence->sum));
	sequence->square = calloc(ranks, sizeof(*sequence->square));
	sequence->count = calloc(ranks, sizeof(*sequence->count));
	sequence->room = sequence->longest && sequence->deviation && sequence->sum && sequence->square &&
					 sequence->count
				 ? ranks
				 : 0;
	return sequence->room;
}

static void average(const struct sequence *sequence, double *mean, double value)
{
	*mean += (value - *mean) / fmin((double)sequence->frames, SEQUENCE_FRAMES);
}

static double less(uint64_t of, uint64_t by)
{
	return of > by ? (double)(of - by) : 0;
}

/* Of the rank itself, as far as samples' lengths can be in it. */
static double work_of(const struct frame *frame, const struct measures *measures, uint32_t rank)
{
	const uint64_t *stage_ns = frame->rank[rank].stage_ns;
	uint64_t other = stage_ns[STAGE_DATALOADER] < UINT64_MAX / 4 ? stage_ns[STAGE_DATALOADER] : UINT64_MAX / 4;

	other += stage_ns[STAGE_GC] < UINT64_MAX / 4 ? stage_ns[STAGE_GC] : UINT64_MAX / 4;
	return less(measures->rank[rank].self_ns, other);
}

static double forward_of(const struct frame *frame, double work, uint32_t rank)
{
	return fmin((double)frame->rank[rank].stage_ns[STAGE_FORWARD], work);
}

/* Sums of one frame, of deviations in shares of the class's median. */
struct deviations {
	double xx, yy, xy, spread, over, median;
	size_t ranks, classes, stay;
};

/* Deviations of forward and of the rest. */
static void add_pieces(const struct sequence_classes *classes, const struct frame *frame,
	const struct measures *measures, size_t c, double median, struct deviations *sum)
{
	const uint32_t *member = classes->member + classes->start[c];
	size_t n = classes->start[c + 1] - classes->start[c];
	double forward, rest;

	for (size_t i = 0; i < n; i++)
		classes->value[i] = forward_of(frame, work_of(frame, measures, member[i]), member[i]);
	forward = robust_median(classes->value, n);
	for (size_t i = 0; i < n; i++) {
		double work = work_of(frame, measures, member[i]);

		classes->value[i] = work - forward_of(frame, work, member[i]);
	}
	rest = robust_median(classes->value, n);
	for (size_t i = 0; i < n; i++) {
		double work = work_of(frame, measures, member[i]), of_forward = forward_of(frame, work, member[i]);
		double x = (of_forward - forward) / median, y = (work - of_forward - rest) / median;

		sum->xx += x * x;
		sum->yy += y * y;
		sum->xy += x * y;
	}
}

static double clip(double value, double most)
{
	return value > most ? most : value < -most ? -most : value;
}

/* Deviations become those from their mean, none longer than CUT times what they are on average: where a record was
 * lost, a wait may look like work. */
static void cut_deviations(struct sequence *sequence, const uint32_t *member, size_t n)
{
	double absolute = 0, mean = 0;

	for (size_t i = 0; i < n; i++)
		absolute += fabs(sequence->deviation[member[i]]) / (double)n;
	for (size_t i = 0; i < n; i++) {
		sequence->deviation[member[i]] = clip(sequence->deviation[member[i]], CUT * absolute);
		mean += sequence->deviation[member[i]] / (double)n;
	}
	for (size_t i = 0; i < n; i++)
		sequence->deviation[member[i]] -= mean;
}

static void deviate(struct sequence *sequence, const struct sequence_classes *classes, const struct frame *frame,
	const struct measures *measures, size_t c, struct deviations *sum)
{
	const uint32_t *member = classes->member + classes->start[c];
	size_t n = classes->start[c + 1] - classes->start[c], longest = 0;
	double median, spread, most = 0;

	for (size_t i = 0; i < n; i++)
		classes->value[i] = work_of(frame, measures, member[i]);
	median = robust_median(classes->value, n);
	if (n < SEQUENCE_RANKS_MIN || !(median > 0))
		return;
	add_pieces(classes, frame, measures, c, median, sum);
	for (size_t i = 0; i < n; i++) {
		double work = work_of(frame, measures, member[i]);

		sequence->deviation[member[i]] = work / median - 1;
		classes->value[i] = work;
		if (work > most) {
			most = work;
			longest = i;
		}
	}
	spread = robust_spread(classes->value, n, median) / median;
	cut_deviations(sequence, member, n);
	sum->over = fmax(sum->over, most - median);
	sum->median += median;
	sum->spread += spread;
	sum->stay += sequence->longest[c] == member[longest];
	sequence->longest[c] = member[longest];
	sum->ranks += n;
	sum->classes++;
}

/* Of all pairs of ranks of one replica, the products of their deviations. */
static void share(struct sequence *sequence, struct deviations *sum)
{
	struct replicas *replicas = &sequence->replicas;
	double shared = 0, all = 0, most = 0;
	uint32_t longest = FRAME_NONE;
	size_t ranks = 0;

	memset(sequence->sum, 0, sequence->room * sizeof(*sequence->sum));
	memset(sequence->square, 0, sequence->room * sizeof(*sequence->square));
	memset(sequence->count, 0, sequence->room * sizeof(*sequence->count));
	for (size_t i = 0; i < replicas->ranks; i++) {
		uint32_t of = replicas->of[i];

		if (of == FRAME_NONE || isnan(sequence->deviation[i]))
			continue;
		sequence->sum[of] += sequence->deviation[i];
		sequence->square[of] += sequence->deviation[i] * sequence->deviation[i];
		sequence->count[of]++;
	}
	for (uint32_t k = 0; k < replicas->count; k++) {
		double n = sequence->count[k];

		if (n < 2)
			continue;
		shared += (sequence->sum[k] * sequence->sum[k] - sequence->square[k]) / (n - 1);
		all += sequence->square[k];
		ranks += sequence->count[k];
		if (sequence->sum[k] / n > most) {
			most = sequence->sum[k] / n;
			longest = k;
		}
	}
	if (!ranks)
		return;
	average(sequence, &sequence->shared, shared / (double)ranks);
	average(sequence, &sequence->all, all / (double)ranks);
	sum->over = most;
	sum->stay = sequence->longest_replica == longest;
	sum->stay *= sum->classes;
	sequence->longest_replica = longest;
}

/* How often the longest may be the same as in the frame before; where it always is, it is slow. */
static double stays_most(size_t replicas)
{
	return replicas ? 0.5 + 0.5 / (double)replicas : STAYS;
}

static bool is_shared(const struct sequence *sequence)
{
	double part = sequence->all > 0 ? sequence->shared / sequence->all : 0;
	double deviation = sqrt(fmax(sequence->shared, 0));

	return (part > SHARED_MOST && deviation > SPREAD_SHARED) || (part > SHARED_SOME && deviation > SPREAD_SOME);
}

static bool pieces_agree(const struct sequence *sequence)
{
	return sequence->xx > 0 && sequence->yy > 0 &&
	       sequence->xy > CORRELATION * sqrt(sequence->xx) * sqrt(sequence->yy);
}

static bool differs(const struct sequence *sequence, const struct frame *frame, double gain_min)
{
	size_t replicas = sequence->replicas.count;

	if (getenv("SEQDBG") && sequence->frames >= SEQUENCE_FRAMES)
		fprintf(stderr, "DBG %llu reps %zu spread %.3f corr %.2f stays %.2f over %.3f icc %.2f sd %.3f slope %.2f scorr %.2f\n",
			(unsigned long long)frame->step, replicas, sequence->spread,
			sequence->xy / sqrt(sequence->xx * sequence->yy + 1e-30), sequence->stays, sequence->over,
			sequence->shared / (sequence->all + 1e-30), sqrt(fmax(sequence->shared, 0)), sequence->xy / (sequence->xx + 1e-30),sequence->xy / sqrt(sequence->xx * sequence->yy + 1e-30));
	if (sequence->frames < SEQUENCE_FRAMES || sequence->stays > stays_most(replicas))
		return false;
	/* In a pipeline what differs between micro-batches adds up to more than what differs in all. */
	if (sequence->over < (replicas ? gain_min / 2 : gain_min))
		return false;
	if (replicas)
		return is_shared(sequence);
	if (sequence->spread < SPREAD_ALONE)
		return false;
	if (frame->tier == FRAME_TIER_STAGES)
		return pieces_agree(sequence) && sequence->xy > STEPS_SLOPE * sequence->xx;
	return frame->tier == FRAME_TIER_DEVICE || pieces_agree(sequence);
}

/* Frames of stages, where waits hide all but forward. */
static bool frame_of_stages(struct sequence *sequence, const struct sequence_classes *classes,
	const struct frame *frame, const struct measures *measures, double gain_min)
{
	const uint32_t *member = classes->member;
	size_t n = classes->start[classes->classes];
	double median, most = 0, over, step;
	uint32_t longest = FRAME_NONE;

	if (classes->classes != 1 || n < SEQUENCE_RANKS_MIN)
		return false;
	for (size_t i = 0; i < n; i++) {
		classes->value[i] = (double)frame->rank[member[i]].stage_ns[STAGE_FORWARD];
		if (classes->value[i] > most) {
			most = classes->value[i];
			longest = member[i];
		}
	}
	median = robust_median(classes->value, n);
	if (!(median > 0))
		return false;
	sequence->frames++;
	over = (most - median) / median;
	step = (double)measures->step_ns / median;
	/* Differences to the means so far. */
	if (sequence->frames == 1) {
		sequence->over_mean = over;
		sequence->step_mean = step;
	}
	average(sequence, &sequence->xx, (over - sequence->over_mean) * (over - sequence->over_mean));
	average(sequence, &sequence->yy, (step - sequence->step_mean) * (step - sequence->step_mean));
	average(sequence, &sequence->xy, (over - sequence->over_mean) * (step - sequence->step_mean));
	average(sequence, &sequence->over_mean, over);
	average(sequence, &sequence->step_mean, step);
	average(sequence, &sequence->spread, robust_spread(classes->value, n, median) / median);
	average(sequence, &sequence->stays, sequence->longest[0] == longest);
	sequence->longest[0] = longest;
	sequence->over = sequence->xx > 0 && sequence->step_mean > 0
				 ? sequence->over_mean * fmin(sequence->xy / sequence->xx, SLOPE_MAX) /
					   sequence->step_mean
				 : 0;
	return differs(sequence, frame, gain_min);
}

bool sequence_frame(struct sequence *sequence, const struct sequence_classes *classes, const struct frame *frame,
	const struct measures *measures, double gain_min)
{
	struct deviations sum = {.ranks = 0};

	if (!make_room(sequence, frame->ranks) || replicas_look(&sequence->replicas, frame) < 0)
		return false;
	if (frame->tier == FRAME_TIER_STAGES)
		return frame_of_stages(sequence, classes, frame, measures, gain_min);
	for (size_t i = 0; i < frame->ranks; i++)
		sequence->deviation[i] = NAN;
	for (size_t c = 0; c < classes->classes; c++)
		deviate(sequence, classes, frame, measures, c, &sum);
	if (!sum.classes || !measures->step_ns)
		return false;
	sequence->frames++;
	if (sequence->replicas.count)
		share(sequence, &sum);
	average(sequence, &sequence->xx, sum.xx / (double)sum.ranks);
	average(sequence, &sequence->yy, sum.yy / (double)sum.ranks);
	average(sequence, &sequence->xy, sum.xy / (double)sum.ranks);
	average(sequence, &sequence->spread, sum.spread / (double)sum.classes);
	average(sequence, &sequence->stays, (double)sum.stay / (double)sum.classes);
	average(sequence, &sequence->over, sequence->replicas.count ? sum.over : sum.over / (double)measures->step_ns);
	return differs(sequence, frame, gain_min);
}
