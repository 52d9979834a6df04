/* SPDX-License-Identifier: Apache-2.0 */
/* Matches device records to calls, by the rules of coll.h. */
#include "analyzers/coll/coll_internal.h"

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
	/* The end is unknown while the group is open; a non-blocking call queues after its return. */
	return device->host_ns >= entry->start_ns &&
	       (entry->waits & WAIT_GROUP || !entry->end_ns || entry->result || device->host_ns <= entry->end_ns);
}

static struct coll_entry *coll_device_by_number(
	struct coll *coll, struct coll_comm *comm, const struct coll_device *device, uint64_t hash)
{
	uint64_t key = coll_number_key(comm, device->seq);

	if (!device->seq || comm->graphs || comm->seq_from == COLL_SEQ_ATTACH || comm->seq_from == COLL_SEQ_GROUP)
		return NULL;
	LIST_EACH (link, hash_table_bucket(&coll->number, key)) {
		struct coll_entry *entry = CONTAINER_OF(link, struct coll_entry, number.link);

		if (entry->comm == comm && entry->seq == device->seq && same_call(entry, device, hash) &&
			in_call(entry, device))
			return entry;
	}
	return NULL;
}

static struct coll_entry *by_signature(
	struct coll *coll, const struct coll_comm *comm, const struct coll_device *device, uint64_t hash)
{
	uint64_t key = hash_mix(hash_mix(comm->id, hash), (uint32_t)coll_device_peer_of(device));
	unsigned walked = 0;

	LIST_EACH (link, hash_table_bucket(&coll->signature, key)) {
		struct coll_entry *entry = CONTAINER_OF(link, struct coll_entry, signature.link);

		if (entry->comm == comm && same_call(entry, device, hash) && in_call(entry, device))
			return entry;
		if (++walked >= COLL_WALK_MAX)
			break;
	}
	return NULL;
}

static struct coll_entry *of_comm(
	struct coll *coll, struct coll_comm *comm, const struct coll_device *device, uint64_t hash)
{
	struct coll_entry *entry = coll_device_by_number(coll, comm, device, hash);

	return entry ? entry : by_signature(coll, comm, device, hash);
}

/* A freed communicator may share the identity of a live one. */
static struct coll_entry *of_identified(
	struct coll *coll, struct coll_comm *first, const struct coll_device *device, uint64_t hash)
{
	struct coll_entry *entry = of_comm(coll, first, device, hash);

	if (entry)
		return entry;
	LIST_EACH (link, hash_table_bucket(&coll->by_identity, device->identity)) {
		struct coll_comm *comm = CONTAINER_OF(link, struct coll_comm, by_identity.link);

		entry = comm != first && coll_comm_fits(comm, device) ? of_comm(coll, comm, device, hash) : NULL;
		if (entry)
			return entry;
	}
	return NULL;
}

/* Identifies a communicator by the record of one of its calls. */
static struct coll_entry *of_unidentified(struct coll *coll, const struct coll_device *device, uint64_t hash)
{
	unsigned walked = 0;

	if (!coll->unidentified || !device->host_ns)
		return NULL;
	for (struct list_link *link = coll->live.prev; link != &coll->live && walked < UNIDENTIFIED_WALK_MAX;
		link = link->prev) {
		struct coll_comm *comm = CONTAINER_OF(link, struct coll_comm, used);
		struct coll_entry *entry;

		if (comm->identity || !comm->address || !comm->family->device)
			continue;
		walked++;
		entry = by_signature(coll, comm, device, hash);
		if (entry && !(entry->waits & WAIT_GROUP))
			return entry;
	}
	return NULL;
}

/* First record, or first after a silence: rows on trial keep waiting. */
static void device_record_seen(struct coll *coll, struct coll_comm *comm)
{
	LIST_EACH (link, &coll->waiting) {
		struct coll_entry *entry = CONTAINER_OF(link, struct coll_entry, age);

		if (entry->comm == comm)
			entry->trial = false;
	}
	comm->no_device = false;
}

static void coll_device_note(struct coll *coll, struct coll_comm *comm, const struct coll_device *device)
{
	if (!comm->waits_device)
		device_record_seen(coll, comm);
	comm->waits_device = comm->family->device;
	comm->device_ns = coll->now_ns;
	if (!comm->members)
		coll_comm_members(comm, device->member, device->members);
	if (!comm->name[0] && device->name && device->name[0]) {
		coll_text(comm->name, sizeof(comm->name), device->name);
		comm->dirty = true;
	}
}

/* The rank has a marker library: all communicators wait for records. */
static void coll_device_expect(struct coll *coll)
{
	LIST_EACH (link, &coll->live) {
		struct coll_comm *comm = CONTAINER_OF(link, struct coll_comm, used);

		if (comm->waits_device || comm->no_device || !comm->family->device)
			continue;
		device_record_seen(coll, comm);
		comm->waits_device = true;
	}
	coll->marker = true;
	coll->no_marker = false;
}

/* The device did it within the time that the host saw it in. */
static bool coll_device_possible(const struct coll_device *device, uint64_t given_ns)
{
	uint64_t host_ns = device->heard_ns - given_ns, device_ns = device->stop_ns - device->start_ns;

	if (device->stop_ns < device->start_ns || device->heard_ns < given_ns)
		return false;
	return device_ns <= host_ns ||
	       (double)(device_ns - host_ns) <= DEVICE_CLOCK_RESOLUTION_NS + DEVICE_CLOCK_DRIFT_MAX * (double)host_ns;
}

/*
 * The operation gives the device's clock, and the clock gives the operation's time. given_ns: start of its call,
 * 0: unknown. False: its times are not known.
 */
static bool coll_device_times(struct coll *coll, const struct coll_device *device, uint64_t given_ns,
	uint64_t *ret_start_ns, uint64_t *ret_stop_ns)
{
	struct device_clock *clock = &coll->clock[device->device < COLL_DEVICES_MAX ? device->device : 0];
	uint64_t length_ns = device->stop_ns - device->start_ns, start_ns;

	if (device->start_ns == COLL_UNKNOWN || device->stop_ns == COLL_UNKNOWN)
		return false;
	if (!coll_device_possible(device, given_ns)) {
		coll->counts.impossible++;
		return false;
	}
	device_clock_add(clock, device->start_ns, device->stop_ns, given_ns, device->heard_ns);
	start_ns = device_clock_host_ns(clock, device->start_ns, length_ns, given_ns, device->heard_ns);
	coll->counts.impossible += !start_ns;
	if (!start_ns)
		return false;
	*ret_start_ns = start_ns;
	*ret_stop_ns = start_ns + length_ns;
	return true;
}

size_t coll_clocks(const struct coll *coll, struct coll_clock *ret, size_t max)
{
	size_t count = 0;

	for (uint32_t i = 0; i < COLL_DEVICES_MAX && count < max; i++) {
		const struct device_clock *clock = &coll->clock[i];
		struct coll_clock *row = &ret[count];

		*row = (struct coll_clock){.device = i,
			.steps = clock->steps,
			.drift_changes = clock->drift_changes,
			.bounds = clock->bounds};
		if (!device_clock_at(clock, (uint64_t)clock->newest_ns, &row->estimate))
			continue;
		row->newest_ns = (uint64_t)(clock->newest_ns - row->estimate.offset_ns);
		count++;
	}
	return count;
}

/* Launch of a recorded graph: a row without a call. */
static void emit_graph(struct coll *coll, struct coll_comm *comm, const struct coll_device *device)
{
	uint64_t start_ns = COLL_UNKNOWN, stop_ns = COLL_UNKNOWN;
	bool known = coll_device_times(coll, device, 0, &start_ns, &stop_ns);
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
		.device_start_ns = start_ns,
		.device_duration_ns = known ? stop_ns - start_ns : COLL_UNKNOWN,
		.device = known,
		.captured = true,
		.p2p = device->peer >= 0};

	coll_text(op, sizeof(op), device->op);
	coll_text(dtype, sizeof(dtype), device->dtype);
	comm->graphs = true;
	if (coll->sink.row && !device->open)
		coll->sink.row(coll->sink.arg, &row);
}

static void coll_device_apply(struct coll *coll, struct coll_entry *entry, const struct coll_device *device)
{
	struct coll_comm *comm = entry->comm;

	coll_number_device(coll, entry, device->seq);
	if (device->open) {
		entry->fed_ns = coll->now_ns;
		return;
	}
	entry->device = true;
	if (!entry->p2p && entry->seq > comm->device_seq)
		comm->device_seq = entry->seq;
	if (coll_device_times(coll, device, entry->start_ns, &entry->device_start_ns, &entry->device_stop_ns))
		coll_entry_complete(entry, entry->device_stop_ns);
	coll_comm_publish(coll, comm);
	coll_entry_done(coll, entry, WAIT_DEVICE);
}

/* Kept until its call or communicator arrives; replaces the oldest. */
static void coll_device_keep(struct coll *coll, const struct coll_device *device)
{
	struct coll_early *early = &coll->early[coll->early_next];

	coll->early_next = (coll->early_next + 1) % COLL_EARLY_MAX;
	coll->early_used += !early->came_ns;
	early->device = *device;
	early->came_ns = coll->now_ns ? coll->now_ns : 1;
	coll_text(early->name, sizeof(early->name), device->name);
	coll_text(early->op, sizeof(early->op), device->op);
	coll_text(early->dtype, sizeof(early->dtype), device->dtype);
	early->device.name = early->name;
	early->device.op = early->op;
	early->device.dtype = early->dtype;
}

static void coll_device_drop(struct coll *coll, struct coll_early *early)
{
	early->came_ns = 0;
	coll->early_used--;
}

void coll_early_match(struct coll *coll, struct coll_entry *entry)
{
	if (!coll->early_used || !(entry->waits & WAIT_DEVICE))
		return;
	for (size_t i = 0; i < COLL_EARLY_MAX; i++) {
		struct coll_early *early = &coll->early[i];

		if (!early->came_ns || early->device.identity != entry->comm->identity ||
			!same_call(entry, &early->device, coll_word_hash(early->op)) || !in_call(entry, &early->device))
			continue;
		coll_device_drop(coll, early);
		/* The caller still uses the entry. */
		entry->waits |= WAIT_CALLER;
		coll_device_apply(coll, entry, &early->device);
		entry->waits &= ~WAIT_CALLER;
		return;
	}
}

void coll_early_identified(struct coll *coll, struct coll_comm *comm)
{
	for (size_t i = 0; coll->early_used && i < COLL_EARLY_MAX; i++) {
		struct coll_early *early = &coll->early[i];

		if (!early->came_ns || early->device.identity != comm->identity)
			continue;
		coll_device_note(coll, comm, &early->device);
		if (!early->op[0])
			coll_device_drop(coll, early);
	}
}

/* No call matches: early, late, or from before the attach. */
static void coll_device_unexplained(struct coll *coll, const struct coll_comm *comm, const struct coll_device *device)
{
	if (device->open)
		return;
	if (device->host_ns && (!comm || device->host_ns > comm->seen_ns))
		coll_device_keep(coll, device);
	else
		coll->counts.late += comm && comm->mixed && (!device->host_ns || device->host_ns >= comm->first_ns);
}

void coll_feed_device(struct coll *coll, const struct coll_device *device)
{
	struct coll_comm *comm;
	struct coll_entry *entry;
	uint64_t hash;

	coll->counts.events++;
	if (!device->identity) {
		if (!device->op || !device->op[0])
			coll_device_expect(coll);
		return;
	}
	coll->marker = true;
	coll->no_marker = false;
	comm = coll_comm_by_identity(coll, device);
	if (comm)
		coll_device_note(coll, comm, device);
	if (!device->op || !device->op[0] || (comm && device->captured)) {
		if (comm && device->captured && device->op && device->op[0])
			emit_graph(coll, comm, device);
		else if (!comm)
			coll_device_keep(coll, device);
		if (comm)
			coll_comm_publish(coll, comm);
		return;
	}
	hash = coll_word_hash(device->op);
	if (comm) {
		entry = of_identified(coll, comm, device, hash);
		if (entry && entry->comm != comm)
			coll_device_note(coll, entry->comm, device);
	} else {
		entry = of_unidentified(coll, device, hash);
		if (entry) {
			coll_comm_identity(coll, entry->comm, device->identity, "marker");
			coll_device_note(coll, entry->comm, device);
		}
	}
	if (entry) {
		coll_device_apply(coll, entry, device); /* may free comm */
		return;
	}
	coll_device_unexplained(coll, comm, device);
	if (comm)
		coll_comm_publish(coll, comm);
}
