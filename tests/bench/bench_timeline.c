/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_timeline DIR PAIRS SECONDS PROGRAM: a store of so many seconds of eight ranks with everything on, in a new
 * folder below DIR, and what the timeline program (libexec/ranktrace/timeline) takes for all of it: time, peak resident
 * memory, bytes written. Prints samples for table.awk; fails where the program fails or takes more than 256 MiB. A
 * second of a rank is 5 steps of 7 stages, 100 collectives with device times, 20 stays off the CPU, 10 memory calls, a
 * sample and a count of launches: about 1,300 rows of eight ranks a second.
 */
#include <ftw.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/store.h"

#define RANKS 8
#define STEPS 5
#define OPS 20 /* a step */
#define KIB_MAX (256L * 1024)

static const int64_t step_ns = 1000000000 / STEPS;

static void put_rank(struct store *store, int64_t rank, uint64_t now_ns)
{
	const struct store_value row[] = {V_INT(rank), V_INT(RANKS), V_INT(rank), V_TEXT("bench"), V_TEXT("node0"),
		V_INT(4000 + rank), V_INT(now_ns), V_TEXT("/usr/bin/python3"), V_TEXT("python3 train.py"), V_NULL,
		V_NULL, V_NULL, V_TEXT("0"), V_TEXT("torchrun"), V_INT(now_ns), V_INT(now_ns), V_INT(0),
		V_INT(rank + 1)};

	(void)store_put(store, TABLE_RANKS, row, ARRAY_SIZE(row));
}

static void put_comm(struct store *store, int64_t rank, uint64_t now_ns)
{
	const struct store_value row[] = {V_TEXT("0x0123456789abcdef"), V_INT(rank), V_INT(rank), V_INT(RANKS),
		V_TEXT("nccl"), V_TEXT("default_pg"), V_TEXT("data"), V_NULL, V_NULL, V_TEXT("init"), V_NULL,
		V_INT(now_ns), V_INT(0), V_INT(rank + 1), V_INT(rank + 1)};

	(void)store_put(store, TABLE_COMMUNICATORS, row, ARRAY_SIZE(row));
}

static void put_stages(struct store *store, int64_t rank, int64_t step, int64_t at)
{
	static const char *const stage[] = {
		"dataloader", "zero_grad", "forward", "backward", "optimizer", "sync", "gc"};
	const struct store_value whole[] = {
		V_INT(rank), V_INT(step), V_INT(at), V_INT(step_ns - 1000), V_TEXT("train"), V_INT(rank + 1)};

	for (int64_t i = 0; i < (int64_t)ARRAY_SIZE(stage); i++) {
		const struct store_value row[] = {V_INT(rank), V_INT(step), V_TEXT(stage[i]),
			V_TEXT("as the framework says"), V_INT(at + i * step_ns / 8), V_INT(step_ns / 9),
			V_INT(4000 + rank), V_INT(0), V_INT(rank + 1)};

		(void)store_put(store, TABLE_STAGES, row, ARRAY_SIZE(row));
	}
	(void)store_put(store, TABLE_STEPS, whole, ARRAY_SIZE(whole));
}

static void put_ops(struct store *store, int64_t rank, int64_t step, int64_t at)
{
	for (int64_t i = 0; i < OPS; i++) {
		int64_t start = at + i * step_ns / (OPS + 1) + rank * 7000;
		const struct store_value row[] = {V_INT(rank), V_INT(step), V_TEXT("0x0123456789abcdef"),
			V_INT((step - 1) * OPS + i + 1), V_TEXT(i % 5 ? "AllReduce" : "AllGather"), V_TEXT("float16"),
			V_INT(1048576), V_INT(2097152), V_INT(start), V_INT(20000), V_INT(start + 50000),
			V_INT(3000000), V_TEXT("device"), V_TEXT("init"), V_NULL, V_NULL, V_INT(0), V_INT(0),
			V_TEXT("nccl"), V_INT(4100 + rank), V_INT(rank + 1), V_INT(rank + 1)};

		(void)store_put(store, TABLE_COLLECTIVES, row, ARRAY_SIZE(row));
	}
}

static void put_host(struct store *store, int64_t rank, int64_t at)
{
	for (int64_t i = 0; i < 20; i++) {
		const struct store_value row[] = {V_INT(rank), V_INT(4000 + rank + i % 3 * 50), V_TEXT("python3"),
			V_INT(at + i * 50000000), V_INT(3000000), V_INT(i % 2 ? 2500000 : 0), V_INT(7000 + i % 5),
			V_TEXT("kworker/3:1"), V_INT(7000 + i % 7), V_TEXT("stress"), V_INT(rank + 1)};

		(void)store_put(store, TABLE_OFFCPU, row, ARRAY_SIZE(row));
	}
	for (int64_t i = 0; i < 10; i++) {
		const struct store_value row[] = {V_INT(rank), V_NULL, V_NULL,
			V_TEXT(i % 2 ? "cudaFree" : "cudaMalloc"), V_INT(140000000000 + rank), V_INT(33554432),
			V_INT(0), V_INT(at + i * 100000000), V_INT(90000), V_NULL, V_INT(4000 + rank), V_INT(rank + 1)};

		(void)store_put(store, TABLE_ALLOCATIONS, row, ARRAY_SIZE(row));
	}
	(void)store_put(store, TABLE_HOST_SAMPLES,
		(const struct store_value[]){V_INT(rank), V_INT(at), V_INT(NSEC_PER_SEC), V_INT(980000000),
			V_INT(1200000), V_INT(0), V_INT(0), V_INT(2000000000 + at % 1000000), V_TEXT("R"),
			V_INT(rank + 1)},
		10);
	(void)store_put(store, TABLE_LAUNCHES,
		(const struct store_value[]){V_INT(rank), V_NULL, V_INT(at + 300000000), V_INT(50000000),
			V_INT(4000 + rank), V_TEXT("cudaLaunchKernel"), V_INT(600), V_INT(900000), V_INT(rank + 1)},
		9);
}

static int make_store(const char *dir, long seconds, int64_t begin)
{
	const struct store_options options = {
		.state_dir = dir,
		.segment_ns = 3600 * NSEC_PER_SEC,
		.events_size_bytes_max = 64ULL << 30,
		.events_age_ns_max = 30 * 86400 * NSEC_PER_SEC,
		.summary_age_ns_max = 30 * 86400 * NSEC_PER_SEC,
		.flush_interval_ns = NSEC_PER_SEC,
	};
	struct store *store;
	int r = store_open(&options, &store);

	if (r < 0)
		return r;
	for (int64_t rank = 0; rank < RANKS; rank++) {
		put_rank(store, rank, (uint64_t)begin);
		put_comm(store, rank, (uint64_t)begin);
	}
	for (int64_t second = 0; second < seconds && r >= 0; second++) {
		int64_t at = begin + second * (int64_t)NSEC_PER_SEC;

		for (int64_t rank = 0; rank < RANKS; rank++) {
			put_host(store, rank, at);
			for (int64_t i = 0; i < STEPS; i++) {
				put_stages(store, rank, second * STEPS + i + 1, at + i * step_ns);
				put_ops(store, rank, second * STEPS + i + 1, at + i * step_ns);
			}
		}
		r = store_flush(store, (uint64_t)at);
	}
	store_close(store);
	return r;
}

/* Runs the program: its peak memory in KiB, or below 0, and the CPU that it had. */
static long run(const char *program, const char *dir, const char *out, bool chrome, double *ret_cpu_s)
{
	struct rusage usage;
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		execl(program, program, "--state-dir", dir, "--since", "400d", "--until", "2100-01-01", "-o", out,
			"--verbose", chrome ? "--chrome" : NULL, NULL);
		_exit(127);
	}
	if (pid < 0 || wait4(pid, &status, 0, &usage) != pid || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
		return -1;
	*ret_cpu_s = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
		     (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
	return usage.ru_maxrss;
}

static uint64_t now_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * NSEC_PER_SEC + (uint64_t)t.tv_nsec;
}

static int measure(const char *program, const char *dir, long pair, bool chrome)
{
	const char *what = chrome ? "Chrome JSON" : "Perfetto";
	char out[PATH_MAX];
	uint64_t start = now_ns(CLOCK_MONOTONIC);
	struct stat st = {0};
	double cpu_s = 0;
	long kib;

	snprintf(out, sizeof(out), "%s/out", dir);
	kib = run(program, dir, out, chrome, &cpu_s);
	if (kib < 0 || stat(out, &st) < 0)
		return -EIO;
	printf("timeline\t%s\ts\t%ld\t%.3f\n", what, pair, (double)(now_ns(CLOCK_MONOTONIC) - start) / 1e9);
	printf("timeline CPU\t%s\ts\t%ld\t%.3f\n", what, pair, cpu_s);
	printf("timeline memory\t%s\tMiB\t%ld\t%.1f\n", what, pair, (double)kib / 1024);
	printf("timeline size\t%s\tMB\t%ld\t%.1f\n", what, pair, (double)st.st_size / 1e6);
	fflush(stdout);
	unlink(out);
	return kib <= KIB_MAX ? 0 : -E2BIG;
}

static int remove_one(const char *path, const struct stat *stat, int type, struct FTW *ftw)
{
	(void)stat;
	(void)type;
	(void)ftw;
	return remove(path);
}

int main(int argc, char **argv)
{
	long pairs = argc == 5 ? strtol(argv[2], NULL, 10) : 0, seconds = pairs > 0 ? strtol(argv[3], NULL, 10) : 0;
	char dir[PATH_MAX - 16];
	int64_t begin;
	int r;

	if (pairs <= 0 || seconds <= 0) {
		fprintf(stderr, "usage: bench_timeline DIR PAIRS SECONDS PROGRAM\n");
		return 2;
	}
	snprintf(dir, sizeof(dir), "%s/ranktrace-timeline-XXXXXX", argv[1]);
	if (!mkdtemp(dir)) {
		perror(dir);
		return 1;
	}
	begin = (int64_t)now_ns(CLOCK_REALTIME) - seconds * (int64_t)NSEC_PER_SEC;
	r = make_store(dir, seconds, begin);
	for (long pair = 1; pair <= pairs && r >= 0; pair++) {
		r = measure(argv[4], dir, pair, false);
		if (r >= 0)
			r = measure(argv[4], dir, pair, true);
	}
	if (r < 0)
		fprintf(stderr, "bench_timeline: %s\n", r == -E2BIG ? "more than 256 MiB of memory" : strerror(-r));
	if (!getenv("RANKTRACE_BENCH_KEEP"))
		nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	return r < 0;
}
