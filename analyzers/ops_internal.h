/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of ops.h: what its files share. ops.c takes events in, ops_comms.c owns communicators, ops_threads.c what threads
 * are in the middle of, ops_rows.c the rows that wait, ops_device.c matches device records, ops_flight.c tells standings.
 */
#ifndef RANKTRACE_OPS_INTERNAL_H
#define RANKTRACE_OPS_INTERNAL_H

#include "analyzers/comm_kind.h"
#include "analyzers/ops.h"
#include "analyzers/ops_bytes.h"
#include "analyzers/ops_hash.h"

#define OPS_WORDS_MAX 128       /* names of operations */
#define OPS_THREADS_MAX 1024
#define OPS_PEERS_MAX 16384     /* numbered (communicator, direction, peer) of a rank */
#define OPS_EARLY_MAX 128       /* device records that came before their call's record */
#define OPS_FINISHED_MAX 64     /* works that finished before their call's record */
#define OPS_CAPTURES_MAX 4      /* streams that a thread records at a time */
#define OPS_WALK_MAX 512        /* rows looked at for one device record */

/* What a row waits for. */
enum { WAIT_GROUP = 1, WAIT_WORK = 2, WAIT_DEVICE = 4, WAIT_IDENTITY = 8, WAIT_CALLER = 16, WAIT_NUMBER = 32 };

#define OPS_RESULT_IN_PROGRESS 7 /* of NCCL's calls on a communicator that does not block: no failure */

struct ops_word {
	char text[OPS_NAME_BYTES];
	uint64_t hash;          /* of the text in lower case */
	const struct ops_operation *operation;
};

/* A collective whose signature is remembered. */
struct ops_signature {
	uint64_t seq, count, bytes, time_ns;
	const struct ops_word *word;
	const struct ops_dtype *dtype;
};

struct ops_comm {
	struct ops_node by_address;  /* live ones only */
	struct ops_node by_identity;
	struct ops_link used;        /* live ones: ops->live; gone ones with rows that wait: ops->gone */
	uint64_t id;                 /* never used again */
	const struct ops_family *family;
	uint64_t address;
	uint64_t process_group;      /* 0: not seen */
	uint64_t identity;           /* 0: not known */
	char text[20];               /* the same in hex, "" if not known */
	struct ops_link peers;       /* numbered pairs */
	const char *source;
	char told_by[16];            /* ops_identify()'s source */
	char trouble[96];
	char name[OPS_NAME_BYTES];
	uint64_t parent;             /* identity, 0: none or not known */
	int64_t color;
	uint32_t member, members;
	uint64_t since_ns, first_ns; /* made or first seen; first call's start */
	uint64_t seen_ns;            /* newest end of a call or its group */
	enum ops_seq_from seq_from, p2p_from;
	uint64_t last_seq;           /* of the newest collective */
	uint64_t sure_seq;           /* the last one before ops_dropped() */
	struct ops_signature *recent; /* ring of OPS_RECENT, made with the first collective */
	uint64_t calls;              /* collectives, ever: recent[(calls - 1) % OPS_RECENT] is the newest */
	struct ops_signature completed;
	bool completion_known;
	bool init_seen, library_identity, told; /* told: ops_identify() had its say */
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
	struct comm_place place;     /* told by ops_members() */
	enum comm_kind kind;
};

struct ops_thread {
	struct ops_node node;
	struct ops_link used;
	struct ops_link group;       /* rows of the open group */
	struct ops_entry *announced; /* has no work yet */
	const struct ops_family *last_family; /* communicator of its newest collective, which may be gone */
	uint64_t last_address, last_comm, last_call;
	uint64_t newest_ns;          /* start of its newest call */
	uint64_t closed_ns;          /* end of its newest group */
	uint64_t capture[OPS_CAPTURES_MAX];
	unsigned captures;
};

struct ops_entry {
	struct ops_link age;         /* ops->waiting: in the order of feeding */
	struct ops_link member;      /* of the thread's open group */
	struct ops_node number;      /* (communicator, seq) of a collective that waits for the device */
	struct ops_node signature;   /* (communicator, op, peer) of what waits for the device */
	struct ops_node by_work;
	uint64_t id;
	struct ops_comm *comm;
	struct ops_thread *announcer;
	const struct ops_word *word;
	const struct ops_dtype *dtype;
	unsigned waits;
	uint64_t seq, count, given_bytes, start_ns, end_ns, group, fed_ns;
	uint64_t device_start_ns, device_stop_ns;
	enum ops_seq_from seq_from;
	int64_t result;
	int32_t peer;
	uint32_t thread_id;
	uint64_t stack_pointer;      /* at its entry, 0: not known */
	bool p2p, captured, grouped, device, has_seq;
	bool trial;                  /* its communicator has had no device record: waits for the first one */
	bool left;                   /* by an exception, before it had a number: it makes no row */
};

struct ops_peer {
	struct ops_node node;
	struct ops_link of_comm;
	uint64_t comm_id, count;
	int32_t peer;
	bool receive;
};

struct ops_early {
	struct ops_device device;
	char name[OPS_NAME_BYTES], op[OPS_NAME_BYTES], dtype[16];
	uint64_t came_ns;            /* 0: free */
};

struct ops_flight {
	struct ops_comm *comm;
	uint32_t thread_id;
	uint64_t start_ns;
	bool p2p;
	struct ops_signature signature;
};

struct ops {
	struct ops_sink sink;
	struct ops_counts counts;
	uint64_t now_ns, next_comm, next_entry, groups;
	struct ops_link live, gone;  /* communicators, the one used longest ago first */
	size_t comms, unidentified;
	struct ops_hash by_address, by_identity;
	struct ops_link threads;
	size_t n_threads;
	struct ops_hash thread;
	struct ops_link waiting, spare;
	size_t n_waiting;
	struct ops_hash number, signature, work, peer;
	size_t peers;
	bool marker, no_marker;      /* device records come from this rank; were waited for in vain */
	struct ops_word word[OPS_WORDS_MAX];
	size_t words;
	struct ops_early early[OPS_EARLY_MAX];
	size_t early_next, early_used;
	struct {
		uint64_t work, time_ns;
	} finished[OPS_FINISHED_MAX];
	size_t finished_next;
	struct ops_flight flight[OPS_IN_CALL_MAX];
	size_t flights;
};

static inline bool ops_has(const struct ops_event *event, enum op_field field)
{
	return event->present & 1u << field;
}

/* 0 where the event does not carry it. */
static inline uint64_t ops_value(const struct ops_event *event, enum op_field field)
{
	return ops_has(event, field) ? event->field[field] : 0;
}

static inline uint64_t ops_max(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static inline bool ops_failed(int64_t result)
{
	return result && result != OPS_RESULT_IN_PROGRESS;
}

static inline uint64_t ops_end_ns(const struct ops_event *event)
{
	return event->end_ns ? event->end_ns : event->start_ns;
}

/* ops_words.c: names are kept once a rank. Never NULL: the last place stands for all that do not fit. */
const struct ops_word *ops_word(struct ops *ops, const char *text);
uint64_t ops_word_hash(const char *text);
/* Copies a text that may be NULL, cut at a character; what is not printable becomes '?'. */
void ops_text(char *ret, size_t size, const char *text);

/* ops_comms.c. ops_comm_of(): NULL if out of memory. */
struct ops_comm *ops_comm_of(struct ops *ops, const struct ops_event *event);
struct ops_comm *ops_comm_find(const struct ops *ops, const struct ops_family *family, uint64_t address);
struct ops_comm *ops_comm_by_identity(const struct ops *ops, const struct ops_device *device);
bool ops_comm_fits(const struct ops_comm *comm, const struct ops_device *device);
void ops_comm_made(struct ops *ops, const struct ops_event *event);
void ops_comm_freed(struct ops *ops, const struct ops_event *event);
void ops_comm_identity(struct ops *ops, struct ops_comm *comm, uint64_t identity, const char *source);
void ops_comm_members(struct ops_comm *comm, uint64_t member, uint64_t members);
/* Takes it off the live ones; it stays until its last row has gone. */
void ops_comm_retire(struct ops *ops, struct ops_comm *comm);
void ops_comm_unref(struct ops *ops, struct ops_comm *comm);
/* Tells the sink what is new about it. */
void ops_comm_tell(struct ops *ops, struct ops_comm *comm);
void ops_comms_done(struct ops *ops);

/* ops_number.c: numbers of calls. */
void ops_number(struct ops *ops, struct ops_entry *entry, const struct ops_event *event);
uint64_t ops_number_key(const struct ops_comm *comm, uint64_t seq);
void ops_number_forget(struct ops *ops, struct ops_comm *comm);
void ops_number_group(struct ops *ops, const struct ops_event *event);
void ops_number_device(struct ops *ops, struct ops_entry *entry, uint64_t seq);
/* Its number may be told later. */
bool ops_number_may_come(const struct ops_entry *entry);
/* Keeps the newest collective's signature. */
void ops_remember(struct ops_entry *entry);

/* ops_threads.c. NULL: out of memory. */
struct ops_thread *ops_thread_of(struct ops *ops, uint32_t id);
struct ops_thread *ops_thread_find(const struct ops *ops, uint32_t id);
/* Rows of its open group that no record will end any more go out as they are. */
void ops_thread_group_lost(struct ops *ops, struct ops_thread *thread, uint64_t before_ns);
void ops_thread_capture(struct ops_thread *thread, const struct ops_event *event, bool begins);
void ops_threads_done(struct ops *ops);

/* ops_rows.c. */
struct ops_entry *ops_entry_new(struct ops *ops);
void ops_entry_waits_work(struct ops *ops, struct ops_entry *entry, uint64_t work);
void ops_entry_waits_device(struct ops *ops, struct ops_entry *entry);
/* It waits for that no more; goes out, and is gone, if it waits for nothing. */
void ops_entry_done(struct ops *ops, struct ops_entry *entry, unsigned wait);
void ops_entry_complete(struct ops_entry *entry, uint64_t time_ns);
uint64_t ops_entry_bytes(const struct ops_entry *entry);
void ops_rows_idle(struct ops *ops);
void ops_rows_end(struct ops *ops);
void ops_rows_done(struct ops *ops);

/* ops_device.c. */
/* Records that came before their call: to be asked for every new call that waits, and every communicator told of. */
void ops_early_entry(struct ops *ops, struct ops_entry *entry);
void ops_early_comm(struct ops *ops, struct ops_comm *comm);

/* ops_flight.c. */
void ops_flight_answered(struct ops *ops, const struct ops_event *event);
void ops_flight_purge(struct ops *ops, const struct ops_comm *comm);

#endif
