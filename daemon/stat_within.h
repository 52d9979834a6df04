/* SPDX-License-Identifier: Apache-2.0 */
/* What a path that a rank names leads to, without waiting for ever: see within.h. */
#ifndef RANKTRACE_STAT_WITHIN_H
#define RANKTRACE_STAT_WITHIN_H

#include <stdint.h>
#include <sys/stat.h>

/* As stat(). 0, or negative errno; what timeout_call_run() says, too. Of the loop's thread alone. */
int stat_timeout(const char *path, uint64_t wait_ns, struct stat *ret);

#endif
