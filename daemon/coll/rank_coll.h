/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Communication of ranks (L1): one `struct coll` (analyzers/coll/coll.h) per rank, fed with call records, device
 * records and identities. Its output becomes rows of `collectives`, `communicators` and `collective_groups`, with
 * rank, step and instance. Nothing here judges.
 *
 * A communicator first seen without identity is read by the identifier of its family (identifiers.def), in a worker.
 *
 * The progress of ended ranks is kept, so that their peers' waits can be attributed: the newest RANK_COLL_ENDED of
 * them, for RANK_COLL_ENDED_NS or until a rank of the same number and job starts.
 */
#ifndef RANKTRACE_DAEMON_COLL_RANK_COLL_H
#define RANKTRACE_DAEMON_COLL_RANK_COLL_H

#include "analyzers/coll/coll.h"
#include "daemon/calls/call_sink.h"

#define RANK_COLL_ENDED 32
#define RANK_COLL_ENDED_NS (3600 * NSEC_PER_SEC)
#define RANK_COLL_IN_CALL_MAX 1024 /* calls in flight in a snapshot */

struct rank_coll;

/* A call that has not returned. */
struct rank_coll_call {
	int32_t rank;
	uint32_t pid, thread_id;
	const struct probe *probe;
	uint64_t start_ns;
	uint32_t uid; /* of the process */
};

/* Reader of the kernel's map of calls in flight: one callback each, in any order. flags: RT_CALL_*. */
typedef void (*rank_coll_in_flight_each)(void *arg, uint32_t pid, uint32_t thread_id, const struct probe *probe,
	uint64_t start_ns, uint32_t flags, const uint64_t *words);
typedef void (*rank_coll_in_flight)(void *reader, rank_coll_in_flight_each each, void *arg);

struct rank_coll_counts {
	uint64_t rows; /* of collectives */
	uint64_t groups;
	uint64_t communicators;					/* live */
	uint64_t lost, not_waited, late, impossible, forgotten; /* struct coll_counts, of live and ended ranks */
};

int rank_coll_new(struct context *context, struct rank_coll **ret);
/* Flushes what is pending. */
struct rank_coll *rank_coll_free(struct rank_coll *colls);

/* Called at each collective or point-to-point operation that ended and at each communicator. Members may be NULL. */
struct rank_coll_observer {
	/* step: STEPS_NONE if unknown; member: of the communicator, for point-to-point, else -1 */
	void (*row)(
		void *arg, uint32_t slot, int64_t instance, const struct coll_row *row, int64_t step, int32_t member);
	void (*communicator)(void *arg, uint32_t slot, int64_t instance, const struct coll_communicator *communicator);
};
#define RANK_COLL_OBSERVERS 2 /* findings and metrics */
/* As rank_steps_observe(). */
int rank_coll_observe(struct rank_coll *colls, const struct rank_coll_observer *observer, void *arg);

/* Kind of a rank's communicator (comm_kind_name()), "" if unclear. */
const char *rank_coll_kind(const struct rank_coll *colls, uint32_t slot, int64_t instance, const char *communicator);

void rank_coll_device(struct rank_coll *colls, const struct rank *rank, const struct coll_device *device);
/* As coll_identify(). */
void rank_coll_identify(struct rank_coll *colls, const struct rank *rank, const char *family, uint64_t address,
	uint64_t identity, const char *name, uint32_t member, uint32_t members, const char *source, const char *reason);
/* Sets the reader of calls in flight; NULL: none. */
void rank_coll_set_in_flight(struct rank_coll *colls, rank_coll_in_flight read, void *reader);

/*
 * Feeds calls in flight to the analyzers; ret may be NULL. Returns the number of calls written, at most
 * RANK_COLL_IN_CALL_MAX.
 */
size_t rank_coll_refresh(struct rank_coll *colls, struct rank_coll_call *ret, size_t max);
struct rank_coll_standing {
	int32_t rank;
	uint32_t pid;
	const char *job;
	uint32_t uid;
	uint64_t ended_ns; /* 0: alive */
	bool stopped;	   /* its process, by a signal or a debugger */
	const struct coll *ops;
	const struct coll_standing *standing;
	const char *kind;   /* of the communicator, "" if unknown */
	const char *reason; /* why its identity is unknown, "" if known */
};
/* Calls back for each rank on each of its communicators. */
void rank_coll_each(
	struct rank_coll *colls, void (*callback)(void *arg, const struct rank_coll_standing *standing), void *arg);
/* Calls back for the clock of each device of each live rank. */
void rank_coll_clocks(struct rank_coll *colls,
	void (*callback)(void *arg, const struct rank *rank, const struct coll_clock *clock), void *arg);
void rank_coll_counts(const struct rank_coll *colls, struct rank_coll_counts *ret);

extern const struct call_sink rank_coll_sink;

#endif
