/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators of a rank: which one a call is on, what is known of it, and when it is gone. See ops_internal.h. */
#include "analyzers/ops_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEMBERS_MAX (1u << 24)

static const char *const no_address = "its calls do not tell which communicator they are on";
static const char *const not_yet = "its identity was not told yet";
static const char *const not_seen = "its init was not seen, and its calls do not tell its identity";

static uint64_t address_key(const struct ops_family *family, uint64_t address)
{
	return ops_mix(address, (uint64_t)(uintptr_t)family);
}

struct ops_comm *ops_comm_find(const struct ops *ops, const struct ops_family *family, uint64_t address)
{
	uint64_t key = address_key(family, address);

	OPS_EACH (link, ops_bucket(&ops->by_address, key)) {
		struct ops_comm *comm = OPS_CONTAINER(link, struct ops_comm, by_address.link);

		if (comm->address == address && comm->family == family)
			return comm;
	}
	return NULL;
}

bool ops_comm_fits(const struct ops_comm *comm, const struct ops_device *device)
{
	return comm->identity == device->identity &&
	       (!comm->members || !device->members || comm->member == device->member);
}

/* One that lives before one that is gone. */
struct ops_comm *ops_comm_by_identity(const struct ops *ops, const struct ops_device *device)
{
	struct ops_comm *best = NULL;

	OPS_EACH (link, ops_bucket(&ops->by_identity, device->identity)) {
		struct ops_comm *comm = OPS_CONTAINER(link, struct ops_comm, by_identity.link);

		if (ops_comm_fits(comm, device) && (!best || comm->live > best->live))
			best = comm;
	}
	return best;
}

static void coll_comms_look(struct ops *ops, struct ops_comm *comm)
{
	struct comm_evidence evidence = {
		.name = comm->name, .mix = comm->mix, .members = comm->members, .place = comm->place};
	enum comm_kind kind = comm_kind_of(&evidence);
	char parent[20] = "";
	struct ops_communicator row;

	if (kind == comm->kind && !comm->dirty)
		return;
	comm->kind = kind;
	comm->dirty = false;
	if (comm->parent)
		snprintf(parent, sizeof(parent), "%016llx", (unsigned long long)comm->parent);
	row = (struct ops_communicator){.communicator = comm->text,
		.family = comm->family->name,
		.name = comm->name,
		.address = comm->address,
		.process_group = comm->process_group,
		.number = comm->id,
		.member = comm->member,
		.members = comm->members,
		.parent = parent,
		.color = comm->color,
		.source = comm->identity ? comm->source : "",
		.trouble = comm->identity ? "" : comm->trouble,
		.since_ns = comm->since_ns,
		.freed = !comm->live,
		.kind = comm_kind_name(comm->kind)};
	if (ops->sink.communicator)
		ops->sink.communicator(ops->sink.arg, &row);
}

void ops_comm_tell(struct ops *ops, struct ops_comm *comm)
{
	/* The mix is looked at rarer and rarer. */
	if (comm->dirty || (comm->mixed && !(comm->mixed & (comm->mixed - 1))))
		coll_comms_look(ops, comm);
}

void ops_members(struct ops *ops, const char *family, const char *communicator, const struct comm_place *place)
{
	const struct ops_family *of = ops_family(family);
	uint64_t identity = strtoull(communicator, NULL, 16);

	if (!identity)
		return;
	OPS_EACH (link, ops_bucket(&ops->by_identity, identity)) {
		struct ops_comm *comm = OPS_CONTAINER(link, struct ops_comm, by_identity.link);

		if (!comm->live || comm->identity != identity || comm->family != of || comm->members != place->members)
			continue;
		comm->place = *place;
		coll_comms_look(ops, comm);
	}
}

static void comm_free(struct ops *ops, struct ops_comm *comm)
{
	ops_number_forget(ops, comm);
	ops_unlink(&comm->by_address.link);
	ops_unlink(&comm->by_identity.link);
	ops_unlink(&comm->used);
	free(comm->recent);
	free(comm);
}

void ops_comm_retire(struct ops *ops, struct ops_comm *comm)
{
	if (!comm->live)
		return;
	comm->live = false;
	comm->dirty = true;
	ops_comm_tell(ops, comm);
	ops_flight_purge(ops, comm);
	ops_unlink(&comm->by_address.link);
	ops_unlink(&comm->used);
	ops->comms--;
	ops->unidentified -= !comm->identity;
	if (comm->waiting)
		ops_append(&ops->gone, &comm->used);
	else
		comm_free(ops, comm);
}

void ops_comm_unref(struct ops *ops, struct ops_comm *comm)
{
	if (--comm->waiting == 0 && !comm->live)
		comm_free(ops, comm);
}

void ops_comms_done(struct ops *ops)
{
	OPS_EACH (link, &ops->live)
		comm_free(ops, OPS_CONTAINER(link, struct ops_comm, used));
	OPS_EACH (link, &ops->gone)
		comm_free(ops, OPS_CONTAINER(link, struct ops_comm, used));
}

static void coll_comms_set_trouble(struct ops_comm *comm, const char *trouble)
{
	if (strcmp(comm->trouble, trouble) == 0)
		return;
	ops_text(comm->trouble, sizeof(comm->trouble), trouble);
	comm->dirty = true;
}

static struct ops_comm *coll_comms_comm_new(struct ops *ops, const struct ops_family *family, uint64_t address, uint64_t since_ns)
{
	struct ops_comm *comm = calloc(1, sizeof(*comm));

	if (!comm)
		return NULL;
	if (ops->comms >= OPS_COMMS_MAX) {
		ops_comm_retire(ops, OPS_CONTAINER(ops->live.next, struct ops_comm, used));
		ops->counts.comms_forgotten++;
	}
	comm->id = ++ops->next_comm;
	comm->family = family;
	comm->address = address;
	comm->source = "";
	comm->color = INT64_MIN;
	comm->since_ns = since_ns;
	comm->first_ns = comm->seen_ns = since_ns;
	comm->seq_from = comm->p2p_from = OPS_SEQ_ATTACH;
	ops_list_init(&comm->peers);
	comm->live = comm->dirty = true;
	comm->waits_device = ops->marker && family->device;
	coll_comms_set_trouble(comm, !address ? no_address : family->told_later ? not_yet : not_seen);
	ops_hash_put(&ops->by_address, &comm->by_address, address_key(family, address));
	ops_append(&ops->live, &comm->used);
	ops->comms++;
	ops->unidentified++;
	return comm;
}

void ops_comm_identity(struct ops *ops, struct ops_comm *comm, uint64_t identity, const char *source)
{
	if (comm->identity == identity && comm->source == source)
		return;
	ops->unidentified -= comm->live && !comm->identity;
	ops_unlink(&comm->by_identity.link);
	comm->identity = identity;
	comm->source = source;
	comm->dirty = true;
	snprintf(comm->text, sizeof(comm->text), "%016llx", (unsigned long long)identity);
	ops_hash_put(&ops->by_identity, &comm->by_identity, identity);
	ops_early_comm(ops, comm);
}

void ops_comm_members(struct ops_comm *comm, uint64_t member, uint64_t members)
{
	if (!members || members > MEMBERS_MAX || member >= members)
		return;
	comm->dirty |= comm->member != member || comm->members != members;
	comm->member = (uint32_t)member;
	comm->members = (uint32_t)members;
}

/* MEMBER alone may hold both; alone and narrow it tells too little to be checked, and is left for a wider one. */
static void coll_comms_note(struct ops_comm *comm, const struct ops_event *event)
{
	uint64_t member = ops_value(event, OP_FIELD_MEMBER), members = ops_value(event, OP_FIELD_MEMBERS);

	if (ops_has(event, OP_FIELD_MEMBER))
		ops_comm_members(comm, member & UINT32_MAX, members ? members : member >> 32);
}

static void note_name(struct ops_comm *comm, const char *text)
{
	char name[OPS_NAME_BYTES];

	if (!text || !text[0])
		return;
	ops_text(name, sizeof(name), text);
	if (strcmp(name, comm->name) == 0)
		return;
	memcpy(comm->name, name, sizeof(name));
	comm->dirty = true;
}

/* The library's count of calls begins anew where the address belongs to another one now. */
static bool begins_anew(const struct ops_comm *comm, const struct ops_event *event)
{
	return comm->family->told_later && event->kind == OPS_OP && ops_has(event, OP_FIELD_SEQ) &&
	       !ops_value(event, OP_FIELD_SEQ) && comm->last_seq > 1;
}

/* What a call's record says of its communicator's identity is what the library's memory says. */
struct ops_comm *ops_comm_of(struct ops *ops, const struct ops_event *event)
{
	const struct ops_family *family = ops_family(event->family);
	uint64_t identity = ops_value(event, OP_FIELD_IDENTITY), address = ops_value(event, OP_FIELD_COMM);
	struct ops_comm *comm;

	if (!address)
		address = identity;
	comm = ops_comm_find(ops, family, address);
	if (comm && ((identity && comm->library_identity && comm->identity != identity) || begins_anew(comm, event))) {
		ops_comm_retire(ops, comm);
		comm = NULL;
	}
	if (!comm)
		comm = coll_comms_comm_new(ops, family, address, event->start_ns);
	if (!comm)
		return NULL;
	if (identity && !comm->library_identity) {
		comm->library_identity = true;
		ops_comm_identity(ops, comm, identity, "library");
	}
	coll_comms_note(comm, event);
	ops_unlink(&comm->used);
	ops_append(&ops->live, &comm->used);
	return comm;
}

/* An init function that calls another probed one tells of the same communicator twice, the inner one first. */
static bool told_twice(const struct ops_comm *comm, const struct ops_event *event)
{
	return comm->init_seen && comm->since_ns >= event->start_ns && comm->since_ns <= ops_end_ns(event);
}

void ops_comm_made(struct ops *ops, const struct ops_event *event)
{
	const struct ops_family *family = ops_family(event->family);
	uint64_t address = ops_value(event, OP_FIELD_COMM), identity = ops_value(event, OP_FIELD_IDENTITY);
	struct ops_comm *comm, *parent;

	if (!address || (event->has_result && ops_failed(event->result)))
		return; /* a split that leaves this rank out, or an init that failed */
	comm = ops_comm_find(ops, family, address);
	if (comm && !told_twice(comm, event)) {
		ops_comm_retire(ops, comm);
		comm = NULL;
	}
	if (!comm)
		comm = coll_comms_comm_new(ops, family, address, event->start_ns);
	if (!comm)
		return;
	comm->init_seen = true;
	comm->since_ns = event->start_ns;
	if (!comm->calls && comm->seq_from == OPS_SEQ_ATTACH)
		comm->seq_from = comm->p2p_from = OPS_SEQ_INIT;
	if (identity && !comm->identity)
		ops_comm_identity(ops, comm, identity, "init");
	coll_comms_note(comm, event);
	note_name(comm, event->text);
	parent = ops_has(event, OP_FIELD_PARENT) ? ops_comm_find(ops, family, ops_value(event, OP_FIELD_PARENT)) : NULL;
	if (parent)
		comm->parent = parent->identity;
	if (ops_has(event, OP_FIELD_COLOR))
		comm->color = (int64_t)ops_value(event, OP_FIELD_COLOR);
	comm->dirty = true;
	ops_comm_tell(ops, comm);
}

void ops_comm_freed(struct ops *ops, const struct ops_event *event)
{
	struct ops_comm *comm = ops_comm_find(ops, ops_family(event->family), ops_value(event, OP_FIELD_COMM));

	/* An end that comes after another one was made at the same address is the old one's. */
	if (!comm || !comm->address || comm->since_ns > event->start_ns)
		return;
	comm->freed_ns = ops->now_ns;
	ops_comm_retire(ops, comm);
}

void ops_identify(struct ops *ops, const char *family, uint64_t address, uint64_t identity, const char *name,
	uint32_t member, uint32_t members, const char *source, const char *trouble)
{
	struct ops_comm *comm = ops_comm_find(ops, ops_family(family), address);

	if (comm && identity && comm->library_identity && comm->identity != identity && comm->family->told_later) {
		ops_comm_retire(ops, comm);
		comm = coll_comms_comm_new(ops, ops_family(family), address, ops->now_ns);
	}
	if (!comm)
		return;
	comm->told = true;
	note_name(comm, name);
	ops_comm_members(comm, member, members);
	if (identity && !comm->library_identity) {
		ops_text(comm->told_by, sizeof(comm->told_by), source);
		comm->library_identity = comm->family->told_later;
		ops_comm_identity(ops, comm, identity, comm->told_by);
	} else if (!identity && trouble && trouble[0]) {
		coll_comms_set_trouble(comm, trouble);
	}
	ops_comm_tell(ops, comm);
	OPS_EACH (link, &ops->waiting) {
		struct ops_entry *entry = OPS_CONTAINER(link, struct ops_entry, age);

		if (entry->comm == comm)
			ops_entry_done(ops, entry, WAIT_IDENTITY);
	}
}
