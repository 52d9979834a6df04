/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/base/child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "daemon/base/spawn.h"
#include "daemon/base/thread.h"
#include "daemon/base/util.h"

#define CHILD_NICE 19

static void child_started(void *arg, pid_t result)
{
	struct child *child = arg;

	child->job = NULL;
	if (result < 0) {
		child->error = result;
		return;
	}
	child->pid = result;
	(void)setpriority(PRIO_PROCESS, (id_t)result, CHILD_NICE);
}

int child_start(struct child *child, struct spawner *spawner, const char *const *argv, int to)
{
	_cleanup_close_ int ours = -1, its = -1;
	char *const *words = (char *const *)argv; /* not changed */
	int ends[2], r;
	pid_t pid = 0;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	ours = ends[0];
	its = ends[1];
	if (fcntl(ours, F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	*child = (struct child){.spawner = spawner};
	if (spawner) {
		r = spawner_start(spawner, words, environ, its, to, child_started, child, &child->job);
	} else {
		r = spawn_program(words, environ, its, to, &pid);
		if (r >= 0)
			child_started(child, pid);
	}
	if (r < 0)
		return r;
	child->running = true;
	child->fd = TAKE_FD(ours);
	return 0;
}

static void child_listen(struct child *child)
{
	char rest[256];

	for (unsigned i = 0; i < 64; i++) {
		size_t left = sizeof(child->said) - 1 - child->used;
		ssize_t n = read(child->fd, left ? child->said + child->used : rest, left ? left : sizeof(rest));

		if (n <= 0)
			break;
		if (left)
			child->used += (size_t)n;
	}
	child->said[child->used] = 0;
}

static void child_why(const struct child *child, int status, struct child_end *ret)
{
	if (child->error)
		snprintf(ret->why, sizeof(ret->why), "it does not start: %s", strerror(-child->error));
	else if (ret->said[0])
		copy_text(ret->why, sizeof(ret->why), ret->said);
	else if (WIFSIGNALED(status))
		snprintf(ret->why, sizeof(ret->why), "it was ended by a signal: %s", strsignal(WTERMSIG(status)));
	else
		copy_text(ret->why, sizeof(ret->why), "it failed and did not say why");
}

bool child_ended(struct child *child, struct child_end *ret)
{
	struct rusage usage = {0};
	int status = 0;

	if (!child->running || child->job)
		return false;
	child_listen(child);
	if (!child->error) {
		if (!thread_child_ended(child->pid, &status, &usage))
			return false;
		child_listen(child);
	}
	*ret = (struct child_end){.failed = child->error || !WIFEXITED(status) || WEXITSTATUS(status) != 0,
		.cpu_ns = timeval_ns(usage.ru_utime) + timeval_ns(usage.ru_stime)};
	child->said[strcspn(child->said, "\n")] = 0; /* only the first line */
	copy_text(ret->said, sizeof(ret->said), child->said);
	if (ret->failed)
		child_why(child, status, ret);
	close(child->fd);
	*child = (struct child){.running = false};
	return true;
}

void child_kill(struct child *child)
{
	if (child->pid)
		kill(child->pid, SIGKILL);
}

void child_forget(struct child *child)
{
	if (!child->running)
		return;
	if (child->job)
		spawner_cancel(child->spawner, child->job);
	child_kill(child);
	if (child->pid)
		thread_reap(child->pid);
	close(child->fd);
	*child = (struct child){.running = false};
}
