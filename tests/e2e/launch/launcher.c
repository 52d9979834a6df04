/* SPDX-License-Identifier: Apache-2.0 */
/*
 * launcher LAUNCHES PAUSE_MS: repeats LAUNCHES launches and a pause of PAUSE_MS until SIGTERM; then prints the number
 * of launches and the elapsed nanoseconds.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

extern int cudaLaunchKernel(unsigned kernel);
extern int launch_rank;

static volatile sig_atomic_t ended;

static void on_end(int number)
{
	ended = 1;
}

static long long now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

int main(int argc, char **argv)
{
	long launches = argc == 3 ? atol(argv[1]) : -1, pause_ms = argc == 3 ? atol(argv[2]) : 0;
	long long start_ns = now_ns(), made = 0;

	if (launches < 0 || pause_ms <= 0 || pause_ms >= 1000 || !launch_rank) {
		fprintf(stderr, "usage: launcher LAUNCHES PAUSE_MS\n");
		return 2;
	}
	signal(SIGTERM, on_end);
	while (!ended) {
		for (long i = 0; i < launches; i++)
			made += cudaLaunchKernel((unsigned)i) == 0;
		nanosleep(&(struct timespec){.tv_nsec = pause_ms * 1000000}, NULL);
	}
	printf("%lld %lld\n", made, now_ns() - start_ns);
	return 0;
}
