/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/detect/sequence.h"
#include "analyzers/base/robust.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define EARLY 4

void replicas_free(struct replicas *replicas)
{
	free(replicas->of);
	free(replicas->lead);
	*replicas = (struct replicas){0};
}

static int replicas_reserve(struct replicas *replicas, const struct frame *frame)
{
	size_t capacity = frame->comms + frame->groups;

	if (frame->ranks > replicas->rank_capacity) {
		free(replicas->of);
		replicas->of = calloc(frame->ranks, sizeof(*replicas->of));
		replicas->rank_capacity = replicas->of ? frame->ranks : 0;
		if (!replicas->of)
			return -ENOMEM;
	}
	if (capacity > replicas->capacity) {
		free(replicas->lead);
		replicas->lead = calloc(capacity, sizeof(*replicas->lead));
		replicas->capacity = replicas->lead ? capacity : 0;
		if (!replicas->lead)
			return -ENOMEM;
	}
	return 0;
}

static uint32_t replicas_root_of(uint32_t *parent, uint32_t rank)
{
	while (parent[rank] != rank) {
		parent[rank] = parent[parent[rank]];
		rank = parent[rank];
	}
	return rank;
}

static void replicas_join(uint32_t *parent, uint32_t a, uint32_t b)
{
	a = replicas_root_of(parent, a);
	b = replicas_root_of(parent, b);
	if (a < b)
		parent[b] = a;
	else
		parent[a] = b;
}

/* Where in lead what the operation joins is; SIZE_MAX: it joins no rank. Sends within one expert or data group are
 * collectives made of sends. */
static size_t replicas_index_of(const struct frame *frame, uint32_t g)
{
	const struct frame_group *group = &frame->group[g];
	enum comm_kind kind = group->comm < frame->comms ? frame->comm[group->comm].kind : COMM_KIND_UNCLEAR;

	if (group->p2p)
		return kind == COMM_KIND_UNCLEAR || kind == COMM_KIND_PIPELINE ? frame->comms + g : SIZE_MAX;
	return kind == COMM_KIND_TENSOR || kind == COMM_KIND_CONTEXT ? group->comm : SIZE_MAX;
}

/* Roots to numbers; a replica of one rank is none, and one of more than half of the ranks is no evidence. */
static void replicas_number(struct replicas *replicas, uint32_t *size)
{
	uint32_t *of = replicas->of;

	for (uint32_t i = 0; i < replicas->ranks; i++)
		of[i] = replicas_root_of(of, i);
	memset(size, 0, replicas->ranks * sizeof(*size));
	for (size_t i = 0; i < replicas->ranks; i++)
		size[of[i]]++;
	for (uint32_t i = 0; i < replicas->ranks; i++) {
		uint32_t n = size[i];

		size[i] = n < 2 || 2 * (size_t)n > replicas->ranks ? FRAME_NONE : (uint32_t)replicas->count++;
	}
	for (size_t i = 0; i < replicas->ranks; i++)
		of[i] = size[of[i]];
}

int replicas_frame(struct replicas *replicas, const struct frame *frame)
{
	uint32_t *size;

	if (frame->ranks == replicas->ranks && replicas->frames++ >= EARLY && replicas->frames % REPLICAS_EVERY)
		return 0;
	if (replicas_reserve(replicas, frame) < 0)
		return -ENOMEM;
	size = calloc(frame->ranks + 1, sizeof(*size));
	if (!size)
		return -ENOMEM;
	replicas->ranks = frame->ranks;
	replicas->count = 0;
	for (uint32_t i = 0; i < frame->ranks; i++)
		replicas->of[i] = i;
	for (size_t i = 0; i < frame->comms + frame->groups; i++)
		replicas->lead[i] = FRAME_NONE;
	for (size_t i = 0; i < frame->ops; i++) {
		const struct frame_op *op = &frame->op[i];
		size_t at;

		if (op->group >= frame->groups || op->rank >= frame->ranks)
			continue;
		at = replicas_index_of(frame, op->group);
		if (at == SIZE_MAX)
			continue;
		if (replicas->lead[at] == FRAME_NONE)
			replicas->lead[at] = op->rank;
		else
			replicas_join(replicas->of, replicas->lead[at], op->rank);
	}
	replicas_number(replicas, size);
	free(size);
	return 0;
}

#define CUT 2
#define SPREAD_ALONE 0.025
#define SHARED 0.35 /* of the variance is that of replicas */
#define SPREAD_SHARED 0.01
#define LEAD 0.06
#define LASTS 0.25 /* of the squares may be that of ranks' means: what is constant for a rank is its own */
#define HOLD 4	   /* frames in a row */
#define OTHER 0.5
#define CORRELATION 0.6
#define REPEATS 0.35 /* of frames have the same longest rank as the one before, at most */
#define STEPS_SLOPE 1.5

void sequence_free(struct sequence *sequence)
{
	free(sequence->longest);
	free(sequence->deviation);
	free(sequence->mean);
	free(sequence->work);
	free(sequence->sum);
	replicas_free(&sequence->replicas);
	*sequence = (struct sequence){0};
}

static bool sequence_reserve(struct sequence *sequence, size_t ranks)
{
	if (ranks <= sequence->capacity)
		return true;
	free(sequence->longest);
	free(sequence->deviation);
	free(sequence->mean);
	free(sequence->work);
	free(sequence->sum);
	sequence->longest = calloc(ranks, sizeof(*sequence->longest));
	sequence->deviation = calloc(ranks, sizeof(*sequence->deviation));
	sequence->mean = calloc(ranks, sizeof(*sequence->mean));
	sequence->work = calloc(ranks, sizeof(*sequence->work));
	sequence->sum = calloc(ranks, sizeof(*sequence->sum));
	sequence->capacity = sequence->longest && sequence->deviation && sequence->mean && sequence->work && sequence->sum
				 ? ranks
				 : 0;
	return sequence->capacity;
}

/* What was seen in another way is no measure for this. */
static void sequence_begin(struct sequence *sequence, const struct frame *frame)
{
	struct sequence fresh = {.tier = frame->tier,
		.ranks = frame->ranks,
		.longest = sequence->longest,
		.deviation = sequence->deviation,
		.mean = sequence->mean,
		.work = sequence->work,
		.sum = sequence->sum,
		.capacity = sequence->capacity,
		.replicas = sequence->replicas};

	memset(sequence->mean, 0, sequence->capacity * sizeof(*sequence->mean));
	*sequence = fresh;
}

static void sequence_average(const struct sequence *sequence, double *mean, double value)
{
	*mean += (value - *mean) / fmin((double)sequence->frames, SEQUENCE_FRAMES);
}

/* What a rank does that samples' lengths are not in. */
static double other_of(const struct frame *frame, uint32_t rank)
{
	const uint64_t *stage_ns = frame->rank[rank].stage_ns;
	const struct frame_host *host = &frame->rank[rank].host;
	double other = (double)stage_ns[STAGE_DATALOADER] + (double)stage_ns[STAGE_GC];

	if (frame->tier == FRAME_TIER_DEVICE)
		return other;
	if (host->run_delay_ns != FRAME_UNKNOWN)
		other += (double)host->run_delay_ns;
	return host->throttled_ns != FRAME_UNKNOWN ? other + (double)host->throttled_ns : other;
}

/* Of the rank itself, as far as samples' lengths can be in it. */
static double work_of(const struct frame *frame, const struct measures *measures, uint32_t rank)
{
	double work = (double)measures->rank[rank].self_ns - other_of(frame, rank);

	return work > 0 ? work : 0;
}

static double sequence_forward_of(const struct frame *frame, double work, uint32_t rank)
{
	double forward = (double)frame->rank[rank].stage_ns[STAGE_FORWARD];

	return forward < work ? forward : work;
}

/* Sums of one frame, of deviations in shares of the class's median. */
struct deviations {
	double xx, yy, xy, spread, over, other, lasting, squares;
	size_t ranks, classes, interval;
};

/* Deviations of forward and of the rest. work: of each member. */
static void add_pieces(const struct sequence_classes *classes, const struct frame *frame, const double *work, size_t c,
	double median, struct deviations *sum)
{
	const uint32_t *member = classes->member + classes->start[c];
	size_t n = classes->start[c + 1] - classes->start[c];
	double forward, rest;

	for (size_t i = 0; i < n; i++)
		classes->value[i] = sequence_forward_of(frame, work[i], member[i]);
	forward = robust_median(classes->value, n);
	for (size_t i = 0; i < n; i++)
		classes->value[i] = work[i] - sequence_forward_of(frame, work[i], member[i]);
	rest = robust_median(classes->value, n);
	for (size_t i = 0; i < n; i++) {
		double of_forward = sequence_forward_of(frame, work[i], member[i]);
		double x = (of_forward - forward) / median, y = (work[i] - of_forward - rest) / median;

		sum->xx += x * x;
		sum->yy += y * y;
		sum->xy += x * y;
	}
}

/* By how much the one that has most of it has more than the median. */
static double other_over(const struct sequence_classes *classes, const struct frame *frame, size_t c)
{
	const uint32_t *member = classes->member + classes->start[c];
	size_t n = classes->start[c + 1] - classes->start[c];
	double most = 0;

	for (size_t i = 0; i < n; i++) {
		classes->value[i] = other_of(frame, member[i]);
		most = classes->value[i] > most ? classes->value[i] : most;
	}
	return most - robust_median(classes->value, n);
}

static double sequence_clip(double value, double most)
{
	return value > most ? most : value < -most ? -most : value;
}

/* Deviations become those from their mean, none longer than CUT times what they are on average: where a record was
 * lost, a wait may appear as work. */
static void cut_deviations(struct sequence *sequence, const uint32_t *member, size_t n)
{
	double absolute = 0, mean = 0;

	for (size_t i = 0; i < n; i++)
		absolute += fabs(sequence->deviation[member[i]]) / (double)n;
	for (size_t i = 0; i < n; i++) {
		sequence->deviation[member[i]] = sequence_clip(sequence->deviation[member[i]], CUT * absolute);
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
	double *work = sequence->work, median, spread, frames, most = 0;

	for (size_t i = 0; i < n; i++)
		classes->value[i] = work[i] = work_of(frame, measures, member[i]);
	median = robust_median(classes->value, n);
	if (n < SEQUENCE_RANKS_MIN || !(median > 0))
		return;
	add_pieces(classes, frame, work, c, median, sum);
	for (size_t i = 0; i < n; i++) {
		sequence->deviation[member[i]] = work[i] / median - 1;
		classes->value[i] = work[i];
		if (work[i] > most) {
			most = work[i];
			longest = i;
		}
	}
	spread = robust_spread(classes->value, n, median) / median;
	cut_deviations(sequence, member, n);
	/* The frame is counted once all classes are. */
	frames = fmin((double)sequence->frames + 1, SEQUENCE_FRAMES);
	for (size_t i = 0; i < n; i++) {
		double *mean = &sequence->mean[member[i]];

		*mean += (sequence->deviation[member[i]] - *mean) / frames;
		sum->lasting += *mean * *mean;
		sum->squares += sequence->deviation[member[i]] * sequence->deviation[member[i]];
	}
	sum->over = fmax(sum->over, most - median);
	sum->other = fmax(sum->other, other_over(classes, frame, c));
	sum->spread += spread;
	sum->interval += sequence->longest[c] == member[longest];
	sequence->longest[c] = member[longest];
	sum->ranks += n;
	sum->classes++;
}

/* NULL: of no replica. */
static struct sequence_sum *sum_of(const struct sequence *sequence, uint32_t rank)
{
	uint32_t replica = sequence->replicas.of[rank];

	return replica < sequence->replicas.count ? &sequence->sum[replica] : NULL;
}

/* Sums of each replica, and of the squares of what each class has of it. */
static void add_replicas(struct sequence *sequence, const struct sequence_classes *classes)
{
	memset(sequence->sum, 0, sequence->replicas.count * sizeof(*sequence->sum));
	for (size_t c = 0; c < classes->classes; c++) {
		const uint32_t *member = classes->member + classes->start[c];
		size_t n = classes->start[c + 1] - classes->start[c];

		for (size_t i = 0; i < n; i++) {
			struct sequence_sum *sum = sum_of(sequence, member[i]);

			if (!sum || isnan(sequence->deviation[member[i]]))
				continue;
			sum->part += sequence->deviation[member[i]];
			sum->part_ranks++;
			sum->square += sequence->deviation[member[i]] * sequence->deviation[member[i]];
		}
		for (size_t i = 0; i < n; i++) {
			struct sequence_sum *sum = sum_of(sequence, member[i]);

			if (!sum || !(sum->part_ranks > 0))
				continue;
			sum->all += sum->part;
			sum->ranks += sum->part_ranks;
			sum->squares_of_parts += sum->part * sum->part;
			sum->pairs_in_parts += (double)sum->part_ranks * sum->part_ranks;
			sum->part = sum->part_ranks = 0;
		}
	}
}

/* Of all pairs of ranks of one replica in different classes (where there is but one, in that), the mean product of
 * their deviations, times their number. What one class waits for, all of it does. */
static double shared_of(const struct sequence_sum *sum)
{
	double n = sum->ranks, pairs = n * n - sum->pairs_in_parts;

	if (pairs > 0)
		return n * (sum->all * sum->all - sum->squares_of_parts) / pairs;
	return (sum->all * sum->all - sum->square) / (n - 1);
}

static void sequence_share(struct sequence *sequence, const struct sequence_classes *classes, struct deviations *sum)
{
	double shared = 0, all = 0, most = 0, ranks = 0;
	uint32_t longest = FRAME_NONE;

	add_replicas(sequence, classes);
	for (uint32_t k = 0; k < sequence->replicas.count; k++) {
		const struct sequence_sum *of = &sequence->sum[k];

		if (of->ranks < 2)
			continue;
		shared += shared_of(of);
		all += of->square;
		ranks += of->ranks;
		if (of->all / of->ranks > most) {
			most = of->all / of->ranks;
			longest = k;
		}
	}
	if (!(ranks > 0))
		return;
	sequence_average(sequence, &sequence->shared, shared / ranks);
	sequence_average(sequence, &sequence->all, all / ranks);
	sum->over = most;
	sum->interval = sequence->longest_replica == longest ? sum->classes : 0;
	sequence->longest_replica = longest;
}

/* How often the longest may be the same as in the frame before; where it always is, it is slow. */
static double repeats_most(size_t replicas)
{
	return replicas ? 0.5 + 0.5 / (double)replicas : REPEATS;
}

static bool is_shared(const struct sequence *sequence)
{
	double part = sequence->all > 0 ? sequence->shared / sequence->all : 0;
	double deviation = sqrt(fmax(sequence->shared, 0));

	return part > SHARED && deviation > SPREAD_SHARED;
}

static bool pieces_agree(const struct sequence *sequence)
{
	return sequence->xx > 0 && sequence->yy > 0 &&
	       sequence->xy > CORRELATION * sqrt(sequence->xx) * sqrt(sequence->yy);
}

/* By what the step is longer for each ns that the longest forward is, the median one being equal. */
static double steps_slope(const struct sequence *sequence)
{
	const struct sequence_series *most = &sequence->most, *median = &sequence->median;
	double of_most = most->most * median->median - most->median * most->median;

	return of_most > 0 ? (most->step * median->median - median->step * most->median) / of_most : 0;
}

static bool steps_agree(const struct sequence *sequence)
{
	const struct sequence_series *most = &sequence->most, *median = &sequence->median;
	double of_most = most->most * median->median - most->median * most->median;
	double of_step = sequence->step.step * median->median - median->step * median->step;

	return of_most > 0 && of_step > 0 && steps_slope(sequence) > STEPS_SLOPE &&
	       steps_slope(sequence) * sqrt(of_most) > CORRELATION * sqrt(of_step) &&
	       sequence->lead > LEAD * (most->mean - median->mean);
}

static bool differs(const struct sequence *sequence, const struct frame *frame, double gain_min)
{
	size_t replicas = sequence->replicas.count;

	if (sequence->frames < SEQUENCE_FRAMES || sequence->intervals > repeats_most(replicas))
		return false;
	/* In a pipeline what differs between micro-batches adds up to more than what differs in all. */
	if (sequence->over < (replicas ? gain_min / 2 : gain_min))
		return false;
	/* What a rank does besides, others wait for, and not each wait is seen. */
	if (sequence->other > OTHER * sequence->over || sequence->lasting > LASTS * sequence->squares)
		return false;
	if (replicas)
		return is_shared(sequence);
	if (sequence->spread < SPREAD_ALONE)
		return false;
	if (frame->tier == FRAME_TIER_STAGES)
		return steps_agree(sequence);
	return frame->tier == FRAME_TIER_DEVICE || pieces_agree(sequence);
}

/* Notes since when; whether it has been so for long enough. */
static bool sequence_note(struct sequence *sequence, const struct frame *frame, bool differs)
{
	bool quiet = sequence->replicas.count ? !(sequence->shared > SPREAD_SHARED * SPREAD_SHARED)
					      : sequence->spread < SPREAD_ALONE;

	if (quiet || !sequence->since_step) {
		const struct frame_rank *rank = &frame->rank[0];

		for (size_t i = 0; i < frame->ranks && !rank->here; i++)
			rank = &frame->rank[i];
		sequence->since_step = frame->step;
		sequence->since_ns = rank->end_ns > rank->step_ns ? rank->end_ns - rank->step_ns : 0;
	}
	sequence->held = differs ? sequence->held + 1 : 0;
	return sequence->held >= HOLD;
}

static void add_steps(struct sequence *sequence, double step, double most, double median)
{
	struct sequence_series *all[] = {&sequence->step, &sequence->most, &sequence->median};
	const double value[] = {step, most, median};
	double off[3];

	/* Differences to the means so far. */
	for (unsigned i = 0; i < 3; i++) {
		if (sequence->frames == 1)
			all[i]->mean = value[i];
		off[i] = value[i] - all[i]->mean;
	}
	for (unsigned i = 0; i < 3; i++) {
		sequence_average(sequence, &all[i]->step, off[i] * off[0]);
		sequence_average(sequence, &all[i]->most, off[i] * off[1]);
		sequence_average(sequence, &all[i]->median, off[i] * off[2]);
		sequence_average(sequence, &all[i]->mean, value[i]);
	}
}

/* Frames of stages, where waits hide all but forward. */
static bool frame_of_stages(struct sequence *sequence, const struct sequence_classes *classes,
	const struct frame *frame, const struct measures *measures, double gain_min)
{
	const uint32_t *member = classes->member;
	size_t n = classes->start[classes->classes];
	double median, most = 0, second = 0;
	uint32_t longest = FRAME_NONE;

	if (classes->classes != 1 || n < SEQUENCE_RANKS_MIN)
		return false;
	for (size_t i = 0; i < n; i++) {
		classes->value[i] = (double)frame->rank[member[i]].stage_ns[STAGE_FORWARD];
		if (classes->value[i] > most) {
			second = most;
			most = classes->value[i];
			longest = member[i];
		} else if (classes->value[i] > second) {
			second = classes->value[i];
		}
	}
	median = robust_median(classes->value, n);
	if (!(median > 0))
		return false;
	sequence->frames++;
	add_steps(sequence, (double)measures->step_ns, most, median);
	sequence_average(sequence, &sequence->lead, most - second);
	sequence_average(sequence, &sequence->spread, robust_spread(classes->value, n, median) / median);
	sequence_average(sequence, &sequence->intervals, sequence->longest[0] == longest);
	sequence->longest[0] = longest;
	sequence->over =
		sequence->step.mean > 0
			? steps_slope(sequence) * (sequence->most.mean - sequence->median.mean) / sequence->step.mean
			: 0;
	return sequence_note(sequence, frame, differs(sequence, frame, gain_min));
}

bool sequence_frame(struct sequence *sequence, const struct sequence_classes *classes, const struct frame *frame,
	const struct measures *measures, double gain_min)
{
	struct deviations sum = {.ranks = 0};

	if (!sequence_reserve(sequence, frame->ranks) || replicas_frame(&sequence->replicas, frame) < 0)
		return false;
	if (frame->tier != sequence->tier || frame->ranks != sequence->ranks)
		sequence_begin(sequence, frame);
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
		sequence_share(sequence, classes, &sum);
	sequence->lasting = sum.lasting / (double)sum.ranks;
	sequence_average(sequence, &sequence->squares, sum.squares / (double)sum.ranks);
	sequence_average(sequence, &sequence->other, sum.other / (double)measures->step_ns);
	sequence_average(sequence, &sequence->xx, sum.xx / (double)sum.ranks);
	sequence_average(sequence, &sequence->yy, sum.yy / (double)sum.ranks);
	sequence_average(sequence, &sequence->xy, sum.xy / (double)sum.ranks);
	sequence_average(sequence, &sequence->spread, sum.spread / (double)sum.classes);
	sequence_average(sequence, &sequence->intervals, (double)sum.interval / (double)sum.classes);
	sequence_average(sequence, &sequence->over, sequence->replicas.count ? sum.over : sum.over / (double)measures->step_ns);
	return sequence_note(sequence, frame, differs(sequence, frame, gain_min));
}
