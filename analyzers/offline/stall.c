/* SPDX-License-Identifier: Apache-2.0 */
/* See stall.h. */
#include "analyzers/offline/stall.h"

#include <stdio.h>

#define STALL_NS 1000000000ULL
#define TAIL_NS (4 * STALL_NS)	/* checked after its end, so that a hang is closed: HANG_SNAPSHOTS and one */
#define FRESH_NS (5 * STALL_NS) /* after progress: the daemon writes after 3 s, within another second */
#define SAME_NS 1000000ULL	/* times of one mark, by two offsets of a clock that is steered */

static uint64_t stall_second_after(uint64_t time_ns)
{
	return time_ns - time_ns % STALL_NS + STALL_NS;
}

uint64_t stall_check_after(const struct stall *stall, uint64_t after_ns, uint64_t next_ns, bool is_end)
{
	uint64_t tail_ns = after_ns + STALL_NS > stall->until_ns ? after_ns + STALL_NS : stall->until_ns + 1;
	uint64_t check_ns = STALL_NEVER;

	if (next_ns != STALL_NEVER)
		check_ns = is_end ? next_ns + 1 : stall_second_after(next_ns);
	if (check_ns != STALL_NEVER && !is_end && check_ns < after_ns + stall->every_ns)
		check_ns = after_ns + stall->every_ns;
	return tail_ns <= stall->until_ns + TAIL_NS && stall->until_ns + TAIL_NS < next_ns ? tail_ns : check_ns;
}

/* What was written of it holds: since then it did nothing. */
static bool stall_is_silent(const struct store_rank *of, uint64_t now_ns)
{
	return of->standing_ns && now_ns <= of->standing_until_ns && of->progress_ns <= of->standing.progress_ns + SAME_NS;
}

static bool stall_stand_rank(const struct store_rank *of, uint64_t now_ns, struct standing *ret)
{
	if (stall_is_silent(of, now_ns))
		*ret = of->standing;
	else if (of->process >= 0 && now_ns < of->progress_ns + FRESH_NS)
		*ret = (struct standing){
			.progress_ns = of->progress_ns,
			.step_end_ns = of->step_end_ns,
			.steps = of->steps,
			.stage = STAGE_USER,
			.cpu_ns = FRAME_UNKNOWN,
		};
	else
		return false;
	ret->rank = (uint32_t)of->number;
	return true;
}

static bool stall_recall(const void *arg, uint64_t seq, struct coll_point *ret)
{
	const struct store_calls *calls = arg;

	for (size_t i = calls->count; i-- > 0;)
		if (calls->call[i].seq == seq) {
			*ret = calls->call[i];
			return seq;
		}
	return false;
}

static void stall_add_members(const struct store_rank *of, struct stall_check *checks)
{
	for (size_t i = 0; i < of->places; i++) {
		const struct store_place *place = &of->place[i];
		const struct store_calls *calls = place->calls;
		struct stall_check_member member = {
			.job = of->job,
			.uid = of->uid,
			.process = (uint32_t)of->number,
			.judged = {.rank = of->rank, .pid = of->pid, .recall = stall_recall, .recall_arg = calls},
		};
		struct coll_standing *standing = &member.judged.standing;

		if (!calls || !calls->count || calls->time_ns + SAME_NS < of->standing.progress_ns)
			continue;
		snprintf(standing->communicator, sizeof(standing->communicator), "%s", place->communicator);
		standing->members = place->members;
		standing->seq_from = calls->seq_from;
		standing->entered = calls->call[calls->count - 1];
		standing->completion_known = calls->completion_known;
		standing->completed.seq = calls->completed_seq;
		stall_check_add_member(checks, &member);
	}
}

void stall_stand(struct stall *stall, struct store_ranks *ranks, uint64_t now_ns, struct stall_check *checks)
{
	struct store_rank *of;

	stall->every_ns = STALL_NS * (stall_check_members_before(checks) / STALL_CHECK_MEMBERS_OFTEN);
	for (size_t i = 0; (of = store_ranks_at(ranks, i)); i++) {
		struct standing standing;

		if (of->standing_until_ns > stall->until_ns)
			stall->until_ns = of->standing_until_ns;
		if (of->number < 0 || !stall_stand_rank(of, now_ns, &standing))
			continue;
		stall_check_add_standing(checks, &standing);
		if (stall_is_silent(of, now_ns))
			stall_add_members(of, checks);
	}
}
