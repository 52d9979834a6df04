/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the files of the store; nobody else includes it.
 *
 * The loop's side, which never touches a disk after store_open():
 *  store.c             the public face: opening, queueing, clocks, status
 *  store_identities.c  numbers of processes and their last steps
 * Between the two sides, one batch:
 *  store_queue.c       rows waiting in memory
 *  store_writer.c      the thread, the hand-over, the report
 * The thread's side, which alone opens databases:
 *  store_flush.c       one batch: segments opened and rolled, disk full, damage, what was lost
 *  store_state.c       what outlives a segment: state rows, rows that are true now, identities
 *  store_segment.c     one open SQLite file
 *  store_texts.c       which text has which number in it
 *  store_folder.c      the list of files: order, retention, files set aside
 *
 * Errors of SQLite become: -ENOSPC no space, -EBADMSG the file is damaged, -EAGAIN another process
 * writes it, -EIO anything else.
 */
#ifndef RANKTRACE_DAEMON_STORE_STORE_INTERNAL_H
#define RANKTRACE_DAEMON_STORE_STORE_INTERNAL_H

#include "analyzers/store/schema_sql.h"
#include "daemon/core/limits.h"
#include "daemon/store/store.h"

#include <limits.h>
#include <pthread.h>
#include <sqlite3.h>

#define QUEUE_ROWS_MAX ((size_t)LIMIT_QUEUE_ROWS)
#define QUEUE_BYTES_MAX ((size_t)LIMIT_QUEUE_MIB << 20)
#define STORE_TEXT_BYTES_MAX 65535 /* longer texts are cut */
#define STATE_ROWS_MAX 4096	   /* state rows of a table in memory, and as many process identities */
#define NOW_ROWS_MAX 65536
#define CORRUPT_FILES_MAX 3		 /* kept for inspection */
#define WRITE_SLOW_NS (2 * NSEC_PER_SEC) /* a batch a second should take less: from here on the disk is called slow */
#define CLOSE_NS (5 * NSEC_PER_SEC)	 /* a stop waits no longer for a disk; systemd's patience is 30 s */

/* ---- rows waiting ---- */
struct queue {
	uint8_t *data;
	size_t used;
	size_t capacity;
	uint64_t rows;
};

/* -ENOBUFS at the bound, -ENOMEM. */
int queue_put(struct queue *queue, enum schema_id table, const struct store_value *values, size_t count);
/* Row by row from *offset 0; texts point into the queue. False at the end. */
bool queue_next(const struct queue *queue, size_t *offset, enum schema_id *ret_table,
	struct store_value values[static SCHEMA_COLUMNS_MAX], size_t *ret_count);
/* Forgets the rows; gives memory back that a burst took. */
void queue_clear(struct queue *queue);
void queue_free(struct queue *queue);

/* ---- an open segment ---- */
struct texts {
	struct text_entry *entries;
	size_t capacity; /* a power of two */
	size_t used;
};

struct span {
	int64_t oldest_ns;
	int64_t newest_ns;
	bool set;
	bool dirty;
};

struct segment {
	struct segment_name name;
	char path[PATH_MAX];
	sqlite3 *db;
	sqlite3_stmt *begin, *commit, *rollback, *text_find, *text_add, *span_put, *instance_put;
	sqlite3_stmt *insert[TABLE_MAX];
	bool clock_noted; /* holds a row of `clock` */
	struct texts texts;
	struct span spans[TABLE_MAX];
};

/* Opens an existing file to go on with, or makes a new one. Whatever fails leaves nothing open; a new file that could
 * not be completed is unlinked. */
int segment_open(const char *path, const struct segment_name *name, bool fresh, struct segment **ret);
/* Leaves a plain file without -wal and -shm where nobody reads it. */
struct segment *segment_close(struct segment *segment);
int segment_begin(struct segment *segment);
int segment_insert(struct segment *segment, enum schema_id table, const struct store_value *values, size_t count);
int segment_clear(struct segment *segment, enum schema_id table);
int segment_instance(struct segment *segment, int64_t instance, const char *boot_id, uint32_t pid,
	uint64_t start_time_ns, int64_t last_step);
int segment_commit(struct segment *segment); /* rolled back where it fails */
void segment_rollback(struct segment *segment);
int segment_error(sqlite3 *db, int rc);
/* Writes a closed file's leftover -wal into it, after a crash. */
int segment_tidy(const char *path);

/* ---- the folder ---- */
struct folder_file {
	struct segment_name name;
	uint64_t size_bytes;
	int64_t end_ns; /* no row is newer */
};

struct folder {
	char dir[PATH_MAX - SEGMENT_NAME_BYTES - 16]; /* STATE_DIR/db */
	struct folder_file *files;		      /* by number */
	size_t count;
	size_t capacity;
	uint64_t next_number;
	uint64_t removed;
	uint64_t corrupt;
	unsigned age_credit[TIER_MAX]; /* files that may still go for their age */
	bool age_held[TIER_MAX];       /* logged: files wait for credit */
};

/* Makes a folder that is missing. -EPERM, with a logged sentence: another user can write in it, or put another in its
 * place. */
int folder_make(const char *path);
int folder_open(struct folder *folder, const char *state_dir, uint64_t segment_ns);
void folder_free(struct folder *folder);
void folder_path(const struct folder *folder, const struct segment_name *name, char *ret, size_t size);
/* A new file's entry; false: out of memory. */
bool folder_add(struct folder *folder, const struct segment_name *name, int64_t end_ns);
struct folder_file *folder_find(const struct folder *folder, uint64_t number);
/* Size of a file with its -wal and -shm, into its entry. */
void folder_measure(struct folder *folder, uint64_t number);
uint64_t folder_size(const struct folder *folder, enum schema_tier tier);
/* Unlinks the oldest file of the tier but `current` (0: none). False where there is none. */
bool folder_remove_oldest(struct folder *folder, enum schema_tier tier, uint64_t current, const char *why);
/* A segment of the tier was begun: two old ones may go. */
void folder_began(struct folder *folder, enum schema_tier tier);
/*
 * Removes the oldest files while the tier is above its size, and files that are too old. A clock can be wrong, so by
 * age no more files go than AGE_CREDIT for each segment that was begun: the store never loses by a wrong clock what it
 * did not have to remove for space.
 */
void folder_retain(struct folder *folder, enum schema_tier tier, uint64_t current, uint64_t size_max,
	uint64_t age_max_ns, uint64_t now_ns);
/* Renames to NAME.corrupt and keeps the newest CORRUPT_FILES_MAX of those. */
void folder_set_aside(struct folder *folder, uint64_t number, const char *why);
/* Takes a file out of the list that is not on disk. */
void folder_forget(struct folder *folder, uint64_t number);

/* ---- identities ---- */
struct identity {
	int64_t instance;
	char boot_id[40];
	uint32_t pid;
	uint64_t start_time_ns;
	int64_t last_step;
	bool changed;		    /* the loop's: since it was handed over */
	uint64_t written[TIER_MAX]; /* the thread's: number of the segment that holds this version, 0 if none does */
};

struct identities {
	struct identity *list; /* by number; the newest STATE_ROWS_MAX */
	size_t count;
	int64_t next;
};

int identities_init(struct identities *identities);
void identities_free(struct identities *identities);
struct identity *identities_find(const struct identities *identities, int64_t instance);
/* That of the number, new where there is none. */
struct identity *identities_add(struct identities *identities, int64_t instance);
/* The number of a process; the next one where it has none. */
int identities_number(
	struct identities *identities, const char *boot_id, uint32_t pid, uint64_t start_time_ns, int64_t *ret);
void identities_step(struct identities *identities, int64_t instance, int64_t step);
/* Learns identities and last steps from a segment's file. Reads only. */
int identities_load(struct identities *identities, const char *path);

/* ---- what outlives a segment ---- */
struct batch;
struct losses;

struct state_row {
	enum schema_id table;
	int64_t key;
	uint64_t written[TIER_MAX]; /* number of the segment that holds this version, 0 if none does */
	unsigned fresh;		    /* bit a tier: to be written though nothing refers to it */
	uint64_t changed;	    /* rises with each change of any row: the lowest is the oldest */
	struct queue row;
};

struct now_rows {
	struct queue rows;
	uint64_t written; /* number of the segment that holds rows of this table, 0 if none does */
	bool changed;	  /* since they were written there */
};

struct state {
	struct state_row *rows; /* by table and key */
	size_t rows_count;
	uint64_t changes;
	struct identities identities;
	struct now_rows now[TABLE_MAX];
	int8_t reference[TABLE_MAX][TABLE_MAX]; /* [log][state]: column that holds the state table's key, -1 */
};

int state_init(struct state *state);
void state_free(struct state *state);
/* Takes what a batch says of state; its queues are empty then. */
void state_take(struct state *state, struct batch *batch, struct losses *lost);
/* Whether something waits for this tier though no row does. */
bool state_waits(const struct state *state, enum schema_tier tier, uint64_t number);
/* Within a transaction. */
int state_write(struct state *state, struct segment *segment);
int state_write_referenced(
	struct state *state, struct segment *segment, enum schema_id table, const struct store_value *values);
/* The transaction was rolled back: nothing is known to be in this segment. */
void state_unwritten(struct state *state, enum schema_tier tier, uint64_t number);

/* ---- rows that were dropped ---- */
struct losses {
	struct loss {
		uint64_t count; /* not yet in the view `drops` */
		uint64_t since_ns;
	} of[STORE_LOST_MAX][TABLE_MAX];
	uint64_t pending;			   /* sum of the counts */
	uint64_t total[STORE_LOST_MAX][TABLE_MAX]; /* since start: not moved */
	uint64_t total_sum;
};

extern const char *const store_lost_reasons[STORE_LOST_MAX];
void losses_add(struct losses *losses, enum store_lost why, enum schema_id table, uint64_t count, uint64_t now_ns);
/* Moves what is not yet in the view. */
void losses_move(struct losses *from, struct losses *to);

/* ---- the batch ---- */
struct batch_now {
	struct queue rows;
	bool replaces; /* what the table held before is no longer true */
	bool changed;
};

struct batch {
	struct queue rows[TIER_MAX];
	struct queue state; /* rows of state tables, in order */
	struct batch_now now[TABLE_MAX];
	struct identity *identities; /* new and changed ones */
	size_t identities_count, identities_capacity;
	struct losses lost;
	uint64_t now_ns;	 /* UTC */
	int64_t clock_offset_ns; /* UTC minus CLOCK_MONOTONIC */
};

/* ---- the writer ---- */
struct writer_report {
	struct store_status status; /* but rows_pending and drops */
	uint64_t lost[STORE_LOST_MAX][TABLE_MAX];
	uint64_t lost_sum;
	int result; /* 0, or what kept rows of the last batch from the disk */
};

struct writer {
	/* The thread's. */
	struct store_options options;
	struct folder folder;
	struct state state;
	struct segment *current[TIER_MAX];
	struct losses lost;
	uint64_t rows; /* written since start */
	char reason[256];
	/* The thread's while is_busy is set, the loop's otherwise. */
	struct batch batch;
	/* Under the lock, which is never held during a call that may wait. */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool is_busy, is_stopping, is_ended;
	bool is_left; /* nobody waits for the thread: it frees the writer */
	struct writer_report report;
	/* The loop's. */
	pthread_t thread;
};

/* Takes over the folder and what is known of state. The thread begins with what a crash left. */
int writer_new(const struct store_options *options, struct folder *folder, struct state *state, struct writer **ret);
/* Ends the thread and frees the writer. False: the thread has not ended by until_ns (CLOCK_MONOTONIC) and does so
 * itself. */
bool writer_free(struct writer *writer, uint64_t until_ns);
/* False: the thread is at work, its batch is not to be touched. */
bool writer_is_idle(struct writer *writer);
/* The batch becomes the thread's. Only where it is idle. */
void writer_give(struct writer *writer);
/* Until it is idle; false at until_ns. */
bool writer_wait(struct writer *writer, uint64_t until_ns);
/* As of the last batch. */
void writer_read_report(struct writer *writer, struct writer_report *ret);

/* In the thread. Closed segments become plain files again after a crash, and the newest is gone on with. */
void flush_begin(struct writer *writer, uint64_t now_ns);
/* Empties the batch but for rows that wait (-EAGAIN). Returns 0 or what kept rows from the disk. */
int flush_batch(struct writer *writer);
void flush_end(struct writer *writer);

/* ---- the store: the loop's side ---- */
struct store {
	struct store_options options;
	char *state_dir;
	int lock_fd;
	struct identities identities;
	struct batch batch; /* being filled */
	struct {
		uint64_t rows;
		size_t bytes;
	} given[TIER_MAX]; /* what the thread has of each tier */
	struct losses lost;
	struct writer *writer;
	uint64_t given_ns; /* CLOCK_MONOTONIC */
	bool is_slow;	   /* logged */
	int64_t clock_offset_ns;
	bool clock_known;
};

void store_clock_note(struct store *store, uint64_t monotonic, uint64_t utc);

/* ---- texts ---- */
/* Memory of which text has which number in a segment, so that SQLite is asked once a text. Bounded: forgets all when
 * full, which costs time only. */
bool texts_find(const struct texts *texts, const char *text, int64_t *ret);
void texts_add(struct texts *texts, const char *text, int64_t id);
void texts_free(struct texts *texts);

#endif
