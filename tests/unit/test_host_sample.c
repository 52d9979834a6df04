/* SPDX-License-Identifier: Apache-2.0 */
/* Samples of a process and its control groups, from a made-up /proc and /sys/fs/cgroup: sums, unknowns, what is
 * hostile. */
#include "daemon/findings/online_internal.h"
#include "daemon/base/procfs.h"
#include "daemon/core/limits.h"
#include "tests/test.h"
#include "tests/unit/fake_proc.h"

#define SEC NSEC_PER_SEC
#define MS NSEC_PER_MSEC
#define PID 4711

static char root[128], groups[160];

static uint64_t tick_ns(void)
{
	return SEC / (uint64_t)sysconf(_SC_CLK_TCK);
}

static int setup(void **state)
{
	fake_new(root, sizeof(root));
	snprintf(groups, sizeof(groups), "%s/cgroup", root);
	return mkdir(groups, 0700);
}

static int fd = -1; /* of /proc/PID/cgroup */

static int teardown(void **state)
{
	closep(&fd);
	fd = -1;
	fake_free(root);
	return 0;
}

static struct host_usage usage;

/* A process with these counts: user and system in ticks, pages in pages. */
static void process(unsigned faults, unsigned user, unsigned system, unsigned pages, char at)
{
	FAKE_PUT(root, PID, 1, 500);
	usage = (struct host_usage){.cpu_ns = (user + system) * tick_ns(),
		.major_faults = faults,
		.resident_bytes = pages * (uint64_t)sysconf(_SC_PAGESIZE),
		.swapped_bytes = 77,
		.state = at};
}

static void ran(uint32_t thread_id, uint64_t run_ns, uint64_t delay_ns)
{
	char folder[64], name[64], text[128];

	snprintf(folder, sizeof(folder), "/task/%u", thread_id);
	fake_folder(root, PID, folder);
	snprintf(name, sizeof(name), "task/%u/schedstat", thread_id);
	snprintf(text, sizeof(text), "%llu %llu 7\n", (unsigned long long)run_ns, (unsigned long long)delay_ns);
	fake_write(root, PID, name, text, strlen(text));
}

static void waits(uint32_t thread_id, uint64_t delay_ns)
{
	ran(thread_id, 123456, delay_ns);
}

static void unlink_thread(uint32_t thread_id)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%u/task/%u/schedstat", root, PID, thread_id);
	assert_int_equal(truncate(path, 0), 0); /* as the kernel's, which says no more to who has it open */
	assert_int_equal(unlink(path), 0);
}

static void group_file(const char *path, const char *name, const char *format, unsigned long long number)
{
	char file[512], part[512];
	FILE *f;

	for (const char *p = path; *p; p++) {
		if (p[1] && p[1] != '/')
			continue;
		snprintf(part, sizeof(part), "%s%.*s", groups, (int)(p + 1 - path), path);
		(void)mkdir(part, 0700);
	}
	snprintf(file, sizeof(file), "%s%s/%s", groups, path, name);
	f = fopen(file, "w");
	assert_non_null(f);
	fprintf(f, format, number);
	assert_int_equal(fclose(f), 0);
}

/* The cpu.stat of a group below the root of groups. */
static void group(const char *path, const char *format, unsigned long long number)
{
	group_file(path, "cpu.stat", format, number);
}

#define PRESSURE "some avg10=0.00 avg60=0.00 avg300=0.00 total=%llu\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=9\n"
#define LIMITED "usage_usec 5\nnr_periods 3\nnr_throttled 2\nthrottled_usec %llu\n"
#define FREE "usage_usec %llu\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0\n"

static struct host_sampler *sampler(void)
{
	struct host_sampler *made = NULL;

	assert_int_equal(host_sampler_new(root, groups, PID, &made), 0);
	return made;
}

/* Of a round of one rank. */
static struct host_files *fresh(void)
{
	static struct host_files files;

	files.count = 0;
	return &files;
}

TEST_WITH(test_differences, setup, teardown)
{
	struct host_sampler *s = sampler();
	struct host_sample sample;

	process(10, 100, 50, 1000, 'R');
	waits(PID, 40 * MS);
	assert_int_equal(host_sampler_take(s, fresh(), 0, &usage, 100 * SEC, &sample), 0);
	assert_int_equal(sample.state, 'R');
	assert_true(sample.cpu_total_ns == 150 * tick_ns());
	process(13, 180, 90, 2000, 'D');
	waits(PID, 240 * MS);
	assert_int_equal(host_sampler_take(s, fresh(), 0, &usage, 102 * SEC, &sample), 1);
	assert_true(sample.start_ns == 100 * SEC && sample.duration_ns == 2 * SEC);
	assert_true(sample.cpu_ns == 120 * tick_ns());
	assert_true(sample.run_delay_ns == 200 * MS);
	assert_int_equal(sample.major_faults, 3);
	assert_true(sample.resident_bytes == 2000 * (uint64_t)sysconf(_SC_PAGESIZE) && sample.swapped_bytes == 77);
	assert_int_equal(sample.state, 'D');
	assert_true(sample.throttled_ns == HOST_UNKNOWN); /* no control group is to be seen */
	/* The clock does not move. */
	assert_int_equal(host_sampler_take(s, fresh(), 0, &usage, 102 * SEC, &sample), 0);
	host_sampler_free(s);
}

/* Another thread's waits are no continuation of the first one's, and a count that went back says nothing. */
TEST_WITH(test_threads, setup, teardown)
{
	struct host_sampler *s = sampler();
	struct host_sample sample;

	process(0, 0, 0, 1, 'S');
	waits(PID, 5 * SEC);
	waits(4712, 9 * SEC);
	assert_int_equal(host_sampler_take(s, fresh(), PID, &usage, 1 * SEC, &sample), 0);
	assert_int_equal(host_sampler_take(s, fresh(), 4712, &usage, 2 * SEC, &sample), 1);
	assert_true(sample.run_delay_ns == HOST_UNKNOWN);
	waits(4712, 9 * SEC + 7);
	assert_int_equal(host_sampler_take(s, fresh(), 4712, &usage, 3 * SEC, &sample), 1);
	assert_int_equal(sample.run_delay_ns, 7);
	waits(4712, 1);
	assert_int_equal(host_sampler_take(s, fresh(), 4712, &usage, 4 * SEC, &sample), 1);
	assert_true(sample.run_delay_ns == HOST_UNKNOWN);
	/* A thread that is gone. */
	assert_int_equal(host_sampler_take(s, fresh(), 9999, &usage, 5 * SEC, &sample), 1);
	assert_true(sample.run_delay_ns == HOST_UNKNOWN);
	host_sampler_free(s);
}

/* Helpers that compute are late, too: of the one that waited longest. */
TEST_WITH(test_helpers, setup, teardown)
{
	struct host_sampler *s = sampler();
	struct host_sample sample;

	process(0, 0, 0, 1, 'S');
	waits(PID, 0);
	waits(4712, 9 * SEC);
	waits(4713, 5 * SEC);
	assert_int_equal(host_sampler_take(s, fresh(), PID, &usage, 1 * SEC, &sample), 0);
	waits(PID, 10 * MS);
	waits(4712, 9 * SEC + 40 * MS);
	waits(4713, 5 * SEC + 30 * MS);
	assert_int_equal(host_sampler_take(s, fresh(), PID, &usage, 2 * SEC, &sample), 1);
	assert_true(sample.run_delay_ns == 40 * MS);
	/* One that is gone, and one that came since the scan, which is known from the next one on. */
	unlink_thread(4712);
	waits(4714, 1 * SEC);
	waits(4713, 5 * SEC + 35 * MS);
	assert_int_equal(host_sampler_take(s, fresh(), PID, &usage, 3 * SEC, &sample), 1);
	assert_true(sample.run_delay_ns == 5 * MS);
	assert_int_equal(host_sampler_take(s, fresh(), PID, &usage, 12 * SEC, &sample), 1);
	waits(4714, 1 * SEC + 70 * MS);
	assert_int_equal(host_sampler_take(s, fresh(), PID, &usage, 13 * SEC, &sample), 1);
	assert_true(sample.run_delay_ns == 70 * MS);
	host_sampler_free(s);
}

/* Of more threads than are followed, those with most CPU time. */
TEST_WITH(test_many_threads, setup, teardown)
{
	struct host_sampler *s = sampler();
	struct host_sample sample;

	process(0, 0, 0, 1, 'S');
	waits(PID, 0);
	for (uint32_t i = 0; i < 2 * LIMIT_HOST_THREADS; i++)
		ran(5000 + i, i == 20 ? SEC : i, 0);
	assert_int_equal(host_sampler_take(s, fresh(), PID, &usage, 1 * SEC, &sample), 0);
	ran(5000, 0, 90 * MS);
	assert_int_equal(host_sampler_take(s, fresh(), PID, &usage, 2 * SEC, &sample), 1);
	assert_int_equal(sample.run_delay_ns, 0);
	ran(5020, SEC, 60 * MS);
	assert_int_equal(host_sampler_take(s, fresh(), PID, &usage, 3 * SEC, &sample), 1);
	assert_true(sample.run_delay_ns == 60 * MS);
	host_sampler_free(s);
}

TEST_WITH(test_usage, setup, teardown)
{
	static const char gone[] = "Name:\tx\nState:\tZ (zombie)\nUid:\t0\t0\t0\t0\nVmSwap:\tx kB\n";
	struct host_sampler *s, *own;
	struct host_usage read;
	char path[256];

	assert_int_equal(host_sampler_new(root, groups, PID, &s), 0);
	assert_int_equal(host_usage_read(s, 7, &read), -ENOENT);
	FAKE_PUT(root, PID, 1, 500, .state = 'D', .swapped_kib = 12);
	assert_int_equal(host_usage_read(s, 7, &read), 0);
	assert_int_equal(read.state, 'D');
	assert_int_equal(read.major_faults, 7);
	assert_true(read.resident_bytes == 120 << 10 && read.swapped_bytes == 12 << 10);
	fake_write(root, PID, "status", gone, strlen(gone));
	assert_int_equal(host_usage_read(s, 7, &read), 0);
	assert_true(read.resident_bytes == HOST_UNKNOWN && read.swapped_bytes == HOST_UNKNOWN);
	/* The file is open still; once it says nothing, the process is gone, and another one's is opened. */
	snprintf(path, sizeof(path), "%s/%u/status", root, PID);
	assert_int_equal(unlink(path), 0);
	FAKE_PUT(root, PID, 1, 500, .state = 'R');
	assert_int_equal(host_usage_read(s, 7, &read), 0);
	assert_int_equal(read.state, 'Z');
	host_sampler_free(s);
	assert_int_equal(host_sampler_new(root, groups, PID, &s), 0);
	assert_int_equal(host_usage_read(s, 7, &read), 0);
	assert_int_equal(read.state, 'R');
	fake_write(root, PID, "status", "", 0);
	assert_int_equal(host_usage_read(s, 7, &read), -ESRCH);
	host_sampler_free(s);
	/* This process: what it used until then, and has used by now. */
	assert_int_equal(host_sampler_new("/proc", groups, (uint32_t)getpid(), &own), 0);
	assert_int_equal(host_usage_read(own, HOST_UNKNOWN, &read), 0);
	assert_true(read.cpu_ns > 0 && read.cpu_ns <= (uint64_t)clock() * (SEC / CLOCKS_PER_SEC) + SEC);
	assert_true(read.state == 'R' && read.resident_bytes > 0);
	host_sampler_free(own);
}

static void in_groups(const char *text)
{
	fake_write(root, PID, "cgroup", text, strlen(text));
}

/* A rank that is moved to a limited group later was not throttled before, which is known: that is its usual. */
TEST_WITH(test_in_the_root, setup, teardown)
{
	struct host_sampler *s = sampler();
	struct host_sample sample;

	process(0, 0, 0, 1, 'S');
	in_groups("0::/\n");
	group("", FREE, 1);
	assert_int_equal(host_sampler_take(s, fresh(), 0, &usage, 10 * SEC, &sample), 0);
	assert_int_equal(host_sampler_take(s, fresh(), 0, &usage, 12 * SEC, &sample), 1);
	assert_int_equal(sample.throttled_ns, 0);
	host_sampler_free(s);
}

/* The limit is on a parent group; throttling before the first sample does not count; at most the time passed. */
TEST_WITH(test_throttled, setup, teardown)
{
	struct host_sampler *s = sampler();
	struct host_sample sample;

	process(0, 0, 0, 1, 'S');
	in_groups("0::/pods/pod1/box\n");
	group("/pods", FREE, 1);
	group("/pods/pod1", LIMITED, 7000000);
	group("/pods/pod1/box", FREE, 1);
	assert_int_equal(host_sampler_take(s, fresh(), 0, &usage, 10 * SEC, &sample), 0);
	assert_int_equal(host_sampler_take(s, fresh(), 0, &usage, 12 * SEC, &sample), 1);
	assert_int_equal(sample.throttled_ns, 0);
	group("/pods/pod1", LIMITED, 7300000);
	assert_int_equal(host_sampler_take(s, fresh(), 0, &usage, 14 * SEC, &sample), 1);
	assert_true(sample.throttled_ns == 300 * MS);
	group("/pods/pod1", LIMITED, 99000000);
	assert_int_equal(host_sampler_take(s, fresh(), 0, &usage, 16 * SEC, &sample), 1);
	assert_true(sample.throttled_ns == 2 * SEC);
	/* The group went away. */
	in_groups("0::/elsewhere\n");
	assert_int_equal(host_sampler_take(s, fresh(), 0, &usage, 30 * SEC, &sample), 1);
	assert_true(sample.throttled_ns == HOST_UNKNOWN);
	host_sampler_free(s);
}

/* Ranks of one group: its files are read once a round. */
TEST_WITH(test_groups_are_shared, setup, teardown)
{
	struct host_sampler *s[2] = {sampler(), sampler()};
	struct host_sample sample;

	process(0, 0, 0, 1, 'S');
	in_groups("0::/pods\n");
	for (unsigned round = 0; round < 3; round++) {
		struct host_files files = {0};

		for (unsigned i = 0; i < 2; i++) {
			group("/pods", LIMITED, 1000000 + round * 200000 + i * 50000);
			(void)host_sampler_take(s[i], &files, 0, &usage, (10 + round) * SEC, &sample);
			assert_true(!round || sample.throttled_ns == 200 * MS);
		}
	}
	for (unsigned i = 0; i < 2; i++)
		host_sampler_free(s[i]);
}

/* Memory pressure of its own group, of version 2 alone or beside version 1. */
TEST_WITH(test_memory_stall, setup, teardown)
{
	for (int beside = 0; beside < 2; beside++) {
		const char *path = beside ? "/unified/pods/box" : "/pods/box";
		struct host_sampler *s = sampler();
		struct host_sample sample;

		process(0, 0, 0, 1, 'S');
		in_groups(beside ? "4:memory:/pods/box\n0::/pods/box\n" : "0::/pods/box\n");
		assert_int_equal(host_sampler_take(s, fresh(), 0, &usage, 8 * SEC, &sample), 0);
		assert_int_equal(host_sampler_take(s, fresh(), 0, &usage, 9 * SEC, &sample), 1);
		assert_true(sample.memory_stall_ns == HOST_UNKNOWN); /* the kernel has no pressure, or it is off */
		group_file(path, "memory.pressure", PRESSURE, 7000000);
		assert_int_equal(host_sampler_take(s, fresh(), 0, &usage, 14 * SEC, &sample), 1);
		assert_true(sample.memory_stall_ns == HOST_UNKNOWN); /* what was before does not count */
		group_file(path, "memory.pressure", PRESSURE, 7300000);
		assert_int_equal(host_sampler_take(s, fresh(), 0, &usage, 16 * SEC, &sample), 1);
		assert_true(sample.memory_stall_ns == 300 * MS);
		group_file(path, "memory.pressure", PRESSURE, 99000000);
		assert_int_equal(host_sampler_take(s, fresh(), 0, &usage, 18 * SEC, &sample), 1);
		assert_true(sample.memory_stall_ns == 2 * SEC);
		group_file(path, "memory.pressure", "some avg10=0.00\nfull total=%llu\n", 1);
		assert_int_equal(host_sampler_take(s, fresh(), 0, &usage, 24 * SEC, &sample), 1);
		assert_true(sample.memory_stall_ns == HOST_UNKNOWN);
		in_groups("0::/\n");
		assert_int_equal(host_sampler_take(s, fresh(), 0, &usage, 30 * SEC, &sample), 1);
		assert_true(sample.memory_stall_ns == HOST_UNKNOWN);
		host_sampler_free(s);
		teardown(NULL);
		setup(NULL);
	}
}

TEST_WITH(test_groups, setup, teardown)
{
	struct host_cgroup seen = {0};
	uint64_t ns = 1;

	process(0, 0, 0, 1, 'S');
	/* Version 1, with the controller's own folder; a limit on two levels counts once, the longer one. */
	in_groups("12:cpuset:/no\n4:cpu,cpuacct:/a/b\n0::/\n");
	group("/cpu/a/b", "nr_periods 1\nnr_throttled 1\nthrottled_time %llu\n", 50);
	group("/cpu/a", "nr_periods 1\nnr_throttled 1\nthrottled_time %llu\n", 10);
	host_cgroup_scan(&seen, fresh(), root, groups, PID, &fd);
	assert_true(seen.known);
	assert_int_equal(seen.count, 2);
	assert_true(host_cgroup_throttled(&seen, fresh(), &ns));
	assert_int_equal(ns, 0);
	group("/cpu/a/b", "nr_periods 1\nnr_throttled 1\nthrottled_time %llu\n", 80);
	group("/cpu/a", "nr_periods 1\nnr_throttled 1\nthrottled_time %llu\n", 90);
	host_cgroup_scan(&seen, fresh(), root, groups, PID, &fd); /* keeps what was read */
	assert_true(host_cgroup_throttled(&seen, fresh(), &ns));
	assert_int_equal(ns, 80);
	/* Paths that lead out of the tree are not followed. */
	in_groups("0::/../../etc\n");
	host_cgroup_scan(&seen, fresh(), root, groups, PID, &fd);
	assert_false(seen.known);
	assert_false(host_cgroup_throttled(&seen, fresh(), &ns));
	in_groups("garbage\n0:\n::::\n0::relative\n");
	host_cgroup_scan(&seen, fresh(), root, groups, PID, &fd);
	assert_false(seen.known);
	in_groups("");
	host_cgroup_scan(&seen, fresh(), root, groups, PID, &fd);
	assert_false(seen.known);
	host_cgroup_free(&seen);
}

/* Deeper than the limit: bounded, and nothing breaks. */
TEST_WITH(test_deep, setup, teardown)
{
	struct host_cgroup seen = {0};
	char path[256] = "", line[300];

	process(0, 0, 0, 1, 'S');
	for (unsigned i = 0; i < 40; i++) {
		strcat(path, "/d");
		group(path, LIMITED, i);
	}
	snprintf(line, sizeof(line), "0::%s\n", path);
	in_groups(line);
	host_cgroup_scan(&seen, fresh(), root, groups, PID, &fd);
	assert_int_equal(seen.count, HOST_CGROUPS_MAX);
	host_cgroup_free(&seen);
}

TEST_MAIN(NULL, NULL)
