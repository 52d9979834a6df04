/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of system calls to rows. */
#define TEST_ALONE /* replaces functions of the daemon */
#include <sys/syscall.h>

#include "daemon/collect/collect_syscalls.c"
#include "tests/unit/call_sinks_fixture.h"

static struct rt_syscall_sums test_sums[RT_SYSCALL_SLOTS];
static struct rt_syscall_sums *test_parts[] = {test_sums, NULL};
static struct syscalls syscalls = {
	.context = &context, .on = true, .parts = ARRAY_SIZE(test_parts), .part = test_parts};

static void count(uint32_t slot, long number, uint64_t calls, uint64_t duration_ns, uint64_t longest_ns)
{
	struct rt_syscall_sum *sum = &test_sums[slot].of[number];

	sum->count += calls;
	sum->duration_ns += duration_ns;
	sum->longest_ns = sum->longest_ns > longest_ns ? sum->longest_ns : longest_ns;
}

TEST_WITH(test_sums_become_rows, fixture_setup, fixture_teardown)
{
	const struct rank *rank = &ranks_here[1];
	uint64_t now_ns = monotonic_ns();

	memset(test_sums, 0, sizeof(test_sums));
	/* Of the rank that had the slot before. */
	count(1, SYS_futex, 5, 500, 400);
	test_sums[1].held = 2;
	syscalls_rank(&syscalls, rank, RANK_ADDED);
	assert_int_equal(test_sums[1].held, 2);
	count(1, SYS_futex, 3, 3000, 2000);
	count(1, SYS_ioctl, 2, 70, 40);
	count(1, RT_SYSCALLS_MAX - 1, 1, 9, 9);
	count(2, SYS_read, 1, 1, 1);
	collect_syscalls_take_calls(&syscalls, &test_sums[1], rank, now_ns);
	collect_syscalls_take_calls(&syscalls, &test_sums[1], rank, now_ns + NSEC_PER_SEC);
	/* The longest is that of each second. */
	count(1, SYS_futex, 1, 10, 10);
	collect_syscalls_take_calls(&syscalls, &test_sums[1], rank, now_ns + 2 * NSEC_PER_SEC);
	flush();
	assert_query(
		"select rank, call, count, duration_ns, longest_ns, instance from syscalls order by call, count desc",
		"1|futex|3|3000|2000|2\n1|futex|1|10|10|2\n1|ioctl|2|70|40|2\n1|system call 511|1|9|9|2\n");
	assert_int_equal(syscalls.events, 4);
	assert_int_equal(test_sums[2].of[SYS_read].count, 1);
}

TEST_WITH(test_short_calls_on_files_become_rows, fixture_setup, fixture_teardown)
{
	struct rt_file_sum *sums = test_sums[1].file;
	uint64_t now_ns = monotonic_ns();

	memset(test_sums, 0, sizeof(test_sums));
	sums[RT_FILE_READ] = (struct rt_file_sum){.count = 9, .bytes = 90, .duration_ns = 900};
	syscalls_rank(&syscalls, &ranks_here[1], RANK_ADDED);
	sums[RT_FILE_READ] = (struct rt_file_sum){.count = 2, .bytes = 0, .duration_ns = 30};
	sums[RT_FILE_SYNC] = (struct rt_file_sum){.count = 1, .bytes = 0, .duration_ns = 5};
	sums[RT_FILE_OPEN] = (struct rt_file_sum){.count = 3, .bytes = 0, .duration_ns = 7};
	collect_syscalls_take_files(&syscalls, &test_sums[1], &ranks_here[1], now_ns);
	collect_syscalls_take_files(&syscalls, &test_sums[1], &ranks_here[1], now_ns);
	flush();
	assert_query("select operation, file is null, count, bytes, duration_ns, instance from file_calls order by "
		     "operation",
		"open|1|3|0|7|2\nread|1|2|0|30|2\nsync|1|1|0|5|2\n");
}

static const char *name_of(
	enum rt_file_op op, uint16_t family, uint16_t port, const char *address, const char *folder, const char *name)
{
	static char text[SYSCALLS_NAME_BYTES];
	struct rt_file_event call = {.op = op, .family = family, .port = htons(port)};

	memcpy(call.folder, folder, strlen(folder));
	memcpy(call.name, name, strlen(name));
	if (family)
		assert_int_equal(inet_pton(family, address, call.address), 1);
	collect_syscalls_name(&call, text);
	return text;
}

TEST(test_names_of_files_and_peers)
{
	assert_string_equal(name_of(RT_FILE_SYNC, 0, 0, "", "checkpoints", "a.pt"), "checkpoints/a.pt");
	assert_string_equal(name_of(RT_FILE_READ, 0, 0, "", "/", "data"), "/data");
	assert_string_equal(name_of(RT_FILE_SEND, AF_INET, 29500, "10.77.0.2", "", ""), "10.77.0.2:29500");
	assert_string_equal(name_of(RT_FILE_SEND, AF_INET6, 80, "2001:db8:1111:2222:3333:4444:5555:6666", "", ""),
		"[2001:db8:1111:2222:3333:4444:5555:6666]:80");
	assert_string_equal(name_of(RT_FILE_SEND, 0, 0, "", "", ""), "socket");
}

TEST_MAIN(NULL, NULL)
