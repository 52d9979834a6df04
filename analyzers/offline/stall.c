/* SPDX-License-Identifier: Apache-2.0 */
/* Standings of all ranks at a time. See stall.h. */
#include "analyzers/offline/stall_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_NS (2 * STALL_NS)		/* after it began to stand still: no judge says anything before */
#define GROWS_BY 200			/* a long stall is checked less often */
#define HOLE_NS (3 * STALL_NS)		/* between samples of one daemon */
#define BEFORE_STAGE_NS (60 * STALL_NS) /* watched before a stage, without samples */
#define ENDED_NS (3600 * STALL_NS)	/* remembered, as the daemon does */

int stall_open(struct reader *reader, struct store_ranks *ranks, const struct store_feed_options *options,
	struct stall **ret, char *error, size_t error_size)
{
	struct stall *stall = calloc(1, sizeof(*stall));
	int r;

	if (!stall) {
		snprintf(error, error_size, "out of memory");
		return -ENOMEM;
	}
	stall->reader = reader;
	stall->ranks = ranks;
	stall->options = options;
	r = stall_intervals_find(stall, error, error_size);
	if (r == 0)
		r = stall_rows_open(stall, error, error_size);
	if (r < 0) {
		stall_close(stall);
		return r;
	}
	*ret = stall;
	return 0;
}

struct stall *stall_close(struct stall *stall)
{
	if (!stall)
		return NULL;
	stall_intervals_free(&stall->still);
	stall_intervals_free(&stall->ends);
	stall_intervals_free(&stall->all);
	stall_rows_close(stall);
	free(stall);
	return NULL;
}

static uint64_t check_of_interval(const struct stall_interval *interval, uint64_t after_ns, uint64_t rare_ns)
{
	uint64_t check_ns = interval->from_ns + FIRST_NS, every_ns = STALL_NS;

	if (after_ns < check_ns)
		return check_ns;
	if (after_ns < interval->to_ns) {
		every_ns = rare_ns > every_ns ? rare_ns : every_ns;
		if ((after_ns - interval->from_ns) / GROWS_BY > every_ns)
			every_ns = (after_ns - interval->from_ns) / GROWS_BY;
	}
	check_ns = after_ns + every_ns;
	/* Some ranks advanced before its end: of sparse checks one lies within the stall. */
	if (every_ns > STALL_NS && after_ns + STALL_NS < interval->to_ns && check_ns + STALL_NS > interval->to_ns)
		return interval->to_ns - STALL_NS;
	/* The last one before it goes on. */
	if (after_ns < interval->to_ns && check_ns > interval->to_ns)
		check_ns = interval->to_ns;
	return check_ns <= interval->to_ns + STALL_TAIL_NS ? check_ns : STALL_NEVER;
}

uint64_t stall_known(const struct stall *stall, uint64_t *ret_end_ns)
{
	*ret_end_ns = stall->last_ns;
	return stall->known_ns;
}

uint64_t stall_check_after(struct stall *stall, uint64_t after_ns)
{
	uint64_t check_ns = STALL_NEVER;

	for (; stall->still_at < stall->still.count; stall->still_at++) {
		check_ns = check_of_interval(&stall->still.interval[stall->still_at], after_ns, stall->every_ns);
		if (check_ns != STALL_NEVER)
			break;
	}
	while (stall->ends_at < stall->ends.count && stall->ends.interval[stall->ends_at].to_ns <= after_ns)
		stall->ends_at++;
	if (stall->ends_at < stall->ends.count && stall->ends.interval[stall->ends_at].to_ns < check_ns)
		check_ns = stall->ends.interval[stall->ends_at].to_ns;
	return check_ns;
}

/* Of the rank, those that began by then: ends before the one that is returned; first: of its first one. */
static size_t samples_until(const struct stall *stall, uint32_t rank, uint64_t now_ns, size_t *ret_first)
{
	const struct stall_sample *sample = stall->samples.row;
	size_t low = 0, high = stall->samples.count;

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

static uint64_t cpu_at(const struct stall_sample *sample, uint64_t now_ns)
{
	uint64_t length_ns = sample->end_ns - sample->start_ns, past_ns;

	if (sample->cpu_ns == FRAME_UNKNOWN || !length_ns)
		return sample->cpu_ns == FRAME_UNKNOWN ? FRAME_UNKNOWN : sample->before_ns + sample->cpu_ns;
	past_ns = now_ns < sample->end_ns ? now_ns - sample->start_ns : length_ns;
	return sample->before_ns + (uint64_t)((double)sample->cpu_ns * ((double)past_ns / (double)length_ns));
}

/* A sample has the state at its end; a process that was stopped when it began has not gone on before it did
 * something. */
static char state_at(const struct stall_sample *sample, bool follows, uint64_t progress_ns)
{
	char before = follows ? sample[-1].state : 0;

	if (sample->state != 'T' && sample->state != 't' && (before == 'T' || before == 't') &&
		progress_ns <= sample->start_ns)
		return before;
	return sample->state;
}

static bool follows(const struct stall_sample *sample)
{
	return sample->start_ns <= sample[-1].end_ns + HOLE_NS;
}

/* The last sample of a rank that ends is a little older than its end. */
static bool covers(const struct stall_sample *sample, bool is_last, const struct store_rank *of, uint64_t now_ns)
{
	uint64_t hole_ns = !is_last || of->ended ? HOLE_NS : 0;

	return now_ns <= sample->end_ns + hole_ns;
}

static void see(
	const struct stall *stall, uint32_t rank, const struct store_rank *of, uint64_t now_ns, struct seen *ret)
{
	size_t first, end = samples_until(stall, rank, now_ns, &first), i;
	const struct stall_sample *sample = stall->samples.row;

	*ret = (struct seen){.since_ns = STALL_NEVER, .cpu_ns = FRAME_UNKNOWN};
	if (end == first)
		return;
	i = end - 1;
	if (!covers(&sample[i], end == stall->samples.count || sample[end].rank != rank, of, now_ns))
		return;
	ret->cpu_ns = cpu_at(&sample[i], now_ns);
	ret->state = state_at(&sample[i], i > first && follows(&sample[i]), of->progress_ns);
	while (i > first && follows(&sample[i]))
		i--;
	ret->since_ns = sample[i].start_ns;
}

/* The innermost stage that was open then; NULL: none, or none that is known of. */
static const struct stall_span *stage_at(
	const struct stall *stall, uint32_t rank, const struct store_rank *of, uint64_t now_ns)
{
	const struct stall_span *span = stall->spans.row, *ret = NULL;
	size_t low = 0, high = stall->spans.count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (span[middle].rank < rank)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < stall->spans.count && span[low].rank == rank && span[low].start_ns <= now_ns; low++) {
		if (of->step_thread && span[low].thread_id && span[low].thread_id != of->step_thread)
			continue;
		if (span[low].end_ns >= now_ns && (span[low].end_ns != STALL_NEVER || !of->ended))
			ret = &span[low];
	}
	return ret;
}

static bool stall_stand_rank(
	const struct stall *stall, uint32_t rank, const struct store_rank *of, uint64_t now_ns, struct standing *ret)
{
	const struct stall_span *span = stage_at(stall, rank, of, now_ns);
	bool ended = of->ended && now_ns > of->seen_ns;
	struct seen seen;

	see(stall, rank, of, now_ns, &seen);
	if (seen.since_ns == STALL_NEVER && span)
		seen.since_ns = span->start_ns > BEFORE_STAGE_NS ? span->start_ns - BEFORE_STAGE_NS : 0;
	/* Who has just done something is watched. */
	if (seen.since_ns == STALL_NEVER && now_ns < of->progress_ns + HOLE_NS)
		seen.since_ns = of->progress_ns;
	if (seen.since_ns == STALL_NEVER && !ended)
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

static void stall_point_of(const struct stall *stall, const struct stall_op *op, uint64_t time_ns, struct coll_point *ret)
{
	*ret = (struct coll_point){.seq = op->seq, .count = op->count, .bytes = op->bytes, .time_ns = time_ns};
	memcpy(ret->op, stall->word[op->op], sizeof(ret->op));
	memcpy(ret->dtype, stall->word[op->dtype], sizeof(ret->dtype) - 1);
}

static bool recall(const void *arg, uint64_t seq, struct coll_point *ret)
{
	const struct stall_run *run = arg;
	const struct stall_op *op = (const struct stall_op *)run->stall->ops.row + run->first;
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
	stall_point_of(run->stall, &op[low], op[low].start_ns, ret);
	return true;
}

static size_t entered_by(const struct stall_op *op, size_t count, uint64_t now_ns)
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

/* Calls older than the recent ones are complete. */
static void find_completed(
	const struct stall *stall, const struct stall_op *op, size_t entered, uint64_t now_ns, struct coll_point *ret)
{
	size_t last = entered > COLL_RECENT ? entered - COLL_RECENT : 0;

	for (size_t i = entered; i-- > last;) {
		if (!op[i].is_complete_end || op[i].end_ns > now_ns)
			continue;
		stall_point_of(stall, &op[i], op[i].end_ns, ret);
		return;
	}
	if (last)
		stall_point_of(stall, &op[last - 1], op[last - 1].start_ns, ret);
	else
		ret->seq = op[0].seq - 1;
}

/* All that it ever called is known, up to where records were lost. */
static bool begins(const struct stall_run *run, const struct stall_op *op)
{
	return run->count && op->seq == 1 && (!run->unsure || op->start_ns < op[run->count].start_ns);
}

/* Of the member all that is known by then, of the run. */
static void stand_in_run(const struct stall *stall, struct stall_run *run, uint64_t now_ns, struct stall_check_member *member)
{
	const struct stall_op *op = (const struct stall_op *)stall->ops.row + run->first, *last = NULL, *unsure = NULL;
	size_t unsure_by = entered_by(op + run->count, run->unsure, now_ns);
	struct coll_standing *standing = &member->judged.standing;

	run->entered = entered_by(op, run->count, now_ns);
	if (run->entered)
		last = &op[run->entered - 1];
	if (unsure_by)
		unsure = &op[run->count + unsure_by - 1];
	member->first_seq = run->count ? op->seq : 0;
	member->uncalled = !last && !unsure && (!run->unsure || begins(run, op));
	if (unsure ? !last || last->start_ns < unsure->start_ns : !last && !member->uncalled) {
		/* Records were lost: its numbers cannot be compared. */
		member->first_seq = UINT64_MAX;
		standing->seq_from = COLL_SEQ_ATTACH;
		if (unsure)
			stall_point_of(stall, unsure, unsure->start_ns, &standing->entered);
	} else if (last) {
		standing->seq_from = last->seq_from;
		standing->completion_known = run->completion_known;
		stall_point_of(stall, last, last->start_ns, &standing->entered);
		if (run->completion_known)
			find_completed(stall, op, run->entered, now_ns, &standing->completed);
	}
}

static void add_run(
	struct stall *stall, const struct store_rank *of, struct stall_run *run, uint64_t now_ns, struct stall_check *checks)
{
	const struct stall_op *op = (const struct stall_op *)stall->ops.row + run->first;
	const struct store_place *place = &of->place[op->place];
	struct stall_check_member member = {
		.job = of->job,
		.uid = of->uid,
		.process = (uint32_t)of->number,
		.judged = {.rank = of->rank, .pid = of->pid, .recall = recall, .recall_arg = run},
	};
	struct coll_standing *standing = &member.judged.standing;

	snprintf(standing->communicator, sizeof(standing->communicator), "%s", place->communicator);
	standing->members = place->members;
	stand_in_run(stall, run, now_ns, &member);
	stall_check_add_member(checks, &member);
}

/* On which nothing is known to have been called. */
static void add_uncalled(const struct store_rank *of, const struct store_place *place, struct stall_check *checks)
{
	struct stall_check_member member = {
		.job = of->job,
		.uid = of->uid,
		.process = (uint32_t)of->number,
		.uncalled = true,
		.judged = {.rank = of->rank, .pid = of->pid},
	};

	snprintf(member.judged.standing.communicator, sizeof(member.judged.standing.communicator), "%s",
		place->communicator);
	member.judged.standing.members = place->members;
	stall_check_add_member(checks, &member);
}

static void add_members(
	struct stall *stall, uint32_t rank, const struct store_rank *of, uint64_t now_ns, struct stall_check *checks)
{
	const struct stall_op *op = stall->ops.row;
	size_t at = stall->run_of[rank], end = stall->run_of[rank + 1];

	for (size_t i = 0; i < of->places; i++) {
		if (at < end && op[stall->run[at].first].place == i)
			add_run(stall, of, &stall->run[at++], now_ns, checks);
		else
			add_uncalled(of, &of->place[i], checks);
	}
}

void stall_stand(struct stall *stall, uint64_t now_ns, struct stall_check *checks)
{
	struct store_rank *of;

	stall_rows_load(stall, now_ns);
	stall->every_ns = STALL_NS * (stall_check_members_before(checks) / STALL_CHECK_MEMBERS_OFTEN);
	for (uint32_t i = 0; (of = store_ranks_at(stall->ranks, i)); i++) {
		struct standing standing;

		if (of->number < 0 || (of->ended && now_ns > of->seen_ns + ENDED_NS) ||
			!stall_stand_rank(stall, i, of, now_ns, &standing))
			continue;
		stall_check_add_standing(checks, &standing);
		if (stall->runs && !stall->coll_overflow)
			add_members(stall, i, of, now_ns, checks);
	}
}
