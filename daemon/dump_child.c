/* SPDX-License-Identifier: Apache-2.0 */
/* See dump_child.h. */
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include "daemon/dump_child.h"

void dump_child_program(const char *name, char *ret, size_t size)
{
	const char *set = getenv("RANKTRACE_LIBEXEC");
	char self[PATH_MAX];
	ssize_t n;

	if (set && *set) {
		snprintf(ret, size, "%s/%s", set, name);
		return;
	}
	n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	self[n > 0 ? n : 0] = 0;
	if (strrchr(self, '/')) {
		*strrchr(self, '/') = 0;
		if ((size_t)snprintf(ret, size, "%s/../libexec/ranktrace/%s", self, name) < size &&
			access(ret, X_OK) == 0)
			return;
	}
	snprintf(ret, size, "%s/%s", RANKTRACE_LIBEXECDIR, name);
}

/* Its stdin and stdout are nothing, its stderr is our pipe, and signals are as in a new process. */
static int spawn(char *const *argv, int said_fd, pid_t *ret)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t none, piped;
	int r;

	sigemptyset(&none);
	sigemptyset(&piped);
	sigaddset(&piped, SIGPIPE);
	r = posix_spawn_file_actions_init(&actions);
	if (r)
		return -r;
	r = posix_spawnattr_init(&attributes);
	if (r) {
		posix_spawn_file_actions_destroy(&actions);
		return -r;
	}
	r = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	if (!r)
		r = posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	if (!r)
		r = posix_spawn_file_actions_adddup2(&actions, said_fd, STDERR_FILENO);
	if (!r)
		r = posix_spawnattr_setsigmask(&attributes, &none);
	if (!r)
		r = posix_spawnattr_setsigdefault(&attributes, &piped);
	if (!r)
		r = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	if (!r)
		r = posix_spawn(ret, argv[0], &actions, &attributes, argv, environ);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&actions);
	return -r;
}

int dump_child_start(struct dump_child *child, const char *const *argv)
{
	_cleanup_close_ int ours = -1, its = -1;
	int ends[2], r;

	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
		return -errno;
	ours = ends[0];
	its = ends[1];
	*child = (struct dump_child){.said_fd = -1};
	r = spawn((char *const *)argv, its, &child->pid); /* which changes none of it */
	if (r < 0) {
		child->pid = 0;
		return r;
	}
	child->said_fd = TAKE_FD(ours);
	return 0;
}

/* What does not fit is read and forgotten, so that it never waits for us. */
static void listen_to(struct dump_child *child)
{
	char rest[256];

	for (unsigned i = 0; i < 64; i++) {
		size_t capacity = sizeof(child->said) - 1 - child->said_used;
		ssize_t n =
			read(child->said_fd, capacity ? child->said + child->said_used : rest, capacity ? capacity : sizeof(rest));

		if (n <= 0)
			break;
		if (capacity)
			child->said_used += (size_t)n;
	}
	child->said[child->said_used] = 0;
}

static uint64_t dump_child_timeval_ns(struct timeval t)
{
	return (uint64_t)t.tv_sec * NSEC_PER_SEC + (uint64_t)t.tv_usec * NSEC_PER_USEC;
}

bool dump_child_ended(struct dump_child *child, struct dump_end *ret)
{
	struct rusage usage = {0};
	int status = 0;
	pid_t pid;

	if (!child->pid)
		return false;
	listen_to(child);
	pid = wait4(child->pid, &status, WNOHANG, &usage);
	if (pid == 0 || (pid < 0 && errno == EINTR))
		return false;
	listen_to(child);
	close(child->said_fd);
	*ret = (struct dump_end){.failed = pid < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0,
		.cpu_ns = dump_child_timeval_ns(usage.ru_utime) + dump_child_timeval_ns(usage.ru_stime)};
	child->said[strcspn(child->said, "\n")] = 0; /* the first sentence says it */
	copy_text(ret->why, sizeof(ret->why), child->said);
	if (ret->failed && !ret->why[0] && WIFSIGNALED(status))
		snprintf(ret->why, sizeof(ret->why), "it was ended by a signal: %s", strsignal(WTERMSIG(status)));
	else if (ret->failed && !ret->why[0])
		copy_text(ret->why, sizeof(ret->why), "it failed and did not say why");
	*child = (struct dump_child){.said_fd = -1};
	return true;
}

void dump_child_kill(struct dump_child *child)
{
	if (!child->pid)
		return;
	kill(child->pid, SIGKILL);
	while (waitpid(child->pid, NULL, 0) < 0 && errno == EINTR)
		;
	close(child->said_fd);
	*child = (struct dump_child){.said_fd = -1};
}
