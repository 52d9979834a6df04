/* SPDX-License-Identifier: Apache-2.0 */
/* Foreign text on its way to a terminal or a log: what acts on a terminal, or forges a line, becomes harmless. */
#include <stdlib.h>
#include <string.h>

#include "analyzers/analyze/findings_rows.h"
#include "analyzers/base/text.h"
#include "analyzers/cli/output.h"
#include "tests/test.h"

static const struct {
	const char *raw, *clean;
} cases[] = {
	{"", ""}, {"plain, \xc3\xa9\xe2\x82\xac\xf0\x9f\x9a\x80", "plain, \xc3\xa9\xe2\x82\xac\xf0\x9f\x9a\x80"},
	{"\033[2J\033]0;title\007", "?[2J?]0;title?"},
	{"a\xc2\x9b"
	 "31mb",
		"a?31mb"}, /* U+009B is ESC [ */
	{"rank 0\nforged line\r\tx", "rank 0 forged line  x"},
	{"\xe2\x80\xae"
	 "gpj.exe\xe2\x81\xa9\xd8\x9c",
		"?gpj.exe??"},					      /* right to left, isolate, Arabic mark */
	{"\xe2\x80\xa8\xe2\x80\xa9\xe2\x80\x8b\xef\xbb\xbf", "????"}, /* separators, no width, byte order */
	{"\xf3\xa0\x81\x81\xef\xbf\xb9", "??"},			      /* tag, annotation */
	{"\x7f\xff\xc3;", "???;"}, {"\xed\xa0\x80", "???"},	      /* surrogate: no UTF-8 */
};

TEST(clean_text_is_one_printable_line)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *copy = strdup(cases[i].raw);

		assert_string_equal(text_clean(copy), cases[i].clean);
		assert_string_equal(text_clean(copy), cases[i].clean);
		free(copy);
	}
}

__attribute__((format(printf, 2, 3))) static void print(FILE *out, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	text_vprint(out, format, args);
	va_end(args);
}

TEST(messages_are_one_line)
{
	char *got = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&got, &size);

	print(out, "cannot open %s: %d", "a\nb\033", 5);
	fclose(out);
	assert_string_equal(got, "cannot open a b?: 5");
	free(got);
}

/* Rows of one statement, as a file or pipe gets them. On a terminal: tests/attack/09_names.sh. */
static void assert_rows(const char *sql, enum output_format format, const char *expected)
{
	char *got = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&got, &size);
	sqlite3_stmt *statement = NULL;
	sqlite3 *db = NULL;

	assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
	assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &statement, NULL), SQLITE_OK);
	assert_int_equal(output_rows(out, statement, format), SQLITE_DONE);
	fclose(out);
	assert_string_equal(got, expected);
	free(got);
	sqlite3_finalize(statement);
	sqlite3_close(db);
}

TEST(rows_are_raw_only_where_quoted)
{
	static const char sql[] = "select char(27) || '[2J' || char(155, 10, 8238, 917569) as n";

	assert_rows(sql, OUTPUT_TABLE, "n\n?[2J????\n");
	assert_rows(sql, OUTPUT_CSV, "n\r\n\"\033[2J\xc2\x9b\n\xe2\x80\xae\xf3\xa0\x81\x81\"\r\n");
	assert_rows(sql, OUTPUT_JSON, "[\n{\"n\": \"\\u001b[2J\\u009b\\u000a\\u202e\\udb40\\udc41\"}\n]\n");
	assert_rows("select 'a\"\\' || char(128640, 127) as n", OUTPUT_JSON,
		"[\n{\"n\": \"a\\\"\\\\\xf0\x9f\x9a\x80\\u007f\"}\n]\n");
}

TEST(findings_are_clean)
{
	json_t *text = findings_row_text("job\nrank 1 is fine\xc2\x9b\xff");

	assert_string_equal(json_string_value(text), "job rank 1 is fine??");
	json_decref(text);
}

TEST(appended_text_ends_with_dots)
{
	char text[16] = "rank 1 hangs";

	text_append(text, sizeof(text), "; %d", 1);
	assert_string_equal(text, "rank 1 hangs; 1");
	text_append(text, sizeof(text), "; stopped");
	assert_string_equal(text, "rank 1 hangs...");
	text_append(text, sizeof(text), "x");
	assert_string_equal(text, "rank 1 hangs...");
}

TEST_MAIN(NULL, NULL)
