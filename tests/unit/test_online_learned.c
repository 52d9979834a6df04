/* SPDX-License-Identifier: Apache-2.0 */
/* What is usual in jobs, from one daemon to the next: learned.json. */
#define TEST_ALONE /* replaces functions of the daemon */
#include <sys/stat.h>

#include "tests/unit/findings_fixture.h"

static char path[PATH_MAX];

static void end(void)
{
	context.findings = online_free(context.findings);
	observer_count = 0;
	json_decref(resumed);
	resumed = NULL;
}

static void begin(void)
{
	assert_int_equal(online_new(&context, &context.findings), 0);
	context.findings->wait_ns = 60 * NSEC_PER_SEC;
}

static void restart(void)
{
	end();
	begin();
}

static void learn(void)
{
	json_decref(learned);
	learned = json_pack("[{s:s}]", "job", "a");
	assert_non_null(learned);
	snprintf(path, sizeof(path), "%s/learned.json", dir);
	(void)copy_text(context.boot_id, sizeof(context.boot_id), "this");
}

static void put(const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

TEST_WITH(it_is_kept_over_a_restart, setup, teardown)
{
	struct stat st;

	learn();
	restart();
	assert_true(json_equal(resumed, learned));
	/* Of no job any more, and before there was one. */
	json_decref(learned);
	learned = json_array();
	restart();
	assert_int_equal(json_array_size(resumed), 0);
	assert_int_equal(unlink(path), 0);
	restart();
	assert_null(resumed);
	assert_int_equal(stat(path, &st), -1);
}

TEST_WITH(it_is_written_while_jobs_run, setup, teardown)
{
	uint64_t now_ns = monotonic_ns();

	learn();
	online_tick(context.findings, now_ns);
	assert_int_equal(access(path, F_OK), -1);
	online_tick(context.findings, now_ns + 21 * NSEC_PER_SEC);
	for (int i = 0; i < 6000 && access(path, F_OK) < 0; i++)
		usleep(10000);
	assert_int_equal(access(path, F_OK), 0);
}

/* What could not be made, for want of memory, is no empty list. */
TEST_WITH(what_is_not_known_replaces_nothing, setup, teardown)
{
	learn();
	restart();
	json_decref(learned);
	learned = NULL;
	restart();
	assert_int_equal(json_array_size(resumed), 1);
}

TEST_WITH(another_boot_has_other_processes, setup, teardown)
{
	learn();
	restart();
	end();
	(void)copy_text(context.boot_id, sizeof(context.boot_id), "other");
	begin();
	assert_null(resumed);
}

TEST_WITH(what_is_no_such_file_is_not_used, setup, teardown)
{
	static const char *const bad[] = {"", "{", "[]", "{\"version\":1,\"boot_id\":\"this\"}x",
		"{\"version\":2,\"boot_id\":\"this\",\"jobs\":[{}]}", "{\"version\":1,\"boot_id\":\"\",\"jobs\":[{}]}",
		"{\"version\":1,\"boot_id\":7,\"jobs\":[{}]}", "{\"version\":1,\"jobs\":[{}]}"};

	learn();
	json_decref(learned);
	learned = NULL;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		end();
		put(bad[i]);
		begin();
		if (resumed)
			fail_msg("taken: %s", bad[i]);
	}
	/* A folder, of which no file can be made. */
	end();
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkdir(path, 0700), 0);
	learn();
	restart();
	end();
	assert_int_equal(rmdir(path), 0);
	begin();
}

TEST_MAIN(NULL, NULL)
