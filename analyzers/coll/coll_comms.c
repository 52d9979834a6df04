/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators of a rank: which one a call is on, what is known of it, and when it is gone. See coll_internal.h. */
#include "analyzers/coll/coll_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEMBERS_MAX (1u << 24)

static const char *const no_address = "its calls do not tell which communicator they are on";
static const char *const not_yet = "its identity was not told yet";
static const char *const not_seen = "its init was not seen, and its calls do not tell its identity";

static uint64_t address_key(const struct coll_family *family, uint64_t address)
{
	return coll_mix(address, (uint64_t)(uintptr_t)family);
}

struct coll_comm *coll_comm_find(const struct coll *ops, const struct coll_family *family, uint64_t address)
{
	uint64_t key = address_key(family, address);

	COLL_EACH (link, coll_bucket(&ops->by_address, key)) {
		struct coll_comm *comm = COLL_CONTAINER(link, struct coll_comm, by_address.link);

		if (comm->address == address && comm->family == family)
			return comm;
	}
	return NULL;
}

bool coll_comm_fits(const struct coll_comm *comm, const struct coll_device *device)
{
	return comm->identity == device->identity &&
	       (!comm->members || !device->members || comm->member == device->member);
}

/* One that lives before one that is gone. */
struct coll_comm *coll_comm_by_identity(const struct coll *ops, const struct coll_device *device)
{
	struct coll_comm *best = NULL;

	COLL_EACH (link, coll_bucket(&ops->by_identity, device->identity)) {
		struct coll_comm *comm = COLL_CONTAINER(link, struct coll_comm, by_identity.link);

		if (coll_comm_fits(comm, device) && (!best || comm->live > best->live))
			best = comm;
	}
	return best;
}

static void coll_comms_look(struct coll *ops, struct coll_comm *comm)
{
	struct comm_evidence evidence = {
		.name = comm->name, .mix = comm->mix, .members = comm->members, .place = comm->place};
	enum comm_kind kind = comm_kind_of(&evidence);
	char parent[20] = "";
	struct coll_communicator row;

	if (kind == comm->kind && !comm->dirty)
		return;
	comm->kind = kind;
	comm->dirty = false;
	if (comm->parent)
		snprintf(parent, sizeof(parent), "%016llx", (unsigned long long)comm->parent);
	row = (struct coll_communicator){.communicator = comm->text,
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

void coll_comm_tell(struct coll *ops, struct coll_comm *comm)
{
	/* The mix is looked at rarer and rarer. */
	if (comm->dirty || (comm->mixed && !(comm->mixed & (comm->mixed - 1))))
		coll_comms_look(ops, comm);
}

void coll_members(struct coll *ops, const char *family, const char *communicator, const struct comm_place *place)
{
	const struct coll_family *of = coll_family(family);
	uint64_t identity = strtoull(communicator, NULL, 16);

	if (!identity)
		return;
	COLL_EACH (link, coll_bucket(&ops->by_identity, identity)) {
		struct coll_comm *comm = COLL_CONTAINER(link, struct coll_comm, by_identity.link);

		if (!comm->live || comm->identity != identity || comm->family != of || comm->members != place->members)
			continue;
		comm->place = *place;
		coll_comms_look(ops, comm);
	}
}

static void comm_free(struct coll *ops, struct coll_comm *comm)
{
	coll_number_forget(ops, comm);
	coll_unlink(&comm->by_address.link);
	coll_unlink(&comm->by_identity.link);
	coll_unlink(&comm->used);
	free(comm->recent);
	free(comm);
}

void coll_comm_retire(struct coll *ops, struct coll_comm *comm)
{
	if (!comm->live)
		return;
	comm->live = false;
	comm->dirty = true;
	coll_comm_tell(ops, comm);
	coll_flight_purge(ops, comm);
	coll_unlink(&comm->by_address.link);
	coll_unlink(&comm->used);
	ops->comms--;
	ops->unidentified -= !comm->identity;
	if (comm->waiting)
		coll_append(&ops->gone, &comm->used);
	else
		comm_free(ops, comm);
}

void coll_comm_unref(struct coll *ops, struct coll_comm *comm)
{
	if (--comm->waiting == 0 && !comm->live)
		comm_free(ops, comm);
}

void coll_comms_done(struct coll *ops)
{
	COLL_EACH (link, &ops->live)
		comm_free(ops, COLL_CONTAINER(link, struct coll_comm, used));
	COLL_EACH (link, &ops->gone)
		comm_free(ops, COLL_CONTAINER(link, struct coll_comm, used));
}

static void coll_comms_set_trouble(struct coll_comm *comm, const char *trouble)
{
	if (strcmp(comm->trouble, trouble) == 0)
		return;
	coll_text(comm->trouble, sizeof(comm->trouble), trouble);
	comm->dirty = true;
}

static struct coll_comm *coll_comms_comm_new(struct coll *ops, const struct coll_family *family, uint64_t address, uint64_t since_ns)
{
	struct coll_comm *comm = calloc(1, sizeof(*comm));

	if (!comm)
		return NULL;
	if (ops->comms >= COLL_COMMS_MAX) {
		coll_comm_retire(ops, COLL_CONTAINER(ops->live.next, struct coll_comm, used));
		ops->counts.comms_forgotten++;
	}
	comm->id = ++ops->next_comm;
	comm->family = family;
	comm->address = address;
	comm->source = "";
	comm->color = INT64_MIN;
	comm->since_ns = since_ns;
	comm->first_ns = comm->seen_ns = since_ns;
	comm->seq_from = comm->p2p_from = COLL_SEQ_ATTACH;
	coll_list_init(&comm->peers);
	comm->live = comm->dirty = true;
	comm->waits_device = ops->marker && family->device;
	coll_comms_set_trouble(comm, !address ? no_address : family->told_later ? not_yet : not_seen);
	coll_hash_put(&ops->by_address, &comm->by_address, address_key(family, address));
	coll_append(&ops->live, &comm->used);
	ops->comms++;
	ops->unidentified++;
	return comm;
}

void coll_comm_identity(struct coll *ops, struct coll_comm *comm, uint64_t identity, const char *source)
{
	if (comm->identity == identity && comm->source == source)
		return;
	ops->unidentified -= comm->live && !comm->identity;
	coll_unlink(&comm->by_identity.link);
	comm->identity = identity;
	comm->source = source;
	comm->dirty = true;
	snprintf(comm->text, sizeof(comm->text), "%016llx", (unsigned long long)identity);
	coll_hash_put(&ops->by_identity, &comm->by_identity, identity);
	coll_early_comm(ops, comm);
}

void coll_comm_members(struct coll_comm *comm, uint64_t member, uint64_t members)
{
	if (!members || members > MEMBERS_MAX || member >= members)
		return;
	comm->dirty |= comm->member != member || comm->members != members;
	comm->member = (uint32_t)member;
	comm->members = (uint32_t)members;
}

/* MEMBER alone may hold both; alone and narrow it tells too little to be checked, and is left for a wider one. */
static void coll_comms_note(struct coll_comm *comm, const struct coll_event *event)
{
	uint64_t member = coll_value(event, OP_FIELD_MEMBER), members = coll_value(event, OP_FIELD_MEMBERS);

	if (coll_has(event, OP_FIELD_MEMBER))
		coll_comm_members(comm, member & UINT32_MAX, members ? members : member >> 32);
}

static void note_name(struct coll_comm *comm, const char *text)
{
	char name[COLL_NAME_BYTES];

	if (!text || !text[0])
		return;
	coll_text(name, sizeof(name), text);
	if (strcmp(name, comm->name) == 0)
		return;
	memcpy(comm->name, name, sizeof(name));
	comm->dirty = true;
}

/* The library's count of calls begins anew where the address belongs to another one now. */
static bool begins_anew(const struct coll_comm *comm, const struct coll_event *event)
{
	return comm->family->told_later && event->kind == COLL_OP && coll_has(event, OP_FIELD_SEQ) &&
	       !coll_value(event, OP_FIELD_SEQ) && comm->last_seq > 1;
}

/* What a call's record says of its communicator's identity is what the library's memory says. */
struct coll_comm *coll_comm_of(struct coll *ops, const struct coll_event *event)
{
	const struct coll_family *family = coll_family(event->family);
	uint64_t identity = coll_value(event, OP_FIELD_IDENTITY), address = coll_value(event, OP_FIELD_COMM);
	struct coll_comm *comm;

	if (!address)
		address = identity;
	comm = coll_comm_find(ops, family, address);
	if (comm && ((identity && comm->library_identity && comm->identity != identity) || begins_anew(comm, event))) {
		coll_comm_retire(ops, comm);
		comm = NULL;
	}
	if (!comm)
		comm = coll_comms_comm_new(ops, family, address, event->start_ns);
	if (!comm)
		return NULL;
	if (identity && !comm->library_identity) {
		comm->library_identity = true;
		coll_comm_identity(ops, comm, identity, "library");
	}
	coll_comms_note(comm, event);
	coll_unlink(&comm->used);
	coll_append(&ops->live, &comm->used);
	return comm;
}

/* An init function that calls another probed one tells of the same communicator twice, the inner one first. */
static bool told_twice(const struct coll_comm *comm, const struct coll_event *event)
{
	return comm->init_seen && comm->since_ns >= event->start_ns && comm->since_ns <= coll_end_ns(event);
}

void coll_comm_made(struct coll *ops, const struct coll_event *event)
{
	const struct coll_family *family = coll_family(event->family);
	uint64_t address = coll_value(event, OP_FIELD_COMM), identity = coll_value(event, OP_FIELD_IDENTITY);
	struct coll_comm *comm, *parent;

	if (!address || (event->has_result && coll_failed(event->result)))
		return; /* a split that leaves this rank out, or an init that failed */
	comm = coll_comm_find(ops, family, address);
	if (comm && !told_twice(comm, event)) {
		coll_comm_retire(ops, comm);
		comm = NULL;
	}
	if (!comm)
		comm = coll_comms_comm_new(ops, family, address, event->start_ns);
	if (!comm)
		return;
	comm->init_seen = true;
	comm->since_ns = event->start_ns;
	if (!comm->calls && comm->seq_from == COLL_SEQ_ATTACH)
		comm->seq_from = comm->p2p_from = COLL_SEQ_INIT;
	if (identity && !comm->identity)
		coll_comm_identity(ops, comm, identity, "init");
	coll_comms_note(comm, event);
	note_name(comm, event->text);
	parent = coll_has(event, OP_FIELD_PARENT) ? coll_comm_find(ops, family, coll_value(event, OP_FIELD_PARENT)) : NULL;
	if (parent)
		comm->parent = parent->identity;
	if (coll_has(event, OP_FIELD_COLOR))
		comm->color = (int64_t)coll_value(event, OP_FIELD_COLOR);
	comm->dirty = true;
	coll_comm_tell(ops, comm);
}

void coll_comm_freed(struct coll *ops, const struct coll_event *event)
{
	struct coll_comm *comm = coll_comm_find(ops, coll_family(event->family), coll_value(event, OP_FIELD_COMM));

	/* An end that comes after another one was made at the same address is the old one's. */
	if (!comm || !comm->address || comm->since_ns > event->start_ns)
		return;
	comm->freed_ns = ops->now_ns;
	coll_comm_retire(ops, comm);
}

void coll_identify(struct coll *ops, const char *family, uint64_t address, uint64_t identity, const char *name,
	uint32_t member, uint32_t members, const char *source, const char *trouble)
{
	struct coll_comm *comm = coll_comm_find(ops, coll_family(family), address);

	if (comm && identity && comm->library_identity && comm->identity != identity && comm->family->told_later) {
		coll_comm_retire(ops, comm);
		comm = coll_comms_comm_new(ops, coll_family(family), address, ops->now_ns);
	}
	if (!comm)
		return;
	comm->told = true;
	note_name(comm, name);
	coll_comm_members(comm, member, members);
	if (identity && !comm->library_identity) {
		coll_text(comm->told_by, sizeof(comm->told_by), source);
		comm->library_identity = comm->family->told_later;
		coll_comm_identity(ops, comm, identity, comm->told_by);
	} else if (!identity && trouble && trouble[0]) {
		coll_comms_set_trouble(comm, trouble);
	}
	coll_comm_tell(ops, comm);
	COLL_EACH (link, &ops->waiting) {
		struct coll_entry *entry = COLL_CONTAINER(link, struct coll_entry, age);

		if (entry->comm == comm)
			coll_entry_done(ops, entry, WAIT_IDENTITY);
	}
}
