/* SPDX-License-Identifier: Apache-2.0 */
/* Input events: one handler a kind. */
#include "analyzers/coll/coll_internal.h"

#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static void take_fields(struct coll_entry *entry, const struct coll_event *event)
{
	uint64_t count = coll_value(event, OP_FIELD_COUNT), bytes = coll_value(event, OP_FIELD_BYTES);

	if (entry->count == COLL_UNKNOWN && coll_has(event, OP_FIELD_COUNT) && count <= INT64_MAX)
		entry->count = count;
	if (entry->given_bytes == COLL_UNKNOWN && coll_has(event, OP_FIELD_BYTES) && bytes <= INT64_MAX)
		entry->given_bytes = bytes;
	if (!entry->dtype && coll_has(event, OP_FIELD_DTYPE))
		entry->dtype = coll_dtype(entry->comm->family, coll_value(event, OP_FIELD_DTYPE));
}

static bool device_is_expected(const struct coll *coll, const struct coll_entry *entry)
{
	const struct coll_comm *comm = entry->comm;
	bool trial = comm->family->device && !comm->no_device && !coll->no_marker;

	return (comm->waits_device || trial) && !entry->captured && entry->count && entry->comm->members != 1 &&
	       !entry->word->operation->pieces && !coll_failed(entry->result);
}

/* End of a work that finished before its call's record; 0: not finished. */
static uint64_t finished_early(struct coll *coll, uint64_t work, uint64_t start_ns)
{
	for (size_t i = 0; i < COLL_FINISHED_MAX; i++) {
		if (coll->finished[i].work == work && coll->finished[i].time_ns >= start_ns) {
			coll->finished[i].work = 0;
			coll->counts.lost--;
			return coll->finished[i].time_ns;
		}
	}
	return 0;
}

static void await_work(
	struct coll *coll, struct coll_thread *thread, struct coll_entry *entry, const struct coll_event *event)
{
	uint64_t work = coll_value(event, OP_FIELD_WORK), end_ns;

	if (!work) {
		if (event->end_ns)
			return;
		entry->waits |= WAIT_WORK;
		entry->announcer = thread;
		thread->announced = entry;
		return;
	}
	end_ns = finished_early(coll, work, event->start_ns);
	entry->end_ns = end_ns;
	if (end_ns)
		coll_entry_complete(entry, end_ns);
	else
		coll_entry_waits_work(coll, entry, work);
}

static bool has_its_number(const struct coll_entry *outer, const struct coll_comm *comm, const struct coll_event *event)
{
	return outer && outer->comm == comm && outer->has_seq && coll_has(event, OP_FIELD_SEQ) &&
	       outer->seq == coll_value(event, OP_FIELD_SEQ) + 1;
}

/* An inner call of the announced one. */
static bool is_inner(const struct coll_entry *outer, const struct coll_event *event)
{
	bool is_below = !event->stack_pointer || !outer->stack_pointer || event->stack_pointer < outer->stack_pointer;

	return is_below && outer->word->operation->of_others &&
	       strcasecmp(outer->word->text, event->op ? event->op : "") != 0;
}

/* An exception left the call: its number goes to the next one. */
static void coll_unwind(struct coll_entry *entry)
{
	struct coll_comm *comm = entry->comm;

	entry->unwound = true;
	if (comm->calls && comm->recent && comm->recent[(comm->calls - 1) % COLL_RECENT].seq == entry->seq)
		comm->calls--;
}

static void coll_fill(
	struct coll *coll, struct coll_thread *thread, struct coll_entry *entry, const struct coll_event *event)
{
	entry->word = coll_word(coll, event->op ? event->op : "");
	entry->p2p = event->kind == COLL_P2P;
	entry->start_ns = event->start_ns;
	entry->end_ns = event->end_ns;
	entry->fed_ns = coll->now_ns;
	entry->thread_id = event->thread_id;
	entry->stack_pointer = event->stack_pointer;
	entry->result = event->has_result ? event->result : 0;
	entry->captured = thread->captures > 0;
	if (coll_has(event, OP_FIELD_PEER) && coll_value(event, OP_FIELD_PEER) <= INT32_MAX)
		entry->peer = (int32_t)coll_value(event, OP_FIELD_PEER);
	take_fields(entry, event);
	coll_number(coll, entry, event);
}

static void coll_remember_call(struct coll_thread *thread, struct coll_entry *entry)
{
	struct coll_comm *comm = entry->comm;

	if (!comm->mixed++)
		comm->first_ns = entry->start_ns;
	if (coll_max(entry->start_ns, entry->end_ns) > comm->seen_ns)
		comm->seen_ns = coll_max(entry->start_ns, entry->end_ns);
	if (entry->start_ns > thread->newest_ns)
		thread->newest_ns = entry->start_ns;
	comm->graphs |= entry->captured;
	comm_mix_add(&comm->mix, entry->word->text, entry->count, entry->peer);
	if (entry->p2p || !entry->seq)
		return;
	coll_remember(entry);
	thread->last_family = comm->family;
	thread->last_address = comm->address;
	thread->last_comm = comm->id;
	thread->last_call = comm->calls;
}

static void coll_on_call(struct coll *coll, const struct coll_event *event)
{
	struct coll_comm *comm = coll_comm_of(coll, event);
	struct coll_thread *thread = comm ? coll_thread_of(coll, event->thread_id) : NULL;
	struct coll_entry *entry;

	if (!thread)
		return;
	if (has_its_number(thread->announced, comm, event)) {
		if (is_inner(thread->announced, event)) {
			take_fields(thread->announced, event);
			return;
		}
		coll_unwind(thread->announced);
	}
	if (thread->announced) {
		coll->counts.lost++;
		coll_entry_done(coll, thread->announced, WAIT_WORK);
	}
	if (!event->in_group && !list_empty(&thread->group))
		coll_thread_group_lost(coll, thread, UINT64_MAX);
	entry = coll_entry_new(coll);
	if (!entry)
		return;
	entry->comm = comm;
	comm->waiting++;
	coll_fill(coll, thread, entry, event);
	coll_remember_call(thread, entry);
	if (comm->family->works) {
		await_work(coll, thread, entry, event);
	} else if (event->in_group) {
		entry->waits |= WAIT_GROUP;
		list_add_tail(&thread->group, &entry->member);
	}
	if (comm->family->identified_later && !comm->identity && !comm->identify_done)
		entry->waits |= WAIT_IDENTITY;
	if (coll_number_may_come(entry))
		entry->waits |= WAIT_NUMBER;
	if (device_is_expected(coll, entry))
		coll_entry_waits_device(coll, entry);
	coll_comm_publish(coll, comm);
	coll_early_match(coll, entry);
	coll_entry_done(coll, entry, 0);
}

static void coll_on_group(struct coll *coll, const struct coll_event *event)
{
	struct coll_thread *thread = coll_thread_find(coll, event->thread_id);
	struct coll_group group = {.start_ns = event->start_ns, .thread_id = event->thread_id};
	uint64_t end_ns = coll_end_ns(event);

	if (!thread) {
		coll->counts.lost++;
		return;
	}
	coll_thread_group_lost(coll, thread, event->start_ns);
	LIST_EACH (link, &thread->group)
		group.members++;
	coll->counts.lost += !group.members;
	if (group.members > 1)
		group.group = ++coll->groups;
	group.duration_ns = end_ns > event->start_ns ? end_ns - event->start_ns : 0;
	thread->closed_ns = end_ns;
	LIST_EACH (link, &thread->group) {
		struct coll_entry *entry = CONTAINER_OF(link, struct coll_entry, member);
		uint64_t bytes = coll_entry_bytes(entry);

		if (bytes != COLL_UNKNOWN && __builtin_add_overflow(group.bytes, bytes, &group.bytes))
			group.bytes = INT64_MAX;
		entry->group = group.group;
		entry->grouped = group.members > 1;
		entry->end_ns = event->end_ns;
		entry->comm->closing_ns = 0;
		entry->comm->seen_ns = coll_max(entry->comm->seen_ns, end_ns);
		if (event->has_result && !entry->result)
			entry->result = event->result;
		list_unlink(&entry->member);
		coll_entry_done(coll, entry, WAIT_GROUP);
	}
	if (group.bytes > INT64_MAX)
		group.bytes = INT64_MAX;
	if (group.group && coll->sink.group)
		coll->sink.group(coll->sink.arg, &group);
}

static void on_work(struct coll *coll, const struct coll_event *event)
{
	struct coll_thread *thread = coll_thread_find(coll, event->thread_id);
	struct coll_entry *entry = thread ? thread->announced : NULL;
	uint64_t work = coll_value(event, OP_FIELD_WORK);

	if (!entry || !work) {
		coll->counts.lost++;
		return;
	}
	thread->announced = NULL;
	entry->announcer = NULL;
	coll_entry_waits_work(coll, entry, work);
}

static void on_finished(struct coll *coll, const struct coll_event *event)
{
	uint64_t work = coll_value(event, OP_FIELD_WORK), time_ns = coll_end_ns(event);
	struct hash_node *node = work ? hash_table_find(&coll->work, work) : NULL;
	struct coll_entry *entry;

	if (!node) {
		coll->counts.lost++;
		coll->finished[coll->finished_next].work = work;
		coll->finished[coll->finished_next].time_ns = time_ns;
		coll->finished_next = (coll->finished_next + 1) % COLL_FINISHED_MAX;
		return;
	}
	entry = CONTAINER_OF(node, struct coll_entry, by_work);
	entry->end_ns = time_ns;
	if (event->has_result)
		entry->result = event->result;
	coll_entry_complete(entry, time_ns);
	coll_entry_done(coll, entry, WAIT_WORK);
}

static void on_capture(struct coll *coll, const struct coll_event *event)
{
	struct coll_thread *thread = coll_thread_of(coll, event->thread_id);

	if (thread)
		coll_thread_capture(thread, event, event->kind == COLL_CAPTURE);
}

static void (*const handlers[])(struct coll *coll, const struct coll_event *event) = {
	[COLL_OP] = coll_on_call,
	[COLL_P2P] = coll_on_call,
	[COLL_GROUP] = coll_on_group,
	[COLL_WORK] = on_work,
	[COLL_FINISHED] = on_finished,
	[COLL_COMM] = coll_comm_made,
	[COLL_COMM_FREE] = coll_comm_freed,
	[COLL_CAPTURE] = on_capture,
	[COLL_CAPTURE_END] = on_capture,
	[COLL_GROUP_SEQ] = coll_number_group,
};
_Static_assert(COUNT_OF(handlers) == COLL_KIND_MAX, "a handler a kind");

void coll_feed(struct coll *coll, const struct coll_event *event)
{
	coll->counts.events++;
	if ((size_t)event->kind >= COUNT_OF(handlers) || !handlers[event->kind])
		return;
	if (coll_end_ns(event) > coll->now_ns)
		coll->now_ns = coll_end_ns(event);
	if (coll->flights)
		coll_flight_returned(coll, event);
	handlers[event->kind](coll, event);
}

void coll_idle(struct coll *coll, uint64_t now_ns)
{
	if (now_ns > coll->now_ns)
		coll->now_ns = now_ns;
	coll_rows_idle(coll);
}

void coll_end(struct coll *coll)
{
	coll_rows_end(coll);
}

void coll_counts(const struct coll *coll, struct coll_counts *ret)
{
	*ret = coll->counts;
}

struct coll *coll_new(const struct coll_sink *sink)
{
	struct coll *coll = calloc(1, sizeof(*coll));

	if (!coll)
		return NULL;
	coll->sink = *sink;
	list_reset(&coll->live);
	list_reset(&coll->gone);
	list_reset(&coll->threads);
	list_reset(&coll->waiting);
	list_reset(&coll->spare);
	if (hash_table_init(&coll->by_address, 1024) < 0 || hash_table_init(&coll->by_identity, 1024) < 0 ||
		hash_table_init(&coll->thread, 256) < 0 || hash_table_init(&coll->number, COLL_WAITING_MAX) < 0 ||
		hash_table_init(&coll->signature, 1024) < 0 || hash_table_init(&coll->work, COLL_WAITING_MAX) < 0 ||
		hash_table_init(&coll->peer, 1024) < 0)
		return coll_free(coll);
	return coll;
}

size_t coll_memory_bytes(const struct coll *coll)
{
	const struct hash_table *tables[] = {&coll->by_address, &coll->by_identity, &coll->thread, &coll->number,
		&coll->signature, &coll->work, &coll->peer};
	size_t bytes = sizeof(*coll);

	for (size_t i = 0; i < COUNT_OF(tables); i++)
		bytes += (tables[i]->mask + 1) * sizeof(*tables[i]->bucket);
	return bytes + coll->comms * (sizeof(struct coll_comm) + COLL_RECENT * sizeof(struct coll_signature)) +
	       coll->n_threads * sizeof(struct coll_thread) + coll->entries * sizeof(struct coll_entry) +
	       coll->peers * sizeof(struct coll_peer);
}

struct coll *coll_free(struct coll *coll)
{
	if (!coll)
		return NULL;
	coll_rows_done(coll);
	if (coll->peer.bucket)
		coll_comms_done(coll);
	coll_threads_done(coll);
	free(coll->by_address.bucket);
	free(coll->by_identity.bucket);
	free(coll->thread.bucket);
	free(coll->number.bucket);
	free(coll->signature.bucket);
	free(coll->work.bucket);
	free(coll->peer.bucket);
	free(coll);
	return NULL;
}
