/* SPDX-License-Identifier: Apache-2.0 */
/* Names of system calls: each number that the C library has is named as it names it. */
#include <sys/syscall.h>

#include "bpf/syscalls.h"
#include "daemon/base/syscall_names.h"
#include "daemon/base/util.h"

#include "tests/test.h"

#define assert_call(name) \
	do { \
		char _text[SYSCALL_NAME_BYTES]; \
		assert_string_equal(syscall_name(SYS_##name, _text), #name); \
	} while (0)

TEST(calls_have_names)
{
	assert_call(read);
	assert_call(futex);
	assert_call(ioctl);
	assert_call(fadvise64); /* by way of another macro, on some machines */
	assert_call(newfstatat);
	assert_call(exit_group);
	assert_call(clone3);
	assert_call(openat2);
}

/* Linux has had more than 280 on each machine since it runs there. */
TEST(nearly_every_number_has_one)
{
	char text[SYSCALL_NAME_BYTES];
	unsigned named = 0;

	for (uint32_t number = 0; number < RT_SYSCALLS_MAX; number++)
		named += syscall_name(number, text) != text;
	assert_in_range(named, 280, RT_SYSCALLS_MAX);
}

TEST(an_unknown_one_is_a_number)
{
	char text[SYSCALL_NAME_BYTES];

	assert_string_equal(syscall_name(RT_SYSCALLS_MAX - 1, text), "system call 511");
	assert_string_equal(syscall_name(UINT32_MAX, text), "system call 4294967295");
}

TEST(calls_on_files_have_a_kind)
{
	uint8_t kinds[RT_SYSCALLS_MAX] = {0};

	syscall_kinds(kinds);
	assert_int_equal(kinds[SYS_read], RT_SYSCALL_FILE + RT_FILE_READ);
	assert_int_equal(kinds[SYS_openat], RT_SYSCALL_FILE + RT_FILE_OPEN);
	assert_int_equal(kinds[SYS_openat2], RT_SYSCALL_FILE + RT_FILE_OPEN);
	assert_int_equal(kinds[SYS_open_by_handle_at], RT_SYSCALL_FILE + RT_FILE_OPEN);
	assert_int_equal(kinds[SYS_sched_yield], RT_SYSCALL_LEFT_OUT);
	assert_int_equal(kinds[SYS_futex], RT_SYSCALL_PLAIN);
}

TEST_MAIN(NULL, NULL)
