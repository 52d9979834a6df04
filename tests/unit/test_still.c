/* SPDX-License-Identifier: Apache-2.0 */
/* A thread is proven not to run, or not: a blocked one, and one that counts as fast as it can. */
#include "stacks/still/still.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "daemon/base/util.h"
#include "tests/test.h"

#define TRIES 2000

struct shared {
	volatile uint64_t count, twin; /* the child writes one, then the other */
	volatile bool wake;
};

static struct shared *shared;

static pid_t start(void (*run)(void))
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failed test leaves nothing behind */
		run();
		_exit(0);
	}
	return pid;
}

static void stop(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void count(void)
{
	for (;;) {
		shared->count++;
		shared->twin = shared->count;
	}
}

static void sleep_until_woken(void)
{
	while (!shared->wake)
		pause();
	count();
}

static void wake(int signal)
{
	shared->wake = true;
}

static int begin(struct still *still, pid_t pid)
{
	int r;

	/* A loaded machine may need many tries. */
	while ((r = still_begin(still, pid, pid)) == -EAGAIN)
		usleep(1000);
	return r;
}

TEST(a_blocked_thread_is_still)
{
	struct still still;
	pid_t pid;

	shared->wake = false;
	signal(SIGUSR1, wake);
	pid = start(sleep_until_woken);
	assert_int_equal(still_open(&still, "/proc"), 0);
	/* Until it is in pause(), it may be found waiting for a CPU or a page, and has run since. */
	do
		assert_int_equal(begin(&still, pid), 0);
	while (still.state == 'R' || still_check(&still) == -EAGAIN);
	assert_int_equal(still.state, 'S');
	assert_int_equal(still_check(&still), 0);
	assert_int_equal(begin(&still, pid), 0);
	kill(pid, SIGUSR1);
	while (!shared->wake)
		usleep(100);
	assert_int_equal(still_check(&still), -EAGAIN);
	still_close(&still);
	stop(pid);
}

TEST(a_stopped_thread_is_still)
{
	struct still still;
	pid_t pid = start(count);
	int status;

	kill(pid, SIGSTOP);
	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	assert_int_equal(still_open(&still, "/proc"), 0);
	assert_int_equal(begin(&still, pid), 0);
	assert_int_equal(still.state, 'T');
	assert_int_equal(still_check(&still), 0);
	kill(pid, SIGCONT);
	for (uint64_t was = shared->count; shared->count == was;)
		usleep(100);
	assert_int_equal(still_check(&still), -EAGAIN);
	still_close(&still);
	stop(pid);
}

/* What is proven holds: nothing that it writes changes, and both values are of one moment. */
TEST(a_running_thread_is_still_while_it_waits)
{
	struct still still;
	pid_t pid = start(count);
	unsigned proven = 0;

	assert_int_equal(still_open(&still, "/proc"), 0);
	for (unsigned i = 0; i < TRIES && proven < 50; i++) {
		uint64_t before, twin, after;

		if (still_begin(&still, pid, pid) < 0)
			continue;
		before = shared->count;
		for (uint64_t until = monotonic_ns() + 50 * NSEC_PER_USEC; monotonic_ns() < until;)
			;
		twin = shared->twin;
		after = shared->count;
		if (still_check(&still) < 0)
			continue;
		proven++;
		assert_int_equal(before, after);
		assert_in_range(before - twin, 0, 1);
	}
	assert_true(proven > 0);
	still_close(&still);
	stop(pid);
}

TEST(a_thread_that_ran_is_not)
{
	struct still still;
	pid_t pid = start(count);

	assert_int_equal(still_open(&still, "/proc"), 0);
	assert_int_equal(begin(&still, pid), 0);
	for (uint64_t was = shared->count; shared->count == was;)
		usleep(100);
	assert_int_equal(still_check(&still), -EAGAIN);
	still_close(&still);
	stop(pid);
}

TEST(the_caller_moves_back)
{
	struct still still;
	cpu_set_t before, after;
	pid_t pid = start(count);

	assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
	assert_int_equal(still_open(&still, "/proc"), 0);
	assert_int_equal(begin(&still, pid), 0);
	still_close(&still);
	assert_int_equal(sched_getaffinity(0, sizeof(after), &after), 0);
	assert_true(CPU_EQUAL(&before, &after));
	stop(pid);
}

TEST(ended_threads_are_reported)
{
	struct still still;
	pid_t pid = start(count);

	assert_int_equal(still_open(&still, "/proc"), 0);
	assert_int_equal(begin(&still, pid), 0);
	stop(pid);
	assert_int_equal(still_check(&still), -ESRCH);
	assert_int_equal(still_begin(&still, pid, pid), -ESRCH);
	still_close(&still);
}

int main(void)
{
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return 1;
	return TEST_RUN(NULL, NULL);
}
