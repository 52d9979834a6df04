/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread that carries out jobs of the loop in order: calls that can wait for a lock of the kernel, a slow disk or a
 * file server. It lasts, as the start of a thread can wait for the same locks.
 */
#ifndef RANKTRACE_DAEMON_BASE_JOB_THREAD_H
#define RANKTRACE_DAEMON_BASE_JOB_THREAD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct job_thread;

/* Part of a structure of the caller's, who does not touch that from job_thread_order() until job_thread_wait() is
 * true. */
struct thread_job {
	TAILQ_ENTRY(thread_job) entry;
	void (*run)(struct thread_job *job);  /* in the thread */
	void (*free)(struct thread_job *job); /* of a job that nobody waits for; in either thread */
	bool is_done, is_forgotten;
};

/* Starts the thread. Negative errno. */
int job_thread_new(struct job_thread **ret);
/* Forgets all jobs. The thread ends after the one that it runs. Always NULL. */
struct job_thread *job_thread_free(struct job_thread *thread);
/* Nothing is ordered that is not done: a job would run at once. */
bool job_thread_is_idle(struct job_thread *thread);
void job_thread_order(struct job_thread *thread, struct thread_job *job);
/* True: it is done, and the caller's again. False: not within wait_ns. */
bool job_thread_wait(struct job_thread *thread, struct thread_job *job, uint64_t wait_ns);
/* Nobody waits for it any more: freed now, or after its run. It may not have run. */
void job_thread_forget(struct job_thread *thread, struct thread_job *job);

#endif
