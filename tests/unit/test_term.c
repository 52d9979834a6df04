/* SPDX-License-Identifier: Apache-2.0 */
/* Tables and texts on terminals of some width, and words, durations and sizes for people. */
#include <stdlib.h>
#include <string.h>
#include "analyzers/base/nearest.h"
#include "analyzers/base/term_table.h"
#include "analyzers/base/units.h"
#include "tests/test.h"

static const struct term_column columns[] = {
	{.name = "RANK"},
	{.name = "PID", .right = true},
	{.name = "JOB", .min = 4},
	{.name = "SEEN", .optional = true},
	{.name = "WHAT", .min = 12, .wraps = true},
};

static void fill(struct term_table *table)
{
	static const char *const rows[][5] = {
		{"0/8", "17", "llama-large", "3 min", "one two three four five six"},
		{"1/8", "40001", "x", "1 h", "short"},
	};

	for (size_t i = 0; i < 2; i++)
		for (size_t j = 0; j < 5; j++)
			term_table_cell(table, TERM_PLAIN, "%s", rows[i][j]);
}

static void prints(size_t width, const char *expected)
{
	struct term_table *table = term_table_new(columns, 5);
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	fill(table);
	assert_int_equal(term_table_rows(table), 2);
	term_table_fit(table, out, 0, width);
	term_table_print_header(table, out);
	for (size_t i = 0; i < 2; i++)
		term_table_print_row(table, out, i);
	fclose(out);
	assert_string_equal(text, expected);
	free(text);
	term_table_free(table);
}

TEST(test_widths)
{
	/* No terminal: all of it. */
	prints(0, "RANK    PID  JOB          SEEN   WHAT\n"
		  "0/8      17  llama-large  3 min  one two three four five six\n"
		  "1/8   40001  x            1 h    short\n");
	/* Wrapped at its end. */
	prints(50, "RANK    PID  JOB          SEEN   WHAT\n"
		   "0/8      17  llama-large  3 min  one two three\n"
		   "                                 four five six\n"
		   "1/8   40001  x            1 h    short\n");
	/* Cut. */
	prints(40, "RANK    PID  JOB     SEEN   WHAT\n"
		   "0/8      17  llama~  3 min  one two\n"
		   "                            three four\n"
		   "                            five six\n"
		   "1/8   40001  x       1 h    short\n");
	/* Without what is optional. */
	prints(34, "RANK    PID  JOB      WHAT\n"
		   "0/8      17  llama-~  one two\n"
		   "                      three four\n"
		   "                      five six\n"
		   "1/8   40001  x        short\n");
	/* The last one below. */
	prints(24, "RANK    PID  JOB\n"
		   "    WHAT\n"
		   "0/8      17  llama-large\n"
		   "    one two three four\n"
		   "    five six\n"
		   "1/8   40001  x\n"
		   "    short\n");
	/* Paragraphs, of everything. */
	prints(16, "RANK 0/8  PID 17\n"
		   "  JOB \n"
		   "  llama-large\n"
		   "  SEEN 3 min\n"
		   "  WHAT one two\n"
		   "  three four\n"
		   "  five six\n"
		   "RANK 1/8\n"
		   "  PID 40001\n"
		   "  JOB x\n"
		   "  SEEN 1 h\n"
		   "  WHAT short\n");
}

/* No line is wider than the terminal, whatever its width; and nothing is lost but what is cut or optional. */
TEST(test_fits)
{
	for (size_t width = 18; width < 80; width++) {
		struct term_table *table = term_table_new(columns, 5);
		char *text = NULL, *rest;
		size_t size = 0;
		FILE *out = open_memstream(&text, &size);

		fill(table);
		term_table_fit(table, out, 0, width);
		term_table_print_header(table, out);
		term_table_print_row(table, out, 0);
		term_table_print_row(table, out, 1);
		fclose(out);
		assert_non_null(strstr(text, "40001"));
		assert_non_null(strstr(text, "six"));
		rest = text;
		for (char *line; (line = strsep(&rest, "\n"));)
			if (term_columns(line) > width)
				fail_msg("%zu columns: \"%s\"", width, line);
		free(text);
		term_table_free(table);
	}
}

TEST(test_lines)
{
	struct term_table *table = term_table_new(columns, 5);
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	for (size_t i = 0; i < 4; i++)
		term_table_cell(table, TERM_RED, "a\033[31m\n");
	term_table_cell(table, TERM_PLAIN, "first");
	term_table_line(table, "- second\nof one");
	term_table_fit(table, out, 2, 0);
	term_table_print_row(table, out, 0);
	fclose(out);
	assert_string_equal(text, "  a?[31m   a?[31m   a?[31m   a?[31m   first\n"
				  "                                      - second of one\n");
	free(text);
	term_table_free(table);
}

static void wraps(const char *text, size_t column, size_t indent, size_t width, const char *expected)
{
	char *got = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&got, &size);

	term_wrap(out, text, column, indent, width);
	fclose(out);
	assert_string_equal(got, expected);
	free(got);
}

TEST(test_wrap)
{
	char name[] = "\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac";

	wraps("one two three", 0, 2, 0, "one two three");
	wraps("one two three", 0, 2, 8, "one two\n  three");
	wraps("one two three", 5, 2, 8, "one\n  two\n  three");
	wraps("averyveryverylongword x", 0, 2, 8, "averyveryverylongword\n  x");
	wraps("averyveryverylongword x", 0, 2, 10, "averyveryv\n  erylongw\n  ord x");
	wraps("a \xe2\x82\xac\xe2\x82\xac\033[1m\xe2\x82\xac"
	      "345678",
		0, 0, 8,
		"a\n\xe2\x82\xac\xe2\x82\xac\033[1m\xe2\x82\xac"
		"34567\n8");
	wraps("12345678", 0, 0, 8, "12345678");
	wraps("x 12345678 y", 0, 0, 8, "x\n12345678\ny");
	wraps("one\ntwo", 3, 3, 0, "one\n   two");
	/* Colour codes are no columns. */
	wraps("\033[1;31mone\033[0m two", 0, 2, 7, "\033[1;31mone\033[0m two");
	assert_int_equal(term_columns("\033[32mon\033[0m"), 2);
	assert_int_equal(term_columns(name), 3);
	assert_string_equal(term_cut(name, 2), "\xe2\x82\xac~");
}

/* A stream that is no terminal. */
TEST(test_no_terminal)
{
	FILE *out = tmpfile();

	setenv("TERM", "xterm", 1);
	assert_int_equal(term_width(out), 0);
	assert_false(term_has_colours(out));
	assert_string_equal(term_start(out, TERM_RED), "");
	assert_string_equal(term_end(out, TERM_RED), "");
	fclose(out);
}

TEST(test_units)
{
	static const struct {
		uint64_t ns;
		const char *text;
	} cases[] = {{0, "0 ns"}, {999, "999 ns"}, {1000, "1 us"}, {1250000000, "1.25 s"}, {310000000, "310 ms"},
		{999900000, "1000 ms"}, {90000000000, "1 min 30 s"}, {11520000000000, "3 h 12 min"},
		{93600000000000, "1 d 2 h"}};
	char buffer[UNITS_BYTES];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_string_equal(units_duration(cases[i].ns, buffer), cases[i].text);
	(void)units_duration(UINT64_MAX, buffer);
	assert_string_equal(units_size(0, buffer), "0 B");
	assert_string_equal(units_size(12897484, buffer), "12.3 MiB");
	assert_string_equal(units_count(1234567, buffer), "1,234,567");
	assert_string_equal(units_count(UINT64_MAX, buffer), "18,446,744,073,709,551,615");
}

static const char *nearest_of(const char *word, const char *const *known)
{
	struct nearest nearest = NEAREST(word);

	for (; *known; known++)
		nearest_try(&nearest, *known);
	return nearest.found ? nearest.found : "";
}

TEST(test_nearest)
{
	static const char *const known[] = {"set", "status", "start", "log_level", "size_max", NULL};

	assert_int_equal(nearest_distance("kitten", "sitting"), 3);
	assert_int_equal(nearest_distance("", "abc"), 3);
	assert_int_equal(nearest_distance("same", "same"), 0);
	/* "star" is one edit from "stat", but "stat" begins "status". */
	assert_string_equal(nearest_of("stat", known), "status");
	assert_string_equal(nearest_of("strt", known), "start");
	assert_string_equal(nearest_of("log_levle", known), "log_level");
	assert_string_equal(nearest_of("max", known), "size_max");
	assert_string_equal(nearest_of("dump", known), "");
	assert_string_equal(nearest_of("", known), "");
	assert_string_equal(nearest_of("x", known), "");
}

TEST_MAIN(NULL, NULL)
