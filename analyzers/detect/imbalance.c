/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work that is divided unevenly: reported, never an accusation. Of classes of ranks (measures), by their own work: the
 * step less waits (self_ns).
 *
 * Stage: a class (a pipeline stage) has more of it than the others. Its median and its lower quartile are above
 * STAGE_RATIO times the median of the other classes' medians in STAGE_FRAMES of the last STAGE_OF frames. Lost is what
 * it has more, as far as others wait for it.
 *
 * Sequence: samples of unequal length. In each step another rank has more than its class; lost is what the longest has
 * more than the median, as far as others wait for it. Means over SEQUENCE_FRAMES frames decide: another one is the
 * longest again and again, what is constant for a rank is little, and data loading, garbage collection and waiting for
 * a CPU, which no length changes, are a small part. On the host, forward and the rest are long together (of pipelines,
 * where forward holds waits, they are not); device times are free of the host's noise. Without operations: see
 * sequence_add_step().
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/columns.h"
#include "analyzers/base/robust.h"
#include "analyzers/detect/detector.h"

#define STAGE_RATIO 1.05
#define STAGE_FRAMES 12 /* of 16: a burst of the class's ranks is none */
#define STAGE_OF 16
#define SEQUENCE_FRAMES 16
#define SEQUENCE_HOLD 4	      /* frames in a row: means over 16 may meet the rest for one or two by chance */
#define SEQUENCE_RANKS 4      /* of a class: of fewer, the longest is the same one too often */
#define SEQUENCE_REPEATS 0.35 /* of frames have the same longest rank as the one before, at most */
#define SEQUENCE_SPREAD 0.2   /* of the loss is the ranks' spread, at least: one rank that is odd at times is no more */
#define SEQUENCE_LASTS 0.25   /* of the squares of deviations may be those of ranks' means */
#define SEQUENCE_OTHER 0.5    /* of the loss may be loading and the like */
#define SEQUENCE_TOGETHER 0.6 /* correlation of forward and the rest */
/* Of the step over the longest forward: noise in forward lengthens the step by itself alone */
#define SEQUENCE_SLOPE 1.5
#define OTHERS_MAX 1024

struct imbalance_class {
	uint32_t slow; /* frames, newest in bit 0 */
	uint64_t since_step, since_ns;
	double median, low;
};

/* Means over about SEQUENCE_FRAMES frames. */
struct imbalance_sequence {
	enum frame_tier tier;
	size_t ranks, classes;
	double frames;
	double lost, other; /* ns of a step */
	double repeats, squares, spread;
	double xx, yy,
		xy; /* of deviations of forward (x) and the rest (y); STAGES: of the longest forward and the step */
	double mean_x, mean_y;
	uint32_t longest;
	unsigned held; /* frames in a row */
	uint64_t since_step, since_ns;
};

struct imbalance {
	struct detect_options options;
	struct columns columns; /* by rank */
	size_t classes;
	struct imbalance_class *class;
	double *work;  /* ns, of each rank */
	double *mean;  /* of a rank's deviations */
	double *value; /* scratch */
	struct imbalance_sequence sequence;
};

static void *imbalance_free(void *arg)
{
	struct imbalance *state = arg;

	if (state)
		columns_free(&state->columns);
	free(state);
	return NULL;
}

static void *imbalance_new(const struct detect_options *options)
{
	struct imbalance *state = calloc(1, sizeof(*state));

	if (!state)
		return NULL;
	state->options = *options;
	state->columns = COLUMNS_OF(
		COLUMN_OF(state->class), COLUMN_OF(state->work), COLUMN_OF(state->mean), COLUMN_OF(state->value));
	return state;
}

static void measure_classes(struct imbalance *state, const struct measures *measures)
{
	for (size_t i = 0; i < measures->ranks; i++)
		state->work[i] = (double)measures->rank[i].self_ns;
	state->classes = measures->classes < measures->ranks ? measures->classes : measures->ranks;
	for (size_t c = 0; c < state->classes; c++) {
		const uint32_t *member = measures->member + measures->class_start[c];
		size_t n = measures->class_ranks[c];
		bool compares = n >= MEASURE_CLASS_MIN;

		for (size_t i = 0; i < n; i++)
			state->value[i] = state->work[member[i]];
		state->class[c].median = compares ? robust_median(state->value, n) : 0;
		state->class[c].low = compares ? robust_kth(state->value, n, n / 4) : 0;
	}
}

static uint64_t imbalance_begin_of(const struct frame *frame, uint32_t rank)
{
	const struct frame_rank *of = &frame->rank[rank];

	return of->end_ns > of->step_ns ? of->end_ns - of->step_ns : 0;
}

static struct robust_middle classes_middle(struct imbalance *state)
{
	size_t n = 0;

	for (uint32_t c = 0; c < state->classes; c++) {
		if (state->class[c].median > 0)
			state->value[n++] = state->class[c].median;
	}
	return robust_middle_of(state->value, n);
}

/* For how long others waited for the class's ranks as the last to come: the median. What is no member's is the
 * network's, or is hidden. */
static double imbalance_awaited(const struct imbalance *state, const struct measures *measures, uint32_t c)
{
	size_t n = measures->class_ranks[c];

	for (size_t i = 0; i < n; i++)
		state->value[i] = (double)measures->rank[measures->member[measures->class_start[c] + i]].last_ns;
	return robust_median(state->value, n);
}

static void imbalance_emit(const struct frame *frame, struct verdict *verdict, enum finding_cause cause, double lost_ns,
	const struct detector_out *out)
{
	verdict->lost_ns = lost_ns;
	verdict->finding.kind = FINDING_IMBALANCE;
	verdict->finding.cause = cause;
	verdict->finding.rank = -1;
	verdict->finding.tier = frame->tier;
	verdict->finding.confidence = frame->tier == FRAME_TIER_STAGES ? 0.5 : 0.8;
	out->emit(out->arg, verdict);
}

static void judge_stages(struct imbalance *state, const struct frame *frame, const struct measures *measures,
	const struct detector_out *out)
{
	struct verdict verdict = {0};
	const struct robust_middle middle = classes_middle(state);
	double others_of_worst = 0, worst_over = 0, lost;
	uint32_t worst = FRAME_NONE;
	int32_t rank[OTHERS_MAX];
	size_t n = 0;

	for (uint32_t c = 0; state->classes > 1 && c < state->classes; c++) {
		struct imbalance_class *class = &state->class[c];
		double others = robust_others(middle, class->median);
		bool slow = others > 0 && class->median > STAGE_RATIO * others && class->low > STAGE_RATIO * others;

		if (slow && !class->slow) {
			class->since_step = frame->step;
			class->since_ns = imbalance_begin_of(frame, measures->member[measures->class_start[c]]);
		}
		class->slow = class->slow << 1 | slow;
		if (slow && __builtin_popcount(class->slow & ((1U << STAGE_OF) - 1)) >= STAGE_FRAMES &&
			class->median - others > worst_over) {
			worst = c;
			worst_over = class->median - others;
			others_of_worst = others;
		}
	}
	if (worst == FRAME_NONE)
		return;
	lost = fmin(worst_over, imbalance_awaited(state, measures, worst));
	if (lost < state->options.gain_min / 2 * (double)measures->step_ns)
		return;
	for (; n < measures->class_ranks[worst] && n < OTHERS_MAX; n++)
		rank[n] = frame->who[measures->member[measures->class_start[worst] + n]].rank;
	finding_ranks(rank, n, verdict.finding.others, sizeof(verdict.finding.others));
	verdict.finding.since_step = state->class[worst].since_step;
	verdict.finding.since_ns = state->class[worst].since_ns;
	finding_add(&verdict.finding, "self_time", "ns", state->class[worst].median, others_of_worst, NULL);
	imbalance_emit(frame, &verdict, CAUSE_STAGE, lost, out);
}

/* What a rank does that no sample's length is in. */
static double other_of(const struct frame *frame, uint32_t rank)
{
	const uint64_t *activity_ns = frame->rank[rank].activity_ns;
	const struct frame_host *host = &frame->rank[rank].host;
	double other = (double)activity_ns[ACTIVITY_DATALOADER] + (double)activity_ns[ACTIVITY_GC];

	if (frame->tier == FRAME_TIER_DEVICE)
		return other;
	if (host->run_delay_ns != FRAME_UNKNOWN)
		other += (double)host->run_delay_ns;
	return host->throttled_ns != FRAME_UNKNOWN ? other + (double)host->throttled_ns : other;
}

/* Of one frame, ns: deviations of ranks from their classes. */
struct imbalance_sums {
	double most, other, spread, lasting, squares, xx, yy, xy;
	uint32_t longest;
	size_t ranks;
};

/* value: of n members. By how much the largest is above the median. */
static double most_over(double *value, size_t n)
{
	double most = 0;

	for (size_t i = 0; i < n; i++)
		most = fmax(most, value[i]);
	return most - robust_median(value, n);
}

/* Deviations of the class's n members: of work, and of its two pieces, forward (x) and the rest (y). */
static void imbalance_deviate(struct imbalance *state, const struct frame *frame, const uint32_t *member, size_t n,
	struct imbalance_sums *sum)
{
	bool stages = frame->tier == FRAME_TIER_STAGES;
	double frames = fmin(state->sequence.frames, SEQUENCE_FRAMES), median, forward = 0, work = 0;

	for (size_t i = 0; i < n; i++)
		state->value[i] = other_of(frame, member[i]);
	sum->other = fmax(sum->other, most_over(state->value, n));
	for (size_t i = 0; i < n; i++) {
		double of_forward = (double)frame->rank[member[i]].activity_ns[ACTIVITY_FORWARD];
		double *own = &state->work[member[i]];

		*own = stages ? of_forward : fmax(0, *own - other_of(frame, member[i]));
		state->value[i] = *own;
		forward += fmin(of_forward, *own) / (double)n;
		work += *own / (double)n;
	}
	median = robust_median(state->value, n);
	sum->spread += robust_spread(state->value, n, median) * (double)n;
	for (size_t i = 0; i < n; i++) {
		double own = state->work[member[i]], *lasts = &state->mean[member[i]];
		double x = fmin((double)frame->rank[member[i]].activity_ns[ACTIVITY_FORWARD], own) - forward;

		if (own - median > sum->most) {
			sum->most = own - median;
			sum->longest = member[i];
		}
		*lasts += (own - work - *lasts) / frames;
		sum->lasting += *lasts * *lasts;
		sum->squares += (own - work) * (own - work);
		sum->xx += x * x;
		sum->yy += (own - work - x) * (own - work - x);
		sum->xy += x * (own - work - x);
	}
	sum->ranks += n;
}

static void sequence_blend(const struct imbalance_sequence *sequence, double *mean, double value)
{
	*mean += (value - *mean) / fmin(sequence->frames, SEQUENCE_FRAMES);
}

/* Without operations only forward shows a length: steps are longer with it, by more than it is, as backward is, too. */
static void sequence_add_step(
	struct imbalance_sequence *sequence, const struct measures *measures, struct imbalance_sums *sum)
{
	double x = sum->most, y = (double)measures->step_ns,
	       slope = sequence->xx > 0 ? fmax(0, sequence->xy / sequence->xx) : 0;

	sequence_blend(sequence, &sequence->mean_x, x);
	sequence_blend(sequence, &sequence->mean_y, y);
	x -= sequence->mean_x;
	y -= sequence->mean_y;
	sum->xx = x * x;
	sum->yy = y * y;
	sum->xy = x * y;
	sum->most *= slope;
	sum->spread *= slope;
}

static bool sequence_differs(const struct imbalance_sequence *sequence, double lasting, double least)
{
	bool together = sequence->xy > SEQUENCE_TOGETHER * sqrt(sequence->xx) * sqrt(sequence->yy);

	if (sequence->frames < SEQUENCE_FRAMES || sequence->lost < least || sequence->repeats > SEQUENCE_REPEATS ||
		sequence->other > SEQUENCE_OTHER * sequence->lost || lasting > SEQUENCE_LASTS * sequence->squares ||
		sequence->spread < SEQUENCE_SPREAD * sequence->lost)
		return false;
	if (sequence->tier == FRAME_TIER_STAGES)
		return together && sequence->xy > SEQUENCE_SLOPE * sequence->xx;
	return together || sequence->tier == FRAME_TIER_DEVICE || sequence->classes > 1;
}

static void judge_sequences(struct imbalance *state, const struct frame *frame, const struct measures *measures,
	const struct detector_out *out)
{
	struct imbalance_sequence *sequence = &state->sequence;
	struct imbalance_sums sum = {.longest = FRAME_NONE};
	double least = state->options.gain_min * (double)measures->step_ns, lasting;
	struct verdict verdict = {0};

	if (sequence->tier != frame->tier || sequence->ranks != frame->ranks) {
		/* Seen in another way: no measure for this. */
		*sequence = (struct imbalance_sequence){.tier = frame->tier, .ranks = frame->ranks};
		memset(state->mean, 0, state->columns.capacity * sizeof(*state->mean));
	}
	sequence->frames++;
	sequence->classes = state->classes;
	for (size_t c = 0; c < state->classes; c++) {
		if (measures->class_ranks[c] >= SEQUENCE_RANKS)
			imbalance_deviate(state, frame, measures->member + measures->class_start[c],
				measures->class_ranks[c], &sum);
	}
	if (sum.longest == FRAME_NONE)
		return;
	lasting = sum.lasting / (double)sum.ranks;
	sequence_blend(sequence, &sequence->squares, sum.squares / (double)sum.ranks);
	sum.spread /= (double)sum.ranks;
	if (frame->tier == FRAME_TIER_STAGES)
		sequence_add_step(sequence, measures, &sum);
	else
		sum.most = fmin(sum.most, (double)measures->rank[sum.longest].last_ns);
	sequence_blend(sequence, &sequence->spread, sum.spread);
	sequence_blend(sequence, &sequence->lost, sum.most);
	sequence_blend(sequence, &sequence->other, sum.other);
	sequence_blend(sequence, &sequence->repeats, sum.longest == sequence->longest);
	sequence_blend(sequence, &sequence->xx, sum.xx);
	sequence_blend(sequence, &sequence->yy, sum.yy);
	sequence_blend(sequence, &sequence->xy, sum.xy);
	sequence->longest = sum.longest;
	if (sequence->lost < least || !sequence->since_step) {
		sequence->since_step = frame->step;
		sequence->since_ns = imbalance_begin_of(frame, sum.longest);
	}
	sequence->held = sequence_differs(sequence, lasting, least) ? sequence->held + 1 : 0;
	if (sequence->held < SEQUENCE_HOLD)
		return;
	verdict.finding.since_step = sequence->since_step;
	verdict.finding.since_ns = sequence->since_ns;
	finding_add(&verdict.finding, "spread", "ns", sqrt(sequence->squares), NAN,
		frame->tier == FRAME_TIER_STAGES ? "forward" : "self time within classes");
	imbalance_emit(frame, &verdict, CAUSE_SEQUENCE, sequence->lost, out);
}

static void imbalance_frame(
	void *arg, const struct frame *frame, const struct measures *measures, const struct detector_out *out)
{
	struct imbalance *state = arg;

	if (frame->class != FRAME_TRAIN || !frame_is_split(frame) || !measures->ranks ||
		!columns_renew(&state->columns, measures->ranks))
		return;
	measure_classes(state, measures);
	judge_stages(state, frame, measures, out);
	judge_sequences(state, frame, measures, out);
}

const struct detector imbalance_detector = {
	.name = "imbalance",
	.new = imbalance_new,
	.free = imbalance_free,
	.frame = imbalance_frame,
};
