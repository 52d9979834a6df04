/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See cause.h. What is kept: the last CAUSE_FRAMES frames of every rank, a series a class of frames (training steps are
 * not compared with those that hold a checkpoint), and, of ranks that no rank can be compared with and of the job as a
 * whole, means of blocks of frames as their past. The class of the newest frame is the one that is asked about.
 *
 * From excesses to a cause: the outer part (data loading, checkpoint, the rest) that has most of the excess, then
 * downwards through the deeper parts that may lie in it (cause.c), as long as one explains its share. Where it
 * ends in the rest of a rank that computes on the CPU, its CPU time says whether it computed: see rest_of().
 */
#include "analyzers/detect/cause.h"
#include "analyzers/base/robust.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * The table behind cause.h. What lies in what: time for which a thread was held back (run delay) lies in whatever
 * stage it was in, and time for which its control group was throttled is counted by the kernel as run delay too, so
 * that throttling is the deeper one. A launch gap is no time that adds up (cause.c).
 *
 * of_rest is below CAUSE_SHARE for what is measured only in part: run delay is that of the step thread, while the
 * threads that compute with it are delayed as well and it then waits for them, asleep or spinning, which nothing here
 * measures. One preemptor on one of a rank's four CPUs delays the step thread for a quarter of what the rank loses.
 * Throttling and faults come from samples of seconds that are spread over steps.
 */

#define STAGE(kind) offsetof(struct frame_rank, stage_ns) + (kind) * sizeof(uint64_t)
#define HOST(field) offsetof(struct frame_rank, host) + offsetof(struct frame_host, field)
#define LOADS (PART_BIT(PART_DATALOADER) | PART_BIT(PART_CHECKPOINT) | PART_BIT(PART_REST))

/* clang-format off */
const struct cause_part_row cause_parts[PART_MAX] = {
	[PART_STEP] = {"step_time", "ns", offsetof(struct frame_rank, step_ns), 1, 1, CAUSE_MAX, false, 0, 0, REDUCE_MAX},
	[PART_DATALOADER] = {"dataloader", "ns", STAGE(STAGE_DATALOADER), 1, 1, CAUSE_DATALOADER, true, 0, 0, REDUCE_MAX},
	[PART_CHECKPOINT] = {"checkpoint", "ns", STAGE(STAGE_CHECKPOINT), 1, 1, CAUSE_CHECKPOINT, true, 0, 0, REDUCE_MAX},
	[PART_GC] = {"gc", "ns", STAGE(STAGE_GC), 1, 1, CAUSE_GARBAGE_COLLECTION, false, LOADS, 0.5, REDUCE_MAX},
	[PART_RUN_DELAY] = {"run_delay", "ns", HOST(run_delay_ns), 1, 1, CAUSE_PREEMPTION, false, LOADS | PART_BIT(PART_GC), 0.25,
		REDUCE_MEAN},
	[PART_THROTTLED] = {"throttled", "ns", HOST(throttled_ns), 1, 1, CAUSE_THROTTLING, false,
		LOADS | PART_BIT(PART_GC) | PART_BIT(PART_RUN_DELAY), 0.25, REDUCE_MEAN},
	[PART_FAULTS] = {"major_faults", "1", HOST(major_faults), CAUSE_FAULT_NS, 4096, CAUSE_FAULTS, false, LOADS | PART_BIT(PART_GC), 0.25,
		REDUCE_MEAN},
	[PART_LAUNCH] = {"launch_gap", "ns", HOST(launch_gap_ns), 1, 1, CAUSE_LAUNCH, false, 0, 0, REDUCE_MEAN},
	[PART_FORWARD] = {"forward", "ns", STAGE(STAGE_FORWARD), 1, 1, CAUSE_MAX, false, 0, 0, REDUCE_MIN},
	[PART_ZERO_GRAD] = {"zero_grad", "ns", STAGE(STAGE_ZERO_GRAD), 1, 1, CAUSE_MAX, false, 0, 0, REDUCE_MIN},
	[PART_BACKWARD] = {"backward", "ns", STAGE(STAGE_BACKWARD), 1, 1, CAUSE_MAX, false, 0, 0, REDUCE_MIN},
	[PART_OPTIMIZER] = {"optimizer", "ns", STAGE(STAGE_OPTIMIZER), 1, 1, CAUSE_MAX, false, 0, 0, REDUCE_MIN},
	[PART_SYNC] = {"sync", "ns", STAGE(STAGE_SYNC), 1, 1, CAUSE_MAX, false, 0, 0, REDUCE_MIN},
	[PART_CPU] = {"cpu_time", "ns", HOST(cpu_ns), 1, 4096, CAUSE_MAX, false, 0, 0, REDUCE_MEAN},
	[PART_PREEMPTOR] = {"preemptor", "ns", HOST(preemptor_ns), 1, 1, CAUSE_MAX, false, 0, 0, REDUCE_MEAN},
	[PART_SELF] = {"self_time", "ns", PART_NO_OFFSET, 1, 1, CAUSE_MAX, false, 0, 0, REDUCE_MIN},
	[PART_TRANSFER] = {"transfer", "ns", PART_NO_OFFSET, 1, 1, CAUSE_COMMUNICATION, true, 0, 0, REDUCE_NONE},
	[PART_REST] = {"compute", "ns", PART_NO_OFFSET, 1, 1, CAUSE_COMPUTE, true, 0, 0, REDUCE_NONE},
};
/* clang-format on */

static_assert(PART_SELF + 3 == PART_MAX, "what is read by its offset comes first");
static_assert(PART_MAX <= 32, "a bit a part");

/* The table is known here: what a row says is no question any more once its turn of the loop is by itself. */
#define CAUSE_UNROLL _Pragma("GCC unroll 32")

/* No more than INT64_MAX, whose conversion is an instruction: this runs for every part of every rank of every step. */
static inline float to_float(uint64_t value)
{
	return (float)(int64_t)(value < INT64_MAX ? value : INT64_MAX);
}

static inline float least(float a, float b)
{
	return a < b ? a : b;
}

void cause_parts_read(const struct frame *frame, const struct measures *measures, size_t rank, float ret[PART_MAX])
{
	const struct frame_rank *from = &frame->rank[rank];
	float step = to_float(from->step_ns);

	CAUSE_UNROLL
	for (enum cause_part part = 0; part < PART_SELF; part++) {
		const struct cause_part_row *row = &cause_parts[part];
		uint64_t value;

		memcpy(&value, (const char *)from + row->offset, sizeof(value));
		ret[part] = value == FRAME_UNKNOWN ? NAN : least(to_float(value) * row->scale, step * row->most);
	}
	for (enum cause_part part = PART_SELF; part < PART_MAX; part++)
		ret[part] = NAN;
	if (measures && rank < measures->ranks && measures->rank[rank].wait_ns != FRAME_UNKNOWN)
		ret[PART_SELF] = least(to_float(measures->rank[rank].self_ns), step);
}

/* Members' transfers add up, and each rank has its share of the sum. */
static float transfer_of(const struct frame *frame, const struct measures *measures, size_t here)
{
	double sum = 0;
	size_t groups = 0;

	if (measures == NULL || here == 0)
		return NAN;
	for (size_t i = 0; i < measures->groups && i < frame->groups; i++) {
		size_t members = frame->group[i].members < here ? frame->group[i].members : here;

		if (measures->group[i].transfer_ns == FRAME_UNKNOWN)
			continue;
		sum += (double)measures->group[i].transfer_ns * (double)members;
		groups++;
	}
	return groups > 0 ? (float)fmin(sum / (double)here, (double)measures->step_ns) : NAN;
}

void cause_sum_begin(struct cause_sum *sum)
{
	memset(sum, 0, sizeof(*sum));
	for (size_t p = 0; p < PART_MAX; p++)
		sum->most[p] = cause_parts[p].reduce == REDUCE_MAX ? -INFINITY : INFINITY;
}

/* Of a part that is not known, comparing is false and nothing is added. */
void cause_sum_add(struct cause_sum *sum, const float part[PART_MAX])
{
	CAUSE_UNROLL
	for (size_t p = 0; p < PART_MAX; p++) {
		bool known = part[p] == part[p];

		if (cause_parts[p].reduce == REDUCE_MAX)
			sum->most[p] = part[p] > sum->most[p] ? part[p] : sum->most[p];
		if (cause_parts[p].reduce == REDUCE_MIN)
			sum->most[p] = part[p] < sum->most[p] ? part[p] : sum->most[p];
		if (cause_parts[p].reduce == REDUCE_MEAN) {
			sum->count[p] += known;
			sum->sum[p] += known ? (double)part[p] : 0;
		}
	}
	sum->ranks++;
}

/* NAN: of no rank. */
static float reduced(const struct cause_sum *sum, enum cause_part part)
{
	if (cause_parts[part].reduce == REDUCE_MEAN)
		return sum->count[part] > 0 ? (float)(sum->sum[part] / sum->count[part]) : NAN;
	return isfinite(sum->most[part]) ? sum->most[part] : NAN;
}

void cause_sum_end(
	const struct cause_sum *sum, const struct frame *frame, const struct measures *measures, float ret[PART_MAX])
{
	for (enum cause_part p = 0; p < PART_MAX; p++)
		ret[p] = reduced(sum, p);
	ret[PART_TRANSFER] = transfer_of(frame, measures, sum->ranks);
}

/* See cause.h. */

#define SURE_Z 3.0 /* a part counts if it is so many deviations above what it is compared with */

void cause_series_free(struct cause_series *series)
{
	for (size_t k = 0; k < CAUSE_FRAMES; k++)
		free(series->recent[k]);
	*series = (struct cause_series){.ranks = 0};
}

bool cause_series_grow(struct cause_series *series, size_t ranks)
{
	if (ranks <= series->ranks)
		return true;
	for (size_t k = 0; k < CAUSE_FRAMES; k++) {
		float(*recent)[PART_MAX] = realloc(series->recent[k], ranks * sizeof(*recent));

		if (!recent)
			return false;
		series->recent[k] = recent;
		for (size_t i = series->ranks; i < ranks; i++) {
			for (size_t p = 0; p < PART_MAX; p++)
				recent[i][p] = NAN;
		}
	}
	series->ranks = ranks;
	return true;
}

void cause_past_feed(struct cause_past **past, uint64_t step, const float part[PART_MAX])
{
	struct cause_past *to = *past ? *past : (*past = calloc(1, sizeof(*to)));

	if (!to)
		return;
	for (size_t p = 0; p < PART_MAX; p++) {
		if (!isnan(part[p])) {
			to->sum[p] += (double)part[p];
			to->count[p]++;
		}
	}
	if (++to->frames < CAUSE_BLOCK_FRAMES)
		return;
	for (size_t p = 0; p < PART_MAX; p++)
		to->block[to->blocks % CAUSE_BLOCKS][p] = to->count[p] > 0 ? (float)(to->sum[p] / to->count[p]) : NAN;
	to->last_step[to->blocks % CAUSE_BLOCKS] = step;
	to->blocks++;
	to->frames = 0;
	memset(to->sum, 0, sizeof(to->sum));
	memset(to->count, 0, sizeof(to->count));
}

/* The step from which frames count. */
static uint64_t from_step(const struct cause_series *series, uint64_t since_step)
{
	size_t n = 0;

	for (uint64_t k = 0; k < CAUSE_FRAMES && k < series->frames; k++)
		n += series->step[k] >= since_step;
	return n < series->least ? 0 : since_step;
}

double cause_series_middle(const struct cause_series *series, size_t rank, size_t part, uint64_t since_step)
{
	double sum = 0, min = INFINITY, max = -INFINITY;
	size_t n = 0;

	since_step = from_step(series, since_step);
	for (size_t k = 0; k < CAUSE_FRAMES; k++) {
		double value = (double)series->recent[k][rank][part];

		if (isnan(value) || series->step[k] < since_step)
			continue;
		sum += value;
		min = fmin(min, value);
		max = fmax(max, value);
		n++;
	}
	if (n < 4)
		return n > 0 ? sum / (double)n : NAN;
	return (sum - min - max) / (double)(n - 2);
}

void cause_compare(struct cause_compared *ret, size_t part, double *other, size_t n)
{
	double deviation;

	ret->peers[part] = NAN;
	ret->excess[part] = NAN;
	ret->sure[part] = false;
	if (n == 0)
		return;
	ret->peers[part] = robust_median(other, n);
	if (isnan(ret->value[part]))
		return;
	ret->any = true;
	ret->excess[part] = ret->value[part] - ret->peers[part];
	deviation = fmax(robust_spread(other, n, ret->peers[part]), CAUSE_FLOOR * ret->value[PART_STEP]);
	ret->sure[part] = ret->excess[part] > SURE_Z * deviation;
}

size_t cause_past_values(const struct cause_past *past, uint64_t since_step, size_t part, double ret[CAUSE_BLOCKS])
{
	size_t n = 0, blocks = past == NULL ? 0 : past->blocks < CAUSE_BLOCKS ? (size_t)past->blocks : CAUSE_BLOCKS;

	for (size_t b = 0; b < blocks; b++) {
		if (past->last_step[b] < since_step && !isnan(past->block[b][part]))
			ret[n++] = (double)past->block[b][part];
	}
	return n;
}

void cause_preemptor_feed(struct cause_preemptor *preemptor, const struct frame_host *host)
{
	if (host->preemptor_pid == 0 || host->run_delay_ns == 0 || host->preemptor_ns == FRAME_UNKNOWN)
		return;
	if (host->preemptor_pid != preemptor->pid && host->preemptor_ns < preemptor->ns / 2) {
		preemptor->ns /= 2;
		return;
	}
	preemptor->pid = host->preemptor_pid;
	preemptor->ns = host->preemptor_ns;
	memcpy(preemptor->name, host->preemptor_name, sizeof(preemptor->name));
}

void cause_preemptor_text(const struct cause_preemptor *preemptor, char *ret, size_t size)
{
	char name[sizeof(preemptor->name)];

	ret[0] = '\0';
	if (preemptor->pid == 0)
		return;
	memcpy(name, preemptor->name, sizeof(name));
	for (size_t i = 0; i < sizeof(name) && name[i]; i++)
		name[i] = name[i] >= ' ' && name[i] <= '~' ? name[i] : '?';
	if (name[0])
		snprintf(ret, size, "%.*s (pid %u)", (int)sizeof(name), name, preemptor->pid);
	else
		snprintf(ret, size, "pid %u", preemptor->pid);
}

#define RANKS_MAX 16384
#define PEERS_MAX 64	      /* of a class; of more, so many evenly chosen ones stand for all */
#define FLOOR_DELAY_PREEMPTOR 0.125 /* of the excess: see rest_of() */
#define FLOOR_PREEMPTOR 0.03	    /* of the excess, that who it is had itself */
#define NAMED_PREEMPTOR 0.2	    /* of the delay, less: the preemptor is not named */
#define SHARE_HOST 0.25
#define SPINS_LEAST 1.1 /* times its self time */
#define GAP_MORE 2.0	/* times its peers' */
#define GAP_LEAST 0.002 /* of the step */

struct cause_rank {
	uint32_t class;
	bool device;
	struct cause_preemptor preemptor;
	struct cause_past *past[FRAME_CLASS_MAX]; /* of the last of a class of one; NULL where there are peers */
};

struct cause {
	struct cause_series series[FRAME_CLASS_MAX];
	struct cause_series job[FRAME_CLASS_MAX]; /* of one "rank" */
	struct cause_past *job_past[FRAME_CLASS_MAX];
	struct cause_rank *rank;
	size_t ranks;
	enum frame_class class; /* of the newest frame */
	enum frame_tier tier;
	bool of_job; /* nothing is kept of single ranks */
};

struct cause *cause_new(void)
{
	struct cause *cause = calloc(1, sizeof(*cause));

	for (size_t class = 0; cause && class < FRAME_CLASS_MAX; class ++)
		cause->series[class].least = cause->job[class].least =
			class == FRAME_CHECKPOINT ? CAUSE_CHECKPOINTS_LEAST : CAUSE_FRAMES_LEAST;
	return cause;
}

struct cause *cause_new_of_job(void)
{
	struct cause *cause = cause_new();

	if (cause)
		cause->of_job = true;
	return cause;
}

struct cause *cause_free(struct cause *cause)
{
	if (!cause)
		return NULL;
	for (size_t class = 0; class < FRAME_CLASS_MAX; class ++) {
		cause_series_free(&cause->series[class]);
		cause_series_free(&cause->job[class]);
		free(cause->job_past[class]);
		for (size_t i = 0; i < cause->ranks; i++)
			free(cause->rank[i].past[class]);
	}
	free(cause->rank);
	free(cause);
	return NULL;
}

static bool cause_grow(struct cause *cause, size_t ranks)
{
	struct cause_rank *rank;

	if (ranks <= cause->ranks)
		return true;
	rank = realloc(cause->rank, ranks * sizeof(*rank));
	if (!rank)
		return false;
	cause->rank = rank;
	memset(&rank[cause->ranks], 0, (ranks - cause->ranks) * sizeof(*rank));
	cause->ranks = ranks;
	return true;
}

static bool cause_is_here(const struct frame *frame, size_t i)
{
	return i < frame->ranks && frame->rank[i].here && frame->rank[i].step_ns != 0;
}

static void rank_feed(struct cause *cause, const struct frame *frame, const struct measures *measures, size_t i,
	struct cause_sum *sum)
{
	struct cause_series *series = &cause->series[frame->class];
	float *slot = series->recent[series->frames % CAUSE_FRAMES][i];
	struct cause_rank *rank = &cause->rank[i];
	const struct frame_rank *from;

	if (!cause_is_here(frame, i)) {
		for (size_t p = 0; p < PART_MAX; p++)
			slot[p] = NAN;
		return;
	}
	from = &frame->rank[i];
	cause_parts_read(frame, measures, i, slot);
	cause_sum_add(sum, slot);
	rank->class = measures && i < measures->ranks ? measures->rank[i].class : FRAME_NONE;
	rank->device =
		frame->who[i].card[0] || frame->tier == FRAME_TIER_DEVICE || from->host.launch_gap_ns != FRAME_UNKNOWN;
	cause_preemptor_feed(&rank->preemptor, &from->host);
	if (rank->class == FRAME_NONE || rank->class >= measures->classes || measures->class_ranks[rank->class] < 2)
		cause_past_feed(&rank->past[frame->class], frame->step, slot);
}

/* The sum alone. */
static void ranks_add(const struct frame *frame, const struct measures *measures, size_t ranks, struct cause_sum *sum)
{
	float part[PART_MAX];

	for (size_t i = 0; i < ranks; i++) {
		if (!cause_is_here(frame, i))
			continue;
		cause_parts_read(frame, measures, i, part);
		cause_sum_add(sum, part);
	}
}

void cause_frame(struct cause *cause, const struct frame *frame, const struct measures *measures)
{
	size_t ranks = frame->ranks < RANKS_MAX ? frame->ranks : RANKS_MAX;
	struct cause_series *series, *job;
	struct cause_sum sum;
	float *slot;

	if ((size_t)frame->class >= FRAME_CLASS_MAX)
		return;
	series = &cause->series[frame->class];
	job = &cause->job[frame->class];
	if (!cause_series_grow(job, 1))
		return;
	if (!cause->of_job && (!cause_grow(cause, ranks) || !cause_series_grow(series, cause->ranks)))
		return;
	cause_sum_begin(&sum);
	if (cause->of_job)
		ranks_add(frame, measures, ranks, &sum);
	for (size_t i = 0; i < series->ranks; i++)
		rank_feed(cause, frame, measures, i, &sum);
	series->step[series->frames++ % CAUSE_FRAMES] = frame->step;
	slot = job->recent[job->frames % CAUSE_FRAMES][0];
	cause_sum_end(&sum, frame, measures, slot);
	cause_past_feed(&cause->job_past[frame->class], frame->step, slot);
	job->step[job->frames++ % CAUSE_FRAMES] = frame->step;
	cause->class = frame->class;
	cause->tier = frame->tier;
}

/* Up to PEERS_MAX other ranks of its class, of those that the newest frames have. */
static size_t peers_of(const struct cause *cause, uint32_t rank, uint32_t *ret)
{
	const struct cause_series *series = &cause->series[cause->class];
	uint32_t class = cause->rank[rank].class;
	size_t all = 0, n = 0, every;

	if (class == FRAME_NONE)
		return 0;
	for (uint32_t i = 0; i < series->ranks; i++)
		all += i != rank && cause->rank[i].class == class;
	every = (all + PEERS_MAX - 1) / PEERS_MAX;
	all = 0;
	for (uint32_t i = 0; i < series->ranks && n < PEERS_MAX; i++) {
		if (i == rank || cause->rank[i].class != class)
			continue;
		if (all++ % every == 0)
			ret[n++] = i;
	}
	return n;
}

static void compare_past(const struct cause_series *series, size_t rank, const struct cause_past *past,
	uint64_t since_step, struct cause_compared *ret)
{
	uint64_t from = since_step < UINT64_MAX ? since_step : 0;
	double other[CAUSE_BLOCKS];

	for (size_t p = 0; p < PART_MAX; p++)
		ret->value[p] = cause_series_middle(series, rank, p, from);
	for (size_t p = 0; p < PART_MAX; p++)
		cause_compare(ret, p, other, cause_past_values(past, since_step, p, other));
}

static void compare_rank(const struct cause *cause, uint32_t rank, uint64_t since_step, struct cause_compared *ret)
{
	const struct cause_series *series = &cause->series[cause->class];
	uint32_t peer[PEERS_MAX];
	size_t peers = peers_of(cause, rank, peer);
	uint64_t from = since_step < UINT64_MAX ? since_step : 0;
	double other[PEERS_MAX];

	if (peers == 0) {
		compare_past(series, rank, cause->rank[rank].past[cause->class], since_step, ret);
		return;
	}
	for (size_t p = 0; p < PART_MAX; p++)
		ret->value[p] = cause_series_middle(series, rank, p, from);
	for (size_t p = 0; p < PART_MAX; p++) {
		size_t n = 0;

		for (size_t k = 0; k < peers; k++) {
			other[n] = cause_series_middle(series, peer[k], p, from);
			if (!isnan(other[n]))
				n++;
		}
		cause_compare(ret, p, other, n);
	}
}

/* Excesses that are none are 0 from here on, and what a rank waits for its CPU because it needs more of it is no delay
 * by others: on a CPU that all share, twice the work is twice the delay. */
static void cause_settle(struct cause_compared *of)
{
	double more = of->value[PART_CPU] / of->peers[PART_CPU];

	for (size_t p = 0; p < PART_MAX; p++)
		of->excess[p] = of->excess[p] > 0 ? fmin(of->excess[p], of->value[PART_STEP]) : 0;
	if (more > 1 && of->excess[PART_RUN_DELAY] > 0)
		of->excess[PART_RUN_DELAY] =
			fmax(0, of->value[PART_RUN_DELAY] - of->peers[PART_RUN_DELAY] * fmin(more, 8));
	if (of->excess[PART_RUN_DELAY] < 3 * CAUSE_FLOOR * of->value[PART_STEP])
		of->sure[PART_RUN_DELAY] = false;
}

static bool may_be(const struct cause_compared *of, enum cause_part part, enum cause_part outer, double need)
{
	const struct cause_part_row *row = &cause_parts[part];
	double share = outer == PART_REST ? row->of_rest : CAUSE_SHARE;

	return (row->within & PART_BIT(outer)) && of->sure[part] && of->excess[part] >= share * need;
}

/* A launch gap is one of many, so that it is no share of the excess: it is judged by how much longer than its peers' it
 * is. Whatever holds a rank up makes it launch late, so that this is a cause only where there is no other. */
static bool is_late_to_launch(const struct cause_compared *of, enum cause_part outer)
{
	double gap = of->excess[PART_LAUNCH];

	return outer == PART_REST && gap >= GAP_MORE * of->peers[PART_LAUNCH] &&
	       gap >= GAP_LEAST * of->value[PART_STEP] && of->excess[PART_SYNC] < gap / 2;
}

/* From an outer part down to the deepest that explains its share of it. chain: all on the way, the deepest last. */
static size_t descend(
	const struct cause_compared *of, enum cause_part outer, double excess, enum cause_part chain[PART_MAX])
{
	size_t n = 0;

	for (chain[n++] = outer; n < PART_MAX; n++) {
		enum cause_part at = chain[n - 1], next = PART_MAX;
		double need = at == PART_REST ? excess : fmin(of->excess[at], excess);

		for (enum cause_part p = 0; p < PART_MAX; p++) {
			if (may_be(of, p, at, need) && (next == PART_MAX || of->excess[p] > of->excess[next]))
				next = p;
		}
		if (next == PART_MAX && is_late_to_launch(of, at))
			next = PART_LAUNCH;
		if (next == PART_MAX)
			break;
		chain[n] = next;
	}
	return n;
}

/* The stages in which a device's rank only launches have the excess, and it did not even wait for space in the launch
 * queue, as its peers, who spin while they wait for it, burn more CPU than it. */
static bool sleeps_at_launch(const struct cause_compared *of, double excess)
{
	static const enum cause_part launches[] = {PART_FORWARD, PART_ZERO_GRAD, PART_OPTIMIZER};
	double cpu = of->value[PART_CPU] - of->peers[PART_CPU], longer = 0;

	for (size_t i = 0; i < sizeof(launches) / sizeof(launches[0]); i++)
		longer += of->sure[launches[i]] ? of->excess[launches[i]] : 0;
	return longer >= CAUSE_SHARE * excess && cpu < -SHARE_HOST * excess;
}

/*
 * A rest that no part explains. On a device it is computing, unless its host sleeps where it should launch: see
 * sleeps_at_launch(). On the CPU, a rank that computes more burns more CPU than
 * its peers, who sleep while they wait for it; one that does not was held up: by others on its CPUs where it is known
 * who and its step thread saw something of them (what the threads that compute with it lost is not measured, and of
 * several that have its CPUs one is known; but who has them for a moment, as kernel threads do, holds no rank up), by
 * its host where what the host did adds up, else by something that is not measured. Peers that spin while they wait
 * burn as much as one that computes: then as much as theirs is computing too.
 */
static enum finding_cause rest_of(const struct cause_rank *rank, const struct cause_compared *of, double excess)
{
	double cpu = of->value[PART_CPU] - of->peers[PART_CPU], step = of->value[PART_STEP];
	double host = 0;
	bool busy = of->value[PART_CPU] >= step - SHARE_HOST * excess && of->value[PART_CPU] <= 1.25 * step;

	if (rank->device && sleeps_at_launch(of, excess))
		return CAUSE_HOST;
	if (rank->device || isnan(cpu) || cpu >= SHARE_HOST * excess ||
		((busy || of->spins) && cpu > -SHARE_HOST * excess))
		return CAUSE_COMPUTE;
	if (rank->preemptor.pid != 0 && of->sure[PART_RUN_DELAY] &&
		of->excess[PART_RUN_DELAY] >= FLOOR_DELAY_PREEMPTOR * excess &&
		of->value[PART_PREEMPTOR] >= FLOOR_PREEMPTOR * excess)
		return CAUSE_PREEMPTION;
	for (enum cause_part p = 0; p < PART_MAX; p++)
		host += cause_parts[p].within != 0 && of->sure[p] ? of->excess[p] : 0;
	return host >= SHARE_HOST * excess ? CAUSE_HOST : CAUSE_UNKNOWN;
}

static void cause_add(
	struct finding *finding, const struct cause_compared *of, enum cause_part part, const struct cause_rank *rank)
{
	const struct cause_part_row *row = &cause_parts[part];
	char detail[64] = "";

	for (size_t i = 0; i < finding->evidences && i < FINDING_EVIDENCE_MAX; i++) {
		if (strcmp(finding->evidence[i].name, row->name) == 0)
			return;
	}
	if (part == PART_RUN_DELAY && rank && of->value[PART_PREEMPTOR] >= NAMED_PREEMPTOR * of->value[PART_RUN_DELAY])
		cause_preemptor_text(&rank->preemptor, detail, sizeof(detail));
	finding_add(finding, row->name, row->unit, of->value[part] / row->scale, of->peers[part] / row->scale, detail);
	row = &cause_parts[PART_PREEMPTOR];
	if (detail[0])
		finding_add(
			finding, row->name, row->unit, of->value[PART_PREEMPTOR], of->peers[PART_PREEMPTOR], detail);
}

/* What was said, and up to two parts that were more than a quarter of it though nothing was said of them. */
static void add_rest(struct finding *finding, const struct cause_compared *of, double excess)
{
	for (unsigned int more = 0; more < 2; more++) {
		enum cause_part most = PART_MAX;

		for (enum cause_part p = PART_STEP + 1; p < PART_CPU; p++) {
			bool reported = false;

			for (size_t i = 0; i < finding->evidences && i < FINDING_EVIDENCE_MAX; i++)
				reported = reported || strcmp(finding->evidence[i].name, cause_parts[p].name) == 0;
			if (!reported && of->sure[p] && of->excess[p] >= SHARE_HOST * excess &&
				(most == PART_MAX || of->excess[p] > of->excess[most]))
				most = p;
		}
		if (most == PART_MAX)
			return;
		cause_add(finding, of, most, NULL);
	}
}

static bool nothing_seen(const struct cause_compared *of)
{
	for (enum cause_part p = PART_STEP + 1; p < PART_SELF; p++) {
		if (of->value[p] > 0)
			return false;
	}
	return true;
}

/* The largest of the outer parts, if it has its share. */
static enum cause_part outermost(const struct cause_compared *of, double excess)
{
	enum cause_part most = PART_REST;

	for (enum cause_part p = 0; p < PART_MAX; p++) {
		if (cause_parts[p].outer && (p == PART_REST || of->sure[p]) && of->excess[p] > of->excess[most])
			most = p;
	}
	return of->excess[most] >= CAUSE_SHARE * excess ? most : PART_MAX;
}

static double cause_known(double value)
{
	return isnan(value) ? 0 : value;
}

/* The rest of the self time, of it and of those that it is compared with; its excess is what others have not. */
static void fill_rest(struct cause_compared *of, double excess)
{
	of->value[PART_REST] = of->value[PART_SELF];
	of->peers[PART_REST] = of->peers[PART_SELF];
	of->excess[PART_REST] = excess;
	for (enum cause_part p = 0; p < PART_REST; p++) {
		if (!cause_parts[p].outer)
			continue;
		of->value[PART_REST] -= cause_known(of->value[p]);
		of->peers[PART_REST] -= cause_known(of->peers[p]);
		of->excess[PART_REST] -= of->sure[p] ? of->excess[p] : 0;
	}
	of->sure[PART_REST] = true;
}

static void cause_explain(
	const struct cause_compared *of, double excess, const struct cause_rank *rank, struct finding *finding)
{
	enum cause_part chain[PART_MAX + 1], outer = outermost(of, excess), deep;
	size_t n = outer == PART_MAX ? 0 : descend(of, outer, excess, chain);

	deep = n > 0 ? chain[n - 1] : PART_MAX;
	finding->cause = n > 0 ? cause_parts[deep].cause : CAUSE_UNKNOWN;
	if (deep == PART_REST)
		finding->cause = nothing_seen(of) ? CAUSE_UNKNOWN : rank ? rest_of(rank, of, excess) : CAUSE_COMPUTE;
	if (finding->cause == CAUSE_PREEMPTION)
		cause_add(finding, of, PART_RUN_DELAY, rank);
	for (; n > 0; n--) {
		if (chain[n - 1] != PART_REST || (finding->cause == CAUSE_COMPUTE && of->value[PART_REST] > 0))
			cause_add(finding, of, chain[n - 1], rank);
	}
	add_rest(finding, of, excess);
	if (!isnan(of->value[PART_CPU]) && !isnan(of->peers[PART_CPU]))
		cause_add(finding, of, PART_CPU, rank);
}

/*
 * Peers use the CPU while they wait. All ranks use more since they wait for one: half as much as their steps became
 * longer, or more; peers that sleep use what they used before, and one rank that computes more among few is known by
 * having more than its peers. Of a job whose past is not known: they used more than they were not waiting for, and no
 * more than one thread can (several threads may have that much and still sleep). What they were not waiting for is
 * known from operations alone: of stages that hold waits, a self time has only what is surely none.
 */
static bool spins(const struct cause *cause, const struct cause_compared *rank, uint64_t since_step)
{
	double cpu = rank->peers[PART_CPU];
	struct cause_compared of = {.any = false};

	compare_past(&cause->job[cause->class], 0, cause->job_past[cause->class], since_step, &of);
	if (!isnan(of.value[PART_CPU]) && !isnan(of.peers[PART_CPU]) && of.sure[PART_STEP])
		return of.excess[PART_CPU] >= of.excess[PART_STEP] / 2;
	return cause->tier != FRAME_TIER_STAGES && cpu > SPINS_LEAST * rank->peers[PART_SELF] &&
	       cpu <= rank->peers[PART_STEP];
}

void cause_of(const struct cause *cause, uint32_t rank, double excess_ns, struct finding *finding)
{
	const struct cause_series *series = &cause->series[cause->class];
	struct cause_compared of = {.any = false};
	uint64_t since_step = finding->since_step ? finding->since_step : UINT64_MAX;

	finding->cause = CAUSE_UNKNOWN;
	if (rank >= series->ranks || !(excess_ns > 0) || !isfinite(excess_ns))
		return;
	compare_rank(cause, rank, since_step, &of);
	if (!of.any)
		return;
	of.spins = !cause->rank[rank].device && spins(cause, &of, since_step);
	cause_settle(&of);
	fill_rest(&of, excess_ns);
	cause_explain(&of, excess_ns, &cause->rank[rank], finding);
}

/*
 * Of the job. Where operations are seen, what is no transfer and no part of its own is computing. Where they are not, a
 * backward that is longer on all ranks may be the network's: it counts as computing only beside a forward that is
 * longer too.
 */
void cause_of_job(const struct cause *cause, uint64_t since_step, double excess_ns, struct finding *finding)
{
	const struct cause_series *job = &cause->job[cause->class];
	struct cause_compared of = {.any = false};
	double forward, backward, most;

	finding->cause = CAUSE_UNKNOWN;
	if (job->ranks == 0 || !(excess_ns > 0) || !isfinite(excess_ns))
		return;
	compare_past(job, 0, cause->job_past[cause->class], since_step, &of);
	if (!of.any)
		return;
	cause_settle(&of);
	fill_rest(&of, excess_ns);
	forward = of.excess[PART_FORWARD] / of.peers[PART_FORWARD];
	backward = of.excess[PART_BACKWARD] / of.peers[PART_BACKWARD];
	most = of.excess[PART_FORWARD] + of.excess[PART_ZERO_GRAD] + of.excess[PART_OPTIMIZER];
	if (forward >= backward / 2)
		most += of.excess[PART_BACKWARD] + of.excess[PART_SYNC];
	if (cause->tier == FRAME_TIER_STAGES)
		of.excess[PART_REST] = fmin(of.excess[PART_REST], most);
	cause_explain(&of, excess_ns, NULL, finding);
}
