/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the aligner costs an event and how much memory it takes. bench_framer RANKS STEPS OPS [LATE]: steps of 2 ms with
 * six stages and OPS operations each, in the order of time; operations and host samples come LATE steps after their
 * step.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include "analyzers/align/align.h"

#define US 1000ULL
#define START (1000000000ULL * 1000)

static uint64_t frames, ops, here, events;

static void on_frame(void *arg, uint32_t job, const struct frame *frame)
{
	(void)arg;
	(void)job;
	frames++;
	ops += frame->ops;
	for (size_t i = 0; i < frame->ranks; i++)
		here += frame->rank[i].here;
}

static void feed_stages(struct align *align, int process, int64_t step, uint64_t from)
{
	static const enum stage_kind kinds[] = {
		STAGE_DATALOADER, STAGE_ZERO_GRAD, STAGE_FORWARD, STAGE_BACKWARD, STAGE_SYNC, STAGE_OPTIMIZER};

	for (unsigned i = 0; i < 6; i++)
		align_stage(
			align, process, &(struct align_stage){step, kinds[i], from + i * 300 * US, 250 * US, 7, 0});
	align_step(align, process, &(struct align_step){step, from, 2000 * US});
	events += 7;
}

static void feed_ops(struct align *align, int process, unsigned rank, int64_t step, unsigned count, uint64_t from)
{
	char communicator[2][20];

	snprintf(communicator[0], sizeof(communicator[0]), "%016x", rank % 8);
	snprintf(communicator[1], sizeof(communicator[1]), "%016x", 1000 + rank / 8);
	for (unsigned i = 0; i < count; i++)
		align_op(align, process,
			&(struct align_op){.communicator = communicator[i % 2],
				.seq = (uint64_t)step * count + i,
				.op = i % 2 ? "AllReduce" : "ReduceScatter",
				.step = step,
				.start_ns = from + i * 20 * US,
				.duration_ns = 10 * US,
				.bytes = 1 << 20,
				.peer = -1,
				.tier = FRAME_TIER_DEVICE});
	align_host(align, process,
		&(struct align_host){.start_ns = from, .duration_ns = 2000 * US, .cpu_ns = 1000, .run_delay_ns = 0});
	events += count + 1;
}

int main(int argc, char **argv)
{
	unsigned ranks = argc > 1 ? (unsigned)atoi(argv[1]) : 64, steps = argc > 2 ? (unsigned)atoi(argv[2]) : 1000;
	unsigned count = argc > 3 ? (unsigned)atoi(argv[3]) : 64, late = argc > 4 ? (unsigned)atoi(argv[4]) : 0;
	struct align *align = align_new(&(struct align_sink){.frame = on_frame});
	int *process = calloc(ranks ? ranks : 1, sizeof(*process));
	struct align_counts counts;
	struct rusage usage;
	clock_t begin;
	double s;

	if (!align || !process)
		return 1;
	begin = clock();
	for (unsigned i = 0; i < ranks; i++) {
		char host[32];

		snprintf(host, sizeof(host), "node%u", i / 8);
		process[i] = align_rank_new(align, &(struct align_rank){.job = "job",
							     .rank = (int32_t)i,
							     .world_size = ranks,
							     .host = host,
							     .start_ns = 1,
							     .from_start = true});
		if (process[i] < 0)
			return 1;
	}
	printf("%u ranks known in %.3f s\n", ranks, (double)(clock() - begin) / CLOCKS_PER_SEC);
	begin = clock();
	for (unsigned step = 1; step <= steps + late; step++) {
		for (unsigned i = 0; i < ranks; i++) {
			if (step > late)
				feed_ops(align, process[i], i, step - late, count, START + (step - late) * 2000 * US);
			if (step <= steps)
				feed_stages(align, process[i], step, START + step * 2000 * US);
		}
		align_advance(align, START + (step + 1) * 2000 * US);
	}
	align_end(align);
	s = (double)(clock() - begin) / CLOCKS_PER_SEC;
	getrusage(RUSAGE_SELF, &usage);
	align_counts(align, &counts);
	printf("%llu events in %.2f s, %.0f ns an event; %llu frames, %llu rank-steps, %llu ops in frames, %llu left "
	       "out; %ld MiB\n",
		(unsigned long long)events, s, s * 1e9 / (double)events, (unsigned long long)frames,
		(unsigned long long)here, (unsigned long long)ops, (unsigned long long)counts.coll_left_out,
		usage.ru_maxrss / 1024);
	align_free(align);
	free(process);
	return 0;
}
