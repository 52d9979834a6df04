/* SPDX-License-Identifier: Apache-2.0 */
/* Folders to write into: ours and safe ones are taken, those in which somebody else can plant files are not. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyzers/base/folder.h"
#include "analyzers/base/replace.h"
#include "tests/test.h"

#define OTHER 65534

static char base[64];

static int setup(void **state)
{
	snprintf(base, sizeof(base), "/tmp/ranktrace-folder-XXXXXX");
	return mkdtemp(base) ? 0 : -1;
}

static int teardown(void **state)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf '%s'", base);
	return system(command);
}

static const char *in_base(const char *name)
{
	static char path[4][PATH_MAX];
	static unsigned at;
	char *ret = path[at++ % 4];

	snprintf(ret, PATH_MAX, "%s/%s", base, name);
	return ret;
}

static void make(const char *name, mode_t mode)
{
	assert_int_equal(mkdir(in_base(name), 0700), 0);
	assert_int_equal(chmod(in_base(name), mode), 0);
}

static void expect(int own, int safe, const char *name, const char *says)
{
	char why[PATH_MAX + 128] = "";

	assert_int_equal(folder_own(in_base(name), why, sizeof(why)), own);
	assert_int_equal(folder_safe(in_base(name), why, sizeof(why)), safe);
	if (says)
		assert_non_null(strstr(why, says));
}

TEST_WITH(ours_is_taken, setup, teardown)
{
	char why[256];

	make("own", 0750);
	make("own/below", 0755);
	expect(0, 0, "own/below", NULL);
	assert_int_equal(symlink(in_base("own"), in_base("link")), 0);
	/* A link of ours is as good as its folder; what is emptied is never reached by one. */
	expect(-ENOTDIR, 0, "link", NULL);
	expect(0, 0, "link/below", NULL);
	expect(-ENOENT, -ENOENT, "absent", "No such file");
	assert_int_equal(chdir(in_base("own")), 0);
	assert_int_equal(folder_safe("below", why, sizeof(why)), 0);
	assert_int_equal(chdir("/"), 0);
}

TEST_WITH(open_ones_are_refused, setup, teardown)
{
	char why[256] = "";

	make("open", 0777);
	make("open/below", 0755);
	expect(-EPERM, -EPERM, "open", "others may write to");
	expect(0, -EPERM, "open/below", "/open,");
	/* Nobody renames what is ours in a sticky folder, but anybody makes files in it. */
	assert_int_equal(chmod(in_base("open"), 01777), 0);
	expect(-EPERM, -EPERM, "open", "others may write to");
	expect(0, 0, "open/below", NULL);
	assert_int_equal(folder_safe("/tmp", why, sizeof(why)), -EPERM);
}

TEST_WITH(those_of_others_are_refused, setup, teardown)
{
	if (geteuid() != 0)
		skip();
	make("theirs", 0755);
	make("theirs/ours", 0755);
	assert_int_equal(chown(in_base("theirs"), OTHER, OTHER), 0);
	expect(-EPERM, -EPERM, "theirs", "belongs to user 65534");
	expect(0, -EPERM, "theirs/ours", "belongs to user 65534");
	/* A link of somebody else, to a folder of ours. */
	make("own", 0750);
	assert_int_equal(symlink(in_base("own"), in_base("link")), 0);
	assert_int_equal(lchown(in_base("link"), OTHER, OTHER), 0);
	expect(-ENOTDIR, -EPERM, "link", "belongs to user 65534");
	/* A group of others. */
	make("group", 0770);
	assert_int_equal(chown(in_base("group"), 0, OTHER), 0);
	expect(-EPERM, -EPERM, "group", "others may write to");
	assert_int_equal(chown(in_base("group"), 0, 0), 0);
	expect(0, 0, "group", NULL);
}

TEST_WITH(a_new_file_is_new, setup, teardown)
{
	struct stat st;
	struct replace replace;

	assert_int_equal(symlink(in_base("target"), in_base("file.new")), 0);
	assert_int_equal(replace_begin(&replace, in_base("file")), 0);
	assert_int_equal(replace_end(&replace, 0, false), 0);
	assert_int_equal(lstat(in_base("file"), &st), 0);
	assert_true(S_ISREG(st.st_mode));
	assert_int_equal(access(in_base("target"), F_OK), -1);
	make("folder", 0700);
	make("other.new", 0700);
	assert_int_equal(replace_begin(&replace, in_base("folder")), -EISDIR);
	assert_int_equal(replace_begin(&replace, in_base("other")), -EEXIST);
	/* What its writer could not write leaves nothing. */
	assert_int_equal(replace_begin(&replace, in_base("failed")), 0);
	assert_int_equal(replace_end(&replace, -EPIPE, false), -EPIPE);
	assert_int_equal(access(in_base("failed"), F_OK), -1);
	assert_int_equal(access(in_base("failed.new"), F_OK), -1);
}

TEST_MAIN(NULL, NULL)
