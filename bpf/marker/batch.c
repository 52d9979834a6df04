/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "bpf/marker/batch.h"
#include "bpf/marker/usdt.h"

static struct {
	pthread_mutex_t lock;
	uint32_t used;
	uint64_t number;	    /* number of the batch being filled, from 1 */
	_Atomic uint64_t oldest_ns; /* time of its first record; 0: empty */
	uint64_t flushed_ns;
	_Atomic uint64_t lost;
	uint64_t lost_reported;
	struct rt_marker_record record[RT_MARKER_BATCH_MAX];
} batch = {.lock = PTHREAD_MUTEX_INITIALIZER, .number = 1};

uint64_t batch_now_ns(void)
{
	struct timespec t = {0};

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000ULL + (uint64_t)t.tv_nsec;
}

/* Threads read the clock before the lock, so `then` may be later. */
static bool batch_passed(uint64_t now_ns, uint64_t then_ns, uint64_t wanted_ns)
{
	return now_ns > then_ns && now_ns - then_ns > wanted_ns;
}

/* Not inlined: one probe in the library. The lock is held: records must not move. */
static __attribute__((noinline)) void hand_over(uint64_t now_ns)
{
	if (batch.used > 0)
		marker_probe(batch.record, batch.used, sizeof(batch.record[0]), RT_MARKER_VERSION);
	batch.used = 0;
	batch.number++;
	batch.flushed_ns = now_ns;
	atomic_store_explicit(&batch.oldest_ns, 0, memory_order_relaxed);
}

static void add_comm(struct batch_comm *comm)
{
	struct rt_marker_comm record = comm->record;

	record.kind = RT_MARKER_COMM;
	record.size_bytes = sizeof(record);
	record.lost = atomic_load_explicit(&batch.lost, memory_order_relaxed);
	memcpy(&batch.record[batch.used++], &record, sizeof(record));
	comm->batch = batch.number;
}

void batch_comm_set(struct batch_comm *comm, const struct rt_marker_comm *record)
{
	pthread_mutex_lock(&batch.lock);
	comm->record = *record;
	comm->batch = 0;
	pthread_mutex_unlock(&batch.lock);
}

void batch_put(struct batch_comm *comm, const struct rt_marker_record *record, uint64_t now_ns, bool quiet)
{
	struct rt_marker_record *place;
	uint64_t lost;

	pthread_mutex_lock(&batch.lock);
	if (comm->batch != batch.number) {
		if (batch.used + 2 > RT_MARKER_BATCH_MAX)
			hand_over(now_ns);
		add_comm(comm);
	}
	place = &batch.record[batch.used++];
	*place = *record;
	lost = atomic_load_explicit(&batch.lost, memory_order_relaxed);
	if (lost != batch.lost_reported)
		place->flags |= RT_MARKER_LOST;
	batch.lost_reported = lost;
	if (batch.oldest_ns == 0)
		atomic_store_explicit(&batch.oldest_ns, now_ns, memory_order_relaxed);
	if (batch.used >= RT_MARKER_BATCH_MAX || batch_passed(now_ns, batch.oldest_ns, BATCH_WAIT_NS) ||
		(quiet && batch_passed(now_ns, batch.flushed_ns, BATCH_QUIET_NS)))
		hand_over(now_ns);
	pthread_mutex_unlock(&batch.lock);
}

void batch_count_lost(void)
{
	atomic_fetch_add_explicit(&batch.lost, 1, memory_order_relaxed);
}

void batch_poll(uint64_t now_ns)
{
	uint64_t oldest_ns = atomic_load_explicit(&batch.oldest_ns, memory_order_relaxed);

	if (oldest_ns != 0 && batch_passed(now_ns, oldest_ns, BATCH_WAIT_NS))
		batch_flush(now_ns);
}

void batch_flush(uint64_t now_ns)
{
	pthread_mutex_lock(&batch.lock);
	hand_over(now_ns);
	pthread_mutex_unlock(&batch.lock);
}
