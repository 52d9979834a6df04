/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/gauges/gauges_internal.h"

#include <pthread.h>

#include "daemon/base/thread.h"

struct gauge_thread {
	pthread_mutex_t lock;
	pthread_cond_t changed; /* it shall end, or has ended */
	bool ending, ended, abandoned;
	struct gauge_roots roots;
	char root[5][256]; /* what roots points to */
	size_t sources, samples_max;
	unsigned source[GAUGE_THREAD_SOURCES];
	struct gauge_opened opened[GAUGE_THREAD_SOURCES];
	void *state[GAUGE_THREAD_SOURCES]; /* the thread's own */
	size_t batches;
	struct gauge_batch *first, **last;
};

static struct gauge_thread *gauge_thread_destroy(struct gauge_thread *thread)
{
	struct gauge_batch *batch;

	while ((batch = thread->first)) {
		thread->first = batch->next;
		gauge_batch_free(batch);
	}
	pthread_mutex_destroy(&thread->lock);
	pthread_cond_destroy(&thread->changed);
	free(thread);
	return NULL;
}

static void gauge_thread_open(struct gauge_thread *thread, size_t i)
{
	struct gauge_opened opened = {.opened = true};

	opened.result = gauge_sources[thread->source[i]]->open(
		&thread->roots, &thread->state[i], opened.why, sizeof(opened.why));
	pthread_mutex_lock(&thread->lock);
	thread->opened[i] = opened;
	pthread_mutex_unlock(&thread->lock);
}

static void gauge_thread_close(struct gauge_thread *thread, size_t i)
{
	if (thread->state[i])
		gauge_sources[thread->source[i]]->close(thread->state[i]);
	thread->state[i] = NULL;
}

static void gauge_thread_read(struct gauge_thread *thread, size_t i)
{
	struct gauge_batch *batch = gauge_batch_new(thread->source[i], thread->samples_max);
	int r;

	if (!batch)
		return;
	r = gauge_sources[thread->source[i]]->read(thread->state[i], batch);
	batch->time_ns = monotonic_ns();
	pthread_mutex_lock(&thread->lock);
	thread->opened[i].read_ns = batch->time_ns;
	if (r < 0) {
		thread->opened[i].result = r;
		snprintf(thread->opened[i].why, sizeof(thread->opened[i].why), "reading failed: %s", strerror(-r));
	} else if (thread->batches < GAUGE_BATCHES_MAX) {
		*thread->last = batch;
		thread->last = &batch->next;
		thread->batches++;
		batch = NULL;
	}
	pthread_mutex_unlock(&thread->lock);
	gauge_batch_free(batch);
	if (r < 0)
		gauge_thread_close(thread, i);
}

/* Until the next second; true: it shall end. */
static bool gauge_thread_wait(struct gauge_thread *thread, uint64_t until_ns)
{
	bool ending;

	pthread_mutex_lock(&thread->lock);
	while (!thread->ending && thread_wait_until(&thread->changed, &thread->lock, until_ns))
		;
	ending = thread->ending;
	pthread_mutex_unlock(&thread->lock);
	return ending;
}

static void *gauge_thread_run(void *arg)
{
	struct gauge_thread *thread = arg;
	uint64_t next_ns = monotonic_ns();
	bool abandoned;

	for (size_t i = 0; i < thread->sources; i++)
		gauge_thread_open(thread, i);
	do {
		uint64_t now_ns;

		for (size_t i = 0; i < thread->sources; i++)
			if (thread->state[i])
				gauge_thread_read(thread, i);
		now_ns = monotonic_ns();
		next_ns = next_ns + NSEC_PER_SEC > now_ns ? next_ns + NSEC_PER_SEC : now_ns + NSEC_PER_SEC;
	} while (!gauge_thread_wait(thread, next_ns));
	for (size_t i = 0; i < thread->sources; i++)
		gauge_thread_close(thread, i);
	pthread_mutex_lock(&thread->lock);
	thread->ended = true;
	abandoned = thread->abandoned;
	pthread_cond_signal(&thread->changed);
	pthread_mutex_unlock(&thread->lock);
	if (abandoned)
		gauge_thread_destroy(thread);
	return NULL;
}

/* The thread may outlive whoever gave the texts. */
static void gauge_thread_roots(struct gauge_thread *thread, const struct gauge_roots *roots)
{
	const char *from[] = {roots->proc, roots->sys, roots->kernel_log, roots->nvml, roots->dcmi};

	for (size_t i = 0; i < ARRAY_SIZE(from); i++)
		(void)copy_text(thread->root[i], sizeof(thread->root[i]), from[i]);
	thread->roots = (struct gauge_roots){
		thread->root[0], thread->root[1], thread->root[2], thread->root[3], thread->root[4]};
}

int gauge_thread_new(const struct gauge_roots *roots, const unsigned *source, size_t sources, size_t samples_max,
	struct gauge_thread **ret)
{
	struct gauge_thread *thread = calloc(1, sizeof(*thread));
	pthread_condattr_t monotonic;
	int r;

	if (!thread)
		return -ENOMEM;
	pthread_mutex_init(&thread->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&thread->changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	gauge_thread_roots(thread, roots);
	thread->last = &thread->first;
	thread->samples_max = samples_max;
	for (; thread->sources < sources && thread->sources < GAUGE_THREAD_SOURCES; thread->sources++)
		thread->source[thread->sources] = source[thread->sources];
	r = thread_run(gauge_thread_run, thread);
	if (r < 0) {
		gauge_thread_destroy(thread);
		return r;
	}
	*ret = thread;
	return 0;
}

struct gauge_batch *gauge_thread_take(struct gauge_thread *thread)
{
	struct gauge_batch *batch;

	pthread_mutex_lock(&thread->lock);
	batch = thread->first;
	if (batch) {
		thread->first = batch->next;
		if (!thread->first)
			thread->last = &thread->first;
		thread->batches--;
	}
	pthread_mutex_unlock(&thread->lock);
	return batch;
}

void gauge_thread_opened(struct gauge_thread *thread, size_t source, struct gauge_opened *ret)
{
	pthread_mutex_lock(&thread->lock);
	*ret = thread->opened[source];
	pthread_mutex_unlock(&thread->lock);
}

struct gauge_thread *gauge_thread_free(struct gauge_thread *thread, uint64_t wait_ns)
{
	uint64_t until_ns = monotonic_ns() + wait_ns;
	bool ended;

	if (!thread)
		return NULL;
	pthread_mutex_lock(&thread->lock);
	thread->ending = true;
	pthread_cond_signal(&thread->changed);
	while (!thread->ended && thread_wait_until(&thread->changed, &thread->lock, until_ns))
		;
	ended = thread->ended;
	thread->abandoned = !ended;
	pthread_mutex_unlock(&thread->lock);
	return ended ? gauge_thread_destroy(thread) : NULL;
}
