/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that wait, and how they go out. See ops_internal.h. */
#include "analyzers/ops_internal.h"

#include <string.h>

uint64_t ops_entry_bytes(const struct ops_entry *entry)
{
	if (entry->given_bytes != OPS_UNKNOWN)
		return entry->given_bytes;
	return ops_bytes(entry->comm->family, entry->word->operation, entry->count, entry->dtype, entry->comm->members);
}

static uint64_t duration(uint64_t start_ns, uint64_t end_ns)
{
	return start_ns == OPS_UNKNOWN || end_ns == OPS_UNKNOWN || end_ns < start_ns ? OPS_UNKNOWN : end_ns - start_ns;
}

static void coll_rows_tell(struct ops *ops, const struct ops_entry *entry)
{
	uint64_t device_ns = entry->device ? duration(entry->device_start_ns, entry->device_stop_ns) : OPS_UNKNOWN;
	struct ops_row row = {.communicator = entry->comm->text,
		.seq = entry->seq,
		.seq_from = entry->seq_from,
		.family = entry->comm->family->name,
		.op = entry->word->text,
		.dtype = entry->dtype ? entry->dtype->name : "",
		.count = entry->count,
		.bytes = ops_entry_bytes(entry),
		.peer = entry->peer,
		.host_start_ns = entry->start_ns,
		.host_duration_ns = entry->end_ns ? duration(entry->start_ns, entry->end_ns) : OPS_UNKNOWN,
		.device_start_ns = device_ns != OPS_UNKNOWN ? entry->device_start_ns : OPS_UNKNOWN,
		.device_duration_ns = device_ns,
		.device = device_ns != OPS_UNKNOWN,
		.captured = entry->captured,
		.p2p = entry->p2p,
		.group = entry->group,
		.result = entry->result,
		.thread_id = entry->thread_id};

	if (ops->sink.row)
		ops->sink.row(ops->sink.arg, &row);
}

static void out(struct ops *ops, struct ops_entry *entry)
{
	struct ops_comm *comm = entry->comm;

	if (entry->announcer && entry->announcer->announced == entry)
		entry->announcer->announced = NULL;
	if (!entry->left)
		coll_rows_tell(ops, entry);
	ops_unlink(&entry->age);
	ops_unlink(&entry->member);
	ops_unlink(&entry->number.link);
	ops_unlink(&entry->signature.link);
	ops_unlink(&entry->by_work.link);
	ops_append(&ops->spare, &entry->age);
	ops->n_waiting--;
	ops_comm_unref(ops, comm);
}

struct ops_entry *ops_entry_new(struct ops *ops)
{
	struct ops_entry *entry;

	if (ops->n_waiting >= OPS_WAITING_MAX) {
		entry = OPS_CONTAINER(ops->waiting.next, struct ops_entry, age);
		/* What waits for something that may well not exist has lost nothing that is known of. */
		ops->counts.not_waited += (entry->waits & ~(WAIT_NUMBER | (entry->trial ? WAIT_DEVICE : 0u))) != 0;
		out(ops, entry);
	}
	if (ops_list_empty(&ops->spare)) {
		entry = malloc(sizeof(*entry));
		if (!entry)
			return NULL;
	} else {
		entry = OPS_CONTAINER(ops->spare.next, struct ops_entry, age);
		ops_unlink(&entry->age);
	}
	memset(entry, 0, sizeof(*entry));
	entry->id = ++ops->next_entry;
	entry->given_bytes = entry->count = OPS_UNKNOWN;
	entry->device_start_ns = entry->device_stop_ns = OPS_UNKNOWN;
	entry->peer = -1;
	ops_append(&ops->waiting, &entry->age);
	ops->n_waiting++;
	return entry;
}

void ops_entry_waits_work(struct ops *ops, struct ops_entry *entry, uint64_t work)
{
	struct ops_node *old = ops_hash_find(&ops->work, work);

	/* The end of the one that had this address before was not seen. */
	if (old) {
		ops->counts.lost++;
		ops_entry_done(ops, OPS_CONTAINER(old, struct ops_entry, by_work), WAIT_WORK);
	}
	entry->waits |= WAIT_WORK;
	ops_hash_put(&ops->work, &entry->by_work, work);
}

void ops_entry_waits_device(struct ops *ops, struct ops_entry *entry)
{
	entry->waits |= WAIT_DEVICE;
	entry->trial = !entry->comm->waits_device;
	if (!entry->p2p)
		ops_hash_put(&ops->number, &entry->number, ops_number_key(entry->comm, entry->seq));
	ops_hash_put(&ops->signature, &entry->signature,
		ops_mix(ops_mix(entry->comm->id, entry->word->hash), (uint32_t)entry->peer));
}

void ops_entry_done(struct ops *ops, struct ops_entry *entry, unsigned wait)
{
	entry->waits &= ~wait;
	if (wait & WAIT_WORK) {
		ops_unlink(&entry->by_work.link);
		if (entry->announcer && entry->announcer->announced == entry)
			entry->announcer->announced = NULL;
		entry->announcer = NULL;
	}
	if (wait & WAIT_DEVICE) {
		ops_unlink(&entry->number.link);
		ops_unlink(&entry->signature.link);
	}
	if (!entry->waits)
		out(ops, entry);
}

/* Works may end in any order: the highest number that is complete counts. */
void ops_entry_complete(struct ops_entry *entry, uint64_t time_ns)
{
	struct ops_comm *comm = entry->comm;

	comm->completion_known = true;
	if (entry->p2p || entry->seq < comm->completed.seq)
		return;
	comm->completed = (struct ops_signature){.seq = entry->seq,
		.count = entry->count,
		.bytes = ops_entry_bytes(entry),
		.time_ns = time_ns,
		.word = entry->word,
		.dtype = entry->dtype};
}

static bool coll_rows_past(uint64_t since_ns, uint64_t wait_ns, uint64_t now_ns)
{
	return now_ns > since_ns && now_ns - since_ns > wait_ns;
}

static bool device_is_overdue(const struct ops *ops, const struct ops_entry *entry)
{
	const struct ops_comm *comm = entry->comm;
	uint64_t since_ns = entry->fed_ns;

	if (entry->trial)
		return comm->no_device || coll_rows_past(ops_max(since_ns, comm->freed_ns), OPS_NUMBER_NS, ops->now_ns);
	if (comm->freed_ns)
		return coll_rows_past(ops_max(comm->device_ns, comm->freed_ns), OPS_FREED_WAIT_NS, ops->now_ns);
	/* The device has not come so far while it does what was called before. */
	if (comm->device_ns > since_ns && (entry->p2p || entry->seq > comm->device_seq))
		since_ns = comm->device_ns;
	return coll_rows_past(since_ns, OPS_WAIT_NS, ops->now_ns);
}

/* Which of its waits have been long enough. */
static unsigned overdue(const struct ops *ops, const struct ops_entry *entry)
{
	uint64_t now_ns = ops->now_ns, since_ns = entry->fed_ns;
	uint64_t work_ns = ops_linked(&entry->by_work.link) ? OPS_STUCK_NS : OPS_WAIT_NS;
	unsigned waits = 0;

	if (coll_rows_past(since_ns, OPS_IDENTIFY_NS, now_ns))
		waits |= WAIT_IDENTITY;
	if (coll_rows_past(since_ns, OPS_STUCK_NS, now_ns))
		waits |= WAIT_GROUP;
	if (coll_rows_past(since_ns, work_ns, now_ns))
		waits |= WAIT_WORK;
	if (entry->comm->no_number || coll_rows_past(since_ns, OPS_NUMBER_NS, now_ns))
		waits |= WAIT_NUMBER;
	if (device_is_overdue(ops, entry))
		waits |= WAIT_DEVICE;
	return waits & entry->waits;
}

/* No records any more, or none ever: the next calls need not wait until one comes. */
static void waited_in_vain(struct ops *ops, const struct ops_entry *entry, unsigned waits)
{
	struct ops_comm *comm = entry->comm;

	comm->no_number |= (waits & WAIT_NUMBER) != 0;
	if (waits & WAIT_DEVICE && coll_rows_past(comm->device_ns, entry->trial ? 0 : OPS_WAIT_NS, ops->now_ns)) {
		comm->waits_device = false;
		comm->no_device = true;
		ops->no_marker = !ops->marker;
	}
}

void ops_rows_idle(struct ops *ops)
{
	OPS_EACH (link, &ops->waiting) {
		struct ops_entry *entry = OPS_CONTAINER(link, struct ops_entry, age);
		unsigned waits = overdue(ops, entry);

		if (!waits)
			continue;
		waited_in_vain(ops, entry, waits);
		if (waits & WAIT_GROUP) {
			ops->counts.lost++;
			ops_unlink(&entry->member);
		}
		ops_entry_done(ops, entry, waits);
	}
}

void ops_rows_end(struct ops *ops)
{
	while (!ops_list_empty(&ops->waiting))
		out(ops, OPS_CONTAINER(ops->waiting.next, struct ops_entry, age));
}

void ops_rows_done(struct ops *ops)
{
	OPS_EACH (link, &ops->waiting)
		free(OPS_CONTAINER(link, struct ops_entry, age));
	OPS_EACH (link, &ops->spare)
		free(OPS_CONTAINER(link, struct ops_entry, age));
}
