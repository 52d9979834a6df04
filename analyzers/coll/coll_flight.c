/* SPDX-License-Identifier: Apache-2.0 */
/* What the threads of a rank are in the middle of: groups, announced calls, recordings of graphs. See coll_internal.h.
 */
#include "analyzers/coll/coll_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* What is entered and not left, and where the rank stands. See coll_internal.h. */

void coll_in_call_begin(struct coll *ops)
{
	ops->flights = 0;
	COLL_EACH (link, &ops->live)
		COLL_CONTAINER(link, struct coll_comm, used)->closing_ns = 0;
}

void coll_flight_answered(struct coll *ops, const struct coll_event *event)
{
	size_t n = 0;

	for (size_t i = 0; i < ops->flights; i++) {
		if (ops->flight[i].thread_id != event->thread_id || ops->flight[i].start_ns > event->start_ns)
			ops->flight[n++] = ops->flight[i];
	}
	ops->flights = n;
}

void coll_flight_purge(struct coll *ops, const struct coll_comm *comm)
{
	size_t n = 0;

	for (size_t i = 0; i < ops->flights; i++) {
		if (ops->flight[i].comm != comm)
			ops->flight[n++] = ops->flight[i];
	}
	ops->flights = n;
}

static void closing(struct coll *ops, const struct coll_event *event)
{
	struct coll_thread *thread = coll_thread_find(ops, event->thread_id);

	if (!thread || event->start_ns <= thread->closed_ns)
		return;
	COLL_EACH (link, &thread->group)
		COLL_CONTAINER(link, struct coll_entry, member)->comm->closing_ns = event->start_ns;
}

static uint64_t next_seq(const struct coll *ops, const struct coll_comm *comm)
{
	uint64_t seq = comm->last_seq + 1;

	for (size_t i = 0; i < ops->flights; i++)
		seq += ops->flight[i].comm == comm && !ops->flight[i].p2p;
	return seq;
}

void coll_in_call(struct coll *ops, const struct coll_event *event)
{
	const struct coll_thread *thread = coll_thread_find(ops, event->thread_id);
	struct coll_flight *flight;
	struct coll_entry entry = {.count = COLL_UNKNOWN, .given_bytes = COLL_UNKNOWN};
	uint64_t seq = coll_value(event, OP_FIELD_SEQ), value;

	if (event->kind == COLL_GROUP)
		closing(ops, event);
	if ((event->kind != COLL_OP && event->kind != COLL_P2P) || ops->flights >= COLL_IN_CALL_MAX ||
		(thread && event->start_ns <= thread->newest_ns))
		return;
	entry.comm = coll_comm_of(ops, event);
	if (!entry.comm)
		return;
	value = coll_value(event, OP_FIELD_COUNT);
	if (coll_has(event, OP_FIELD_COUNT) && value <= INT64_MAX)
		entry.count = value;
	value = coll_value(event, OP_FIELD_BYTES);
	if (coll_has(event, OP_FIELD_BYTES) && value <= INT64_MAX)
		entry.given_bytes = value;
	entry.dtype =
		coll_has(event, OP_FIELD_DTYPE) ? coll_dtype(entry.comm->family, coll_value(event, OP_FIELD_DTYPE)) : NULL;
	entry.word = coll_word(ops, event->op ? event->op : "");
	flight = &ops->flight[ops->flights];
	*flight = (struct coll_flight){.comm = entry.comm,
		.thread_id = event->thread_id,
		.start_ns = event->start_ns,
		.p2p = event->kind == COLL_P2P,
		.signature = {
			.seq = coll_has(event, OP_FIELD_SEQ) && seq < INT64_MAX ? seq + 1 : next_seq(ops, entry.comm),
			.count = entry.count,
			.bytes = coll_entry_bytes(&entry),
			.time_ns = event->start_ns,
			.word = entry.word,
			.dtype = entry.dtype}};
	if (coll_has(event, OP_FIELD_SEQ) && !entry.comm->calls)
		entry.comm->seq_from = COLL_SEQ_LIBRARY;
	ops->flights++;
	coll_comm_tell(ops, entry.comm);
}

static void coll_flight_point(struct coll_point *ret, const struct coll_signature *signature)
{
	*ret = (struct coll_point){.seq = signature->seq,
		.count = signature->count,
		.bytes = signature->bytes,
		.time_ns = signature->time_ns};
	if (signature->word)
		memcpy(ret->op, signature->word->text, sizeof(ret->op));
	snprintf(ret->dtype, sizeof(ret->dtype), "%s", signature->dtype ? signature->dtype->name : "");
}

static void coll_flight_stand(const struct coll *ops, const struct coll_comm *comm, struct coll_standing *ret)
{
	*ret = (struct coll_standing){.address = comm->address,
		.member = comm->member,
		.members = comm->members,
		.seq_from = comm->seq_from,
		.completion_known = comm->completion_known,
		.in_call_ns = comm->closing_ns};
	memcpy(ret->communicator, comm->text, sizeof(ret->communicator));
	snprintf(ret->family, sizeof(ret->family), "%s", comm->family->name);
	memcpy(ret->name, comm->name, sizeof(ret->name));
	if (comm->calls)
		coll_flight_point(&ret->entered, &comm->recent[(comm->calls - 1) % COLL_RECENT]);
	if (comm->completed.seq)
		coll_flight_point(&ret->completed, &comm->completed);
	for (size_t i = 0; i < ops->flights; i++) {
		const struct coll_flight *flight = &ops->flight[i];

		if (flight->comm != comm)
			continue;
		if (!flight->p2p && flight->signature.seq > ret->entered.seq)
			coll_flight_point(&ret->entered, &flight->signature);
		if (!ret->in_call_ns || flight->start_ns < ret->in_call_ns)
			ret->in_call_ns = flight->start_ns;
	}
}

size_t coll_standings(const struct coll *ops, struct coll_standing *ret, size_t max)
{
	size_t n = 0;

	for (const struct coll_link *link = ops->live.prev; link != &ops->live && n < max; link = link->prev)
		coll_flight_stand(ops, COLL_CONTAINER(link, struct coll_comm, used), &ret[n++]);
	return n;
}

static const struct coll_signature *coll_flight_at(const struct coll *ops, const struct coll_comm *comm, uint64_t seq)
{
	for (uint64_t back = 1; back <= comm->calls && back <= COLL_RECENT; back++) {
		const struct coll_signature *signature = &comm->recent[(comm->calls - back) % COLL_RECENT];

		if (signature->seq == seq)
			return signature;
	}
	for (size_t i = 0; i < ops->flights; i++) {
		if (ops->flight[i].comm == comm && !ops->flight[i].p2p && ops->flight[i].signature.seq == seq)
			return &ops->flight[i].signature;
	}
	return NULL;
}

bool coll_at(const struct coll *ops, const char *communicator, uint64_t seq, struct coll_point *ret)
{
	char *end;
	uint64_t identity;

	errno = 0;
	identity = strtoull(communicator, &end, 16);
	if (errno || *end || end == communicator || !seq)
		return false;
	COLL_EACH (link, coll_bucket(&ops->by_identity, identity)) {
		const struct coll_comm *comm = COLL_CONTAINER(link, struct coll_comm, by_identity.link);
		const struct coll_signature *signature;

		if (comm->identity != identity || !comm->live)
			continue;
		signature = coll_flight_at(ops, comm, seq);
		if (signature) {
			coll_flight_point(ret, signature);
			return true;
		}
	}
	return false;
}

struct coll_thread *coll_thread_find(const struct coll *ops, uint32_t id)
{
	struct coll_node *node = coll_hash_find(&ops->thread, id);

	return node ? COLL_CONTAINER(node, struct coll_thread, node) : NULL;
}

void coll_thread_group_lost(struct coll *ops, struct coll_thread *thread, uint64_t before_ns)
{
	while (!coll_list_empty(&thread->group)) {
		struct coll_entry *entry = COLL_CONTAINER(thread->group.next, struct coll_entry, member);

		if (entry->start_ns >= before_ns)
			break;
		ops->counts.lost++;
		coll_unlink(&entry->member);
		coll_entry_done(ops, entry, WAIT_GROUP);
	}
}

static void coll_threads_forget(struct coll *ops, struct coll_thread *thread)
{
	coll_thread_group_lost(ops, thread, UINT64_MAX);
	/* A start of UINT64_MAX is a lie that the loop above leaves. */
	while (!coll_list_empty(&thread->group)) {
		struct coll_entry *entry = COLL_CONTAINER(thread->group.next, struct coll_entry, member);

		coll_unlink(&entry->member);
		coll_entry_done(ops, entry, WAIT_GROUP);
	}
	if (thread->announced)
		coll_entry_done(ops, thread->announced, WAIT_WORK);
	coll_unlink(&thread->node.link);
	coll_unlink(&thread->used);
	free(thread);
	ops->n_threads--;
}

struct coll_thread *coll_thread_of(struct coll *ops, uint32_t id)
{
	struct coll_thread *thread = coll_thread_find(ops, id);

	if (!thread) {
		if (ops->n_threads >= COLL_THREADS_MAX)
			coll_threads_forget(ops, COLL_CONTAINER(ops->threads.next, struct coll_thread, used));
		thread = calloc(1, sizeof(*thread));
		if (!thread)
			return NULL;
		coll_list_init(&thread->group);
		coll_hash_put(&ops->thread, &thread->node, id);
		ops->n_threads++;
	}
	coll_unlink(&thread->used);
	coll_append(&ops->threads, &thread->used);
	return thread;
}

void coll_thread_capture(struct coll_thread *thread, const struct coll_event *event, bool begins)
{
	uint64_t stream = coll_value(event, OP_FIELD_STREAM);
	unsigned at = 0;

	while (at < thread->captures && thread->capture[at] != stream)
		at++;
	if (begins) {
		if (at < COLL_CAPTURES_MAX && !(event->has_result && event->result)) {
			thread->capture[at] = stream;
			thread->captures += at == thread->captures;
		}
	} else if (at < thread->captures) {
		thread->capture[at] = thread->capture[--thread->captures];
	}
}

void coll_threads_done(struct coll *ops)
{
	COLL_EACH (link, &ops->threads)
		free(COLL_CONTAINER(link, struct coll_thread, used));
}
