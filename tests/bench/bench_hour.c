/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_hour DIR PAIRS SECONDS PROGRAMS...: a store of so many seconds of eight ranks with everything on, in a new
 * folder below DIR, and what the timeline and the report of all of it take, of the programs in each folder
 * (libexec/ranktrace of one build, or of several that are compared): CPU, time, peak resident memory, bytes written.
 * Prints samples for table.awk; fails where a program fails or takes more than 256 MiB. A second of a rank is 5 steps
 * of 7 stages, 100 collectives with device times, 20 off-CPU intervals, 10 memory calls, a sample and a count of
 * launches: about 1,300 rows of eight ranks a second. Six findings last all the time: two each of what the report draws
 * from stages, operations and samples.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench_common.h"

#define RANKS 8
#define STEPS 5
#define OPS 20 /* a step */
#define MIB_MAX 256
#define PROGRAMS_MAX 4
#define COMM "0123456789abcdef"

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
	const struct store_value row[] = {V_TEXT(COMM), V_INT(rank), V_INT(rank), V_INT(RANKS), V_TEXT("nccl"),
		V_TEXT("default_pg"), V_TEXT("data"), V_NULL, V_NULL, V_TEXT("init"), V_NULL, V_INT(now_ns), V_INT(0),
		V_INT(rank + 1), V_INT(rank + 1)};

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
		const struct store_value row[] = {V_INT(rank), V_INT(step), V_TEXT(COMM),
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

/* Each is drawn from one more table that the report reads. */
static void put_findings(struct store *store, int64_t begin, int64_t end)
{
	static const struct {
		const char *kind, *cause, *tier, *communicator, *evidence;
	} findings[] = {
		{"slow_rank", "dataloader", "stages", NULL,
			"[{\"name\":\"dataloader\",\"unit\":\"ns\",\"value\":90,\"peers\":20,\"detail\":\"\"}]"},
		{"slow_communication", "network", "device", COMM,
			"[{\"name\":\"transfer\",\"unit\":\"ns\",\"value\":90,\"peers\":20,\"detail\":\"\"}]"},
		{"slow_rank", "preemption", "host", NULL,
			"[{\"name\":\"run_delay\",\"unit\":\"ns\",\"value\":90,\"peers\":20,\"detail\":\"\"}]"},
	};

	for (int64_t i = 0; i < 2 * (int64_t)ARRAY_SIZE(findings); i++) {
		size_t kind = (size_t)i / 2;
		const char *communicator = findings[kind].communicator;
		const struct store_value row[] = {V_TEXT(findings[kind].kind), V_TEXT(findings[kind].cause),
			V_TEXT("closed"), V_TEXT("critical"), V_REAL(0.9), V_TEXT(findings[kind].tier), V_TEXT("bench"),
			communicator ? V_NULL : V_INT(i), V_TEXT("node0"), V_TEXT("0"),
			communicator ? V_TEXT(communicator) : V_NULL, V_NULL, V_NULL, V_INT(begin), V_INT(begin),
			V_INT(end), V_REAL(1.5), V_REAL(1), V_NULL, V_TEXT(findings[kind].evidence), V_TEXT("slow"),
			V_INT(i + 1)};

		(void)store_put(store, TABLE_FINDINGS, row, ARRAY_SIZE(row));
	}
}

static int make_store(const char *dir, long seconds, int64_t begin)
{
	struct store *store;
	int r = bench_store_open(dir, &store);

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
	put_findings(store, begin, begin + seconds * (int64_t)NSEC_PER_SEC);
	if (r >= 0)
		r = store_flush(store, (uint64_t)(begin + seconds * (int64_t)NSEC_PER_SEC));
	store_close(store);
	return r;
}

static const struct tool {
	const char *program, *what, *format, *since, *until;
} tools[] = {
	{"timeline", "Perfetto", "--verbose", "400d", "2100-01-01"},
	{"timeline", "Chrome JSON", "--chrome", "400d", "2100-01-01"},
	{"report", "HTML", "--html", "24h", "0s"},
};

static int measure(const struct tool *tool, const char *dir, const char *folder, int which, long pair)
{
	char program[PATH_MAX], out[PATH_MAX], number[32] = "", format[16];
	const char *const argv[] = {
		program, "--state-dir", dir, "--since", tool->since, "--until", tool->until, "-o", out, format, NULL};
	uint64_t start_ns = monotonic_ns();
	struct bench_usage usage;
	struct stat st;

	(void)snprintf(program, sizeof(program), "%s/%s", folder, tool->program);
	(void)snprintf(out, sizeof(out), "%s/out", dir);
	(void)snprintf(format, sizeof(format), "%s", tool->format);
	if (which)
		(void)snprintf(number, sizeof(number), ", program %d", which + 1);
	if (bench_run(argv, &usage) < 0 || stat(out, &st) < 0)
		return -EIO;
	printf("%s, %s\tCPU%s\ts\t%ld\t%.3f\n", tool->program, tool->what, number, pair, usage.cpu_s);
	printf("%s, %s, clock\tall%s\ts\t%ld\t%.3f\n", tool->program, tool->what, number, pair,
		(double)(monotonic_ns() - start_ns) / 1e9);
	printf("%s, %s, memory\tpeak%s\tMiB\t%ld\t%.1f\n", tool->program, tool->what, number, pair, usage.mib);
	printf("%s, %s, file\tsize%s\tMB\t%ld\t%.3f\n", tool->program, tool->what, number, pair,
		(double)st.st_size / 1e6);
	fflush(stdout);
	unlink(out);
	return usage.mib <= MIB_MAX ? 0 : -E2BIG;
}

int main(int argc, char **argv)
{
	long pairs = argc > 4 && argc <= 4 + PROGRAMS_MAX ? strtol(argv[2], NULL, 10) : 0;
	long seconds = pairs > 0 ? strtol(argv[3], NULL, 10) : 0;
	char dir[BENCH_FOLDER_BYTES];
	int r;

	if (pairs <= 0 || seconds <= 0) {
		fprintf(stderr, "usage: bench_hour DIR PAIRS SECONDS PROGRAMS...\n");
		return 2;
	}
	r = bench_folder_new(argv[1], "ranktrace-hour", dir);
	if (r == 0) {
		r = make_store(dir, seconds, (int64_t)realtime_ns() - seconds * (int64_t)NSEC_PER_SEC);
		for (long pair = 1; pair <= pairs && r >= 0; pair++)
			for (size_t i = 0; i < ARRAY_SIZE(tools) && r >= 0; i++)
				for (int which = 0; which < argc - 4 && r >= 0; which++)
					r = measure(&tools[i], dir, argv[4 + which], which, pair);
		bench_folder_remove(dir);
	}
	if (r < 0)
		fprintf(stderr, "bench_hour: %s\n", r == -E2BIG ? "more than 256 MiB of memory" : strerror(-r));
	return r < 0;
}
