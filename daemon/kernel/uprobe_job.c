/* SPDX-License-Identifier: Apache-2.0 */
/* Owns the jobs of uprobe.h and the thread that carries them out, which starts with the first. */
#include <fcntl.h>
#include <pthread.h>
#include <sys/queue.h>

#include "daemon/base/thread.h"
#include "daemon/kernel/uprobe.h"

/*
 * An ending process kills its threads, and one killed while it detaches leaves the breakpoints in place ("leaking
 * uprobe"). The daemon stops within 5 s, however: the kernel may never let the thread go.
 */
#define STOP_NS (3 * NSEC_PER_SEC)

struct uprobe_job {
	TAILQ_ENTRY(uprobe_job) entry; /* of the list that it is in, if any */
	struct uprobe_target target;
	int result;		  /* as uprobe_job_result() */
	bool is_unwanted;	  /* detach ordered */
	struct uprobe_link *link; /* attached */
	uint64_t value[];	  /* the target's arrays */
};

TAILQ_HEAD(uprobe_jobs, uprobe_job);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_cond_t changed; /* a job is ordered or done */
static int start_error;
static struct uprobe_jobs attaching = TAILQ_HEAD_INITIALIZER(attaching), detaching = TAILQ_HEAD_INITIALIZER(detaching);
static struct uprobe_job *current; /* in no list */
static uint64_t current_since_ns;
static bool is_stopping;

static void uprobe_job_close_target(struct uprobe_job *job)
{
	closep(&job->target.program_fd);
	thread_close(job->target.file_fd);
	job->target.program_fd = job->target.file_fd = -1;
}

static void uprobe_job_free(struct uprobe_job *job)
{
	uprobe_detach(job->link);
	uprobe_job_close_target(job);
	free(job);
}

/* What the kernel does next: to attach, and before that to detach what was attached to the same file. */
static struct uprobe_job *uprobe_job_take(void)
{
	struct uprobe_job *attach = TAILQ_FIRST(&attaching), *job;

	TAILQ_FOREACH(job, &detaching, entry)
	if (!attach || job->target.file == attach->target.file)
		break;
	if (job)
		TAILQ_REMOVE(&detaching, job, entry);
	else if (attach)
		TAILQ_REMOVE(&attaching, attach, entry);
	return job ? job : attach;
}

/* With the lock held, which is released meanwhile. */
static void uprobe_job_run(struct uprobe_job *job)
{
	bool attaches = job->result == -EINPROGRESS;
	int r = 0;

	current = job;
	current_since_ns = monotonic_ns();
	pthread_mutex_unlock(&lock);
	if (attaches) {
		r = uprobe_attach(&job->target, &job->link);
		uprobe_job_close_target(job);
	} else {
		uprobe_job_free(job);
	}
	pthread_mutex_lock(&lock);
	current = NULL;
	if (attaches)
		job->result = r;
	if (attaches && job->is_unwanted)
		TAILQ_INSERT_TAIL(&detaching, job, entry);
	pthread_cond_broadcast(&changed);
}

static void *uprobe_job_work(void *arg)
{
	pthread_mutex_lock(&lock);
	while (!is_stopping) {
		struct uprobe_job *job = uprobe_job_take();

		if (job)
			uprobe_job_run(job);
		else
			pthread_cond_wait(&changed, &lock);
	}
	pthread_mutex_unlock(&lock);
	return NULL;
}

/* With the lock held. until_ns: of CLOCK_MONOTONIC; UINT64_MAX: no end. */
static bool uprobe_job_wait_change(uint64_t until_ns)
{
	if (until_ns == UINT64_MAX)
		return pthread_cond_wait(&changed, &lock) == 0;
	return thread_wait_until(&changed, &lock, until_ns);
}

/* What is left then, the kernel detaches when the process has ended. */
static void uprobe_job_stop(void)
{
	uint64_t until_ns = monotonic_ns() + STOP_NS;

	pthread_mutex_lock(&lock);
	is_stopping = true;
	while (current && uprobe_job_wait_change(until_ns))
		;
	pthread_mutex_unlock(&lock);
}

static void uprobe_job_open(void)
{
	start_error = thread_condition(&changed);
	if (start_error == 0 && atexit(uprobe_job_stop) != 0)
		start_error = -ENOMEM;
	if (start_error == 0)
		start_error = thread_run(uprobe_job_work, NULL);
}

static const uint64_t *uprobe_job_copy(struct uprobe_job *job, const uint64_t *from, size_t slot)
{
	size_t count = job->target.count;

	return from ? memcpy(job->value + slot * count, from, count * sizeof(*from)) : NULL;
}

int uprobe_job_attach(const struct uprobe_target *target, struct uprobe_job **ret)
{
	struct uprobe_job *job = calloc(1, sizeof(*job) + 3 * target->count * sizeof(job->value[0]));
	int r;

	pthread_once(&once, uprobe_job_open);
	if (!job || start_error < 0) {
		free(job);
		return start_error < 0 ? start_error : -ENOMEM;
	}
	job->target = *target;
	job->target.offsets = uprobe_job_copy(job, target->offsets, 0);
	job->target.semaphores = uprobe_job_copy(job, target->semaphores, 1);
	job->target.cookies = uprobe_job_copy(job, target->cookies, 2);
	job->target.program_fd = fcntl(target->program_fd, F_DUPFD_CLOEXEC, 3);
	job->target.file_fd = fcntl(target->file_fd, F_DUPFD_CLOEXEC, 3);
	job->result = -EINPROGRESS;
	if (job->target.program_fd < 0 || job->target.file_fd < 0) {
		r = -errno;
		uprobe_job_free(job);
		return r;
	}
	pthread_mutex_lock(&lock);
	TAILQ_INSERT_TAIL(&attaching, job, entry);
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	*ret = job;
	return 0;
}

int uprobe_job_wait(const struct uprobe_job *job, uint64_t until_ns)
{
	int r;

	pthread_mutex_lock(&lock);
	while (job->result == -EINPROGRESS && uprobe_job_wait_change(until_ns))
		;
	r = job->result;
	pthread_mutex_unlock(&lock);
	return r;
}

int uprobe_job_result(const struct uprobe_job *job)
{
	return uprobe_job_wait(job, 0);
}

void uprobe_job_detach(struct uprobe_job *job)
{
	bool is_current;

	if (!job)
		return;
	pthread_mutex_lock(&lock);
	job->is_unwanted = true;
	is_current = job == current; /* the thread sees it */
	if (!is_current && job->result == -EINPROGRESS)
		TAILQ_REMOVE(&attaching, job, entry);
	if (!is_current && job->link)
		TAILQ_INSERT_TAIL(&detaching, job, entry);
	else if (!is_current)
		uprobe_job_free(job);
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

static bool uprobe_job_is_detaching(void)
{
	return !TAILQ_EMPTY(&detaching) || (current && current->is_unwanted);
}

bool uprobe_is_detaching(void)
{
	bool is;

	pthread_mutex_lock(&lock);
	is = uprobe_job_is_detaching();
	pthread_mutex_unlock(&lock);
	return is;
}

void uprobe_detach_wait(void)
{
	pthread_mutex_lock(&lock);
	while (uprobe_job_is_detaching())
		uprobe_job_wait_change(UINT64_MAX);
	pthread_mutex_unlock(&lock);
}

uint64_t uprobe_job_age_ns(void)
{
	uint64_t age_ns;

	pthread_mutex_lock(&lock);
	age_ns = current ? monotonic_ns() - current_since_ns : 0;
	pthread_mutex_unlock(&lock);
	return age_ns;
}
