/* SPDX-License-Identifier: Apache-2.0 */
/* syscall_list.h is made of <asm/unistd.h> by syscall_list.cmake: SYSCALL(name) for each. */
#include <asm/unistd.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/syscall.h>

#include "bpf/syscalls.h"
#include "daemon/base/syscall_names.h"
#include "daemon/base/util.h"
#include "syscall_list.h"

static const char *const syscall_names[] = {
#define SYSCALL(name) [__NR_##name] = #name,
	SYSCALL_LIST
#undef SYSCALL
};

_Static_assert(ARRAY_SIZE(syscall_names) <= RT_SYSCALLS_MAX, "the programs count every system call that has a name");

/* enum rt_syscall_kind of those that are not plain. */
static const struct {
	long number;
	unsigned kind;
} syscall_not_plain[] = {
	{SYS_read, RT_SYSCALL_FILE + RT_FILE_READ},
	{SYS_pread64, RT_SYSCALL_FILE + RT_FILE_READ},
	{SYS_readv, RT_SYSCALL_FILE + RT_FILE_READ},
	{SYS_preadv, RT_SYSCALL_FILE + RT_FILE_READ},
	{SYS_preadv2, RT_SYSCALL_FILE + RT_FILE_READ},
	{SYS_copy_file_range, RT_SYSCALL_FILE + RT_FILE_READ}, /* its first argument is what it reads */
	{SYS_write, RT_SYSCALL_FILE + RT_FILE_WRITE},
	{SYS_pwrite64, RT_SYSCALL_FILE + RT_FILE_WRITE},
	{SYS_writev, RT_SYSCALL_FILE + RT_FILE_WRITE},
	{SYS_pwritev, RT_SYSCALL_FILE + RT_FILE_WRITE},
	{SYS_pwritev2, RT_SYSCALL_FILE + RT_FILE_WRITE},
	{SYS_sendfile, RT_SYSCALL_FILE + RT_FILE_WRITE}, /* its first argument is what it writes: a socket, too */
	{SYS_fsync, RT_SYSCALL_FILE + RT_FILE_SYNC},
	{SYS_fdatasync, RT_SYSCALL_FILE + RT_FILE_SYNC},
	{SYS_sync_file_range, RT_SYSCALL_FILE + RT_FILE_SYNC},
	{SYS_sendto, RT_SYSCALL_FILE + RT_FILE_SEND},
	{SYS_sendmsg, RT_SYSCALL_FILE + RT_FILE_SEND},
#ifdef SYS_open /* arm64 has neither */
	{SYS_open, RT_SYSCALL_FILE + RT_FILE_OPEN},
	{SYS_creat, RT_SYSCALL_FILE + RT_FILE_OPEN},
#endif
	{SYS_openat, RT_SYSCALL_FILE + RT_FILE_OPEN},
	{SYS_openat2, RT_SYSCALL_FILE + RT_FILE_OPEN},
	{SYS_open_by_handle_at, RT_SYSCALL_FILE + RT_FILE_OPEN},
	{SYS_sched_yield, RT_SYSCALL_LEFT_OUT},
	{SYS_exit, RT_SYSCALL_LEFT_OUT},
	{SYS_exit_group, RT_SYSCALL_LEFT_OUT},
	{SYS_execve, RT_SYSCALL_LEFT_OUT},
	{SYS_execveat, RT_SYSCALL_LEFT_OUT},
};

const char *syscall_name(uint32_t number, char text[SYSCALL_NAME_BYTES])
{
	if (number < ARRAY_SIZE(syscall_names) && syscall_names[number])
		return syscall_names[number];
	snprintf(text, SYSCALL_NAME_BYTES, "system call %" PRIu32, number);
	return text;
}

void syscall_kinds(uint8_t ret[RT_SYSCALLS_MAX])
{
	for (size_t i = 0; i < ARRAY_SIZE(syscall_not_plain); i++)
		ret[syscall_not_plain[i].number] = (uint8_t)syscall_not_plain[i].kind;
}
