/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/base/thread.h"

#include <pthread.h>
#include <signal.h>

int thread_run(void *(*run)(void *arg), void *arg)
{
	pthread_attr_t attributes;
	pthread_t thread;
	sigset_t all, before;
	int r;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	r = pthread_create(&thread, &attributes, run, arg);
	pthread_attr_destroy(&attributes);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -r;
}
