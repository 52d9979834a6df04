/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's threads leave the CPUs of pinned ranks. A rank is pinned if it may not use some CPU that the daemon may.
 * The daemon keeps half of its CPUs at least: else it runs on all of them, or a user could pin ranks to push it onto a
 * CPU that he keeps busy. Workers that are started later inherit what is set here.
 */
#include "daemon/base/log.h"
#include "daemon/core/context.h"
#include "daemon/guard/guard_internal.h"

#include <dirent.h>
#include <sched.h>

void guard_cpus_add(const cpu_set_t *own, const cpu_set_t *rank, cpu_set_t *taken)
{
	cpu_set_t both;

	CPU_AND(&both, own, rank);
	if (!CPU_EQUAL(&both, own))
		CPU_OR(taken, taken, &both);
}

void guard_cpus_left(const cpu_set_t *own, const cpu_set_t *taken, cpu_set_t *ret)
{
	CPU_XOR(ret, own, taken);
	if (2 * CPU_COUNT(ret) < CPU_COUNT(own))
		*ret = *own;
}

struct guard_cpus_walk {
	const struct guard *guard;
	cpu_set_t taken;
};

static void guard_cpus_rank(void *arg, const struct rank *rank)
{
	struct guard_cpus_walk *walk = arg;
	cpu_set_t cpus;

	if (rank->role == RANK_ROLE_RANK && sched_getaffinity((pid_t)rank->pid, sizeof(cpus), &cpus) == 0)
		guard_cpus_add(&walk->guard->own_cpu_set, &cpus, &walk->taken);
}

/* A thread that begins meanwhile has the CPUs of the one that begins it. */
static int guard_cpus_set(const cpu_set_t *cpus)
{
	_cleanup_closedir_ DIR *folder = opendir("/proc/self/task");
	struct dirent *entry;

	if (!folder)
		return -errno;
	while ((entry = readdir(folder))) {
		pid_t thread = (pid_t)strtol(entry->d_name, NULL, 10);

		if (thread > 0 && sched_setaffinity(thread, sizeof(*cpus), cpus) < 0 && errno != ESRCH)
			return -errno;
	}
	return 0;
}

void guard_cpus_begin(struct guard *guard)
{
	/* Of more CPUs than a set holds, the daemon does not move. */
	if (sched_getaffinity(0, sizeof(guard->own_cpu_set), &guard->own_cpu_set) < 0)
		CPU_ZERO(&guard->own_cpu_set);
	guard->cpu_set = guard->own_cpu_set;
}

void guard_cpus_turn(struct guard *guard)
{
	struct guard_cpus_walk walk = {.guard = guard};
	cpu_set_t cpus;
	int r;

	if (!CPU_COUNT(&guard->own_cpu_set))
		return;
	ranks_each(guard->context->ranks, guard_cpus_rank, &walk);
	guard_cpus_left(&guard->own_cpu_set, &walk.taken, &cpus);
	if (CPU_EQUAL(&cpus, &guard->cpu_set))
		return;
	guard->cpu_set = cpus;
	r = guard_cpus_set(&cpus);
	if (r < 0)
		log_error_errno("guard", r, "cannot leave the CPUs of pinned ranks");
	else if (CPU_EQUAL(&cpus, &guard->own_cpu_set))
		log_info("guard", "runs on all of its %d CPUs again", CPU_COUNT(&cpus));
	else
		log_info("guard", "leaves %d CPUs to the ranks that are pinned to them; runs on %d others",
			CPU_COUNT(&walk.taken), CPU_COUNT(&cpus));
}
