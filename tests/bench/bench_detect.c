/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_detect PAIRS LARGEST [frames]: what verdicts cost by the size of the job. Events of a job of 320 to 10,240
 * ranks through detect.h (framer, measures, detectors, findings): 25 to 100 steps, each of five stages and OPS
 * operations, half of them of 8 neighbours and half of all ranks at the same place in their eight. CPU time an
 * operation and in all, less that of making the events; of it that of the framer; that of frames alone, from
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

enum what { WHAT_NOTHING, WHAT_FRAMER, WHAT_FRAMES, WHAT_ALL };

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

	(void)job;
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

static void feed_stages(struct framer *framer, int process, int64_t step, uint64_t from)
{
	static const enum stage_kind kinds[] = {
		STAGE_DATALOADER, STAGE_FORWARD, STAGE_BACKWARD, STAGE_SYNC, STAGE_OPTIMIZER};
	static const uint64_t length_us[] = {2000, 50000, 120000, 10000, 10000};

	for (unsigned i = 0; i < 5; i++) {
		if (framer)
			framer_stage(
				framer, process, &(struct framer_stage){step, kinds[i], from, length_us[i] * US, 7, 0});
		from += length_us[i] * US;
	}
}

/* An operation begins when its rank is there and ends for all at once. */
static uint64_t feed_ops(
	struct framer *framer, int process, uint32_t rank, int64_t step, uint64_t from, const char (*communicator)[20])
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < OPS; i++) {
		bool near = i % 2;
		uint64_t late = random_of(rank, (uint64_t)step, i) % (100 * US);
		struct framer_op op = {
			.communicator = communicator[near ? NEIGHBOURS + rank / NEIGHBOURS : rank % NEIGHBOURS],
			.seq = (uint64_t)step * OPS + i + 1,
			.op = near ? "AllReduce" : "ReduceScatter",
			.step = step,
			.start_ns = from + 2000 * US + i * 2900 * US + late,
			.duration_ns = 300 * US - late,
			.bytes = 1 << 20,
			.peer = -1,
			.tier = FRAME_TIER_DEVICE,
		};

		if (framer)
			framer_op(framer, process, &op);
		sum += op.start_ns;
	}
	return sum;
}

static void feed(struct framer *framer, struct detect *detect, unsigned ranks, unsigned steps)
{
	char(*communicator)[20] = calloc(NEIGHBOURS + ranks / NEIGHBOURS + 1, sizeof(*communicator));
	int *process = calloc(ranks, sizeof(*process));
	uint64_t sum = 0;

	if (!communicator || !process)
		exit(1);
	for (unsigned i = 0; i < NEIGHBOURS + ranks / NEIGHBOURS; i++)
		snprintf(communicator[i], sizeof(communicator[i]), "%016x", i + 1);
	for (unsigned i = 0; framer && i < ranks; i++) {
		char host[32];

		snprintf(host, sizeof(host), "node%u", i / NEIGHBOURS);
		process[i] = framer_rank_new(framer, &(struct framer_rank){.job = "job",
							     .rank = (int32_t)i,
							     .world_size = ranks,
							     .host = host,
							     .card = "0",
							     .start_ns = 1,
							     .from_start = true});
		for (unsigned k = 0; k < 2; k++)
			framer_comm(framer, process[i], communicator[k ? NEIGHBOURS + i / NEIGHBOURS : i % NEIGHBOURS],
				k ? COMM_KIND_TENSOR : COMM_KIND_DATA, k ? NEIGHBOURS : ranks / NEIGHBOURS, -1);
	}
	for (unsigned step = 1; step <= steps; step++) {
		uint64_t from = START + step * STEP_NS;

		for (unsigned i = 0; i < ranks; i++) {
			sum += feed_ops(framer, process[i], i, step, from, communicator);
			feed_stages(framer, process[i], step, from);
			if (framer)
				framer_step(framer, process[i], &(struct framer_step){step, from, STEP_NS});
		}
		if (detect)
			detect_advance(detect, from + STEP_NS);
		else if (framer)
			framer_advance(framer, from + STEP_NS);
	}
	made = sum; /* so that making them is not left out */
	free(process);
	free(communicator);
}

static void run(enum what what, unsigned ranks, unsigned steps, struct sample *ret)
{
	struct detect_options options;
	struct detect *detect = NULL;
	struct framer *framer = NULL;
	struct rusage usage;
	double begun = cpu_s();
	const struct detect_sink sink = {.finding = on_finding, .arg = ret};

	detect_options_default(&options);
	if (what == WHAT_ALL) {
		detect = detect_new(&options, &sink);
		framer = detect ? detect_framer(detect) : NULL;
	} else if (what == WHAT_FRAMES || what == WHAT_FRAMER) {
		on_frames = what == WHAT_FRAMES ? detect_new(&options, &sink) : NULL;
		if (what == WHAT_FRAMES && !on_frames)
			exit(1);
		framer = framer_new(&(struct framer_sink){.frame = on_frame, .arg = ret});
	}
	if (what != WHAT_NOTHING && !framer)
		exit(1);
	feed(framer, detect, ranks, steps);
	if (detect)
		detect_end(detect);
	else if (framer)
		framer_end(framer);
	ret->s = cpu_s() - begun;
	getrusage(RUSAGE_SELF, &usage);
	ret->mib = (double)usage.ru_maxrss / 1024;
	if (detect)
		detect_free(detect);
	else if (framer)
		framer_free(framer);
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

static void tell_frames(const struct sample *frames, unsigned ranks, unsigned steps, unsigned round)
{
	double ops = (double)ranks * steps * OPS;

	printf("detect, frames alone\t%u ranks, %u steps\tns/op\t%u\t%.1f\n", ranks, steps, round,
		frames->frames_s / ops * 1e9);
	printf("detect, frames alone, in all\t%u ranks, %u steps\ts\t%u\t%.3f\n", ranks, steps, round,
		frames->frames_s);
}

static void measure(unsigned ranks, unsigned steps, unsigned round)
{
	double ops = (double)ranks * steps * OPS;
	struct sample nothing = apart(WHAT_NOTHING, ranks, steps), framer = apart(WHAT_FRAMER, ranks, steps),
		      frames = apart(WHAT_FRAMES, ranks, steps), all = apart(WHAT_ALL, ranks, steps);

	if (framer.frames < steps || frames.frames < steps || all.findings || frames.findings)
		fprintf(stderr, "bench_detect: %llu frames of %u, %llu findings of a job that is well\n",
			(unsigned long long)framer.frames, steps, (unsigned long long)all.findings);
	printf("detect\t%u ranks, %u steps\tns/op\t%u\t%.1f\n", ranks, steps, round, (all.s - nothing.s) / ops * 1e9);
	printf("detect, its framer\t%u ranks, %u steps\tns/op\t%u\t%.1f\n", ranks, steps, round,
		(framer.s - nothing.s) / ops * 1e9);
	tell_frames(&frames, ranks, steps, round);
	printf("detect, in all\t%u ranks, %u steps\ts\t%u\t%.3f\n", ranks, steps, round, all.s - nothing.s);
	printf("detect, memory\t%u ranks, %u steps\tMiB\t%u\t%.1f\n", ranks, steps, round, all.mib);
}

static void measure_frames(unsigned ranks, unsigned round)
{
	unsigned steps = lengths[LENGTHS - 1];
	struct sample frames = apart(WHAT_FRAMES, ranks, steps);

	tell_frames(&frames, ranks, steps, round);
}

int main(int argc, char **argv)
{
	unsigned pairs = argc > 1 ? (unsigned)atoi(argv[1]) : 3, largest = argc > 2 ? (unsigned)atoi(argv[2]) : 10240;
	bool frames_alone = argc > 3 && strcmp(argv[3], "frames") == 0;

	if (pairs < 1 || largest < sizes[0])
		return 2;
	for (unsigned round = 0; round < pairs; round++) {
		if (frames_alone) {
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
