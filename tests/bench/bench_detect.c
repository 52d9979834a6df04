/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_detect PAIRS LARGEST [frames]: what verdicts cost by the size of the job. Events of a job of 320 to 10,240
 * ranks through detect.h (aligner, measures, detectors, findings): 25 to 100 steps, each of five stages and OPS
 * operations, half of them of 8 neighbours and half of all ranks with the same index in their eight. CPU time an
 * operation and in all, less that of making the events; of it that of the aligner; that of frames alone, from
 * detect_frame() on (measures, detectors, findings); and the peak of memory. Each case in a process of its own. Prints
 * one sample a line for table.awk: where cost is linear, the ratios of ns/op are 1. With "frames", that of frames
 * alone, of 100 steps of the largest job.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "analyzers/detect/detect.h"

#define OPS 64
#define NEIGHBOURS 8
#define US 1000ULL
#define STEP_NS (200000 * US)
#define START (1000000000ULL * 1000)

enum what { WHAT_NOTHING, WHAT_ALIGN, WHAT_FRAMES, WHAT_ALL };

struct sample {
	double s, frames_s; /* frames_s: of it, what is done with frames */
	double mib;
	uint64_t findings, frames;
};

static const unsigned sizes[] = {320, 1280, 2560, 5120, 10240}, lengths[] = {25, 50, 100};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))
#define LENGTHS (sizeof(lengths) / sizeof(lengths[0]))

static volatile uint64_t made;
static struct detect *on_frames; /* WHAT_FRAMES: where frames go, once they are made */

static double cpu_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static uint64_t random_of(uint64_t a, uint64_t b, uint64_t c)
{
	uint64_t x = a * 0x9e3779b97f4a7c15ULL ^ b * 0xc2b2ae3d27d4eb4fULL ^ c * 0x165667b19e3779f9ULL;

	x = (x ^ x >> 32) * 0xd6e8feb86659fd93ULL;
	return x ^ x >> 32;
}

static void on_frame(void *arg, uint32_t job, const struct frame *frame)
{
	struct sample *sample = arg;

	sample->frames++;
	if (on_frames) {
		double begun = cpu_s();

		detect_frame(on_frames, "job", frame);
		sample->frames_s += cpu_s() - begun;
	}
}

static void on_finding(void *arg, const struct finding *finding)
{
	struct sample *sample = arg;

	sample->findings += finding->state == FINDING_OPEN;
}

static void feed_stages(struct align *align, int process, int64_t step, uint64_t from)
{
	static const enum stage_kind kinds[] = {
		STAGE_DATALOADER, STAGE_FORWARD, STAGE_BACKWARD, STAGE_SYNC, STAGE_OPTIMIZER};
	static const uint64_t length_us[] = {2000, 50000, 120000, 10000, 10000};

	for (unsigned i = 0; i < 5; i++) {
		if (align)
			align_stage(
				align, process, &(struct align_stage){step, kinds[i], from, length_us[i] * US, 7, 0});
		from += length_us[i] * US;
	}
}

/* Of each rank: the number of its process, and the communicators that it is in. */
struct fed {
	int process;
	char communicator[2][20];
};

static uint64_t feed_ops(struct align *align, const struct fed *fed, uint32_t rank, int64_t step, uint64_t from)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < OPS; i++) {
		/* An operation begins when its rank is there, this late, and ends for all at once. */
		uint64_t late = random_of(rank, (uint64_t)step, i) % (100 * US);
		struct align_op op = {
			.communicator = fed->communicator[i % 2],
			.seq = (uint64_t)step * OPS + i + 1,
			.op = i % 2 ? "AllReduce" : "ReduceScatter",
			.step = step,
			.start_ns = from + 2000 * US + i * 2900 * US + late,
			.duration_ns = 300 * US - late,
			.bytes = 1 << 20,
			.peer = -1,
			.tier = FRAME_TIER_DEVICE,
		};

		if (align)
			align_op(align, fed->process, &op);
		sum += op.start_ns;
	}
	return sum;
}

static void make_rank(struct align *align, struct fed *fed, unsigned ranks, unsigned i)
{
	char host[32];

	snprintf(host, sizeof(host), "node%u", i / NEIGHBOURS);
	snprintf(fed->communicator[0], sizeof(fed->communicator[0]), "%016x", 1 + i % NEIGHBOURS);
	snprintf(fed->communicator[1], sizeof(fed->communicator[1]), "%016x", 1 + NEIGHBOURS + i / NEIGHBOURS);
	if (!align)
		return;
	fed->process = align_rank_new(align, &(struct align_rank){.job = "job",
						     .rank = (int32_t)i,
						     .world_size = ranks,
						     .host = host,
						     .card = "0",
						     .start_ns = 1,
						     .from_start = true});
	for (unsigned k = 0; k < 2; k++)
		align_comm(align, fed->process, fed->communicator[k], k ? COMM_KIND_TENSOR : COMM_KIND_DATA,
			k ? NEIGHBOURS : ranks / NEIGHBOURS, -1);
}

static void feed(struct align *align, struct detect *detect, unsigned ranks, unsigned steps)
{
	struct fed *fed = calloc(ranks, sizeof(*fed));
	uint64_t sum = 0;

	if (!fed)
		exit(1);
	for (unsigned i = 0; i < ranks; i++)
		make_rank(align, &fed[i], ranks, i);
	for (unsigned step = 1; step <= steps; step++) {
		/* Not always as long, so that the job is now and then slower than usual, and shares are computed. */
		uint64_t from = START + step * STEP_NS, length_ns = STEP_NS - random_of(step, 0, 0) % (2000 * US);

		for (unsigned i = 0; i < ranks; i++) {
			sum += feed_ops(align, &fed[i], i, step, from);
			feed_stages(align, fed[i].process, step, from);
			if (align)
				align_step(align, fed[i].process, &(struct align_step){step, from, length_ns, false});
		}
		if (detect)
			detect_advance(detect, from + STEP_NS);
		else if (align)
			align_advance(align, from + STEP_NS);
	}
	made = sum; /* so that making them is not left out */
	free(fed);
}

static void run(enum what what, unsigned ranks, unsigned steps, struct sample *ret)
{
	struct detect_options options;
	struct detect *detect = NULL;
	struct align *align = NULL;
	struct rusage usage;
	double begun = cpu_s();
	const struct detect_sink sink = {.finding = on_finding, .arg = ret};

	detect_options_default(&options);
	options.warm_ns = 0; /* 100 steps are 20 s: 10 s of learning, 10 s of judging */
	if (what == WHAT_ALL) {
		detect = detect_new(&options, &sink);
		align = detect ? detect_align(detect) : NULL;
	} else if (what != WHAT_NOTHING) {
		on_frames = what == WHAT_FRAMES ? detect_new(&options, &sink) : NULL;
		if (what == WHAT_FRAMES && !on_frames)
			exit(1);
		align = align_new(&(struct align_sink){.frame = on_frame, .arg = ret});
	}
	if (what != WHAT_NOTHING && !align)
		exit(1);
	feed(align, detect, ranks, steps);
	if (detect)
		detect_end(detect);
	else if (align)
		align_end(align);
	ret->s = cpu_s() - begun;
	getrusage(RUSAGE_SELF, &usage);
	ret->mib = (double)usage.ru_maxrss / 1024;
	if (detect)
		detect_free(detect);
	else if (align)
		align_free(align);
	on_frames = detect_free(on_frames);
}

static struct sample apart(enum what what, unsigned ranks, unsigned steps)
{
	struct sample sample = {0};
	int ends[2];
	pid_t child;

	if (pipe(ends) < 0)
		exit(1);
	child = fork();
	if (child < 0)
		exit(1);
	if (child == 0) {
		run(what, ranks, steps, &sample);
		_exit(write(ends[1], &sample, sizeof(sample)) == sizeof(sample) ? 0 : 1);
	}
	close(ends[1]);
	if (read(ends[0], &sample, sizeof(sample)) != sizeof(sample))
		exit(1);
	close(ends[0]);
	waitpid(child, NULL, 0);
	return sample;
}

struct measured {
	unsigned ranks, steps, round;
	double nothing_s;
};

static void print(const struct measured *of, const char *what, const char *unit, double value)
{
	printf("detect%s\t%u ranks, %u steps\t%s\t%u\t%.3f\n", what, of->ranks, of->steps, unit, of->round, value);
}

static void print_frames(const struct measured *of, const struct sample *frames)
{
	print(of, ", frames alone", "ns/op", frames->frames_s / ((double)of->ranks * of->steps * OPS) * 1e9);
	print(of, ", frames alone, in all", "s", frames->frames_s);
}

static void measure_frames(unsigned ranks, unsigned round)
{
	const struct measured of = {.ranks = ranks, .steps = lengths[LENGTHS - 1], .round = round};
	struct sample frames = apart(WHAT_FRAMES, ranks, of.steps);

	print_frames(&of, &frames);
}

static void measure(unsigned ranks, unsigned steps, unsigned round)
{
	double ops = (double)ranks * steps * OPS;
	const struct measured of = {ranks, steps, round, apart(WHAT_NOTHING, ranks, steps).s};
	struct sample alone = apart(WHAT_ALIGN, ranks, steps), frames = apart(WHAT_FRAMES, ranks, steps),
		      all = apart(WHAT_ALL, ranks, steps);

	if (alone.frames < steps || frames.frames < steps || all.findings || frames.findings)
		fprintf(stderr, "bench_detect: %llu frames of %u, %llu findings of a job that is well\n",
			(unsigned long long)frames.frames, steps, (unsigned long long)all.findings);
	print(&of, ", its aligner", "ns/op", (alone.s - of.nothing_s) / ops * 1e9);
	print(&of, "", "ns/op", (all.s - of.nothing_s) / ops * 1e9);
	print_frames(&of, &frames);
	print(&of, ", in all", "s", all.s - of.nothing_s);
	print(&of, ", memory", "MiB", all.mib);
}

int main(int argc, char **argv)
{
	unsigned pairs = argc > 1 ? (unsigned)atoi(argv[1]) : 3, largest = argc > 2 ? (unsigned)atoi(argv[2]) : 10240;
	bool frames = argc > 3 && strcmp(argv[3], "frames") == 0;

	if (pairs < 1 || largest < sizes[0] || (argc > 3 && !frames))
		return 2;
	for (unsigned round = 0; round < pairs; round++) {
		if (frames) {
			measure_frames(largest, round);
			continue;
		}
		for (size_t i = 0; i < SIZES && sizes[i] <= largest; i++) {
			for (size_t k = 0; k < LENGTHS; k++) {
				if (sizes[i] == sizes[SIZES - 1] || lengths[k] == lengths[LENGTHS - 1])
					measure(sizes[i], lengths[k], round);
			}
		}
	}
	return 0;
}
