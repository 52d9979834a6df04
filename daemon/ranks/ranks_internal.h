/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by ranks.c (scheduling), rank_identify.c (what a process is), rank_env.c, rank_secrets.c, rank_card.c (its
 * card), rank_cpus.c (its CPUs), rank_queue.c (candidates) and rank_table.c (tracked processes, observers), and by
 * their tests.
 */
#ifndef RANKTRACE_DAEMON_RANKS_RANKS_INTERNAL_H
#define RANKTRACE_DAEMON_RANKS_RANKS_INTERNAL_H

#include "daemon/base/procfs.h"
#include "daemon/base/util.h"
#include "daemon/ranks/rank_worker.h"
#include "daemon/ranks/ranks.h"
#include "daemon/worker/worker.h"

#include <sched.h>

/*
 * Processes that may become ranks, by due time of their next check: bounded, one entry per pid, operations at most
 * logarithmic. If full, the oldest entry without rank variables is dropped and counted.
 */

#define RANK_EXE_TAIL 64

struct rank_candidate {
	uint32_t pid;
	uint32_t uid; /* real user at its start, until it is read: workers read it in his share */
	bool has_env; /* its environment names a rank: never given up, never dropped */
	bool interpreter;
	bool known;		 /* the fields below are valid */
	bool from_exec;		 /* seen within a second of its exec */
	bool from_scan;		 /* as far as its start time says so */
	uint64_t due_ns;	 /* CLOCK_MONOTONIC; UINT64_MAX: given up, kept only to be skipped */
	uint64_t since_ns;	 /* queued since */
	uint64_t checked_ns;	 /* last check, 0 if none */
	uint64_t interval_ns;	 /* to the next check */
	uint64_t start_time_ns;	 /* identity, as in struct rank */
	uint64_t inode;		 /* see procfs_status; 0: not read yet */
	char exe[RANK_EXE_TAIL]; /* end of its path: reveals a new image without exec event */
};

struct rank_queue;

int rank_queue_new(uint32_t entries_max, struct rank_queue **ret);
struct rank_queue *rank_queue_free(struct rank_queue *queue);
/* Adds or replaces the entry of candidate->pid. -ENOSPC: full of entries that cannot be dropped. */
int rank_queue_put(struct rank_queue *queue, const struct rank_candidate *candidate);
bool rank_queue_get(const struct rank_queue *queue, uint32_t pid, struct rank_candidate *ret);
void rank_queue_remove(struct rank_queue *queue, uint32_t pid);
/* Removes and returns the first entry due at now_ns. */
bool rank_queue_pop(struct rank_queue *queue, uint64_t now_ns, struct rank_candidate *ret);
uint32_t rank_queue_count(const struct rank_queue *queue);
/* Entries dropped before their check. */
uint64_t rank_queue_dropped(const struct rank_queue *queue);

/* Container and pod of a process, from the text of /proc/PID/cgroup: pure parsing, no I/O. */

struct rank_cgroup {
	char path[256];	    /* of the most specific hierarchy, truncated; "" if none */
	char container[65]; /* 64 hexadecimal digits, "" if none */
	char pod_uid[37];   /* with dashes, "" if none */
};

void rank_cgroup_parse(const char *text, struct rank_cgroup *ret);

/* From the block of /proc/PID/cmdline: pure parsing, no I/O. */

/*
 * Does the command start training processes instead of training: torchrun, mpirun, `python -m torch.distributed.run`
 * ...
 */
bool rank_command_is_launcher(const char *block, size_t size_bytes);
/* Is exe (a path) an interpreter, which may load a training library at any time? */
bool rank_command_is_interpreter(const char *exe);
/* rank_secrets.c: the arguments joined by blanks, secrets masked, printable, truncated. */
void rank_command_join(const char *block, size_t size_bytes, char *ret, size_t size);
/* One text, secrets masked, truncated. */
void rank_secrets_mask(const char *text, size_t length, char *ret, size_t size);

/* A process's rank from its environment: pure parsing of a NUL-separated block, no I/O. */

#define RANK_ENV_NUMBER_MAX 1000000 /* ranks of a job, cards of a node */

/*
 * Fills *ret; absent or invalid values are -1 or "". The first launcher of the table with a valid rank wins. The block
 * needs no terminator.
 */
void rank_env_parse(const char *block, size_t size_bytes, struct rank_env *ret);

/*
 * A rank's card, if its environment names none: from the device nodes the process has open (/proc/PID/fd). The links
 * are not trusted: numbers are checked, at most RANK_CARD_FDS_MAX are read.
 */

#define RANK_CARD_FDS_MAX 4096
#define RANK_CARD_NUMBERS 256 /* device nodes from this number on are ignored */

struct rank_card_nodes {
	uint64_t open[RANK_CARD_NUMBERS / 64]; /* bit N: a node of number N, of any vendor */
	bool rocm;			       /* ROCm nodes, whose numbers are not those of cards */
};

/* Device nodes open in the process. -ENOENT, -EACCES and so on: none read. */
int rank_card_read(const char *root, uint32_t pid, struct rank_card_nodes *ret);

/* Does the process see a device node of an accelerator? True also where this cannot be read. */
bool rank_card_is_possible(const char *root, uint32_t pid);

/* rank_cpus.c. pci: address of its card, "": not known. devices: a fixture in tests. What cannot be read is not
 * known. */
#define RANK_CPUS_DEVICES "/sys/bus/pci/devices"
void rank_cpus_read(const char *devices, uint32_t pid, const char *pci, struct rank_cpus *ret);
/* "0-3,8\n", as sysfs has it. -EINVAL: another text; -ERANGE: CPUs beyond CPU_SETSIZE. */
int rank_cpus_parse(const char *list, cpu_set_t *ret);

/*
 * Card of a rank with these nodes open. A single one is it. With several (CUDA opens all visible ones): if there is
 * one for each local rank, the local rank indexes them; otherwise the local rank itself. local_rank, local_world_size:
 * -1 if unknown. False: ambiguous.
 */
bool rank_card_pick(
	const struct rank_card_nodes *nodes, int32_t local_rank, int32_t local_world_size, char *ret, size_t size);

#define RANK_ANCESTORS_MAX 32

/* Parents of a process, nearest first, without init. */
struct ancestors {
	uint32_t pid[RANK_ANCESTORS_MAX];
	unsigned count;
};

#define RANK_OBSERVERS_MAX 16
#define RANK_BUCKETS 4096
#define RANK_NO_SLOT UINT32_MAX
#define RANK_SUSPECTS_MAX 64 /* users; the one seen last is kept longest */

/* Detection of a rank's card, until it is known. */
struct tracked_card {
	char picked[16];    /* result of the last check, "" for none */
	uint64_t picked_ns; /* unchanged since */
	uint64_t first_ns;  /* searched for since */
	uint64_t due_ns;
};

/* A process with a role. */
struct tracked {
	struct rank rank;
	struct tracked *next;
	uint64_t start_utc_ns;
	uint64_t added_ns;    /* CLOCK_MONOTONIC */
	uint64_t checked_ns;  /* last liveness check */
	uint64_t children_ns; /* last listing of its children */
	uint64_t stored_ns;
	uint32_t cursor; /* see procfs_children() */
	bool missing;	 /* absent at the last check */
	struct tracked_card card;
	struct ancestors above; /* when it was identified */
};

/* A user with live ranks. */
struct rank_user {
	uint32_t uid;
	uint32_t ranks;
};

struct rank_suspect {
	uint64_t seen_ns; /* CLOCK_MONOTONIC, 0: free */
	uint64_t count;
	uint32_t uid;
	char why[128];
};

struct ranks {
	struct context *context;
	char proc_root[128];
	struct rank_queue *queue;
	const struct rank_read *read; /* of the process that is being identified */
	struct rank_reading *reading; /* candidates whose reading was asked for (ranks.c) */
	struct tracked *bucket[RANK_BUCKETS];
	size_t count[RANK_ROLE_MAX];
	struct tracked **slot;
	uint32_t slots;
	struct rank_user *user;
	uint32_t users;
	struct {
		ranks_observer callback;
		void *arg;
	} observer[RANK_OBSERVERS_MAX];
	size_t observers;
	struct rank_watch *watch;   /* rank_watch.c */
	struct rank_scan *scan;	    /* rank_scan.c; NULL: none is under way */
	struct job_thread *scanner; /* NULL before the first one */
	uint64_t now_ns;	    /* of the last tick */
	bool are_reported;	    /* ranks_set_reported() */
	int vmstat_fd;		    /* or -1 */
	uint64_t faults;	    /* major ones of the node, since it was booted */
	uint64_t faults_next_ns;    /* when they are read again */
	uint64_t faulted_ns;	    /* when they were seen to be more: ranks not asked since then are due */
	struct rank_suspect suspect[RANK_SUSPECTS_MAX];
	bool full_logged;
	bool others_full_logged;
};

/* rank_table.c */
struct tracked *tracked_find(const struct ranks *ranks, uint32_t pid);
/*
 * Tracks a copy of *rank; for a RANK assigns slot, instance, kernel filter and row. Notifies the observers. -ENOSPC:
 * bound reached (logged once until there is space again).
 */
int tracked_add(struct ranks *ranks, const struct rank *rank, uint64_t now_ns, struct tracked **ret);
/* Changes the role of a process taken for a RANK. */
void tracked_become(struct ranks *ranks, struct tracked *tracked, enum rank_role role, int64_t parent_instance);
/* Notifies, stores, frees. */
void tracked_end(struct ranks *ranks, struct tracked *tracked);
void tracked_store(struct ranks *ranks, struct tracked *tracked);
/* Sets the card of a rank without one in its environment. Stores and notifies. */
void tracked_card_found(struct ranks *ranks, struct tracked *tracked, const char *card);

/* rank_shares.c: what each rank may use of what all share. */
void rank_shares_add(struct ranks *ranks, const struct rank *rank);
void rank_shares_drop(struct ranks *ranks, const struct rank *rank);
/*
 * The newest rank of the user with the most ranks, if he has at least two more than this user has: it makes way where
 * the table is full. NULL: none.
 */
struct tracked *rank_shares_excess(const struct ranks *ranks, uint32_t uid);

/* rank_read.c: what a process shows of itself. */

struct rank_process {
	uint32_t pid;
	struct procfs_stat stat; /* an answer has parent and start time */
	uint32_t uid;
	uint64_t inode; /* see procfs_status */
	char exe[256];	/* "": a thread of the kernel */
	int env_error;	/* 0: env is valid. -E2BIG: more than the kernel allows; -ENODATA: not asked for */
	struct rank_env env;
	struct rank_cgroup cgroup; /* empty unless it has a training library */
	bool is_launcher;	   /* by its command */
	size_t command_bytes;
	char *command; /* arguments, each NUL-terminated; NULL unless it has a training library or is a launcher */
};

struct rank_read {
	uint32_t libraries;	/* enum procfs_library */
	struct ancestors above; /* of a training process */
	unsigned count;
	struct rank_process process[1 + RANK_ANCESTORS_MAX]; /* the process, and launchers above it, nearest first */
};

const char *rank_exe_tail(const char *exe);
/* Reads in this process, and waits. -ESRCH: it has ended. The environment only if start time or program differ. */
int rank_read_here(
	const char *proc_root, uint32_t pid, uint64_t known_start_ns, const char *known_exe, struct rank_read *ret);
void rank_read_free(struct rank_read *read);
const struct rank_process *rank_read_find(const struct rank_read *read, uint32_t pid);
/* Asks a worker; its answer goes to rank_read_take(), which checks it: -EBADMSG, or the error of reading. */
int rank_read_ask(struct workers *workers, const char *proc_root, uint32_t pid, uint32_t uid, uint64_t known_start_ns,
	const char *known_exe, worker_done done, void *arg, uint64_t *ret_id);
int rank_read_take(const uint8_t *data, size_t size_bytes, uint32_t pid, struct rank_read *ret);

/* rank_identify.c */
enum rank_identity { IDENTIFY_GONE, IDENTIFY_AGAIN, IDENTIFY_NEVER, IDENTIFY_DECIDED };

/*
 * With what was read of it. What is known of another process or image is forgotten. If it has a training library,
 * decides its role and tracks it.
 */
enum rank_identity rank_identify(
	struct ranks *ranks, struct rank_candidate *candidate, const struct rank_read *read, uint64_t now_ns);

bool rank_card_is_due(const struct tracked *tracked, uint64_t now_ns);
/* nodes: NULL if they cannot be read. */
void rank_card_take(struct ranks *ranks, struct tracked *tracked, const struct rank_card_nodes *nodes, uint64_t now_ns);

/*
 * rank_watch.c: whether tracked processes are still the same, their page faults, cards and children. These reads wait
 * for an exec of the process, or take as long as it has threads, so a worker makes them, for one user at a time.
 */

#define RANK_WATCH_MAX 1024	      /* processes in one question */
#define RANK_WATCH_CHILDREN_MAX 16384 /* in one answer; starts of processes are also reported by the kernel */

struct rank_watched {
	uint32_t pid;
	bool wants_card, wants_children;
	uint32_t cursor;	 /* see procfs_children(); the answer has the next one */
	uint64_t asked_start_ns; /* start time of the process that is tracked */
	/* The answer. */
	int error;  /* of reading; 0: */
	char state; /* of /proc/PID/stat */
	bool has_nodes;
	uint64_t start_time_ns;
	uint64_t major_faults;
	struct rank_card_nodes nodes;
	uint32_t children;
	const uint8_t *child; /* 4 bytes each, little endian; of the answer, not kept */
};

/* Adds a process to the question of its user. False: one that was asked is not answered yet, or it has enough. */
bool rank_watch_add(struct ranks *ranks, const struct tracked *tracked, bool wants_card, bool wants_children);
/* Asks; each answer comes to ranks_watched(). */
void rank_watch_ask(struct ranks *ranks);
void rank_watch_free(struct ranks *ranks);
int rank_watch_take(const uint8_t *data, size_t size_bytes, struct rank_watched *watched, unsigned count);

/* rank_scan.c */
struct rank_scanned {
	uint32_t pid, uid;
	uint64_t inode;
};

/* Uses a scan that is over. */
void rank_scan_tick(struct ranks *ranks);
void rank_scan_free(struct ranks *ranks);

/* ranks.c */
void ranks_scanned(struct ranks *ranks, const struct rank_scanned *found, uint64_t since_ns);
void ranks_watched(struct ranks *ranks, const struct rank_watched *watched);

/* ranks.c; for tests: the root of procfs. */
void ranks_set_proc_root(struct ranks *ranks, const char *root);

#endif
