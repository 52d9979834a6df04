/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of coll.h: what its files share. coll.c takes events in, coll_comms.c owns communicators, coll_flight.c what threads
 * are in the middle of, coll_rows.c the rows that wait, coll_device.c matches device records, coll_flight.c tells standings.
 */
#ifndef RANKTRACE_COLL_COLL_INTERNAL_H
#define RANKTRACE_COLL_COLL_INTERNAL_H

#include "analyzers/coll/comm_kind.h"
#include "analyzers/coll/coll.h"
#include "analyzers/coll/coll_bytes.h"
#include "analyzers/base/hash.h"

#define COLL_WORDS_MAX 128       /* names of operations */
#define COLL_THREADS_MAX 1024
#define COLL_PEERS_MAX 16384     /* numbered (communicator, direction, peer) of a rank */
#define COLL_EARLY_MAX 128       /* device records that came before their call's record */
#define COLL_FINISHED_MAX 64     /* works that finished before their call's record */
#define COLL_CAPTURES_MAX 4      /* streams that a thread records at a time */
#define COLL_WALK_MAX 512        /* rows looked at for one device record */

/* What a row waits for. */
enum { WAIT_GROUP = 1, WAIT_WORK = 2, WAIT_DEVICE = 4, WAIT_IDENTITY = 8, WAIT_CALLER = 16, WAIT_NUMBER = 32 };

#define COLL_RESULT_IN_PROGRESS 7 /* of NCCL's calls on a communicator that does not block: no failure */

struct coll_word {
	char text[COLL_NAME_BYTES];
	uint64_t hash;          /* of the text in lower case */
	const struct coll_operation *operation;
};

/* A collective whose signature is remembered. */
struct coll_signature {
	uint64_t seq, count, bytes, time_ns;
	const struct coll_word *word;
	const struct coll_dtype *dtype;
};

struct coll_comm {
	struct coll_node by_address;  /* live ones only */
	struct coll_node by_identity;
	struct coll_link used;        /* live ones: ops->live; gone ones with rows that wait: ops->gone */
	uint64_t id;                 /* never used again */
	const struct coll_family *family;
	uint64_t address;
	uint64_t process_group;      /* 0: not seen */
	uint64_t identity;           /* 0: not known */
	char text[20];               /* the same in hex, "" if not known */
	struct coll_link peers;       /* numbered pairs */
	const char *source;
	char told_by[16];            /* coll_identify()'s source */
	char trouble[96];
	char name[COLL_NAME_BYTES];
	uint64_t parent;             /* identity, 0: none or not known */
	int64_t color;
	uint32_t member, members;
	uint64_t since_ns, first_ns; /* made or first seen; first call's start */
	uint64_t seen_ns;            /* newest end of a call or its group */
	enum coll_seq_from seq_from, p2p_from;
	uint64_t last_seq;           /* of the newest collective */
	uint64_t sure_seq;           /* the last one before coll_dropped() */
	struct coll_signature *recent; /* ring of OPS_RECENT, made with the first collective */
	uint64_t calls;              /* collectives, ever: recent[(calls - 1) % OPS_RECENT] is the newest */
	struct coll_signature completed;
	bool completion_known;
	bool init_seen, library_identity, told; /* told: coll_identify() had its say */
	bool waits_device;           /* device records are to be expected */
	bool no_device, no_number;   /* a row waited in vain for a first device record, for a number */
	bool graphs;                 /* calls were captured: the device's numbers are not the host's */
	bool live, dirty;
	uint64_t freed_ns;           /* 0: it was not */
	uint64_t device_ns;          /* when the newest device record came */
	uint64_t device_seq;         /* the highest number that a device record had */
	uint64_t closing_ns;         /* a group with calls on it is being closed since; 0: none */
	size_t waiting;              /* rows */
	struct comm_mix mix;
	uint64_t mixed;              /* calls in the mix */
	struct comm_place place;     /* told by coll_members() */
	enum comm_kind kind;
};

struct coll_thread {
	struct coll_node node;
	struct coll_link used;
	struct coll_link group;       /* rows of the open group */
	struct coll_entry *announced; /* has no work yet */
	const struct coll_family *last_family; /* communicator of its newest collective, which may be gone */
	uint64_t last_address, last_comm, last_call;
	uint64_t newest_ns;          /* start of its newest call */
	uint64_t closed_ns;          /* end of its newest group */
	uint64_t capture[COLL_CAPTURES_MAX];
	unsigned captures;
};

struct coll_entry {
	struct coll_link age;         /* ops->waiting: in the order of feeding */
	struct coll_link member;      /* of the thread's open group */
	struct coll_node number;      /* (communicator, seq) of a collective that waits for the device */
	struct coll_node signature;   /* (communicator, op, peer) of what waits for the device */
	struct coll_node by_work;
	uint64_t id;
	struct coll_comm *comm;
	struct coll_thread *announcer;
	const struct coll_word *word;
	const struct coll_dtype *dtype;
	unsigned waits;
	uint64_t seq, count, given_bytes, start_ns, end_ns, group, fed_ns;
	uint64_t device_start_ns, device_stop_ns;
	enum coll_seq_from seq_from;
	int64_t result;
	int32_t peer;
	uint32_t thread_id;
	uint64_t stack_pointer;      /* at its entry, 0: not known */
	bool p2p, captured, grouped, device, has_seq;
	bool trial;                  /* its communicator has had no device record: waits for the first one */
	bool left;                   /* by an exception, before it had a number: it makes no row */
};

struct coll_peer {
	struct coll_node node;
	struct coll_link of_comm;
	uint64_t comm_id, count;
	int32_t peer;
	bool receive;
};

struct coll_early {
	struct coll_device device;
	char name[COLL_NAME_BYTES], op[COLL_NAME_BYTES], dtype[16];
	uint64_t came_ns;            /* 0: free */
};

struct coll_flight {
	struct coll_comm *comm;
	uint32_t thread_id;
	uint64_t start_ns;
	bool p2p;
	struct coll_signature signature;
};

struct coll {
	struct coll_sink sink;
	struct coll_counts counts;
	uint64_t now_ns, next_comm, next_entry, groups;
	struct coll_link live, gone;  /* communicators, the one used longest ago first */
	size_t comms, unidentified;
	struct coll_hash by_address, by_identity;
	struct coll_link threads;
	size_t n_threads;
	struct coll_hash thread;
	struct coll_link waiting, spare;
	size_t n_waiting;
	struct coll_hash number, signature, work, peer;
	size_t peers;
	bool marker, no_marker;      /* device records come from this rank; were waited for in vain */
	struct coll_word word[COLL_WORDS_MAX];
	size_t words;
	struct coll_early early[COLL_EARLY_MAX];
	size_t early_next, early_used;
	struct {
		uint64_t work, time_ns;
	} finished[COLL_FINISHED_MAX];
	size_t finished_next;
	struct coll_flight flight[COLL_IN_CALL_MAX];
	size_t flights;
};

static inline bool coll_has(const struct coll_event *event, enum coll_field field)
{
	return event->present & 1u << field;
}

/* 0 where the event does not carry it. */
static inline uint64_t coll_value(const struct coll_event *event, enum coll_field field)
{
	return coll_has(event, field) ? event->field[field] : 0;
}

static inline uint64_t coll_max(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static inline bool coll_failed(int64_t result)
{
	return result && result != COLL_RESULT_IN_PROGRESS;
}

static inline uint64_t coll_end_ns(const struct coll_event *event)
{
	return event->end_ns ? event->end_ns : event->start_ns;
}

/* coll_rows.c: names are kept once a rank. Never NULL: the last place stands for all that do not fit. */
const struct coll_word *coll_word(struct coll *ops, const char *text);
uint64_t coll_word_hash(const char *text);
/* Copies a text that may be NULL, cut at a character; what is not printable becomes '?'. */
void coll_text(char *ret, size_t size, const char *text);

/* coll_comms.c. coll_comm_of(): NULL if out of memory. */
struct coll_comm *coll_comm_of(struct coll *ops, const struct coll_event *event);
struct coll_comm *coll_comm_find(const struct coll *ops, const struct coll_family *family, uint64_t address);
struct coll_comm *coll_comm_by_identity(const struct coll *ops, const struct coll_device *device);
bool coll_comm_fits(const struct coll_comm *comm, const struct coll_device *device);
void coll_comm_made(struct coll *ops, const struct coll_event *event);
void coll_comm_freed(struct coll *ops, const struct coll_event *event);
void coll_comm_identity(struct coll *ops, struct coll_comm *comm, uint64_t identity, const char *source);
void coll_comm_members(struct coll_comm *comm, uint64_t member, uint64_t members);
/* Takes it off the live ones; it stays until its last row has gone. */
void coll_comm_retire(struct coll *ops, struct coll_comm *comm);
void coll_comm_unref(struct coll *ops, struct coll_comm *comm);
/* Tells the sink what is new about it. */
void coll_comm_tell(struct coll *ops, struct coll_comm *comm);
void coll_comms_done(struct coll *ops);

/* coll_number.c: numbers of calls. */
void coll_number(struct coll *ops, struct coll_entry *entry, const struct coll_event *event);
uint64_t coll_number_key(const struct coll_comm *comm, uint64_t seq);
void coll_number_forget(struct coll *ops, struct coll_comm *comm);
void coll_number_group(struct coll *ops, const struct coll_event *event);
void coll_number_device(struct coll *ops, struct coll_entry *entry, uint64_t seq);
/* Its number may be told later. */
bool coll_number_may_come(const struct coll_entry *entry);
/* Keeps the newest collective's signature. */
void coll_remember(struct coll_entry *entry);

/* coll_flight.c. NULL: out of memory. */
struct coll_thread *coll_thread_of(struct coll *ops, uint32_t id);
struct coll_thread *coll_thread_find(const struct coll *ops, uint32_t id);
/* Rows of its open group that no record will end any more go out as they are. */
void coll_thread_group_lost(struct coll *ops, struct coll_thread *thread, uint64_t before_ns);
void coll_thread_capture(struct coll_thread *thread, const struct coll_event *event, bool begins);
void coll_threads_done(struct coll *ops);

/* coll_rows.c. */
struct coll_entry *coll_entry_new(struct coll *ops);
void coll_entry_waits_work(struct coll *ops, struct coll_entry *entry, uint64_t work);
void coll_entry_waits_device(struct coll *ops, struct coll_entry *entry);
/* It waits for that no more; goes out, and is gone, if it waits for nothing. */
void coll_entry_done(struct coll *ops, struct coll_entry *entry, unsigned wait);
void coll_entry_complete(struct coll_entry *entry, uint64_t time_ns);
uint64_t coll_entry_bytes(const struct coll_entry *entry);
void coll_rows_idle(struct coll *ops);
void coll_rows_end(struct coll *ops);
void coll_rows_done(struct coll *ops);

/* coll_device.c. */
/* Records that came before their call: to be asked for every new call that waits, and every communicator told of. */
void coll_early_entry(struct coll *ops, struct coll_entry *entry);
void coll_early_comm(struct coll *ops, struct coll_comm *comm);

/* coll_flight.c. */
void coll_flight_answered(struct coll *ops, const struct coll_event *event);
void coll_flight_purge(struct coll *ops, const struct coll_comm *comm);

#endif
