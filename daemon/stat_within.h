/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a path that a rank names leads to, without waiting for ever. The file system below it may not answer: a server
 * of files that is down holds who asks it in the kernel, where no timeout and no signal but the last reaches. Then the
 * job hangs, too, and that is when the daemon's loop must not.
 */
#ifndef RANKTRACE_STAT_WITHIN_H
#define RANKTRACE_STAT_WITHIN_H

#include <stdint.h>
#include <sys/stat.h>

/* As stat(), by a thread of its own. 0; negative errno of stat(); -ETIMEDOUT: there was no answer for wait_ns, and the
 * thread goes on waiting; -EBUSY: such a thread waits still, so nothing was asked. Of the loop's thread alone. */
int stat_within(const char *path, uint64_t wait_ns, struct stat *ret);

#endif
