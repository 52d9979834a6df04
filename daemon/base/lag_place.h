/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a thread waits in the kernel that is overdue: another thread reads it while it lasts, as the late one cannot. Only the
 * kernel's function, from /proc/self/task/TID/wchan.
 */
#ifndef RANKTRACE_DAEMON_BASE_LAG_PLACE_H
#define RANKTRACE_DAEMON_BASE_LAG_PLACE_H

#include "daemon/base/util.h"

/* A wait of twice this is seen for certain. Shorter ones are not significant; each read is a wakeup of the daemon. */
#define LAG_PLACE_NS (100 * NSEC_PER_MSEC)
#define LAG_PLACE_BYTES 64

struct lag_place;

/* Watches the calling thread, from its first turn on. Negative errno. */
int lag_place_new(struct lag_place **ret);
struct lag_place *lag_place_free(struct lag_place *place);
/* The thread goes on; it is overdue due_ns from now. ret: the function seen last since the turn before, "": none. */
void lag_place_turn(struct lag_place *place, uint64_t due_ns, char ret[static LAG_PLACE_BYTES]);

#endif
