/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/base/thread.h"
#include "daemon/base/util.h"

#include <errno.h>
#include <signal.h>
#include <time.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
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

bool thread_wait_until(pthread_cond_t *condition, pthread_mutex_t *lock, uint64_t until_ns)
{
	const struct timespec until = {
		.tv_sec = (time_t)(until_ns / NSEC_PER_SEC), .tv_nsec = (long)(until_ns % NSEC_PER_SEC)};

	return pthread_cond_timedwait(condition, lock, &until) == 0;
}

/* Calls of one kind, in any order, in a thread that lasts: the start of a thread can wait for locks of the kernel. */
struct thread_calls {
	void (*call)(int number);
	pthread_mutex_t lock;
	pthread_cond_t wait;
	int number[THREAD_CALLS_MAX];
	unsigned waiting;
	bool runs;
};

static void *thread_calls_run(void *arg)
{
	struct thread_calls *calls = arg;

	pthread_mutex_lock(&calls->lock);
	for (;;) {
		while (calls->waiting > 0) {
			int number = calls->number[--calls->waiting];

			pthread_mutex_unlock(&calls->lock);
			calls->call(number);
			pthread_mutex_lock(&calls->lock);
		}
		pthread_cond_wait(&calls->wait, &calls->lock);
	}
	return NULL;
}

static void thread_calls_add(struct thread_calls *calls, int number)
{
	bool taken;

	pthread_mutex_lock(&calls->lock);
	if (!calls->runs)
		calls->runs = thread_run(thread_calls_run, calls) == 0;
	taken = calls->runs && calls->waiting < THREAD_CALLS_MAX;
	if (taken)
		calls->number[calls->waiting++] = number;
	pthread_cond_signal(&calls->wait);
	pthread_mutex_unlock(&calls->lock);
	if (!taken)
		calls->call(number);
}

static void thread_close_now(int fd)
{
	close(fd);
}

static void thread_reap_now(int pid)
{
	(void)waitpid(pid, NULL, 0);
}

void thread_close(int fd)
{
	static struct thread_calls closes = {
		.call = thread_close_now, .lock = PTHREAD_MUTEX_INITIALIZER, .wait = PTHREAD_COND_INITIALIZER};

	if (fd >= 0)
		thread_calls_add(&closes, fd);
}

void thread_reap(pid_t pid)
{
	static struct thread_calls reaps = {
		.call = thread_reap_now, .lock = PTHREAD_MUTEX_INITIALIZER, .wait = PTHREAD_COND_INITIALIZER};

	thread_calls_add(&reaps, pid);
}

bool thread_child_ended(pid_t pid, int *ret_status, struct rusage *ret_usage)
{
	siginfo_t end = {0};
	struct rusage usage = {0};

	/* As waitid(), which does not give the usage. */
	if (syscall(SYS_waitid, P_PID, pid, &end, WEXITED | WNOHANG | WNOWAIT, &usage) < 0) {
		*ret_status = W_EXITCODE(UINT8_MAX, 0); /* not a child any more */
		return errno != EINTR;
	}
	if (end.si_pid == 0)
		return false;
	*ret_status =
		end.si_code == CLD_EXITED ? W_EXITCODE(end.si_status & 0xff, 0) : W_EXITCODE(0, end.si_status & 0x7f);
	if (ret_usage)
		*ret_usage = usage;
	thread_reap(pid);
	return true;
}
