/* SPDX-License-Identifier: Apache-2.0 */
/* The end of the thread of launch windows, beside a kernel that detaches when the test lets it. */

#define launch_window_run fake_run
#define launch_window_close fake_close
#define TEST_ALONE			  /* has a file of the daemon within */
#include "daemon/collect/launch_worker.c" /* NOLINT */
#include "tests/test.h"

static struct launch_window {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool is_run, is_held, is_closed;
} window = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void set(bool *what, bool value)
{
	pthread_mutex_lock(&window.lock);
	*what = value;
	pthread_cond_broadcast(&window.changed);
	pthread_mutex_unlock(&window.lock);
}

static void await(const bool *what, bool value)
{
	pthread_mutex_lock(&window.lock);
	while (*what != value)
		pthread_cond_wait(&window.changed, &window.lock);
	pthread_mutex_unlock(&window.lock);
}

void fake_run(struct launch_window *of, const struct launch_target *target, size_t targets, uint64_t length_ns,
	launch_wait wait, void *arg, struct launch_result *ret)
{
	(void)of, (void)target, (void)targets, (void)length_ns, (void)wait, (void)arg;
	ret->thread = calloc(1, sizeof(*ret->thread));
	set(&window.is_run, true);
	await(&window.is_held, false);
}

struct launch_window *fake_close(struct launch_window *of)
{
	set(&of->is_closed, true);
	return NULL;
}

static struct launch_worker *at_work(void)
{
	struct launch_worker *worker = NULL;
	struct launch_order *order = calloc(1, sizeof(*order));

	assert_non_null(order);
	window.is_run = window.is_closed = false;
	assert_int_equal(launch_worker_start(&window, &worker), 0);
	assert_int_equal(launch_worker_order(worker, order), 0);
	await(&window.is_run, true);
	return worker;
}

TEST(test_one_that_ends)
{
	struct launch_worker *worker = at_work();
	struct launch_result result = {0};

	assert_true(launch_worker_stop(worker, NSEC_PER_SEC * 3600));
	assert_true(launch_worker_stop(worker, 0));
	assert_true(launch_worker_take(worker, &result));
	free(result.thread);
	launch_worker_free(worker);
	assert_false(window.is_closed);
}

/* Its owner goes on; the thread frees all when the kernel lets it go. */
TEST(test_one_that_hangs)
{
	struct launch_worker *worker;

	window.is_held = true;
	worker = at_work();
	assert_false(launch_worker_stop(worker, NSEC_PER_MSEC));
	assert_false(window.is_closed);
	set(&window.is_held, false);
	await(&window.is_closed, true);
}

TEST_MAIN(NULL, NULL)
