/* SPDX-License-Identifier: Apache-2.0 */
/* Hung jobs where operations show the missing rank; mismatches; cost; and impossible snapshots. */
#include "tests/unit/hang_script.h"

static uint32_t one_culprit[2], some_waiters[RANKS];

static struct stuck missing(uint32_t culprit, size_t waiters, const char *communicator)
{
	struct stuck ret = {
		.state = COLL_STATE_MISSING, .seq = 118, .culprits = 1, .waiters = waiters, .waiter = some_waiters};

	one_culprit[snapshot.stucks] = culprit;
	ret.culprit = &one_culprit[snapshot.stucks];
	snprintf(ret.communicator, sizeof(ret.communicator), "%s", communicator);
	snprintf(ret.sentence, sizeof(ret.sentence),
		"rank %u has not called AllReduce 118 of communicator %s; all others wait", culprit, communicator);
	return ret;
}

TEST_WITH(operations_say_who_is_missing, begin_idle, end)
{
	snapshot.operations = true;
	stuck[0] = missing(4, 0, "aaaa"); /* in its backward, as all are */
	snapshot.stucks = 1;
	assert_in_range(seconds(30), 10, 30);
	assert_int_equal(said[0].finding.rank, 4);
	assert_int_equal(said[0].finding.cause, CAUSE_MISSING);
	assert_string_equal(
		said[0].finding.communicator, ""); /* or it would be another finding than the one before L1 was on */
	standing[4].ended = true;
	seconds(1);
	assert_int_equal(said[0].finding.cause, CAUSE_ENDED);
	/* It evaluates: it is late, and lives. */
	standing[4].ended = false;
	for (unsigned i = 0; i < 20; i++) {
		standing[4].progress_ns = snapshot.now_ns;
		assert_int_equal(seconds(5), 0);
	}
}

TEST_WITH(a_chain_of_waits_ends_at_its_cause, begin_idle, end)
{
	/* 2 waits for 3 in one communicator, so 0 waits for 2 in another. */
	stuck[0] = missing(2, 1, "aaaa");
	snapshot.stucks = 1;
	stuck[1] = missing(3, 1, "bbbb");
	snapshot.stucks = 2;
	some_waiters[0] = 0;
	some_waiters[1] = 2;
	stuck[1].waiter = &some_waiters[1];
	assert_in_range(seconds(30), 10, 30);
	assert_int_equal(n_said, 1);
	assert_int_equal(said[0].finding.rank, 3);
	/* A circle: both are to be named. */
	stuck[0].waiter = &some_waiters[0];
	some_waiters[0] = 3;
	seconds(1);
	assert_int_equal(said[0].finding.rank, -1);
	assert_string_equal(said[0].finding.others, "102,103");
}

/* Who waits is known of one communicator only: who is missing there waits nowhere, of the other that cannot be said. */
TEST_WITH(who_is_known_not_to_wait_is_named_first, begin_idle, end)
{
	stuck[0] = missing(5, 0, "aaaa");
	snapshot.stucks = 1;
	stuck[1] = missing(3, 1, "bbbb");
	snapshot.stucks = 2;
	some_waiters[0] = 0;
	standing[5].stage = STAGE_OPTIMIZER;
	assert_in_range(seconds(30), 10, 30);
	assert_int_equal(said[0].finding.rank, 3);
}

TEST_WITH(all_have_entered_and_it_does_not_end, begin_idle, end)
{
	stuck[0] = (struct stuck){.state = COLL_STATE_RUNNING, .communicator = "aaaa", .seq = 9, .all_entered = true};
	snapshot.stucks = 1;
	assert_in_range(seconds(30), 10, 30);
	assert_int_equal(said[0].finding.rank, -1);
	assert_int_equal(said[0].finding.cause, CAUSE_COMMUNICATION);
	standing[6].state = 'T'; /* it was, after it had entered */
	seconds(1);
	assert_int_equal(said[0].finding.rank, 6);
	assert_int_equal(said[0].finding.cause, CAUSE_STOPPED);
}

TEST_WITH(a_mismatch_is_reported_at_once, begin_idle, end)
{
	static const uint32_t two[] = {1, 2};

	stuck[0] = missing(6, 0, "aaaa");
	stuck[0].state = COLL_STATE_SIZE_MISMATCH;
	snapshot.stucks = 1;
	assert_int_equal(seconds(1), 1);
	assert_int_equal(said[0].finding.kind, FINDING_MISMATCH);
	assert_int_equal(said[0].finding.cause, CAUSE_SIZE_MISMATCH);
	assert_int_equal(said[0].finding.rank, 6);
	assert_string_equal(said[0].finding.communicator, "aaaa");
	stuck[0].state = COLL_STATE_TYPE_MISMATCH;
	stuck[0].culprit = two;
	stuck[0].culprits = 2;
	seconds(60);
	assert_int_equal(n_said, 1);
	assert_int_equal(said[0].finding.cause, CAUSE_TYPE_MISMATCH);
	assert_int_equal(said[0].finding.rank, -1);
	assert_string_equal(said[0].finding.others, "101,102");
}

TEST_WITH(every_second_is_lost_once, begin_idle, end)
{
	double lost = 0;

	standing[3].state = 'T';
	for (unsigned i = 0; i < 100; i++) {
		seconds(1);
		for (size_t k = 0; k < n_said; k++)
			lost += said[k].lost_ns;
	}
	assert_true(lost == 100e9);
	/* It goes on, and stops again: what lay between is not lost. */
	standing[3].progress_ns = snapshot.now_ns += 50 * SECOND;
	seconds(20);
	n_said = 0;
	lost = 0;
	standing[3].progress_ns = snapshot.now_ns;
	for (unsigned i = 0; i < 20; i++) {
		seconds(1);
		for (size_t k = 0; k < n_said; k++)
			lost += said[k].lost_ns;
	}
	assert_true(lost == 20e9);
}

TEST_WITH(what_cannot_be_is_no_harm, begin_idle, end)
{
	static const uint32_t far[] = {4000000000U, 9};

	for (size_t i = 0; i < RANKS; i++) {
		standing[i].rank = i % 2 ? 4000000000U : 3;
		standing[i].stage = (enum stage_kind)77;
		standing[i].stage_since_ns = UINT64_MAX;
	}
	stuck[0] = (struct stuck){.state = 1000, .culprits = 2, .culprit = far, .waited_ns = UINT64_MAX / 2};
	stuck[1] = (struct stuck){.state = COLL_STATE_MISSING,
		.culprits = 2,
		.culprit = far,
		.waiters = 2,
		.waiter = far,
		.waited_ns = UINT64_MAX / 2};
	stuck[2] = stuck[1];
	stuck[2].state = COLL_STATE_TYPE_MISMATCH;
	snapshot.stucks = 3;
	snapshot.step_ns = snapshot.checkpoint_ns = UINT64_MAX - 1;
	seconds(50);
	snapshot.step_ns = 1;
	seconds(50);
	snapshot.now_ns = 5; /* a clock that went back */
	seconds(50);
	snapshot.ranks = 0;
	seconds(5);
	snapshot.ranks = RANKS;
	for (size_t i = 0; i < RANKS; i++)
		standing[i].progress_ns = 0;
	snapshot.stucks = 0;
	seconds(2000);
	assert_int_equal(n_said, 0); /* nothing was ever seen of them */
}

TEST_MAIN(NULL, NULL)
