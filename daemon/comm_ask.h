/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may know what a communicator does not tell by itself: its identity, or its name. One row a family of libraries
 * (ops_identifiers.def). Whoever is asked answers through rank_coll_identify(), from within or later.
 */
#ifndef RANKTRACE_COMM_ASK_H
#define RANKTRACE_COMM_ASK_H

#include "daemon/comm_rows.h"

struct context;

/* Asked outside of all calls of the analyzer. */
struct coll_identifier {
	const char *family;
	/* For the identity; may be NULL. False: it could not be told now, ask again later. */
	bool (*ask)(struct context *context, const struct rank *rank, uint64_t address);
	/* For the name, of a communicator that has none and whose process group was seen; may be NULL. */
	void (*name)(struct context *context, const struct rank *rank, uint64_t address, uint64_t process_group);
};

/* Once each for its identity, or until it could be told, and its name, where they are not known and somebody may know.
 * Whether anybody was asked. */
bool comm_identify(struct context *context, const struct rank *rank, struct comm_rows *comms, struct comm_row *comm);

#endif
