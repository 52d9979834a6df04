/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/stat_within.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/thread.h"
#include "daemon/util.h"

/* The last of the two that let it go frees it. */
struct question {
	pthread_mutex_t lock;
	pthread_cond_t answered;
	bool is_answered, is_given_up;
	int r;
	struct stat st;
	char path[PATH_MAX];
};

static atomic_bool one_waits; /* somebody gave a question up, and it has no answer yet */

static struct question *question_free(struct question *question)
{
	if (question) {
		pthread_cond_destroy(&question->answered);
		pthread_mutex_destroy(&question->lock);
	}
	free(question);
	return NULL;
}

static struct question *question_new(const char *path)
{
	struct question *question = calloc(1, sizeof(*question));
	pthread_condattr_t attributes;

	if (!question)
		return NULL;
	memcpy(question->path, path, strlen(path) + 1);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_mutex_init(&question->lock, NULL);
	pthread_cond_init(&question->answered, &attributes);
	pthread_condattr_destroy(&attributes);
	return question;
}

static void *answer(void *arg)
{
	struct question *question = arg;
	bool is_given_up;
	int r = fstatat(AT_FDCWD, question->path, &question->st, 0) < 0 ? -errno : 0;

	pthread_mutex_lock(&question->lock);
	question->r = r;
	question->is_answered = true;
	is_given_up = question->is_given_up;
	pthread_cond_signal(&question->answered);
	pthread_mutex_unlock(&question->lock);
	if (is_given_up) {
		question_free(question);
		atomic_store(&one_waits, false);
	}
	return NULL;
}

int stat_within(const char *path, uint64_t wait_ns, struct stat *ret)
{
	uint64_t until_ns = monotonic_ns() + wait_ns;
	const struct timespec until = {
		.tv_sec = (time_t)(until_ns / NSEC_PER_SEC), .tv_nsec = (long)(until_ns % NSEC_PER_SEC)};
	struct question *question;
	int r = 0;

	if (strlen(path) >= PATH_MAX)
		return -ENAMETOOLONG;
	if (atomic_load(&one_waits))
		return -EBUSY;
	question = question_new(path);
	if (!question)
		return -ENOMEM;
	r = thread_run(answer, question);
	if (r < 0) {
		question_free(question);
		return r;
	}
	pthread_mutex_lock(&question->lock);
	while (!question->is_answered && r != ETIMEDOUT)
		r = pthread_cond_timedwait(&question->answered, &question->lock, &until);
	if (!question->is_answered) {
		question->is_given_up = true;
		atomic_store(&one_waits, true);
		pthread_mutex_unlock(&question->lock);
		return -ETIMEDOUT;
	}
	pthread_mutex_unlock(&question->lock);
	r = question->r;
	if (r == 0)
		*ret = question->st;
	question_free(question);
	return r;
}
