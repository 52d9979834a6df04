/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How late something periodic runs: the longest delay ever, and in the last minute (to 5 s). Times are of one clock. Of
 * a delay, what the thread spent ready without a CPU is no doing of its own: the scheduler gave the CPU to others.
 */
#ifndef RANKTRACE_DAEMON_BASE_LAG_H
#define RANKTRACE_DAEMON_BASE_LAG_H

#include "daemon/base/util.h"

#define LAG_SLOTS 12
#define LAG_SLOT_NS 5000000000ULL

/* Of a thread since its start. The rest it waited for something. */
struct lag_thread {
	uint64_t run_ns;   /* on a CPU */
	uint64_t ready_ns; /* ready without one */
};

struct lag_stop {
	uint64_t late_ns;
	struct lag_thread thread; /* meanwhile; not more than late_ns each */
};

struct lag {
	uint64_t last_ns; /* of the run before; 0: none yet */
	struct lag_thread last_thread;
	struct lag_stop max;
	struct {
		uint64_t number, max_ns; /* number: of its 5 s, from 0 of the clock */
	} slot[LAG_SLOTS];
};

/* A run at now_ns, which was due period_ns after the one before. thread: {0} where the kernel does not count. */
struct lag_stop lag_run(struct lag *lag, uint64_t now_ns, uint64_t period_ns, const struct lag_thread *thread);
uint64_t lag_last_minute(const struct lag *lag, uint64_t now_ns);

/*
 * Where a thread waits in the kernel that is overdue: another thread reads it while it lasts, as the late one cannot.
 * Only the kernel's function, from /proc/self/task/TID/wchan.
 */

/* A wait of twice this is seen for certain. Shorter ones are not logged; each read is a wakeup of the daemon. */
#define LAG_PLACE_NS (250 * NSEC_PER_MSEC)
#define LAG_PLACE_BYTES 64

struct lag_place;

/* Watches the calling thread, from its first turn on. Negative errno. */
int lag_place_new(struct lag_place **ret);
struct lag_place *lag_place_free(struct lag_place *place);
/* The thread goes on; it is overdue due_ns from now. ret: the function seen last since the turn before, "": none. */
void lag_place_turn(struct lag_place *place, uint64_t due_ns, char ret[static LAG_PLACE_BYTES]);

/* What the loop's thread spends its time with, by name. Of that thread alone. */
#define LAG_WORK_NAMES_MAX 64 /* duties, requests and kinds of workers: beyond, time is not added */

/* what: a constant, by its address. */
void lag_work_add(const char *what, uint64_t took_ns);
/* The name with the most time since the last call; NULL: none. Forgets all. */
const char *lag_work_take(uint64_t *ret_took_ns);

#endif
