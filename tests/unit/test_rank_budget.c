/* SPDX-License-Identifier: Apache-2.0 */
/* Shares of ranks: memory of the daemon, places in the rank table. The greediest rank of the greediest user pays. */
#define TEST_ALONE /* replaces functions of the daemon */
#include "daemon/core/limits.h"
#include "daemon/ranks/rank_budget.h"
#include "tests/unit/ranks_fixture.h"

#define BUDGET_BYTES 1000

static unsigned shed[RANKS_MAX];

static void count_shed(void *arg, uint32_t slot)
{
	assert_in_range(slot, 0, RANKS_MAX - 1);
	shed[slot]++;
}

static struct rank_budget *budget_new(void)
{
	struct rank_budget *budget = NULL;

	memset(shed, 0, sizeof(shed));
	t.context.ranks = t.ranks;
	assert_int_equal(rank_budget_new(&t.context, BUDGET_BYTES, &budget), 0);
	rank_budget_part(budget, RANK_BUDGET_STEPS, count_shed, NULL);
	return budget;
}

/* Two ranks of user 1, one of user 2. */
static void put_ranks(const struct rank *ret[3])
{
	PUT(100, 1, 100, TORCH, .uid = 1, ENV("RANK=0\0WORLD_SIZE=2"));
	PUT(101, 1, 101, TORCH, .uid = 1, ENV("RANK=1\0WORLD_SIZE=2"));
	PUT(102, 1, 102, TORCH, .uid = 2, ENV("RANK=0\0WORLD_SIZE=1"));
	assert_int_equal(ranks_scan(t.ranks), 0);
	for (uint32_t i = 0; i < 3; i++) {
		ret[i] = ranks_by_pid(t.ranks, 100 + i);
		assert_non_null(ret[i]);
	}
}

TEST_WITH(the_greediest_rank_of_the_greediest_user_loses_its_state, setup, teardown)
{
	struct rank_budget *budget = budget_new();
	struct rank_budget_use use;
	const struct rank *rank[3];

	put_ranks(rank);
	/* The largest rank is that of user 2, the largest user is 1. */
	rank_budget_set(budget, RANK_BUDGET_STEPS, rank[2], 450);
	rank_budget_set(budget, RANK_BUDGET_STEPS, rank[0], 200);
	rank_budget_set(budget, RANK_BUDGET_COLL, rank[0], 50);
	rank_budget_set(budget, RANK_BUDGET_STEPS, rank[1], 300);
	assert_int_equal(rank_budget_bytes(budget), BUDGET_BYTES);
	assert_true(rank_budget_admits(budget, rank[1]));
	assert_false(rank_budget_is_frozen(budget, rank[1]));
	assert_string_equal(ranks_suspicion(t.ranks, 1), "");

	rank_budget_set(budget, RANK_BUDGET_STEPS, rank[0], 201);
	assert_int_equal(shed[rank[0]->slot], 0);
	assert_int_equal(shed[rank[1]->slot], 1);
	assert_int_equal(shed[rank[2]->slot], 0);
	assert_int_equal(rank_budget_bytes(budget), 701);
	assert_false(rank_budget_admits(budget, rank[1]));
	assert_true(rank_budget_admits(budget, rank[0]));
	assert_true(rank_budget_admits(budget, rank[2]));
	rank_budget_use(budget, rank[1], &use);
	assert_true(use.frozen);
	assert_int_equal(use.refused, 1);
	assert_true(rank_budget_is_frozen(budget, rank[1])); /* counts nothing */
	rank_budget_use(budget, rank[1], &use);
	assert_int_equal(use.refused, 1);
	assert_int_equal(use.bytes, 0);
	assert_string_not_equal(ranks_suspicion(t.ranks, 1), "");
	assert_string_equal(ranks_suspicion(t.ranks, 2), "");
	rank_budget_free(budget);
}

/* Whatever user 1 does, user 2 with his half or less loses nothing. */
TEST_WITH(a_user_within_his_part_never_pays, setup, teardown)
{
	struct rank_budget *budget = budget_new();
	const struct rank *rank[3];

	put_ranks(rank);
	rank_budget_set(budget, RANK_BUDGET_STEPS, rank[2], BUDGET_BYTES / 2);
	for (uint64_t bytes = 1; bytes < 10 * BUDGET_BYTES; bytes += 7) {
		rank_budget_set(budget, RANK_BUDGET_STEPS, rank[bytes % 2], bytes % BUDGET_BYTES + 1);
		assert_true(rank_budget_bytes(budget) <= BUDGET_BYTES);
	}
	assert_true(shed[rank[0]->slot] + shed[rank[1]->slot] > 0);
	assert_int_equal(shed[rank[2]->slot], 0);
	assert_true(rank_budget_admits(budget, rank[2]));
	rank_budget_free(budget);
}

TEST_WITH(an_ended_rank_gives_its_memory_back, setup, teardown)
{
	struct rank_budget *budget = budget_new();
	const struct rank *rank[3];

	put_ranks(rank);
	rank_budget_set(budget, RANK_BUDGET_STEPS, rank[0], 400);
	rank_budget_set(budget, RANK_BUDGET_ALLOCS, rank[2], 300);
	ranks_on_exit(t.ranks, 100, 0);
	assert_int_equal(rank_budget_bytes(budget), 300);
	ranks_on_exit(t.ranks, 102, 0);
	assert_int_equal(rank_budget_bytes(budget), 0);
	rank_budget_free(budget);
}

static void fill(uint32_t uid, uint32_t first_pid, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		PUT(first_pid + i, 1, 100 + first_pid + i, TORCH, .uid = uid, ENV("RANK=0\0WORLD_SIZE=1"));
	assert_int_equal(ranks_scan(t.ranks), 0);
}

/* One user has filled the table: another one's ranks are traced until both have as many. */
TEST_WITH(a_full_table_makes_way, setup, teardown)
{
	fill(1, 1000, RANKS_MAX + 3);
	assert_int_equal(ranks_of_user(t.ranks, 1), RANKS_MAX);
	fill(2, 3000, 3);
	assert_int_equal(ranks_of_user(t.ranks, 2), 3);
	assert_int_equal(ranks_of_user(t.ranks, 1), RANKS_MAX - 3);
	assert_int_equal(ranks_users(t.ranks), 2);
	assert_string_not_equal(ranks_suspicion(t.ranks, 1), "");
	fill(2, 4000, RANKS_MAX);
	assert_int_equal(ranks_of_user(t.ranks, 2), RANKS_MAX / 2);
	assert_int_equal(ranks_of_user(t.ranks, 1), RANKS_MAX / 2);
	assert_int_equal(ranks_count(t.ranks, RANK_ROLE_RANK), RANKS_MAX);
}

TEST_MAIN(NULL, NULL)
