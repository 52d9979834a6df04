/* SPDX-License-Identifier: Apache-2.0 */
/* spawner RATE SECONDS: starts RATE short processes a second (fork and exec of /bin/true), for a bounded time. */
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>

extern char **environ;

int main(int argc, char **argv)
{
	char name[] = "true", *command[] = {name, NULL};
	int rate = argc == 3 ? atoi(argv[1]) : 0, seconds = argc == 3 ? atoi(argv[2]) : 0, started = 0;
	struct timespec next;

	if (rate < 1 || rate > 10000 || seconds < 1 || seconds > 60) {
		fprintf(stderr, "usage: spawner RATE SECONDS\n");
		return 2;
	}
	clock_gettime(CLOCK_MONOTONIC, &next);
	for (int i = 0; i < rate * seconds; i++) {
		pid_t pid;

		started += posix_spawn(&pid, "/bin/true", NULL, NULL, command, environ) == 0;
		next.tv_nsec += 1000000000 / rate;
		if (next.tv_nsec >= 1000000000) {
			next.tv_nsec -= 1000000000;
			next.tv_sec++;
		}
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
	}
	while (waitpid(-1, NULL, 0) > 0)
		;
	printf("%d processes started\n", started);
	return 0;
}
