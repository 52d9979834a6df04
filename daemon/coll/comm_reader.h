/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What no call passes of a communicator, its identity or its name, from the memory of the rank: the libraries' objects
 * and files of stores. Reading them may wait for a page or a file of the rank's user, so a worker does it
 * (libexec/ranktrace/worker/reader). One row for each library family (identifiers.def).
 */
#ifndef RANKTRACE_DAEMON_COLL_COMM_READER_H
#define RANKTRACE_DAEMON_COLL_COMM_READER_H

#include "analyzers/coll/coll.h"
#include "daemon/worker/worker.h"

#define COMM_REASON_BYTES 128

enum comm_reader_op { COMM_READER_IDENTITY, COMM_READER_NAME, COMM_READER_OPS };

/* Of the same build on both sides: sent in its memory layout. */
struct comm_question {
	char magic[4]; /* set by comm_reader_ask() */
	uint32_t op, pid, pad0;
	uint64_t address; /* of the communicator; for its name of the framework's process group */
	char family[8], boot_id[40], job[64];
};

struct comm_answer {
	uint64_t identity; /* 0: unknown, for the reason */
	uint32_t member, members;
	char name[COLL_NAME_BYTES]; /* "": unknown */
	char reason[COMM_REASON_BYTES];
};

struct coll_identifier {
	const char *family;
	/* Each fills the answer, which is empty before, and may be NULL. They run in the worker. */
	void (*read[COMM_READER_OPS])(const struct comm_question *question, struct comm_answer *ret);
};

/* NULL: calls of the family, or nothing, give its identity. */
const struct coll_identifier *comm_reader_identifier(const char *family);

/* As worker_ask(). */
int comm_reader_ask(struct workers *workers, uint32_t owner, struct comm_question *question, worker_done done,
	void *arg, uint64_t *ret_id);
/* The answer as the worker gave it, which is hostile. -EBADMSG: none that is valid. */
int comm_reader_take(const struct worker_reply *reply, struct comm_answer *ret);
/* Reads in this process, and waits: without workers. */
void comm_reader_read(const struct comm_question *question, struct comm_answer *ret);

/* The worker. */
bool comm_reader_is_question(const struct worker_task *task);
int comm_reader_serve(const struct worker_task *task);

#endif
