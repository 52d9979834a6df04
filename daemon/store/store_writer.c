/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread that writes. One batch is handed over at a time, by is_busy: while it is set, all of the writer is the
 * thread's but what the lock guards. What is put meanwhile waits in the loop's batch, so a slow disk costs memory up to
 * the queue's limit, and no time of the loop's.
 */
#include "daemon/store/store_internal.h"

#include "daemon/base/thread.h"

static void writer_describe(const struct writer *writer, struct store_status *ret)
{
	const struct folder *folder = &writer->folder;
	struct store_status status = {
		.segments = folder->count,
		.rows = writer->rows,
		.segments_removed = folder->removed,
		.segments_corrupt = folder->corrupt,
	};

	for (unsigned tier = 0; tier < TIER_MAX; tier++) {
		const struct segment *segment = writer->current[tier];

		status.size_bytes += folder_size(folder, (enum schema_tier)tier);
		for (size_t i = 0; segment && i < TABLE_MAX; i++)
			if (segment->spans[i].set && segment->spans[i].newest_ns > (int64_t)status.newest_ns)
				status.newest_ns = (uint64_t)segment->spans[i].newest_ns;
	}
	for (size_t i = 0; i < folder->count; i++) {
		uint64_t base_ns = (uint64_t)folder->files[i].name.base_ns;

		if (!status.oldest_ns || base_ns < status.oldest_ns)
			status.oldest_ns = base_ns;
		if (base_ns > status.newest_ns)
			status.newest_ns = base_ns;
	}
	(void)copy_text(status.reason, sizeof(status.reason), writer->reason);
	*ret = status;
}

static void writer_publish(struct writer *writer, int result)
{
	struct writer_report report = {.result = result, .lost_sum = writer->lost.total_sum};

	writer_describe(writer, &report.status);
	memcpy(report.lost, writer->lost.total, sizeof(report.lost));
	pthread_mutex_lock(&writer->lock);
	writer->report = report;
	writer->is_busy = false;
	pthread_cond_broadcast(&writer->changed);
	pthread_mutex_unlock(&writer->lock);
}

/* False: stop. */
static bool writer_wait_batch(struct writer *writer)
{
	bool is_busy;

	pthread_mutex_lock(&writer->lock);
	while (!writer->is_busy && !writer->is_stopping)
		(void)pthread_cond_wait(&writer->changed, &writer->lock);
	is_busy = writer->is_busy;
	pthread_mutex_unlock(&writer->lock);
	return is_busy;
}

static void writer_release(struct writer *writer)
{
	for (size_t i = 0; i < TIER_MAX; i++)
		queue_free(&writer->batch.rows[i]);
	for (size_t i = 0; i < TABLE_MAX; i++)
		queue_free(&writer->batch.now[i].rows);
	queue_free(&writer->batch.state);
	free(writer->batch.identities);
	state_free(&writer->state);
	folder_free(&writer->folder);
	pthread_cond_destroy(&writer->changed);
	pthread_mutex_destroy(&writer->lock);
	free(writer);
}

static void *writer_work(void *arg)
{
	struct writer *writer = arg;
	bool is_left;

	flush_begin(writer, realtime_ns());
	writer_publish(writer, 0);
	while (writer_wait_batch(writer))
		writer_publish(writer, flush_batch(writer));
	flush_end(writer);
	pthread_mutex_lock(&writer->lock);
	writer->is_ended = true;
	is_left = writer->is_left;
	pthread_cond_broadcast(&writer->changed);
	pthread_mutex_unlock(&writer->lock);
	if (is_left)
		writer_release(writer);
	return NULL;
}

int writer_new(const struct store_options *options, struct folder *folder, struct state *state, struct writer **ret)
{
	struct writer *writer = calloc(1, sizeof(*writer));
	int r;

	if (!writer)
		return -ENOMEM;
	r = thread_condition(&writer->changed);
	if (r < 0) {
		free(writer);
		return r;
	}
	pthread_mutex_init(&writer->lock, NULL);
	writer->options = *options;
	writer->options.state_dir = NULL; /* the loop's */
	writer->is_busy = true;		  /* with flush_begin() */
	writer->folder = *folder;
	writer->state = *state;
	*folder = (struct folder){0};
	*state = (struct state){0};
	r = thread_start(writer_work, writer, &writer->thread);
	if (r < 0) {
		writer_release(writer);
		return r;
	}
	*ret = writer;
	return 0;
}

/* With the lock held. */
static bool writer_wait_locked(struct writer *writer, const bool *flag, bool value, uint64_t until_ns)
{
	while (*flag != value && monotonic_ns() < until_ns)
		(void)thread_wait_until(&writer->changed, &writer->lock, until_ns);
	return *flag == value;
}

bool writer_wait(struct writer *writer, uint64_t until_ns)
{
	bool is_idle;

	pthread_mutex_lock(&writer->lock);
	is_idle = writer_wait_locked(writer, &writer->is_busy, false, until_ns);
	pthread_mutex_unlock(&writer->lock);
	return is_idle;
}

bool writer_is_idle(struct writer *writer)
{
	return writer_wait(writer, 0);
}

void writer_give(struct writer *writer)
{
	pthread_mutex_lock(&writer->lock);
	writer->is_busy = true;
	pthread_cond_broadcast(&writer->changed);
	pthread_mutex_unlock(&writer->lock);
}

void writer_read_report(struct writer *writer, struct writer_report *ret)
{
	pthread_mutex_lock(&writer->lock);
	*ret = writer->report;
	pthread_mutex_unlock(&writer->lock);
}

bool writer_free(struct writer *writer, uint64_t until_ns)
{
	bool is_ended;

	if (!writer)
		return true;
	pthread_mutex_lock(&writer->lock);
	writer->is_stopping = true;
	pthread_cond_broadcast(&writer->changed);
	is_ended = writer_wait_locked(writer, &writer->is_ended, true, until_ns);
	writer->is_left = !is_ended;
	if (!is_ended)
		pthread_detach(writer->thread);
	pthread_mutex_unlock(&writer->lock);
	if (!is_ended)
		return false;
	pthread_join(writer->thread, NULL);
	writer_release(writer);
	return true;
}
