/* SPDX-License-Identifier: Apache-2.0 */
/* Where everybody stood at a time. See stood.h. */
#include "analyzers/offline/stood_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_NS (2 * STOOD_NS)		/* after it began to stand still: no judge says anything before */
#define GROWS_BY 200			/* what stands still for long is looked at less often */
#define HOLE_NS (3 * STOOD_NS)		/* between samples of one daemon */
#define BEFORE_STAGE_NS (60 * STOOD_NS) /* watched before a stage, without samples */
#define ENDED_NS (3600 * STOOD_NS)	/* remembered, as the daemon does */

int stood_open(struct reader *reader, struct store_ranks *ranks, const struct store_feed_options *options,
	struct stood **ret, char *error, size_t error_size)
{
	struct stood *stood = calloc(1, sizeof(*stood));
	int r;

	if (!stood) {
		snprintf(error, error_size, "out of memory");
		return -ENOMEM;
	}
	stood->reader = reader;
	stood->ranks = ranks;
	stood->options = options;
	r = stood_spots_find(stood, error, error_size);
	if (r == 0)
		r = stood_rows_open(stood, error, error_size);
	if (r < 0) {
		stood_close(stood);
		return r;
	}
	*ret = stood;
	return 0;
}

struct stood *stood_close(struct stood *stood)
{
	if (!stood)
		return NULL;
	stood_spots_free(&stood->still);
	stood_spots_free(&stood->ends);
	stood_spots_free(&stood->all);
	stood_rows_close(stood);
	free(stood);
	return NULL;
}

static uint64_t look_at_still(const struct stood_spot *spot, uint64_t after_ns, uint64_t rare_ns)
{
	uint64_t look_ns = spot->from_ns + FIRST_NS, every_ns = STOOD_NS;

	if (after_ns < look_ns)
		return look_ns;
	if (after_ns < spot->to_ns) {
		every_ns = rare_ns > every_ns ? rare_ns : every_ns;
		if ((after_ns - spot->from_ns) / GROWS_BY > every_ns)
			every_ns = (after_ns - spot->from_ns) / GROWS_BY;
	}
	look_ns = after_ns + every_ns;
	/* Some have gone on before its end: where looks are far apart, there is one while it surely stands. */
	if (every_ns > STOOD_NS && after_ns + STOOD_NS < spot->to_ns && look_ns + STOOD_NS > spot->to_ns)
		return spot->to_ns - STOOD_NS;
	/* The last one before it goes on. */
	if (after_ns < spot->to_ns && look_ns > spot->to_ns)
		look_ns = spot->to_ns;
	return look_ns <= spot->to_ns + STOOD_TAIL_NS ? look_ns : STOOD_NEVER;
}

uint64_t stood_known(const struct stood *stood, uint64_t *ret_end_ns)
{
	*ret_end_ns = stood->last_ns;
	return stood->known_ns;
}

uint64_t stood_look(struct stood *stood, uint64_t after_ns)
{
	uint64_t look_ns = STOOD_NEVER;

	for (; stood->still_at < stood->still.count; stood->still_at++) {
		look_ns = look_at_still(&stood->still.spot[stood->still_at], after_ns, stood->every_ns);
		if (look_ns != STOOD_NEVER)
			break;
	}
	while (stood->ends_at < stood->ends.count && stood->ends.spot[stood->ends_at].to_ns <= after_ns)
		stood->ends_at++;
	if (stood->ends_at < stood->ends.count && stood->ends.spot[stood->ends_at].to_ns < look_ns)
		look_ns = stood->ends.spot[stood->ends_at].to_ns;
	return look_ns;
}

/* Of the rank, those that began by then: ends before the one that is returned; first: of its first one. */
static size_t samples_until(const struct stood *stood, uint32_t rank, uint64_t now_ns, size_t *ret_first)
{
	const struct stood_sample *sample = stood->samples.row;
	size_t low = 0, high = stood->samples.count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (sample[middle].rank < rank || (sample[middle].rank == rank && sample[middle].start_ns <= now_ns))
			low = middle + 1;
		else
			high = middle;
	}
	*ret_first = low;
	while (*ret_first > 0 && sample[*ret_first - 1].rank == rank)
		(*ret_first)--;
	return low;
}

struct seen {
	uint64_t since_ns; /* watched from then on without a hole; STOOD_NEVER: not at that time */
	uint64_t cpu_ns;
	char state;
};

static uint64_t cpu_at(const struct stood_sample *sample, uint64_t now_ns)
{
	uint64_t length_ns = sample->end_ns - sample->start_ns, past_ns;

	if (sample->cpu_ns == FRAME_UNKNOWN || !length_ns)
		return sample->cpu_ns == FRAME_UNKNOWN ? FRAME_UNKNOWN : sample->before_ns + sample->cpu_ns;
	past_ns = now_ns < sample->end_ns ? now_ns - sample->start_ns : length_ns;
	return sample->before_ns + (uint64_t)((double)sample->cpu_ns * ((double)past_ns / (double)length_ns));
}

/* A sample tells the state at its end; a process that was stopped when it began has not gone on before it did
 * something. */
static char state_at(const struct stood_sample *sample, bool follows, uint64_t progress_ns)
{
	char before = follows ? sample[-1].state : 0;

	if (sample->state != 'T' && sample->state != 't' && (before == 'T' || before == 't') &&
		progress_ns <= sample->start_ns)
		return before;
	return sample->state;
}

static bool follows(const struct stood_sample *sample)
{
	return sample->start_ns <= sample[-1].end_ns + HOLE_NS;
}

/* The last sample of a rank that ends is a little older than its end. */
static bool covers(const struct stood_sample *sample, bool is_last, const struct store_rank *of, uint64_t now_ns)
{
	uint64_t hole_ns = !is_last || of->ended ? HOLE_NS : 0;

	return now_ns <= sample->end_ns + hole_ns;
}

static void see(
	const struct stood *stood, uint32_t rank, const struct store_rank *of, uint64_t now_ns, struct seen *ret)
{
	size_t first, end = samples_until(stood, rank, now_ns, &first), i;
	const struct stood_sample *sample = stood->samples.row;

	*ret = (struct seen){.since_ns = STOOD_NEVER, .cpu_ns = FRAME_UNKNOWN};
	if (end == first)
		return;
	i = end - 1;
	if (!covers(&sample[i], end == stood->samples.count || sample[end].rank != rank, of, now_ns))
		return;
	ret->cpu_ns = cpu_at(&sample[i], now_ns);
	ret->state = state_at(&sample[i], i > first && follows(&sample[i]), of->progress_ns);
	while (i > first && follows(&sample[i]))
		i--;
	ret->since_ns = sample[i].start_ns;
}

/* The innermost stage that was open then; NULL: none, or none that is known of. */
static const struct stood_span *stage_at(
	const struct stood *stood, uint32_t rank, const struct store_rank *of, uint64_t now_ns)
{
	const struct stood_span *span = stood->spans.row, *ret = NULL;
	size_t low = 0, high = stood->spans.count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (span[middle].rank < rank)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < stood->spans.count && span[low].rank == rank && span[low].start_ns <= now_ns; low++) {
		if (of->step_thread && span[low].thread_id && span[low].thread_id != of->step_thread)
			continue;
		if (span[low].end_ns >= now_ns && (span[low].end_ns != STOOD_NEVER || !of->ended))
			ret = &span[low];
	}
	return ret;
}

static bool stall_stand(
	const struct stood *stood, uint32_t rank, const struct store_rank *of, uint64_t now_ns, struct standing *ret)
{
	const struct stood_span *span = stage_at(stood, rank, of, now_ns);
	bool ended = of->ended && now_ns > of->seen_ns;
	struct seen seen;

	see(stood, rank, of, now_ns, &seen);
	if (seen.since_ns == STOOD_NEVER && span)
		seen.since_ns = span->start_ns > BEFORE_STAGE_NS ? span->start_ns - BEFORE_STAGE_NS : 0;
	/* Who has just done something is watched. */
	if (seen.since_ns == STOOD_NEVER && now_ns < of->progress_ns + HOLE_NS)
		seen.since_ns = of->progress_ns;
	if (seen.since_ns == STOOD_NEVER && !ended)
		return false;
	*ret = (struct standing){
		.rank = (uint32_t)of->number,
		.state = ended ? 0 : seen.state,
		.ended = ended,
		.ended_ns = ended ? of->seen_ns : 0,
		.progress_ns = ended || of->progress_ns >= seen.since_ns ? of->progress_ns : 0,
		.step_end_ns = of->step_end_ns,
		.steps = of->steps,
		.stage = STAGE_USER,
		.cpu_ns = ended ? FRAME_UNKNOWN : seen.cpu_ns,
	};
	if (ended || !span)
		return true;
	ret->stage = span->kind;
	ret->stage_since_ns = span->start_ns;
	if (span->start_ns > ret->progress_ns)
		ret->progress_ns = span->start_ns;
	return true;
}

static void stall_point_of(const struct stood *stood, const struct stood_op *op, uint64_t time_ns, struct ops_point *ret)
{
	*ret = (struct ops_point){.seq = op->seq, .count = op->count, .bytes = op->bytes, .time_ns = time_ns};
	memcpy(ret->op, stood->word[op->op], sizeof(ret->op));
	memcpy(ret->dtype, stood->word[op->dtype], sizeof(ret->dtype) - 1);
}

static bool recall(const void *arg, uint64_t seq, struct ops_point *ret)
{
	const struct stood_run *run = arg;
	const struct stood_op *op = (const struct stood_op *)run->stood->ops.row + run->first;
	size_t low = 0, high = run->entered;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (op[middle].seq < seq)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == run->entered || op[low].seq != seq)
		return false;
	stall_point_of(run->stood, &op[low], op[low].start_ns, ret);
	return true;
}

static size_t entered_by(const struct stood_op *op, size_t count, uint64_t now_ns)
{
	size_t low = 0, high = count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (op[middle].start_ns <= now_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* What was called so long ago that it is not looked at is complete. */
static void find_completed(
	const struct stood *stood, const struct stood_op *op, size_t entered, uint64_t now_ns, struct ops_point *ret)
{
	size_t last = entered > OPS_RECENT ? entered - OPS_RECENT : 0;

	for (size_t i = entered; i-- > last;) {
		if (!op[i].tells || op[i].end_ns > now_ns)
			continue;
		stall_point_of(stood, &op[i], op[i].end_ns, ret);
		return;
	}
	if (last)
		stall_point_of(stood, &op[last - 1], op[last - 1].start_ns, ret);
	else
		ret->seq = op[0].seq - 1;
}

/* All that it ever called is known, up to where records were lost. */
static bool begins(const struct stood_run *run, const struct stood_op *op)
{
	return run->count && op->seq == 1 && (!run->unsure || op->start_ns < op[run->count].start_ns);
}

/* Of the member all that is known by then, of the run. */
static void stand_in_run(const struct stood *stood, struct stood_run *run, uint64_t now_ns, struct looks_member *member)
{
	const struct stood_op *op = (const struct stood_op *)stood->ops.row + run->first, *last = NULL, *unsure = NULL;
	size_t unsure_by = entered_by(op + run->count, run->unsure, now_ns);
	struct ops_standing *standing = &member->judged.standing;

	run->entered = entered_by(op, run->count, now_ns);
	if (run->entered)
		last = &op[run->entered - 1];
	if (unsure_by)
		unsure = &op[run->count + unsure_by - 1];
	member->first_seq = run->count ? op->seq : 0;
	member->uncalled = !last && !unsure && (!run->unsure || begins(run, op));
	if (unsure ? !last || last->start_ns < unsure->start_ns : !last && !member->uncalled) {
		/* Records were lost: its numbers do not tell whether it is behind. */
		member->first_seq = UINT64_MAX;
		standing->seq_from = OPS_SEQ_ATTACH;
		if (unsure)
			stall_point_of(stood, unsure, unsure->start_ns, &standing->entered);
	} else if (last) {
		standing->seq_from = last->seq_from;
		standing->completion_known = run->tells;
		stall_point_of(stood, last, last->start_ns, &standing->entered);
		if (run->tells)
			find_completed(stood, op, run->entered, now_ns, &standing->completed);
	}
}

static void add_run(
	struct stood *stood, const struct store_rank *of, struct stood_run *run, uint64_t now_ns, struct looks *looks)
{
	const struct stood_op *op = (const struct stood_op *)stood->ops.row + run->first;
	const struct store_place *place = &of->place[op->place];
	struct looks_member member = {
		.job = of->job,
		.process = (uint32_t)of->number,
		.judged = {.rank = of->rank, .pid = of->pid, .recall = recall, .recall_arg = run},
	};
	struct ops_standing *standing = &member.judged.standing;

	snprintf(standing->communicator, sizeof(standing->communicator), "%s", place->communicator);
	standing->members = place->members;
	stand_in_run(stood, run, now_ns, &member);
	looks_add_member(looks, &member);
}

/* On which nothing is known to have been called. */
static void add_uncalled(const struct store_rank *of, const struct store_place *place, struct looks *looks)
{
	struct looks_member member = {
		.job = of->job,
		.process = (uint32_t)of->number,
		.uncalled = true,
		.judged = {.rank = of->rank, .pid = of->pid},
	};

	snprintf(member.judged.standing.communicator, sizeof(member.judged.standing.communicator), "%s",
		place->communicator);
	member.judged.standing.members = place->members;
	looks_add_member(looks, &member);
}

static void add_members(
	struct stood *stood, uint32_t rank, const struct store_rank *of, uint64_t now_ns, struct looks *looks)
{
	const struct stood_op *op = stood->ops.row;
	size_t at = stood->run_of[rank], end = stood->run_of[rank + 1];

	for (size_t i = 0; i < of->places; i++) {
		if (at < end && op[stood->run[at].first].place == i)
			add_run(stood, of, &stood->run[at++], now_ns, looks);
		else
			add_uncalled(of, &of->place[i], looks);
	}
}

void stood_stand(struct stood *stood, uint64_t now_ns, struct looks *looks)
{
	struct store_rank *of;

	stood_rows_load(stood, now_ns);
	stood->every_ns = STOOD_NS * (looks_members_before(looks) / LOOKS_MEMBERS_OFTEN);
	for (uint32_t i = 0; (of = store_ranks_at(stood->ranks, i)); i++) {
		struct standing standing;

		if (of->number < 0 || (of->ended && now_ns > of->seen_ns + ENDED_NS) ||
			!stall_stand(stood, i, of, now_ns, &standing))
			continue;
		looks_add_standing(looks, &standing);
		if (stood->runs && !stood->ops_overflow)
			add_members(stood, i, of, now_ns, looks);
	}
}
