/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/gauges/gauges_internal.h"

#include <math.h>
#include <pthread.h>

#include "daemon/base/thread.h"

struct gauge_thread {
	pthread_mutex_t lock;
	pthread_cond_t changed; /* it shall end, or has ended */
	bool ending, ended, abandoned;
	uint64_t busy_ns; /* as in struct gauge_opened */
	double level;
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

/* Reads the groups that are due; false: nothing is. ret_error: of a reading that failed. */
static bool gauge_thread_groups(
	struct gauge_thread *thread, size_t i, uint64_t round_ns, struct gauge_batch *batch, int *ret_error)
{
	const struct gauge_source *source = gauge_sources[thread->source[i]];

	for (unsigned g = 0; g < GAUGE_GROUPS_MAX && source->group[g].read && *ret_error >= 0; g++) {
		struct gauge_pace pace;
		double level;

		pthread_mutex_lock(&thread->lock);
		pace = thread->opened[i].pace[g];
		level = thread->level;
		pthread_mutex_unlock(&thread->lock);
		if (!gauge_pace_is_due(&pace, &source->group[g], level, round_ns))
			continue;
		batch->group = g;
		batch->groups |= 1U << g;
		*ret_error = gauge_pace_read(&pace, &source->group[g], thread->state[i], batch, round_ns);
		pthread_mutex_lock(&thread->lock);
		thread->opened[i].pace[g] = pace;
		pthread_mutex_unlock(&thread->lock);
	}
	return batch->groups != 0;
}

static void gauge_thread_read(struct gauge_thread *thread, size_t i, uint64_t round_ns)
{
	struct gauge_batch *batch = gauge_batch_new(thread->source[i], thread->samples_max);
	int r = 0;

	if (!batch || !gauge_thread_groups(thread, i, round_ns, batch, &r)) {
		gauge_batch_free(batch);
		return;
	}
	batch->time_ns = monotonic_ns();
	pthread_mutex_lock(&thread->lock);
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

static void gauge_thread_busy(struct gauge_thread *thread, uint64_t since_ns)
{
	pthread_mutex_lock(&thread->lock);
	thread->busy_ns = since_ns;
	pthread_mutex_unlock(&thread->lock);
}

static void gauge_thread_round(struct gauge_thread *thread, uint64_t round_ns)
{
	gauge_thread_busy(thread, monotonic_ns());
	for (size_t i = 0; i < thread->sources; i++)
		if (thread->state[i])
			gauge_thread_read(thread, i, round_ns);
	gauge_thread_busy(thread, 0);
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

		gauge_thread_round(thread, next_ns);
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
	thread->busy_ns = monotonic_ns();
	thread->level = INFINITY;
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
	ret->busy_ns = thread->busy_ns;
	pthread_mutex_unlock(&thread->lock);
}

void gauge_thread_level(struct gauge_thread *thread, double level)
{
	pthread_mutex_lock(&thread->lock);
	thread->level = level;
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
