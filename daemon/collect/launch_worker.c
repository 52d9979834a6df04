/* SPDX-License-Identifier: Apache-2.0 */
/* Owns the thread and the slot (launch.h). The lock guards the slot. */
#include "daemon/base/thread.h"
#include "daemon/collect/launch.h"

struct launch_worker {
	struct launch_window *window;
	pthread_t thread;
	bool is_running; /* used by the owner: the thread must be joined */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	enum { SLOT_EMPTY, SLOT_ORDER, SLOT_RESULT } slot;
	struct launch_order *order;  /* with SLOT_ORDER */
	struct launch_result result; /* with SLOT_RESULT */
	bool stopping;
	bool ended;	   /* the thread */
	bool is_abandoned; /* it frees worker and window */
};

struct launch_order *launch_order_free(struct launch_order *order)
{
	for (size_t i = 0; order && i < order->targets; i++)
		closep(&order->target[i].fd);
	free(order);
	return NULL;
}

/* Waits until the time or a stop. */
static void wait_until(void *arg, uint64_t until_ns)
{
	struct launch_worker *worker = arg;
	struct timespec until = {
		.tv_sec = (time_t)(until_ns / NSEC_PER_SEC), .tv_nsec = (long)(until_ns % NSEC_PER_SEC)};

	pthread_mutex_lock(&worker->lock);
	while (!worker->stopping && monotonic_ns() < until_ns)
		(void)pthread_cond_timedwait(&worker->changed, &worker->lock, &until);
	pthread_mutex_unlock(&worker->lock);
}

/* NULL: stop. */
static struct launch_order *next_order(struct launch_worker *worker)
{
	struct launch_order *order;

	pthread_mutex_lock(&worker->lock);
	while (!worker->stopping && worker->slot != SLOT_ORDER)
		(void)pthread_cond_wait(&worker->changed, &worker->lock);
	order = worker->stopping ? NULL : worker->order;
	pthread_mutex_unlock(&worker->lock);
	return order;
}

static void give_result(struct launch_worker *worker, const struct launch_result *result)
{
	pthread_mutex_lock(&worker->lock);
	worker->order = launch_order_free(worker->order);
	worker->result = *result;
	worker->slot = SLOT_RESULT;
	pthread_mutex_unlock(&worker->lock);
}

static bool is_stopping(struct launch_worker *worker)
{
	bool stopping;

	pthread_mutex_lock(&worker->lock);
	stopping = worker->stopping;
	pthread_mutex_unlock(&worker->lock);
	return stopping;
}

static void launch_worker_destroy(struct launch_worker *worker)
{
	launch_order_free(worker->order);
	free(worker->result.thread);
	pthread_cond_destroy(&worker->changed);
	pthread_mutex_destroy(&worker->lock);
	free(worker);
}

static void *launch_worker_work(void *arg)
{
	struct launch_worker *worker = arg;
	struct launch_order *order;

	bool is_abandoned;

	while ((order = next_order(worker))) {
		struct launch_result result = {0};

		wait_until(worker, order->at_ns);
		if (!is_stopping(worker))
			launch_window_run(worker->window, order->target, order->targets, order->length_ns, wait_until,
				worker, &result);
		give_result(worker, &result);
	}
	pthread_mutex_lock(&worker->lock);
	worker->ended = true;
	is_abandoned = worker->is_abandoned;
	pthread_cond_signal(&worker->changed);
	pthread_mutex_unlock(&worker->lock);
	if (is_abandoned) {
		launch_window_close(worker->window);
		launch_worker_destroy(worker);
	}
	return NULL;
}

int launch_worker_start(struct launch_window *window, struct launch_worker **ret)
{
	struct launch_worker *worker = calloc(1, sizeof(*worker));
	int r;

	if (!worker)
		return -ENOMEM;
	worker->window = window;
	r = thread_condition(&worker->changed);
	if (r < 0) {
		free(worker);
		return r;
	}
	pthread_mutex_init(&worker->lock, NULL);
	r = thread_start(launch_worker_work, worker, &worker->thread);
	worker->is_running = r == 0;
	if (r < 0) {
		launch_worker_free(worker);
		return r;
	}
	*ret = worker;
	return 0;
}

int launch_worker_order(struct launch_worker *worker, struct launch_order *order)
{
	int r = -EBUSY;

	pthread_mutex_lock(&worker->lock);
	if (worker->slot == SLOT_EMPTY && !worker->stopping) {
		worker->order = order;
		worker->slot = SLOT_ORDER;
		pthread_cond_signal(&worker->changed);
		r = 0;
	}
	pthread_mutex_unlock(&worker->lock);
	return r;
}

bool launch_worker_is_idle(struct launch_worker *worker)
{
	bool idle;

	pthread_mutex_lock(&worker->lock);
	idle = worker->slot == SLOT_EMPTY && !worker->stopping;
	pthread_mutex_unlock(&worker->lock);
	return idle;
}

bool launch_worker_take(struct launch_worker *worker, struct launch_result *ret)
{
	bool there;

	pthread_mutex_lock(&worker->lock);
	there = worker->slot == SLOT_RESULT;
	if (there) {
		*ret = worker->result;
		worker->result = (struct launch_result){0};
		worker->slot = SLOT_EMPTY;
	}
	pthread_mutex_unlock(&worker->lock);
	return there;
}

bool launch_worker_stop(struct launch_worker *worker, uint64_t wait_ns)
{
	uint64_t until_ns = monotonic_ns() + wait_ns;
	const struct timespec until = {
		.tv_sec = (time_t)(until_ns / NSEC_PER_SEC), .tv_nsec = (long)(until_ns % NSEC_PER_SEC)};
	bool ended;

	if (!worker->is_running)
		return true;
	pthread_mutex_lock(&worker->lock);
	worker->stopping = true;
	pthread_cond_signal(&worker->changed);
	while (!worker->ended && pthread_cond_timedwait(&worker->changed, &worker->lock, &until) == 0)
		;
	ended = worker->ended;
	worker->is_abandoned = !ended;
	worker->is_running = false;
	if (!ended)
		pthread_detach(worker->thread);
	pthread_mutex_unlock(&worker->lock);
	if (ended)
		pthread_join(worker->thread, NULL);
	return ended;
}

void launch_worker_free(struct launch_worker *worker)
{
	if (worker)
		launch_worker_destroy(worker);
}
