/* SPDX-License-Identifier: Apache-2.0 */
/* Names and kinds of this machine's system calls, of those that the kernel headers of the build know. */
#ifndef RANKTRACE_DAEMON_BASE_SYSCALL_NAMES_H
#define RANKTRACE_DAEMON_BASE_SYSCALL_NAMES_H

#include <stdint.h>

#include "bpf/syscalls.h"

#define SYSCALL_NAME_BYTES 32

/* The name as in syscalls(2); of an unknown one "system call NUMBER", written to text. */
const char *syscall_name(uint32_t number, char text[SYSCALL_NAME_BYTES]);

/* enum rt_syscall_kind by number. ret is 0. */
void syscall_kinds(uint8_t ret[RT_SYSCALLS_MAX]);

#endif
