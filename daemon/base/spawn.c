/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/base/spawn.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <unistd.h>

int spawn_program(char *const *argv, char *const *environment, int fd, int to, pid_t *ret)
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
	for (int standard = STDIN_FILENO; standard <= STDERR_FILENO && !r; standard++)
		r = posix_spawn_file_actions_addopen(&actions, standard, "/dev/null", O_RDWR, 0);
	if (!r)
		r = posix_spawn_file_actions_adddup2(&actions, fd, to);
	if (!r)
		r = posix_spawnattr_setsigmask(&attributes, &none);
	if (!r)
		r = posix_spawnattr_setsigdefault(&attributes, &piped);
	if (!r)
		r = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	if (!r)
		r = posix_spawn(ret, argv[0], &actions, &attributes, argv, environment);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&actions);
	return -r;
}
