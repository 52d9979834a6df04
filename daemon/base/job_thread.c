/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/base/job_thread.h"
#include "daemon/base/thread.h"
#include "daemon/base/util.h"

#include <pthread.h>

TAILQ_HEAD(thread_jobs, thread_job);

/* Of the owner and the thread: the last of them frees it. */
struct job_thread {
	pthread_mutex_t lock;
	pthread_cond_t changed; /* a job is ordered or done, or is_stopping */
	struct thread_jobs waiting;
	struct thread_job *current; /* in no list */
	bool is_stopping;
};

static struct job_thread *job_thread_destroy(struct job_thread *thread)
{
	pthread_cond_destroy(&thread->changed);
	pthread_mutex_destroy(&thread->lock);
	free(thread);
	return NULL;
}

/* With the lock held, which is released meanwhile. */
static void job_thread_run(struct job_thread *thread, struct thread_job *job)
{
	TAILQ_REMOVE(&thread->waiting, job, entry);
	thread->current = job;
	pthread_mutex_unlock(&thread->lock);
	job->run(job);
	pthread_mutex_lock(&thread->lock);
	thread->current = NULL;
	job->is_done = true;
	if (job->is_forgotten)
		job->free(job);
	pthread_cond_broadcast(&thread->changed);
}

static void *job_thread_work(void *arg)
{
	struct job_thread *thread = arg;

	pthread_mutex_lock(&thread->lock);
	while (!thread->is_stopping) {
		struct thread_job *job = TAILQ_FIRST(&thread->waiting);

		if (job)
			job_thread_run(thread, job);
		else
			pthread_cond_wait(&thread->changed, &thread->lock);
	}
	pthread_mutex_unlock(&thread->lock);
	job_thread_destroy(thread);
	return NULL;
}

int job_thread_new(struct job_thread **ret)
{
	struct job_thread *thread = calloc(1, sizeof(*thread));
	int r;

	if (!thread)
		return -ENOMEM;
	r = thread_condition(&thread->changed);
	if (r < 0) {
		free(thread);
		return r;
	}
	pthread_mutex_init(&thread->lock, NULL);
	TAILQ_INIT(&thread->waiting);
	r = thread_run(job_thread_work, thread);
	if (r < 0) {
		job_thread_destroy(thread);
		return r;
	}
	*ret = thread;
	return 0;
}

struct job_thread *job_thread_free(struct job_thread *thread)
{
	struct thread_job *job;

	if (!thread)
		return NULL;
	pthread_mutex_lock(&thread->lock);
	while ((job = TAILQ_FIRST(&thread->waiting))) {
		TAILQ_REMOVE(&thread->waiting, job, entry);
		job->free(job);
	}
	if (thread->current)
		thread->current->is_forgotten = true;
	thread->is_stopping = true;
	pthread_cond_broadcast(&thread->changed);
	pthread_mutex_unlock(&thread->lock);
	return NULL;
}

bool job_thread_is_idle(struct job_thread *thread)
{
	bool is_idle;

	pthread_mutex_lock(&thread->lock);
	is_idle = !thread->current && TAILQ_EMPTY(&thread->waiting);
	pthread_mutex_unlock(&thread->lock);
	return is_idle;
}

void job_thread_order(struct job_thread *thread, struct thread_job *job)
{
	pthread_mutex_lock(&thread->lock);
	job->is_done = job->is_forgotten = false;
	TAILQ_INSERT_TAIL(&thread->waiting, job, entry);
	pthread_cond_broadcast(&thread->changed);
	pthread_mutex_unlock(&thread->lock);
}

bool job_thread_wait(struct job_thread *thread, struct thread_job *job, uint64_t wait_ns)
{
	uint64_t until_ns = monotonic_ns() + wait_ns;
	bool is_done;

	pthread_mutex_lock(&thread->lock);
	while (!job->is_done && wait_ns && thread_wait_until(&thread->changed, &thread->lock, until_ns))
		;
	is_done = job->is_done;
	pthread_mutex_unlock(&thread->lock);
	return is_done;
}

void job_thread_forget(struct job_thread *thread, struct thread_job *job)
{
	pthread_mutex_lock(&thread->lock);
	if (thread->current == job) {
		job->is_forgotten = true;
	} else {
		if (!job->is_done)
			TAILQ_REMOVE(&thread->waiting, job, entry);
		job->free(job);
	}
	pthread_mutex_unlock(&thread->lock);
}
