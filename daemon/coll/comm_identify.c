/* SPDX-License-Identifier: Apache-2.0 */
/* Calls the identifier of a communicator's family. */
#include "daemon/coll/comms.h"

#define AGAIN_NS (2 * NSEC_PER_SEC)

#define COLL_IDENTIFIER(name) extern const struct coll_identifier coll_identifier_##name;
#include "daemon/coll/identifiers.def"
#undef COLL_IDENTIFIER

static const struct coll_identifier *const identifiers[] = {
#define COLL_IDENTIFIER(name) &coll_identifier_##name,
#include "daemon/coll/identifiers.def"
#undef COLL_IDENTIFIER
	NULL,
};

static const struct coll_identifier *identifier_of(const char *family)
{
	for (size_t i = 0; identifiers[i]; i++)
		if (streq(identifiers[i]->family, family))
			return identifiers[i];
	return NULL;
}

/* The answer may come from within and move the rows. */
static void comm_identify_call(struct context *context, const struct rank *rank, struct comm_rows *comms,
	struct comm_row *comm, const struct coll_identifier *identifier)
{
	uint64_t address = comm->address;

	comm->asked = true;
	if (!identifier->identify(context, rank, address))
		comm_rows_defer(comms, identifier->family, address, monotonic_ns() + AGAIN_NS);
}

bool comm_identify(struct context *context, const struct rank *rank, struct comm_rows *comms, struct comm_row *comm)
{
	const struct coll_identifier *identifier = identifier_of(comm->family);

	if (!identifier || comm->freed)
		return false;
	if (identifier->identify && !comm->communicator[0] && !comm->asked) {
		comm_identify_call(context, rank, comms, comm, identifier);
		return true;
	}
	if (identifier->name && !comm->name[0] && comm->process_group && comm->named_by != comm->process_group) {
		comm->named_by = comm->process_group;
		identifier->name(context, rank, comm->address, comm->process_group);
		return true;
	}
	return false;
}
