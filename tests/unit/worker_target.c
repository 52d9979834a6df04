/* SPDX-License-Identifier: Apache-2.0 */
/* The worker of test_worker.c: does what the first byte of a request says, well or badly. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "daemon/worker/worker.h"

static int echo(const struct worker_task *task)
{
	return worker_child_add(task->request, task->size_bytes, task->fd, task->fds);
}

/* Endless. */
static int flood(const struct worker_task *task)
{
	int r = 0;

	while (r == 0)
		r = echo(task);
	return r;
}

static int spin(const struct worker_task *task)
{
	while (task->fds <= WORKER_FDS_MAX)
		(void)monotonic_ns();
	return 0;
}

/* Answers after 650 ms of computing: between two of the times, 100 ms apart, at which its limit is extended. */
static int work(const struct worker_task *task)
{
	uint64_t until_ns = monotonic_ns() + 650 * NSEC_PER_MSEC;

	while (monotonic_ns() < until_ns)
		;
	return echo(task);
}

static int sleep_on(const struct worker_task *task)
{
	int r = worker_child_add("part", 4, NULL, 0);

	while (r == 0)
		pause();
	return r;
}

/* Dies where the limit is not kept. */
static int eat(const struct worker_task *task)
{
	void *memory = mmap(NULL, 1ULL << 30, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return worker_child_add(memory == MAP_FAILED ? "none" : "much", 4, NULL, 0);
}

static int crash(const struct worker_task *task)
{
	abort();
}

/* In a file system that does not answer: cannot be killed. */
static int hang(const struct worker_task *task)
{
	struct stat st;

	return fstatat(AT_FDCWD, (const char *)task->request + 1, &st, 0) < 0 ? -errno : 0;
}

/* Killed, it does not end for two seconds, and waits for nothing in the kernel: a child of its own stops it on its
 * way. */
static int hold(const struct worker_task *task)
{
	int ready[2], r;
	char seized = 0;

	(void)task;
	if (pipe(ready) < 0)
		return -errno;
	if (fork() == 0) {
		seized = ptrace(PTRACE_SEIZE, getppid(), NULL, PTRACE_O_TRACEEXIT) == 0;
		if (write(ready[1], &seized, 1) == 1 && seized && waitpid(getppid(), NULL, __WALL) > 0)
			sleep(2);
		_exit(0);
	}
	r = read(ready[0], &seized, 1) == 1 && seized ? worker_child_add("held", 4, NULL, 0) : -EPERM;
	while (r == 0)
		pause();
	return r;
}

/* Numbers of the open descriptors, one byte each. */
static int list(const struct worker_task *task)
{
	int r = 0;

	for (uint8_t fd = 0; fd < 255 && r == 0; fd++)
		if (fcntl(fd, F_GETFD) >= 0)
			r = worker_child_add(&fd, 1, NULL, 0);
	return r;
}

static int limits(const struct worker_task *task)
{
	struct rlimit core;

	if (getrlimit(RLIMIT_CORE, &core) < 0 || worker_child_keep(0) < 0)
		return -1;
	return worker_child_add(core.rlim_max == 0 && environ[0] == NULL ? "good" : "bad!", 4, NULL, 0);
}

static int serve(const struct worker_task *task)
{
	static const struct {
		char name;
		int (*serve)(const struct worker_task *task);
	} ways[] = {{'e', echo}, {'f', flood}, {'s', spin}, {'w', work}, {'p', sleep_on}, {'m', eat}, {'c', crash},
		{'h', hang}, {'k', hold}, {'l', list}, {'r', limits}};

	for (size_t i = 0; i < ARRAY_SIZE(ways); i++)
		if (task->size_bytes && task->request[0] == ways[i].name)
			return ways[i].serve(task);
	return -1;
}

int main(int argc, char **argv)
{
	return worker_child_main(argc, argv, serve);
}
