/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank whose allocator reports blocks without end, through PyTorch's own function: bench_memory BYTES prints the time of
 * each round and ns a report. memory.sh turns L2 on and off meanwhile.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define REPORTS 300 /* of a round: a step's worth, twice */
#define PAUSE_US 3000

typedef void (*report_fn)(void *address, int64_t bytes, int64_t allocated, int64_t reserved, uint16_t device);

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

int main(int argc, char **argv)
{
	int64_t bytes = argc > 1 ? atoll(argv[1]) : 512, allocated = 0;
	/* Its name makes it a rank. */
	void *torch = dlopen("libtorch_cpu.so.1.13", RTLD_NOW | RTLD_GLOBAL);
	report_fn report = torch ? (report_fn)dlsym(torch, "_ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE") : NULL;

	if (!report) {
		puts("skipped: no PyTorch 1.13 here");
		return 77;
	}
	while (getppid() != 1) {
		uint64_t begin_ns = now_ns();

		for (uintptr_t i = 1; i <= REPORTS / 2; i++)
			report((void *)(i << 20), bytes, allocated += bytes, 1 << 30, 1);
		for (uintptr_t i = 1; i <= REPORTS / 2; i++)
			report((void *)(i << 20), -bytes, allocated -= bytes, 1 << 30, 1);
		printf("%.6f %.1f\n", (double)begin_ns / 1e9, (double)(now_ns() - begin_ns) / REPORTS);
		fflush(stdout);
		usleep(PAUSE_US);
	}
	return 0;
}
