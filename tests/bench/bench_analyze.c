/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_analyze DIR PAIRS RANKS STEPS PROGRAM...: stores of a job of so many ranks of a node and so many steps, each of
 * five stages and 64 collectives, with a sample a second, in a new folder below DIR; and what analyze takes for all of
 * it (libexec/ranktrace/analyze, of one build or of several that are compared): CPU time by stored operation, and peak
 * memory. "By turns": rows of an operation lie together, of all ranks, as they come from the host; "by steps": those of
 * a rank's step, as they come from devices. Prints samples for table.awk; fails where a program does.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "bench_common.h"

#define OPS 64
#define PROGRAMS_MAX 4
#define US 1000LL

static const int64_t step_ns = 1000000 * US;

enum order { BY_TURNS, BY_STEPS, ORDERS };

static const char *const order_name[ORDERS] = {[BY_TURNS] = "by turns", [BY_STEPS] = "by steps"};

struct job {
	struct store *store;
	int64_t ranks, steps, begin;
	enum order order;
};

static int64_t late_of(int64_t a, int64_t b, int64_t c)
{
	uint64_t x = (uint64_t)a * 0x9e3779b97f4a7c15ULL ^ (uint64_t)b * 0xc2b2ae3d27d4eb4fULL ^
		     (uint64_t)c * 0x165667b19e3779f9ULL;

	x = (x ^ x >> 32) * 0xd6e8feb86659fd93ULL;
	return (int64_t)((x ^ x >> 32) % (uint64_t)(100 * US));
}

static void put_rank(const struct job *job, int64_t rank, int64_t seen_ns, bool ended)
{
	const struct row_ranks row = {.rank = field_int(rank),
		.world_size = field_int(job->ranks),
		.local_rank = field_int(rank),
		.job = field_text("bench"),
		.host = field_text("node0"),
		.pid = field_int(4000 + rank),
		.start_time_ns = field_time(job->begin - NSEC_PER_SEC),
		.exe = field_text("/usr/bin/python3"),
		.command = field_text("python3 train.py"),
		.card = field_text("0"),
		.source = field_text("torchrun"),
		.first_seen_ns = field_time(job->begin - NSEC_PER_SEC),
		.last_seen_ns = field_time(seen_ns),
		.ended = field_int(ended),
		.instance = field_int(rank + 1)};

	store_put_ranks(job->store, &row);
}

/* Odd operations are of all ranks, even ones of eight. */
static const char *name_of(int64_t rank, int64_t op, char ret[20])
{
	(void)snprintf(ret, 20, "%016llx", (unsigned long long)(op % 2 ? 1 : 2 + rank / 8) * 0x9e3779b97f4a7c15ULL);
	return ret;
}

static void put_comms(const struct job *job, int64_t rank)
{
	for (int64_t i = 0; i < 2; i++) {
		char name[20];
		const struct row_communicators row = {.communicator = field_text(name_of(rank, i, name)),
			.rank = field_int(rank),
			.member = field_int(i ? rank : rank % 8),
			.members = field_int(i ? job->ranks : 8),
			.family = field_text("nccl"),
			.name = field_text("default_pg"),
			.kind = field_text(i ? "data" : "tensor"),
			.source = field_text("init"),
			.first_seen_ns = field_time(job->begin),
			.freed = field_int(0),
			.instance = field_int(rank + 1),
			.communicator_key = field_int(2 * rank + i + 1)};

		store_put_communicators(job->store, &row);
	}
}

static void put_op(const struct job *job, int64_t rank, int64_t step, int64_t i)
{
	int64_t late = late_of(rank, step, i), start = job->begin + step * step_ns + 10000 * US + i * 14500 * US + late;
	char name[20];
	const struct row_collectives row = {.rank = field_int(rank),
		.step = field_int(step),
		.communicator = field_text(name_of(rank, i, name)),
		.seq = field_int((step - 1) * OPS / 2 + i / 2 + 1),
		.op = field_text(i % 2 ? "AllReduce" : "ReduceScatter"),
		.dtype = field_text("float16"),
		.count = field_int(524288),
		.bytes = field_int(1048576),
		.host_start_ns = field_time(start - 50 * US),
		.host_duration_ns = field_duration(20 * US),
		.device_start_ns = field_time(start),
		.device_duration_ns = field_duration(300 * US - late),
		.tier = field_text("device"),
		.seq_from = field_text("marker"),
		.captured = field_int(0),
		.result = field_int(0),
		.family = field_text("nccl"),
		.thread_id = field_int(4100 + rank),
		.instance = field_int(rank + 1),
		.communicator_key = field_int(2 * rank + i % 2 + 1)};

	store_put_collectives(job->store, &row);
}

static void put_ops(const struct job *job, int64_t step)
{
	for (int64_t i = 0; i < OPS * job->ranks; i++)
		if (job->order == BY_STEPS)
			put_op(job, i / OPS, step, i % OPS);
		else
			put_op(job, i % job->ranks, step, i / job->ranks);
}

static void put_step(const struct job *job, int64_t rank, int64_t step)
{
	static const char *const stage[] = {"dataloader", "forward", "backward", "sync", "optimizer"};
	static const int64_t length_us[] = {10000, 250000, 600000, 50000, 50000};
	int64_t at = job->begin + step * step_ns;
	const struct row_steps whole = {.rank = field_int(rank),
		.step = field_int(step),
		.start_ns = field_time(at),
		.duration_ns = field_duration(step_ns - US),
		.kind = field_text("train"),
		.instance = field_int(rank + 1)};

	for (size_t i = 0; i < ARRAY_SIZE(stage); i++) {
		const struct row_stages row = {.rank = field_int(rank),
			.step = field_int(step),
			.stage = field_text(stage[i]),
			.name = field_text("as the framework says"),
			.start_ns = field_time(at),
			.duration_ns = field_duration(length_us[i] * US),
			.thread_id = field_int(4000 + rank),
			.depth = field_int(0),
			.instance = field_int(rank + 1)};

		store_put_stages(job->store, &row);
		at += length_us[i] * US;
	}
	store_put_steps(job->store, &whole);
}

static void put_sample(const struct job *job, int64_t rank, int64_t at)
{
	const struct row_host_samples row = {.rank = field_int(rank),
		.start_ns = field_time(at),
		.duration_ns = field_duration(NSEC_PER_SEC),
		.cpu_ns = field_duration(980000000),
		.run_delay_ns = field_duration(1200000),
		.throttled_ns = field_duration(0),
		.major_faults = field_int(0),
		.resident_bytes = field_int(2000000000),
		.state = field_text("R"),
		.instance = field_int(rank + 1)};

	store_put_host_samples(job->store, &row);
}

static int put_job(const struct job *job)
{
	int64_t end = job->begin + (job->steps + 1) * step_ns;
	int r = 0;

	for (int64_t rank = 0; rank < job->ranks; rank++) {
		put_rank(job, rank, job->begin, false);
		put_comms(job, rank);
	}
	for (int64_t step = 1; step <= job->steps && r >= 0; step++) {
		int64_t at = job->begin + step * step_ns;

		put_ops(job, step);
		for (int64_t rank = 0; rank < job->ranks; rank++) {
			put_step(job, rank, step);
			put_sample(job, rank, at);
		}
		r = store_flush(job->store, (uint64_t)(at + step_ns));
	}
	for (int64_t rank = 0; rank < job->ranks; rank++)
		put_rank(job, rank, end, true);
	return r;
}

static int make_store(const char *dir, struct job *job)
{
	int r = bench_store_open(dir, &job->store);

	if (r < 0)
		return r;
	r = put_job(job);
	store_close(job->store);
	return r;
}

/* Of several programs, which. */
static int measure(const struct job *job, const char *dir, long pair, int which, const char *program)
{
	const char *const argv[] = {program, "--dir", dir, "--json", NULL};
	const char *order = order_name[job->order];
	struct bench_usage usage;
	char number[32] = "";

	if (bench_run(argv, &usage) < 0)
		return -EIO;
	if (which)
		(void)snprintf(number, sizeof(number), ", program %d", which + 1);
	printf("analyze, %s\tCPU%s\tns/op\t%ld\t%.1f\n", order, number, pair,
		usage.cpu_s * 1e9 / (double)(job->ranks * job->steps * OPS));
	printf("analyze, %s, memory\tpeak%s\tMiB\t%ld\t%.1f\n", order, number, pair, usage.mib);
	fflush(stdout);
	return 0;
}

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * (int64_t)NSEC_PER_SEC + now.tv_nsec;
}

static int measure_order(const char *below, struct job *job, long pairs, char **programs, int count)
{
	char dir[BENCH_FOLDER_BYTES];
	int r = bench_folder_new(below, "ranktrace-analyze", dir);

	if (r < 0)
		return r;
	r = make_store(dir, job);
	for (long pair = 1; pair <= pairs && r >= 0; pair++)
		for (int i = 0; i < count && r >= 0; i++)
			r = measure(job, dir, pair, i, programs[i]);
	bench_folder_remove(dir);
	return r;
}

int main(int argc, char **argv)
{
	long pairs = argc > 5 && argc <= 5 + PROGRAMS_MAX ? strtol(argv[2], NULL, 10) : 0;
	struct job job = {0};
	int r = 0;

	if (pairs > 0) {
		job.ranks = strtol(argv[3], NULL, 10);
		job.steps = strtol(argv[4], NULL, 10);
	}
	if (job.ranks <= 0 || job.steps <= 0) {
		fprintf(stderr, "usage: bench_analyze DIR PAIRS RANKS STEPS PROGRAM...\n");
		return 2;
	}
	job.begin = now_ns() - (job.steps + 2) * step_ns;
	for (job.order = 0; job.order < ORDERS && r >= 0; job.order++)
		r = measure_order(argv[1], &job, pairs, argv + 5, argc - 5);
	if (r < 0)
		fprintf(stderr, "bench_analyze: %s\n", strerror(-r));
	return r < 0;
}
