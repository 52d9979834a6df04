/* SPDX-License-Identifier: Apache-2.0 */
/* What the loop's thread spends its time with, by name. Of that thread alone. */
#ifndef RANKTRACE_DAEMON_BASE_LAG_WORK_H
#define RANKTRACE_DAEMON_BASE_LAG_WORK_H

#include <stdint.h>

#define LAG_WORK_NAMES_MAX 64 /* duties, requests and kinds of workers: beyond, time is not added */

/* what: a constant, by its address. */
void lag_work_add(const char *what, uint64_t took_ns);
/* The name with the most time since the last call; NULL: none. Forgets all. */
const char *lag_work_take(uint64_t *ret_took_ns);

#endif
