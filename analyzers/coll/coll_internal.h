/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of coll/.
 *
 *  coll.c         input events
 *  coll_comms.c   communicators
 *  coll_number.c  numbers of calls
 *  coll_flight.c  open groups, announced calls and captures of threads; calls in flight; standings
 *  coll_rows.c    waiting rows; names of operations
 *  coll_device.c  device records
 */
#ifndef RANKTRACE_COLL_COLL_INTERNAL_H
#define RANKTRACE_COLL_COLL_INTERNAL_H

#include "analyzers/coll/comm_kind.h"
#include "analyzers/coll/coll.h"
#include "analyzers/coll/coll_bytes.h"
#include "analyzers/base/hash.h"

#define COLL_WORDS_MAX 128 /* names of operations */
#define COLL_THREADS_MAX 1024
#define COLL_PEERS_MAX 16384 /* numbered (communicator, direction, peer) a rank */
#define COLL_EARLY_MAX 128   /* device records before their call's record */
#define COLL_FINISHED_MAX 64 /* works finished before their call's record */
#define COLL_CAPTURES_MAX 4  /* streams that a thread captures at a time */
#define COLL_WALK_MAX 512    /* rows compared with one device record */

/* What a row waits for. */
enum { WAIT_GROUP = 1, WAIT_WORK = 2, WAIT_DEVICE = 4, WAIT_IDENTITY = 8, WAIT_CALLER = 16, WAIT_NUMBER = 32 };

#define COLL_RESULT_IN_PROGRESS 7 /* ncclInProgress: no failure */

struct coll_word {
	char text[COLL_NAME_BYTES];
	uint64_t hash; /* of the text in lower case */
	const struct coll_operation *operation;
};

/* A collective, as compared between ranks. */
struct coll_signature {
	uint64_t seq, count, bytes, time_ns;
	const struct coll_word *word;
	const struct coll_dtype *dtype;
};

struct coll_comm {
	struct hash_node by_address; /* live ones only */
	struct hash_node by_identity;
	struct list_link used; /* in coll->live, or in coll->gone while rows wait */
	uint64_t id;	       /* unique */
	const struct coll_family *family;
	uint64_t address;
	uint64_t process_group; /* 0: not seen */
	uint64_t identity;	/* 0: not known */
	char text[20];		/* the same in hex, "": unknown */
	struct list_link peers; /* numbered pairs */
	const char *source;
	char identified_by[16]; /* source given to coll_identify() */
	char reason[96];
	char name[COLL_NAME_BYTES];
	uint64_t parent; /* identity, 0: none or unknown */
	int64_t color;
	uint32_t member, members;
	uint64_t since_ns, first_ns; /* init or first seen; start of the first call */
	uint64_t seen_ns;	     /* newest end of a call or group */
	enum coll_seq_from seq_from, p2p_from;
	uint64_t last_seq;	       /* of the newest collective */
	uint64_t sure_seq;	       /* last one before coll_dropped() */
	struct coll_signature *recent; /* ring of COLL_RECENT, allocated on first use */
	uint64_t calls;		       /* collectives so far; recent[(calls - 1) % COLL_RECENT] is the newest */
	struct coll_signature completed;
	bool completion_known;
	bool init_seen, library_identity, identify_done; /* coll_identify() was called for it */
	bool waits_device;				 /* device records are expected */
	bool no_device, no_number;			 /* a row waited in vain for a device record, for a number */
	bool graphs; /* calls were captured: device numbers differ from the host's */
	bool live, dirty;
	uint64_t freed_ns;   /* 0: live */
	uint64_t device_ns;  /* arrival of the newest device record */
	uint64_t device_seq; /* highest number of a device record */
	uint64_t closing_ns; /* start of the closing call of a group on it; 0: none */
	size_t waiting;	     /* rows */
	struct comm_mix mix;
	uint64_t mixed;		 /* calls in the mix */
	struct comm_place place; /* of coll_members() */
	enum comm_kind kind;
};

struct coll_thread {
	struct hash_node node;
	struct list_link used;
	struct list_link group;	      /* rows of the open group */
	struct coll_entry *announced; /* without a work */
	const struct coll_family
		*last_family; /* with last_address: communicator of its newest collective, maybe freed */
	uint64_t last_address, last_comm, last_call;
	uint64_t newest_ns; /* start of its newest call */
	uint64_t closed_ns; /* end of its newest group */
	uint64_t capture[COLL_CAPTURES_MAX];
	unsigned captures;
};

struct coll_entry {
	struct list_link age;	    /* coll->waiting, oldest first */
	struct list_link member;    /* in the thread's open group */
	struct hash_node number;    /* (communicator, seq), waiting for the device */
	struct hash_node signature; /* (communicator, op, peer), waiting for the device */
	struct hash_node by_work;
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
	uint64_t stack_pointer; /* at entry, 0: unknown */
	bool p2p, captured, grouped, device, has_seq;
	bool trial;   /* waits for the communicator's first device record */
	bool unwound; /* an exception left the call before it was numbered: no row */
};

struct coll_peer {
	struct hash_node node;
	struct list_link of_comm;
	uint64_t comm_id, count;
	int32_t peer;
	bool receive;
};

struct coll_early {
	struct coll_device device;
	char name[COLL_NAME_BYTES], op[COLL_NAME_BYTES], dtype[16];
	uint64_t came_ns; /* 0: free */
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
	struct list_link live, gone; /* communicators, the one used longest ago first */
	size_t comms, unidentified;
	struct hash_table by_address, by_identity;
	struct list_link threads;
	size_t n_threads;
	struct hash_table thread;
	struct list_link waiting, spare;
	size_t n_waiting, entries; /* waiting; allocated */
	struct hash_table number, signature, work, peer;
	size_t peers;
	bool marker, no_marker; /* device records arrive; were waited for in vain */
	struct coll_word word[COLL_WORDS_MAX];
	size_t words;
	struct coll_early early[COLL_EARLY_MAX];
	size_t early_next, early_used;
	struct {
		uint64_t work, time_ns;
	} finished[COLL_FINISHED_MAX];
	size_t finished_next;
	struct device_clock clock[COLL_DEVICES_MAX]; /* by number of the device */
	struct coll_flight flight[COLL_IN_CALL_MAX];
	size_t flights;
};

static inline bool coll_has(const struct coll_event *event, enum coll_field field)
{
	return event->present & 1u << field;
}

/* 0 if absent. */
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

/* coll_rows.c: names are interned per rank. Never NULL: names beyond the bound share the last entry. */
const struct coll_word *coll_word(struct coll *coll, const char *text);
uint64_t coll_word_hash(const char *text);
/* Copies a text, which may be NULL, cut at a character; control characters become '?'. */
void coll_text(char *ret, size_t size, const char *text);

/* coll_comms.c. coll_comm_of(): NULL if out of memory. */
struct coll_comm *coll_comm_of(struct coll *coll, const struct coll_event *event);
struct coll_comm *coll_comm_find(const struct coll *coll, const struct coll_family *family, uint64_t address);
struct coll_comm *coll_comm_by_identity(const struct coll *coll, const struct coll_device *device);
bool coll_comm_fits(const struct coll_comm *comm, const struct coll_device *device);
void coll_comm_made(struct coll *coll, const struct coll_event *event);
void coll_comm_freed(struct coll *coll, const struct coll_event *event);
void coll_comm_identity(struct coll *coll, struct coll_comm *comm, uint64_t identity, const char *source);
void coll_comm_members(struct coll_comm *comm, uint64_t member, uint64_t members);
void coll_comm_unref(struct coll *coll, struct coll_comm *comm);
/* Reports changes to the sink. */
void coll_comm_publish(struct coll *coll, struct coll_comm *comm);
void coll_comms_done(struct coll *coll);

/* coll_number.c: numbers of calls. */
void coll_number(struct coll *coll, struct coll_entry *entry, const struct coll_event *event);
uint64_t coll_number_key(const struct coll_comm *comm, uint64_t seq);
void coll_number_forget(struct coll *coll, struct coll_comm *comm);
void coll_number_group(struct coll *coll, const struct coll_event *event);
void coll_number_device(struct coll *coll, struct coll_entry *entry, uint64_t seq);
/* A number may still arrive. */
bool coll_number_may_come(const struct coll_entry *entry);
/* Adds the collective to the ring of recent ones. */
void coll_remember(struct coll_entry *entry);

/* coll_flight.c. NULL: out of memory. */
struct coll_thread *coll_thread_of(struct coll *coll, uint32_t id);
struct coll_thread *coll_thread_find(const struct coll *coll, uint32_t id);
/* Reports rows of the open group that started before before_ns: no record will end them. */
void coll_thread_group_lost(struct coll *coll, struct coll_thread *thread, uint64_t before_ns);
void coll_thread_capture(struct coll_thread *thread, const struct coll_event *event, bool begins);
void coll_threads_done(struct coll *coll);

/* coll_rows.c. */
struct coll_entry *coll_entry_new(struct coll *coll);
void coll_entry_waits_work(struct coll *coll, struct coll_entry *entry, uint64_t work);
void coll_entry_waits_device(struct coll *coll, struct coll_entry *entry);
/* Removes the wait; reports and frees the entry without waits. */
void coll_entry_done(struct coll *coll, struct coll_entry *entry, unsigned wait);
void coll_entry_complete(struct coll_entry *entry, uint64_t time_ns);
uint64_t coll_entry_bytes(const struct coll_entry *entry);
void coll_rows_idle(struct coll *coll);
void coll_rows_end(struct coll *coll);
void coll_rows_done(struct coll *coll);

/* coll_device.c. */
/* Device records before their call: for each new waiting call, and each newly identified communicator. */
void coll_early_match(struct coll *coll, struct coll_entry *entry);
void coll_early_identified(struct coll *coll, struct coll_comm *comm);

/* coll_flight.c. */
void coll_flight_returned(struct coll *coll, const struct coll_event *event);
void coll_flight_purge(struct coll *coll, const struct coll_comm *comm);

#endif
