/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which ranks of a job are the members of a communicator, which no call tells: known where all of them are on this node,
 * or where it has as many members as its job has ranks. Else nothing is told. Members are of one communicator if its
 * identity, library and size are the same and so are their job and its size; each number of a member and each rank must be
 * there once. What was told is not taken back: a communicator's members are the same for all its life.
 */
#ifndef RANKTRACE_DAEMON_COLL_COMMS_H
#define RANKTRACE_DAEMON_COLL_COMMS_H

#include "analyzers/coll/coll.h"
#include "daemon/ranks/ranks.h"

/*
 * The communicators of one rank as the store knows them: what the analyzer told of each, and under which key its row is.
 *
 * Keys. A communicator whose identity is known has the key of (instance, identity), so that it keeps its row when the
 * daemon restarts, and operations can name it; one that is not known has a key of its own. A communicator has one row: when its
 * key changes, because it is known or known better, the row of before is taken away.
 */

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

/*
 * Who may know what a communicator does not tell by itself: its identity, or its name. One row a family of libraries
 * (identifiers.def). Whoever is asked answers through rank_coll_identify(), from within or later.
 */

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

#define COMM_MEMBERS_MAX 65536 /* communicators of all ranks that are looked at; beyond it none is */
#define COMM_MEMBERS_NS NSEC_PER_SEC

/* A live rank. All are of the caller. */
struct comm_members_rank {
	const struct rank *rank;
	struct comm_rows *comms;
	struct coll *ops;
};

/* Tells the analyzers of all communicators whose members are known, if one of them is new or changed since. The analyzers
 * may call their sinks. */
void comm_members_tell(const struct comm_members_rank *ranks, size_t count);

#endif
