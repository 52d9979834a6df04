/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_failslow PAIRS STEPS: what CPU time one step costs failslow_feed(), of jobs that are quiet, restless, slow for
 * good, and slower by so little that it is verified again and again. Prints one sample a line for table.awk.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "analyzers/detect/failslow.h"

#define STEPS_MADE 65536 /* steps made beforehand */
#define BEFORE 300

static const struct {
	const char *name;
	double phi, deviation, slower;
} jobs[] = {
	{"quiet", 0, 0.005, 1},
	{"restless", 0.8, 0.04, 1},
	{"slow for good", 0.5, 0.02, 1.3},
	{"just not slow", 0.5, 0.02, 1.075},
};

static double uniform(void)
{
	static unsigned long long state = 1;

	state = state * 6364136223846793005ULL + 1442695040888963407ULL;
	return ((double)(state >> 11) + 0.5) / 9007199254740992.0;
}

static void make(uint64_t *ns, double phi, double deviation)
{
	double y = 0;

	for (size_t i = 0; i < STEPS_MADE; i++) {
		double own = sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform());

		y = phi * y + sqrt(1 - phi * phi) * own;
		ns[i] = (uint64_t)(1e9 * exp(deviation * y));
	}
}

static double measure(const uint64_t *ns, double slower, size_t steps)
{
	struct failslow *failslow = failslow_new(NULL);
	struct failslow_verdict verdict;
	struct timespec begin, end;

	if (!failslow)
		exit(1);
	for (size_t i = 0; i < BEFORE; i++)
		failslow_feed(failslow, i, i, ns[i], FRAME_TRAIN, &verdict);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
	for (size_t i = 0; i < steps; i++)
		failslow_feed(failslow, i, i, (uint64_t)((double)ns[i % STEPS_MADE] * slower), FRAME_TRAIN, &verdict);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
	failslow_free(failslow);
	return ((double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec)) / (double)steps;
}

int main(int argc, char **argv)
{
	static uint64_t ns[STEPS_MADE];
	long pairs = argc > 1 ? strtol(argv[1], NULL, 10) : 5, steps = argc > 2 ? strtol(argv[2], NULL, 10) : 1000000;

	if (pairs < 1 || steps < 1)
		return 2;
	for (long i = 0; i < pairs; i++) {
		for (size_t k = 0; k < sizeof(jobs) / sizeof(jobs[0]); k++) {
			make(ns, jobs[k].phi, jobs[k].deviation);
			printf("failslow\t%s\tns/step\t%ld\t%.1f\n", jobs[k].name, i,
				measure(ns, jobs[k].slower, (size_t)steps));
		}
	}
	return 0;
}
