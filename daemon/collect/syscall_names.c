/* SPDX-License-Identifier: Apache-2.0 */
/* syscall_list.h is made of <asm/unistd.h> by syscall_list.cmake: SYSCALL(name) for each. */
#include <asm/unistd.h>
#include <inttypes.h>
#include <stdio.h>

#include "bpf/syscalls.h"
#include "daemon/base/util.h"
#include "daemon/collect/syscall_names.h"
#include "syscall_list.h"

static const char *const syscall_names[] = {
#define SYSCALL(name) [__NR_##name] = #name,
	SYSCALL_LIST
#undef SYSCALL
};

_Static_assert(ARRAY_SIZE(syscall_names) <= RT_SYSCALLS_MAX, "the programs count every system call that has a name");

const char *syscall_name(uint32_t number, char text[SYSCALL_NAME_BYTES])
{
	if (number < ARRAY_SIZE(syscall_names) && syscall_names[number])
		return syscall_names[number];
	snprintf(text, SYSCALL_NAME_BYTES, "system call %" PRIu32, number);
	return text;
}
