/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work that is divided unevenly: reported, never an accusation.
 *
 * Stage: all ranks of one class (a pipeline stage) take longer than other classes do. Its median self time over the
 * median of the other classes' medians, and its lower quartile too, above STAGE_RATIO in STAGE_FRAMES of the last
 * STAGE_OF frames, and the step gains at least half of gain_min without it (measure_whatif()).
 *
 * Sequence: see sequence.h.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/detect/detector.h"
#include "analyzers/base/robust.h"
#include "analyzers/detect/sequence.h"

#define STAGE_RATIO 1.05
#define STAGE_FRAMES 12
#define STAGE_OF 16
#define OF_TRANSFERS 0.4 /* of the excess */
#define STAGE_GAIN_EVERY 16
#define OTHERS_MAX 1024

struct class_state {
	uint32_t slow; /* frames, newest in bit 0 */
	uint64_t since_step, since_ns;
};

struct imbalance {
	struct detect_options options;
	struct class_state *class;
	double *value, *median, *low, *transfer;
	uint32_t *member, *start;
	uint64_t *excess;
	size_t capacity;
	uint64_t frames, next_check;
	uint32_t gain_class; /* class whose gain it is */
	double gain;
	struct sequence sequence;
};

static void *imbalance_free(void *arg)
{
	struct imbalance *state = arg;

	if (!state)
		return NULL;
	free(state->class);
	free(state->value);
	free(state->median);
	free(state->low);
	free(state->transfer);
	free(state->member);
	free(state->start);
	free(state->excess);
	sequence_free(&state->sequence);
	free(state);
	return NULL;
}

static void *imbalance_new(const struct detect_options *options)
{
	struct imbalance *state = calloc(1, sizeof(*state));

	if (state)
		state->options = *options;
	return state;
}

static void *imbalance_renew(void *old, size_t n, size_t size)
{
	free(old);
	return calloc(n, size);
}

static bool imbalance_reserve(struct imbalance *state, size_t ranks)
{
	if (ranks <= state->capacity)
		return true;
	state->class = imbalance_renew(state->class, ranks, sizeof(*state->class));
	state->value = imbalance_renew(state->value, ranks, sizeof(*state->value));
	state->median = imbalance_renew(state->median, ranks, sizeof(*state->median));
	state->transfer = imbalance_renew(state->transfer, ranks, sizeof(*state->transfer));
	state->low = imbalance_renew(state->low, ranks, sizeof(*state->low));
	state->member = imbalance_renew(state->member, ranks, sizeof(*state->member));
	state->start = imbalance_renew(state->start, ranks + 1, sizeof(*state->start));
	state->excess = imbalance_renew(state->excess, ranks, sizeof(*state->excess));
	state->capacity = state->class && state->value && state->median && state->low && state->transfer && state->member &&
				      state->start && state->excess
			      ? ranks
			      : 0;
	return state->capacity;
}

/* Members of classes, class by class. */
static size_t sort_ranks(struct imbalance *state, const struct measures *measures)
{
	size_t classes = measures->classes < measures->ranks ? measures->classes : measures->ranks;

	memset(state->start, 0, (classes + 1) * sizeof(*state->start));
	for (size_t i = 0; i < measures->ranks; i++) {
		if (measures->rank[i].class < classes)
			state->start[measures->rank[i].class + 1]++;
	}
	for (size_t c = 0; c < classes; c++)
		state->start[c + 1] += state->start[c];
	for (uint32_t i = 0; i < measures->ranks; i++) {
		if (measures->rank[i].class < classes)
			state->member[state->start[measures->rank[i].class]++] = i;
	}
	/* Each start is the next one's now. */
	memmove(state->start + 1, state->start, classes * sizeof(*state->start));
	state->start[0] = 0;
	return classes;
}

static void measure_class(struct imbalance *state, const struct measures *measures, size_t c)
{
	size_t n = state->start[c + 1] - state->start[c];

	for (size_t i = 0; i < n; i++)
		state->value[i] = (double)measures->rank[state->member[state->start[c] + i]].self_ns;
	state->median[c] = robust_median(state->value, n);
	state->low[c] = n ? robust_kth(state->value, n, n / 4) : 0;
}

static uint64_t imbalance_begin_of(const struct frame *frame, uint32_t rank)
{
	return frame->rank[rank].end_ns > frame->rank[rank].step_ns
		       ? frame->rank[rank].end_ns - frame->rank[rank].step_ns
		       : 0;
}

/* Median of the other classes' medians; 0: there is none. */
static double others_of(struct imbalance *state, size_t classes, size_t c)
{
	size_t n = 0;

	for (size_t i = 0; i < classes; i++) {
		if (i != c && state->median[i] > 0)
			state->value[n++] = state->median[i];
	}
	return robust_median(state->value, n);
}

/* Notes of each class whether it is the slow one; the worst that has been for long, FRAME_NONE. The median of all
 * classes stands for that of the others: they differ by one class, and only where there are two is that much. */
static uint32_t worst_class(struct imbalance *state, const struct frame *frame, size_t classes, double *ret_ratio)
{
	uint32_t worst = FRAME_NONE;
	double all = others_of(state, classes, classes);

	*ret_ratio = 1;
	for (uint32_t c = 0; c < classes; c++) {
		struct class_state *class = &state->class[c];
		double others = classes <= 8 ? others_of(state, classes, c) : all;
		bool slow =
			others > 0 && state->median[c] > STAGE_RATIO * others && state->low[c] > STAGE_RATIO * others;

		if (slow && !class->slow) {
			class->since_step = frame->step;
			class->since_ns = imbalance_begin_of(frame, state->member[state->start[c]]);
		}
		class->slow = class->slow << 1 | slow;
		if ((unsigned int)__builtin_popcount(class->slow & ((1U << STAGE_OF) - 1)) >= STAGE_FRAMES && slow &&
			state->median[c] / others > *ret_ratio) {
			*ret_ratio = state->median[c] / others;
			worst = c;
		}
	}
	return worst;
}

/* Is the excess in what operations take once all are there? Then it is the network's. */
static bool of_transfers(
	struct imbalance *state, const struct frame *frame, const struct measures *measures, uint32_t c, double ratio)
{
	double excess = state->median[c] * (1 - 1 / ratio), own, others;
	size_t n = 0, m = 0;

	memset(state->transfer, 0, frame->ranks * sizeof(*state->transfer));
	for (size_t i = 0; i < frame->ops; i++) {
		uint64_t transfer_ns = measures->group[frame->op[i].group].transfer_ns;

		if (transfer_ns != FRAME_UNKNOWN)
			state->transfer[frame->op[i].rank] += (double)transfer_ns;
	}
	for (size_t i = 0; i < measures->ranks; i++) {
		if (measures->rank[i].class == c)
			state->value[n++] = state->transfer[i];
	}
	own = robust_median(state->value, n);
	for (size_t i = 0; i < measures->ranks; i++) {
		if (measures->rank[i].class != c && measures->rank[i].class != FRAME_NONE)
			state->value[m++] = state->transfer[i];
	}
	others = robust_median(state->value, m);
	return own - others > OF_TRANSFERS * excess;
}

static double stage_gain(struct imbalance *state, const struct frame *frame, const struct measures *measures,
	struct measure *measure, uint32_t c, double ratio)
{
	const uint32_t *member = state->member + state->start[c];
	size_t n = state->start[c + 1] - state->start[c];
	uint64_t as_is = 0, whatif;

	if (state->gain_class == c && state->frames < state->next_check)
		return state->gain;
	for (size_t i = 0; i < n; i++)
		state->excess[i] = (uint64_t)((double)measures->rank[member[i]].self_ns * (1 - 1 / ratio));
	whatif = measure_whatif(measure, frame, member, state->excess, n, &as_is);
	state->gain = whatif && whatif < as_is ? 1 - (double)whatif / (double)as_is : 0;
	if (of_transfers(state, frame, measures, c, ratio))
		state->gain = 0;
	state->gain_class = c;
	state->next_check = state->frames + (frame->ops > 4096 ? STAGE_GAIN_EVERY : 1);
	return state->gain;
}

static void imbalance_fill(struct verdict *verdict, const struct frame *frame, const struct measures *measures, double gain)
{
	struct finding *finding = &verdict->finding;

	gain = fmin(gain, 0.99);
	verdict->confirmed = true;
	verdict->lost_ns = gain * (double)measures->step_ns;
	finding->kind = FINDING_IMBALANCE;
	finding->severity = SEVERITY_INFO;
	finding->rank = -1;
	finding->tier = frame->tier;
	finding->confidence = frame->tier == FRAME_TIER_STAGES ? 0.5 : 0.8;
	finding->slowdown = 1 / (1 - gain);
}

static void judge_stages(struct imbalance *state, const struct frame *frame, const struct measures *measures,
	struct measure *measure, size_t classes, const struct detector_out *out)
{
	struct verdict verdict = {.confirmed = true};
	int32_t rank[OTHERS_MAX];
	double ratio, gain;
	uint32_t c = worst_class(state, frame, classes, &ratio);
	size_t n = 0;

	if (c == FRAME_NONE)
		return;
	gain = stage_gain(state, frame, measures, measure, c, ratio);
	if (gain < state->options.gain_min / 2)
		return;
	imbalance_fill(&verdict, frame, measures, gain);
	verdict.finding.cause = CAUSE_STAGE;
	verdict.finding.since_step = state->class[c].since_step;
	verdict.finding.since_ns = state->class[c].since_ns;
	for (uint32_t i = state->start[c]; i < state->start[c + 1] && n < OTHERS_MAX; i++)
		rank[n++] = frame->who[state->member[i]].rank;
	finding_ranks(rank, n, verdict.finding.others, sizeof(verdict.finding.others));
	finding_add(&verdict.finding, "self_time", "ns", state->median[c], state->median[c] / ratio, NULL);
	out->emit(out->arg, &verdict);
}

static void judge_sequences(struct imbalance *state, const struct frame *frame, const struct measures *measures,
	size_t classes, const struct detector_out *out)
{
	struct sequence_classes by_class = {classes, state->member, state->start, state->value};
	struct sequence *sequence = &state->sequence;
	struct verdict verdict = {.confirmed = true};
	bool differs = sequence_frame(sequence, &by_class, frame, measures, state->options.gain_min);

	if (!differs)
		return;
	imbalance_fill(&verdict, frame, measures, sequence->over);
	verdict.finding.cause = CAUSE_SEQUENCE;
	verdict.finding.since_step = sequence->since_step;
	verdict.finding.since_ns = sequence->since_ns;
	finding_add(&verdict.finding, "spread", "1", sequence->spread, NAN,
		frame->tier == FRAME_TIER_STAGES ? "forward" : "self time within classes");
	out->emit(out->arg, &verdict);
}

static void imbalance_frame(void *arg, const struct frame *frame, const struct measures *measures,
	struct measure *measure, const struct detector_out *out)
{
	struct imbalance *state = arg;
	size_t classes;

	if (frame->class != FRAME_TRAIN || !measures->ranks || !imbalance_reserve(state, measures->ranks))
		return;
	state->frames++;
	classes = sort_ranks(state, measures);
	for (size_t c = 0; classes > 1 && c < classes; c++)
		measure_class(state, measures, c);
	if (classes > 1)
		judge_stages(state, frame, measures, measure, classes, out);
	judge_sequences(state, frame, measures, classes, out);
}

const struct detector imbalance_detector = {
	.name = "imbalance",
	.new = imbalance_new,
	.free = imbalance_free,
	.frame = imbalance_frame,
};
