/* SPDX-License-Identifier: Apache-2.0 */
/* What a user without rights learns: of ranks only its own, and no sentence that names files or processes of others. */
#define TEST_ALONE /* replaces functions of the daemon */
#include "daemon/core/context.h"
#include "daemon/control/request.h"
#include "proto/frame.h"
#include "tests/test.h"
#include "tests/unit/control_fixture.h"

static struct context context;
static const struct request_peer root = {.fd = -1};
static const struct request_peer stranger = {.uid = FIXTURE_STRANGER, .gid = FIXTURE_STRANGER, .fd = -1};
static const struct request_peer other = {.uid = 4711, .gid = 4711, .fd = -1};

static int setup(void **state)
{
	memset(&context, 0, sizeof(context));
	levels_defaults(&context.levels);
	context.levels.on[LEVEL_L1] = true;
	context.ops = (struct rank_coll *)&context;
	context.ranks = (struct ranks *)&context;
	context.collectors = (struct collectors *)&context;
	copy_text(context.config.state_dir, sizeof(context.config.state_dir), "/tmp");
	return 0;
}

static Ranktrace__Response *ask(const struct request_peer *peer, Ranktrace__RequestType type)
{
	Ranktrace__Request request = RANKTRACE__REQUEST__INIT;
	Ranktrace__Response *response;

	request.version = FRAME_VERSION;
	request.type = type;
	response = request_answer(&context, peer, &request);
	assert_non_null(response);
	assert_int_equal(response->error, 0);
	/* What was taken out leaves a message that can be sent. */
	assert_true(ranktrace__response__get_packed_size(response) > 0);
	return response;
}

TEST_WITH(own_ranks_only, setup, NULL)
{
	Ranktrace__Response *response = ask(&root, RANKTRACE__REQUEST_TYPE__REQUEST_RANKS);

	assert_int_equal(response->ranks->n_ranks, 512);
	assert_string_equal(response->ranks->ranks[0]->remark,
		"user 1001 claims this rank too; user suspected: a process has 9 lives");
	response_free(response);
	response = ask(&stranger, RANKTRACE__REQUEST_TYPE__REQUEST_RANKS);
	assert_int_equal(response->ranks->n_ranks, 256);
	for (size_t i = 0; i < response->ranks->n_ranks; i++)
		assert_int_equal(response->ranks->ranks[i]->uid, FIXTURE_STRANGER);
	assert_int_equal(response->ranks->ranks[0]->command[0], 'c'); /* of its own it sees all */
	assert_int_equal(response->ranks->left_out, 0);
	response_free(response);
	response = ask(&other, RANKTRACE__REQUEST_TYPE__REQUEST_RANKS);
	assert_int_equal(response->ranks->n_ranks, 0);
	response_free(response);
}

TEST_WITH(status_without_notes, setup, NULL)
{
	Ranktrace__Response *response = ask(&root, RANKTRACE__REQUEST_TYPE__REQUEST_STATUS);
	uint64_t notes = response->status->collectors[0]->n_notes + response->status->collectors[0]->notes_left_out;
	size_t clocks = response->status->n_device_clocks;

	assert_true(response->status->collectors[0]->n_notes > 0);
	response_free(response);
	response = ask(&stranger, RANKTRACE__REQUEST_TYPE__REQUEST_STATUS);
	assert_int_equal(response->status->collectors[0]->n_notes, 0);
	assert_int_equal(response->status->collectors[0]->notes_left_out, notes);
	assert_int_equal(response->status->collectors[0]->events, 4242);
	assert_int_equal(response->status->n_device_clocks, clocks / 2);
	response_free(response);
}

TEST_WITH(own_operations_only, setup, NULL)
{
	Ranktrace__Response *response = ask(&stranger, RANKTRACE__REQUEST_TYPE__REQUEST_OPS);

	assert_true(response->ops->n_communicators > 0 && response->ops->n_calls > 0);
	for (size_t i = 0; i < response->ops->n_communicators; i++)
		for (size_t j = 0; j < response->ops->communicators[i]->n_ranks; j++)
			assert_int_equal(response->ops->communicators[i]->ranks[j]->uid, FIXTURE_STRANGER);
	for (size_t i = 0; i < response->ops->n_calls; i++)
		assert_int_equal(response->ops->calls[i]->uid, FIXTURE_STRANGER);
	assert_int_equal(response->ops->n_stacks, 1);
	response_free(response);
	response = ask(&other, RANKTRACE__REQUEST_TYPE__REQUEST_OPS);
	assert_int_equal(response->ops->n_communicators + response->ops->n_calls + response->ops->n_stacks, 0);
	response_free(response);
}

static bool names(const Ranktrace__Response *response, const char *topic, const char *word)
{
	for (size_t i = 0; i < response->check->n_items; i++)
		if (streq(response->check->items[i]->topic, topic) && strstr(response->check->items[i]->sentence, word))
			return true;
	return false;
}

TEST_WITH(check_names_nobody, setup, NULL)
{
	Ranktrace__Response *response;

	response = ask(&root, RANKTRACE__REQUEST_TYPE__REQUEST_CHECK);
	assert_true(names(response, "L1", "note 0"));
	assert_true(names(response, "suspects", "user 1001: a process has 9 lives (2 times)"));
	assert_true(names(response, "suspects", "users 0 and 1001 both run a rank 1 of job job-x"));
	response_free(response);
	response = ask(&stranger, RANKTRACE__REQUEST_TYPE__REQUEST_CHECK);
	assert_false(names(response, "L1", "note"));
	assert_false(names(response, "suspects", ""));
	assert_true(names(response, "kernel", "Linux"));
	response_free(response);
}

TEST_MAIN(NULL, NULL)
