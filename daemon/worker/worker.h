/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work in processes of its own, for what may hang, crash or cost without bound: files, memory and /proc of ranks. The
 * loop asks and goes on; the answer, or the reason why there is none, comes as a callback. A process has limits of
 * address space, CPU time, time and size of its answer. One that cannot be killed (it waits in the kernel for a file
 * system) is abandoned and counted; it holds nothing of the daemon but what it was given.
 *
 * Daemon's side: worker_ask(). A request is a block of bytes and descriptors; its format is a matter of the caller and
 * the program. An answer is from a process that read hostile input: the caller checks every byte.
 *
 * Program's side: libexec/ranktrace/PROGRAM, whose main() is worker_child_main(serve).
 */
#ifndef RANKTRACE_DAEMON_WORKER_WORKER_H
#define RANKTRACE_DAEMON_WORKER_WORKER_H

#include "daemon/base/util.h"

#define WORKER_FDS_MAX 4
#define WORKER_QUEUE_MAX 1024	     /* requests that wait for a process */
#define WORKER_QUEUE_OWNER_MAX 128   /* of one owner */
#define WORKER_ABANDONED_MAX 12	     /* of all owners: systemd's TasksMax is 40 */
#define WORKER_ABANDONED_OWNER_MAX 2 /* of one owner: no request of his starts until one has ended */

struct worker_kind {
	const char *name;	   /* in messages and the status */
	const char *program;	   /* path in libexec/ranktrace */
	unsigned processes_max;	   /* at a time; of several, one owner gets at most all but one */
	bool reused;		   /* a process serves further requests, also of other owners */
	uint64_t memory_bytes_max; /* address space */
	unsigned cpu_s_max;	   /* of one request */
	uint64_t wall_ns_max; /* of one request that waits, from the start of its process: for a file, not for a CPU */
	size_t reply_bytes_max;
};

enum worker_end {
	WORKER_ANSWERED,
	WORKER_TIMED_OUT, /* killed: it waited at wall_ns_max or later */
	WORKER_TOO_LONG,  /* its answer exceeded reply_bytes_max */
	WORKER_DIED,	  /* crashed, reached a limit, or broke the protocol */
	WORKER_UNSTARTED, /* the program does not start */
	WORKER_BARRED,	  /* as -EUSERS, while it waited */
	WORKER_ENDS
};

/* Predicate of the worker for messages, e.g. "took too long". */
const char *worker_end_words(enum worker_end end);

struct worker_reply {
	enum worker_end end;
	const uint8_t *data; /* what was answered, also by one that did not finish */
	size_t size_bytes;
	uint64_t took_ns; /* since a process had the request */
	unsigned fds;
	int fd[WORKER_FDS_MAX]; /* closed after the callback; take with TAKE_FD() */
};

/* From the loop, once a request. May ask again. */
typedef void (*worker_done)(void *arg, struct worker_reply *reply);

struct event_base;
struct spawner;
struct workers;

int workers_new(struct event_base *base, struct workers **ret);
/* Kills what runs and waits for nothing. No callback is called. */
struct workers *workers_free(struct workers *workers);
/* Starts other programs beside the loop, too (daemon/base/spawn.h). NULL: workers is. */
struct spawner *workers_spawner(const struct workers *workers);

/*
 * Asks in the name of the owner, the user whose process or file is read. The bytes are copied, the descriptors
 * duplicated. *ret_id: for worker_cancel(), never 0. -EUSERS: the owner's, or all, abandoned processes are too many.
 * -EBUSY: the queue is full. Both are temporary.
 */
int worker_ask(struct workers *workers, const struct worker_kind *kind, uint32_t owner, const void *request,
	size_t size_bytes, const int *fd, unsigned fds, worker_done done, void *arg, uint64_t *ret_id);
/* The callback is not called any more. Unknown ids are fine. */
void worker_cancel(struct workers *workers, uint64_t id);

struct workers_status {
	uint64_t asked, answered;
	uint64_t ended[WORKER_ENDS]; /* requests, by their end */
	unsigned running, waiting;
	unsigned abandoned; /* processes that were killed and have not ended */
};

void workers_status(const struct workers *workers, struct workers_status *ret);
/* CPU time of its processes, and of all programs of ours that have ended. Never falls. */
uint64_t workers_cpu_ns(struct workers *workers);

/*
 * Whether a killed process is kept by the kernel, where no signal reaches it: it waits, or spins, as for a process that
 * is being reaped. Otherwise it ends as soon as it has a CPU. cpu_ns: used since the kill.
 */
bool worker_is_stuck(char state, uint64_t cpu_ns);

/* Path of a program: below RANKTRACE_LIBEXEC, ../libexec/ranktrace of the daemon, or where it is installed. */
void worker_program(const char *name, char *ret, size_t size);

/* The program's side. */

struct worker_task {
	const uint8_t *request; /* aligned to 8 bytes */
	size_t size_bytes;
	int fd[WORKER_FDS_MAX];
	unsigned fds;
};

/*
 * Serves requests until the daemon closes the connection or ends. Limits are set, and descriptors that are not the
 * worker's closed, before the first request. Returns the exit status. serve: negative ends the process.
 */
int worker_child_main(int argc, char **argv, int (*serve)(const struct worker_task *task));
/* A part of the answer, in order. Descriptors are copies. */
int worker_child_add(const void *data, size_t size_bytes, const int *fd, unsigned fds);
/* Keeps only these capabilities (1 << CAP_...), of those it has. For good. */
int worker_child_keep(uint64_t capabilities);

#endif
