/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations of communicators (L1): one `struct ops` (analyzers/ops.h) a rank, fed with records of calls, device records
 * and identities that others find out; what it tells becomes rows of `collectives`, `communicators` and
 * `collective_groups`, with rank, step and instance. Nothing here judges.
 *
 * Identities that are in no call: when a communicator is first seen without one, its family's row in
 * daemon/ops_identifiers.def is asked, once. It answers with ops_room_identify(), at once or later; any number of times.
 *
 * A rank that ended is remembered by where it stood, so that its peers' wait can be put down to it: the newest
 * OPS_ROOM_ENDED of them, for OPS_ROOM_ENDED_NS or until a rank of the same number and job starts.
 */
#ifndef RANKTRACE_OPS_ROOM_H
#define RANKTRACE_OPS_ROOM_H

#include "analyzers/ops.h"
#include "daemon/call_rooms.h"

#define OPS_ROOM_ENDED 32
#define OPS_ROOM_ENDED_NS (3600 * NSEC_PER_SEC)
#define OPS_ROOM_IN_CALL_MAX 1024 /* calls in flight that are shown */

struct ops_room;

/* A call that was entered and has not returned. */
struct ops_room_call {
	int32_t rank;
	uint32_t pid, thread_id;
	const struct probe *probe;
	uint64_t start_ns;
};

/* Calls in flight, as the kernel's map has them: calls back for each, in any order. flags: RT_CALL_*. */
typedef void (*ops_room_in_flight_each)(void *arg, uint32_t pid, uint32_t thread_id, const struct probe *probe,
	uint64_t start_ns, uint32_t flags, const uint64_t *words);
typedef void (*ops_room_in_flight)(void *reader, ops_room_in_flight_each each, void *arg);

struct ops_room_counts {
	uint64_t rows;          /* of collectives */
	uint64_t groups;
	uint64_t communicators; /* live now */
	uint64_t lost, not_waited, late, forgotten; /* struct ops_counts, all ranks and those that ended */
};

int ops_room_new(struct context *context, struct ops_room **ret);
/* What waits goes out. */
struct ops_room *ops_room_free(struct ops_room *colls);

void ops_room_device(struct ops_room *colls, const struct rank *rank, const struct ops_device *device);
/* As ops_identify(). */
void ops_room_identify(struct ops_room *colls, const struct rank *rank, const char *family, uint64_t address,
	uint64_t identity, const char *name, uint32_t member, uint32_t members, const char *source,
	const char *trouble);
/* Who can read what is in flight; NULL: nobody any more. */
void ops_room_set_in_flight(struct ops_room *colls, ops_room_in_flight read, void *reader);

/* Tells the analyzers what is in flight now; ret may be NULL. Returns how many calls were written, OPS_ROOM_IN_CALL_MAX at
 * most. */
size_t ops_room_refresh(struct ops_room *colls, struct ops_room_call *ret, size_t max);
struct ops_room_standing {
	int32_t rank;
	uint32_t pid;
	const char *job;
	uint64_t ended_ns;     /* 0: it lives */
	const struct ops *ops;
	const struct ops_standing *standing;
	const char *kind;      /* of the communicator, "" if nothing tells */
	const char *trouble;   /* why its identity is not known, "" if it is */
};
/* Where each rank stands on each of its communicators. */
void ops_room_each(
	struct ops_room *colls, void (*callback)(void *arg, const struct ops_room_standing *standing), void *arg);
void ops_room_counts(const struct ops_room *colls, struct ops_room_counts *ret);
/* "init", "library", ... as the view has it. */
const char *ops_room_seq_from(enum ops_seq_from from);

extern const struct call_room ops_call_room;

#endif
