/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes are a script of events, snapshots and frames through the whole interface of verdicts: a few processes of a
 * few jobs, with times, numbers and indices that make sense or do not. Published findings must be consistent: numbers
 * are given out once, nothing ends before it was first published, figures are finite, and texts are lines that end.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/detect/detect.h"
#include "analyzers/steps/steps.h"

#define PROCESSES 24
#define STATES 4096

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
	const uint8_t *data;
	size_t size;
	uint64_t now_ns;
	int processes;
	int64_t number; /* of whole steps */
	struct detect *detect;
	struct align *align;
};

static uint64_t newest;
static uint8_t states[STATES]; /* by number: 1 + the state last published */

static void check(bool holds)
{
	if (!holds)
		abort();
}

static void check_finding(const struct finding *finding)
{
	char json[FINDING_JSON_BYTES];
	size_t length = finding_evidence_json(finding, json, sizeof(json));

	check(length >= 2 && strlen(json) == length && json[0] == '[' && json[length - 1] == ']');
	check((size_t)finding->kind < FINDING_KIND_MAX && (size_t)finding->cause < CAUSE_MAX);
	check((size_t)finding->severity < SEVERITY_MAX && (size_t)finding->tier < FRAME_TIER_MAX);
	check(finding->confidence >= 0 && finding->confidence <= 1);
	check(isfinite(finding->slowdown) && isfinite(finding->cost_card_hours) && finding->cost_card_hours >= 0);
	check(finding->evidences <= FINDING_EVIDENCE_MAX);
	check(memchr(finding->sentence, 0, sizeof(finding->sentence)) && finding->sentence[0]);
	for (const char *at = finding->sentence; *at; at++)
		check((unsigned char)*at >= 0x20 && *at != 0x7f);
}

static void on_finding(void *arg, const struct finding *finding)
{
	check_finding(finding);
	check(finding->id && finding->id <= newest + 1);
	newest = finding->id > newest ? finding->id : newest;
	if (finding->id >= STATES)
		return;
	check((size_t)finding->state < FINDING_STATE_MAX);
	if (finding->state == FINDING_CLOSED)
		check(states[finding->id] == 1 + FINDING_OPEN);
	if (finding->state == FINDING_DROPPED)
		check(states[finding->id] == 1 + FINDING_SUSPECTED);
	if (finding->state == FINDING_SUSPECTED)
		check(states[finding->id] != 1 + FINDING_OPEN && states[finding->id] != 1 + FINDING_CLOSED);
	states[finding->id] = (uint8_t)(1 + finding->state);
}

static void on_want(void *arg, unsigned wants, uint32_t uid, const char *job, const char *why)
{
	check(wants && wants < 2 * JUDGE_WANT_ROUTINE && strlen(job) < 64 && why);
}

static uint8_t byte(struct input *input)
{
	if (!input->size)
		return 0;
	input->size--;
	return *input->data++;
}

static uint64_t value(struct input *input)
{
	uint8_t first = byte(input);
	uint64_t ret = first & 0x3f;

	if (first & 0x80) {
		for (int i = 0; i < 7; i++)
			ret = ret << 8 | byte(input);
		ret |= (uint64_t)(first & 0x40) << 57;
	} else if (first & 0x40) {
		ret *= 1000000;
	}
	return ret;
}

/* One that there is, as a rule. */
static int process(struct input *input)
{
	uint8_t which = byte(input);

	return which == 255 ? (int)value(input) : input->processes ? which % input->processes : 0;
}

static uint64_t start(struct input *input)
{
	uint8_t how = byte(input);

	return how == 255 ? value(input) : input->now_ns - (how & 15) * 1000000ULL;
}

static void rank_new(struct input *input)
{
	static const char *const words[] = {
		"", "a", "b", "a job\n\033[31m with a name longer than the field of a finding is, by far"};
	uint8_t what = byte(input);
	struct align_rank rank = {.job = words[what & 3],
		.rank = what & 4 ? (int32_t)value(input) : input->processes % 8,
		.world_size = what & 8 ? (uint32_t)value(input) : 8,
		.host = what & 16 ? "node-b" : words[what >> 6],
		.card = what & 32 ? "0" : "",
		.start_ns = start(input),
		.from_start = what & 64};

	if (input->processes < PROCESSES && align_rank_new(input->align, &rank) == input->processes)
		input->processes++;
}

static void op(struct input *input)
{
	static const char *const names[] = {"AllReduce", "AllGather", "Send", "Recv", "", "AllToAll", "Barrier", "x"};
	static const char *const comms[] = {
		"00000000000000aa", "00000000000000bb", "", "0123456789012345678901234567890"};
	uint8_t what = byte(input), side = byte(input);
	struct align_op event = {.communicator = comms[what & 3],
		.seq = value(input),
		.op = names[what >> 2 & 7],
		.step = what & 32 ? STEPS_NONE : (int64_t)value(input),
		.start_ns = start(input),
		.duration_ns = value(input),
		.bytes = value(input),
		.peer = side & 1 ? -1 : (int8_t)side >> 1,
		.member = side >> 5,
		.tier = (enum frame_tier)(what >> 6)};

	align_op(input->align, process(input), &event);
}

static void stage(struct input *input)
{
	uint8_t what = byte(input);
	struct align_stage event = {.step = what & 128 ? STEPS_NONE : (int64_t)value(input),
		.kind = (enum stage_kind)(what & 15),
		.start_ns = start(input),
		.duration_ns = value(input),
		.thread_id = what >> 4 & 1,
		.depth = what >> 5 & 3};

	align_stage(input->align, process(input), &event);
}

static void step(struct input *input)
{
	struct align_step event = {.step = (int64_t)value(input), .duration_ns = value(input)};

	event.start_ns = start(input) - event.duration_ns;
	align_step(input->align, process(input), &event);
}

static void host(struct input *input)
{
	uint8_t what = byte(input);
	struct align_host event = {.start_ns = start(input),
		.duration_ns = value(input),
		.stopped_ns = what & 1 ? 0 : value(input),
		.cpu_ns = what & 1 ? FRAME_UNKNOWN : value(input),
		.run_delay_ns = what & 2 ? FRAME_UNKNOWN : value(input),
		.throttled_ns = what & 4 ? FRAME_UNKNOWN : value(input),
		.major_faults = what & 8 ? FRAME_UNKNOWN : value(input),
		.memory_stall_ns = what & 8 ? FRAME_UNKNOWN : value(input),
		.launch_gap_ns = what & 16 ? FRAME_UNKNOWN : value(input),
		.preemptor_pid = what >> 5,
		.preemptor_ns = value(input),
		.preemptor_name = what & 64 ? "cpu\n\xff and a long name" : ""};

	align_host(input->align, process(input), &event);
}

/* Up to 16 steps of all ranks, so that there are frames to judge; one rank loads its data longer, and the
 * others wait for it. */
static void whole_step(struct input *input)
{
	uint8_t slow = byte(input), times = byte(input) & 15;
	uint64_t slow_ns = slow * 200000ULL, length_ns = 60000000 + slow_ns;

	for (int repeat = 0; repeat <= times; repeat++) {
		input->number++;
		for (int i = 0; i < input->processes; i++) {
			uint64_t load = 1000000 + (i == (slow & 7) ? slow_ns : 0);
			struct align_stage loads = {.step = input->number,
				.kind = STAGE_DATALOADER,
				.start_ns = input->now_ns,
				.duration_ns = load,
				.thread_id = 1};
			struct align_stage waits = {.step = input->number,
				.kind = STAGE_BACKWARD,
				.start_ns = input->now_ns + load,
				.duration_ns = length_ns - load,
				.thread_id = 1};
			struct align_step event = {
				.step = input->number, .start_ns = input->now_ns, .duration_ns = length_ns};

			align_stage(input->align, i, &loads);
			align_stage(input->align, i, &waits);
			align_step(input->align, i, &event);
		}
		input->now_ns += length_ns;
		detect_advance(input->detect, input->now_ns);
	}
}

static void snapshot(struct input *input)
{
	static const char *const words[] = {"", "a", "b", "none"};
	struct standing standing[PROCESSES];
	struct stuck stuck[2];
	const char *jobs[2];
	uint32_t indices[8];
	size_t n = byte(input) % (PROCESSES + 1), stucks = byte(input) % 3;
	uint8_t all = byte(input);

	for (size_t i = 0; i < 8; i++)
		indices[i] = (uint32_t)process(input);
	for (size_t i = 0; i < n; i++) {
		uint8_t what = byte(input);

		standing[i] = (struct standing){.rank = (uint32_t)process(input),
			.state = "RSDTtZ\0x"[what & 7],
			.ended = what & 8,
			.ended_ns = what & 8 ? start(input) : 0,
			.progress_ns = all & 1 ? input->now_ns - (uint64_t)all * 1000000000 : start(input),
			.step_end_ns = start(input),
			.steps = what,
			.stage = (enum stage_kind)(what >> 4),
			.stage_since_ns = start(input),
			.cpu_ns = what & 128 ? FRAME_UNKNOWN : value(input),
			.stack = (enum standing_stack)(all >> 6)};
	}
	for (size_t i = 0; i < stucks; i++) {
		uint8_t what = byte(input);

		stuck[i] = (struct stuck){.state = what & 7,
			.seq = value(input),
			.waited_ns = value(input),
			.culprits = what >> 5,
			.culprit = indices,
			.all_entered = what & 8,
			.waiters = what & 7,
			.waiter = indices + 1};
		memset(stuck[i].communicator, 'c', sizeof(stuck[i].communicator));
		memset(stuck[i].sentence, '\n', sizeof(stuck[i].sentence));
		jobs[i] = words[what >> 3 & 3];
	}
	detect_snapshot(input->detect, input->now_ns, standing, n, stuck, jobs, stucks, all & 2);
}

static void frame(struct input *input)
{
	struct frame_who who[4];
	struct frame_rank rank[4];
	struct frame_comm comm = {.communicator = "00000000000000cc", .members = 2};
	struct frame_group group[2];
	struct frame_op ops[6];
	uint8_t what = byte(input);
	struct frame made = {.step = value(input),
		.class = (enum frame_class)(what & 3),
		.tier = (enum frame_tier)((what >> 2 & 3) % FRAME_TIER_MAX),
		.world_size = 4,
		.cards = byte(input),
		.ranks = what >> 4 & 3,
		.who = who,
		.rank = rank,
		.comms = 1,
		.comm = &comm,
		.groups = 2,
		.group = group,
		.ops = what >> 6,
		.op = ops};

	memset(rank, 0, sizeof(rank));
	for (size_t i = 0; i < 4; i++) {
		who[i] = (struct frame_who){.rank = (int32_t)i, .node = i & 1, .stage = FRAME_NONE, .host = "made"};
		rank[i].here = byte(input) & 1;
		rank[i].step_ns = value(input);
		rank[i].end_ns = start(input);
		rank[i].activity_ns[byte(input) % ACTIVITY_MAX] = value(input);
		rank[i].host.run_delay_ns = rank[i].host.cpu_ns = value(input);
	}
	for (size_t i = 0; i < 2; i++)
		group[i] = (struct frame_group){
			.comm = byte(input) == 255, .members = byte(input), .bytes = value(input), .p2p = i};
	for (size_t i = 0; i < made.ops; i++) {
		uint8_t where = byte(input);

		ops[i] = (struct frame_op){.group = where & 1 ? 0 : where >> 6,
			.rank = where >> 1 & 7,
			.start_ns = (int64_t)value(input),
			.duration_ns = value(input)};
	}
	detect_frame(input->detect, what & 128 ? "made" : "too", &made);
}

static void comm(struct input *input)
{
	align_comm(input->align, process(input), byte(input) & 1 ? "00000000000000aa" : "00000000000000bb",
		COMM_KIND_DATA, (uint32_t)value(input), byte(input) & 7);
}

static void advance(struct input *input)
{
	uint64_t by = value(input) & 0xffffffffff;

	input->now_ns = byte(input) == 255 ? input->now_ns - by : input->now_ns + by;
	detect_advance(input->detect, input->now_ns);
}

static void rest(struct input *input)
{
	uint8_t what = byte(input);

	if (what < 8)
		align_rank_end(input->align, process(input), start(input));
	else if (what < 16)
		align_lost(input->align, process(input), value(input));
	else
		detect_end(input->detect);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const actions[])(struct input *) = {rank_new, op, op, op, stage, stage, step, step, host,
		whole_step, whole_step, snapshot, frame, comm, advance, rest};
	const struct detect_sink sink = {.finding = on_finding, .want = on_want};
	struct input input = {.data = data, .size = size, .now_ns = 1000000000000};
	struct detect_options options;

	newest = 0;
	memset(states, 0, sizeof(states));
	detect_options_default(&options);
	input.detect = detect_new(&options, &sink);
	check(input.detect);
	input.align = detect_align(input.detect);
	while (input.size)
		actions[byte(&input) % (sizeof(actions) / sizeof(actions[0]))](&input);
	detect_end(input.detect);
	detect_free(input.detect);
	return 0;
}
