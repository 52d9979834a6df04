/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank misses, over the fixture libraries: by rank and not by library, sets once, and the list of names. */
#include <dlfcn.h>
#include <fcntl.h>

#include "daemon/collect/collect_internal.h"
#include "daemon/probes/attachment.h"
#include "daemon/probes/coverage.h"
#include "tests/test.h"

#define ROW(name, libraries, symbol, more) \
	"[probe \"" name "\"]\nlevel=L1\nlibrary=" libraries "\nsymbol=" symbol "\nedge=entry\nevent=comm_free\n" more
#define BOTH "libnccl.so* libcuda.so*"

static const char table_text[] = ROW("here", BOTH, "ncclAllReduce", "") ROW("there", BOTH, "cuMemAlloc_v2", "") ROW(
	"nowhere", BOTH, "ncclNever", "") ROW("whole.first", BOTH, "ncclNever", "set=whole/1\n") ROW("whole.second",
	BOTH, "ncclBroadcast", "set=whole/2\n") ROW("whole.third", BOTH, "ncclBroadcast",
	"set=whole/3\n") ROW("broken.second", BOTH, "ncclNever", "set=broken/2\n") ROW("broken.first", BOTH,
	"ncclNever", "set=broken/1\noptional=yes\n") ROW("broken.more", BOTH, "ncclAllReduce", "set=broken/1\n")
	ROW("apart.nccl", "libnccl.so*", "ncclAllReduce", "set=apart/1\n") ROW("apart.other", "libother.so*", "f",
		"set=apart/1\n") ROW("later", BOTH, "ncclNever", "optional=yes\n") ROW("later.first", BOTH, "ncclNever",
		"set=later/1\noptional=yes\n") ROW("later.second", BOTH, "ncclNever", "set=later/2\noptional=yes\n")
		ROW("unclear", BOTH, "ncclAllReduce", "args=comm:member(1,ncclNoAccessor,8)\noptional=yes\n") ROW(
			"unclear.first", BOTH, "ncclReduce", "args=comm:member(1,ncclNoAccessor,8)\nset=unclear/1\n")
			ROW("unclear.second", BOTH, "ncclReduce", "set=unclear/2\n") ROW("unclear.set", BOTH,
				"ncclReduce", "args=comm:member(1,ncclNoAccessor,8)\nset=unclear_set/1\n")
				ROW("elsewhere", "libother.so*", "f", "");

static struct probe_table table;

static int spec_new(void *arg, const struct site *site, const struct rt_call_spec *spec, uint32_t *ret)
{
	*ret = 0;
	return 0;
}

static void spec_free(void *arg, uint32_t spec)
{
}

static const struct attach_engine engine = {.table = &table, .spec_new = spec_new, .spec_free = spec_free};

static void added(void *arg, struct library *library)
{
	struct attachment *attachment = NULL;

	assert_int_equal(attachment_new(&engine, library, &attachment), 0);
	library->owner_data = attachment;
}

static void dropped(void *arg, struct library *library)
{
	library->owner_data = attachment_free(library->owner_data);
}

static void refused(void *arg, uint32_t pid, uint32_t uid, const char *path, int error)
{
	fail_msg("%s: %s", path, strerror(-error));
}

/* This process maps both libraries, and is two ranks. */
static struct libraries *two_ranks(void)
{
	static const bool off[LEVEL_MAX];
	static const char *const patterns[] = {"libnccl.so*", "libcuda.so*", NULL};
	struct libraries_ops ops = {.patterns = patterns, .added = added, .dropped = dropped, .refused = refused};
	struct libraries *libraries = libraries_new(&ops, "/proc");

	assert_non_null(libraries);
	assert_int_equal(libraries_scan(libraries, (uint32_t)getpid(), 0, 1), 2);
	assert_int_equal(libraries_scan(libraries, (uint32_t)getpid(), 0, 2), 2);
	assert_true(groups_choose(libraries, off, true));
	return libraries;
}

static const struct unresolved_thing *thing_of(const struct unresolved *missing, const char *name)
{
	const struct unresolved_thing *found = NULL;

	for (size_t i = 0; i < missing->count; i++) {
		if (!streq(missing->thing[i].probe->name, name))
			continue;
		if (found)
			fail_msg("'%s' is reported twice", name);
		found = &missing->thing[i];
	}
	return found;
}

static const struct unresolved_thing *needs(const struct unresolved *missing, const char *name)
{
	const struct unresolved_thing *thing = thing_of(missing, name);

	if (!thing)
		fail_msg("'%s' is not reported", name);
	return thing;
}

TEST(in_another_library_is_not_missing)
{
	struct libraries *libraries = two_ranks();
	struct unresolved missing;

	assert_int_equal(unresolved_find(libraries, &missing), 0);
	assert_null(thing_of(&missing, "here"));
	assert_null(thing_of(&missing, "there"));
	assert_null(thing_of(&missing, "elsewhere"));
	assert_null(needs(&missing, "nowhere")->reason);
	assert_int_equal(needs(&missing, "nowhere")->others, 1);
	unresolved_free(&missing);
	libraries_free(libraries);
}

TEST(a_set_is_reported_once_and_only_as_a_whole)
{
	struct libraries *libraries = two_ranks();
	struct unresolved missing;

	assert_int_equal(unresolved_find(libraries, &missing), 0);
	assert_null(thing_of(&missing, "whole.first"));
	assert_null(thing_of(&missing, "whole.second"));
	assert_null(thing_of(&missing, "whole.third"));
	assert_null(needs(&missing, "broken.first")->reason);
	assert_null(thing_of(&missing, "broken.second"));
	assert_null(thing_of(&missing, "broken.more"));
	assert_null(thing_of(&missing, "apart.nccl")); /* its variant is for another set of libraries */
	unresolved_free(&missing);
	libraries_free(libraries);
}

TEST(optional_ones_are_not_reported)
{
	struct libraries *libraries = two_ranks();
	struct unresolved missing;

	assert_int_equal(unresolved_find(libraries, &missing), 0);
	assert_null(thing_of(&missing, "later"));
	assert_null(thing_of(&missing, "later.first"));
	assert_null(thing_of(&missing, "later.second"));
	/* But the function is there, and not seen. */
	assert_string_equal(needs(&missing, "unclear")->reason, "ncclNoAccessor is not in the library");
	assert_string_equal(needs(&missing, "unclear")->library->base_name, "libnccl.so.2");
	unresolved_free(&missing);
	libraries_free(libraries);
}

TEST(unusable_ones_have_a_reason)
{
	struct libraries *libraries = two_ranks();
	struct unresolved missing;

	assert_int_equal(unresolved_find(libraries, &missing), 0);
	assert_null(thing_of(&missing, "unclear.first")); /* the second stands in */
	assert_string_equal(needs(&missing, "unclear.set")->reason, "ncclNoAccessor is not in the library");
	assert_int_equal(missing.count, 4);
	unresolved_free(&missing);
	libraries_free(libraries);
}

/* The ranks share a library, and only one of them has the other. */
TEST(is_judged_rank_by_rank)
{
	struct libraries *libraries = two_ranks();
	struct unresolved missing = {0};
	const struct library *alone = NULL;

	assert_int_equal(unresolved_find(libraries, &missing), 0);
	for (size_t i = 0; i < missing.count; i++)
		if (streq(missing.thing[i].probe->name, "unclear"))
			alone = missing.thing[i].library;
	unresolved_free(&missing);
	assert_non_null(alone);
	assert_int_equal(unresolved_add(&missing, &alone, 1), 0);
	assert_null(thing_of(&missing, "here"));
	assert_ptr_equal(needs(&missing, "there")->library, alone);
	assert_int_equal(needs(&missing, "there")->others, 0);
	assert_int_equal(unresolved_add(&missing, &alone, 1), 0); /* the next rank with it */
	assert_non_null(needs(&missing, "there"));
	unresolved_free(&missing);
	libraries_free(libraries);
}

TEST(names_are_whole)
{
	static struct probe probe[40];
	static struct unresolved_thing thing[41];
	struct unresolved missing = {.count = 1, .thing = thing};
	char names[MISSING_NAMES_BYTES];
	const char *word;
	unsigned shown = 1, more;

	for (unsigned i = 0; i < ARRAY_SIZE(thing); i++) {
		unsigned k = i % ARRAY_SIZE(probe); /* the last one is the first again, of another library */

		probe[k].level = LEVEL_L1;
		snprintf(probe[k].name, sizeof(probe[k].name), "function.%02u", k);
		thing[i].probe = &probe[k];
	}
	assert_int_equal(unresolved_names(&missing, LEVEL_L1, false, names), 1);
	assert_string_equal(names, "function.00");
	assert_int_equal(unresolved_names(&missing, LEVEL_L2, false, names), 0);
	assert_string_equal(names, "");
	assert_int_equal(unresolved_names(&missing, LEVEL_L1, true, names), 0);
	missing.count = ARRAY_SIZE(thing);
	assert_int_equal(unresolved_names(&missing, LEVEL_L1, false, names), ARRAY_SIZE(probe));
	for (word = names; (word = strchr(word, ',')); word++)
		shown++;
	word = strstr(names, " and ");
	assert_non_null(word);
	assert_int_equal(sscanf(word, " and %u more", &more), 1);
	assert_int_equal(shown + more, ARRAY_SIZE(probe));
	assert_true(shown > 5);
	assert_string_equal(word + strlen(word) - 5, " more");
	assert_memory_equal(word - strlen("function.00"), "function.", strlen("function."));
}

TEST(the_answer_has_both_kinds)
{
	struct libraries *libraries = two_ranks();
	struct call_level_sum sum = {.level = LEVEL_L1, .on = true, .rows = 1, .ranks = 2};
	struct unresolved missing;
	char report[1024];

	assert_int_equal(unresolved_find(libraries, &missing), 0);
	sum.missing = unresolved_names(&missing, LEVEL_L1, false, sum.unresolved_names);
	sum.unusable = unresolved_names(&missing, LEVEL_L1, true, sum.unusable_names);
	assert_int_equal(call_level_report(&sum, report, sizeof(report)), 0);
	assert_string_equal(report, "0 probes in 0 libraries, 2 ranks; 2 symbols not found: nowhere, broken.first; 2 "
				    "functions unusable (see tracectl status): unclear, unclear.set");
	unresolved_free(&missing);
	libraries_free(libraries);
}

TEST(the_answer_says_what_is_not_read_yet)
{
	struct call_level_sum sum = {.level = LEVEL_L1, .on = true, .rows = 1, .ranks = 2, .reading = 3};
	char report[256];

	assert_int_equal(call_level_report(&sum, report, sizeof(report)), 0);
	assert_string_equal(report, "0 probes in 0 libraries, 2 ranks; 3 more files of ranks are being read");
}

static int start(void **state)
{
	char error[512];

	if (probe_table_parse(&table, "test.conf", table_text, strlen(table_text), error, sizeof(error)) < 0) {
		print_error("%s\n", error);
		return 1;
	}
	return !dlopen(FIXTURES "/libnccl.so.2", RTLD_NOW) || !dlopen(FIXTURES "/libcuda.so.1", RTLD_NOW);
}

static int stop(void **state)
{
	probe_table_free(&table);
	return 0;
}

TEST_MAIN(start, stop)
