/* SPDX-License-Identifier: Apache-2.0 */
/*
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
#include "analyzers/detect/links.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/robust.h"

#define LINK_RATIO 1.1
#define LINK_MEMORY 64 /* frames after which a baseline has followed */
#define LINK_LEARN_EVERY_NS (600 * 1000 * 1000ULL)
#define LINK_HOST_FRAMES 10
#define LINK_HOST_OF 12
#define LINK_PEERS 3
#define LINK_GROUPS 16384
#define LINK_SERIES 16384 /* more are left out */
#define LINK_SLOTS (4 * LINK_SERIES)
#define NOISE_LEAST 0.02

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
	double z, slow_ratio; /* a last member slower than this leaves its group out */
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

struct links *links_new(const struct detect_options *options)
{
	struct links *links = calloc(1, sizeof(*links));

	if (!links)
		return NULL;
	links->z = options->slow_z;
	links->slow_ratio = options->slow_ratio;
	links->of = options->slow_of < 1 ? 1 : options->slow_of > 16 ? 16 : options->slow_of;
	links->frames_min = options->slow_frames < links->of ? options->slow_frames : links->of;
	links->series = calloc(LINK_SERIES, sizeof(*links->series));
	links->slot = calloc(LINK_SLOTS, sizeof(*links->slot));
	links->touched = calloc(LINK_SERIES, sizeof(*links->touched));
	links->scratch = calloc(LINK_SERIES, sizeof(*links->scratch));
	return links->series && links->slot && links->touched && links->scratch ? links : links_free(links);
}

struct links *links_free(struct links *links)
{
	if (!links)
		return NULL;
	free(links->series);
	free(links->slot);
	free(links->touched);
	free(links->scratch);
	free(links->comm_hash);
	free(links->newest);
	free(links->of_group);
	free(links);
	return NULL;
}

static uint64_t links_mix(uint64_t hash, uint64_t value)
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

static void links_hash_comms(struct links *links, const struct frame *frame)
{
	uint64_t turns = frame->groups / LINK_GROUPS + 1;

	for (size_t c = 0; c < frame->comms; c++) {
		uint64_t hash = 1;

		for (size_t i = 0; i < sizeof(frame->comm[c].communicator) && frame->comm[c].communicator[i]; i++)
			hash = links_mix(hash, (unsigned char)frame->comm[c].communicator[i]);
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

static struct link_series *links_find_newest(struct links *links, const struct frame_group *group, uint64_t key)
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

static bool links_crosses(const struct frame *frame, const struct measure_group *measured)
{
	return frame->who[measured->last].node != frame->who[measured->before].node;
}

static void links_add_group(
	struct links *links, const struct frame *frame, const struct measures *measures, size_t i, bool slow)
{
	const struct frame_group *group = &frame->group[i];
	const struct measure_group *measured = &measures->group[i];
	uint64_t what = ((uint64_t)group->op << 8 | (group->bytes ? 64 - (uint64_t)__builtin_clzll(group->bytes) : 0))
				<< 1 |
			group->p2p;
	uint64_t key = links_mix(links->comm_hash[group->comm], what);
	struct link_series *series;

	if (group->p2p) {
		uint32_t a = measured->last, b = measured->before;

		key = links_mix(key, (uint64_t)(a < b ? a : b) << 32 | (a < b ? b : a));
	}
	series = links_find_newest(links, group, key);
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
	series->spans = series->spans || links_crosses(frame, measured);
	series->peer = links_mix(
		links_mix(what, (uint64_t)frame->comm[group->comm].kind << 32 | group->members), series->spans);
	links->of_group[i] = (uint32_t)(series - links->series) + 1;
}

static void links_add_groups(struct links *links, const struct frame *frame, const struct measures *measures)
{
	memset(links->of_group, 0, frame->groups * sizeof(*links->of_group));
	for (size_t i = 0; i < frame->groups; i++) {
		const struct measure_group *measured = &measures->group[i];
		const struct measure_rank *last;

		if (measured->transfer_ns == FRAME_UNKNOWN || !links->newest[frame->group[i].comm].turn)
			continue;
		last = &measures->rank[measured->last];
		links_add_group(links, frame, measures, i, last->ratio > links->slow_ratio && last->z > links->z);
	}
}

static int links_by_peer(const struct link_series *a, const struct link_series *b)
{
	return (a->peer > b->peer) - (a->peer < b->peer);
}

static int links_compare_touched(const void *a, const void *b, void *arg)
{
	const struct link_series *series = arg;

	return links_by_peer(&series[*(const uint32_t *)a], &series[*(const uint32_t *)b]);
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

static void links_judge_peers(struct links *links, const struct frame *frame, const uint32_t *touched, size_t n)
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
static void links_leave_tainted(struct links *links)
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

int links_frame(struct links *links, const struct frame *frame, const struct measures *measures)
{
	int r = links_reserve(links, frame);

	if (r < 0)
		return r;
	links->frames++;
	links->n_touched = links->n_slow = 0;
	links_hash_comms(links, frame);
	links_add_groups(links, frame, measures);
	links_leave_tainted(links);
	qsort_r(links->touched, links->n_touched, sizeof(*links->touched), links_compare_touched, links->series);
	for (size_t from = 0, to; from < links->n_touched; from = to) {
		for (to = from + 1; to < links->n_touched && !links_by_peer(&links->series[links->touched[from]],
								     &links->series[links->touched[to]]);)
			to++;
		links_judge_peers(links, frame, links->touched + from, to - from);
	}
	return 0;
}

const struct link_series *links_of_group(const struct links *links, uint32_t group)
{
	uint32_t of = links->of_group[group];

	return of ? &links->series[of - 1] : NULL;
}

const struct link_series *links_worst(const struct links *links)
{
	const struct link_series *worst = NULL;

	for (size_t i = 0; links->n_slow && i < links->n_touched; i++) {
		const struct link_series *series = &links->series[links->touched[i]];

		if (series->is_slow &&
			(!worst || series->value_ns * worst->reference_ns > worst->value_ns * series->reference_ns))
			worst = series;
	}
	return worst;
}
