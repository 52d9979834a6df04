/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/base/fair: places of several users. */
#include "daemon/base/fair.h"

#include "tests/test.h"

/* What users get who want counts[] items, one after the other. */
static void share(size_t places, const size_t *counts, size_t users, size_t *ret)
{
	struct fair fair = {0};

	for (uint32_t i = 0; i < users; i++)
		fair_count(&fair, 1000 + i, counts[i]);
	fair_share(&fair, places);
	for (uint32_t i = 0; i < users; i++)
		for (ret[i] = 0; ret[i] < counts[i] && fair_take(&fair, 1000 + i, 1);)
			ret[i]++;
}

TEST(test_parts)
{
	static const struct {
		size_t places, users, counts[4], gets[4];
	} cases[] = {
		{10, 1, {4}, {4}},
		{10, 1, {40}, {10}},
		{10, 2, {40, 3}, {7, 3}},
		{10, 2, {40, 50}, {5, 5}},
		{12, 4, {1, 100, 2, 50}, {1, 4, 2, 4}},
		{100, 3, {20, 30, 50}, {20, 30, 50}},
		{100, 3, {20, 31, 51}, {20, 31, 49}},
		{2, 3, {1, 1, 1}, {0, 0, 0}},
		{0, 1, {1}, {0}},
	};
	size_t gets[4];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		share(cases[i].places, cases[i].counts, cases[i].users, gets);
		for (size_t user = 0; user < cases[i].users; user++)
			assert_int_equal(gets[user], cases[i].gets[user]);
	}
}

/* What does not fit as a whole is not taken in part. */
TEST(test_whole)
{
	struct fair fair = {0};

	fair_count(&fair, 1, 30);
	fair_count(&fair, 2, 3);
	fair_share(&fair, 20);
	assert_false(fair_take(&fair, 1, 18));
	assert_true(fair_take(&fair, 1, 16));
	assert_false(fair_take(&fair, 1, 2));
	assert_true(fair_take(&fair, 1, 1));
	assert_true(fair_take(&fair, 2, 3));
}

/* Users beyond the table have one part together. */
TEST(test_many)
{
	struct fair fair = {0};
	size_t got = 0;

	for (uint32_t uid = 0; uid < 3 * FAIR_USERS_MAX; uid++)
		fair_count(&fair, uid, 10);
	fair_share(&fair, 2 * FAIR_USERS_MAX);
	for (uint32_t uid = 0; uid < 3 * FAIR_USERS_MAX; uid++)
		for (unsigned i = 0; i < 10; i++)
			got += fair_take(&fair, uid, 1);
	assert_int_equal(got, 2 * FAIR_USERS_MAX);
}

TEST_MAIN(NULL, NULL)
