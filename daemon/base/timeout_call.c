/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/base/timeout_call.h"
#include "daemon/base/thread.h"
#include "daemon/base/util.h"

#include <pthread.h>
#include <stdatomic.h>

/* Shared by caller and thread; the last to release it frees it. */
struct asking {
	struct timeout_call within;
	void *question;
	pthread_mutex_t lock;
	pthread_cond_t answered;
	bool is_answered, is_given_up;
	int answer;
};

static atomic_bool one_waits; /* an abandoned call has not returned yet */

static struct asking *asking_free(struct asking *asking)
{
	if (asking) {
		pthread_cond_destroy(&asking->answered);
		pthread_mutex_destroy(&asking->lock);
	}
	free(asking);
	return NULL;
}

static struct asking *asking_new(const struct timeout_call *within, void *question)
{
	struct asking *asking = calloc(1, sizeof(*asking));

	if (!asking)
		return NULL;
	if (thread_condition(&asking->answered) < 0) {
		free(asking);
		return NULL;
	}
	asking->within = *within;
	asking->question = question;
	pthread_mutex_init(&asking->lock, NULL);
	return asking;
}

static void *timeout_call_thread(void *arg)
{
	struct asking *asking = arg;
	bool is_given_up;
	int answer = asking->within.ask(asking->question);

	pthread_mutex_lock(&asking->lock);
	asking->answer = answer;
	asking->is_answered = true;
	is_given_up = asking->is_given_up;
	pthread_cond_signal(&asking->answered);
	pthread_mutex_unlock(&asking->lock);
	if (is_given_up) {
		asking->within.forget(asking->question, answer);
		asking_free(asking);
		atomic_store(&one_waits, false);
	}
	return NULL;
}

int timeout_call_run(const struct timeout_call *within, void **question, uint64_t wait_ns)
{
	uint64_t until_ns = monotonic_ns() + wait_ns;
	const struct timespec until = {
		.tv_sec = (time_t)(until_ns / NSEC_PER_SEC), .tv_nsec = (long)(until_ns % NSEC_PER_SEC)};
	struct asking *asking;
	int r = 0;

	if (atomic_load(&one_waits))
		return -EBUSY;
	asking = asking_new(within, *question);
	if (!asking)
		return -ENOMEM;
	r = thread_run(timeout_call_thread, asking);
	if (r < 0) {
		asking_free(asking);
		return r;
	}
	pthread_mutex_lock(&asking->lock);
	while (!asking->is_answered && r != ETIMEDOUT)
		r = pthread_cond_timedwait(&asking->answered, &asking->lock, &until);
	if (!asking->is_answered) {
		*question = NULL;
		asking->is_given_up = true;
		atomic_store(&one_waits, true);
		pthread_mutex_unlock(&asking->lock);
		return -ETIMEDOUT;
	}
	pthread_mutex_unlock(&asking->lock);
	r = asking->answer;
	asking_free(asking);
	return r;
}
