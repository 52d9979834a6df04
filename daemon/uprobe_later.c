/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Detaching without waiting. Closing a link waits for all who may be in its program (a grace period of RCU and of SRCU),
 * some hundred milliseconds for each library of L1: so long no record was read and no step judged. The thread is there
 * while there is something to do.
 */
#include <pthread.h>

#include "daemon/thread.h"
#include "daemon/uprobe.h"

#define LATER_MAX 4096 /* more are detached by the caller */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t idle = PTHREAD_COND_INITIALIZER;
static struct uprobe_link *waiting[LATER_MAX];
static size_t waiting_count;
static bool is_running, waits_at_exit;

static void *uprobe_detach_work(void *arg)
{
	(void)arg;
	pthread_mutex_lock(&lock);
	while (waiting_count > 0) {
		struct uprobe_link *link = waiting[--waiting_count];

		pthread_mutex_unlock(&lock);
		uprobe_detach(link);
		pthread_mutex_lock(&lock);
	}
	is_running = false;
	pthread_cond_broadcast(&idle);
	pthread_mutex_unlock(&lock);
	return NULL;
}

static int uprobe_detach_start(void)
{
	/* A process that ends kills its threads, and a thread that is being killed cannot put the instructions of others back:
	 * the kernel then leaves the breakpoints where they are ("leaking uprobe"). */
	waits_at_exit = waits_at_exit || atexit(uprobe_detach_wait) == 0;
	if (!waits_at_exit)
		return -EAGAIN;
	return thread_run(uprobe_detach_work, NULL);
}

void uprobe_detach_async(struct uprobe_link *link)
{
	bool taken = false;

	if (!link)
		return;
	pthread_mutex_lock(&lock);
	if (waiting_count < LATER_MAX) {
		waiting[waiting_count++] = link;
		taken = is_running || uprobe_detach_start() == 0;
		is_running |= taken;
		waiting_count -= !taken;
	}
	pthread_mutex_unlock(&lock);
	if (!taken)
		uprobe_detach(link);
}

bool uprobe_is_detaching(void)
{
	bool is;

	pthread_mutex_lock(&lock);
	is = is_running;
	pthread_mutex_unlock(&lock);
	return is;
}

void uprobe_detach_wait(void)
{
	pthread_mutex_lock(&lock);
	while (is_running)
		pthread_cond_wait(&idle, &lock);
	pthread_mutex_unlock(&lock);
}
