/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the room of ranks: what ranks.c (who is looked at when), rank_identify.c (what a process is), rank_card.c (which card
 * it has) and rank_table.c (who is tracked, who is told) share. Nobody else includes this, but the room's own tests.
 */
#ifndef RANKTRACE_DAEMON_RANKS_RANKS_INTERNAL_H
#define RANKTRACE_DAEMON_RANKS_RANKS_INTERNAL_H

#include "daemon/base/util.h"
#include "daemon/ranks/ranks.h"

/*
 * Processes that may become ranks, by the time of their next look: bounded, one entry a pid, all operations at most
 * logarithmic. Where it is full, the oldest entry without rank variables makes room, and is counted.
 */

struct rank_candidate {
	uint32_t pid;
	bool has_env; /* its environment has a rank: never given up, never dropped for room */
	bool interpreter;
	bool known;		/* the fields below are from a look */
	bool from_exec;		/* seen within a second of its exec */
	uint64_t due_ns;	/* CLOCK_MONOTONIC; UINT64_MAX: given up, remembered only */
	uint64_t since_ns;	/* when it came here */
	uint64_t looked_ns;	/* last look, 0 if none */
	uint64_t interval_ns;	/* to the next look */
	uint64_t start_time_ns; /* identity, as in struct rank */
	char exe[64];		/* end of its path: a new image without an exec event shows here */
};

struct rank_queue;

int rank_queue_new(uint32_t entries_max, struct rank_queue **ret);
struct rank_queue *rank_queue_free(struct rank_queue *queue);
/* Adds or replaces the entry of candidate->pid. -ENOSPC: full of entries that may not be dropped. */
int rank_queue_put(struct rank_queue *queue, const struct rank_candidate *candidate);
bool rank_queue_get(const struct rank_queue *queue, uint32_t pid, struct rank_candidate *ret);
void rank_queue_remove(struct rank_queue *queue, uint32_t pid);
/* Takes the entry that is due first, if it is due at now_ns. */
bool rank_queue_pop(struct rank_queue *queue, uint64_t now_ns, struct rank_candidate *ret);
uint32_t rank_queue_count(const struct rank_queue *queue);
/* Entries that were still waiting for a look when they had to make room. */
uint64_t rank_queue_dropped(const struct rank_queue *queue);

/* Which container and pod a process is in, from the text of its /proc/PID/cgroup: pure parsing, no I/O. */

struct rank_cgroup {
	char path[256];	    /* of the hierarchy that says most, cut; "" if none */
	char container[65]; /* 64 hexadecimal digits, "" if none */
	char pod_uid[37];   /* with dashes, "" if none */
};

void rank_cgroup_parse(const char *text, struct rank_cgroup *ret);

/* What a process's arguments say: pure parsing of the block of /proc/PID/cmdline, no I/O. */

/* Whether this starts training processes instead of training: torchrun, mpirun, `python -m torch.distributed.run` ...
 */
bool rank_command_is_launcher(const char *block, size_t size_bytes);
/* Whether exe (a path) is an interpreter that may load a training library at any time. */
bool rank_command_is_interpreter(const char *exe);
/* The arguments joined by blanks, printable and cut. */
void rank_command_join(const char *block, size_t size_bytes, char *ret, size_t size);

/* What a process's environment says about its rank: pure parsing of a NUL-separated block, no I/O. */

#define RANK_ENV_NUMBER_MAX 1000000 /* ranks of a job, cards of a node */

/*
 * Fills *ret with what the block says; what it does not say, or says in nonsense, is -1 or "". The first launcher of
 * the table that gives a valid rank wins. The block needs no terminator.
 */
void rank_env_parse(const char *block, size_t size_bytes, struct rank_env *ret);

/*
 * Which card of its node a rank works on, where its environment does not name one: it shows in the device nodes that
 * the process has open (/proc/PID/fd). The links are text that the process may have made up, so every number is checked
 * and no more than RANK_CARD_FDS_MAX of them are read.
 */

#define RANK_CARD_FDS_MAX 4096
#define RANK_CARD_NUMBERS 256 /* of device nodes: those from here on are nobody's */

struct rank_card_nodes {
	uint64_t open[RANK_CARD_NUMBERS / 64]; /* bit N: a node of number N, of whatever make */
	bool rocm;			       /* those of ROCm, whose numbers are not the cards' */
};

/* What the process has open; *ret_fds: how many descriptors were read for it. -ENOENT, -EACCES and so on: nothing was.
 */
int rank_card_read(const char *root, uint32_t pid, struct rank_card_nodes *ret, unsigned *ret_fds);

/*
 * The card of a rank that has these open. With one open it is that. With several, which is usual, since CUDA opens all
 * that it sees, it is the local rank's, as torchrun counts: in the order of the open ones, where there is one for each
 * rank of the node, else the local rank itself. local_rank and local_world_size: -1 where not known.
 * False: it cannot be told.
 */
bool rank_card_pick(
	const struct rank_card_nodes *nodes, int32_t local_rank, int32_t local_world_size, char *ret, size_t size);

#define RANK_ANCESTORS_MAX 32
#define RANK_OBSERVERS_MAX 16
#define RANK_OTHERS_MAX 16384 /* children and launchers */
#define RANK_BUCKETS 4096
#define RANK_NO_SLOT UINT32_MAX

/* What is known of its card while it is looked for. */
struct tracked_card {
	char picked[16];    /* what the last look told, "" for nothing */
	uint64_t picked_ns; /* since when it tells so */
	uint64_t first_ns;  /* since when it is looked for */
	uint64_t due_ns;
};

/* A process with a role. */
struct tracked {
	struct rank rank;
	struct tracked *next;
	uint64_t start_utc_ns;
	uint64_t checked_ns;  /* last look whether it lives, CLOCK_MONOTONIC */
	uint64_t children_ns; /* last look at its children */
	uint64_t stored_ns;
	uint32_t cursor; /* see procfs_children() */
	bool missing;	 /* was not there at the last look */
	struct tracked_card card;
};

struct ranks {
	struct context *context;
	char proc_root[128];
	struct rank_queue *queue;
	struct tracked *bucket[RANK_BUCKETS];
	size_t count[RANK_ROLE_MAX];
	struct tracked **slot;
	uint32_t slots;
	struct {
		ranks_observer callback;
		void *arg;
	} observer[RANK_OBSERVERS_MAX];
	size_t observers;
	uint32_t card_slot; /* that was looked at last for its card */
	int card_fds;	    /* that may be read for it now */
	bool full_told;
	bool others_full_told;
};

/* rank_table.c */
struct tracked *tracked_find(const struct ranks *ranks, uint32_t pid);
/*
 * Takes over a copy of *rank: slot, filter, instance and row for a RANK; tells the observers. -ENOSPC: as many as may
 * be (one sentence in the log until there is room again).
 */
int tracked_add(struct ranks *ranks, const struct rank *rank, uint64_t now_ns, struct tracked **ret);
/* A RANK turns out to be something else. */
void tracked_become(struct ranks *ranks, struct tracked *tracked, enum rank_role role, int64_t parent_instance);
/* Tells, stores, frees. */
void tracked_end(struct ranks *ranks, struct tracked *tracked);
void tracked_store(struct ranks *ranks, struct tracked *tracked);
/* Its environment named no card: this is it. Stores and tells. */
void tracked_card_found(struct ranks *ranks, struct tracked *tracked, const char *card);

/* rank_identify.c */
enum snapshot { LOOK_GONE, LOOK_AGAIN, LOOK_NEVER, LOOK_DECIDED };

/* Looks at a candidate and, where it has a training library, decides its role and tracks it. */
enum snapshot rank_look(struct ranks *ranks, struct rank_candidate *candidate, uint64_t now_ns);

/* rank_card.c: looks for the cards of ranks that are not known yet, a few ranks at a time. */
void rank_card_tick(struct ranks *ranks, uint64_t now_ns);

/* ranks.c; for tests: where procfs is. */
void ranks_set_proc_root(struct ranks *ranks, const char *root);

#endif
