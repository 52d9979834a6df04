/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes are a script of events of up to 24 processes of a few jobs, with small numbers so that they meet, and now
 * and then a huge one. Frames must hold together: indices in range, ops of ranks that are here and in the order of
 * their starts, stages no longer than their step, activities that add up to it, a job's numbers only rising, the
 * shortest of each group those that are found by search.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/align/align.h"
#include "analyzers/steps/steps.h"

#define PROCESSES 24
#define COLL_MAX 48
#define DOORS 12

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
	const uint8_t *data;
	size_t size;
	uint64_t now_ns;
	int process[PROCESSES];
	int64_t step[PROCESSES];
	struct align *align;
	struct align_op op[COLL_MAX]; /* the last ones that were many */
	size_t ops;
};

static uint64_t frames, newest[ALIGN_JOBS_MAX];
static const struct frame_who *owner[ALIGN_JOBS_MAX];

static void check(bool holds)
{
	if (!holds)
		abort();
}

static void check_rank(const struct frame *frame, size_t i)
{
	const struct frame_rank *rank = &frame->rank[i];
	uint64_t outside_ns = rank->step_ns;

	check(memchr(frame->who[i].host, 0, sizeof(frame->who[i].host)) && frame->who[i].rank >= 0);
	if (!rank->here)
		return;
	for (int k = 0; k < ACTIVITY_MAX; k++) {
		check(rank->activity_ns[k] <= outside_ns);
		outside_ns -= rank->activity_ns[k];
	}
	check(!outside_ns && !rank->activity_ns[ACTIVITY_COMPUTE] && (rank->leads || !rank->lead_ns));
	check(memchr(rank->host.preemptor_name, 0, sizeof(rank->host.preemptor_name)));
}

static bool is_tame(int64_t start_ns, uint64_t duration_ns)
{
	return start_ns >= -(int64_t)FRAME_TAME_NS && start_ns < (int64_t)FRAME_TAME_NS && duration_ns < SHORTEST_NS;
}

static void check_group(const struct frame *frame, uint32_t group)
{
	struct shortest found = shortest_none();

	for (size_t i = 0; i < frame->ops; i++) {
		if (frame->op[i].group != group)
			continue;
		shortest_add(&found, frame->op[i].duration_ns, frame->op[i].rank);
		found.records++;
	}
	check(found.records == frame->shortest[group].records);
	check(found.first == frame->shortest[group].first && found.second == frame->shortest[group].second);
}

static void check_kept(const struct frame *frame)
{
	bool tame = true;
	size_t at = 0;

	for (size_t i = 0; i < frame->ops; i++)
		tame &= is_tame(frame->op[i].start_ns, frame->op[i].duration_ns);
	check((frame->shortest != NULL) == (frame->stop != NULL) && (tame || !frame->shortest));
	if (!frame->shortest)
		return;
	for (size_t i = 0; i < frame->ranks; i++) {
		for (check(frame->stop[i] >= at && frame->stop[i] <= frame->ops); at < frame->stop[i]; at++)
			check(frame->op[at].rank == i);
	}
	check(at == frame->ops);
	for (uint32_t i = 0; i < frame->groups; i++)
		check_group(frame, i);
}

static void on_frame(void *arg, uint32_t job, const struct frame *frame)
{
	size_t here = 0;

	frames++;
	check(job < ALIGN_JOBS_MAX && frame->ranks > 0 && frame->class < FRAME_CLASS_MAX);
	check(frame->tier < FRAME_TIER_MAX && (frame->ops > 0) == (frame->tier != FRAME_TIER_STAGES));
	check(frame->step > newest[job] || owner[job] != frame->who || newest[job] == 0);
	newest[job] = frame->step;
	owner[job] = frame->who;
	for (size_t i = 0; i < frame->ranks; i++) {
		check_rank(frame, i);
		here += frame->rank[i].here;
	}
	check(here > 0 && frame->world_size >= frame->ranks);
	for (size_t i = 0; i < frame->ops; i++) {
		check(frame->op[i].rank < frame->ranks && frame->op[i].group < frame->groups);
		check(frame->rank[frame->op[i].rank].here);
		check(i == 0 || frame->op[i].rank != frame->op[i - 1].rank ||
			frame->op[i].start_ns >= frame->op[i - 1].start_ns);
	}
	for (size_t i = 0; i < frame->groups; i++)
		check(frame->group[i].comm < frame->comms && frame->group[i].members > 0);
	check_kept(frame);
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
	uint64_t ret = first & 0x7f;

	if (first < 0xf0)
		return ret;
	for (int i = 0; i < 7; i++)
		ret = ret << 8 | byte(input);
	return ret << (first & 15);
}

static const char *const texts[] = {
	"", "job", "other", "00000000000000aa", "00000000000000bb", NULL, "AllReduce", "Recv"};

static const char *text(struct input *input)
{
	return texts[byte(input) & 7];
}

static uint64_t near(struct input *input)
{
	return input->now_ns - value(input) * 1000000;
}

static void rank_new(struct input *input, unsigned who)
{
	const struct align_rank rank = {.job = text(input),
		.rank = (int32_t)(byte(input) % 9) - 1,
		.world_size = byte(input) & 3 ? 8 : (uint32_t)value(input),
		.host = text(input),
		.card = text(input),
		.start_ns = near(input),
		.from_start = byte(input) & 1};

	input->process[who] = align_rank_new(input->align, &rank);
	input->step[who] = 0;
}

static void step(struct input *input, unsigned who)
{
	uint8_t what = byte(input);
	struct align_step one = {.step = what < 200 ? ++input->step[who] : (int64_t)(value(input) - 1),
		.start_ns = near(input),
		.duration_ns = value(input) * 1000000};

	align_step(input->align, input->process[who], &one);
}

static void stage(struct input *input, unsigned who)
{
	uint8_t what = byte(input);
	const struct align_stage one = {.step = what & 128 ? (int64_t)(value(input) - 1) : input->step[who] + 1,
		.kind = (enum stage_kind)(what & 15),
		.start_ns = near(input),
		.duration_ns = value(input) * 100000,
		.thread_id = what >> 4 & 3,
		.depth = what >> 6 & 1};

	align_stage(input->align, input->process[who], &one);
}

static void one_op(struct input *input, unsigned who, uint8_t what)
{
	const struct align_op one = {.communicator = text(input),
		.seq = value(input),
		.op = text(input),
		.step = what & 1   ? -1
			: what & 2 ? (int64_t)value(input)
				   : input->step[who] + 1,
		.start_ns = near(input),
		.duration_ns = value(input) * 100000,
		.bytes = value(input),
		.lead_ns = what & 2 ? (int64_t)value(input) : ALIGN_LEAD_UNKNOWN,
		.peer = what & 4 ? (int8_t)byte(input) : -1,
		.member = (int32_t)(what >> 3 & 7),
		.tier = what & 64    ? FRAME_TIER_DEVICE
			: what & 128 ? (enum frame_tier)(byte(input) & 3)
				     : FRAME_TIER_HOST};

	/* Sequences without steps must be long to be known: a byte makes many. */
	for (int i = what == 255 ? 64 : 1; i > 0; i--)
		align_op(input->align, input->process[who], &one);
}

static void make_op(struct input *input, uint64_t start_ns, struct align_op *ret)
{
	uint8_t what = byte(input);

	*ret = (struct align_op){.communicator = what & 64 ? text(input) : texts[3 + (what >> 3 & 1)],
		.seq = what & 2 ? value(input) : 1,
		.op = text(input),
		.start_ns = start_ns,
		.duration_ns = what & 1 ? value(input) * 100000 : 1000,
		.bytes = what & 4 ? value(input) : 8,
		.lead_ns = what & 4 ? -(int64_t)(value(input) >> 1) : ALIGN_LEAD_UNKNOWN,
		.peer = what & 8 ? (int8_t)byte(input) : -1,
		.member = what >> 4 & 3};
}

/* As many as a step may have: new ones, or those before again with other times and numbers, with or without one that
 * differs. So steps go by a plan. */
static void many_ops(struct input *input, unsigned who)
{
	uint8_t what = byte(input);
	uint64_t from = near(input);
	int64_t step = what & 1 ? STEPS_NONE : input->step[who] + 1;
	enum frame_tier tier = what & 2 ? FRAME_TIER_DEVICE : (enum frame_tier)(byte(input) & 3);
	size_t count;

	if (what & 4 || !input->ops) {
		input->ops = byte(input) % COLL_MAX;
		for (size_t i = 0; i < input->ops; i++)
			make_op(input, from + i * 1000, &input->op[i]);
	} else {
		uint64_t rise = byte(input) & 3;

		for (size_t i = 0; i < input->ops; i++) {
			input->op[i].start_ns = from + i * 1000;
			input->op[i].seq += rise * input->ops;
		}
		if (what & 8)
			make_op(input, from, &input->op[byte(input) % input->ops]);
	}
	count = what & 16 && input->ops ? byte(input) % input->ops : input->ops;
	for (size_t i = 0; i < count; i++) {
		input->op[i].step = step;
		input->op[i].tier = tier;
		align_op(input->align, input->process[who], &input->op[i]);
	}
}

static void op(struct input *input, unsigned who)
{
	uint8_t what = byte(input);

	if (what >= 192 && what < 240)
		many_ops(input, who);
	else
		one_op(input, who, what);
}

static void host(struct input *input, unsigned who)
{
	const struct align_host one = {.start_ns = near(input),
		.duration_ns = value(input) * 1000000,
		.stopped_ns = value(input),
		.cpu_ns = value(input),
		.run_delay_ns = byte(input) & 1 ? FRAME_UNKNOWN : value(input),
		.throttled_ns = value(input),
		.major_faults = FRAME_UNKNOWN,
		.memory_stall_ns = FRAME_UNKNOWN,
		.launch_gap_ns = value(input),
		.preemptor_pid = byte(input),
		.preemptor_ns = value(input),
		.preemptor_name = text(input)};

	align_host(input->align, input->process[who], &one);
}

static void comm(struct input *input, unsigned who)
{
	const char *communicator = text(input);

	align_comm(input->align, input->process[who], communicator, (enum comm_kind)(byte(input) & 7),
		(uint32_t)value(input), (int8_t)byte(input));
}

static void other(struct input *input, unsigned who)
{
	uint8_t what = byte(input);

	if (what < 60)
		align_rank_end(input->align, input->process[who], near(input));
	else if (what < 100)
		align_lost(input->align, input->process[who], value(input));
	else if (what < 110)
		align_rank_card(input->align, input->process[who], text(input));
	else if (what < 114)
		align_watched(input->align, what & 1, near(input));
	else
		input->now_ns += value(input) * (what & 1 ? 1000000 : 1000000000);
	align_advance(input->align, input->now_ns);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const doors[DOORS])(struct input *, unsigned) = {
		rank_new, step, step, step, stage, stage, op, op, op, host, comm, other};
	struct input input = {.data = data, .size = size, .now_ns = 1000000000000ULL};
	struct align_counts counts;
	struct align_job_info job;

	frames = 0;
	memset(newest, 0, sizeof(newest));
	memset(owner, 0, sizeof(owner));
	input.align = align_new(&(struct align_sink){.frame = on_frame});
	if (!input.align)
		return 0;
	for (int i = 0; i < PROCESSES; i++)
		input.process[i] = -1;
	while (input.size) {
		uint8_t door = byte(&input);

		doors[door % DOORS](&input, door / DOORS % PROCESSES);
		input.now_ns += 1000000;
	}
	align_end(input.align);
	align_counts(input.align, &counts);
	check(counts.frames == frames && counts.coll_left_out <= counts.ops);
	for (uint32_t i = 0; align_job_info(input.align, i, &job); i++)
		check(job.ranks > 0 && job.job);
	align_free(input.align);
	return 0;
}
