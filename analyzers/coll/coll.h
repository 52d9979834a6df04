/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of communication libraries to operations of communicators. Pure: no I/O, no clock, no globals; the same code runs
 * in the daemon, over a store and in tests. One `struct coll` follows one rank (one process).
 *
 * What comes in: a record for every probed call (struct ops_event: a probe table's row with its named fields), and, where
 * the process has a marker library loaded, a record for every operation that the device did (struct ops_device). What goes
 * out: one row an operation, with its communicator's identity and its number on it, so that rows of different ranks and
 * nodes can be joined by (communicator, seq) with no configuration.
 *
 * Communicators. Told apart by (family, address) while they live; a call that frees one makes its address free. The
 * identity comes, best first: from the library's own memory with each call (IDENTITY field), from coll_identify(), from the
 * init call, from the device record; else it is not known, and the row says so: it is never guessed. An address under
 * which another identity of the same source turns up is another communicator, whose predecessor's end was not seen.
 *
 * Numbers. Collectives of a communicator are numbered from 1; point-to-point calls are numbered on their own for each
 * (communicator, sender, receiver). Where the call itself carries the library's count of calls before it (SEQ), its number
 * is SEQ + 1. Else they are counted from the communicator's init. Where init was not seen, numbers are taken from the
 * first device record that matches a call (marker; a call in a group of several tells nothing, for NCCL sorts them), or
 * from the process group's own count (COLL_GROUP_SEQ), else counted from the first call seen: seq_from says which, and only
 * COLL_SEQ_ATTACH may not be joined. INIT and MARKER are one numbering. A device record that is numbered higher than the
 * call that it belongs to says that records of calls were lost: the count goes on from it. Where the daemon knows of a
 * loss, coll_dropped() makes counted numbers COLL_SEQ_ATTACH until a record or the process group tells again.
 * A row whose number would be COLL_SEQ_ATTACH waits COLL_NUMBER_NS for something that numbers it. If nothing did, its
 * communicator is one that nothing numbers, and its later rows do not wait for that.
 *
 * Groups. A call made in a group (in_group) lasts until the group's closing call returns: its row waits for the
 * OPS_GROUP record of its thread. A group of one member is no group.
 *
 * Work. Libraries that finish in another thread (gloo): OPS_OP (end_ns 0) announces the operation on its thread, OPS_WORK
 * gives the object that stands for it (the newest announced call of the same thread that has none), OPS_FINISHED ends it.
 * A call may carry its WORK itself. An operation that its library makes of others (gloo's ReduceScatter) has inner calls,
 * under its own SEQ: one row, with the outer one's name. Else a call under the SEQ of one that has no work yet says that an
 * exception left that one before it had a number: it makes no row.
 *
 * Device records are matched to calls of the same communicator: by number where both are known, else by operation, count
 * and time (the record's host_ns lies in the call, from its start to its group's end). A row waits for its device record
 * if its communicator has had one, at most COLL_WAIT_NS after the newest record and COLL_WAITING_MAX of them; a late one
 * then is counted, not reported. Records come in batches, so that many calls may come before the first one: rows of a
 * communicator that has had none wait COLL_NUMBER_NS for it, unless one waited in vain before. Rows of a communicator that
 * was freed wait COLL_FREED_WAIT_NS: the library hands over the last batch after that. A device record that no call
 * explains (attached in mid-run) makes no row; that of a recorded graph, whose launch is no call, makes one with seq 0,
 * captured, device.
 *
 * In flight. A call that was entered and has not returned sends no record. The daemon reads the kernel's map of calls in
 * flight and tells it whole: coll_in_call_begin(), then coll_in_call() for each. Standings and coll_at() count them as entered.
 *
 * Times are CLOCK_MONOTONIC ns, of the host; device times come already mapped to it. Texts in rows are valid during the
 * call. Everything in an event may be a lie: lengths, numbers and addresses are bounded here, not believed.
 */
#ifndef RANKTRACE_COLL_COLL_H
#define RANKTRACE_COLL_COLL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzers/coll/comm_kind.h"

#define COLL_COMMS_MAX 1024      /* live communicators a rank; the one used longest ago is forgotten beyond it */
#define COLL_WAITING_MAX 4096    /* rows that wait for a group, a work or a device record */
#define COLL_RECENT 64           /* operations a communicator whose signature is remembered, to compare ranks */
#define COLL_WAIT_NS 30000000000ULL
#define COLL_IDENTIFY_NS 2000000000ULL /* a row waits that long for coll_identify(), if its family is told later */
#define COLL_NUMBER_NS 2000000000ULL   /* what numbers a row, and a communicator's first device record, is waited for */
#define COLL_FREED_WAIT_NS 5000000000ULL /* after its communicator's end, or a newer record of that */
#define COLL_STUCK_NS 600000000000ULL  /* a row waits that long for its group's or its work's end */
#define COLL_IN_CALL_MAX 256
#define COLL_NAME_BYTES 64
#define COLL_UNKNOWN UINT64_MAX  /* of a duration, a time, a count: not known */

enum coll_field {
#define OP_FIELD(id, name, meaning) OP_FIELD_##id,
#include "analyzers/coll/coll_fields.def"
#undef OP_FIELD
	OP_FIELD_MAX
};

enum coll_kind {
	COLL_NONE,
	COLL_OP,         /* "op": a collective was called */
	COLL_P2P,        /* "p2p": a send or a receive was called */
	COLL_GROUP,      /* "group": the outermost group of the thread was closed: start is its opening, end its return */
	COLL_WORK,       /* "work": the operation just announced on this thread is WORK now */
	COLL_FINISHED,   /* "finished": WORK is complete */
	COLL_COMM,       /* "comm": a communicator was made (init, split); COMM is its address */
	COLL_COMM_FREE,  /* "comm_free": COMM is going away */
	COLL_CAPTURE,    /* "capture": the thread begins (end_ns 0) or ends recording a device graph; calls between are captured */
	COLL_CAPTURE_END,/* "capture_end" */
	COLL_GROUP_SEQ,  /* "group_seq": the framework's process group numbered the last call of this thread SEQ */
	COLL_KIND_MAX
};

struct coll_event {
	enum coll_kind kind;
	const char *family;     /* of the library: "nccl", "rccl", "hccl", "gloo" */
	const char *op;         /* "AllReduce", "Send": NCCL's words for all families */
	uint64_t start_ns;
	uint64_t end_ns;        /* 0: the return is not seen (or not yet) */
	uint32_t thread_id;
	uint64_t stack_pointer; /* at the call's entry, 0: not known. A call within another is below it */
	bool in_group;
	bool has_result;
	int64_t result;         /* 0: the call succeeded */
	uint32_t present;       /* 1 << enum op_field */
	uint64_t field[OP_FIELD_MAX];
	const char *text;       /* name of a communicator, "" if none */
};

/* op "" or NULL: the record only tells of the communicator and that its operations will be recorded; with
 * identity 0, that those of all communicators of the rank will be. */
struct coll_device {
	uint64_t identity;      /* of the communicator */
	const char *name;       /* of the communicator, "" if none */
	uint64_t seq;           /* collectives: from 1 since its init; 0 unknown (point to point) */
	const char *op;
	uint64_t count;
	uint64_t host_ns;       /* when the host gave it to the device's queue */
	uint64_t start_ns;      /* on the device; OPS_UNKNOWN: not known */
	uint64_t stop_ns;
	uint32_t member, members;
	int32_t peer;           /* -1: collective */
	bool captured;          /* launched by a recorded graph */
	bool open;              /* given to the device and not complete: keeps its row waiting */
	const char *dtype;      /* "" or NULL if not known; only used where no call tells it */
};

enum coll_seq_from { COLL_SEQ_INIT, COLL_SEQ_LIBRARY, COLL_SEQ_MARKER, COLL_SEQ_GROUP, COLL_SEQ_ATTACH };

struct coll_row {
	const char *communicator; /* 16 hex digits; "" if its identity is not known */
	uint64_t seq;
	enum coll_seq_from seq_from;
	const char *family;
	const char *op;
	const char *dtype;        /* "float32", ...; "" if not known */
	uint64_t count;           /* OPS_UNKNOWN where the call gives none */
	uint64_t bytes;           /* of this rank's part, as PyTorch's profiler counts them: see coll_bytes.h */
	int32_t peer;             /* -1: none */
	uint64_t host_start_ns;
	uint64_t host_duration_ns;
	uint64_t device_start_ns;
	uint64_t device_duration_ns;
	bool device;              /* tier: device, else host */
	bool captured;
	bool p2p;
	uint64_t group;           /* number of the group of this rank that it was called in, 0: none */
	int64_t result;           /* of the call; 0 done */
	uint32_t thread_id;
};

struct coll_group {
	uint64_t group;
	uint64_t members;         /* calls in it */
	uint64_t bytes;
	uint64_t start_ns, duration_ns;
	uint32_t thread_id;
};

struct coll_communicator {
	const char *communicator; /* "" if not known */
	const char *family;
	const char *name;         /* as the framework names it, "" if none */
	uint64_t address;
	uint64_t process_group;   /* address of the framework's object for it, 0: not seen */
	uint64_t number;          /* of this rank, never used again: tells rows of one communicator from another's */
	uint32_t member, members; /* members 0: not known */
	const char *parent;       /* communicator that it was split from, "" if none or not known */
	int64_t color;            /* of the split; INT64_MIN if none */
	const char *source;       /* what told its identity: "library", "init", "marker", coll_identify()'s word, "" */
	const char *trouble;      /* why it is not known, "" if it is */
	uint64_t since_ns;        /* init, or the first call seen */
	bool freed;
	const char *kind;         /* of comm_kind.h, "" if unclear; told anew when it changes */
};

/* Where a rank stands on one communicator. */
struct coll_point {
	uint64_t seq;           /* 0: none yet */
	char op[COLL_NAME_BYTES];
	uint64_t count, bytes;
	char dtype[16];
	uint64_t time_ns;       /* entered: the call's start; completed: its end */
};

struct coll_standing {
	char communicator[20];  /* "" if not known */
	char family[8];
	char name[COLL_NAME_BYTES];
	uint64_t address;
	uint32_t member, members;
	enum coll_seq_from seq_from;
	struct coll_point entered;   /* the last collective that the host called */
	struct coll_point completed; /* the last one known to be complete; seq 0: none, or nothing tells */
	bool completion_known;      /* something tells of completion: a work, a device record */
	uint64_t in_call_ns;        /* the host is in a call on it (or its group's end) since then; 0: it is not */
};

/* Called from within coll_feed(), coll_feed_device(), coll_identify(), coll_members(), coll_in_call(), coll_idle(),
 * coll_end(); must not call back in. */
struct coll_sink {
	void (*row)(void *arg, const struct coll_row *row);
	void (*group)(void *arg, const struct coll_group *group);
	void (*communicator)(void *arg, const struct coll_communicator *communicator); /* new, or more is known, or freed */
	void *arg;
};

struct coll_counts {
	uint64_t events;
	uint64_t lost;          /* works that finished unannounced, groups without a member, ... */
	uint64_t not_waited;    /* rows reported early because too many waited */
	uint64_t late;          /* device records whose row had gone */
	uint64_t comms_forgotten;
};

struct coll;

struct coll *coll_new(const struct coll_sink *sink); /* NULL: out of memory */
struct coll *coll_free(struct coll *ops);
void coll_feed(struct coll *ops, const struct coll_event *event);
void coll_feed_device(struct coll *ops, const struct coll_device *device);
/* What the daemon found out about the live communicator at that address; nothing happens if there is none. identity 0: it
 * could not be found out, and trouble says why. name may be "", members 0. */
void coll_identify(struct coll *ops, const char *family, uint64_t address, uint64_t identity, const char *name,
		  uint32_t member, uint32_t members, const char *source, const char *trouble);
/* Where the members of a communicator are, for its kind: of the live ones of that identity; nothing happens if there is
 * none. */
void coll_members(struct coll *ops, const char *family, const char *communicator, const struct comm_place *place);
/* A new look at what is in flight: forgets the last one. */
void coll_in_call_begin(struct coll *ops);
/* A call that was entered and has not returned: an OPS_OP, OPS_P2P or OPS_GROUP with start_ns (of a group: the start of
 * its closing call) and no end; other kinds are ignored, and a call whose record has come already. */
void coll_in_call(struct coll *ops, const struct coll_event *event);
/* Records of this rank's calls may have been lost: what was counted may not be joined from here on. */
void coll_dropped(struct coll *ops);
/* Time has passed: rows that waited long enough go out as they are. */
void coll_idle(struct coll *ops, uint64_t now_ns);
/* The rank ended, or its level went off: everything that waits goes out. */
void coll_end(struct coll *ops);
/* One a communicator, the one used last first; returns how many were written. */
size_t coll_standings(const struct coll *ops, struct coll_standing *ret, size_t max);
/* What the rank called as number seq of that communicator; false where it has not, or that is forgotten. */
bool coll_at(const struct coll *ops, const char *communicator, uint64_t seq, struct coll_point *ret);
void coll_counts(const struct coll *ops, struct coll_counts *ret);

/* "count" and so on; OP_FIELD_MAX if there is no such field. coll_kind_parse: OPS_NONE. */
enum coll_field op_field_parse(const char *name);
const char *op_field_name(enum coll_field field);
enum coll_kind coll_kind_parse(const char *name);

#endif
