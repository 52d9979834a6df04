/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preemptor CORE SECONDS: computes on one CPU under the name "rt-preemptor", for tests of CPU contention. Bounded in
 * time; ends with its parent.
 */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

#define SECONDS_MAX 300

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	volatile unsigned long spins = 0;
	double end;
	cpu_set_t set;
	int core;

	if (argc != 3 || atof(argv[2]) <= 0 || atof(argv[2]) > SECONDS_MAX) {
		fprintf(stderr, "usage: preemptor CORE SECONDS (at most %d)\n", SECONDS_MAX);
		return 2;
	}
	core = atoi(argv[1]);
	CPU_ZERO(&set);
	if (core >= 0 && core < CPU_SETSIZE)
		CPU_SET(core, &set);
	if (sched_setaffinity(0, sizeof(set), &set) < 0) {
		perror("preemptor: cannot run on that core");
		return 1;
	}
	prctl(PR_SET_NAME, "rt-preemptor");
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	for (end = now() + atof(argv[2]); now() < end;) {
		for (int i = 0; i < 100000; i++)
			spins++;
	}
	return 0;
}
