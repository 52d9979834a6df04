/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of `communicators`, written when dirty. */
#include "analyzers/base/array.h"
#include "daemon/coll/comms.h"
#include "daemon/store/store.h"

/* Opaque and stable across starts. */
static int64_t comm_rows_key_of(uint64_t hashed)
{
	int64_t key = (int64_t)(hashed & INT64_MAX);

	return key ? key : 1;
}

int64_t comm_rows_key(int64_t instance, const char *communicator)
{
	uint64_t h = fnv1a_bytes(FNV1A_START, &instance, sizeof(instance));

	return comm_rows_key_of(fnv1a_bytes(h, communicator, strlen(communicator)));
}

static int64_t comm_rows_own_key(int64_t instance, const struct comm_row *comm)
{
	uint64_t h = fnv1a_bytes(FNV1A_START, &instance, sizeof(instance));

	h = fnv1a_bytes(h, comm->family, strlen(comm->family) + 1);
	h = fnv1a_bytes(h, &comm->address, sizeof(comm->address));
	return comm_rows_key_of(fnv1a_bytes(h, &comm->since_ns, sizeof(comm->since_ns)));
}

static struct comm_row *comm_rows_find_exact(
	const struct comm_rows *comms, const struct coll_communicator *communicator)
{
	for (size_t i = comms->count; i-- > 0;)
		if (comms->comm[i].address == communicator->address &&
			comms->comm[i].since_ns == communicator->since_ns &&
			streq(comms->comm[i].family, communicator->family))
			return &comms->comm[i];
	return NULL;
}

static struct comm_row *comm_rows_newest(const struct comm_rows *comms, const char *family, uint64_t address)
{
	for (size_t i = comms->count; i-- > 0;)
		if (comms->comm[i].address == address && streq(comms->comm[i].family, family))
			return &comms->comm[i];
	return NULL;
}

const struct comm_row *comm_rows_find(const struct comm_rows *comms, const char *family, uint64_t address)
{
	return comm_rows_newest(comms, family, address);
}

int32_t comm_rows_member(const struct comm_rows *comms, const char *communicator)
{
	for (size_t i = comms->count; i-- > 0;)
		if (comms->comm[i].members && streq(comms->comm[i].communicator, communicator))
			return (int32_t)comms->comm[i].member;
	return -1;
}

const char *comm_rows_kind(const struct comm_rows *comms, const char *communicator)
{
	for (size_t i = comms->count; i-- > 0;)
		if (streq(comms->comm[i].communicator, communicator))
			return comms->comm[i].kind;
	return "";
}

static void comm_rows_set_dirty(struct comm_rows *comms, struct comm_row *comm, bool dirty)
{
	comms->dirty += (size_t)dirty - (size_t)comm->dirty;
	comm->dirty = dirty;
}

static void comm_rows_drop(struct comm_rows *comms, size_t i)
{
	comm_rows_set_dirty(comms, &comms->comm[i], false);
	comms->deferred -= comms->comm[i].retry_ns != 0;
	memmove(&comms->comm[i], &comms->comm[i + 1], (--comms->count - i) * sizeof(comms->comm[0]));
}

/* The analyzer has the same bound COLL_COMMS_MAX: beyond it, the oldest is dropped. */
static struct comm_row *comm_rows_add(struct comm_rows *comms)
{
	if (comms->count == COLL_COMMS_MAX)
		comm_rows_drop(comms, 0);
	if (!array_reserve(
		    (void **)&comms->comm, &comms->capacity, comms->count + 1, sizeof(*comms->comm), COLL_COMMS_MAX))
		return NULL;
	return &comms->comm[comms->count++];
}

static void comm_rows_copy(char *to, size_t size, const char *from)
{
	(void)copy_text(to, size, from ? from : "");
}

void comm_rows_note(struct comm_rows *comms, const struct coll_communicator *communicator)
{
	char family[sizeof(comms->comm->family)];
	struct coll_communicator own = *communicator;
	struct comm_row *comm;

	comm_rows_copy(family, sizeof(family), communicator->family);
	own.family = family;
	comm = comm_rows_find_exact(comms, &own);
	if (!comm) {
		comm = comm_rows_add(comms);
		if (!comm)
			return;
		*comm = (struct comm_row){.address = communicator->address, .since_ns = communicator->since_ns};
		comm_rows_copy(comm->family, sizeof(comm->family), family);
	}
	comm_rows_set_dirty(comms, comm, true);
	comms->changed |= !communicator->freed &&
			  (comm->member != communicator->member || comm->members != communicator->members ||
				  !streq(comm->communicator, communicator->communicator));
	comm->freed = communicator->freed;
	comm->process_group = communicator->process_group;
	comm->member = communicator->member;
	comm->members = communicator->members;
	comm->color = communicator->color;
	comm_rows_copy(comm->communicator, sizeof(comm->communicator), communicator->communicator);
	comm_rows_copy(comm->parent, sizeof(comm->parent), communicator->parent);
	comm_rows_copy(comm->name, sizeof(comm->name), communicator->name);
	comm_rows_copy(comm->kind, sizeof(comm->kind), communicator->kind);
	comm_rows_copy(comm->source, sizeof(comm->source), communicator->source);
	comm_rows_copy(comm->reason, sizeof(comm->reason), communicator->reason);
}

struct comm_row *comm_rows_next(struct comm_rows *comms)
{
	for (size_t i = 0; i < comms->count && comms->dirty; i++)
		if (comms->comm[i].dirty)
			return &comms->comm[i];
	return NULL;
}

void comm_rows_defer(struct comm_rows *comms, const char *family, uint64_t address, uint64_t retry_ns)
{
	struct comm_row *comm = comm_rows_newest(comms, family, address);

	if (!comm || comm->communicator[0])
		return;
	comms->deferred += comm->retry_ns == 0;
	comm->retry_ns = retry_ns;
}

void comm_rows_retry(struct comm_rows *comms, uint64_t now_ns)
{
	for (size_t i = 0; i < comms->count && comms->deferred; i++) {
		struct comm_row *comm = &comms->comm[i];

		if (!comm->retry_ns || now_ns < comm->retry_ns)
			continue;
		comms->deferred--;
		comm->retry_ns = 0;
		comm->asked = false;
		comm_rows_set_dirty(comms, comm, true);
	}
}

/* Removes the row of the old key, unless another communicator of this process has it. */
static void comm_rows_release_key(struct comm_rows *comms, const struct comm_row *comm, struct store *store)
{
	for (size_t i = 0; i < comms->count; i++)
		if (&comms->comm[i] != comm && comms->comm[i].key == comm->key) {
			comm_rows_set_dirty(comms, &comms->comm[i], true);
			return;
		}
	store_remove(store, TABLE_COMMUNICATORS, comm->key);
}

void comm_rows_put(struct comm_rows *comms, struct comm_row *comm, const struct rank *rank, struct store *store)
{
	int64_t key = comm->communicator[0] ? comm_rows_key(rank->instance, comm->communicator)
					    : comm_rows_own_key(rank->instance, comm);
	const struct row_communicators row = {
		.communicator = field_text_if(comm->communicator),
		.rank = field_int(rank->env.rank),
		.member = field_int_if(comm->members, comm->member),
		.members = field_int_if(comm->members, comm->members),
		.family = field_text(comm->family),
		.name = field_text_if(comm->name),
		.kind = field_text_if(comm->kind),
		.parent = field_text_if(comm->parent),
		.color = field_int_if(comm->color != INT64_MIN, comm->color),
		.source = field_text_if(comm->source),
		.reason = field_text_if(comm->communicator[0] ? NULL : comm->reason),
		.first_seen_ns = field_time(store_utc_ns(store, comm->since_ns)),
		.freed = field_int(comm->freed),
		.instance = field_int(rank->instance),
		.communicator_key = field_int(key),
	};

	if (comm->key && comm->key != key)
		comm_rows_release_key(comms, comm, store);
	comm->key = key;
	comm_rows_set_dirty(comms, comm, false);
	store_put_communicators(store, &row);
	if (comm->freed)
		comm_rows_drop(comms, (size_t)(comm - comms->comm));
}

void comm_rows_free(struct comm_rows *comms)
{
	free(comms->comm);
	*comms = (struct comm_rows){0};
}
