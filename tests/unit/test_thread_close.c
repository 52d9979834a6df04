/* SPDX-License-Identifier: Apache-2.0 */
/* Closing in a thread, beside a kernel that frees files when the test lets it. */

static int fake_close(int fd);
#define close fake_close
#define TEST_ALONE /* has a file of the daemon within */
#include "daemon/base/thread.c" /* NOLINT */
#include "tests/test.h"
#undef close

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool is_held;
static unsigned begun, closed, sum;
static pthread_t caller;

static int fake_close(int fd)
{
	pthread_mutex_lock(&lock);
	begun++;
	pthread_cond_broadcast(&changed);
	while (is_held && !pthread_equal(pthread_self(), caller))
		pthread_cond_wait(&changed, &lock);
	closed++;
	sum += (unsigned)fd;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	return 0;
}

static void await(const unsigned *count, unsigned value)
{
	pthread_mutex_lock(&lock);
	while (*count < value)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
}

/* One that hangs stops nobody; what is beyond the bound is closed by the caller; each is closed once. */
TEST(test_beside_one_that_hangs)
{
	caller = pthread_self();
	is_held = true;
	thread_close(-1);
	thread_close(1);
	await(&begun, 1);
	for (int i = 0; i < THREAD_CLOSES_MAX; i++)
		thread_close(1);
	assert_int_equal(closed, 0);
	thread_close(1000);
	assert_int_equal(sum, 1000);
	pthread_mutex_lock(&lock);
	is_held = false;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	await(&closed, THREAD_CLOSES_MAX + 2);
	assert_int_equal(sum, 1000 + THREAD_CLOSES_MAX + 1);
}

TEST_MAIN(NULL, NULL)
