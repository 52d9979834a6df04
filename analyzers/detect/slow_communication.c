/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations that take longer than they did, and than their peers, once all members have entered: a link, a node's
 * network, or a communicator. Which series are slow is said below.
 *
 * Whose fault it is. With score(n) = records of node n in slow series / its records in series that cross nodes, those
 * that all ranks take part in left out: the link of two nodes, where no rank beside them has any; a node that has
 * nearly all of its own in slow ones, where no other has; else the communicator.
 *
 * What it costs: the excess of operations that nothing of the same rank overlaps; of those that may be an asynchronous
 * run (gradients) only the longest, as the others hide behind computing. The median of the ranks that lose at least
 * CONCERNED of what the one that loses most does: the others wait for them, and what all take part in (a loss that is
 * summed over all ranks) concerns all ranks a little. A step that loses less than half of gain_min is not reported.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/columns.h"
#include "analyzers/base/robust.h"
#include "analyzers/detect/detector.h"

#define SCORE_NODE 0.75 /* of its own records: "nearly all" above */
#define SCORE_APART 0.7 /* the next node's score is less than that share of the best one's */
#define CONCERNED 0.5	/* of the largest loss of a rank: less is what all take part in */
#define SLACK_NS 2000	/* a shorter overlap of operations is taken for rounding of their times */
#define OTHERS_MAX 1024

/*
 * How long operations take once all members are there: a series a (communicator or pair, operation, power of two of the
 * bytes). Pure; bounded.
 *
 * The value of a frame is the shortest transfer of the series' groups in it: those whose last member has no record, and
 * those that queued behind others, seem longer. Peers of a series are those of equal kind and size of communicator,
 * operation and bytes, that cross nodes as it does. A series is slow in a frame where its value is LINK_RATIO times its
 * own baseline (median of its first LINK_LEARN frames, then slowly after what is not slow) and LINK_RATIO times the
 * median of its peers, with z > slow_z of either; of a series that was slow beside its peers while it learned, or still
 * learns, the peers alone decide; where there are less than LINK_PEERS others, the baseline alone. Groups whose last
 * member is slow itself are left out: what holds it up holds up its transfers. Where operations are timed on the host,
 * what else runs there comes and goes within seconds and holds up transfers too: a frame a LINK_LEARN_EVERY_NS is
 * learnt, and a series is slow only if it is so in LINK_HOST_FRAMES of LINK_HOST_OF frames.
 *
 * In frames of more than LINK_GROUPS groups only a part of the communicators is checked, in turns.
 */
#define LINK_RATIO 1.1
#define LINK_LEARN 16
#define LINK_MEMORY 64 /* frames after which a baseline has followed */
#define LINK_LEARN_EVERY_NS (600 * 1000 * 1000ULL)
#define LINK_HOST_FRAMES 10
#define LINK_HOST_OF 12
#define LINK_PEERS 3
#define LINK_GROUPS 16384
#define LINK_SERIES 16384 /* more are left out */
#define LINK_SLOTS (4 * LINK_SERIES)

struct link_series {
	uint64_t key, peer;
	double value_ns, baseline_ns, reference_ns; /* reference: what it is slow against */
	double noise;				    /* mean |value / baseline - 1| */
	float learned[LINK_LEARN];
	uint32_t checks, comm; /* checks: values learnt; comm: in the newest frame */
	uint64_t learnt_ns;    /* when the newest of them was */
	uint32_t slow;	       /* frames with it, newest in bit 0 */
	uint64_t frame, since_step, since_ns;
	bool spans, slow_learned, is_slow, tainted;
};

/* What a communicator's newest collective was, as mostly the next one is. */
struct link_newest {
	uint64_t key;
	uint32_t series; /* + 1, 0: none yet in this frame */
	bool turn;	 /* it is checked in this frame */
};

struct links {
	struct link_series *series;
	uint32_t *slot; /* LINK_SLOTS of them: index + 1 */
	size_t n;
	uint64_t frames;
	double z;
	unsigned int of, frames_min;
	uint32_t *touched;
	size_t n_touched, n_slow; /* n_slow: series that are slow now */
	uint64_t *comm_hash;
	struct link_newest *newest; /* by communicator */
	size_t comm_capacity;
	uint32_t *of_group; /* series + 1 of each group that was checked, 0 none */
	size_t group_capacity;
	double *scratch;
};

#define NOISE_LEAST 0.02

/* false: out of memory. */
static bool links_init(struct links *links, const struct detect_options *options)
{
	*links = (struct links){.z = options->slow_z};
	links->of = options->slow_of < 1 ? 1 : options->slow_of > 16 ? 16 : options->slow_of;
	links->frames_min = options->slow_frames < links->of ? options->slow_frames : links->of;
	links->series = calloc(LINK_SERIES, sizeof(*links->series));
	links->slot = calloc(LINK_SLOTS, sizeof(*links->slot));
	links->touched = calloc(LINK_SERIES, sizeof(*links->touched));
	links->scratch = calloc(LINK_SERIES, sizeof(*links->scratch));
	return links->series && links->slot && links->touched && links->scratch;
}

static void links_free(struct links *links)
{
	free(links->series);
	free(links->slot);
	free(links->touched);
	free(links->scratch);
	free(links->comm_hash);
	free(links->newest);
	free(links->of_group);
	*links = (struct links){0};
}

static uint64_t slow_communication_mix(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * 0x9e3779b97f4a7c15ULL;
	return hash ^ hash >> 29;
}

static int links_reserve(struct links *links, const struct frame *frame)
{
	if (frame->comms > links->comm_capacity || !links->comm_hash) {
		free(links->comm_hash);
		free(links->newest);
		links->comm_hash = calloc(frame->comms + 1, sizeof(*links->comm_hash));
		links->newest = calloc(frame->comms + 1, sizeof(*links->newest));
		links->comm_capacity = links->comm_hash && links->newest ? frame->comms : 0;
	}
	if (frame->groups > links->group_capacity || !links->of_group) {
		free(links->of_group);
		links->of_group = calloc(frame->groups + 1, sizeof(*links->of_group));
		links->group_capacity = links->of_group ? frame->groups : 0;
	}
	return links->comm_hash && links->newest && links->of_group ? 0 : -ENOMEM;
}

static void hash_comms(struct links *links, const struct frame *frame)
{
	uint64_t turns = frame->groups / LINK_GROUPS + 1;

	for (size_t c = 0; c < frame->comms; c++) {
		uint64_t hash = 1;

		for (size_t i = 0; i < sizeof(frame->comm[c].communicator) && frame->comm[c].communicator[i]; i++)
			hash = slow_communication_mix(hash, (unsigned char)frame->comm[c].communicator[i]);
		links->comm_hash[c] = hash;
		links->newest[c].series = 0;
		links->newest[c].turn = turns == 1 || hash % turns == links->frames % turns;
	}
}

/* NULL: there are too many. */
static struct link_series *links_find(struct links *links, uint64_t key)
{
	for (uint64_t i = key >> 32;; i++) {
		uint32_t *slot = &links->slot[i % LINK_SLOTS];

		if (*slot && links->series[*slot - 1].key == key)
			return &links->series[*slot - 1];
		if (*slot)
			continue;
		if (links->n == LINK_SERIES)
			return NULL;
		*slot = (uint32_t)++links->n;
		links->series[*slot - 1] = (struct link_series){.key = key};
		return &links->series[*slot - 1];
	}
}

static struct link_series *find_of(struct links *links, const struct frame_group *group, uint64_t key)
{
	struct link_newest *newest = &links->newest[group->comm];
	struct link_series *series;

	if (newest->series && newest->key == key)
		return &links->series[newest->series - 1];
	series = links_find(links, key);
	if (series) {
		newest->key = key;
		newest->series = (uint32_t)(series - links->series) + 1;
	}
	return series;
}

static bool slow_communication_crosses(const struct frame *frame, const struct measure_group *measured)
{
	return frame->who[measured->last].node != frame->who[measured->before].node;
}

static void add_group(
	struct links *links, const struct frame *frame, const struct measures *measures, size_t i, bool slow)
{
	const struct frame_group *group = &frame->group[i];
	const struct measure_group *measured = &measures->group[i];
	uint64_t what = ((uint64_t)group->op << 8 | (group->bytes ? 64 - (uint64_t)__builtin_clzll(group->bytes) : 0))
				<< 1 |
			group->p2p;
	uint64_t key = slow_communication_mix(links->comm_hash[group->comm], what);
	struct link_series *series;

	if (group->p2p) {
		uint32_t a = measured->last, b = measured->before;

		key = slow_communication_mix(key, (uint64_t)(a < b ? a : b) << 32 | (a < b ? b : a));
	}
	series = find_of(links, group, key);
	if (!series)
		return;
	if (series->frame != links->frames) {
		series->frame = links->frames;
		series->value_ns = (double)measured->transfer_ns;
		series->tainted = false;
		links->touched[links->n_touched++] = (uint32_t)(series - links->series);
	}
	if ((double)measured->transfer_ns < series->value_ns)
		series->value_ns = (double)measured->transfer_ns;
	series->tainted |= slow;
	series->comm = group->comm;
	series->spans = series->spans || slow_communication_crosses(frame, measured);
	series->peer = slow_communication_mix(
		slow_communication_mix(what, (uint64_t)frame->comm[group->comm].kind << 32 | group->members),
		series->spans);
	links->of_group[i] = (uint32_t)(series - links->series) + 1;
}

static void add_groups(
	struct links *links, const struct frame *frame, const struct measures *measures, double slow_ratio)
{
	memset(links->of_group, 0, frame->groups * sizeof(*links->of_group));
	for (size_t i = 0; i < frame->groups; i++) {
		const struct measure_group *measured = &measures->group[i];
		const struct measure_rank *last;

		if (measured->transfer_ns == FRAME_UNKNOWN || !links->newest[frame->group[i].comm].turn)
			continue;
		last = &measures->rank[measured->last];
		add_group(links, frame, measures, i, last->ratio > slow_ratio && last->z > links->z);
	}
}

static int by_like(const struct link_series *a, const struct link_series *b)
{
	return (a->peer > b->peer) - (a->peer < b->peer);
}

static int compare_touched(const void *a, const void *b, void *arg)
{
	const struct link_series *series = arg;

	return by_like(&series[*(const uint32_t *)a], &series[*(const uint32_t *)b]);
}

static void links_learn(struct link_series *series, enum frame_tier tier, uint64_t now_ns, bool slow)
{
	double away;

	if (series->checks < LINK_LEARN) {
		if (tier == FRAME_TIER_HOST && series->checks && now_ns - series->learnt_ns < LINK_LEARN_EVERY_NS)
			return;
		series->learnt_ns = now_ns;
		series->learned[series->checks] = (float)series->value_ns;
		if (series->checks + 1 == LINK_LEARN) {
			double value[LINK_LEARN];

			for (size_t i = 0; i < LINK_LEARN; i++)
				value[i] = (double)series->learned[i];
			series->baseline_ns = robust_median(value, LINK_LEARN);
			if (series->baseline_ns > 0)
				series->noise =
					robust_spread(value, LINK_LEARN, series->baseline_ns) / series->baseline_ns;
			series->slow_learned = __builtin_popcount(series->slow) > LINK_LEARN / 2;
		}
	} else if (!slow && series->baseline_ns > 0) {
		away = series->value_ns / series->baseline_ns - 1;
		series->baseline_ns *= 1 + fmax(fmin(away, 0.1), -0.1) / LINK_MEMORY;
		series->noise += (1.25 * fabs(away) - series->noise) / LINK_MEMORY;
	}
	series->checks++;
}

/* Of the step, by the clock of the first rank that has one. */
static uint64_t links_begin_of(const struct frame *frame)
{
	for (size_t i = 0; i < frame->ranks; i++) {
		const struct frame_rank *rank = &frame->rank[i];

		if (rank->here && rank->end_ns >= rank->step_ns)
			return rank->end_ns - rank->step_ns;
	}
	return 0;
}

/* median 0: too few peers. */
static void links_judge(
	struct links *links, const struct frame *frame, struct link_series *series, double median, double spread)
{
	bool learned = series->checks >= LINK_LEARN, past = false, beyond_peers = false, slow;
	bool host = frame->tier == FRAME_TIER_HOST;
	unsigned int of = host && links->of < LINK_HOST_OF ? LINK_HOST_OF : links->of;
	unsigned int least = host && links->frames_min < LINK_HOST_FRAMES ? LINK_HOST_FRAMES : links->frames_min;
	double value = series->value_ns;

	if (learned && series->baseline_ns > 0)
		past = value > LINK_RATIO * series->baseline_ns &&
		       value / series->baseline_ns - 1 > links->z * fmax(series->noise, NOISE_LEAST);
	if (median > 0)
		beyond_peers =
			value > LINK_RATIO * median && value - median > links->z * fmax(spread, NOISE_LEAST * median);
	slow = median > 0 ? beyond_peers && (past || !learned || series->slow_learned) : past;
	series->reference_ns = past && !series->slow_learned ? series->baseline_ns : median > 0 ? median : value;
	if (slow && !(series->slow & 0xff)) {
		series->since_step = frame->step;
		series->since_ns = links_begin_of(frame);
	}
	series->slow = series->slow << 1 | slow;
	links_learn(series, frame->tier, links_begin_of(frame), slow);
	series->is_slow = (unsigned int)__builtin_popcount(series->slow & ((1U << of) - 1)) >= least;
	links->n_slow += series->is_slow;
}

static void judge_peers(struct links *links, const struct frame *frame, const uint32_t *touched, size_t n)
{
	double *value = links->scratch, median = 0, spread = 0;

	if (n > LINK_PEERS) {
		for (size_t i = 0; i < n; i++)
			value[i] = links->series[touched[i]].value_ns;
		median = robust_median(value, n);
		spread = robust_spread(value, n, median);
	}
	for (size_t i = 0; i < n; i++)
		links_judge(links, frame, &links->series[touched[i]], median, spread);
}

/* No evidence: what is checked must not be the frames alone in which the slow rank has no record. */
static void leave_tainted(struct links *links)
{
	size_t left = 0;

	for (size_t i = 0; i < links->n_touched; i++) {
		struct link_series *series = &links->series[links->touched[i]];

		if (!series->tainted) {
			links->touched[left++] = links->touched[i];
			continue;
		}
		series->slow <<= 1;
		series->is_slow = false;
	}
	links->n_touched = left;
}

/* -ENOMEM. */
static int links_frame(
	struct links *links, const struct frame *frame, const struct measures *measures, double slow_ratio)
{
	int r = links_reserve(links, frame);

	if (r < 0)
		return r;
	links->frames++;
	links->n_touched = links->n_slow = 0;
	hash_comms(links, frame);
	add_groups(links, frame, measures, slow_ratio);
	leave_tainted(links);
	qsort_r(links->touched, links->n_touched, sizeof(*links->touched), compare_touched, links->series);
	for (size_t from = 0, to; from < links->n_touched; from = to) {
		for (to = from + 1; to < links->n_touched &&
				    !by_like(&links->series[links->touched[from]], &links->series[links->touched[to]]);)
			to++;
		judge_peers(links, frame, links->touched + from, to - from);
	}
	return 0;
}

struct endpoint {
	uint32_t slow, all;
	uint32_t rank; /* one of it */
};

struct slow_communication {
	struct detect_options options;
	struct links links;
	struct endpoint *endpoint; /* by node, or by rank */
	int64_t *next_start;
	double *lost, *run, *delay, *scratch;
	struct columns columns; /* by rank */
};

static void *slow_communication_free(void *arg)
{
	struct slow_communication *state = arg;

	if (!state)
		return NULL;
	links_free(&state->links);
	columns_free(&state->columns);
	free(state);
	return NULL;
}

static void *slow_communication_new(const struct detect_options *options)
{
	struct slow_communication *state = calloc(1, sizeof(*state));

	if (!state)
		return NULL;
	state->options = *options;
	state->columns = COLUMNS_OF(COLUMN_OF(state->endpoint), COLUMN_OF(state->next_start), COLUMN_OF(state->lost),
		COLUMN_OF(state->run), COLUMN_OF(state->delay), COLUMN_OF(state->scratch));
	return links_init(&state->links, options) ? state : slow_communication_free(state);
}

static const struct link_series *slow_series(const struct slow_communication *state, uint32_t group)
{
	uint32_t of = state->links.of_group[group];

	return of && state->links.series[of - 1].is_slow ? &state->links.series[of - 1] : NULL;
}

/* For how long the rank had no CPU. Where the host does what a device would, others' load holds up a transfer for so
 * long, equally on all links: no link is at fault. */
static double delay_of(const struct frame *frame, const struct frame_rank *rank)
{
	return frame->tier == FRAME_TIER_HOST && rank->host.run_delay_ns != FRAME_UNKNOWN
		       ? (double)rank->host.run_delay_ns
		       : 0;
}

/* Of the step, in ns. */
static double slow_communication_cost(struct slow_communication *state, const struct frame *frame)
{
	double most = 0;
	size_t n = 0;

	for (size_t i = 0; i < frame->ranks; i++) {
		state->next_start[i] = INT64_MAX;
		state->lost[i] = state->run[i] = 0;
		state->delay[i] = delay_of(frame, &frame->rank[i]);
	}
	for (size_t i = frame->ops; i-- > 0;) {
		const struct frame_op *op = &frame->op[i];
		const struct frame_group *group = &frame->group[op->group];
		const struct link_series *series = slow_series(state, op->group);
		int64_t next = state->next_start[op->rank];
		double excess;

		state->next_start[op->rank] = op->start_ns;
		if (!series || op->duration_ns > INT64_MAX / 4 || op->start_ns > INT64_MAX / 4 ||
			op->start_ns < INT64_MIN / 4 || op->start_ns + (int64_t)op->duration_ns - SLACK_NS > next)
			continue;
		excess = fmin(series->value_ns - series->reference_ns, (double)op->duration_ns);
		if (excess <= state->delay[op->rank])
			continue;
		if (!group->p2p && (frame->comm[group->comm].kind == COMM_KIND_DATA ||
					   frame->comm[group->comm].kind == COMM_KIND_UNCLEAR))
			state->run[op->rank] = fmax(state->run[op->rank], excess);
		else
			state->lost[op->rank] += excess;
	}
	for (size_t i = 0; i < frame->ranks; i++) {
		state->lost[i] = fmin(state->lost[i] + state->run[i], (double)frame->rank[i].step_ns);
		most = fmax(most, state->lost[i]);
	}
	for (size_t i = 0; i < frame->ranks; i++) {
		if (state->lost[i] > 0 && state->lost[i] >= CONCERNED * most)
			state->scratch[n++] = state->lost[i];
	}
	return robust_median(state->scratch, n);
}

/* Slow and all records by node; false: no series that crosses nodes is slow, or nodes are not known. */
static bool by_node(struct slow_communication *state, const struct frame *frame)
{
	bool any = false;

	memset(state->endpoint, 0, frame->ranks * sizeof(*state->endpoint));
	for (size_t i = 0; i < frame->ops; i++) {
		const struct frame_op *op = &frame->op[i];
		uint32_t of = state->links.of_group[op->group], node = frame->who[op->rank].node;

		if (!of || !state->links.series[of - 1].spans || node >= frame->ranks ||
			frame->group[op->group].members >= frame->ranks)
			continue;
		state->endpoint[node].all++;
		state->endpoint[node].rank = op->rank;
		if (slow_series(state, op->group)) {
			state->endpoint[node].slow++;
			any = true;
		}
	}
	return any;
}

static double slow_communication_score(const struct endpoint *endpoint)
{
	return endpoint->all ? (double)endpoint->slow / endpoint->all : 0;
}

/* The node's index, FRAME_NONE; *ret_pair: the only two nodes concerned. */
static uint32_t find_node(const struct slow_communication *state, size_t ranks, uint32_t ret_pair[2])
{
	uint32_t best = 0, touched = 0, nodes = 0;
	double next = 0;

	ret_pair[0] = ret_pair[1] = FRAME_NONE;
	for (uint32_t i = 1; i < ranks; i++) {
		if (slow_communication_score(&state->endpoint[i]) > slow_communication_score(&state->endpoint[best]))
			best = i;
	}
	for (uint32_t i = 0; i < ranks; i++) {
		nodes += state->endpoint[i].all > 0;
		if (i != best)
			next = fmax(next, slow_communication_score(&state->endpoint[i]));
		if (!state->endpoint[i].slow)
			continue;
		if (touched < 2)
			ret_pair[touched] = i;
		touched++;
	}
	if (touched != 2)
		ret_pair[0] = ret_pair[1] = FRAME_NONE;
	if (nodes > 2 && slow_communication_score(&state->endpoint[best]) >= SCORE_NODE &&
		next < SCORE_APART * slow_communication_score(&state->endpoint[best]))
		return best;
	return FRAME_NONE;
}

static void slow_communication_name_ranks(
	struct finding *finding, const struct frame *frame, uint32_t node, uint32_t other)
{
	int32_t rank[OTHERS_MAX];
	size_t n = 0;

	for (size_t i = 0; i < frame->ranks && n < OTHERS_MAX; i++) {
		if (frame->who[i].node == node || frame->who[i].node == other)
			rank[n++] = frame->who[i].rank;
	}
	finding_ranks(rank, n, finding->others, sizeof(finding->others));
}

static const struct link_series *worst_series(const struct slow_communication *state)
{
	const struct link_series *worst = NULL;

	for (size_t i = 0; i < state->links.n_touched; i++) {
		const struct link_series *series = &state->links.series[state->links.touched[i]];

		if (series->is_slow &&
			(!worst || series->value_ns * worst->reference_ns > worst->value_ns * series->reference_ns))
			worst = series;
	}
	return worst;
}

static void slow_communication_blame(struct slow_communication *state, const struct frame *frame,
	const struct link_series *worst, struct finding *finding)
{
	uint32_t pair[2], node = FRAME_NONE;

	finding->cause = CAUSE_COMMUNICATION;
	if (by_node(state, frame)) {
		node = find_node(state, frame->ranks, pair);
		if (pair[0] != FRAME_NONE) {
			finding->cause = CAUSE_LINK;
			slow_communication_name_ranks(finding, frame, pair[0], pair[1]);
			return;
		}
		if (node != FRAME_NONE) {
			finding->cause = CAUSE_NODE;
			snprintf(finding->host, sizeof(finding->host), "%.63s",
				frame->who[state->endpoint[node].rank].host);
			slow_communication_name_ranks(finding, frame, node, node);
			return;
		}
	}
	snprintf(finding->communicator, sizeof(finding->communicator), "%.19s", frame->comm[worst->comm].communicator);
}

static void slow_communication_frame(
	void *arg, const struct frame *frame, const struct measures *measures, const struct detector_out *out)
{
	struct slow_communication *state = arg;
	struct verdict verdict = {0};
	const struct link_series *worst;
	double gain;

	if (frame->class != FRAME_TRAIN || frame->tier == FRAME_TIER_STAGES || !frame->ops ||
		!columns_renew(&state->columns, frame->ranks) ||
		links_frame(&state->links, frame, measures, state->options.slow_ratio) < 0 || !state->links.n_slow)
		return;
	worst = worst_series(state);
	if (!worst || !(worst->reference_ns > 0))
		return;
	verdict.lost_ns = slow_communication_cost(state, frame);
	gain = measures->step_ns ? fmin(verdict.lost_ns / (double)measures->step_ns, 0.99) : 0;
	if (gain < state->options.gain_min / 2)
		return;
	verdict.finding.kind = FINDING_SLOW_COMMUNICATION;
	verdict.finding.rank = -1;
	verdict.finding.tier = frame->tier;
	verdict.finding.since_step = worst->since_step;
	verdict.finding.since_ns = worst->since_ns;
	verdict.finding.confidence = frame->tier == FRAME_TIER_DEVICE ? 0.9 : 0.8;
	slow_communication_blame(state, frame, worst, &verdict.finding);
	finding_add(&verdict.finding, "transfer", "ns", worst->value_ns, worst->reference_ns,
		worst->reference_ns < worst->baseline_ns || worst->reference_ns > worst->baseline_ns
			? "others of its kind"
			: "");
	out->emit(out->arg, &verdict);
}

const struct detector slow_communication_detector = {
	.name = "slow_communication",
	.new = slow_communication_new,
	.free = slow_communication_free,
	.frame = slow_communication_frame,
};
