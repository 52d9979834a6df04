/* SPDX-License-Identifier: Apache-2.0 */
/* Attaching in turns, where the kernel takes longer than a turn for a file; users with few files come first. */
#define TEST_ALONE /* replaces functions of the daemon */
#include <dlfcn.h>

#include "daemon/probes/attachment.h"
#include "daemon/probes/coverage.h"
#include "tests/test.h"
#include "tests/unit/uprobe_fake.h"

#define ROW(name, library, symbol) \
	"[probe \"" name "\"]\nlevel=L1\nlibrary=" library "\nsymbol=" symbol "\nedge=entry\nevent=comm_free\n"
#define FILES 3

static const char table_text[] = ROW("nccl", "libnccl.so*", "ncclAllReduce") ROW("hccl", "libhccl.so*", "HcclAllReduce")
	ROW("cuda", "libcuda.so*", "cuMemAlloc_v2");
static const char *const patterns[] = {"libnccl.so*", "libhccl.so*", "libcuda.so*", NULL};
static const bool on[LEVEL_MAX] = {[LEVEL_L1] = true};

static struct probe_table table;
static unsigned count;	   /* orders to attach */
static uint64_t ordered;   /* the last one's file */
static const char *lonely; /* the file whose user has no other */

static int spec_new(void *arg, const struct site *site, const struct rt_call_spec *spec, uint32_t *ret)
{
	(void)arg, (void)site, (void)spec;
	*ret = 0;
	return 0;
}

static void spec_free(void *arg, uint32_t spec)
{
	(void)arg, (void)spec;
}

static int attach(void *arg, enum attach_part part, const struct uprobe_target *target, struct uprobe_job **ret)
{
	(void)arg, (void)part;
	count++;
	ordered = target->file;
	return uprobe_job_attach(target, ret);
}

static const struct attach_engine engine = {
	.table = &table, .mixes_specs = true, .spec_new = spec_new, .spec_free = spec_free, .attach = attach};

static void added(void *arg, struct library *library)
{
	struct attachment *attachment = NULL;

	assert_int_equal(attachment_new(&engine, library, &attachment), 0);
	library->owner_data = attachment;
	library->uid = strstr(library->path, lonely) ? 1 : 2;
}

static void dropped(void *arg, struct library *library)
{
	library->owner_data = attachment_free(library->owner_data);
}

static void refused(void *arg, uint32_t pid, uint32_t uid, const char *path, int error)
{
	(void)arg, (void)pid;
	fail_msg("%s: %s", path, strerror(-error));
}

struct wanted {
	uint64_t lonely;
};

static void find_lonely(void *arg, struct library *library)
{
	if (library->uid == 1)
		((struct wanted *)arg)->lonely = library->inode;
}

static void add_attached(void *arg, struct library *library)
{
	*(unsigned *)arg += attachment_attached(library->owner_data);
}

static unsigned attached(struct libraries *libraries)
{
	unsigned sum = 0;

	libraries_each(libraries, add_attached, &sum);
	return sum;
}

static void attach_in_turns(const char *name)
{
	const struct libraries_ops ops = {.patterns = patterns, .added = added, .dropped = dropped, .refused = refused};
	struct libraries *libraries = libraries_new(&ops, "/proc");
	struct wanted wanted = {0};

	lonely = name;
	count = 0;
	assert_non_null(libraries);
	assert_int_equal(libraries_scan(libraries, (uint32_t)getpid(), 0, 1), FILES);
	libraries_each(libraries, find_lonely, &wanted);
	fake_hold(true);
	assert_false(groups_choose(libraries, on, true));
	assert_int_equal(count, 1);
	assert_int_equal(ordered, wanted.lonely);
	/* The kernel does one after the other: no further ones are ordered, so that the order remains ours. */
	assert_false(groups_choose(libraries, on, false));
	assert_false(groups_choose(libraries, on, true));
	assert_int_equal(count, 1);
	assert_int_equal(attached(libraries), 0);
	fake_hold(false);
	while (!groups_choose(libraries, on, false))
		;
	assert_int_equal(count, FILES);
	assert_int_equal(attached(libraries), FILES);
	/* What is attached takes no time. */
	assert_true(groups_choose(libraries, on, true));
	assert_int_equal(count, FILES);
	libraries_free(libraries);
}

TEST(test_turns)
{
	attach_in_turns("libnccl");
	attach_in_turns("libhccl");
	attach_in_turns("libcuda");
}

#define MARK(name, symbol, edge, stage) \
	"[probe \"" name "\"]\nlevel=L0\nlibrary=libnccl.so*\nsymbol=" symbol "\nedge=" edge "\nstage=" stage "\n"

static struct probe_table marks;
static const struct attach_engine mark_engine = {
	.table = &marks, .mixes_specs = true, .spec_new = spec_new, .spec_free = spec_free, .attach = attach};

static void added_marks(void *arg, struct library *library)
{
	struct attachment *attachment = NULL;

	assert_int_equal(attachment_new(&mark_engine, library, &attachment), 0);
	*(struct attachment **)arg = library->owner_data = attachment;
}

static unsigned settled(struct attachment *attachment)
{
	assert_true(attachment_settle(attachment, UINT64_MAX));
	return attachment_attached_level(attachment, LEVEL_L0);
}

/* L0 in windows: what closes steps is attached without a gap, the rest in windows alone. */
TEST(between_windows_boundaries_alone_are_attached)
{
	static const char text[] =
		MARK("begin", "ncclBroadcast", "begin", "forward") MARK("end", "ncclReduce", "end", "forward")
			MARK("step", "ncclAllReduce", "begin", "backward") ROW("nccl", "libnccl.so*", "ncclAllGather");
	const char *const pattern[] = {"libnccl.so*", NULL};
	struct attachment *attachment = NULL;
	const struct libraries_ops ops = {
		.patterns = pattern, .added = added_marks, .dropped = dropped, .refused = refused, .arg = &attachment};
	struct libraries *libraries = libraries_new(&ops, "/proc");
	char error[512];

	assert_int_equal(probe_table_parse(&marks, "test.conf", text, strlen(text), error, sizeof(error)), 0);
	assert_int_equal(libraries_scan(libraries, (uint32_t)getpid(), 0, 1), 1);
	attachment_choose(attachment, attachment_found(attachment));
	attachment_level(attachment, LEVEL_L0, true);
	attachment_level(attachment, LEVEL_L1, true);
	assert_int_equal(settled(attachment), 3);
	for (int i = 0; i < 3; i++) {
		count = 0;
		fake_hold(true); /* clears the log */
		fake_hold(false);
		attachment_reduce(attachment, true);
		attachment_reduce(attachment, true);
		assert_int_equal(settled(attachment), 1);
		assert_int_equal(count, 0); /* the boundary's probe is the one that was there */
		attachment_reduce(attachment, false);
		assert_int_equal(settled(attachment), 3);
		assert_int_equal(count, 1);
		assert_int_equal(attachment_attached_level(attachment, LEVEL_L1), 1);
	}
	/* Where it is turned on between windows, too. */
	attachment_level(attachment, LEVEL_L0, false);
	assert_int_equal(settled(attachment), 0);
	attachment_reduce(attachment, true);
	attachment_level(attachment, LEVEL_L0, true);
	assert_int_equal(settled(attachment), 1);
	attachment_level(attachment, LEVEL_L0, false);
	attachment_reduce(attachment, false);
	assert_int_equal(settled(attachment), 0);
	libraries_free(libraries);
	probe_table_free(&marks);
}

static int start(void **state)
{
	char error[512];

	if (probe_table_parse(&table, "test.conf", table_text, strlen(table_text), error, sizeof(error)) < 0)
		return 1;
	return !dlopen(FIXTURES "/libnccl.so.2", RTLD_NOW) || !dlopen(FIXTURES "/libcuda.so.1", RTLD_NOW) ||
	       !dlopen(FIXTURES "/libhccl.so", RTLD_NOW);
}

static int stop(void **state)
{
	probe_table_free(&table);
	return 0;
}

TEST_MAIN(start, stop)
