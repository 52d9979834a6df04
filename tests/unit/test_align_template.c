/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps with a template make the same frames as steps without, and the frames hold what was sent. Random
 * jobs: most steps are as the step before, some operations are missing, come twice, in another order, late, or make no
 * sense, and ranks end and come again. Two aligners have equal input; one of them drops each template at
 * once.
 */
#include "analyzers/align/align_internal.h"
#include "tests/unit/align_sides.h"

enum { PLANNED, UNPLANNED }; /* sides */

/* What a rank does in a step, as long as nothing is odd. */
struct program {
	size_t count;
	struct planned {
		int communicator, name;
		uint64_t bytes;
		uint32_t rise; /* of its communicator's number */
	} op[PROGRAM_MAX];
};

struct job {
	int ranks;
	bool from_start;
	unsigned odd; /* one operation in so many */
	struct program program;
	size_t whatif[RANKS]; /* the one of the program that a rank never does, if there is such */
	uint64_t seq[RANKS][COMMUNICATORS];
	int64_t step[RANKS];
	uint64_t at_ns[RANKS];
	bool after; /* operations come after their step's row */
};

static void write_program(struct program *program)
{
	program->count = 4 + any(PROGRAM_MAX - 4);
	for (size_t i = 0; i < program->count; i++) {
		int which = (int)any(8);

		program->op[i] = (struct planned){
			.communicator = which < 4    ? EVERYBODY
					: which < 6  ? PAIR
					: which == 6 ? LONG
						     : PIPE,
			.name = (int)any(2),
			.bytes = any(3) << 10,
			.rise = any(16) ? 1 : 3,
		};
	}
}

static void join(struct side *side, const struct job *job, int rank, uint64_t start_ns)
{
	const struct align_rank who = {.job = "job",
		.rank = rank,
		.world_size = (uint32_t)job->ranks,
		.host = rank < 4 ? "one" : "two",
		.card = "",
		.start_ns = start_ns,
		.from_start = job->from_start};

	side->process[rank] = align_rank_new(side->align, &who);
	assert_true(side->process[rank] >= 0);
}

/* Slots get their plans of the process, and it gets its own as a frame goes out: after any event. */
static void unplan(int side)
{
	struct align *align = sides[side].align;

	for (size_t i = 0; i < align->processes && side == UNPLANNED; i++) {
		struct align_process *process = align->process[i];

		if (process && process->template)
			align_template_drop(align_job_of(align, process), &process->template);
	}
}

static size_t count_plans(const struct align *align)
{
	size_t ret = 0;

	for (size_t i = 0; i < align->processes; i++)
		ret += align->process[i] && align->process[i]->template;
	return ret;
}

/* An operation that is to come. */
struct next {
	int communicator, name;
	struct align_op op;
};

static void make(struct job *job, int rank, const struct planned *planned, uint64_t start_ns, struct next *ret)
{
	int communicator = planned->communicator == PAIR ? PAIR + rank / 2 : planned->communicator;
	uint64_t *seq = &job->seq[rank][communicator];

	*seq += planned->rise;
	*ret = (struct next){.communicator = communicator,
		.name = planned->name,
		.op = {.start_ns = start_ns,
			.duration_ns = MS / 4 + any(MS / 2),
			.seq = *seq,
			.bytes = planned->bytes,
			.peer = -1,
			.member = rank}};
	if (communicator != PIPE)
		return;
	ret->op.peer = rank ^ 1;
	ret->name = (rank ^ (int)*seq) & 1 ? SEND : RECV;
}

/* Makes it odd, in one of the ways that there are. */
static void make_odd(struct next *next)
{
	switch (any(15)) {
	case 0:
		next->op.seq = 0;
		break;
	case 1:
		next->op.seq += UINT64_C(1) << 33;
		break;
	case 2:
		next->op.bytes++;
		break;
	case 3:
		next->op.bytes = UINT64_MAX;
		break;
	case 4:
		next->op.duration_ns = UINT64_C(1) << 35;
		break;
	case 5:
		next->op.duration_ns = UINT64_MAX;
		break;
	case 6:
		next->op.start_ns -= 3 * MS + 1;
		break;
	case 7:
		next->op.start_ns = UINT64_MAX - any(9);
		break;
	case 8:
		next->op.peer = next->op.member;
		break;
	case 9:
		next->op.peer = -2;
		break;
	case 10:
		next->communicator = -1;
		break;
	case 11:
		next->name = UNNAMED;
		break;
	case 12:
		next->communicator = EVERYBODY;
		break;
	case 13:
		next->op.start_ns += 5000 * MS;
		break;
	default:
		next->op.seq += 5;
		break;
	}
}

/* What makes sense is remembered. */
static void remember(int rank, const struct next *next)
{
	bool p2p = next->op.peer >= 0, receive = next->name == RECV;
	struct sent *sent;

	if (next->op.start_ns > UINT64_MAX / 2 || next->communicator < 0)
		return;
	sent = sent_at(rank, next->op.start_ns);
	*sent = (struct sent){.start_ns = next->op.start_ns,
		.duration_ns = next->op.duration_ns,
		.seq = (uint32_t)(next->op.seq ^ next->op.seq >> 32),
		.bytes = next->op.bytes < (UINT64_C(1) << 48) ? next->op.bytes : (UINT64_C(1) << 48) - 1,
		.rank = rank,
		.communicator = next->communicator,
		.low = !p2p	 ? -1
		       : receive ? next->op.peer
				 : next->op.member,
		.high = !p2p	  ? -1
			: receive ? next->op.member
				  : next->op.peer};
}

static void feed(int rank, int64_t step, const struct next *next, enum frame_tier tier)
{
	struct align_op op = next->op;

	op.communicator = next->communicator < 0 ? "" : communicators[next->communicator];
	op.op = names[next->name];
	op.step = step;
	op.tier = tier;
	for (int i = 0; i < SIDES; i++) {
		align_op(sides[i].align, sides[i].process[rank], &op);
		unplan(i);
	}
}

/* In some pieces, now and then with a step or a tier of its own. */
static void feed_pieces(const struct job *job, int rank, const struct next *next, size_t count)
{
	for (size_t i = 0, end; i < count;) {
		enum frame_tier tier = FRAME_TIER_DEVICE;
		int64_t step = job->step[rank];

		end = any(4) ? count : i + 1 + any(count - i);
		if (any(job->odd) == 0)
			tier = (enum frame_tier)any(4);
		if (any(job->odd) == 0)
			step = any(2) ? STEPS_NONE : step + (int64_t)any(5) - 3;
		for (; i < end; i++)
			feed(rank, step, &next[i], tier);
	}
}

static void feed_step(const struct job *job, int rank, uint64_t start_ns)
{
	for (int i = 0; i < SIDES; i++) {
		align_step(sides[i].align, sides[i].process[rank],
			&(struct align_step){job->step[rank], start_ns, 100 * MS, false});
		unplan(i);
	}
}

static void do_step(struct job *job, int rank)
{
	struct next next[PROGRAM_MAX * 2];
	uint64_t start_ns = job->at_ns[rank];
	size_t count = 0;

	job->step[rank]++;
	for (size_t i = 0; i < job->program.count; i++) {
		unsigned odd = (unsigned)any(job->odd);

		make(job, rank, &job->program.op[i], start_ns + (1 + 2 * i) * MS + any(MS), &next[count]);
		if (odd == 0 || i == job->whatif[rank])
			continue; /* missing */
		if (odd == 1)
			make_odd(&next[count]);
		remember(rank, &next[count++]);
		if (odd == 2) {
			next[count] = next[count - 1];
			count++;
		}
	}
	if (!job->after)
		feed_pieces(job, rank, next, count);
	feed_step(job, rank, start_ns);
	if (job->after)
		feed_pieces(job, rank, next, count);
	job->at_ns[rank] += 100 * MS;
	if (any(job->odd) == 0) /* its clock jumps */
		job->at_ns[rank] += any(2) ? 5000 * MS : 100 * MS;
}

static void happen(struct job *job, int rank)
{
	bool again = any(3) == 0;

	for (int i = 0; i < SIDES; i++) {
		if (again) {
			align_rank_end(sides[i].align, sides[i].process[rank], job->at_ns[rank]);
			join(&sides[i], job, rank, job->at_ns[rank]);
		} else {
			align_lost(sides[i].align, sides[i].process[rank], 3);
		}
		unplan(i);
	}
	if (again)
		job->step[rank] = 0;
}

static void compare(uint64_t seed)
{
	struct align_counts planned, unplanned;

	for (int i = 0; i < SIDES; i++) {
		sides[i].plans = count_plans(sides[i].align);
		align_end(sides[i].align);
	}
	align_counts(sides[PLANNED].align, &planned);
	align_counts(sides[UNPLANNED].align, &unplanned);
	if (sides[0].frames != sides[1].frames ||
		memcmp(sides[0].digest, sides[1].digest, sides[0].frames * sizeof(*sides[0].digest)) != 0)
		fail_msg("seed %llu: frames differ", (unsigned long long)seed);
	assert_int_equal(planned.frames, unplanned.frames);
	assert_int_equal(planned.ops, unplanned.ops);
	assert_int_equal(planned.coll_left_out, unplanned.coll_left_out);
	assert_int_equal(planned.late, unplanned.late);
	assert_int_equal(planned.dropped, unplanned.dropped);
}

static void run(uint64_t seed, unsigned odd)
{
	struct job job = {.odd = odd};

	random_state = mix(seed, odd);
	job.ranks = (int)(1 + any(RANKS / 2)) * 2;
	job.from_start = any(4) != 0;
	job.after = any(3) == 0;
	write_program(&job.program);
	for (int i = 0; i < COMMUNICATORS; i++) { /* now and then they go beyond 32 bits */
		uint64_t from = any(8) ? 0 : UINT32_MAX - any(PROGRAM_MAX * STEPS);

		for (int rank = 0; rank < job.ranks; rank++)
			job.seq[rank][i] = from;
	}
	memset(all_sent, 0, SENT_MAX * sizeof(*all_sent));
	for (int i = 0; i < SIDES; i++) {
		sides[i] = (struct side){0};
		sides[i].align = align_new(&(struct align_sink){.frame = on_frame, .arg = &sides[i]});
		assert_non_null(sides[i].align);
		for (int rank = 0; rank < job.ranks; rank++)
			join(&sides[i], &job, rank, BEGUN);
	}
	for (int rank = 0; rank < job.ranks; rank++) {
		job.at_ns[rank] = BEGUN;
		job.whatif[rank] = any(PROGRAM_MAX * 2);
		job.step[rank] = job.from_start ? 0 : (int64_t)any(3);
	}
	for (int step = 0; step < STEPS; step++) {
		for (int rank = 0; rank < job.ranks; rank++) {
			do_step(&job, rank);
			if (any(job.odd * 4) == 0)
				happen(&job, rank);
		}
		for (int i = 0; i < SIDES; i++) {
			align_advance(sides[i].align, BEGUN + (uint64_t)(step + 1) * 100 * MS);
			unplan(i);
		}
	}
	compare(seed);
	for (int i = 0; i < SIDES; i++)
		sides[i].align = align_free(sides[i].align);
}

TEST(steady_jobs)
{
	size_t plans = 0;

	for (uint64_t seed = 0; seed < 40; seed++) {
		run(seed, 1000000);
		assert_true(sides[0].frames >= STEPS && sides[0].ops > 0);
		assert_int_equal(sides[UNPLANNED].plans, 0);
		plans += sides[PLANNED].plans;
	}
	assert_true(plans > 40);
}

TEST(jobs_with_odd_steps)
{
	size_t ops = 0;

	for (uint64_t seed = 0; seed < 120; seed++) {
		run(seed, 400);
		ops += sides[0].ops;
	}
	assert_true(ops > 100000);
}

TEST(hostile_jobs)
{
	for (uint64_t seed = 0; seed < 120; seed++)
		run(seed, 3 + (unsigned)seed % 30);
}

static int set_up(void **state)
{
	all_sent = calloc(SENT_MAX, sizeof(*all_sent));
	return all_sent ? 0 : -1;
}

static int tear_down(void **state)
{
	free(all_sent);
	return 0;
}

TEST_MAIN(set_up, tear_down)
