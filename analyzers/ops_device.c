/* SPDX-License-Identifier: Apache-2.0 */
/* Device records to the calls that they belong to, by the rules of ops.h. See ops_internal.h. */
#include "analyzers/ops_internal.h"

#include <string.h>

#define UNIDENTIFIED_WALK_MAX 16

static int32_t coll_device_peer_of(const struct ops_device *device)
{
	return device->peer < 0 ? -1 : device->peer;
}

/* NCCL's records count some operations in bytes. */
static bool same_call(const struct ops_entry *entry, const struct ops_device *device, uint64_t hash)
{
	return entry->word->hash == hash && entry->peer == coll_device_peer_of(device) && !entry->captured &&
	       (entry->count == OPS_UNKNOWN || entry->count == device->count ||
		       ops_entry_bytes(entry) == device->count);
}

static bool in_call(const struct ops_entry *entry, const struct ops_device *device)
{
	if (!device->host_ns)
		return true;
	/* Its group is open still: the end is not known. A call that does not block gives it to the device later. */
	return device->host_ns >= entry->start_ns &&
	       (entry->waits & WAIT_GROUP || !entry->end_ns || entry->result || device->host_ns <= entry->end_ns);
}

static struct ops_entry *coll_device_by_number(
	struct ops *ops, struct ops_comm *comm, const struct ops_device *device, uint64_t hash)
{
	uint64_t key = ops_number_key(comm, device->seq);

	if (!device->seq || comm->graphs || comm->seq_from == OPS_SEQ_ATTACH || comm->seq_from == OPS_SEQ_GROUP)
		return NULL;
	OPS_EACH (link, ops_bucket(&ops->number, key)) {
		struct ops_entry *entry = OPS_CONTAINER(link, struct ops_entry, number.link);

		if (entry->comm == comm && entry->seq == device->seq && same_call(entry, device, hash) &&
			in_call(entry, device))
			return entry;
	}
	return NULL;
}

static struct ops_entry *by_signature(
	struct ops *ops, const struct ops_comm *comm, const struct ops_device *device, uint64_t hash)
{
	uint64_t key = ops_mix(ops_mix(comm->id, hash), (uint32_t)coll_device_peer_of(device));
	unsigned walked = 0;

	OPS_EACH (link, ops_bucket(&ops->signature, key)) {
		struct ops_entry *entry = OPS_CONTAINER(link, struct ops_entry, signature.link);

		if (entry->comm == comm && same_call(entry, device, hash) && in_call(entry, device))
			return entry;
		if (++walked >= OPS_WALK_MAX)
			break;
	}
	return NULL;
}

static struct ops_entry *of_comm(struct ops *ops, struct ops_comm *comm, const struct ops_device *device, uint64_t hash)
{
	struct ops_entry *entry = coll_device_by_number(ops, comm, device, hash);

	return entry ? entry : by_signature(ops, comm, device, hash);
}

/* A communicator that is gone may have the identity of one that lives. */
static struct ops_entry *of_identified(
	struct ops *ops, struct ops_comm *first, const struct ops_device *device, uint64_t hash)
{
	struct ops_entry *entry = of_comm(ops, first, device, hash);

	if (entry)
		return entry;
	OPS_EACH (link, ops_bucket(&ops->by_identity, device->identity)) {
		struct ops_comm *comm = OPS_CONTAINER(link, struct ops_comm, by_identity.link);

		entry = comm != first && ops_comm_fits(comm, device) ? of_comm(ops, comm, device, hash) : NULL;
		if (entry)
			return entry;
	}
	return NULL;
}

/* A communicator whose identity nothing else tells: the record of one of its calls does. */
static struct ops_entry *of_unidentified(struct ops *ops, const struct ops_device *device, uint64_t hash)
{
	unsigned walked = 0;

	if (!ops->unidentified || !device->host_ns)
		return NULL;
	for (struct ops_link *link = ops->live.prev; link != &ops->live && walked < UNIDENTIFIED_WALK_MAX;
		link = link->prev) {
		struct ops_comm *comm = OPS_CONTAINER(link, struct ops_comm, used);
		struct ops_entry *entry;

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
static void device_tells(struct ops *ops, struct ops_comm *comm)
{
	OPS_EACH (link, &ops->waiting) {
		struct ops_entry *entry = OPS_CONTAINER(link, struct ops_entry, age);

		if (entry->comm == comm)
			entry->trial = false;
	}
	comm->no_device = false;
}

static void coll_device_note(struct ops *ops, struct ops_comm *comm, const struct ops_device *device)
{
	if (!comm->waits_device)
		device_tells(ops, comm);
	comm->waits_device = comm->family->device;
	comm->device_ns = ops->now_ns;
	if (!comm->members)
		ops_comm_members(comm, device->member, device->members);
	if (!comm->name[0] && device->name && device->name[0]) {
		ops_text(comm->name, sizeof(comm->name), device->name);
		comm->dirty = true;
	}
}

/* The rank has the library that makes them: each communicator waits for its first one as for any. */
static void expect(struct ops *ops)
{
	OPS_EACH (link, &ops->live) {
		struct ops_comm *comm = OPS_CONTAINER(link, struct ops_comm, used);

		if (comm->waits_device || comm->no_device || !comm->family->device)
			continue;
		device_tells(ops, comm);
		comm->waits_device = true;
	}
	ops->marker = true;
	ops->no_marker = false;
}

/* A launch of a recorded graph: there is no call. */
static void tell_graph(struct ops *ops, struct ops_comm *comm, const struct ops_device *device)
{
	bool known = device->start_ns != OPS_UNKNOWN && device->stop_ns != OPS_UNKNOWN &&
		     device->stop_ns >= device->start_ns;
	char op[OPS_NAME_BYTES], dtype[16];
	struct ops_row row = {.communicator = comm->text,
		.seq_from = OPS_SEQ_ATTACH,
		.family = comm->family->name,
		.op = op,
		.dtype = dtype,
		.count = device->count <= INT64_MAX ? device->count : OPS_UNKNOWN,
		.bytes = OPS_UNKNOWN,
		.peer = coll_device_peer_of(device),
		.host_start_ns = device->host_ns,
		.host_duration_ns = OPS_UNKNOWN,
		.device_start_ns = known ? device->start_ns : OPS_UNKNOWN,
		.device_duration_ns = known ? device->stop_ns - device->start_ns : OPS_UNKNOWN,
		.device = known,
		.captured = true,
		.p2p = device->peer >= 0};

	ops_text(op, sizeof(op), device->op);
	ops_text(dtype, sizeof(dtype), device->dtype);
	comm->graphs = true;
	if (ops->sink.row && !device->open)
		ops->sink.row(ops->sink.arg, &row);
}

static void apply(struct ops *ops, struct ops_entry *entry, const struct ops_device *device)
{
	struct ops_comm *comm = entry->comm;

	ops_number_device(ops, entry, device->seq);
	if (device->open) {
		entry->fed_ns = ops->now_ns;
		return;
	}
	entry->device = true;
	entry->device_start_ns = device->start_ns;
	entry->device_stop_ns = device->stop_ns;
	if (!entry->p2p && entry->seq > comm->device_seq)
		comm->device_seq = entry->seq;
	if (device->stop_ns != OPS_UNKNOWN)
		ops_entry_complete(entry, device->stop_ns);
	ops_comm_tell(ops, comm);
	ops_entry_done(ops, entry, WAIT_DEVICE);
}

/* Kept until its call or its communicator turns up; the oldest one goes where there is no room. */
static void coll_device_keep(struct ops *ops, const struct ops_device *device)
{
	struct ops_early *early = &ops->early[ops->early_next];

	ops->early_next = (ops->early_next + 1) % OPS_EARLY_MAX;
	ops->early_used += !early->came_ns;
	early->device = *device;
	early->came_ns = ops->now_ns ? ops->now_ns : 1;
	ops_text(early->name, sizeof(early->name), device->name);
	ops_text(early->op, sizeof(early->op), device->op);
	ops_text(early->dtype, sizeof(early->dtype), device->dtype);
	early->device.name = early->name;
	early->device.op = early->op;
	early->device.dtype = early->dtype;
}

static void coll_device_drop(struct ops *ops, struct ops_early *early)
{
	early->came_ns = 0;
	ops->early_used--;
}

void ops_early_entry(struct ops *ops, struct ops_entry *entry)
{
	if (!ops->early_used || !(entry->waits & WAIT_DEVICE))
		return;
	for (size_t i = 0; i < OPS_EARLY_MAX; i++) {
		struct ops_early *early = &ops->early[i];

		if (!early->came_ns || early->device.identity != entry->comm->identity ||
			!same_call(entry, &early->device, ops_word_hash(early->op)) || !in_call(entry, &early->device))
			continue;
		coll_device_drop(ops, early);
		/* The entry stays the caller's: it may not go out here. */
		entry->waits |= WAIT_CALLER;
		apply(ops, entry, &early->device);
		entry->waits &= ~WAIT_CALLER;
		return;
	}
}

void ops_early_comm(struct ops *ops, struct ops_comm *comm)
{
	for (size_t i = 0; ops->early_used && i < OPS_EARLY_MAX; i++) {
		struct ops_early *early = &ops->early[i];

		if (!early->came_ns || early->device.identity != comm->identity)
			continue;
		coll_device_note(ops, comm, &early->device);
		if (!early->op[0])
			coll_device_drop(ops, early);
	}
}

/* No call explains it: it is early, or late, or its call was before all that was seen. */
static void unexplained(struct ops *ops, const struct ops_comm *comm, const struct ops_device *device)
{
	if (device->open)
		return;
	if (device->host_ns && (!comm || device->host_ns > comm->seen_ns))
		coll_device_keep(ops, device);
	else
		ops->counts.late += comm && comm->mixed && (!device->host_ns || device->host_ns >= comm->first_ns);
}

void ops_feed_device(struct ops *ops, const struct ops_device *device)
{
	struct ops_comm *comm;
	struct ops_entry *entry;
	uint64_t hash;

	ops->counts.events++;
	if (!device->identity) {
		if (!device->op || !device->op[0])
			expect(ops);
		return;
	}
	ops->marker = true;
	ops->no_marker = false;
	comm = ops_comm_by_identity(ops, device);
	if (comm)
		coll_device_note(ops, comm, device);
	if (!device->op || !device->op[0] || (comm && device->captured)) {
		if (comm && device->captured && device->op && device->op[0])
			tell_graph(ops, comm, device);
		else if (!comm)
			coll_device_keep(ops, device);
		if (comm)
			ops_comm_tell(ops, comm);
		return;
	}
	hash = ops_word_hash(device->op);
	if (comm) {
		entry = of_identified(ops, comm, device, hash);
		if (entry && entry->comm != comm)
			coll_device_note(ops, entry->comm, device);
	} else {
		entry = of_unidentified(ops, device, hash);
		if (entry) {
			ops_comm_identity(ops, entry->comm, device->identity, "marker");
			coll_device_note(ops, entry->comm, device);
		}
	}
	if (entry) {
		apply(ops, entry, device); /* a communicator that is gone may go with it */
		return;
	}
	unexplained(ops, comm, device);
	if (comm)
		ops_comm_tell(ops, comm);
}
