/* SPDX-License-Identifier: Apache-2.0 */
/* The request `ops`: contents of a snapshot, filters, and that the answer fits into a frame. */
#define TEST_ALONE /* replaces functions of the daemon */
#include "daemon/core/context.h"
#include "daemon/control/request.h"
#include "proto/frame.h"
#include "tests/test.h"
#include "tests/unit/control_fixture.h"

static struct context context;
static const struct request_peer root = {.fd = -1};

static Ranktrace__Response *ask(const Ranktrace__RankRange *range, size_t ranges)
{
	Ranktrace__Request request = RANKTRACE__REQUEST__INIT;
	Ranktrace__RankRange *list[REQUEST_ITEMS_MAX + 1];
	Ranktrace__Response *response;

	for (size_t i = 0; i < ranges; i++)
		list[i] = (Ranktrace__RankRange *)&range[i];
	request.version = FRAME_VERSION;
	request.type = RANKTRACE__REQUEST_TYPE__REQUEST_OPS;
	request.ranks = list;
	request.n_ranks = ranges;
	response = request_answer(&context, &root, &request);
	assert_non_null(response);
	return response;
}

static int setup(void **state)
{
	memset(&context, 0, sizeof(context));
	levels_defaults(&context.levels);
	context.levels.on[LEVEL_L1] = true;
	context.ops = (struct rank_coll *)&context;
	context.ranks = (struct ranks *)&context;
	return 0;
}

TEST_WITH(test_off, setup, NULL)
{
	Ranktrace__Response *response;

	context.levels.on[LEVEL_L1] = false;
	response = ask(NULL, 0);
	assert_int_equal(response->error, 0);
	assert_false(response->ops->on);
	assert_int_equal(response->ops->n_communicators, 0);
	response_free(response);
}

/* Whatever there is fits, and what does not is counted. */
TEST_WITH(test_all, setup, NULL)
{
	Ranktrace__Response *response = ask(NULL, 0);
	const Ranktrace__OpsBody *body = response->ops;
	size_t members = 0;

	assert_int_equal(response->error, 0);
	assert_true(ranktrace__response__get_packed_size(response) <= FRAME_BYTES_MAX);
	for (size_t i = 0; i < body->n_communicators; i++)
		members += body->communicators[i]->n_ranks;
	assert_true(members > 500);
	assert_int_equal(members + body->left_out, COLL_SNAPSHOT_MEMBERS_MAX);
	assert_int_equal(body->communicators[0]->here, 2);
	assert_int_equal(body->communicators[0]->members, 3);
	assert_string_equal(body->communicators[0]->state, "RUNNING");
	assert_string_equal(body->communicators[0]->ranks[0]->seq_from, "init");
	assert_false(body->communicators[0]->ranks[0]->missing);
	assert_true(body->communicators[0]->ranks[1]->missing);
	assert_true(body->communicators[0]->ranks[0]->entered->bytes_known);
	assert_false(body->communicators[0]->ranks[0]->completed->bytes_known);
	assert_int_equal(strlen(body->communicators[0]->sentence), 511);
	response_free(response);
}

/* Of the ranks asked for: their communicators, and of these only their members. */
TEST_WITH(test_some, setup, NULL)
{
	const Ranktrace__RankRange range[] = {
		{.base = PROTOBUF_C_MESSAGE_INIT(&ranktrace__rank_range__descriptor), .first = 1, .last = 1},
		{.base = PROTOBUF_C_MESSAGE_INIT(&ranktrace__rank_range__descriptor), .first = 6, .last = 9},
	};
	Ranktrace__Response *response = ask(range, 2);
	const Ranktrace__OpsBody *body = response->ops;
	unsigned seen = 0;

	assert_int_equal(response->error, 0);
	for (size_t i = 0; i < body->n_communicators; i++)
		for (size_t j = 0; j < body->communicators[i]->n_ranks; j++)
			seen |= 1u << body->communicators[i]->ranks[j]->rank;
	assert_int_equal(seen, 1u << 1 | 1u << 6 | 1u << 7);
	seen = 0;
	for (size_t i = 0; i < body->n_calls; i++)
		seen |= 1u << body->calls[i]->rank;
	assert_int_equal(seen, 1u << 1 | 1u << 6 | 1u << 7);
	assert_string_equal(body->calls[0]->op, "AllReduce");
	response_free(response);
}

TEST_WITH(test_bad_ranges, setup, NULL)
{
	const Ranktrace__RankRange bad[] = {
		{.base = PROTOBUF_C_MESSAGE_INIT(&ranktrace__rank_range__descriptor), .first = 3, .last = 1},
		{.base = PROTOBUF_C_MESSAGE_INIT(&ranktrace__rank_range__descriptor), .first = -1, .last = 1},
	};
	Ranktrace__RankRange many[REQUEST_ITEMS_MAX + 1];
	Ranktrace__Response *response;

	for (size_t i = 0; i < ARRAY_SIZE(many); i++)
		many[i] = (Ranktrace__RankRange)RANKTRACE__RANK_RANGE__INIT;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		response = ask(&bad[i], 1);
		assert_int_equal(response->error, EINVAL);
		response_free(response);
	}
	response = ask(many, ARRAY_SIZE(many));
	assert_int_equal(response->error, EINVAL);
	response_free(response);
	response = ask(many, ARRAY_SIZE(many) - 1);
	assert_int_equal(response->error, 0);
	response_free(response);
}

TEST_MAIN(NULL, NULL)
