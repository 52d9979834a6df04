/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/base/thread.h"

#include <signal.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

int thread_start(void *(*run)(void *arg), void *arg, pthread_t *ret)
{
	sigset_t all, before;
	int r;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = pthread_create(ret, NULL, run, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -r;
}

int thread_run(void *(*run)(void *arg), void *arg)
{
	pthread_t thread;
	int r = thread_start(run, arg, &thread);

	return r < 0 ? r : -pthread_detach(thread);
}

int thread_condition(pthread_cond_t *ret)
{
	pthread_condattr_t attributes;
	int r = pthread_condattr_init(&attributes);

	if (r)
		return -r;
	r = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	if (r == 0)
		r = pthread_cond_init(ret, &attributes);
	pthread_condattr_destroy(&attributes);
	return -r;
}

static pthread_mutex_t closes_lock = PTHREAD_MUTEX_INITIALIZER;
static int closes[THREAD_CLOSES_MAX];
static unsigned closes_waiting;
static pthread_cond_t closes_wait = PTHREAD_COND_INITIALIZER;
static bool closes_run; /* the thread, which lasts: the start of one can wait for locks of the kernel */

static void *thread_close_work(void *arg)
{
	pthread_mutex_lock(&closes_lock);
	for (;;) {
		while (closes_waiting > 0) {
			int fd = closes[--closes_waiting];

			pthread_mutex_unlock(&closes_lock);
			close(fd);
			pthread_mutex_lock(&closes_lock);
		}
		pthread_cond_wait(&closes_wait, &closes_lock);
	}
	return NULL;
}

void thread_close(int fd)
{
	bool taken;

	if (fd < 0)
		return;
	pthread_mutex_lock(&closes_lock);
	if (!closes_run)
		closes_run = thread_run(thread_close_work, NULL) == 0;
	taken = closes_run && closes_waiting < THREAD_CLOSES_MAX;
	if (taken)
		closes[closes_waiting++] = fd;
	pthread_cond_signal(&closes_wait);
	pthread_mutex_unlock(&closes_lock);
	if (!taken)
		close(fd);
}
