/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/base/thread.h"

#include <signal.h>
#include <time.h>

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
