/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Identifies training ranks on this node, and the processes that belong to them.
 *
 * A rank is identified by (boot, pid, start time), never by pid alone; its user decides which jobs it can be part of.
 * It is a process with a training library mapped (libtorch, libnccl, libhccl, libmindspore ...). Its number comes from
 * its environment. A process with such a library and no number is rank 0 of 1, except below a rank (a child: a
 * data-loader worker) or above ranks (a launcher). Nothing here stops a process; everything read from it is bounded and
 * not trusted.
 */
#ifndef RANKTRACE_DAEMON_RANKS_RANKS_H
#define RANKTRACE_DAEMON_RANKS_RANKS_H

#include "daemon/base/util.h"

enum rank_role {
	RANK_ROLE_RANK,
	RANK_ROLE_CHILD, /* belongs to the rank `parent_instance` */
	RANK_ROLE_LAUNCHER,
	RANK_ROLE_MAX
};

/* From a process's environment (rank_env.c); -1: absent. */
struct rank_env {
	int32_t rank;
	int32_t world_size;
	int32_t local_rank;
	int32_t local_world_size;
	char source[16]; /* "torchrun", "slurm", "openmpi", "pmi", "ascend", "" if none */
	char job[64];	 /* job or run id where given */
	char pod[128];
	char card[64]; /* visible devices or device id as given, else set later by rank_card.c; "" if none, as on a
			      * machine without accelerators */
	int32_t master_port; /* rendezvous of the job's ranks: different ports, different jobs */
};

/*
 * Where a rank may run, and whether that is near its card: on CPUs of the card's own node of memory, as the kernel
 * lists them in local_cpulist of the PCI device. From others, each access of the card crosses the link between the
 * sockets.
 */
struct rank_cpus {
	unsigned usable; /* CPUs that its main thread may use; 0: not known, as on a node of more than CPU_SETSIZE */
	unsigned near;	 /* of these, near its card */
	bool near_known;
};

struct rank {
	/* identity */
	char boot_id[40];
	uint32_t pid;		/* initial PID namespace */
	uint64_t start_time_ns; /* of the process, CLOCK_BOOTTIME since boot (/proc/PID/stat field 22) */
	uint32_t uid;		/* real user, of the initial user namespace; ranks of two users are of two jobs */
	int64_t instance;	/* store-wide number of this identity, from 1; never reused; 0: never a rank */
	uint32_t slot;		/* of role RANK: index below ranks_max while alive; reused after its end */
	/* what it is */
	enum rank_role role;
	struct rank_env env; /* env.rank is final: 0 and source "" for a single-process job */
	uint32_t parent_pid;
	int64_t parent_instance; /* of a child: its rank; else 0 */
	char host[65];
	char cgroup[256];
	char container[65]; /* id from the cgroup path, "" if none */
	char pod_uid[37];   /* the same, with dashes */
	char exe[256];
	char command[256];	/* arguments joined by blanks, secrets masked, truncated */
	uint64_t first_seen_ns; /* UTC */
	uint64_t last_seen_ns;	/* UTC */
	uint64_t major_faults;	/* of all threads since start, at most seconds old */
	char state;		/* of the process, a letter of /proc/PID/stat; 1 s old, 5 s of a child; 0: unknown */
	struct rank_cpus cpus;	/* at most a minute old */
	bool from_start;	/* seen since its exec: its first step is complete */
	bool ended;
	int32_t wait_status; /* of the end, as wait(2) gives it; -1: unknown */
};

/* Can it run only far from its card? */
bool rank_cpus_are_far(const struct rank_cpus *cpus);

#define RANK_FAULTS_UNKNOWN UINT64_MAX

enum rank_change { RANK_ADDED, RANK_CHANGED, RANK_ENDED };

struct context;
struct ranks;

/* Called for every change, in order of registration; the rank is valid during the call. */
typedef void (*ranks_observer)(void *arg, const struct rank *rank, enum rank_change change);

int ranks_new(struct context *context, struct ranks **ret);
struct ranks *ranks_free(struct ranks *ranks);
int ranks_observe(struct ranks *ranks, ranks_observer observer, void *arg);

/* Examines every process that is not known yet, from the next ticks on. -EALREADY: the last scan is not over. */
int ranks_scan(struct ranks *ranks);
/* Exec, exit and fork events, from the process collector. uid: the process's user. */
void ranks_on_exec(struct ranks *ranks, uint32_t pid, uint32_t uid);
void ranks_on_exit(struct ranks *ranks, uint32_t pid, int32_t wait_status);
/* A rank has made a process, which may be its child in the job, too. */
void ranks_on_fork(struct ranks *ranks, uint32_t pid, uint32_t child_pid);
/* Whether the kernel reports those three: then processes are asked for less often. */
void ranks_set_reported(struct ranks *ranks, bool on);
/* Re-examines candidates; every 100 ms. Also detects ends without an exit event (pid reuse). */
void ranks_tick(struct ranks *ranks, uint64_t now_ns);

/* Live ranks (role RANK) only; NULL if none. */
const struct rank *ranks_by_pid(const struct ranks *ranks, uint32_t pid);
const struct rank *ranks_by_slot(const struct ranks *ranks, uint32_t slot);
/* Calls back for each live process, children and launchers included, in order of (job, rank, pid). */
void ranks_each(const struct ranks *ranks, void (*callback)(void *arg, const struct rank *rank), void *arg);
size_t ranks_count(const struct ranks *ranks, enum rank_role role);
/* Processes that may become ranks; *ret_dropped: so many were given up, as there were too many (LIMIT_CANDIDATES). */
size_t ranks_candidates(const struct ranks *ranks, uint64_t *ret_dropped);
/* Users with live ranks, and live ranks of a user (rank_shares.c). */
uint32_t ranks_users(const struct ranks *ranks);
uint32_t ranks_of_user(const struct ranks *ranks, uint32_t uid);

/*
 * Notes that processes of a user did what no training does (a bound exceeded, data that cannot be). `why`: a clause
 * that reads after "user N:"; it names nothing that the user chose. Shown by `ranks` and `check`; findings of jobs
 * whose users are all suspected turn no level on. rank_suspect.c.
 */
void ranks_suspect(struct ranks *ranks, uint32_t uid, const char *why);
/* The last `why` of the user, "" if not suspected. */
const char *ranks_suspicion(const struct ranks *ranks, uint32_t uid);
void ranks_suspects_each(const struct ranks *ranks,
	void (*callback)(void *arg, uint32_t uid, uint64_t count, const char *why), void *arg);
/* Does a live rank of another user have this rank's number of this rank's job? */
bool ranks_disputed(const struct ranks *ranks, const struct rank *rank, uint32_t *ret_uid);

#endif
