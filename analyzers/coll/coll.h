/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matches calls of communication libraries to operations of communicators. Pure: no I/O, no clock, no globals; the same
 * code runs in the daemon, over a store and in tests. One `struct coll` follows one rank (one process).
 *
 * Input: a record for each probed call (struct coll_event: a probe table's row with its named fields) and, where the
 * process has a marker library, a record for each operation on the device (struct coll_device). Output: one row an
 * operation, with the communicator's identity and the operation's number, so that rows of different ranks and nodes
 * join by (communicator, seq) without configuration.
 *
 * Communicators. Keyed by (family, address) while they live; a call that frees one makes its address available. The
 * identity comes, best first: from the library's own memory with each call (IDENTITY field), from coll_identify(), from
 * the init call, from the device record; else it is unknown and the row says so: it is never guessed. Another identity
 * of the same source under a live address is another communicator: the end of its predecessor was not seen.
 *
 * Numbers. Collectives of a communicator are numbered from 1; point-to-point calls have numbers of their own for each
 * (communicator, sender, receiver). Where the call carries the library's count of earlier calls (SEQ), its number is
 * SEQ + 1. Else calls are counted from the communicator's init. Without a seen init, numbers come from the first device
 * record that matches a call (marker; not for a call in a group of several, which NCCL reorders), or from the process
 * group's own count (COLL_GROUP_SEQ), else from the first call seen: seq_from says which, and only COLL_SEQ_ATTACH may
 * not be joined. INIT and MARKER are one numbering. A device record with a higher number than its call means that
 * records of calls were lost: counting continues from it. Where the daemon knows of a loss, coll_dropped() makes
 * counted numbers COLL_SEQ_ATTACH until a record or the process group gives a number again. A row whose number would be
 * COLL_SEQ_ATTACH waits COLL_NUMBER_NS for a number. If none comes, later rows of that communicator do not wait.
 *
 * Groups. A call made in a group (in_group) lasts until the group's closing call returns: its row waits for the
 * COLL_GROUP record of its thread. A group of one member is no group.
 *
 * Work. Libraries that finish in another thread (gloo): COLL_OP (end_ns 0) announces the operation on its thread,
 * COLL_WORK gives its work object (for the newest announced call of that thread without one), COLL_FINISHED ends it. A
 * call may carry its WORK itself. An operation that the library composes of others (gloo's ReduceScatter) has inner
 * calls under its own SEQ: one row, with the outer name. Any other call under the SEQ of one that has no work yet means
 * that an exception left that one before it was numbered: it makes no row.
 *
 * Device records are matched to calls of the same communicator: by number where both are known, else by operation,
 * count and time (the record's host_ns lies in the call, from its start to its group's end). A row waits for its device
 * record if its communicator has had one, at most COLL_WAIT_NS after the newest record and COLL_WAITING_MAX of them; a
 * later one is counted, not reported. Records come in batches, so many calls may precede the first one: rows of a
 * communicator without records wait COLL_NUMBER_NS, unless an earlier row waited in vain. Rows of a freed communicator
 * wait COLL_FREED_WAIT_NS: the library delivers the last batch after that. A device record without a call (attached in
 * mid-run) makes no row; that of a recorded graph, whose launch is no call, makes one with seq 0, captured, device.
 *
 * In flight. A call that has not returned sends no record. The daemon reads the kernel's map of calls in flight and
 * passes all of it: coll_in_call_begin(), then coll_in_call() for each. Standings and coll_at() count them as entered.
 *
 * Times are CLOCK_MONOTONIC ns of the host. Device records have times of the device's clock; those of rows are
 * converted by device_clock.h, one clock for each device of the rank. A row's start on the device lies between the
 * start of its call and the notice of its end. A record of an operation that took longer on the device than between
 * these two is counted as impossible; its row has no device times. Texts in rows are valid during the call. Events are
 * untrusted: lengths, numbers and addresses are bounded here.
 */
#ifndef RANKTRACE_COLL_COLL_H
#define RANKTRACE_COLL_COLL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzers/coll/comm_kind.h"
#include "analyzers/coll/device_clock.h"

#define COLL_COMMS_MAX 1024   /* live communicators a rank; beyond it the least recently used is forgotten */
#define COLL_WAITING_MAX 4096 /* rows that wait for a group, a work or a device record */
#define COLL_RECENT 64	      /* newest operations of a communicator kept for comparing ranks */
#define COLL_WAIT_NS 30000000000ULL
#define COLL_IDENTIFY_NS 2000000000ULL	 /* wait for coll_identify(), in families identified later */
#define COLL_NUMBER_NS 2000000000ULL	 /* wait for a number, and for a communicator's first device record */
#define COLL_FREED_WAIT_NS 5000000000ULL /* after the communicator's end or its newest record */
#define COLL_STUCK_NS 600000000000ULL	 /* wait for the end of a group or a work */
#define COLL_IN_CALL_MAX 256
#define COLL_DEVICES_MAX 17 /* clocks of a rank: 16 devices of a process, and the one of number 0 */
#define COLL_NAME_BYTES 64
#define COLL_UNKNOWN UINT64_MAX /* a duration, time or count */

enum coll_field {
#define OP_FIELD(id, name, meaning) OP_FIELD_##id,
#include "analyzers/coll/coll_fields.def"
#undef OP_FIELD
	OP_FIELD_MAX
};

enum coll_kind {
	COLL_NONE,
	COLL_OP,	  /* "op": a collective was called */
	COLL_P2P,	  /* "p2p": a send or a receive was called */
	COLL_GROUP,	  /* "group": the thread closed its outermost group: start is its opening, end its return */
	COLL_WORK,	  /* "work": WORK is the operation just announced on this thread */
	COLL_FINISHED,	  /* "finished": WORK is complete */
	COLL_COMM,	  /* "comm": a communicator was made (init, split); COMM is its address */
	COLL_COMM_FREE,	  /* "comm_free": COMM is going away */
	COLL_CAPTURE,	  /* "capture": the thread begins (end_ns 0) or ends recording a device graph */
	COLL_CAPTURE_END, /* "capture_end" */
	COLL_GROUP_SEQ,	  /* "group_seq": the framework's process group numbered the last call of this thread SEQ */
	COLL_KIND_MAX
};

struct coll_event {
	enum coll_kind kind;
	const char *family; /* of the library: "nccl", "rccl", "hccl", "gloo" */
	const char *op;	    /* "AllReduce", "Send": NCCL's words for all families */
	uint64_t start_ns;
	uint64_t end_ns; /* 0: return not seen (yet) */
	uint32_t thread_id;
	uint64_t stack_pointer; /* at entry, 0: unknown; an inner call is below the outer one */
	bool in_group;
	bool has_result;
	int64_t result;	  /* 0: the call succeeded */
	uint32_t present; /* 1 << enum coll_field */
	uint64_t field[OP_FIELD_MAX];
	const char *text; /* name of a communicator, "" if none */
};

/* op "" or NULL: announces that operations of the communicator will be recorded; with identity 0, those of all
 * communicators of the rank. */
struct coll_device {
	uint64_t identity; /* of the communicator */
	const char *name;  /* of the communicator, "" if none */
	uint64_t seq;	   /* collectives: from 1 since init; 0: unknown (point to point) */
	const char *op;
	uint64_t count;
	uint64_t host_ns;  /* queued by the host */
	uint64_t start_ns; /* on the device, of its clock, or COLL_UNKNOWN */
	uint64_t stop_ns;
	uint64_t heard_ns; /* the host heard of the end; 0: unknown */
	uint32_t device;   /* of the process, from 1; 0: unknown, the rank has one clock */
	uint32_t member, members;
	int32_t peer;	   /* -1: collective */
	bool captured;	   /* launched by a recorded graph */
	bool open;	   /* queued, not complete: its row keeps waiting */
	const char *dtype; /* "" or NULL: unknown; used only without a call */
};

enum coll_seq_from { COLL_SEQ_INIT, COLL_SEQ_LIBRARY, COLL_SEQ_MARKER, COLL_SEQ_GROUP, COLL_SEQ_ATTACH };

struct coll_row {
	const char *communicator; /* 16 hex digits; "": identity unknown */
	uint64_t seq;
	enum coll_seq_from seq_from;
	const char *family;
	const char *op;
	const char *dtype; /* "float32", ...; "": unknown */
	uint64_t count;	   /* or COLL_UNKNOWN */
	uint64_t bytes;	   /* of this rank's part, as PyTorch's profiler counts them: see coll_bytes.h */
	int32_t peer;	   /* -1: none */
	uint64_t host_start_ns;
	uint64_t host_duration_ns;
	uint64_t device_start_ns;
	uint64_t device_duration_ns;
	bool device; /* tier: device, else host */
	bool captured;
	bool p2p;
	uint64_t group; /* number of its group in this rank, 0: none */
	int64_t result; /* of the call; 0: success */
	uint32_t thread_id;
};

struct coll_group {
	uint64_t group;
	uint64_t members; /* calls in it */
	uint64_t bytes;
	uint64_t start_ns, duration_ns;
	uint32_t thread_id;
};

struct coll_communicator {
	const char *communicator; /* "": unknown */
	const char *family;
	const char *name; /* the framework's, "": none */
	uint64_t address;
	uint64_t process_group;	  /* address of the framework's object, 0: not seen */
	uint64_t number;	  /* unique within the rank: distinguishes rows of communicators */
	uint32_t member, members; /* members 0: unknown */
	const char *parent;	  /* split from it; "": none or unknown */
	int64_t color;		  /* of the split; INT64_MIN if none */
	const char *source;	  /* of the identity: "library", "init", "marker", coll_identify()'s word, "" */
	const char *reason;	  /* why the identity is unknown, "" if it is known */
	uint64_t since_ns;	  /* init, or the first call seen */
	bool freed;
	const char *kind; /* of comm_kind.h, "" if unclear; reported again when it changes */
};

/* A collective of one communicator. */
struct coll_point {
	uint64_t seq; /* 0: none yet */
	char op[COLL_NAME_BYTES];
	uint64_t count, bytes;
	char dtype[16];
	uint64_t time_ns; /* start if entered, end if completed */
};

struct coll_standing {
	char communicator[20]; /* "": unknown */
	char family[8];
	char name[COLL_NAME_BYTES];
	uint64_t address;
	uint32_t member, members;
	enum coll_seq_from seq_from;
	struct coll_point entered;   /* last collective called by the host */
	struct coll_point completed; /* last one known complete; seq 0: none or unknown */
	bool completion_known;	     /* works or device records report completion */
	uint64_t in_call_ns; /* the host has been in a call on it (or its group's end) since then; 0: it is not */
};

/* Called from within coll_feed(), coll_feed_device(), coll_identify(), coll_members(), coll_in_call(), coll_idle(),
 * coll_end(). Must not call back. */
struct coll_sink {
	void (*row)(void *arg, const struct coll_row *row);
	void (*group)(void *arg, const struct coll_group *group);
	void (*communicator)(void *arg, const struct coll_communicator *communicator); /* new, changed or freed */
	void *arg;
};

struct coll_counts {
	uint64_t events;
	uint64_t lost;	     /* works finished unannounced, empty groups, ... */
	uint64_t not_waited; /* rows reported early: too many waited */
	uint64_t late;	     /* device records after their row */
	uint64_t impossible; /* device records with times that cannot be */
	uint64_t comms_forgotten;
};

/* Of a device, from its newest operation. */
struct coll_clock {
	uint32_t device;    /* as in struct coll_device */
	uint64_t newest_ns; /* host time of the newest operation */
	uint64_t steps, drift_changes, bounds;
	struct device_clock_estimate estimate;
};

struct coll;

struct coll *coll_new(const struct coll_sink *sink); /* NULL: out of memory */
struct coll *coll_free(struct coll *coll);
void coll_feed(struct coll *coll, const struct coll_event *event);
void coll_feed_device(struct coll *coll, const struct coll_device *device);
/* Identity of the live communicator at that address, if there is one. identity 0: unknown, for that reason.
 * name may be "", members 0. */
void coll_identify(struct coll *coll, const char *family, uint64_t address, uint64_t identity, const char *name,
	uint32_t member, uint32_t members, const char *source, const char *reason);
/* Placement of the members of the live communicators with that identity, for their kind. */
void coll_members(struct coll *coll, const char *family, const char *communicator, const struct comm_place *place);
/* Starts a new snapshot of calls in flight. */
void coll_in_call_begin(struct coll *coll);
/* A call in flight: COLL_OP, COLL_P2P or COLL_GROUP with start_ns (of a group: of its closing call) and no end. Ignores
 * other kinds, and a call whose record has arrived. */
void coll_in_call(struct coll *coll, const struct coll_event *event);
/* Records of calls may have been lost: counted numbers may not be joined from here on. */
void coll_dropped(struct coll *coll);
/* Reports rows whose waiting time has passed. */
void coll_idle(struct coll *coll, uint64_t now_ns);
/* The rank ended, or its level is off: reports all waiting rows. */
void coll_end(struct coll *coll);
/* One a communicator, most recently used first; returns how many were written. */
size_t coll_standings(const struct coll *coll, struct coll_standing *ret, size_t max);
/* The rank's call number seq on that communicator; false: not called, or forgotten. */
bool coll_at(const struct coll *coll, const char *communicator, uint64_t seq, struct coll_point *ret);
void coll_counts(const struct coll *coll, struct coll_counts *ret);
/* Clocks of the rank's devices; returns how many were written, at most COLL_DEVICES_MAX. */
size_t coll_clocks(const struct coll *coll, struct coll_clock *ret, size_t max);

/* Memory in use, nearly: communicators that wait for their last row are not counted. */
size_t coll_memory_bytes(const struct coll *coll);
/* "count" and so on; unknown words give OP_FIELD_MAX and COLL_NONE. */
enum coll_field op_field_parse(const char *name);
enum coll_kind coll_kind_parse(const char *name);
/* As stored: "init", "library", ...; unknown words give COLL_SEQ_ATTACH. */
const char *coll_seq_from_name(enum coll_seq_from from);
enum coll_seq_from coll_seq_from_parse(const char *name);

#endif
