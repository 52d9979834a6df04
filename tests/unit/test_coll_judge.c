/* SPDX-License-Identifier: Apache-2.0 */
/* Where everybody stands: calls in flight, and verdicts over several ranks. */
#define TEST_ALONE /* large tables: detection of leaks reads them in each run */
#include "analyzers/coll/coll_judge.h"
#include "tests/unit/coll_script.h"

#define RANKS 16
#define PATIENCE (3 * SECOND)

static struct coll *rank_coll_state[RANKS];
static struct coll_judged judged[RANKS];
static struct coll_verdict verdict;

static void start_ranks(size_t n, uint32_t members, bool init_seen)
{
	for (size_t i = 0; i < RANKS; i++)
		rank_coll_state[i] = coll_free(rank_coll_state[i]);
	n_rows = n_comms = 0;
	now = SECOND;
	for (size_t i = 0; i < n; i++) {
		struct coll_event event = of_kind(call("nccl", "", 0xa0, 0xabc), COLL_COMM);

		set(&event, OP_FIELD_MEMBER, i);
		set(&event, OP_FIELD_MEMBERS, members);
		rank_coll_state[i] = new_ops();
		if (init_seen)
			coll_feed(rank_coll_state[i], &event);
	}
}

static int stop_ranks(void **state)
{
	start_ranks(0, 0, false);
	return done(state);
}

static void on(size_t rank, struct coll_event event)
{
	coll_feed(rank_coll_state[rank], &event);
}

static void judge(size_t n)
{
	for (size_t i = 0; i < n; i++) {
		judged[i] = (struct coll_judged){.rank = (int32_t)i, .ops = rank_coll_state[i]};
		assert_int_equal(coll_standings(rank_coll_state[i], &judged[i].standing, 1), 1);
	}
	coll_judge(judged, n, now, PATIENCE, &verdict);
}

static void round_of(size_t n, uint64_t count)
{
	for (size_t i = 0; i < n; i++)
		on(i, all_reduce(count));
}

TEST(a_stopped_rank_is_missing)
{
	start_ranks(4, 4, true);
	for (int i = 0; i < 117; i++)
		round_of(4, 1024 * 1024);
	judge(4);
	assert_int_equal(verdict.state, COLL_STATE_RUNNING);
	assert_int_equal(verdict.seq, 117);
	for (size_t i = 0; i < 4; i++) {
		if (i != 1)
			on(i, all_reduce(1024 * 1024));
	}
	now += 2 * SECOND;
	judge(4);
	assert_int_equal(verdict.state, COLL_STATE_RUNNING);
	assert_int_equal(judged[1].behind, 1);
	now += 5 * SECOND;
	judge(4);
	assert_int_equal(verdict.state, COLL_STATE_MISSING);
	assert_string_equal(coll_state_name(verdict.state), "MISSING_RANKS");
	assert_true(judged[1].missing && !judged[0].missing && !judged[2].missing);
	assert_int_equal(verdict.seq, 118);
	assert_string_equal(verdict.sentence, "rank 1 has not called AllReduce 118 (4 MiB) of communicator "
					      "0000000000000abc; ranks 0, 2, 3 have waited 7 s");
}

TEST(running_ahead_is_no_fault)
{
	start_ranks(2, 2, true);
	for (int i = 0; i < 100; i++)
		on(0, all_reduce(8));
	now += 10 * SECOND;
	for (int i = 0; i < 20; i++) {
		on(1, all_reduce(8));
		now += SECOND;
	}
	judge(2); /* it called something a second ago */
	assert_int_equal(verdict.state, COLL_STATE_RUNNING);
	assert_int_equal(judged[1].behind, 80);
	now += 3 * SECOND;
	judge(2);
	assert_int_equal(verdict.state, COLL_STATE_MISSING);
	assert_int_equal(verdict.seq, 21);
	assert_non_null(strstr(verdict.sentence, "number 21 of")); /* forgotten what it was */
	assert_true(verdict.waited_ns > 30 * SECOND);
}

TEST(a_peer_that_never_blocks_hides_nobody)
{
	start_ranks(2, 2, true);
	for (int i = 0; i < 20; i++)
		round_of(2, 8);
	for (int i = 0; i < 1000; i++) {
		on(0, all_reduce(8));
		now += SECOND / 200;
	}
	judge(2);
	assert_int_equal(verdict.state, COLL_STATE_MISSING);
	assert_true(judged[1].missing && !judged[0].missing);
	assert_int_equal(verdict.seq, 21);
	assert_in_range(verdict.waited_ns, 4 * SECOND, 6 * SECOND);
}

TEST(everybody_is_in_and_nothing_ends)
{
	start_ranks(2, 4, true);
	round_of(2, 8);
	now += 600 * SECOND;
	judge(2);
	assert_int_equal(verdict.state, COLL_STATE_RUNNING);
	assert_int_equal(verdict.here, 2);
	assert_int_equal(verdict.members, 4);
	assert_string_equal(verdict.sentence, "last call AllReduce 1 (32 B) of communicator 0000000000000abc, 10 min "
					      "old: 2 of 2 local members entered; 2 of 4 members are not on this node");
}

TEST(different_operations_and_sizes)
{
	struct coll_event other;

	start_ranks(16, 16, true);
	round_of(16, 8);
	other = all_reduce(8);
	other.op = "Broadcast";
	for (size_t i = 0; i < 16; i++)
		on(i, i == 3 || i >= 8 ? all_reduce(8) : other);
	judge(16);
	assert_int_equal(verdict.state, COLL_STATE_TYPE_MISMATCH);
	assert_string_equal(coll_state_name(verdict.state), "COLLECTIVE_TYPE_MISMATCH");
	assert_int_equal(verdict.seq, 2);
	assert_string_equal(verdict.sentence, "ranks 0-2, 4-7 called Broadcast 2 (32 B) of float32 of communicator "
					      "0000000000000abc where ranks 3, 8-15 "
					      "called AllReduce (32 B) of float32");
	assert_string_equal(verdict.called, "Broadcast 2 (32 B) instead of AllReduce (32 B)");
	start_ranks(4, 4, true);
	round_of(4, 8);
	for (size_t i = 0; i < 4; i++)
		on(i, all_reduce(i == 0 ? 1 << 20 : 8));
	judge(4);
	assert_int_equal(verdict.state, COLL_STATE_SIZE_MISMATCH);
	assert_string_equal(coll_state_name(verdict.state), "SIZE_OR_SYNTAX_MISMATCH");
	assert_true(judged[0].differs && !judged[1].differs);
	assert_non_null(strstr(verdict.sentence, "rank 0 called AllReduce 2 (4 MiB) of float32"));
	/* A rank that is missing before that is the reason. */
	start_ranks(4, 4, true);
	for (size_t i = 0; i < 3; i++) {
		on(i, all_reduce(8));
		on(i, all_reduce(8 + i));
	}
	now += 10 * SECOND;
	judge(4);
	assert_int_equal(verdict.state, COLL_STATE_MISSING);
	assert_int_equal(verdict.seq, 1);
	/* These may differ. */
	start_ranks(2, 2, true);
	for (size_t i = 0; i < 2; i++)
		on(i, sized(call("nccl", "AlltoAllV", 0xa0, 0xabc), i, 7));
	judge(2);
	assert_int_equal(verdict.state, COLL_STATE_RUNNING);
	/* Data types. */
	for (size_t i = 0; i < 2; i++)
		on(i, sized(call("nccl", "AllReduce", 0xa0, 0xabc), 1, 7 + i));
	judge(2);
	assert_int_equal(verdict.state, COLL_STATE_SIZE_MISMATCH);
	assert_string_equal(verdict.called, "AllReduce 2 of float64 instead of AllReduce of float32");
	/* It is complete on all: no harm was done. */
	start_ranks(2, 2, true);
	for (size_t i = 0; i < 2; i++) {
		struct coll_device device;
		struct coll_device hello = {.identity = 0xabc, .member = (uint32_t)i, .members = 2, .peer = -1};

		coll_feed_device(rank_coll_state[i], &hello);
		on(i, all_reduce(8 + i));
		device = record("AllReduce", 1, 8 + i);
		device.member = (uint32_t)i;
		coll_feed_device(rank_coll_state[i], &device);
	}
	judge(2);
	assert_int_equal(verdict.state, COLL_STATE_RUNNING);
	assert_non_null(strstr(verdict.sentence, "2 completed"));
}

TEST(only_what_has_the_same_numbers_is_compared)
{
	start_ranks(2, 2, false);
	for (int i = 0; i < 5; i++)
		on(0, all_reduce(8));
	on(1, sized(call("nccl", "Broadcast", 0xa0, 0xabc), 8, 7));
	now += 100 * SECOND;
	judge(2);
	assert_int_equal(verdict.state, COLL_STATE_RUNNING);
	assert_false(judged[0].compared);
	assert_non_null(strstr(verdict.sentence, "cannot be compared"));
	coll_judge(judged, 0, now, PATIENCE, &verdict);
	assert_string_equal(verdict.sentence, "");
	start_ranks(1, 2, true);
	judge(1);
	assert_non_null(strstr(verdict.sentence, "no calls yet"));
	assert_non_null(strstr(verdict.sentence, "1 of 2 members is not on this node"));
}

TEST(a_call_that_never_returns_is_entered)
{
	struct coll_event flying;
	struct coll_point point;

	start_ranks(2, 2, true);
	round_of(2, 8);
	flying = all_reduce(16);
	flying.end_ns = 0;
	coll_in_call_begin(rank_coll_state[0]);
	coll_in_call(rank_coll_state[0], &flying);
	now += 5 * SECOND;
	judge(2);
	assert_int_equal(judged[0].standing.entered.seq, 2);
	assert_int_equal(judged[0].standing.entered.bytes, 64);
	assert_int_equal(judged[0].standing.in_call_ns, flying.start_ns);
	assert_int_equal(verdict.state, COLL_STATE_MISSING);
	assert_true(judged[1].missing);
	assert_true(coll_at(rank_coll_state[0], "0000000000000abc", 2, &point));
	assert_false(coll_at(rank_coll_state[1], "0000000000000abc", 2, &point));
	assert_false(coll_at(rank_coll_state[0], "", 2, &point));
	assert_false(coll_at(rank_coll_state[0], "xyz", 2, &point));
	/* It returns: the record replaces it. An old snapshot of the kernel's map changes nothing. */
	flying.end_ns = now;
	on(0, flying);
	coll_in_call(rank_coll_state[0], &flying);
	judge(2);
	assert_int_equal(judged[0].standing.entered.seq, 2);
	assert_int_equal(judged[0].standing.in_call_ns, 0);
	/* The first call ever seen, and it hangs. */
	start_ranks(1, 2, false);
	flying.start_ns = now;
	coll_in_call(rank_coll_state[0], &flying);
	judge(1);
	assert_int_equal(judged[0].standing.entered.seq, 1);
	assert_string_equal(judged[0].standing.communicator, "0000000000000abc");
	coll_in_call_begin(rank_coll_state[0]);
	judge(1);
	assert_int_equal(judged[0].standing.entered.seq, 0);
}

TEST(a_group_that_is_not_closed_is_entered)
{
	struct coll_event close;

	start_ranks(1, 2, true);
	on(0, grouped(all_reduce(8)));
	on(0, grouped(all_reduce(8)));
	judge(1);
	assert_int_equal(judged[0].standing.entered.seq, 2);
	assert_int_equal(judged[0].standing.in_call_ns, 0);
	close = of_kind(call("nccl", "", 0, 0), COLL_GROUP);
	coll_in_call(rank_coll_state[0], &close);
	judge(1);
	assert_int_equal(judged[0].standing.in_call_ns, close.start_ns);
	close.start_ns -= 50;
	on(0, close);
	judge(1);
	assert_int_equal(judged[0].standing.in_call_ns, 0);
	coll_end(rank_coll_state[0]);
	assert_int_equal(n_rows, 2);
}

TEST(a_long_sentence_is_cut)
{
	static struct coll_judged many[2000];
	struct coll_judged *last = &many[1999];

	for (size_t i = 0; i < 2000; i++) {
		many[i] = (struct coll_judged){.rank = (int32_t)(2 * i),
			.standing = {.communicator = "abc",
				.members = 4000,
				.entered = {.seq = 1, .time_ns = 1, .bytes = COLL_UNKNOWN}}};
		memset(many[i].standing.name, 0xc3, sizeof(many[i].standing.name) - 1);
	}
	last->standing.entered.seq = 2;
	strcpy(last->standing.entered.op, "AllReduce");
	coll_judge(many, 2000, 100 * SECOND, PATIENCE, &verdict);
	assert_int_equal(verdict.state, COLL_STATE_MISSING);
	assert_true(strlen(verdict.sentence) > 200);
	assert_string_equal(verdict.sentence + strlen(verdict.sentence) - 3, "...");
}

#define MANY 10240

static struct coll_judged many[MANY];
static struct coll_point many_at[MANY];
static size_t recalled;

static bool recall(const void *arg, uint64_t seq, struct coll_point *ret)
{
	const struct coll_point *point = arg;

	recalled++;
	if (!seq || seq > point->seq)
		return false;
	*ret = *point;
	ret->seq = seq;
	return true;
}

static void many_of(size_t i, uint64_t seq, const char *op, uint64_t count)
{
	many_at[i] = (struct coll_point){.seq = seq, .count = count, .bytes = COLL_UNKNOWN, .time_ns = SECOND + i};
	strcpy(many_at[i].op, op);
	many[i] = (struct coll_judged){.rank = (int32_t)i,
		.recall = recall,
		.recall_arg = &many_at[i],
		.standing = {.communicator = "abc", .members = MANY, .entered = many_at[i]}};
}

static void judge_many(void)
{
	recalled = 0;
	coll_judge(many, MANY, 100 * SECOND, PATIENCE, &verdict);
}

/* What is asked of each member does not grow with their number. */
TEST(members_split_in_half_are_asked_a_few_times_each)
{
	for (size_t i = 0; i < MANY; i++)
		many_of(i, i % 2 ? 7 : 6, "AllReduce", 8);
	judge_many();
	assert_int_equal(verdict.state, COLL_STATE_MISSING);
	assert_int_equal(verdict.seq, 7);
	assert_true(many[0].missing && !many[1].missing);
	assert_true(recalled < 200 * MANY);
	/* They stand all over. */
	for (size_t i = 0; i < MANY; i++)
		many_of(i, 1 + i % COLL_RECENT, "AllReduce", 8);
	judge_many();
	assert_int_equal(verdict.state, COLL_STATE_MISSING);
	assert_int_equal(verdict.seq, 2);
	assert_true(recalled < 200 * MANY);
	for (size_t i = 0; i < MANY; i++)
		many_of(i, 8, i % 2 ? "AllReduce" : "Broadcast", 8);
	judge_many();
	assert_int_equal(verdict.state, COLL_STATE_TYPE_MISMATCH);
	assert_true(!many[0].differs && many[1].differs);
	assert_true(recalled < 200 * MANY);
}

/* The first ones all call something of their own: they are named, not those that agree. */
TEST(what_most_call_is_found_behind_many_others)
{
	for (size_t i = 0; i < MANY; i++)
		many_of(i, 2, "AllReduce", i < MANY / 4 ? 1000 + i : 8);
	judge_many();
	assert_int_equal(verdict.state, COLL_STATE_SIZE_MISMATCH);
	assert_true(many[0].differs && many[MANY / 4 - 1].differs);
	assert_true(!many[MANY / 4].differs && !many[MANY - 1].differs);
	for (size_t i = 0; i < MANY; i++)
		many_of(i, 2, "AllReduce", 1000 + i);
	judge_many();
	assert_int_equal(verdict.state, COLL_STATE_SIZE_MISMATCH);
	assert_true(recalled < 200 * MANY);
	coll_judge(many, COLL_MAJORITY_MAX + 1, 100 * SECOND, PATIENCE, &verdict);
	assert_int_equal(verdict.state, COLL_STATE_SIZE_MISMATCH);
	assert_true(many[0].differs && !many[COLL_MAJORITY_MAX].differs);
}

#define TOGETHER 32 /* of them and OTHERS, the latter call something else */
#define OTHERS 8

static void judge_others(enum coll_state state)
{
	coll_judge(many, TOGETHER + OTHERS, 100 * SECOND, PATIENCE, &verdict);
	assert_int_equal(verdict.state, state);
}

/* Each gives its own count, as it may. */
TEST(counts_that_may_differ_are_one_call)
{
	for (size_t i = 0; i < TOGETHER + OTHERS; i++)
		many_of(i, 2, i < TOGETHER ? "AlltoAllV" : "AllReduce", 1000 + i);
	judge_others(COLL_STATE_TYPE_MISMATCH);
	for (size_t i = 0; i < TOGETHER + OTHERS; i++)
		assert_int_equal(many[i].differs, i >= TOGETHER);
}

/* Unknown ones displace the others. */
TEST(somebody_is_named_where_counts_are_not_known)
{
	for (size_t i = 0; i < TOGETHER + OTHERS; i++)
		many_of(i, 2, "AllReduce", i < TOGETHER ? 1000 + i : COLL_UNKNOWN);
	judge_others(COLL_STATE_SIZE_MISMATCH);
	for (size_t i = 0; i < TOGETHER + OTHERS; i++)
		assert_int_equal(many[i].differs, i > 0 && i < TOGETHER);
	assert_non_null(strstr(verdict.called, "instead of AllReduce"));
}

TEST_MAIN(NULL, stop_ranks)
