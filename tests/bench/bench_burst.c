/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_burst: for each line "RATE SECONDS" on stdin makes RATE marks a second (eight a step) for so long, in a burst
 * each millisecond or, where steps are longer, in each, and prints how many it made and the seconds that they took.
 * Pinned to the last allowed CPU. A rate that the CPU cannot make is made as well as it can.
 */
#include <sched.h>

#include "daemon/base/util.h"
#include "tests/bench/stages.h"

#define BURST_NS NSEC_PER_MSEC
#define MARKS_A_STEP 8

static void step(void)
{
	dataloader_begin();
	dataloader_end();
	forward_begin();
	forward_end();
	backward_begin();
	backward_end();
	optimizer_begin();
	optimizer_end();
}

/* For a burst, or longer where the next mark comes later. */
static void burst_wait(uint64_t next_ns, uint64_t *now_ns)
{
	uint64_t wait_ns = next_ns > *now_ns + BURST_NS ? next_ns - *now_ns : BURST_NS;

	nanosleep(&(struct timespec){.tv_sec = (time_t)(wait_ns / NSEC_PER_SEC),
			  .tv_nsec = (long)(wait_ns % NSEC_PER_SEC)},
		NULL);
	*now_ns = monotonic_ns();
}

static void burst(double rate, double seconds)
{
	uint64_t start_ns = monotonic_ns(), end_ns = start_ns + (uint64_t)(seconds * 1e9), now_ns = start_ns, marks = 0;

	while (now_ns < end_ns) {
		uint64_t due = (uint64_t)(rate * (double)(now_ns - start_ns) / 1e9);
		for (int i = 0; marks < due && i < 4096; i++, marks += MARKS_A_STEP)
			step();
		now_ns = monotonic_ns();
		if (marks >= due)
			burst_wait(start_ns + (uint64_t)((double)(marks + 1) * 1e9 / rate), &now_ns);
	}
	printf("%lu %.6f\n", (unsigned long)marks, (double)(now_ns - start_ns) / 1e9);
	fflush(stdout);
}

int main(void)
{
	double rate, seconds;
	cpu_set_t set, one;

	CPU_ZERO(&one);
	if (sched_getaffinity(0, sizeof(set), &set) == 0)
		for (int cpu = CPU_SETSIZE - 1; cpu >= 0 && CPU_COUNT(&one) == 0; cpu--)
			if (CPU_ISSET(cpu, &set))
				CPU_SET(cpu, &one);
	(void)sched_setaffinity(0, sizeof(one), &one);
	while (scanf("%lf %lf", &rate, &seconds) == 2)
		burst(rate, seconds);
	return 0;
}
