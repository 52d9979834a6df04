/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of calls, by the rules of coll.h, and the ring of recent calls. */
#include "analyzers/coll/coll_internal.h"

uint64_t coll_number_key(const struct coll_comm *comm, uint64_t seq)
{
	return hash_mix(comm->id, seq);
}

static struct coll_peer *coll_number_peer_of(struct coll *coll, struct coll_comm *comm, int32_t peer, bool receive)
{
	uint64_t key = hash_mix(comm->id, (uint64_t)(uint32_t)peer << 1 | receive);
	struct coll_peer *found;

	LIST_EACH (link, hash_table_bucket(&coll->peer, key)) {
		found = CONTAINER_OF(link, struct coll_peer, node.link);
		if (found->comm_id == comm->id && found->peer == peer && found->receive == receive)
			return found;
	}
	found = coll->peers < COLL_PEERS_MAX ? calloc(1, sizeof(*found)) : NULL;
	if (!found)
		return NULL;
	found->comm_id = comm->id;
	found->peer = peer;
	found->receive = receive;
	hash_table_put(&coll->peer, &found->node, key);
	list_add_tail(&comm->peers, &found->of_comm);
	coll->peers++;
	return found;
}

void coll_number_forget(struct coll *coll, struct coll_comm *comm)
{
	LIST_EACH (link, &comm->peers) {
		struct coll_peer *peer = CONTAINER_OF(link, struct coll_peer, of_comm);

		list_unlink(&peer->node.link);
		free(peer);
		coll->peers--;
	}
}

/* Libraries count sends and receives differently on both sides: counted here. */
static void number_p2p(struct coll *coll, struct coll_entry *entry)
{
	struct coll_peer *peer =
		coll_number_peer_of(coll, entry->comm, entry->peer, entry->word->operation->name[0] == 'R');

	entry->seq = peer ? ++peer->count : 0;
	entry->seq_from = peer && entry->peer >= 0 ? entry->comm->p2p_from : COLL_SEQ_ATTACH;
}

void coll_number(struct coll *coll, struct coll_entry *entry, const struct coll_event *event)
{
	struct coll_comm *comm = entry->comm;
	uint64_t seq = coll_value(event, OP_FIELD_SEQ);

	/* A failed call has no number. */
	entry->seq_from = COLL_SEQ_ATTACH;
	if (coll_failed(entry->result))
		return;
	if (entry->p2p) {
		number_p2p(coll, entry);
		return;
	}
	if (coll_has(event, OP_FIELD_SEQ) && seq < INT64_MAX) {
		entry->seq = seq + 1;
		entry->has_seq = true;
		comm->seq_from = COLL_SEQ_LIBRARY;
		entry->seq_from = COLL_SEQ_LIBRARY;
	} else {
		entry->seq = comm->last_seq + 1;
		/* The library's count was unreadable: this number is a guess. */
		entry->seq_from = comm->seq_from == COLL_SEQ_LIBRARY ? COLL_SEQ_ATTACH : comm->seq_from;
	}
	comm->last_seq = entry->seq;
}

void coll_remember(struct coll_entry *entry)
{
	struct coll_comm *comm = entry->comm;

	if (!comm->recent)
		comm->recent = calloc(COLL_RECENT, sizeof(*comm->recent));
	if (!comm->recent)
		return;
	comm->recent[comm->calls++ % COLL_RECENT] = (struct coll_signature){.seq = entry->seq,
		.count = entry->count,
		.bytes = coll_entry_bytes(entry),
		.time_ns = entry->start_ns,
		.word = entry->word,
		.dtype = entry->dtype};
}

/* false: out of range. */
static bool coll_number_shift(uint64_t *seq, uint64_t delta)
{
	*seq += delta;
	if (*seq && *seq <= INT64_MAX)
		return true;
	*seq = 0;
	return false;
}

/* Adds delta, modulo 2^64, to the numbers of collectives from from_seq on. */
static void coll_number_renumber(
	struct coll *coll, struct coll_comm *comm, uint64_t from_seq, uint64_t delta, enum coll_seq_from from)
{
	LIST_EACH (link, &coll->waiting) {
		struct coll_entry *entry = CONTAINER_OF(link, struct coll_entry, age);

		if (entry->comm != comm || entry->p2p || entry->has_seq || entry->seq < from_seq)
			continue;
		entry->seq_from = coll_number_shift(&entry->seq, delta) ? from : COLL_SEQ_ATTACH;
		if (list_linked(&entry->number.link)) {
			list_unlink(&entry->number.link);
			hash_table_put(&coll->number, &entry->number, coll_number_key(comm, entry->seq));
		}
	}
	for (uint64_t i = 0; comm->recent && i < comm->calls && i < COLL_RECENT; i++) {
		if (comm->recent[i].seq >= from_seq)
			coll_number_shift(&comm->recent[i].seq, delta);
	}
	if (comm->completed.seq && comm->completed.seq >= from_seq)
		coll_number_shift(&comm->completed.seq, delta);
	coll_number_shift(&comm->last_seq, delta);
	comm->seq_from = from;
	comm->sure_seq = 0;
	comm->no_number = false;
	/* The caller keeps comm alive. */
	LIST_EACH (link, &coll->waiting) {
		struct coll_entry *entry = CONTAINER_OF(link, struct coll_entry, age);

		if (entry->comm == comm && entry->waits & WAIT_NUMBER)
			coll_entry_done(coll, entry, WAIT_NUMBER);
	}
}

bool coll_number_may_come(const struct coll_entry *entry)
{
	const struct coll_comm *comm = entry->comm;

	return comm->seq_from == COLL_SEQ_ATTACH && !comm->no_number && !comm->family->works && !entry->p2p &&
	       !coll_failed(entry->result);
}

static void note_process_group(struct coll *coll, struct coll_comm *comm, const struct coll_event *event)
{
	uint64_t address = coll_value(event, OP_FIELD_PROCESS_GROUP);

	if (!address || address == comm->process_group)
		return;
	comm->process_group = address;
	comm->dirty = true;
	coll_comm_publish(coll, comm);
}

void coll_number_group(struct coll *coll, const struct coll_event *event)
{
	const struct coll_thread *thread = coll_thread_find(coll, event->thread_id);
	uint64_t seq = coll_value(event, OP_FIELD_SEQ), old;
	struct coll_comm *comm;

	comm = thread && thread->last_family ? coll_comm_find(coll, thread->last_family, thread->last_address) : NULL;
	if (!comm || comm->id != thread->last_comm)
		return;
	note_process_group(coll, comm, event);
	if (!seq || seq > INT64_MAX || !comm->recent || comm->calls - thread->last_call >= COLL_RECENT)
		return;
	old = comm->recent[(thread->last_call - 1) % COLL_RECENT].seq;
	if (comm->seq_from == COLL_SEQ_ATTACH && old > comm->sure_seq)
		coll_number_renumber(coll, comm, comm->sure_seq + 1, seq - old, COLL_SEQ_GROUP);
	else if (comm->seq_from == COLL_SEQ_GROUP && seq != old)
		coll_number_renumber(coll, comm, old, seq - old, COLL_SEQ_GROUP);
}

void coll_number_device(struct coll *coll, struct coll_entry *entry, uint64_t seq)
{
	struct coll_comm *comm = entry->comm;

	if (entry->p2p || entry->has_seq || entry->grouped || entry->waits & WAIT_GROUP || comm->graphs || !seq ||
		seq > INT64_MAX)
		return;
	/* Numbers from before a loss do not apply after it. */
	if (comm->seq_from == COLL_SEQ_ATTACH && entry->seq <= comm->sure_seq)
		return;
	if (comm->seq_from == COLL_SEQ_ATTACH || comm->seq_from == COLL_SEQ_GROUP)
		coll_number_renumber(coll, comm, comm->sure_seq + 1, seq - entry->seq, COLL_SEQ_MARKER);
	else if (seq > entry->seq)
		coll_number_renumber(coll, comm, entry->seq, seq - entry->seq, COLL_SEQ_MARKER);
}

void coll_dropped(struct coll *coll)
{
	LIST_EACH (link, &coll->live) {
		struct coll_comm *comm = CONTAINER_OF(link, struct coll_comm, used);

		comm->p2p_from = COLL_SEQ_ATTACH;
		if (comm->seq_from != COLL_SEQ_ATTACH)
			comm->sure_seq = comm->last_seq;
		if (comm->seq_from != COLL_SEQ_LIBRARY)
			comm->seq_from = COLL_SEQ_ATTACH;
	}
}
