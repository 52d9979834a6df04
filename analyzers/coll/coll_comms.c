/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators of a rank: which one a call is on, what is known of it, and its end. */
#include "analyzers/coll/coll_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEMBERS_MAX (1u << 24)

static const char *const no_address = "calls do not identify their communicator";
static const char *const not_yet = "identity not read yet";
static const char *const not_seen = "init not seen, and calls do not carry the identity";

static uint64_t address_key(const struct coll_family *family, uint64_t address)
{
	return hash_mix(address, (uint64_t)(uintptr_t)family);
}

struct coll_comm *coll_comm_find(const struct coll *coll, const struct coll_family *family, uint64_t address)
{
	uint64_t key = address_key(family, address);

	LIST_EACH (link, hash_table_bucket(&coll->by_address, key)) {
		struct coll_comm *comm = CONTAINER_OF(link, struct coll_comm, by_address.link);

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

/* Prefers a live one. */
struct coll_comm *coll_comm_by_identity(const struct coll *coll, const struct coll_device *device)
{
	struct coll_comm *best = NULL;

	LIST_EACH (link, hash_table_bucket(&coll->by_identity, device->identity)) {
		struct coll_comm *comm = CONTAINER_OF(link, struct coll_comm, by_identity.link);

		if (coll_comm_fits(comm, device) && (!best || comm->live > best->live))
			best = comm;
	}
	return best;
}

static void coll_comms_emit(struct coll *coll, struct coll_comm *comm)
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
		.reason = comm->identity ? "" : comm->reason,
		.since_ns = comm->since_ns,
		.freed = !comm->live,
		.kind = comm_kind_name(comm->kind)};
	if (coll->sink.communicator)
		coll->sink.communicator(coll->sink.arg, &row);
}

void coll_comm_publish(struct coll *coll, struct coll_comm *comm)
{
	/* The kind is evaluated again at each power of two calls. */
	if (comm->dirty || (comm->mixed && !(comm->mixed & (comm->mixed - 1))))
		coll_comms_emit(coll, comm);
}

void coll_members(struct coll *coll, const char *family, const char *communicator, const struct comm_place *place)
{
	const struct coll_family *of = coll_family(family);
	uint64_t identity = strtoull(communicator, NULL, 16);

	if (!identity)
		return;
	LIST_EACH (link, hash_table_bucket(&coll->by_identity, identity)) {
		struct coll_comm *comm = CONTAINER_OF(link, struct coll_comm, by_identity.link);

		if (!comm->live || comm->identity != identity || comm->family != of || comm->members != place->members)
			continue;
		comm->place = *place;
		coll_comms_emit(coll, comm);
	}
}

static void comm_free(struct coll *coll, struct coll_comm *comm)
{
	coll_number_forget(coll, comm);
	list_unlink(&comm->by_address.link);
	list_unlink(&comm->by_identity.link);
	list_unlink(&comm->used);
	free(comm->recent);
	free(comm);
}

/* No longer live; freed with its last row. */
static void coll_comm_retire(struct coll *coll, struct coll_comm *comm)
{
	if (!comm->live)
		return;
	comm->live = false;
	comm->dirty = true;
	coll_comm_publish(coll, comm);
	coll_flight_purge(coll, comm);
	list_unlink(&comm->by_address.link);
	list_unlink(&comm->used);
	coll->comms--;
	coll->unidentified -= !comm->identity;
	if (comm->waiting)
		list_add_tail(&coll->gone, &comm->used);
	else
		comm_free(coll, comm);
}

void coll_comm_unref(struct coll *coll, struct coll_comm *comm)
{
	if (--comm->waiting == 0 && !comm->live)
		comm_free(coll, comm);
}

void coll_comms_done(struct coll *coll)
{
	LIST_EACH (link, &coll->live)
		comm_free(coll, CONTAINER_OF(link, struct coll_comm, used));
	LIST_EACH (link, &coll->gone)
		comm_free(coll, CONTAINER_OF(link, struct coll_comm, used));
}

static void coll_comms_set_reason(struct coll_comm *comm, const char *reason)
{
	if (strcmp(comm->reason, reason) == 0)
		return;
	coll_text(comm->reason, sizeof(comm->reason), reason);
	comm->dirty = true;
}

static struct coll_comm *coll_comms_new(
	struct coll *coll, const struct coll_family *family, uint64_t address, uint64_t since_ns)
{
	struct coll_comm *comm = calloc(1, sizeof(*comm));

	if (!comm)
		return NULL;
	if (coll->comms >= COLL_COMMS_MAX) {
		coll_comm_retire(coll, CONTAINER_OF(coll->live.next, struct coll_comm, used));
		coll->counts.comms_forgotten++;
	}
	comm->id = ++coll->next_comm;
	comm->family = family;
	comm->address = address;
	comm->source = "";
	comm->color = INT64_MIN;
	comm->since_ns = since_ns;
	comm->first_ns = comm->seen_ns = since_ns;
	comm->seq_from = comm->p2p_from = COLL_SEQ_ATTACH;
	list_reset(&comm->peers);
	comm->live = comm->dirty = true;
	comm->waits_device = coll->marker && family->device;
	coll_comms_set_reason(comm, !address ? no_address : family->identified_later ? not_yet : not_seen);
	hash_table_put(&coll->by_address, &comm->by_address, address_key(family, address));
	list_add_tail(&coll->live, &comm->used);
	coll->comms++;
	coll->unidentified++;
	return comm;
}

void coll_comm_identity(struct coll *coll, struct coll_comm *comm, uint64_t identity, const char *source)
{
	if (comm->identity == identity && comm->source == source)
		return;
	coll->unidentified -= comm->live && !comm->identity;
	list_unlink(&comm->by_identity.link);
	comm->identity = identity;
	comm->source = source;
	comm->dirty = true;
	snprintf(comm->text, sizeof(comm->text), "%016llx", (unsigned long long)identity);
	hash_table_put(&coll->by_identity, &comm->by_identity, identity);
	coll_early_identified(coll, comm);
}

void coll_comm_members(struct coll_comm *comm, uint64_t member, uint64_t members)
{
	if (!members || members > MEMBERS_MAX || member >= members)
		return;
	comm->dirty |= comm->member != member || comm->members != members;
	comm->member = (uint32_t)member;
	comm->members = (uint32_t)members;
}

/* A wide MEMBER holds the size too; a narrow one without MEMBERS cannot be checked and is ignored. */
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

/* The library's count restarts: the address belongs to another communicator now. */
static bool begins_anew(const struct coll_comm *comm, const struct coll_event *event)
{
	return comm->family->identified_later && event->kind == COLL_OP && coll_has(event, OP_FIELD_SEQ) &&
	       !coll_value(event, OP_FIELD_SEQ) && comm->last_seq > 1;
}

struct coll_comm *coll_comm_of(struct coll *coll, const struct coll_event *event)
{
	const struct coll_family *family = coll_family(event->family);
	uint64_t identity = coll_value(event, OP_FIELD_IDENTITY), address = coll_value(event, OP_FIELD_COMM);
	struct coll_comm *comm;

	if (!address)
		address = identity;
	comm = coll_comm_find(coll, family, address);
	if (comm && ((identity && comm->library_identity && comm->identity != identity) || begins_anew(comm, event))) {
		coll_comm_retire(coll, comm);
		comm = NULL;
	}
	if (!comm)
		comm = coll_comms_new(coll, family, address, event->start_ns);
	if (!comm)
		return NULL;
	if (identity && !comm->library_identity) {
		comm->library_identity = true;
		coll_comm_identity(coll, comm, identity, "library");
	}
	coll_comms_note(comm, event);
	list_unlink(&comm->used);
	list_add_tail(&coll->live, &comm->used);
	return comm;
}

/* Nested init functions report one communicator twice, the inner one first. */
static bool init_is_nested(const struct coll_comm *comm, const struct coll_event *event)
{
	return comm->init_seen && comm->since_ns >= event->start_ns && comm->since_ns <= coll_end_ns(event);
}

void coll_comm_made(struct coll *coll, const struct coll_event *event)
{
	const struct coll_family *family = coll_family(event->family);
	uint64_t address = coll_value(event, OP_FIELD_COMM), identity = coll_value(event, OP_FIELD_IDENTITY);
	struct coll_comm *comm, *parent;

	if (!address || (event->has_result && coll_failed(event->result)))
		return; /* No communicator: rank excluded from split, or init failed. */
	comm = coll_comm_find(coll, family, address);
	if (comm && !init_is_nested(comm, event)) {
		coll_comm_retire(coll, comm);
		comm = NULL;
	}
	if (!comm)
		comm = coll_comms_new(coll, family, address, event->start_ns);
	if (!comm)
		return;
	comm->init_seen = true;
	comm->since_ns = event->start_ns;
	if (!comm->calls && comm->seq_from == COLL_SEQ_ATTACH)
		comm->seq_from = comm->p2p_from = COLL_SEQ_INIT;
	if (identity && !comm->identity)
		coll_comm_identity(coll, comm, identity, "init");
	coll_comms_note(comm, event);
	note_name(comm, event->text);
	parent = coll_has(event, OP_FIELD_PARENT) ? coll_comm_find(coll, family, coll_value(event, OP_FIELD_PARENT))
						  : NULL;
	if (parent)
		comm->parent = parent->identity;
	if (coll_has(event, OP_FIELD_COLOR))
		comm->color = (int64_t)coll_value(event, OP_FIELD_COLOR);
	comm->dirty = true;
	coll_comm_publish(coll, comm);
}

void coll_comm_freed(struct coll *coll, const struct coll_event *event)
{
	struct coll_comm *comm = coll_comm_find(coll, coll_family(event->family), coll_value(event, OP_FIELD_COMM));

	/* An end older than the communicator is its predecessor's. */
	if (!comm || !comm->address || comm->since_ns > event->start_ns)
		return;
	comm->freed_ns = coll->now_ns;
	coll_comm_retire(coll, comm);
}

void coll_identify(struct coll *coll, const char *family, uint64_t address, uint64_t identity, const char *name,
	uint32_t member, uint32_t members, const char *source, const char *reason)
{
	struct coll_comm *comm = coll_comm_find(coll, coll_family(family), address);

	if (comm && identity && comm->library_identity && comm->identity != identity &&
		comm->family->identified_later) {
		coll_comm_retire(coll, comm);
		comm = coll_comms_new(coll, coll_family(family), address, coll->now_ns);
	}
	if (!comm)
		return;
	comm->identify_done = true;
	note_name(comm, name);
	coll_comm_members(comm, member, members);
	if (identity && !comm->library_identity) {
		coll_text(comm->identified_by, sizeof(comm->identified_by), source);
		comm->library_identity = comm->family->identified_later;
		coll_comm_identity(coll, comm, identity, comm->identified_by);
	} else if (!identity && reason && reason[0]) {
		coll_comms_set_reason(comm, reason);
	}
	coll_comm_publish(coll, comm);
	LIST_EACH (link, &coll->waiting) {
		struct coll_entry *entry = CONTAINER_OF(link, struct coll_entry, age);

		if (entry->comm == comm)
			coll_entry_done(coll, entry, WAIT_IDENTITY);
	}
}
