/* SPDX-License-Identifier: Apache-2.0 */
/* Calls in a thread: closing, beside a kernel that frees files when the test lets it, and reaping of children. */

static int fake_close(int fd);
#define close fake_close
#define TEST_ALONE		/* has a file of the daemon within */
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
	for (int i = 0; i < THREAD_CALLS_MAX; i++)
		thread_close(1);
	assert_int_equal(closed, 0);
	thread_close(1000);
	assert_int_equal(sum, 1000);
	pthread_mutex_lock(&lock);
	is_held = false;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	await(&closed, THREAD_CALLS_MAX + 2);
	assert_int_equal(sum, 1000 + THREAD_CALLS_MAX + 1);
}

static int end_of(pid_t pid, struct rusage *usage)
{
	siginfo_t end;
	int status = 0;

	assert_false(thread_child_ended(pid, &status, usage));
	assert_int_equal(kill(pid, SIGCONT), 0);
	assert_int_equal(waitid(P_PID, (id_t)pid, &end, WEXITED | WNOWAIT), 0);
	assert_true(thread_child_ended(pid, &status, usage));
	while (kill(pid, 0) == 0) /* until the thread has reaped it */
		usleep(1000);
	return status;
}

static pid_t stopped_child(int status, int signal)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		raise(SIGSTOP);
		raise(signal);
		_exit(status);
	}
	assert_int_equal(waitpid(pid, NULL, WUNTRACED), pid);
	return pid;
}

/* Status and usage of a child are known before it is reaped. */
TEST(test_end_of_a_child)
{
	struct rusage usage = {0};
	int status = end_of(stopped_child(7, 0), &usage);

	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 7);
	assert_true(usage.ru_maxrss > 0);
	status = end_of(stopped_child(0, SIGKILL), NULL);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGKILL);
	/* Nobody's child any more. */
	assert_true(thread_child_ended(getpid(), &status, NULL));
	assert_int_equal(WEXITSTATUS(status), 255);
}

TEST_MAIN(NULL, NULL)
