/* SPDX-License-Identifier: Apache-2.0 */
/* The communicators of a rank: their rows in the store, their identification, and their members. */
#ifndef RANKTRACE_DAEMON_COLL_COMMS_H
#define RANKTRACE_DAEMON_COLL_COMMS_H

#include "analyzers/coll/coll.h"
#include "daemon/ranks/ranks.h"

/*
 * Rows of `communicators`, one for each. The key of an identified communicator is made of (instance, identity): it
 * survives a restart of the daemon, and operations refer to it. An unidentified one has a key of its own. When a key
 * changes, the old row is deleted.
 */

struct store;

struct comm_row {
	uint64_t address, since_ns;
	uint64_t process_group; /* of the framework, 0: unknown */
	uint64_t named_by;	/* process group last asked for a name */
	int64_t key;		/* of its row; 0: none yet */
	bool dirty;		/* row not written since the last change */
	bool asked;		/* for its identity */
	uint64_t retry_ns;	/* when to ask again; 0: never */
	bool freed;
	uint32_t member, members;
	int64_t color;
	char family[8];
	char communicator[20], parent[20];
	char name[COLL_NAME_BYTES], kind[16], source[16];
	char reason[192];
};

struct comm_rows {
	struct comm_row *comm;
	size_t count, capacity;
	size_t deferred; /* number with an retry_ns */
	size_t dirty;	 /* number of dirty ones: mostly 0 */
	bool changed;	 /* a new one, or another identity or members; cleared by the reader */
};

/* Records a report of the analyzer. */
void comm_rows_note(struct comm_rows *comms, const struct coll_communicator *communicator);
/* Next one to write or identify; NULL if none. */
struct comm_row *comm_rows_next(struct comm_rows *comms);
/* Its identity is not readable now: comm_rows_retry() marks it for another try. */
void comm_rows_defer(struct comm_rows *comms, const char *family, uint64_t address, uint64_t retry_ns);
void comm_rows_retry(struct comm_rows *comms, uint64_t now_ns);
/* Writes its row; removes it if freed, which invalidates pointers to others. */
void comm_rows_put(struct comm_rows *comms, struct comm_row *comm, const struct rank *rank, struct store *store);
const struct comm_row *comm_rows_find(const struct comm_rows *comms, const char *family, uint64_t address);
/* This rank's number in it, -1 if unknown. */
int32_t comm_rows_member(const struct comm_rows *comms, const char *communicator);
/* Its kind, "" if unclear. */
const char *comm_rows_kind(const struct comm_rows *comms, const char *communicator);
void comm_rows_free(struct comm_rows *comms);

/* Of an identified communicator. */
int64_t comm_rows_key(int64_t instance, const char *communicator);

/* Identity and name of communicators that no call has: asked of a worker (comm_reader.h), answered later. */

struct comm_answer;
struct comm_asking;
struct context;

/* Which communicator was asked for. Its rank may have ended since, and its address may be another's. */
struct comm_asked {
	uint32_t slot;
	int64_t instance;
	const char *family;
	uint64_t address, since_ns;
	bool for_name;
	uint64_t again_ns; /* when to ask again; 0: never */
};

/* What was asked and not answered, of all ranks. */
struct comm_identify {
	struct context *context; /* without workers, the answer comes from within comm_identify() */
	void (*answered)(void *arg, const struct comm_asked *asked, const struct comm_answer *answer);
	void *arg;
	struct comm_asking *asking;
};

/* Asks once for the identity (again after a temporary failure) and once for the name, if unknown. Returns whether it
 * did. */
bool comm_identify(
	struct comm_identify *identify, const struct rank *rank, struct comm_rows *comms, struct comm_row *comm);
/* Forgets all that was asked. */
void comm_identify_cancel(struct comm_identify *identify);

/*
 * Members of a communicator as ranks of the job, which no call passes: known if all members are on this node, or if the
 * communicator has as many members as the job has ranks. Members share identity, library, size, user, job and world
 * size; each member number and each rank must occur once. Members never change during a communicator's life.
 */

#define COMM_MEMBERS_MAX 65536 /* communicators of all ranks; beyond it none is examined */
#define COMM_MEMBERS_NS NSEC_PER_SEC

/* A live rank; pointers are the caller's. */
struct comm_members_rank {
	const struct rank *rank;
	struct comm_rows *comms;
	struct coll *ops;
};

/*
 * Passes all communicators with known members to the analyzers, if one is new or changed. The analyzers may call their
 * sinks.
 */
void comm_members_publish(const struct comm_members_rank *ranks, size_t count);

#endif
