/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the aligner share. */
#ifndef RANKTRACE_ALIGN_ALIGN_INTERNAL_H
#define RANKTRACE_ALIGN_ALIGN_INTERNAL_H

#include "analyzers/align/align.h"
#include "analyzers/base/array.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/*
 * Short texts and their numbers, those used last: the same few names come with every operation, and to compare the
 * bytes costs less than a hash of them that may be trusted. Sets of two each: of two texts that fall on one set
 * neither drives out the other.
 */

#define ALIGN_KNOWN_BYTES 24 /* longer texts are not kept */

struct align_known {
	uint64_t word[3]; /* all of the text; the last one may overlap the one before it */
	uint32_t length;  /* 0: unused */
	uint32_t number;
};

/* The text as words; false where it is too long, or empty. */
static inline bool align_known_read(struct align_known *ret, const char *text, size_t length)
{
	const size_t word = sizeof(ret->word[0]);

	*ret = (struct align_known){.length = (uint32_t)length};
	if (!length || length > ALIGN_KNOWN_BYTES)
		return false;
	if (length < word) {
		memcpy(ret->word, text, length);
		return true;
	}
	memcpy(&ret->word[0], text, word);
	memcpy(&ret->word[1], text + (length < 2 * word ? length - word : word), word);
	memcpy(&ret->word[2], text + length - word, word);
	return true;
}

static inline bool align_known_equal(const struct align_known *a, const struct align_known *b)
{
	return !((a->word[0] ^ b->word[0]) | (a->word[1] ^ b->word[1]) | (a->word[2] ^ b->word[2]) |
		 (a->length ^ b->length));
}

/* The first of the two places where it may be. bits: log2 of the number of sets. */
static inline struct align_known *align_known_set(
	struct align_known *known, unsigned bits, const struct align_known *what)
{
	uint64_t all = what->word[0] ^ what->word[1] << 7 ^ what->word[2] ^ what->length;
	uint64_t hash = (all ^ all >> 32) * 0x9e3779b97f4a7c15ULL;

	return &known[hash >> (64 - bits) << 1];
}

/* NULL: not among them. */
static inline const struct align_known *align_known_find(struct align_known *set, const struct align_known *what)
{
	if (align_known_equal(&set[0], what))
		return &set[0];
	return align_known_equal(&set[1], what) ? &set[1] : NULL;
}

static inline void align_known_keep(struct align_known *set, const struct align_known *what)
{
	set[1] = set[0];
	set[0] = *what;
}

/*
 * What a rank's step is expected to be like. A job at work does the same operations each step, on the same
 * communicators, with numbers that rise by as much: where they come as they did before, only their times are kept, 8
 * bytes each.
 *
 * A pattern is what steps have in common, also those of different ranks: its operations, each by its stream, the first
 * stream being that of the first operation, and so on. A stream is the operations of one communicator, or of one pair
 * of its members. A template is a pattern with a process's own communicators for its streams.
 */

#define ALIGN_PATTERN_MIN 8		      /* operations; shorter steps are not worth it */
#define ALIGN_PATTERN_MAX 16384		      /* operations */
#define ALIGN_STREAMS_MAX 64		      /* a pattern */
#define ALIGN_ENTRIES_MAX (UINT32_C(1) << 18) /* of all patterns of a job: 6 MiB */
#define ALIGN_PATTERN_BUCKETS 64

struct align_entry {
	uint64_t bytes;
	uint32_t seq;  /* less that of the first one of its stream; they only rise */
	uint16_t what; /* as of a record */
	uint16_t stream;
	uint16_t nth; /* of its stream */
};

struct align_pattern_stream {
	uint64_t like; /* equal for streams of equal numbers and tiers */
	uint32_t count;
};

struct align_pattern {
	struct align_pattern *next; /* in its bucket */
	uint64_t key;
	uint32_t refs; /* templates */
	uint32_t count, streams;
	struct align_pattern_stream stream[ALIGN_STREAMS_MAX];
	struct align_entry entry[];
};

struct align_stream {
	uint32_t comm, sides;
	bool p2p;
};

struct align_template {
	uint32_t refs;		 /* slots, and the process */
	uint32_t count, streams; /* the pattern's */
	struct align_pattern *pattern;
	struct align_stream stream[];
};

struct align;
struct align_job;
struct align_process;
struct align_slot;

/* The records of the slot, which lie in the order of their starts, are what the next steps are expected to be like, or
 * nothing is where they cannot. */
void align_template_learn(struct align_job *job, struct align_process *process, const struct align_slot *slot);
void align_template_drop(struct align_job *job, struct align_template **template);
/* An empty slot takes what comes by the template of its process; false: it does not. */
bool align_template_begin(struct align_process *process, struct align_slot *slot);
/* The slot is of full records from now on. Without memory they are lost. */
void align_template_leave(
	struct align *align, struct align_job *job, struct align_process *process, struct align_slot *slot);

/* An operation of a rank as numbers, as a step keeps it. */

#define ALIGN_NAMES_MAX 1024			     /* names of operations */
#define ALIGN_COMMS_MAX 65536			     /* communicators a job */
#define ALIGN_DURATION_MAX ((UINT64_C(1) << 48) - 1) /* three days; longer ones are taken for that long */
#define ALIGN_BYTES_MAX ((UINT64_C(1) << 48) - 1)

/* Small, as all of a step are written and read again: 32 bytes. */
struct align_record {
	uint64_t start_ns;
	uint64_t duration_comm; /* duration in ns << 16 | index of the communicator */
	uint64_t bytes_what;	/* bytes << 16 | point to point << 13 | tier << 11 | number of the name */
	uint32_t seq;		/* of more than 32 bits: folded */
	uint32_t sides;		/* of point to point: which two */
};
_Static_assert(ALIGN_COMMS_MAX <= 1 << 16 && ALIGN_NAMES_MAX < 1 << 11 && FRAME_TIER_MAX <= 1 << 2, "a record's bits");

static inline uint64_t align_record_duration(const struct align_record *record)
{
	return record->duration_comm >> 16;
}

static inline uint32_t align_record_comm(const struct align_record *record)
{
	return (uint16_t)record->duration_comm;
}

static inline uint64_t align_record_bytes(const struct align_record *record)
{
	return record->bytes_what >> 16;
}

static inline uint16_t align_record_op(const struct align_record *record)
{
	return record->bytes_what & ((1 << 11) - 1);
}

static inline uint8_t align_record_tier(const struct align_record *record)
{
	return record->bytes_what >> 11 & 3;
}

static inline bool align_record_p2p(const struct align_record *record)
{
	return record->bytes_what >> 13 & 1;
}

/* What of bytes_what is not bytes. */
static inline uint16_t align_what(uint32_t op, enum frame_tier tier, bool p2p)
{
	return (uint16_t)((uint32_t)p2p << 13 | (uint32_t)tier << 11 | op);
}

static inline uint16_t align_what_op(uint16_t what)
{
	return what & ((1 << 11) - 1);
}

static inline uint8_t align_what_tier(uint16_t what)
{
	return what >> 11 & 3;
}

static inline bool align_what_p2p(uint16_t what)
{
	return what >> 13 & 1;
}

/* Both sides in one word: one word of two for each pair of numbers below 65536, and almost surely for others. */
static inline uint32_t align_sides(int32_t member, int32_t peer, bool receive)
{
	uint32_t sender = (uint32_t)(receive ? peer : member), receiver = (uint32_t)(receive ? member : peer);

	return (sender << 16 | sender >> 16) ^ receiver;
}

/*
 * What the files of the aligner share:
 *   align.c           the entry points: input is checked there, and handed on
 *   align_jobs.c      which process is of which job, and where in it
 *   align_steps.c     a process's step numbers to its job's frame numbers; steps of a process that shows none
 *   align_slots.c     the open steps of a process: stages to sums, what class a step is, host samples
 *   align_split.c     stages of the step thread to self times of activities
 *   align_colls.c     texts of operations to numbers, operations to records of a step
 *   align_template.c  what a step is expected to be like: then only times are kept of its operations
 *   align_wait.c      when a frame may go out
 *   align_frame.c     slots of all ranks to a frame, records to its groups
 *
 * A frame's number is the step number of a process plus its offset. A process keeps a slot for each of its steps whose
 * frame is still to go out; a job only knows of its head, the next frame, how many processes that is waited for.
 */

#define ALIGN_STEP_MAX (INT64_C(1) << 53)  /* numbers beyond are no step numbers */
#define ALIGN_TIME_MAX (UINT64_C(1) << 62) /* times beyond are none */
#define ALIGN_CELLS_MAX (1u << 20)	   /* slots a job, over all its ranks */
#define ALIGN_OPEN_MIN 64		   /* open frames a job, however many ranks it has */
#define ALIGN_UNPLACED_MAX 64		   /* slots of a process that has no place among its peers yet */
#define ALIGN_HISTORY 16		   /* newest steps of a process, as times */
#define ALIGN_MEDIAN 31			   /* steps that the job's median is taken of */
#define ALIGN_SAMPLES 64		   /* host samples that wait for the end of their step */
#define ALIGN_RECORDS_MAX 65536		   /* operations of a rank in a step */
#define ALIGN_FIRST 3			   /* steps of a process that are no measure */
#define ALIGN_PAUSE 10			   /* so many steps' time without a step is a pause */
#define ALIGN_STALL_NS 600000000000ULL	   /* maximum wait when nothing shows that others advanced */
#define ALIGN_NO_STEP INT64_MIN
#define ALIGN_KINDS 8 /* of operations of a process, that are kept */
/* Of a process in a step: other ranks, each in two directions, without numbers; more are left out */
#define ALIGN_COUNTED 8
#define ALIGN_COUNTED_STEP 255 /* operations of such a one in a step */
#define ALIGN_KNOWN_BITS 2     /* communicators of a process used last: log2 of sets of two */

enum align_method { ALIGN_UNPLACED, ALIGN_BY_NUMBER, ALIGN_BY_TIME, ALIGN_BY_OPS };

/* Operations of a process that only differ in their numbers, times and bytes. */
struct align_kind {
	char communicator[20], name[24]; /* "": unused */
	uint32_t comm;
	uint16_t op;
	bool p2p, receive;
	uint8_t next; /* index of the one that came after it last */
};

/* A stage of the step thread. */
struct align_part {
	uint64_t start_ns, end_ns;
	uint8_t activity, depth;
	uint8_t closes; /* steps that closed without its end */
	bool aside;	/* came as of no step */
};

/* What samples of a process add up; of launch gaps the longest. */
struct align_host_sum {
	double sum[HOST_MEASURE_MAX], covered_ns[HOST_MEASURE_MAX];
	double preemptor_ns;
	uint32_t preemptor_pid;
	char preemptor_name[16];
};

struct align_slot {
	int64_t step; /* what each operation needs comes first, and lies together */
	struct align_record *record;
	uint32_t records, capacity;
	/* While all of them were as the template says they are these instead: for each stream its first number, then of
	 * each the time since the start of the one before, and its duration. */
	struct align_template *template;
	uint32_t *word;
	uint32_t words;		    /* capacity */
	uint64_t first_ns, last_ns; /* starts */
	bool used, closed;	    /* closed: its step's row is here */
	bool has_ops;		    /* all that there are, as its frame goes out */
	bool partial;		    /* operations began to be seen in it: not all of them are */
	bool unsplit;		    /* as its step */
	bool unsorted;		    /* records are not in the order of their starts */
	uint8_t worst_tier;	    /* of them; nothing if there are none */
	uint8_t class;
	uint64_t start_ns, step_ns;
	uint64_t lost;
	bool checkpoint; /* there was one, of whatever thread */
	uint64_t activity_ns[ACTIVITY_MAX];
	uint64_t may_wait_from_ns, may_wait_until_ns; /* see frame.h; since start_ns */
	uint32_t syncs;
	uint32_t leads;	  /* records of which it is known */
	uint64_t lead_ns; /* sum */
	struct align_host_sum host;
};

/* Point to point of one process in one direction, that has no number of its own: how many in its newest step. */
struct align_counted {
	int64_t step;
	uint32_t comm, sides, count;
	bool known;
};

struct align_past {
	int64_t step;
	uint64_t end_ns, step_ns;
};

/* Which of two answers has the majority, without keeping the votes. */
struct align_vote {
	int64_t other; /* offset that others speak for */
	uint32_t others, same, total;
};

struct align_period; /* align_steps.c */

/* Operations a step. */
struct align_typical {
	uint32_t ops;	 /* UINT32_MAX not known */
	uint32_t less;	 /* of the last two frames: the one with less */
	uint32_t before; /* of the frame that went last */
	uint32_t once;	 /* ops as it was when they ceased to be watched */
};

/* Operations of a process, as far as they are seen. */
struct align_coll {
	bool live;
	int64_t since, newest; /* steps */
	uint64_t watched_ns;   /* since then all are seen, 0: unknown, or not */
	uint64_t unwatched_ns; /* since then none was, until watched_ns; 0: unknown */
};

/* Buffers of slots that are gone. */
struct align_spare {
	struct align_record *record;
	uint32_t capacity;
	uint32_t *word;
	uint32_t words;
};

/* Stages of steps that are not over, and what came too late for theirs. */
struct align_parts {
	struct align_part *part;
	uint32_t count, capacity;
	uint32_t aside;	   /* so many of them are */
	uint64_t syncs;	   /* that were not kept, since the last step */
	uint64_t aside_ns; /* evaluation since the last step */
	bool aside_checkpoint;
};

/* Samples of the operating system. */
struct align_host_samples {
	bool live;
	uint64_t until_ns;
	struct align_sample *sample;
	uint32_t samples;
	struct align_period *period;
};

struct align_process {
	/* What each operation needs, together. */
	int number;
	uint32_t job, index, node; /* job FRAME_NONE: of none any more */
	enum align_method align;
	bool ended, from_start;
	uint64_t launcher; /* as of align_rank */
	bool waited;	   /* is among job's waiting */
	bool absent;	   /* its steps did not come in time */
	bool hopeless;	   /* no evidence where its steps belong; not waited for */
	bool reported;	   /* and counted */
	bool loop_seen;	   /* stages of a loop, or steps, came: no need to guess */
	uint8_t kind_last; /* index of the newest operation's */
	uint32_t slots;	   /* a power of two */
	struct align_typical typical;
	int64_t low, high;	 /* steps that may have a slot; high < low: none */
	struct align_slot *slot; /* ring by step number */
	int64_t offset;
	int64_t newest; /* step closed last, ALIGN_NO_STEP */
	struct align_coll coll;
	struct align_vote vote;
	struct align_template *template; /* NULL: none */
	uint32_t unlike;		 /* steps since one went by its template */
	uint32_t kinds;			 /* so many were kept */
	uint64_t newest_end_ns;
	int64_t lost_until; /* operations up to this step are not waited for */
	uint64_t end_ns;
	uint64_t after_ns;     /* end of the process that had the rank before it, 0 */
	uint64_t first_end_ns; /* of the first step that was seen */
	struct {
		int64_t ns; /* that its step ends seem to have to its node's reference */
		uint32_t count;
	} shift;
	uint64_t steps_seen;
	int64_t by_time_low; /* from here on times of its steps only rise */
	struct align_spare spare;

	struct {
		uint32_t id;
		unsigned rank;
		int64_t step;
	} thread; /* of steps */
	struct align_parts parts;
	struct align_host_samples host;

	struct align_counted counted[ALIGN_COUNTED];
	struct align_past past[ALIGN_HISTORY]; /* ring, by steps_seen */
	struct align_kind kind[ALIGN_KINDS];
	struct align_known known[2 << ALIGN_KNOWN_BITS]; /* its communicators used last, by the job's numbers */
};

struct align_sample {
	uint64_t start_ns, duration_ns;
	uint64_t value[HOST_MEASURE_MAX];
	uint64_t preemptor_ns;
	uint32_t preemptor_pid; /* 0: none, and preemptor_ns is 0 too */
	char preemptor_name[16];
};

struct align_evidence {
	uint32_t key; /* half of it, the other half is where it lies */
	int process;
	int64_t step;
};

struct align_due {	  /* an open frame */
	uint64_t base_ns; /* when it began to be waited for */
	uint32_t ended;	  /* processes that ended it */
};

struct align_job { /* a job */
	struct align *align;
	uint32_t number;
	uint64_t id;
	char *word;
	uint32_t world_size;
	uint32_t uid; /* of its ranks, ALIGN_UID_UNKNOWN */
	uint64_t first_start_ns, last_end_ns;
	uint16_t port; /* of who lives, 0 not known */
	size_t ranks, ranks_capacity;
	struct frame_who *who;
	int *process;
	struct align_process **live; /* the newest of each rank, ended ones included */
	size_t alive, placed;	     /* processes that live; of them, those that have a place */
	size_t nodes, nodes_capacity;
	uint64_t *node_key;
	int *node_ref; /* process that gives the time of its node, -1 */

	bool begun;	       /* head is known */
	int64_t head, top;     /* next frame to go out, highest one that any process ended */
	struct align_due *due; /* ring by frame number */
	uint32_t dues;
	size_t waiting;
	int ref;	     /* process whose numbers count, -1 */
	uint64_t pending_ns; /* processes without a place began to wait for one; 0 not */
	uint64_t lost;	     /* records, to be reported with the next frame */

	uint64_t records; /* that wait */
	int64_t more;	  /* newest frame of which a rank has more of them than of the one before */
	int64_t evened;	  /* frame that was checked for that */
	size_t comms;
	struct frame_comm *comm;
	uint64_t *comm_key;
	uint32_t *comm_hash; /* index + 1 */
	size_t comm_capacity, comm_hash_size;
	struct align_evidence *evidence;
	size_t evidences;
	struct align_pattern *pattern[ALIGN_PATTERN_BUCKETS];
	uint32_t entries; /* of all patterns */

	bool trained;
	uint64_t recent[ALIGN_MEDIAN];
	size_t recents;
	uint64_t step_ns, checkpoint_ns, warm_ns, phase_ns; /* as of align_job_info */
};

/* Used while a frame goes out; kept for the next one. */
struct align_scratch {
	struct frame_rank *rank;
	struct align_slot **slot; /* of each rank, NULL: none */
	size_t *stop;
	size_t rank_capacity;
	struct frame_group *group;
	struct align_group_key *key;
	struct shortest *shortest;
	size_t groups, group_capacity;
	struct frame_op *op;
	size_t ops, op_capacity;
	uint32_t *hash; /* index of a group + 1 */
	size_t hash_size;
	struct align_groups_cursor *cursor; /* one a communicator */
	size_t cursor_capacity;
	bool hashed; /* all groups are in the hash */
	bool tame;   /* so far: see frame.h */
	struct align_frame_stream *stream;
	size_t streams, stream_capacity;
	uint32_t *stream_hash; /* index of a stream + 1 */
	size_t stream_hash_size;
	uint32_t *stream_group; /* groups of each stream, in its order */
	size_t stream_groups, stream_group_capacity;
};

struct align {
	struct align_sink sink;
	struct align_counts counts;
	uint64_t now_ns;
	struct align_process **process;
	size_t processes, process_capacity;
	int *unused; /* numbers of processes that are gone, in the order of their going */
	size_t unused_first, unused_count, unused_capacity;
	struct align_job *job[ALIGN_JOBS_MAX];
	uint64_t jobs; /* so many there were */
	struct align_scratch scratch;
	struct align_names *names;
};

/* What each operation asks, so here. NULL: no such process, or it is gone; of no job; no such step. */
static inline struct align_process *align_process_get(const struct align *align, int process)
{
	return process >= 0 && (size_t)process < align->processes ? align->process[process] : NULL;
}

static inline bool align_is_time(uint64_t start_ns, uint64_t duration_ns)
{
	return start_ns < ALIGN_TIME_MAX && duration_ns < ALIGN_TIME_MAX;
}

static inline bool align_is_step(int64_t step)
{
	return step >= 0 && step < ALIGN_STEP_MAX;
}

/* NULL where it does not live. */
static inline struct align_process *align_living(const struct align *align, int number)
{
	struct align_process *process = align_process_get(align, number);

	return process && !process->ended ? process : NULL;
}

static inline struct align_job *align_job_of(const struct align *align, const struct align_process *process)
{
	return process->job < ALIGN_JOBS_MAX ? align->job[process->job] : NULL;
}

/* What is needed soon: of many ranks nothing is in the caches. */
static inline void align_prefetch(const void *from, size_t bytes)
{
	for (size_t i = 0; i < bytes; i += 64)
		__builtin_prefetch((const char *)from + i);
}

static inline struct align_slot *align_slot_find(const struct align_process *process, int64_t step)
{
	struct align_slot *slot;

	if (!process->slots || step < process->low || step > process->high)
		return NULL;
	slot = &process->slot[(uint64_t)step & (process->slots - 1)];
	return slot->used && slot->step == step ? slot : NULL;
}

/* All operations of a closed one were searched for. */
static inline bool align_is_watched(const struct align_process *process, const struct align_slot *slot)
{
	return process->coll.watched_ns && slot->closed && slot->start_ns >= process->coll.watched_ns;
}

/* Forgets how many operations a step has; from: what it may be (UINT32_MAX: that is not known either). */
static inline void align_typical_from(struct align_process *process, uint32_t from)
{
	process->typical.ops = process->typical.less = process->typical.before = from;
}

/* Operations are not watched now. */
static inline bool align_is_unwatched(const struct align_process *process)
{
	return process->coll.unwatched_ns && !process->coll.watched_ns;
}

/* Some operations of a closed one were not searched for, or may not have been. */
static inline bool align_is_cut(const struct align_process *process, const struct align_slot *slot)
{
	return process->coll.unwatched_ns && slot->closed &&
	       slot->start_ns + slot->step_ns > process->coll.unwatched_ns && !align_is_watched(process, slot);
}

static inline int64_t align_frame_of(const struct align_process *process, int64_t step) /* of one that has a place */
{
	return step + process->offset;
}

static inline bool align_wait_lacks_step(const struct align_process *process, int64_t frame)
{
	if (process->align == ALIGN_UNPLACED)
		return true;
	return process->newest == ALIGN_NO_STEP || align_frame_of(process, process->newest) < frame;
}

/* align_jobs.c */
void align_jobs_free(struct align *align);

/* align_slots.c */
/* Finds or makes; NULL where its frame has gone out, it lies too far off, or memory is out. */
struct align_slot *align_slot_get(struct align *align, struct align_process *process, int64_t step);
/* Its words become the process's spare ones where they are more, and are freed else. */
void align_slot_spare_words(struct align_process *process, struct align_slot *slot);
/* Those before that step. */
void align_slots_drop(struct align *align, struct align_process *process, int64_t before);
void align_process_free(struct align *align, struct align_process *process);
/* The step that has that time in it, the one after the newest where it is later; ALIGN_NO_STEP. */
int64_t align_slot_at(const struct align_process *process, uint64_t time_ns);
int64_t align_slots_max(const struct align *align, const struct align_process *process);
/* Ranks of a large job are in no cache when they are needed: as the head goes out, those after it are prefetched. */
void align_slot_prefetch(const struct align_job *job, size_t index);

/* align_steps.c */
void align_steps_step(struct align *align, struct align_process *process);
void align_steps_lose(struct align *align, struct align_process *process);
void align_steps_tick(struct align *align, struct align_job *job, bool late);
/* The reference, or a node's, is gone. */
void align_steps_ended(struct align *align, struct align_process *process);

/* align_steps.c */
void align_evidence_op(struct align *align, struct align_process *process, uint64_t key, int64_t step);
uint64_t align_process_median(const struct align_process *process); /* 0: no steps */

/* align_slots.c */
void align_stages_add(struct align *align, struct align_process *process, const struct align_stage *stage);
/* The step's row is there: sums are final. gap_ns: since the step before. */
void align_stages_close(struct align_process *process, struct align_slot *slot, uint64_t gap_ns);

/* align_split.c */
/* A stage of the step thread. */
void align_split_add(struct align *align, struct align_process *process, const struct align_stage *stage);
/* slot: takes the split; NULL: not wanted. */
void align_split_close(struct align_process *process, const struct align_step *step, struct align_slot *slot);

/* align_colls.c */
/* What is known of a communicator. */
void align_names_comm(struct align *align, struct align_process *process, const char *communicator, enum comm_kind kind,
	uint32_t members);
void align_names_free(struct align_names *names);

/* align_slots.c */
void align_host_add(struct align *align, struct align_process *process, const struct align_host *host);
void align_host_close(struct align_process *process, struct align_slot *slot);
void align_host_write(const struct align_slot *slot, struct frame_host *ret);

/* align_steps.c: the step of this operation, of a process that shows no steps; may close one. */
int64_t align_period_op(
	struct align *align, struct align_process *process, uint64_t what, uint64_t start_ns, uint64_t end_ns);
void align_period_free(struct align_period *period);

/* align.c */
void align_step_closed(struct align *align, struct align_process *process, const struct align_step *step);

/* align_wait.c */
void align_wait_begin(struct align *align, struct align_job *job, int64_t head);
/* The process has ended that frame. */
void align_wait_ended(struct align *align, struct align_job *job, int64_t frame, uint64_t end_ns);
void align_wait_update(struct align_job *job, struct align_process *process);
void align_wait_recount(struct align_job *job);
/* Sends what can go. */
void align_wait_pump(struct align *align, struct align_job *job);
void align_wait_tick(struct align *align, struct align_job *job);
/* Sends all frames up to that one, ready or not. */
void align_wait_flush(struct align *align, struct align_job *job, int64_t until);
uint32_t align_wait_max(const struct align_job *job);

/* align_frame.c: sends the head as it is. */
void align_out(struct align *align, struct align_job *job);

void align_groups_free(struct align_scratch *scratch);

struct align_group_key {
	uint32_t seq, sides, comm;
	uint32_t last; /* rank that was added last: one is in a group once */
	uint32_t next; /* the group of this communicator that came after it with the rank before */
	uint16_t count;
	uint8_t tier;
	bool p2p;
};
_Static_assert(ALIGN_RANKS_MAX <= UINT16_MAX, "a group's count of ranks");

#endif
