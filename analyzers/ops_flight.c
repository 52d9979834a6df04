/* SPDX-License-Identifier: Apache-2.0 */
/* What is entered and not left, and where the rank stands. See ops_internal.h. */
#include "analyzers/ops_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

void ops_in_call_begin(struct ops *ops)
{
	ops->flights = 0;
	OPS_EACH (link, &ops->live)
		OPS_CONTAINER(link, struct ops_comm, used)->closing_ns = 0;
}

void ops_flight_answered(struct ops *ops, const struct ops_event *event)
{
	size_t n = 0;

	for (size_t i = 0; i < ops->flights; i++) {
		if (ops->flight[i].thread_id != event->thread_id || ops->flight[i].start_ns > event->start_ns)
			ops->flight[n++] = ops->flight[i];
	}
	ops->flights = n;
}

void ops_flight_purge(struct ops *ops, const struct ops_comm *comm)
{
	size_t n = 0;

	for (size_t i = 0; i < ops->flights; i++) {
		if (ops->flight[i].comm != comm)
			ops->flight[n++] = ops->flight[i];
	}
	ops->flights = n;
}

static void closing(struct ops *ops, const struct ops_event *event)
{
	struct ops_thread *thread = ops_thread_find(ops, event->thread_id);

	if (!thread || event->start_ns <= thread->closed_ns)
		return;
	OPS_EACH (link, &thread->group)
		OPS_CONTAINER(link, struct ops_entry, member)->comm->closing_ns = event->start_ns;
}

static uint64_t next_seq(const struct ops *ops, const struct ops_comm *comm)
{
	uint64_t seq = comm->last_seq + 1;

	for (size_t i = 0; i < ops->flights; i++)
		seq += ops->flight[i].comm == comm && !ops->flight[i].p2p;
	return seq;
}

void ops_in_call(struct ops *ops, const struct ops_event *event)
{
	const struct ops_thread *thread = ops_thread_find(ops, event->thread_id);
	struct ops_flight *flight;
	struct ops_entry entry = {.count = OPS_UNKNOWN, .given_bytes = OPS_UNKNOWN};
	uint64_t seq = ops_value(event, OP_FIELD_SEQ), value;

	if (event->kind == OPS_GROUP)
		closing(ops, event);
	if ((event->kind != OPS_OP && event->kind != OPS_P2P) || ops->flights >= OPS_IN_CALL_MAX ||
		(thread && event->start_ns <= thread->newest_ns))
		return;
	entry.comm = ops_comm_of(ops, event);
	if (!entry.comm)
		return;
	value = ops_value(event, OP_FIELD_COUNT);
	if (ops_has(event, OP_FIELD_COUNT) && value <= INT64_MAX)
		entry.count = value;
	value = ops_value(event, OP_FIELD_BYTES);
	if (ops_has(event, OP_FIELD_BYTES) && value <= INT64_MAX)
		entry.given_bytes = value;
	entry.dtype =
		ops_has(event, OP_FIELD_DTYPE) ? ops_dtype(entry.comm->family, ops_value(event, OP_FIELD_DTYPE)) : NULL;
	entry.word = ops_word(ops, event->op ? event->op : "");
	flight = &ops->flight[ops->flights];
	*flight = (struct ops_flight){.comm = entry.comm,
		.thread_id = event->thread_id,
		.start_ns = event->start_ns,
		.p2p = event->kind == OPS_P2P,
		.signature = {
			.seq = ops_has(event, OP_FIELD_SEQ) && seq < INT64_MAX ? seq + 1 : next_seq(ops, entry.comm),
			.count = entry.count,
			.bytes = ops_entry_bytes(&entry),
			.time_ns = event->start_ns,
			.word = entry.word,
			.dtype = entry.dtype}};
	if (ops_has(event, OP_FIELD_SEQ) && !entry.comm->calls)
		entry.comm->seq_from = OPS_SEQ_LIBRARY;
	ops->flights++;
	ops_comm_tell(ops, entry.comm);
}

static void coll_flight_point(struct ops_point *ret, const struct ops_signature *signature)
{
	*ret = (struct ops_point){.seq = signature->seq,
		.count = signature->count,
		.bytes = signature->bytes,
		.time_ns = signature->time_ns};
	if (signature->word)
		memcpy(ret->op, signature->word->text, sizeof(ret->op));
	snprintf(ret->dtype, sizeof(ret->dtype), "%s", signature->dtype ? signature->dtype->name : "");
}

static void coll_flight_stand(const struct ops *ops, const struct ops_comm *comm, struct ops_standing *ret)
{
	*ret = (struct ops_standing){.address = comm->address,
		.member = comm->member,
		.members = comm->members,
		.seq_from = comm->seq_from,
		.completion_known = comm->completion_known,
		.in_call_ns = comm->closing_ns};
	memcpy(ret->communicator, comm->text, sizeof(ret->communicator));
	snprintf(ret->family, sizeof(ret->family), "%s", comm->family->name);
	memcpy(ret->name, comm->name, sizeof(ret->name));
	if (comm->calls)
		coll_flight_point(&ret->entered, &comm->recent[(comm->calls - 1) % OPS_RECENT]);
	if (comm->completed.seq)
		coll_flight_point(&ret->completed, &comm->completed);
	for (size_t i = 0; i < ops->flights; i++) {
		const struct ops_flight *flight = &ops->flight[i];

		if (flight->comm != comm)
			continue;
		if (!flight->p2p && flight->signature.seq > ret->entered.seq)
			coll_flight_point(&ret->entered, &flight->signature);
		if (!ret->in_call_ns || flight->start_ns < ret->in_call_ns)
			ret->in_call_ns = flight->start_ns;
	}
}

size_t ops_standings(const struct ops *ops, struct ops_standing *ret, size_t max)
{
	size_t n = 0;

	for (const struct ops_link *link = ops->live.prev; link != &ops->live && n < max; link = link->prev)
		coll_flight_stand(ops, OPS_CONTAINER(link, struct ops_comm, used), &ret[n++]);
	return n;
}

static const struct ops_signature *coll_flight_at(const struct ops *ops, const struct ops_comm *comm, uint64_t seq)
{
	for (uint64_t back = 1; back <= comm->calls && back <= OPS_RECENT; back++) {
		const struct ops_signature *signature = &comm->recent[(comm->calls - back) % OPS_RECENT];

		if (signature->seq == seq)
			return signature;
	}
	for (size_t i = 0; i < ops->flights; i++) {
		if (ops->flight[i].comm == comm && !ops->flight[i].p2p && ops->flight[i].signature.seq == seq)
			return &ops->flight[i].signature;
	}
	return NULL;
}

bool ops_at(const struct ops *ops, const char *communicator, uint64_t seq, struct ops_point *ret)
{
	char *end;
	uint64_t identity;

	errno = 0;
	identity = strtoull(communicator, &end, 16);
	if (errno || *end || end == communicator || !seq)
		return false;
	OPS_EACH (link, ops_bucket(&ops->by_identity, identity)) {
		const struct ops_comm *comm = OPS_CONTAINER(link, struct ops_comm, by_identity.link);
		const struct ops_signature *signature;

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
