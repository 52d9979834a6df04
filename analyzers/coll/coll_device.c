/* SPDX-License-Identifier: Apache-2.0 */
/* Device records to the calls that they belong to, by the rules of coll.h. See coll_internal.h. */
#include "analyzers/coll/coll_internal.h"

#include <string.h>

#define UNIDENTIFIED_WALK_MAX 16

static int32_t coll_device_peer_of(const struct coll_device *device)
{
	return device->peer < 0 ? -1 : device->peer;
}

/* NCCL's records count some operations in bytes. */
static bool same_call(const struct coll_entry *entry, const struct coll_device *device, uint64_t hash)
{
	return entry->word->hash == hash && entry->peer == coll_device_peer_of(device) && !entry->captured &&
	       (entry->count == COLL_UNKNOWN || entry->count == device->count ||
		       coll_entry_bytes(entry) == device->count);
}

static bool in_call(const struct coll_entry *entry, const struct coll_device *device)
{
	if (!device->host_ns)
		return true;
	/* Its group is open still: the end is not known. A call that does not block gives it to the device later. */
	return device->host_ns >= entry->start_ns &&
	       (entry->waits & WAIT_GROUP || !entry->end_ns || entry->result || device->host_ns <= entry->end_ns);
}

static struct coll_entry *coll_device_by_number(
	struct coll *ops, struct coll_comm *comm, const struct coll_device *device, uint64_t hash)
{
	uint64_t key = coll_number_key(comm, device->seq);

	if (!device->seq || comm->graphs || comm->seq_from == COLL_SEQ_ATTACH || comm->seq_from == COLL_SEQ_GROUP)
		return NULL;
	COLL_EACH (link, coll_bucket(&ops->number, key)) {
		struct coll_entry *entry = COLL_CONTAINER(link, struct coll_entry, number.link);

		if (entry->comm == comm && entry->seq == device->seq && same_call(entry, device, hash) &&
			in_call(entry, device))
			return entry;
	}
	return NULL;
}

static struct coll_entry *by_signature(
	struct coll *ops, const struct coll_comm *comm, const struct coll_device *device, uint64_t hash)
{
	uint64_t key = coll_mix(coll_mix(comm->id, hash), (uint32_t)coll_device_peer_of(device));
	unsigned walked = 0;

	COLL_EACH (link, coll_bucket(&ops->signature, key)) {
		struct coll_entry *entry = COLL_CONTAINER(link, struct coll_entry, signature.link);

		if (entry->comm == comm && same_call(entry, device, hash) && in_call(entry, device))
			return entry;
		if (++walked >= COLL_WALK_MAX)
			break;
	}
	return NULL;
}

static struct coll_entry *of_comm(struct coll *ops, struct coll_comm *comm, const struct coll_device *device, uint64_t hash)
{
	struct coll_entry *entry = coll_device_by_number(ops, comm, device, hash);

	return entry ? entry : by_signature(ops, comm, device, hash);
}

/* A communicator that is gone may have the identity of one that lives. */
static struct coll_entry *of_identified(
	struct coll *ops, struct coll_comm *first, const struct coll_device *device, uint64_t hash)
{
	struct coll_entry *entry = of_comm(ops, first, device, hash);

	if (entry)
		return entry;
	COLL_EACH (link, coll_bucket(&ops->by_identity, device->identity)) {
		struct coll_comm *comm = COLL_CONTAINER(link, struct coll_comm, by_identity.link);

		entry = comm != first && coll_comm_fits(comm, device) ? of_comm(ops, comm, device, hash) : NULL;
		if (entry)
			return entry;
	}
	return NULL;
}

/* A communicator whose identity nothing else tells: the record of one of its calls does. */
static struct coll_entry *of_unidentified(struct coll *ops, const struct coll_device *device, uint64_t hash)
{
	unsigned walked = 0;

	if (!ops->unidentified || !device->host_ns)
		return NULL;
	for (struct coll_link *link = ops->live.prev; link != &ops->live && walked < UNIDENTIFIED_WALK_MAX;
		link = link->prev) {
		struct coll_comm *comm = COLL_CONTAINER(link, struct coll_comm, used);
		struct coll_entry *entry;

		if (comm->identity || !comm->address || !comm->family->device)
			continue;
		walked++;
		entry = by_signature(ops, comm, device, hash);
		if (entry && !(entry->waits & WAIT_GROUP))
			return entry;
	}
	return NULL;
}

/* Its first record, or the first one after a silence: rows that have been waiting to see whether one comes wait on. */
static void device_tells(struct coll *ops, struct coll_comm *comm)
{
	COLL_EACH (link, &ops->waiting) {
		struct coll_entry *entry = COLL_CONTAINER(link, struct coll_entry, age);

		if (entry->comm == comm)
			entry->trial = false;
	}
	comm->no_device = false;
}

static void coll_device_note(struct coll *ops, struct coll_comm *comm, const struct coll_device *device)
{
	if (!comm->waits_device)
		device_tells(ops, comm);
	comm->waits_device = comm->family->device;
	comm->device_ns = ops->now_ns;
	if (!comm->members)
		coll_comm_members(comm, device->member, device->members);
	if (!comm->name[0] && device->name && device->name[0]) {
		coll_text(comm->name, sizeof(comm->name), device->name);
		comm->dirty = true;
	}
}

/* The rank has the library that makes them: each communicator waits for its first one as for any. */
static void expect(struct coll *ops)
{
	COLL_EACH (link, &ops->live) {
		struct coll_comm *comm = COLL_CONTAINER(link, struct coll_comm, used);

		if (comm->waits_device || comm->no_device || !comm->family->device)
			continue;
		device_tells(ops, comm);
		comm->waits_device = true;
	}
	ops->marker = true;
	ops->no_marker = false;
}

/* A launch of a recorded graph: there is no call. */
static void tell_graph(struct coll *ops, struct coll_comm *comm, const struct coll_device *device)
{
	bool known = device->start_ns != COLL_UNKNOWN && device->stop_ns != COLL_UNKNOWN &&
		     device->stop_ns >= device->start_ns;
	char op[COLL_NAME_BYTES], dtype[16];
	struct coll_row row = {.communicator = comm->text,
		.seq_from = COLL_SEQ_ATTACH,
		.family = comm->family->name,
		.op = op,
		.dtype = dtype,
		.count = device->count <= INT64_MAX ? device->count : COLL_UNKNOWN,
		.bytes = COLL_UNKNOWN,
		.peer = coll_device_peer_of(device),
		.host_start_ns = device->host_ns,
		.host_duration_ns = COLL_UNKNOWN,
		.device_start_ns = known ? device->start_ns : COLL_UNKNOWN,
		.device_duration_ns = known ? device->stop_ns - device->start_ns : COLL_UNKNOWN,
		.device = known,
		.captured = true,
		.p2p = device->peer >= 0};

	coll_text(op, sizeof(op), device->op);
	coll_text(dtype, sizeof(dtype), device->dtype);
	comm->graphs = true;
	if (ops->sink.row && !device->open)
		ops->sink.row(ops->sink.arg, &row);
}

static void apply(struct coll *ops, struct coll_entry *entry, const struct coll_device *device)
{
	struct coll_comm *comm = entry->comm;

	coll_number_device(ops, entry, device->seq);
	if (device->open) {
		entry->fed_ns = ops->now_ns;
		return;
	}
	entry->device = true;
	entry->device_start_ns = device->start_ns;
	entry->device_stop_ns = device->stop_ns;
	if (!entry->p2p && entry->seq > comm->device_seq)
		comm->device_seq = entry->seq;
	if (device->stop_ns != COLL_UNKNOWN)
		coll_entry_complete(entry, device->stop_ns);
	coll_comm_tell(ops, comm);
	coll_entry_done(ops, entry, WAIT_DEVICE);
}

/* Kept until its call or its communicator turns up; the oldest one goes where there is no room. */
static void coll_device_keep(struct coll *ops, const struct coll_device *device)
{
	struct coll_early *early = &ops->early[ops->early_next];

	ops->early_next = (ops->early_next + 1) % COLL_EARLY_MAX;
	ops->early_used += !early->came_ns;
	early->device = *device;
	early->came_ns = ops->now_ns ? ops->now_ns : 1;
	coll_text(early->name, sizeof(early->name), device->name);
	coll_text(early->op, sizeof(early->op), device->op);
	coll_text(early->dtype, sizeof(early->dtype), device->dtype);
	early->device.name = early->name;
	early->device.op = early->op;
	early->device.dtype = early->dtype;
}

static void coll_device_drop(struct coll *ops, struct coll_early *early)
{
	early->came_ns = 0;
	ops->early_used--;
}

void coll_early_entry(struct coll *ops, struct coll_entry *entry)
{
	if (!ops->early_used || !(entry->waits & WAIT_DEVICE))
		return;
	for (size_t i = 0; i < COLL_EARLY_MAX; i++) {
		struct coll_early *early = &ops->early[i];

		if (!early->came_ns || early->device.identity != entry->comm->identity ||
			!same_call(entry, &early->device, coll_word_hash(early->op)) || !in_call(entry, &early->device))
			continue;
		coll_device_drop(ops, early);
		/* The entry stays the caller's: it may not go out here. */
		entry->waits |= WAIT_CALLER;
		apply(ops, entry, &early->device);
		entry->waits &= ~WAIT_CALLER;
		return;
	}
}

void coll_early_comm(struct coll *ops, struct coll_comm *comm)
{
	for (size_t i = 0; ops->early_used && i < COLL_EARLY_MAX; i++) {
		struct coll_early *early = &ops->early[i];

		if (!early->came_ns || early->device.identity != comm->identity)
			continue;
		coll_device_note(ops, comm, &early->device);
		if (!early->op[0])
			coll_device_drop(ops, early);
	}
}

/* No call explains it: it is early, or late, or its call was before all that was seen. */
static void unexplained(struct coll *ops, const struct coll_comm *comm, const struct coll_device *device)
{
	if (device->open)
		return;
	if (device->host_ns && (!comm || device->host_ns > comm->seen_ns))
		coll_device_keep(ops, device);
	else
		ops->counts.late += comm && comm->mixed && (!device->host_ns || device->host_ns >= comm->first_ns);
}

void coll_feed_device(struct coll *ops, const struct coll_device *device)
{
	struct coll_comm *comm;
	struct coll_entry *entry;
	uint64_t hash;

	ops->counts.events++;
	if (!device->identity) {
		if (!device->op || !device->op[0])
			expect(ops);
		return;
	}
	ops->marker = true;
	ops->no_marker = false;
	comm = coll_comm_by_identity(ops, device);
	if (comm)
		coll_device_note(ops, comm, device);
	if (!device->op || !device->op[0] || (comm && device->captured)) {
		if (comm && device->captured && device->op && device->op[0])
			tell_graph(ops, comm, device);
		else if (!comm)
			coll_device_keep(ops, device);
		if (comm)
			coll_comm_tell(ops, comm);
		return;
	}
	hash = coll_word_hash(device->op);
	if (comm) {
		entry = of_identified(ops, comm, device, hash);
		if (entry && entry->comm != comm)
			coll_device_note(ops, entry->comm, device);
	} else {
		entry = of_unidentified(ops, device, hash);
		if (entry) {
			coll_comm_identity(ops, entry->comm, device->identity, "marker");
			coll_device_note(ops, entry->comm, device);
		}
	}
	if (entry) {
		apply(ops, entry, device); /* a communicator that is gone may go with it */
		return;
	}
	unexplained(ops, comm, device);
	if (comm)
		coll_comm_tell(ops, comm);
}
