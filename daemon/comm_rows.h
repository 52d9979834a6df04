/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The communicators of one rank as the store knows them: what the analyzer told of each, and under which key its row is.
 *
 * Keys. A communicator whose identity is known has the key of (instance, identity), so that it keeps its row when the
 * daemon restarts, and operations can name it; one that is not known has a key of its own. A communicator has one row: when its
 * key changes, because it is known or known better, the row of before is taken away.
 */
#ifndef RANKTRACE_COMM_ROWS_H
#define RANKTRACE_COMM_ROWS_H

#include "analyzers/ops.h"
#include "daemon/ranks.h"

struct store;

struct comm_row {
	uint64_t address, since_ns;
	uint64_t process_group; /* of the framework, 0: not seen */
	uint64_t named_by;      /* the one that was asked for a name */
	int64_t key;         /* of its row; 0: none yet */
	bool dirty;          /* to be told to the store */
	bool asked;          /* for its identity */
	uint64_t again_ns;   /* to be asked for it again then; 0: not */
	bool freed;
	uint32_t member, members;
	int64_t color;
	char family[8];
	char communicator[20], parent[20];
	char name[COLL_NAME_BYTES], kind[16], source[16];
	char trouble[192];
};

struct comm_rows {
	struct comm_row *comm;
	size_t count, capacity;
	size_t later; /* how many have an again_ns */
	size_t dirty; /* how many are: there is nothing to do after most calls */
	bool changed; /* one is new, or its identity or members are; whoever looks at them takes it back */
};

/* Notes what the analyzer told. */
void comm_rows_note(struct comm_rows *comms, const struct coll_communicator *told);
/* The next one that is to be told to the store or asked for; NULL where there is none. */
struct comm_row *comm_rows_next(struct comm_rows *comms);
/* What it was asked for could not be told now: comm_rows_again() has it asked once more. */
void comm_rows_later(struct comm_rows *comms, const char *family, uint64_t address, uint64_t again_ns);
void comm_rows_again(struct comm_rows *comms, uint64_t now_ns);
/* Writes its row; forgets it if it is freed, so that pointers to others may be no good after. */
void comm_rows_put(struct comm_rows *comms, struct comm_row *comm, const struct rank *rank, struct store *store);
const struct comm_row *comm_rows_find(const struct comm_rows *comms, const char *family, uint64_t address);
/* The number of this rank in it, -1 if it is not known. */
int32_t comm_rows_member(const struct comm_rows *comms, const char *communicator);
void comm_rows_free(struct comm_rows *comms);

/* Of a communicator that is known. */
int64_t comm_rows_key(int64_t instance, const char *communicator);

#endif
