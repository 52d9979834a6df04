/* SPDX-License-Identifier: Apache-2.0 */
/* Events to rows: one handler a kind of event. See ops.h and ops_internal.h. */
#include "analyzers/ops_internal.h"

#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static void take_fields(struct ops_entry *entry, const struct ops_event *event)
{
	uint64_t count = ops_value(event, OP_FIELD_COUNT), bytes = ops_value(event, OP_FIELD_BYTES);

	if (entry->count == OPS_UNKNOWN && ops_has(event, OP_FIELD_COUNT) && count <= INT64_MAX)
		entry->count = count;
	if (entry->given_bytes == OPS_UNKNOWN && ops_has(event, OP_FIELD_BYTES) && bytes <= INT64_MAX)
		entry->given_bytes = bytes;
	if (!entry->dtype && ops_has(event, OP_FIELD_DTYPE))
		entry->dtype = ops_dtype(entry->comm->family, ops_value(event, OP_FIELD_DTYPE));
}

static bool device_may_tell(const struct ops *ops, const struct ops_entry *entry)
{
	const struct ops_comm *comm = entry->comm;
	bool trial = comm->family->device && !comm->no_device && !ops->no_marker;

	return (comm->waits_device || trial) && !entry->captured && entry->count && entry->comm->members != 1 &&
	       !entry->word->operation->pieces && !ops_failed(entry->result);
}

/* When a work that is not waited for was complete; 0: it was not. */
static uint64_t finished_early(struct ops *ops, uint64_t work, uint64_t start_ns)
{
	for (size_t i = 0; i < OPS_FINISHED_MAX; i++) {
		if (ops->finished[i].work == work && ops->finished[i].time_ns >= start_ns) {
			ops->finished[i].work = 0;
			ops->counts.lost--;
			return ops->finished[i].time_ns;
		}
	}
	return 0;
}

static void await_work(
	struct ops *ops, struct ops_thread *thread, struct ops_entry *entry, const struct ops_event *event)
{
	uint64_t work = ops_value(event, OP_FIELD_WORK), end_ns;

	if (!work) {
		if (event->end_ns)
			return;
		entry->waits |= WAIT_WORK;
		entry->announcer = thread;
		thread->announced = entry;
		return;
	}
	end_ns = finished_early(ops, work, event->start_ns);
	entry->end_ns = end_ns;
	if (end_ns)
		ops_entry_complete(entry, end_ns);
	else
		ops_entry_waits_work(ops, entry, work);
}

static bool has_its_number(const struct ops_entry *outer, const struct ops_comm *comm, const struct ops_event *event)
{
	return outer && outer->comm == comm && outer->has_seq && ops_has(event, OP_FIELD_SEQ) &&
	       outer->seq == ops_value(event, OP_FIELD_SEQ) + 1;
}

/* The call is made within the one announced before it. */
static bool is_inner(const struct ops_entry *outer, const struct ops_event *event)
{
	bool is_below = !event->stack_pointer || !outer->stack_pointer || event->stack_pointer < outer->stack_pointer;

	return is_below && outer->word->operation->of_others && strcasecmp(outer->word->text, event->op ? event->op : "") != 0;
}

/* An exception left it before it had a number: the next call has that. */
static void coll_leave(struct ops_entry *entry)
{
	struct ops_comm *comm = entry->comm;

	entry->left = true;
	if (comm->calls && comm->recent && comm->recent[(comm->calls - 1) % OPS_RECENT].seq == entry->seq)
		comm->calls--;
}

static void coll_fill(struct ops *ops, struct ops_thread *thread, struct ops_entry *entry, const struct ops_event *event)
{
	entry->word = ops_word(ops, event->op ? event->op : "");
	entry->p2p = event->kind == OPS_P2P;
	entry->start_ns = event->start_ns;
	entry->end_ns = event->end_ns;
	entry->fed_ns = ops->now_ns;
	entry->thread_id = event->thread_id;
	entry->stack_pointer = event->stack_pointer;
	entry->result = event->has_result ? event->result : 0;
	entry->captured = thread->captures > 0;
	if (ops_has(event, OP_FIELD_PEER) && ops_value(event, OP_FIELD_PEER) <= INT32_MAX)
		entry->peer = (int32_t)ops_value(event, OP_FIELD_PEER);
	take_fields(entry, event);
	ops_number(ops, entry, event);
}

static void coll_remember(struct ops_thread *thread, struct ops_entry *entry)
{
	struct ops_comm *comm = entry->comm;

	if (!comm->mixed++)
		comm->first_ns = entry->start_ns;
	if (ops_max(entry->start_ns, entry->end_ns) > comm->seen_ns)
		comm->seen_ns = ops_max(entry->start_ns, entry->end_ns);
	if (entry->start_ns > thread->newest_ns)
		thread->newest_ns = entry->start_ns;
	comm->graphs |= entry->captured;
	comm_mix_add(&comm->mix, entry->word->text, entry->count, entry->peer);
	if (entry->p2p || !entry->seq)
		return;
	ops_remember(entry);
	thread->last_family = comm->family;
	thread->last_address = comm->address;
	thread->last_comm = comm->id;
	thread->last_call = comm->calls;
}

static void coll_on_call(struct ops *ops, const struct ops_event *event)
{
	struct ops_comm *comm = ops_comm_of(ops, event);
	struct ops_thread *thread = comm ? ops_thread_of(ops, event->thread_id) : NULL;
	struct ops_entry *entry;

	if (!thread)
		return;
	if (has_its_number(thread->announced, comm, event)) {
		if (is_inner(thread->announced, event)) {
			take_fields(thread->announced, event);
			return;
		}
		coll_leave(thread->announced);
	}
	if (thread->announced) {
		ops->counts.lost++;
		ops_entry_done(ops, thread->announced, WAIT_WORK);
	}
	if (!event->in_group && !ops_list_empty(&thread->group))
		ops_thread_group_lost(ops, thread, UINT64_MAX);
	entry = ops_entry_new(ops);
	if (!entry)
		return;
	entry->comm = comm;
	comm->waiting++;
	coll_fill(ops, thread, entry, event);
	coll_remember(thread, entry);
	if (comm->family->works) {
		await_work(ops, thread, entry, event);
	} else if (event->in_group) {
		entry->waits |= WAIT_GROUP;
		ops_append(&thread->group, &entry->member);
	}
	if (comm->family->told_later && !comm->identity && !comm->told)
		entry->waits |= WAIT_IDENTITY;
	if (ops_number_may_come(entry))
		entry->waits |= WAIT_NUMBER;
	if (device_may_tell(ops, entry))
		ops_entry_waits_device(ops, entry);
	ops_comm_tell(ops, comm);
	ops_early_entry(ops, entry);
	ops_entry_done(ops, entry, 0);
}

static void coll_on_group(struct ops *ops, const struct ops_event *event)
{
	struct ops_thread *thread = ops_thread_find(ops, event->thread_id);
	struct ops_group group = {.start_ns = event->start_ns, .thread_id = event->thread_id};
	uint64_t end_ns = ops_end_ns(event);

	if (!thread) {
		ops->counts.lost++;
		return;
	}
	ops_thread_group_lost(ops, thread, event->start_ns);
	OPS_EACH (link, &thread->group)
		group.members++;
	ops->counts.lost += !group.members;
	if (group.members > 1)
		group.group = ++ops->groups;
	group.duration_ns = end_ns > event->start_ns ? end_ns - event->start_ns : 0;
	thread->closed_ns = end_ns;
	OPS_EACH (link, &thread->group) {
		struct ops_entry *entry = OPS_CONTAINER(link, struct ops_entry, member);
		uint64_t bytes = ops_entry_bytes(entry);

		if (bytes != OPS_UNKNOWN && __builtin_add_overflow(group.bytes, bytes, &group.bytes))
			group.bytes = INT64_MAX;
		entry->group = group.group;
		entry->grouped = group.members > 1;
		entry->end_ns = event->end_ns;
		entry->comm->closing_ns = 0;
		entry->comm->seen_ns = ops_max(entry->comm->seen_ns, end_ns);
		if (event->has_result && !entry->result)
			entry->result = event->result;
		ops_unlink(&entry->member);
		ops_entry_done(ops, entry, WAIT_GROUP);
	}
	if (group.bytes > INT64_MAX)
		group.bytes = INT64_MAX;
	if (group.group && ops->sink.group)
		ops->sink.group(ops->sink.arg, &group);
}

static void on_work(struct ops *ops, const struct ops_event *event)
{
	struct ops_thread *thread = ops_thread_find(ops, event->thread_id);
	struct ops_entry *entry = thread ? thread->announced : NULL;
	uint64_t work = ops_value(event, OP_FIELD_WORK);

	if (!entry || !work) {
		ops->counts.lost++;
		return;
	}
	thread->announced = NULL;
	entry->announcer = NULL;
	ops_entry_waits_work(ops, entry, work);
}

static void on_finished(struct ops *ops, const struct ops_event *event)
{
	uint64_t work = ops_value(event, OP_FIELD_WORK), time_ns = ops_end_ns(event);
	struct ops_node *node = work ? ops_hash_find(&ops->work, work) : NULL;
	struct ops_entry *entry;

	if (!node) {
		ops->counts.lost++;
		ops->finished[ops->finished_next].work = work;
		ops->finished[ops->finished_next].time_ns = time_ns;
		ops->finished_next = (ops->finished_next + 1) % OPS_FINISHED_MAX;
		return;
	}
	entry = OPS_CONTAINER(node, struct ops_entry, by_work);
	entry->end_ns = time_ns;
	if (event->has_result)
		entry->result = event->result;
	ops_entry_complete(entry, time_ns);
	ops_entry_done(ops, entry, WAIT_WORK);
}

static void on_capture(struct ops *ops, const struct ops_event *event)
{
	struct ops_thread *thread = ops_thread_of(ops, event->thread_id);

	if (thread)
		ops_thread_capture(thread, event, event->kind == OPS_CAPTURE);
}

static void (*const handlers[])(struct ops *ops, const struct ops_event *event) = {
	[OPS_OP] = coll_on_call,
	[OPS_P2P] = coll_on_call,
	[OPS_GROUP] = coll_on_group,
	[OPS_WORK] = on_work,
	[OPS_FINISHED] = on_finished,
	[OPS_COMM] = ops_comm_made,
	[OPS_COMM_FREE] = ops_comm_freed,
	[OPS_CAPTURE] = on_capture,
	[OPS_CAPTURE_END] = on_capture,
	[OPS_GROUP_SEQ] = ops_number_group,
};
_Static_assert(COUNT_OF(handlers) == OPS_KIND_MAX, "a handler a kind");

void ops_feed(struct ops *ops, const struct ops_event *event)
{
	ops->counts.events++;
	if ((size_t)event->kind >= COUNT_OF(handlers) || !handlers[event->kind])
		return;
	if (ops_end_ns(event) > ops->now_ns)
		ops->now_ns = ops_end_ns(event);
	if (ops->flights)
		ops_flight_answered(ops, event);
	handlers[event->kind](ops, event);
}

void ops_idle(struct ops *ops, uint64_t now_ns)
{
	if (now_ns > ops->now_ns)
		ops->now_ns = now_ns;
	ops_rows_idle(ops);
}

void ops_end(struct ops *ops)
{
	ops_rows_end(ops);
}

void ops_counts(const struct ops *ops, struct ops_counts *ret)
{
	*ret = ops->counts;
}

struct ops *ops_new(const struct ops_sink *sink)
{
	struct ops *ops = calloc(1, sizeof(*ops));

	if (!ops)
		return NULL;
	ops->sink = *sink;
	ops_list_init(&ops->live);
	ops_list_init(&ops->gone);
	ops_list_init(&ops->threads);
	ops_list_init(&ops->waiting);
	ops_list_init(&ops->spare);
	if (ops_hash_init(&ops->by_address, 1024) < 0 || ops_hash_init(&ops->by_identity, 1024) < 0 ||
		ops_hash_init(&ops->thread, 256) < 0 || ops_hash_init(&ops->number, OPS_WAITING_MAX) < 0 ||
		ops_hash_init(&ops->signature, 1024) < 0 || ops_hash_init(&ops->work, OPS_WAITING_MAX) < 0 ||
		ops_hash_init(&ops->peer, 1024) < 0)
		return ops_free(ops);
	return ops;
}

struct ops *ops_free(struct ops *ops)
{
	if (!ops)
		return NULL;
	ops_rows_done(ops);
	if (ops->peer.bucket)
		ops_comms_done(ops);
	ops_threads_done(ops);
	free(ops->by_address.bucket);
	free(ops->by_identity.bucket);
	free(ops->thread.bucket);
	free(ops->number.bucket);
	free(ops->signature.bucket);
	free(ops->work.bucket);
	free(ops->peer.bucket);
	free(ops);
	return NULL;
}
