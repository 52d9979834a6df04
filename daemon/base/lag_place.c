/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/base/lag.h"
#include "daemon/base/procfs.h"
#include "daemon/base/thread.h"

#include <unistd.h>

struct lag_place {
	pthread_mutex_t lock;
	pthread_cond_t stopping;
	pthread_t thread;
	uint32_t watched_id;
	uint64_t due_ns; /* 0: no turn yet */
	bool is_stopping;
	char seen[LAG_PLACE_BYTES];
};

/* With the lock held, but not while it reads. */
static void lag_place_read(struct lag_place *place)
{
	uint64_t due_ns = place->due_ns;
	char seen[LAG_PLACE_BYTES];
	int r;

	pthread_mutex_unlock(&place->lock);
	r = procfs_wait_channel("/proc", (uint32_t)getpid(), place->watched_id, seen, sizeof(seen));
	pthread_mutex_lock(&place->lock);
	if (r == 0 && place->due_ns == due_ns)
		memcpy(place->seen, seen, sizeof(place->seen));
}

static void *lag_place_work(void *arg)
{
	struct lag_place *place = arg;

	pthread_mutex_lock(&place->lock);
	while (!place->is_stopping) {
		uint64_t now_ns = monotonic_ns(), late_ns = place->due_ns + LAG_PLACE_NS;

		if (place->due_ns && now_ns >= late_ns)
			lag_place_read(place);
		(void)thread_wait_until(
			&place->stopping, &place->lock, now_ns < late_ns ? late_ns : now_ns + LAG_PLACE_NS);
	}
	pthread_mutex_unlock(&place->lock);
	return NULL;
}

int lag_place_new(struct lag_place **ret)
{
	struct lag_place *place = calloc(1, sizeof(*place));
	int r;

	if (!place)
		return -ENOMEM;
	place->watched_id = (uint32_t)gettid();
	r = thread_condition(&place->stopping);
	if (r < 0) {
		free(place);
		return r;
	}
	pthread_mutex_init(&place->lock, NULL);
	r = thread_start(lag_place_work, place, &place->thread);
	if (r < 0) {
		pthread_cond_destroy(&place->stopping);
		pthread_mutex_destroy(&place->lock);
		free(place);
		return r;
	}
	*ret = place;
	return 0;
}

struct lag_place *lag_place_free(struct lag_place *place)
{
	if (!place)
		return NULL;
	pthread_mutex_lock(&place->lock);
	place->is_stopping = true;
	pthread_cond_signal(&place->stopping);
	pthread_mutex_unlock(&place->lock);
	pthread_join(place->thread, NULL);
	pthread_cond_destroy(&place->stopping);
	pthread_mutex_destroy(&place->lock);
	free(place);
	return NULL;
}

/* Where the other thread has the lock, it may be off the CPU: this turn is not noted. */
void lag_place_turn(struct lag_place *place, uint64_t due_ns, char ret[static LAG_PLACE_BYTES])
{
	ret[0] = 0;
	if (!place || pthread_mutex_trylock(&place->lock))
		return;
	memcpy(ret, place->seen, sizeof(place->seen));
	place->seen[0] = 0;
	place->due_ns = monotonic_ns() + due_ns;
	pthread_mutex_unlock(&place->lock);
}
