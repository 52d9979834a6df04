/* SPDX-License-Identifier: Apache-2.0 */
/* The order in which probes are attached and detached, beside a kernel that takes any time. */
#define TEST_ALONE /* replaces functions of the daemon */
#include <fcntl.h>

#include "tests/unit/uprobe_fake.h"

#include "tests/test.h"

static struct uprobe_job *attach(uint64_t file)
{
	const uint64_t offset = 1;
	const struct uprobe_target target = {.file = file, .count = 1, .offsets = &offset};
	struct uprobe_job *job = NULL;

	assert_int_equal(uprobe_job_attach(&target, &job), 0);
	return job;
}

static struct uprobe_job *attached(uint64_t file)
{
	struct uprobe_job *job = attach(file);

	assert_int_equal(uprobe_job_wait(job, UINT64_MAX), 0);
	return job;
}

static void assert_done(const char *log)
{
	uprobe_detach_wait();
	assert_false(uprobe_is_detaching());
	assert_string_equal(fake_log, log);
}

/* The caller goes on, and the probe arrives later. */
TEST(test_a_late_one_stops_nobody)
{
	struct uprobe_job *job;

	fake_hold(true);
	job = attach(1);
	fake_await();
	assert_int_equal(uprobe_job_wait(job, monotonic_ns() + NSEC_PER_MSEC), -EINPROGRESS);
	assert_int_equal(uprobe_job_result(job), -EINPROGRESS);
	assert_true(uprobe_job_age_ns() > 0);
	assert_false(uprobe_is_detaching());
	fake_hold(false);
	assert_int_equal(uprobe_job_wait(job, UINT64_MAX), 0);
	uprobe_job_detach(job);
	assert_done("+1 -1 ");
	assert_int_equal(uprobe_job_age_ns(), 0);
}

/* Of one file in the order of the orders; between files, those that attach do not wait for those that only detach. */
TEST(test_order)
{
	struct uprobe_job *first, *other, *held, *second, *third;

	first = attached(1);
	other = attached(2);
	fake_hold(true);
	held = attach(3);
	fake_await();
	uprobe_job_detach(other);
	uprobe_job_detach(first);
	second = attach(1);
	third = attach(4);
	assert_true(uprobe_is_detaching());
	fake_hold(false);
	assert_int_equal(uprobe_job_wait(third, UINT64_MAX), 0);
	assert_int_equal(uprobe_job_result(second), 0);
	assert_done("+3 -1 +1 +4 -2 ");
	uprobe_job_detach(held);
	uprobe_job_detach(second);
	uprobe_job_detach(third);
	assert_done("+3 -1 +1 +4 -2 -3 -1 -4 ");
}

/* Attached again before the kernel has finished with the ones before: at no time are there two. */
TEST(test_toggled)
{
	struct uprobe_job *job;

	fake_hold(true);
	job = attach(1);
	fake_await();
	for (int i = 0; i < 3; i++) {
		uprobe_job_detach(job);
		job = attach(1);
	}
	assert_true(uprobe_is_detaching());
	fake_hold(false);
	assert_int_equal(uprobe_job_wait(job, UINT64_MAX), 0);
	uprobe_job_detach(job);
	assert_done("+1 -1 +1 -1 ");
}

TEST(test_refused)
{
	struct uprobe_job *job, *unwanted;

	fake_hold(true);
	job = attach(FAKE_REFUSED);
	fake_await();
	unwanted = attach(FAKE_REFUSED);
	fake_hold(false);
	assert_int_equal(uprobe_job_wait(job, UINT64_MAX), -EINVAL);
	uprobe_job_detach(unwanted);
	uprobe_job_detach(job);
	uprobe_job_detach(NULL);
	uprobe_detach_wait();
	assert_int_equal(uprobe_job_attach(&(struct uprobe_target){.program_fd = -1}, &job), -EBADF);
}

/* The last one: the thread does nothing more. */
TEST(test_stop_beside_a_hung_one)
{
	struct uprobe_job *job;

	fake_hold(true);
	job = attach(1);
	fake_await();
	uprobe_job_detach(job);
	uprobe_job_stop();
	assert_true(uprobe_is_detaching());
	fake_hold(false);
}

TEST_MAIN(NULL, NULL)
