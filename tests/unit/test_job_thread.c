/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs of a thread: order, waiting, jobs that nobody waits for, and the end while one runs. */
#include <pthread.h>

#include "daemon/base/util.h"
#include "daemon/base/job_thread.h"
#include "tests/test.h"

#define LONG_NS (60 * NSEC_PER_SEC)

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static unsigned runs, frees, begun;

struct numbered {
	struct thread_job job; /* first */
	unsigned run;	       /* its place in the order of runs, from 1 */
	bool waits;	       /* for the gate */
};

static void numbered_run(struct thread_job *job)
{
	struct numbered *numbered = (struct numbered *)job;

	pthread_mutex_lock(&lock);
	begun++;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	if (numbered->waits) {
		pthread_mutex_lock(&gate);
		pthread_mutex_unlock(&gate);
	}
	numbered->run = ++runs;
}

static void numbered_free(struct thread_job *job)
{
	free(job);
	pthread_mutex_lock(&lock);
	frees++;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

static void wait_for(const unsigned *count, unsigned least)
{
	pthread_mutex_lock(&lock);
	while (*count < least)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
}

static struct numbered *numbered_new(bool waits)
{
	struct numbered *numbered = calloc(1, sizeof(*numbered));

	assert_non_null(numbered);
	numbered->job = (struct thread_job){.run = numbered_run, .free = numbered_free};
	numbered->waits = waits;
	return numbered;
}

static int setup(void **state)
{
	struct job_thread *thread;

	runs = frees = begun = 0;
	if (job_thread_new(&thread) < 0)
		return -1;
	*state = thread;
	return 0;
}

TEST_WITH(jobs_run_in_order, setup, NULL)
{
	struct job_thread *thread = *state;
	struct numbered *job[3];

	for (unsigned i = 0; i < ARRAY_SIZE(job); i++) {
		job[i] = numbered_new(false);
		job_thread_order(thread, &job[i]->job);
	}
	assert_true(job_thread_wait(thread, &job[2]->job, LONG_NS));
	for (unsigned i = 0; i < ARRAY_SIZE(job); i++) {
		assert_true(job_thread_wait(thread, &job[i]->job, 0));
		assert_int_equal(job[i]->run, i + 1);
		job_thread_forget(thread, &job[i]->job);
	}
	assert_int_equal(frees, 3);
	job_thread_free(thread);
}

TEST_WITH(one_that_waits_is_waited_for_no_longer_than_asked, setup, NULL)
{
	struct job_thread *thread = *state;
	struct numbered *job = numbered_new(true);

	pthread_mutex_lock(&gate);
	job_thread_order(thread, &job->job);
	assert_false(job_thread_wait(thread, &job->job, NSEC_PER_MSEC));
	pthread_mutex_unlock(&gate);
	assert_true(job_thread_wait(thread, &job->job, LONG_NS));
	job_thread_forget(thread, &job->job);
	job_thread_free(thread);
}

TEST_WITH(a_forgotten_one_is_freed_after_its_run, setup, NULL)
{
	struct job_thread *thread = *state;
	struct numbered *running = numbered_new(true), *waiting = numbered_new(false);

	pthread_mutex_lock(&gate);
	job_thread_order(thread, &running->job);
	job_thread_order(thread, &waiting->job);
	wait_for(&begun, 1);
	assert_false(job_thread_is_idle(thread));
	job_thread_forget(thread, &running->job);
	assert_int_equal(frees, 0);
	job_thread_forget(thread, &waiting->job); /* never runs */
	assert_int_equal(frees, 1);
	pthread_mutex_unlock(&gate);
	wait_for(&frees, 2);
	assert_int_equal(runs, 1);
	job_thread_free(thread);
}

TEST_WITH(the_end_waits_for_no_job, setup, NULL)
{
	struct job_thread *thread = *state;

	pthread_mutex_lock(&gate);
	job_thread_order(thread, &numbered_new(true)->job);
	wait_for(&begun, 1);
	job_thread_order(thread, &numbered_new(false)->job);
	job_thread_free(thread);
	assert_int_equal(frees, 1);
	pthread_mutex_unlock(&gate);
	wait_for(&frees, 2);
	assert_int_equal(runs, 1);
}

TEST_MAIN(NULL, NULL)
