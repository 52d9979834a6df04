/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of a rank: open groups, announced calls, captures; calls in flight and standings. */
#include "analyzers/coll/coll_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

void coll_in_call_begin(struct coll *coll)
{
	coll->flights = 0;
	LIST_EACH (link, &coll->live)
		CONTAINER_OF(link, struct coll_comm, used)->closing_ns = 0;
}

void coll_flight_returned(struct coll *coll, const struct coll_event *event)
{
	size_t n = 0;

	for (size_t i = 0; i < coll->flights; i++) {
		if (coll->flight[i].thread_id != event->thread_id || coll->flight[i].start_ns > event->start_ns)
			coll->flight[n++] = coll->flight[i];
	}
	coll->flights = n;
}

void coll_flight_purge(struct coll *coll, const struct coll_comm *comm)
{
	size_t n = 0;

	for (size_t i = 0; i < coll->flights; i++) {
		if (coll->flight[i].comm != comm)
			coll->flight[n++] = coll->flight[i];
	}
	coll->flights = n;
}

static void coll_flight_closing(struct coll *coll, const struct coll_event *event)
{
	struct coll_thread *thread = coll_thread_find(coll, event->thread_id);

	if (!thread || event->start_ns <= thread->closed_ns)
		return;
	LIST_EACH (link, &thread->group)
		CONTAINER_OF(link, struct coll_entry, member)->comm->closing_ns = event->start_ns;
}

static uint64_t next_seq(const struct coll *coll, const struct coll_comm *comm)
{
	uint64_t seq = comm->last_seq + 1;

	for (size_t i = 0; i < coll->flights; i++)
		seq += coll->flight[i].comm == comm && !coll->flight[i].p2p;
	return seq;
}

void coll_in_call(struct coll *coll, const struct coll_event *event)
{
	const struct coll_thread *thread = coll_thread_find(coll, event->thread_id);
	struct coll_flight *flight;
	struct coll_entry entry = {.count = COLL_UNKNOWN, .given_bytes = COLL_UNKNOWN};
	uint64_t seq = coll_value(event, OP_FIELD_SEQ), value;

	if (event->kind == COLL_GROUP)
		coll_flight_closing(coll, event);
	if ((event->kind != COLL_OP && event->kind != COLL_P2P) || coll->flights >= COLL_IN_CALL_MAX ||
		(thread && event->start_ns <= thread->newest_ns))
		return;
	entry.comm = coll_comm_of(coll, event);
	if (!entry.comm)
		return;
	value = coll_value(event, OP_FIELD_COUNT);
	if (coll_has(event, OP_FIELD_COUNT) && value <= INT64_MAX)
		entry.count = value;
	value = coll_value(event, OP_FIELD_BYTES);
	if (coll_has(event, OP_FIELD_BYTES) && value <= INT64_MAX)
		entry.given_bytes = value;
	entry.dtype = coll_has(event, OP_FIELD_DTYPE)
			      ? coll_dtype(entry.comm->family, coll_value(event, OP_FIELD_DTYPE))
			      : NULL;
	entry.word = coll_word(coll, event->op ? event->op : "");
	flight = &coll->flight[coll->flights];
	*flight = (struct coll_flight){.comm = entry.comm,
		.thread_id = event->thread_id,
		.start_ns = event->start_ns,
		.p2p = event->kind == COLL_P2P,
		.signature = {
			.seq = coll_has(event, OP_FIELD_SEQ) && seq < INT64_MAX ? seq + 1 : next_seq(coll, entry.comm),
			.count = entry.count,
			.bytes = coll_entry_bytes(&entry),
			.time_ns = event->start_ns,
			.word = entry.word,
			.dtype = entry.dtype}};
	if (coll_has(event, OP_FIELD_SEQ) && !entry.comm->calls)
		entry.comm->seq_from = COLL_SEQ_LIBRARY;
	coll->flights++;
	coll_comm_publish(coll, entry.comm);
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

static void coll_flight_stand(const struct coll *coll, const struct coll_comm *comm, struct coll_standing *ret)
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
	for (size_t i = 0; i < coll->flights; i++) {
		const struct coll_flight *flight = &coll->flight[i];

		if (flight->comm != comm)
			continue;
		if (!flight->p2p && flight->signature.seq > ret->entered.seq)
			coll_flight_point(&ret->entered, &flight->signature);
		if (!ret->in_call_ns || flight->start_ns < ret->in_call_ns)
			ret->in_call_ns = flight->start_ns;
	}
}

size_t coll_standings(const struct coll *coll, struct coll_standing *ret, size_t max)
{
	size_t n = 0;

	for (const struct list_link *link = coll->live.prev; link != &coll->live && n < max; link = link->prev)
		coll_flight_stand(coll, CONTAINER_OF(link, struct coll_comm, used), &ret[n++]);
	return n;
}

static const struct coll_signature *coll_flight_at(const struct coll *coll, const struct coll_comm *comm, uint64_t seq)
{
	for (uint64_t back = 1; back <= comm->calls && back <= COLL_RECENT; back++) {
		const struct coll_signature *signature = &comm->recent[(comm->calls - back) % COLL_RECENT];

		if (signature->seq == seq)
			return signature;
	}
	for (size_t i = 0; i < coll->flights; i++) {
		if (coll->flight[i].comm == comm && !coll->flight[i].p2p && coll->flight[i].signature.seq == seq)
			return &coll->flight[i].signature;
	}
	return NULL;
}

bool coll_at(const struct coll *coll, const char *communicator, uint64_t seq, struct coll_point *ret)
{
	char *end;
	uint64_t identity;

	errno = 0;
	identity = strtoull(communicator, &end, 16);
	if (errno || *end || end == communicator || !seq)
		return false;
	LIST_EACH (link, hash_table_bucket(&coll->by_identity, identity)) {
		const struct coll_comm *comm = CONTAINER_OF(link, struct coll_comm, by_identity.link);
		const struct coll_signature *signature;

		if (comm->identity != identity || !comm->live)
			continue;
		signature = coll_flight_at(coll, comm, seq);
		if (signature) {
			coll_flight_point(ret, signature);
			return true;
		}
	}
	return false;
}

struct coll_thread *coll_thread_find(const struct coll *coll, uint32_t id)
{
	struct hash_node *node = hash_table_find(&coll->thread, id);

	return node ? CONTAINER_OF(node, struct coll_thread, node) : NULL;
}

void coll_thread_group_lost(struct coll *coll, struct coll_thread *thread, uint64_t before_ns)
{
	while (!list_empty(&thread->group)) {
		struct coll_entry *entry = CONTAINER_OF(thread->group.next, struct coll_entry, member);

		if (entry->start_ns >= before_ns)
			break;
		coll->counts.lost++;
		list_unlink(&entry->member);
		coll_entry_done(coll, entry, WAIT_GROUP);
	}
}

static void coll_threads_forget(struct coll *coll, struct coll_thread *thread)
{
	coll_thread_group_lost(coll, thread, UINT64_MAX);
	/* A forged start of UINT64_MAX survives the call above. */
	while (!list_empty(&thread->group)) {
		struct coll_entry *entry = CONTAINER_OF(thread->group.next, struct coll_entry, member);

		list_unlink(&entry->member);
		coll_entry_done(coll, entry, WAIT_GROUP);
	}
	if (thread->announced)
		coll_entry_done(coll, thread->announced, WAIT_WORK);
	list_unlink(&thread->node.link);
	list_unlink(&thread->used);
	free(thread);
	coll->n_threads--;
}

struct coll_thread *coll_thread_of(struct coll *coll, uint32_t id)
{
	struct coll_thread *thread = coll_thread_find(coll, id);

	if (!thread) {
		if (coll->n_threads >= COLL_THREADS_MAX)
			coll_threads_forget(coll, CONTAINER_OF(coll->threads.next, struct coll_thread, used));
		thread = calloc(1, sizeof(*thread));
		if (!thread)
			return NULL;
		list_reset(&thread->group);
		hash_table_put(&coll->thread, &thread->node, id);
		coll->n_threads++;
	}
	list_unlink(&thread->used);
	list_add_tail(&coll->threads, &thread->used);
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

void coll_threads_done(struct coll *coll)
{
	LIST_EACH (link, &coll->threads)
		free(CONTAINER_OF(link, struct coll_thread, used));
}
