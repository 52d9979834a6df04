/* SPDX-License-Identifier: Apache-2.0 */
/* measure.h: which operations held a rank, where others overlap them, and how long a transfer takes where a record is
 * missing. */
#include "tests/unit/measure_fixture.h"

#define MS 1000000LL
#define US 1000LL
#define GROUPS 128
#define OPS (3 * GROUPS)

static struct frame_comm comm;
static struct frame_group group[GROUPS];
static struct frame_op op[OPS];
static size_t groups, ops;

static void script(uint32_t members)
{
	comm = (struct frame_comm){"pipeline", COMM_KIND_PIPELINE, members};
	groups = ops = 0;
}

static uint32_t meet(bool p2p)
{
	group[groups] =
		(struct frame_group){.members = p2p ? 2 : comm.members, .bytes = 8, .op = p2p ? 2 : 1, .p2p = p2p};
	return (uint32_t)groups++;
}

static void call(uint32_t rank, uint32_t of, int64_t start_ns, int64_t length_ns)
{
	assert_true(ops < OPS);
	op[ops++] = (struct frame_op){of, rank, start_ns, (uint64_t)length_ns};
}

/* Operations of rank 0 were called first, and so on. */
static const struct measures *measured(void)
{
	static const struct frame_who who[] = {{.rank = 0}, {.rank = 1}, {.rank = 2}};
	const struct frame_rank rank[] = {{.here = true, .step_ns = 10000 * MS}, {.here = true, .step_ns = 10000 * MS},
		{.here = true, .step_ns = 10000 * MS}};
	const struct frame frame = {.tier = FRAME_TIER_HOST,
		.world_size = comm.members,
		.ranks = comm.members,
		.who = who,
		.rank = rank,
		.comms = 1,
		.comm = &comm,
		.groups = groups,
		.group = group,
		.ops = ops,
		.op = op};
	const struct measures *ret;

	assert_int_equal(measure_frame(measure, &frame, &ret), 0);
	return ret;
}

/* Rank 0 waits in an operation of that length for rank 1, which takes 1 us of it, and begins another one so long before
 * it has ended. */
static int64_t waited(int64_t length_ns, int64_t early_ns)
{
	uint32_t first, second;

	script(2);
	first = meet(false);
	second = meet(false);
	call(0, first, 0, length_ns);
	call(0, second, length_ns - early_ns, US);
	call(1, first, length_ns - US, US);
	call(1, second, length_ns - early_ns, US);
	return (int64_t)measured()->rank[0].wait_ns;
}

/* A 64th of it early, at least 10 us and at most 1 ms, is how it is timed; earlier than that, it held nobody. */
TEST_WITH(what_begins_a_little_early_has_waited, start, stop)
{
	static const struct {
		int64_t length_ns, early_ns;
		bool waits;
	} cases[] = {{100 * US, 8 * US, true}, {100 * US, 13 * US, false}, {10 * MS, 140 * US, true},
		{10 * MS, 180 * US, false}, {1000 * MS, 900 * US, true}, {1000 * MS, 1200 * US, false}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int64_t ns = waited(cases[i].length_ns, cases[i].early_ns);

		/* Else from then on. */
		if (ns != (cases[i].waits ? cases[i].length_ns : cases[i].early_ns) - US)
			fail_msg("%lld of %lld ns early: waited %lld ns", (long long)cases[i].early_ns,
				(long long)cases[i].length_ns, (long long)ns);
	}
}

/* So many frames of so many sends of rank 0, over each of which an operation begins; over one in `each`, that one ends
 * and another begins. */
static bool sends_overlap(unsigned frames, unsigned sends, unsigned each)
{
	const struct measures *got = NULL;
	int64_t at = 0;

	(void)stop(NULL);
	(void)start(NULL);
	script(2);
	for (unsigned s = 0; s < sends; s++, at += 100 * MS) {
		uint32_t of = meet(true), one = meet(false), two = meet(false);

		call(0, of, at, 50 * MS);
		call(0, one, at + 10 * MS, MS);
		call(0, two, at + (s % each ? 60 : 20) * MS, MS);
	}
	for (uint32_t i = 0; i < groups; i++)
		call(1, i, op[i].start_ns, MS);
	while (frames--)
		got = measured();
	return got->sends_overlap;
}

TEST_WITH(sends_that_others_begin_over_are_no_waits, start, stop)
{
	assert_true(sends_overlap(40, 4, 1));
	assert_false(sends_overlap(5, 4, 1));	/* too few are known */
	assert_false(sends_overlap(100, 2, 1)); /* and forgotten */
	assert_true(sends_overlap(40, 16, 6));
	assert_false(sends_overlap(40, 16, 16));
}

/* Of three whole operations it is the mean; of fewer, the shortest. */
TEST_WITH(a_transfer_with_a_missing_record_takes_as_long_as_its_peers, start, stop)
{
	for (unsigned whole = 1; whole <= 3; whole++) {
		uint32_t part;

		script(3);
		for (unsigned i = 0; i < whole; i++)
			(void)meet(false);
		part = meet(false);
		for (uint32_t r = 0; r < 3; r++) {
			for (unsigned i = 0; i < whole; i++)
				call(r, i, (i * 20 + r) * MS, (2 * i + 1) * MS + (2 - r) * MS);
			if (r < 2)
				call(r, part, (100 + r) * MS, 9 * MS);
		}
		assert_int_equal(measured()->group[part].transfer_ns, whole < 3 ? MS : 3 * MS);
	}
}

TEST_MAIN(NULL, NULL)
