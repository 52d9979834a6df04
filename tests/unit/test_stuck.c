/* SPDX-License-Identifier: Apache-2.0 */
/* What the judge of operations says of a communicator, as hangs are judged by it: who is to blame, and who waits. */
#define TEST_ALONE /* large tables: detection of leaks reads them in each run */
#include "analyzers/detect/stuck.h"
#include "tests/unit/coll_script.h"

#define RANKS 4

static struct coll *rank_coll_state[RANKS];
static struct coll_judged judged[RANKS];
static struct stuck stuck;

static int stop(void **state)
{
	for (size_t i = 0; i < RANKS; i++)
		rank_coll_state[i] = coll_free(rank_coll_state[i]);
	return done(state);
}

static void begin(void)
{
	n_rows = n_comms = 0;
	now = SECOND;
	for (size_t i = 0; i < RANKS; i++) {
		struct coll_event event = of_kind(call("nccl", "", 0xa0, 0xabc), COLL_COMM);

		set(&event, OP_FIELD_MEMBER, i);
		set(&event, OP_FIELD_MEMBERS, RANKS);
		rank_coll_state[i] = coll_free(rank_coll_state[i]);
		rank_coll_state[i] = new_ops();
		coll_feed(rank_coll_state[i], &event);
	}
}

static void calls(size_t rank, const char *op)
{
	struct coll_event event = all_reduce(8);

	event.op = op;
	coll_feed(rank_coll_state[rank], &event);
}

static bool snapshot(void)
{
	struct coll_verdict verdict;

	for (size_t i = 0; i < RANKS; i++) {
		judged[i] = (struct coll_judged){.rank = (int32_t)i, .ops = rank_coll_state[i]};
		assert_int_equal(coll_standings(rank_coll_state[i], &judged[i].standing, 1), 1);
	}
	coll_judge(judged, RANKS, now, STUCK_PATIENCE_NS, &verdict);
	return stuck_of(judged, RANKS, &verdict, now, &stuck);
}

static void assert_blamed(size_t rank)
{
	for (size_t i = 0; i < RANKS; i++) {
		assert_int_equal(stuck_is_culprit(&stuck, &judged[i]), i == rank);
		if (i == rank)
			assert_false(stuck_is_waiter(&stuck, &judged[i]));
	}
}

/* The others run ahead of it, each as far as its device lets it: then all but one are behind. */
TEST_WITH(of_a_mismatch_only_who_differs_is_to_blame, NULL, stop)
{
	begin();
	for (size_t i = 0; i < RANKS; i++)
		calls(i, i == 1 ? "Broadcast" : "AllReduce");
	assert_true(snapshot());
	assert_int_equal(stuck.state, COLL_STATE_TYPE_MISMATCH);
	assert_string_equal(stuck.called, "Broadcast 1 (32 B) instead of AllReduce (32 B)");
	assert_blamed(1);
	for (size_t i = 2; i < RANKS; i++)
		for (size_t n = 0; n < i; n++)
			calls(i, "AllReduce");
	now += 10 * SECOND;
	assert_true(snapshot());
	assert_int_equal(stuck.state, COLL_STATE_TYPE_MISMATCH);
	assert_true(judged[0].missing && judged[1].missing && judged[2].missing);
	assert_blamed(1);
	assert_true(stuck_is_waiter(&stuck, &judged[0]));
}

TEST_WITH(who_is_missing_is_to_blame, NULL, stop)
{
	begin();
	for (size_t i = 0; i < RANKS; i++)
		if (i != 2)
			calls(i, "AllReduce");
	assert_false(snapshot());
	now += 10 * SECOND;
	assert_true(snapshot());
	assert_int_equal(stuck.state, COLL_STATE_MISSING);
	assert_string_equal(stuck.called, "");
	assert_blamed(2);
	assert_true(stuck_is_waiter(&stuck, &judged[3]));
}

TEST_MAIN(NULL, NULL)
