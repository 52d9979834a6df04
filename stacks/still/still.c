/* SPDX-License-Identifier: Apache-2.0 */
#include "stacks/still/still.h"

#include <fcntl.h>

#include "daemon/base/util.h"

#define MOVES_MAX 8	  /* a waiting thread may go to another CPU while the caller follows */
#define STAT_BYTES 2048	  /* a line of numbers and a name of 16 bytes */
#define STATUS_BYTES 8192 /* long lists of CPUs and groups */
#define STAT_STATE 3	  /* fields of /proc/PID/stat as proc(5) numbers them */
#define STAT_START 22
#define STAT_PROCESSOR 39

struct still_stat {
	char state;
	uint64_t start_ticks;
	int cpu;
};

/* Reads /proc/PID/task/TID/NAME as text. -ESRCH: ended. */
static int still_file(const struct still *still, const char *name, char *ret, size_t size)
{
	_cleanup_close_ int fd = -1;
	char path[160];
	ssize_t n;

	snprintf(path, sizeof(path), "%s/%d/task/%d/%s", still->root, still->pid, still->tid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	n = read(fd, ret, size - 1);
	if (n < 0)
		return -errno;
	ret[n] = 0;
	return n ? 0 : -ESRCH;
}

static int still_stat(const struct still *still, struct still_stat *ret)
{
	char text[STAT_BYTES], *field, *rest;
	int r = still_file(still, "stat", text, sizeof(text));

	if (r < 0)
		return r == -ENOENT ? -ESRCH : r;
	/* The name, in brackets, may hold anything. */
	field = strrchr(text, ')');
	if (!field || field[1] != ' ')
		return -EBADMSG;
	field = strtok_r(field + 2, " \n", &rest);
	for (int i = STAT_STATE; field; i++) {
		if (i == STAT_STATE)
			ret->state = *field;
		else if (i == STAT_START)
			ret->start_ticks = strtoull(field, NULL, 10);
		else if (i == STAT_PROCESSOR) {
			ret->cpu = atoi(field);
			return 0;
		}
		field = strtok_r(NULL, " \n", &rest);
	}
	return -EBADMSG;
}

static bool still_counter(const char *text, const char *name, uint64_t *ret)
{
	const char *at = strstr(text, name);

	if (!at)
		return false;
	*ret = strtoull(at + strlen(name), NULL, 10);
	return true;
}

/* How often the thread was switched to, or, where the kernel does not count that, away from. */
static int still_switches(const struct still *still, uint64_t *ret)
{
	char text[STATUS_BYTES];
	uint64_t voluntary, forced;
	unsigned long long arrivals;
	int r = still_file(still, "schedstat", text, sizeof(text));

	if (r == 0 && sscanf(text, "%*u %*u %llu", &arrivals) == 1 && arrivals) {
		*ret = arrivals;
		return 0;
	}
	r = still_file(still, "status", text, sizeof(text));
	if (r < 0)
		return r == -ENOENT ? -ESRCH : r;
	if (!still_counter(text, "\nvoluntary_ctxt_switches:", &voluntary) ||
		!still_counter(text, "\nnonvoluntary_ctxt_switches:", &forced))
		return -EBADMSG;
	*ret = voluntary + forced;
	return 0;
}

/*
 * 0: not on a CPU and not about to be. The kernel makes /proc/PID/syscall only of a thread that it finds switched off,
 * and says "running" otherwise; the state alone is set before the switch.
 */
static int still_blocked(const struct still *still)
{
	char text[256];
	int r = still_file(still, "syscall", text, sizeof(text));

	if (r < 0)
		return r == -ENOENT ? -ESRCH : r == -EACCES ? -EPERM : r;
	return strncmp(text, "running", 7) == 0 ? -EAGAIN : 0;
}

static int still_move(struct still *still, int cpu)
{
	cpu_set_t set;

	if (cpu < 0 || cpu >= CPU_SETSIZE || !CPU_ISSET(cpu, &still->own_cpus))
		return -EPERM;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set) < 0)
		return -EPERM;
	still->moved = true;
	still->here = cpu;
	return 0;
}

int still_open(struct still *still, const char *root)
{
	*still = (struct still){.cpu = -1, .here = -1};
	if (!copy_text(still->root, sizeof(still->root), root))
		return -ENAMETOOLONG;
	/* More CPUs than the set has: the caller does not move. */
	if (sched_getaffinity(0, sizeof(still->own_cpus), &still->own_cpus) < 0)
		CPU_ZERO(&still->own_cpus);
	return 0;
}

void still_close(struct still *still)
{
	if (still->moved)
		(void)sched_setaffinity(0, sizeof(still->own_cpus), &still->own_cpus);
	still->moved = false;
	still->here = -1;
}

/* Proof for a thread of this stat, now. A runnable one waits if its CPU is the caller's. */
static int still_off(const struct still *still, const struct still_stat *stat)
{
	if (stat->state != 'R')
		return still_blocked(still);
	return still->here >= 0 && stat->cpu == still->here ? 0 : -EAGAIN;
}

int still_begin(struct still *still, pid_t pid, pid_t tid)
{
	struct still_stat stat;
	int r;

	still->pid = pid;
	still->tid = tid;
	for (unsigned i = 0; i < MOVES_MAX; i++) {
		r = still_stat(still, &stat);
		if (r < 0)
			return r;
		if (stat.state == 'R' && stat.cpu != still->here) {
			r = still_move(still, stat.cpu);
			if (r < 0)
				return r;
		}
		r = still_switches(still, &still->switches);
		if (r < 0)
			return r;
		r = still_stat(still, &stat);
		if (r < 0)
			return r;
		r = still_off(still, &stat);
		if (r == -EAGAIN)
			continue;
		if (r < 0)
			return r;
		still->state = stat.state;
		still->start_ticks = stat.start_ticks;
		still->cpu = stat.state == 'R' ? stat.cpu : -1;
		return 0;
	}
	return -EAGAIN;
}

int still_check(struct still *still)
{
	struct still_stat stat;
	uint64_t switches;
	int r = still_stat(still, &stat);

	if (r < 0)
		return r;
	if (stat.start_ticks != still->start_ticks)
		return -ESRCH;
	if ((stat.state == 'R') != (still->state == 'R'))
		return -EAGAIN;
	/* First that it is off now, then that it was all the time: a switch away is counted when it is off. */
	r = still_off(still, &stat);
	if (r < 0)
		return r;
	r = still_switches(still, &switches);
	if (r < 0)
		return r;
	return switches == still->switches ? 0 : -EAGAIN;
}
