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
	const struct row_ranks row = {.rank = field_int(rank),
		.world_size = field_int(RANKS),
		.local_rank = field_int(rank),
		.job = field_text("bench"),
		.host = field_text("node0"),
		.pid = field_int(4000 + rank),
		.start_time_ns = field_time(now_ns),
		.exe = field_text("/usr/bin/python3"),
		.command = field_text("python3 train.py"),
		.card = field_text("0"),
		.source = field_text("torchrun"),
		.first_seen_ns = field_time(now_ns),
		.last_seen_ns = field_time(now_ns),
		.ended = field_int(0),
		.instance = field_int(rank + 1)};

	store_put_ranks(store, &row);
}

static void put_comm(struct store *store, int64_t rank, uint64_t now_ns)
{
	const struct row_communicators row = {.communicator = field_text(COMM),
		.rank = field_int(rank),
		.member = field_int(rank),
		.members = field_int(RANKS),
		.family = field_text("nccl"),
		.name = field_text("default_pg"),
		.kind = field_text("data"),
		.source = field_text("init"),
		.first_seen_ns = field_time(now_ns),
		.freed = field_int(0),
		.instance = field_int(rank + 1),
		.communicator_key = field_int(rank + 1)};

	store_put_communicators(store, &row);
}

static void put_stages(struct store *store, int64_t rank, int64_t step, int64_t at)
{
	static const char *const stage[] = {
		"dataloader", "zero_grad", "forward", "backward", "optimizer", "sync", "gc"};
	const struct row_steps whole = {.rank = field_int(rank),
		.step = field_int(step),
		.start_ns = field_time(at),
		.duration_ns = field_duration(step_ns - 1000),
		.kind = field_text("train"),
		.instance = field_int(rank + 1)};

	for (int64_t i = 0; i < (int64_t)ARRAY_SIZE(stage); i++) {
		const struct row_stages row = {.rank = field_int(rank),
			.step = field_int(step),
			.stage = field_text(stage[i]),
			.name = field_text("as the framework says"),
			.start_ns = field_time(at + i * step_ns / 8),
			.duration_ns = field_duration(step_ns / 9),
			.thread_id = field_int(4000 + rank),
			.depth = field_int(0),
			.instance = field_int(rank + 1)};

		store_put_stages(store, &row);
	}
	store_put_steps(store, &whole);
}

static void put_ops(struct store *store, int64_t rank, int64_t step, int64_t at)
{
	for (int64_t i = 0; i < OPS; i++) {
		int64_t start = at + i * step_ns / (OPS + 1) + rank * 7000;
		const struct row_collectives row = {.rank = field_int(rank),
			.step = field_int(step),
			.communicator = field_text(COMM),
			.seq = field_int((step - 1) * OPS + i + 1),
			.op = field_text(i % 5 ? "AllReduce" : "AllGather"),
			.dtype = field_text("float16"),
			.count = field_int(1048576),
			.bytes = field_int(2097152),
			.host_start_ns = field_time(start),
			.host_duration_ns = field_duration(20000),
			.device_start_ns = field_time(start + 50000),
			.device_duration_ns = field_duration(3000000),
			.tier = field_text("device"),
			.seq_from = field_text("init"),
			.captured = field_int(0),
			.result = field_int(0),
			.family = field_text("nccl"),
			.thread_id = field_int(4100 + rank),
			.instance = field_int(rank + 1),
			.communicator_key = field_int(rank + 1)};

		store_put_collectives(store, &row);
	}
}

static void put_host(struct store *store, int64_t rank, int64_t at)
{
	for (int64_t i = 0; i < 20; i++) {
		const struct row_offcpu row = {.rank = field_int(rank),
			.thread_id = field_int(4000 + rank + i % 3 * 50),
			.thread_name = field_text("python3"),
			.start_ns = field_time(at + i * 50000000),
			.duration_ns = field_duration(3000000),
			.run_delay_ns = field_duration(i % 2 ? 2500000 : 0),
			.next_pid = field_int(7000 + i % 5),
			.next_name = field_text("kworker/3:1"),
			.previous_pid = field_int(7000 + i % 7),
			.previous_name = field_text("stress"),
			.instance = field_int(rank + 1)};

		store_put_offcpu(store, &row);
	}
	for (int64_t i = 0; i < 10; i++) {
		const struct row_allocations row = {.rank = field_int(rank),
			.op = field_text(i % 2 ? "cudaFree" : "cudaMalloc"),
			.address = field_int(140000000000 + rank),
			.bytes = field_int(33554432),
			.result = field_int(0),
			.start_ns = field_time(at + i * 100000000),
			.duration_ns = field_duration(90000),
			.thread_id = field_int(4000 + rank),
			.instance = field_int(rank + 1)};

		store_put_allocations(store, &row);
	}
	store_put_host_samples(store, &(struct row_host_samples){.rank = field_int(rank),
					      .start_ns = field_time(at),
					      .duration_ns = field_duration(NSEC_PER_SEC),
					      .cpu_ns = field_duration(980000000),
					      .run_delay_ns = field_duration(1200000),
					      .throttled_ns = field_duration(0),
					      .major_faults = field_int(0),
					      .resident_bytes = field_int(2000000000 + at % 1000000),
					      .state = field_text("R"),
					      .instance = field_int(rank + 1)});
	store_put_launches(store, &(struct row_launches){.rank = field_int(rank),
					  .start_ns = field_time(at + 300000000),
					  .duration_ns = field_duration(50000000),
					  .thread_id = field_int(4000 + rank),
					  .api = field_text("cudaLaunchKernel"),
					  .count = field_int(600),
					  .longest_gap_ns = field_duration(900000),
					  .instance = field_int(rank + 1)});
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
		const struct row_findings row = {.kind = field_text(findings[kind].kind),
			.cause = field_text(findings[kind].cause),
			.state = field_text("closed"),
			.severity = field_text("critical"),
			.confidence = field_real(0.9),
			.tier = field_text(findings[kind].tier),
			.job = field_text("bench"),
			.rank = field_int_if(!communicator, i),
			.host = field_text("node0"),
			.card = field_text("0"),
			.communicator = field_text(communicator ? communicator : NULL),
			.since_ns = field_time(begin),
			.noticed_ns = field_time(begin),
			.until_ns = field_time(end),
			.slowdown = field_real(1.5),
			.cost_card_hours = field_real(1),
			.evidence = field_text(findings[kind].evidence),
			.sentence = field_text("slow"),
			.finding = field_int(i + 1)};

		store_put_findings(store, &row);
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
