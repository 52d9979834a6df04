/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Long system calls of a rank whose stack the kernel has read (bpf/syscalls.bpf.c): rows of `wait_stacks`, once the
 * worker has named the stack.
 */
#ifndef RANKTRACE_DAEMON_COLLECT_WAIT_STACKS_H
#define RANKTRACE_DAEMON_COLLECT_WAIT_STACKS_H

#include "bpf/syscalls.h"
#include "daemon/stacks/profile_rank.h"

/* Without a name yet: a thread has at most 100 a second, and most stacks have one already */
#define WAIT_STACKS_MAX 256
#define WAIT_STACKS_FOR_NS (12 * NSEC_PER_SEC) /* more than a request for names may take */

struct wait_stacks {
	struct rt_wait_event wait[WAIT_STACKS_MAX];
	size_t count;
	uint64_t lost; /* beyond the limit, or their stacks got no names */
};

void wait_stacks_add(struct wait_stacks *waits, const struct rt_wait_event *wait);
/* Rows of those that have names by now; those that have waited for too long are lost. */
void wait_stacks_put(struct wait_stacks *waits, const struct profile_rank *names, uint64_t now_ns);

#endif
