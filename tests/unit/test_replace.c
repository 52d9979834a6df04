/* SPDX-License-Identifier: Apache-2.0 */
/* State files are replaced as a whole, or not at all. */
#include "analyzers/base/replace.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/test.h"

static char folder[] = "/tmp/ranktrace-replace-XXXXXX", path[PATH_MAX], fresh[PATH_MAX];

static void put_text(FILE *f, const void *arg)
{
	fputs(arg, f);
}

static void put_much(FILE *f, const void *arg)
{
	for (int i = 0; i < 100000; i++)
		fputs(arg, f);
}

static void expect(const char *text)
{
	char got[64] = "";
	FILE *f = fopen(path, "r");

	assert_non_null(f);
	assert_true(fread(got, 1, sizeof(got) - 1, f) > 0);
	fclose(f);
	assert_string_equal(got, text);
	assert_int_equal(access(fresh, F_OK), -1);
}

TEST(test_replaces)
{
	assert_int_equal(replace_file(folder, "state", put_text, "one\n"), 0);
	expect("one\n");
	assert_int_equal(replace_file(folder, "state", put_text, "two\n"), 0);
	expect("two\n");
}

/* The old file remains, and nothing beside it. */
TEST(test_fails)
{
	struct rlimit limit, small;
	char name[PATH_MAX];
	int r;

	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	assert_int_equal(replace_file(folder, name, put_text, "x"), -ENAMETOOLONG);
	assert_int_equal(replace_file("/nonexistent", "state", put_text, "x"), -ENOENT);
	/* A file may not grow over the limit, as on a full disk. */
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	small = (struct rlimit){4096, limit.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	r = replace_file(folder, "state", put_much, "three\n");
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	assert_int_equal(r, -EFBIG);
	expect("two\n");
}

/* A stream keeps no error of an early write. */
TEST(test_says_why)
{
	struct replace replace;

	assert_int_equal(replace_begin(&replace, "/dev/full"), 0);
	put_much(replace.out, "four\n");
	assert_int_equal(replace_end(&replace, 0, false), -ENOSPC);
	assert_int_equal(replace_begin(&replace, "/dev/full"), 0);
	put_text(replace.out, "four\n");
	assert_int_equal(replace_end(&replace, 0, false), -ENOSPC);
}

int main(void)
{
	int failed;

	if (!mkdtemp(folder))
		return 1;
	snprintf(path, sizeof(path), "%s/state", folder);
	snprintf(fresh, sizeof(fresh), "%s/state.new", folder);
	failed = TEST_RUN(NULL, NULL);
	unlink(path);
	rmdir(folder);
	return failed;
}
