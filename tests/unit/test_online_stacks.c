/* SPDX-License-Identifier: Apache-2.0 */
/* Which hangs have their stacks taken and kept: one user's, in any number, take no other's place. */
#define TEST_ALONE /* has a file of the daemon within */
#include "daemon/findings/online_stacks.c"

#include "tests/test.h"

static unsigned afforded(struct online_stacks *stacks, uint32_t uid, uint64_t now_ns, unsigned tries)
{
	unsigned count = 0;

	while (tries--)
		count += online_stacks_afford(stacks, uid, now_ns);
	return count;
}

TEST(test_budget)
{
	struct online_stacks stacks = {0};
	uint64_t now_ns = 1000 * NSEC_PER_SEC;

	assert_int_equal(afforded(&stacks, 1000, now_ns, 1), 1);
	assert_int_equal(afforded(&stacks, 666, now_ns, 100), ONLINE_STACKS_BURST);
	assert_int_equal(afforded(&stacks, 1000, now_ns, 100), ONLINE_STACKS_BURST - 1);
	now_ns += 3 * ONLINE_STACKS_NS;
	assert_int_equal(afforded(&stacks, 666, now_ns, 100), 3);
	/* Many users: those beyond the table share the budget that is used least. */
	for (uint32_t uid = 1; uid < ONLINE_STACKS_USERS - 1; uid++)
		assert_int_equal(afforded(&stacks, uid, now_ns, 100), ONLINE_STACKS_BURST);
	assert_int_equal(afforded(&stacks, 5000, now_ns, 100), 3);
	assert_int_equal(afforded(&stacks, 5001, now_ns, 100), 0);
}

TEST(test_places)
{
	struct online_stacks stacks = {0};
	uint64_t id = 1;
	int victim;

	victim = online_stacks_place(&stacks);
	stacks.hang[victim].id = id++;
	stacks.hang[victim].last.uid = 1000;
	for (unsigned i = 0; i < 5 * ONLINE_STACKS_MAX; i++) {
		int at = online_stacks_place(&stacks);

		assert_int_not_equal(at, victim);
		stacks.hang[at].id = id++;
		stacks.hang[at].last.uid = 666;
	}
	/* Of one user, the oldest. */
	for (unsigned i = 0; i < ONLINE_STACKS_MAX; i++) {
		int at = online_stacks_place(&stacks);
		uint64_t oldest = UINT64_MAX;

		for (unsigned j = 0; j < ONLINE_STACKS_MAX; j++)
			if (stacks.hang[j].last.uid == 666 && stacks.hang[j].id < oldest)
				oldest = stacks.hang[j].id;
		assert_int_equal(stacks.hang[at].id, oldest);
		stacks.hang[at].id = id++;
	}
}

/* Stacks name who is missing where stages name nobody, as sure as these are of a rank in a stage of its own work. */
TEST(test_name)
{
	struct online *online = calloc(1, sizeof(*online));
	struct finding finding = {.id = 7, .kind = FINDING_HANG, .rank = -1, .cause = CAUSE_UNKNOWN, .confidence = 0.5};
	struct finding known = {.id = 7, .kind = FINDING_HANG, .rank = 1, .cause = CAUSE_MISSING, .confidence = 0.97};

	assert_non_null(online);
	online->stacks.hang[2].id = 7;
	online->stacks.hang[2].missing = true;
	online->stacks.hang[2].rank = 3;
	(void)copy_text(online->stacks.hang[2].host, sizeof(online->stacks.hang[2].host), "node3");
	(void)copy_text(online->stacks.hang[2].sentence, sizeof(online->stacks.hang[2].sentence), "rank 3 is alone");
	online_stacks_add(online, &finding);
	assert_int_equal(finding.rank, 3);
	assert_int_equal(finding.cause, CAUSE_MISSING);
	assert_true(finding.confidence == 0.9);
	assert_string_equal(finding.host, "node3");
	assert_non_null(strstr(finding.sentence, "; rank 3 is alone"));
	online_stacks_add(online, &known);
	assert_int_equal(known.rank, 1);
	assert_true(known.confidence == 0.97);
	free(online);
}

TEST_MAIN(NULL, NULL)
