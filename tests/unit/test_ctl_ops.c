/* SPDX-License-Identifier: Apache-2.0 */
/* tracectl ops while L1 is off: ranks by their stages. */
#include "ctl/ops_stages.h"

#include "tests/test.h"

#define SECOND 1000000000ULL
#define RANKS 200

static Ranktrace__Rank rank[RANKS];
static Ranktrace__Rank *ranks[RANKS];
static Ranktrace__RanksBody body;
static struct ops_stage stage[OPS_STAGES_MAX];
static const struct ranges all;

static void add(int32_t number, const char *in, uint64_t for_s)
{
	Ranktrace__Rank *one = &rank[body.n_ranks];

	ranktrace__rank__init(one);
	one->rank = number;
	one->role = (char *)"rank";
	one->job = (char *)"a job";
	one->stage = (char *)in;
	one->stage_name = (char *)"";
	one->state = (char *)"sleeping";
	one->stage_for_ns = for_s * SECOND;
	ranks[body.n_ranks++] = one;
}

static int setup(void **state)
{
	ranktrace__ranks_body__init(&body);
	body.ranks = ranks;
	return 0;
}

/* One in its data loader, whom the others wait for. */
TEST_WITH(test_groups, setup, NULL)
{
	struct ranges some = {0};
	json_t *rows;

	for (int32_t i = 0; i < 8; i++)
		add(i, i == 3 ? "dataloader" : "backward", i == 3 ? 47 : 40 + (uint64_t)i % 4);
	add(8, "backward", 1);
	rank[8].role = (char *)"child";
	assert_int_equal(ops_stages_group(&body, &all, stage), 2);
	assert_string_equal(stage[0].list, "3");
	assert_string_equal(stage[0].first->stage, "dataloader");
	assert_string_equal(stage[1].list, "0-2,4-7");
	assert_int_equal(stage[1].ranks, 7);
	assert_true(stage[1].least_ns == 40 * SECOND && stage[1].most_ns == 43 * SECOND);
	assert_int_equal(ranges_parse("1-2", &some), 0);
	assert_int_equal(ops_stages_group(&body, &some, stage), 1);
	assert_string_equal(stage[0].list, "1-2");
	rows = ops_stages_json(&body, &all);
	assert_int_equal(json_array_size(rows), 2);
	assert_string_equal(json_string_value(json_object_get(json_array_get(rows, 1), "ranks")), "0-2,4-7");
	assert_int_equal(json_integer_value(json_object_get(json_array_get(rows, 1), "for_ns_max")), 43 * SECOND);
	json_decref(rows);
}

/* Another job, state or name is another group; what is too long is cut. */
TEST_WITH(test_bounds, setup, NULL)
{
	static char name[RANKS][8];

	assert_int_equal(ops_stages_group(&body, &all, stage), 0);
	for (int32_t i = 0; i < 100; i++)
		add(2 * i, "backward", 1);
	assert_int_equal(ops_stages_group(&body, &all, stage), 1);
	assert_string_equal(stage[0].list + strlen(stage[0].list) - 3, "...");
	rank[7].state = (char *)"stopped";
	rank[8].job = (char *)"";
	assert_int_equal(ops_stages_group(&body, &all, stage), 3);
	for (size_t i = 0; i < 100; i++) {
		snprintf(name[i], sizeof(name[i]), "%zu", i);
		rank[i].stage_name = name[i];
	}
	assert_int_equal(ops_stages_group(&body, &all, stage), OPS_STAGES_MAX);
	assert_true(stage[0].ranks + stage[OPS_STAGES_MAX - 1].ranks >= 2);
}

TEST_MAIN(NULL, NULL)
