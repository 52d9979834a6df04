/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of `drops` for records that did not reach the store: of a kind, and of a rank. */
#define TEST_ALONE /* replaces functions of the daemon */
#include <inttypes.h>

#include "daemon/collect/collect_internal.h"
#include "daemon/core/context.h"
#include "daemon/kernel/kernel.h"
#include "daemon/ranks/rank_budget.h"
#include "daemon/store/store.h"
#include "tests/test.h"

static uint64_t drops[RT_KIND_MAX], limited[2], refused;
static struct rank live[2];
static char rows[512];

uint64_t kernel_drops(const struct kernel *kernel, unsigned kind)
{
	return drops[kind];
}

uint64_t kernel_limited(const struct kernel *kernel, uint32_t slot)
{
	return limited[slot];
}

void rank_budget_use(const struct rank_budget *budget, const struct rank *rank, struct rank_budget_use *ret)
{
	*ret = (struct rank_budget_use){.refused = rank->slot == 1 ? refused : 0};
}

void ranks_each(const struct ranks *ranks, void (*callback)(void *arg, const struct rank *rank), void *arg)
{
	for (size_t i = 0; i < ARRAY_SIZE(live); i++)
		callback(arg, &live[i]);
}

const struct rank *ranks_by_slot(const struct ranks *ranks, uint32_t slot)
{
	return slot < ARRAY_SIZE(live) && live[slot].slot == slot ? &live[slot] : NULL;
}

uint64_t store_utc_ns(struct store *store, uint64_t time_ns)
{
	return time_ns;
}

static void add(const struct store_value *value)
{
	size_t used = strlen(rows);

	if (value->type == STORE_NULL)
		snprintf(rows + used, sizeof(rows) - used, "- ");
	else if (value->type == STORE_TEXT)
		snprintf(rows + used, sizeof(rows) - used, "%s ", value->text);
	else
		snprintf(rows + used, sizeof(rows) - used, "%" PRId64 " ", value->integer);
}

void store_put_values(struct store *store, enum schema_id table, const struct store_value *values)
{
	const struct row_drops *row = (const struct row_drops *)(const void *)values;

	assert_int_equal(table, TABLE_DROPS);
	add(&row->source.value);
	add(&row->count.value);
	add(&row->rank.value);
	add(&row->uid.value);
	add(&row->instance.value);
}

static const char *source(void *arg, unsigned kind)
{
	return kind == RT_KIND_CALL ? "call" : "other";
}

static struct losses *losses;
static struct context context;

static void expect(const char *text)
{
	assert_string_equal(rows, text);
	rows[0] = 0;
}

static int setup(void **state)
{
	context = (struct context){.config = {.ranks_max = 2},
		.kernel = (struct kernel *)&context,
		.store = (struct store *)&context,
		.ranks = (struct ranks *)&context,
		.started_ns = 5};
	for (uint32_t i = 0; i < 2; i++)
		live[i] = (struct rank){.slot = i, .uid = 1000 + i, .instance = 70 + i, .env = {.rank = (int32_t)i}};
	memset(drops, 0, sizeof(drops));
	memset(limited, 0, sizeof(limited));
	refused = 0;
	rows[0] = 0;
	losses = losses_new(&context);
	return losses ? 0 : -1;
}

static int teardown(void **state)
{
	losses = losses_free(losses);
	return 0;
}

TEST_WITH(losses_of_a_kind_are_nobodys, setup, teardown)
{
	losses_write(losses, source, NULL);
	expect("");
	drops[RT_KIND_CALL] = 3;
	losses_write(losses, source, NULL);
	expect("call 3 - - - ");
	losses_write(losses, source, NULL);
	expect("");
}

TEST_WITH(a_rank_loses_its_own, setup, teardown)
{
	limited[1] = 4;
	losses_write(losses, source, NULL);
	expect("kernel 4 1 1001 71 ");
	limited[1] = 9;
	refused = 2;
	losses_rank(losses, &live[1]);
	expect("kernel 5 1 1001 71 ranks 2 1 1001 71 ");
	losses_write(losses, source, NULL);
	expect("");
}

/* In rows, and since them; of ranks that have ended, and of those that have taken their slots. */
TEST_WITH(losses_of_ranks_add_up, setup, teardown)
{
	assert_int_equal(losses_of_ranks(losses), 0);
	limited[0] = 9;
	limited[1] = 4;
	assert_int_equal(losses_of_ranks(losses), 13);
	losses_rank(losses, &live[0]);
	assert_int_equal(losses_of_ranks(losses), 13);
	live[0].instance = 80;
	limited[0] = 2;
	assert_int_equal(losses_of_ranks(losses), 15);
}

/* A process that starts another program is the same rank in the same slot, of which nothing is counted yet. */
TEST_WITH(a_program_begins_anew, setup, teardown)
{
	limited[0] = 9;
	losses_rank(losses, &live[0]);
	expect("kernel 9 0 1000 70 ");
	limited[0] = 0;
	assert_int_equal(losses_of_ranks(losses), 9);
	limited[0] = 5;
	assert_int_equal(losses_of_ranks(losses), 14);
	losses_rank(losses, &live[0]);
	expect("kernel 5 0 1000 70 ");
	assert_int_equal(losses_of_ranks(losses), 14);
}

/* The slot's next rank begins with nothing lost; one without a number has NULL. */
TEST_WITH(a_slot_begins_anew, setup, teardown)
{
	limited[0] = 9;
	losses_rank(losses, &live[0]);
	expect("kernel 9 0 1000 70 ");
	live[0].instance = 80;
	live[0].env.rank = -1;
	limited[0] = 2;
	losses_rank(losses, &live[0]);
	expect("kernel 2 - 1000 80 ");
}

TEST_WITH(processes_without_a_slot_are_left_out, setup, teardown)
{
	limited[0] = limited[1] = 1;
	live[0].slot = UINT32_MAX;
	live[1].slot = 2;
	losses_write(losses, source, NULL);
	expect("");
}

TEST_WITH(once_a_minute, setup, teardown)
{
	assert_false(losses_due(losses, 5 + 60 * NSEC_PER_SEC - 1));
	assert_true(losses_due(losses, 5 + 60 * NSEC_PER_SEC));
	losses_write(losses, source, NULL);
	assert_false(losses_due(losses, monotonic_ns()));
}

TEST_MAIN(NULL, NULL)
