/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What hangs are judged by, as rows, so that `tracectl analyze` judges the same, over all nodes of a job: of a rank
 * without progress, rarer the longer the silence; of all ranks when one ends. Times of rows of one second are the same
 * second on all nodes.
 */
#include "analyzers/base/fnv1a.h"
#include "daemon/core/context.h"
#include "daemon/findings/online_internal.h"
#include "daemon/store/store.h"

#define SILENT_NS (3 * NSEC_PER_SEC) /* half of the shortest time in which a hang is suspected (detect/hang.c) */
#define SILENT_ROWS 200		     /* a row when the silence is 0.5 % longer: reports show no more of its length */
#define CALLS_AGAIN_NS (60 * NSEC_PER_SEC) /* who reads from the middle of a hang lacks them for so long at most */

/* Between rows. A power of two seconds, so that rows of all ranks fall into the same second. */
static uint64_t online_standing_interval(uint64_t silent_ns)
{
	uint64_t ret = NSEC_PER_SEC;

	while (ret < silent_ns / SILENT_ROWS)
		ret *= 2;
	return ret;
}

static struct field_time online_standing_time(struct store *store, uint64_t time_ns)
{
	return field_time_if(time_ns, time_ns ? store_utc_ns(store, time_ns) : 0);
}

static void online_standing_put_call(struct store *store, const struct online_process *process,
	const struct coll_standing *standing, const struct coll_point *call)
{
	const struct row_standing_calls row = {
		.rank = field_int(process->rank),
		.start_ns = field_time(process->calls_ns),
		.communicator = field_text(standing->communicator),
		.seq = field_int((int64_t)call->seq),
		.seq_from = field_text(coll_seq_from_name(standing->seq_from)),
		.op = field_text_if(call->op),
		.dtype = field_text_if(call->dtype),
		.count = field_int_if(call->seq && call->count != COLL_UNKNOWN, (int64_t)call->count),
		.bytes = field_int_if(call->seq && call->bytes != COLL_UNKNOWN, (int64_t)call->bytes),
		.called_ns = online_standing_time(store, call->time_ns),
		.completed_seq = field_int_if(standing->completion_known, (int64_t)standing->completed.seq),
		.instance = field_int(process->instance),
	};

	store_put_standing_calls(store, &row);
}

static void online_standing_put_member(
	struct store *store, const struct online_process *process, const struct coll_judged *member)
{
	const struct coll_standing *standing = &member->standing;
	uint64_t last = standing->entered.seq, seq = last > COLL_RECENT ? last - COLL_RECENT + 1 : 1;
	struct coll_point call;

	if (standing->completion_known && standing->completed.seq > seq)
		seq = standing->completed.seq;
	for (; standing->seq_from != COLL_SEQ_ATTACH && seq < last; seq++)
		if (coll_at(member->ops, standing->communicator, seq, &call))
			online_standing_put_call(store, process, standing, &call);
	online_standing_put_call(store, process, standing, &standing->entered);
}

static void online_standing_put_calls(
	struct online *online, struct online_process *process, const struct coll_snapshot *snapshot, uint64_t utc_ns)
{
	uint64_t hash = FNV1A_START;

	for (size_t i = 0; i < snapshot->members; i++) {
		const struct coll_judged *member = &snapshot->member[i].judged;

		if (member->pid != process->pid)
			continue;
		hash = fnv1a_text(hash, member->standing.communicator);
		hash = fnv1a_bytes(hash, &member->standing.entered.seq, sizeof(uint64_t));
		hash = fnv1a_bytes(hash, &member->standing.completed.seq, sizeof(uint64_t));
	}
	if (hash == process->calls_hash && utc_ns < process->calls_ns + CALLS_AGAIN_NS)
		return;
	process->calls_hash = hash;
	process->calls_ns = utc_ns;
	for (size_t i = 0; i < snapshot->members; i++) {
		const struct coll_judged *member = &snapshot->member[i].judged;

		if (member->pid == process->pid && member->standing.communicator[0])
			online_standing_put_member(online->context->store, process, member);
	}
}

void online_standing_put(struct online *online, struct online_process *process, const struct standing *standing,
	const struct coll_snapshot *snapshot, uint64_t silent_ns, uint64_t now_ns, bool ended)
{
	uint64_t every_ns = online_standing_interval(silent_ns);
	struct store *store = online->context->store;
	uint64_t utc_ns = store_utc_ns(store, now_ns);
	const char state[] = {standing->state, 0};
	const struct row_standings row = {
		.rank = field_int(process->rank),
		.start_ns = field_time(utc_ns),
		.duration_ns = field_duration(ended ? 0 : every_ns),
		.state = field_text_if(state),
		.ended_ns = online_standing_time(store, standing->ended_ns),
		.progress_ns = online_standing_time(store, standing->progress_ns),
		.step_end_ns = online_standing_time(store, standing->step_end_ns),
		.steps = field_int((int64_t)standing->steps),
		.stage = field_text(stage_text(standing->stage)),
		.stage_since_ns = online_standing_time(store, standing->stage_since_ns),
		.cpu_ns = field_duration_if(standing->cpu_ns != FRAME_UNKNOWN, standing->cpu_ns),
		.main_thread = field_text_if(standing_stack_word(standing->stack)),
		.instance = field_int(process->instance),
	};

	if (!ended && (silent_ns < SILENT_NS || utc_ns / every_ns == process->standing_ns / every_ns))
		return;
	process->standing_ns = utc_ns;
	store_put_standings(store, &row);
	if (snapshot)
		online_standing_put_calls(online, process, snapshot, utc_ns);
}
