/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank whose allocator reports blocks without end, through PyTorch's own function: bench_memory BYTES prints the time
 * of each round and ns a report. bench_memory KIND LIBRARY: one that makes asynchronous copies of a cudaMemcpyKind by
 * that libcudart. memory.sh turns L2 on and off meanwhile.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define HITS 300 /* of a round: a step's worth, twice */
#define PAUSE_US 3000

typedef void (*report_fn)(void *address, int64_t bytes, int64_t allocated, int64_t reserved, uint16_t device);

typedef int (*copy_fn)(void *to, const void *from, size_t size, int kind, void *stream);

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static void make_reports(report_fn report, int64_t bytes)
{
	static int64_t allocated;

	for (uintptr_t i = 1; i <= HITS / 2; i++)
		report((void *)(i << 20), bytes, allocated += bytes, 1 << 30, 1);
	for (uintptr_t i = 1; i <= HITS / 2; i++)
		report((void *)(i << 20), -bytes, allocated -= bytes, 1 << 30, 1);
}

static void make_copies(copy_fn copy, int kind)
{
	for (uintptr_t i = 1; i <= HITS; i++)
		(void)copy((void *)(i << 20), (void *)(i << 21), 4096, kind, NULL);
}

int main(int argc, char **argv)
{
	int64_t number = argc > 1 ? atoll(argv[1]) : 512;
	/* Its name makes it a rank. */
	void *torch = dlopen("libtorch_cpu.so.1.13", RTLD_NOW | RTLD_GLOBAL),
	     *runtime = argc > 2 ? dlopen(argv[2], RTLD_NOW) : NULL;
	report_fn report =
		torch ? (report_fn)dlsym(torch, "_ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE") : NULL;
	copy_fn copy = runtime ? (copy_fn)dlsym(runtime, "cudaMemcpyAsync") : NULL;

	if (!report || (argc > 2 && !copy)) {
		puts("skipped: no PyTorch 1.13 or no such library here");
		return 77;
	}
	while (getppid() != 1) {
		uint64_t begin_ns = now_ns();

		if (copy)
			make_copies(copy, (int)number);
		else
			make_reports(report, number);
		printf("%.6f %.1f\n", (double)begin_ns / 1e9, (double)(now_ns() - begin_ns) / HITS);
		fflush(stdout);
		usleep(PAUSE_US);
	}
	return 0;
}
