/* SPDX-License-Identifier: Apache-2.0 */
/* The table of options of the programs of libexec/ranktrace. */
#include "analyzers/tool/options.h"

#include <getopt.h>
#include <string.h>

#include "tests/test.h"

static struct {
	bool json;
	const char *output, *last;
	uint64_t since_ns;
	struct ranges ranks;
} set;

static int on_level(void *arg, const char *value)
{
	*(const char **)arg = value;
	return strcmp(value, "L9") == 0 ? 1 + 2 : 0;
}

static const struct tool_option options[] = {
	{"json", .flag = &set.json},
	{"output", 'o', .text = &set.output},
	{"since", .time_ns = &set.since_ns},
	{"rank", .ranks = &set.ranks},
	{"level", .call = on_level, .arg = &set.last},
};

/* The program's name is not among the words. */
static int parse(char **word)
{
	char *argv[16] = {(char[]){"program"}};
	int argc = 1, r;

	for (; *word; word++)
		argv[argc++] = *word;
	memset(&set, 0, sizeof(set));
	optind = 0; /* glibc starts anew */
	r = tool_options(argc, argv, "usage\n", options, sizeof(options) / sizeof(options[0]));
	return r ? r : tool_options_end(argc, argv);
}

#define PARSE(...) parse((char **)(const char *[]){__VA_ARGS__, NULL})

TEST(test_values)
{
	assert_int_equal(PARSE(NULL), 0);
	assert_false(set.json);
	assert_int_equal(PARSE("--json", "--output", "a", "--since=2026-11-22", "--rank", "0,3-7", "--level", "L1"), 0);
	assert_true(set.json);
	assert_string_equal(set.output, "a");
	assert_true(set.since_ns > 1700000000ULL * 1000000000);
	assert_true(ranges_have(&set.ranks, 5) && !ranges_have(&set.ranks, 8));
	assert_string_equal(set.last, "L1");
	assert_int_equal(PARSE("-o", "b"), 0);
	assert_string_equal(set.output, "b");
	assert_int_equal(PARSE("-ob"), 0);
	assert_string_equal(set.output, "b");
	/* A unique beginning is enough, and the last of several values counts. */
	assert_int_equal(PARSE("--out", "c", "--outp=d"), 0);
	assert_string_equal(set.output, "d");
}

TEST(test_refused)
{
	assert_int_equal(PARSE("--bogus"), 1 + 2);
	assert_int_equal(PARSE("-x"), 1 + 2);
	assert_int_equal(PARSE("--json=1"), 1 + 2);
	assert_int_equal(PARSE("--output"), 1 + 2);
	assert_int_equal(PARSE("-o"), 1 + 2);
	assert_int_equal(PARSE("--since", "soon"), 1 + 2);
	assert_int_equal(PARSE("--rank", "7-3"), 1 + 2);
	assert_int_equal(PARSE("--level", "L9", "--output", "a"), 1 + 2);
	assert_null(set.output); /* nothing after the error */
	assert_int_equal(PARSE("word"), 1 + 2);
	assert_int_equal(PARSE("--json", "--", "--json"), 1 + 2);
}

/* They end the program with 0, before what follows them. */
TEST(test_help)
{
	assert_int_equal(PARSE("--help", "--bogus"), 1 + 0);
	assert_int_equal(PARSE("--version"), 1 + 0);
}

TEST_MAIN(NULL, NULL)
