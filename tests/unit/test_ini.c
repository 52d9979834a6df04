/* SPDX-License-Identifier: Apache-2.0 */
/* The text file parser: what it accepts, what it refuses and with which sentence, and the readers of values. */
#include <sys/stat.h>
#include "analyzers/base/units.h"
#include "analyzers/base/ini.h"
#include "daemon/base/util.h"
#include "tests/test.h"

struct seen {
	char text[8192];
	const char *refuse_key;
};

static int record(void *arg, const struct ini_line *line, char *error, size_t error_size)
{
	struct seen *seen = arg;
	size_t n = strlen(seen->text);

	if (line->key && seen->refuse_key && streq(line->key, seen->refuse_key)) {
		snprintf(error, error_size, "unknown key '%s'", line->key);
		return -ENOKEY;
	}
	if (line->key)
		snprintf(seen->text + n, sizeof(seen->text) - n, "%u:%s/%s/%s=%s|", line->line, line->section,
			line->name, line->key, line->value);
	else
		snprintf(seen->text + n, sizeof(seen->text) - n, "%u:[%s/%s]|", line->line, line->section, line->name);
	return 0;
}

static void expect(const char *text, const char *seen_text)
{
	struct seen seen = {0};
	char error[INI_ERROR_BYTES] = "";

	assert_int_equal(ini_parse("f", text, strlen(text), record, &seen, error), 0);
	assert_string_equal(error, "");
	assert_string_equal(seen.text, seen_text);
}

static void expect_refused(const char *text, size_t size_bytes, int result, const char *sentence)
{
	struct seen seen = {.refuse_key = "bad"};
	char error[INI_ERROR_BYTES] = "";
	/* Exactly as long as it is, so that the address sanitizer sees a byte read past it. */
	char *copy = malloc(size_bytes);

	memcpy(copy, text, size_bytes);
	assert_int_equal(ini_parse("f", copy, size_bytes, record, &seen, error), result);
	assert_string_equal(error, sentence);
	free(copy);
}

TEST(accepts)
{
	expect("", "");
	expect("a=b", "1://a=b|");
	expect("\n  # comment\n;x\n\t a.b-C_9 \t=  v = # w \t\n", "4://a.b-C_9=v = # w|");
	expect("[s]\nk =\n[s \"a b]\"]\nk=1\n[ t ]\nk=2", "1:[s/]|2:s//k=|3:[s/a b]]|4:s/a b]/k=1|5:[t/]|6:t//k=2|");
	expect("[s \"\"]\nk = \xc3\xa4\n", "1:[s/]|2:s//k=\xc3\xa4|");
}

TEST(refuses)
{
	static const struct {
		const char *text;
		const char *sentence;
	} rows[] = {
		{"a=1\nwords", "f:2: expected 'key = value' or '[section]', found 'words'"},
		{"= 1", "f:1: expected 'key = value' or '[section]', found '= 1'"},
		{"a b = 1", "f:1: expected 'key = value' or '[section]', found 'a b = 1'"},
		{"[]", "f:1: a section needs a name: [section] or [section \"name\"]"},
		{"[s", "f:1: expected ']' after section 's'"},
		{"[s x]", "f:1: the name of section [s] needs quotes: [s \"name\"]"},
		{"[s] # c", "f:1: unexpected text after [s]"},
		{"[s \"x]", "f:1: the name of section [s] has no closing quote"},
		{"[s \"x\" y]", "f:1: expected ']' after section 's'"},
		{"a = 1\r\n", "f:1: control character 0x0d in column 6"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		expect_refused(rows[i].text, strlen(rows[i].text), -EINVAL, rows[i].sentence);
	expect_refused("a=\0", 3, -EINVAL, "f:1: control character 0x00 in column 3");
	expect_refused("\nbad = 1\ngood = 1", 16, -ENOKEY, "f:2: unknown key 'bad'");
}

TEST(keeps_limits)
{
	static char big[INI_FILE_BYTES_MAX + 1];
	char line[INI_LINE_BYTES_MAX + 2];
	struct seen seen = {0};
	char error[INI_ERROR_BYTES] = "";

	memset(line, 'x', sizeof(line));
	line[1] = '=';
	expect_refused(line, INI_LINE_BYTES_MAX + 1, -E2BIG, "f:1: line is longer than 4096 bytes");
	assert_int_equal(ini_parse("f", line, INI_LINE_BYTES_MAX, record, &seen, error), 0);
	assert_int_equal(strlen(seen.text), strlen("1://x=|") + INI_LINE_BYTES_MAX - 2);

	memset(big, '\n', sizeof(big));
	expect_refused(big, sizeof(big), -EFBIG, "f:0: file is larger than 1048576 bytes");
	assert_int_equal(ini_parse("f", big, sizeof(big) - 1, record, &seen, error), 0);
}

TEST(reads_files)
{
	char path[] = "/tmp/test_ini.XXXXXX";
	int fd = mkstemp(path);
	struct seen seen = {0};
	char error[INI_ERROR_BYTES];
	char sentence[INI_ERROR_BYTES];

	assert_true(fd >= 0);
	assert_int_equal(write(fd, "[s]\nk=v\n", 8), 8);
	close(fd);
	assert_int_equal(ini_parse_file(path, record, &seen, error), 0);
	assert_string_equal(seen.text, "1:[s/]|2:s//k=v|");
	unlink(path);

	assert_int_equal(ini_parse_file(path, record, &seen, error), -ENOENT);
	snprintf(sentence, sizeof(sentence), "%s: cannot open: No such file or directory", path);
	assert_string_equal(error, sentence);

	/* Without a writer, opening a FIFO the plain way would hang for ever. */
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(ini_parse_file(path, record, &seen, error), -EINVAL);
	snprintf(sentence, sizeof(sentence), "%s: not a regular file", path);
	assert_string_equal(error, sentence);
	unlink(path);
}

TEST(reads_booleans)
{
	static const char *const wrong[] = {"", "2", "yess", " on", "truefalse"};
	bool value = false;

	assert_int_equal(ini_bool("Yes", &value), 0);
	assert_true(value);
	assert_int_equal(ini_bool("off", &value), 0);
	assert_false(value);
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		assert_int_equal(ini_bool(wrong[i], &value), -EINVAL);
}

TEST(reads_numbers)
{
	static const char *const wrong[] = {"", "-1", "+1", " 1", "1 ", "0x10", "1.5", "18446744073709551616"};
	uint64_t value = 77;

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		assert_int_equal(ini_u64(wrong[i], 0, UINT64_MAX, &value), -EINVAL);
	assert_int_equal(ini_u64("9", 10, 20, &value), -EINVAL);
	assert_int_equal(ini_u64("21", 10, 20, &value), -EINVAL);
	assert_int_equal(value, 77);
	assert_int_equal(ini_u64("10", 10, 20, &value), 0);
	assert_int_equal(value, 10);
	assert_int_equal(ini_u64("18446744073709551615", 0, UINT64_MAX, &value), 0);
	assert_true(value == UINT64_MAX);
}

TEST(reads_sizes_and_durations)
{
	static const struct {
		const char *text;
		uint64_t bytes;
		uint64_t ns;
	} rows[] = {
		/* 0 stands for refused */
		{"12", 12, 12 * NSEC_PER_SEC},
		{"2K", 2048, 0},
		{"3 M", 3u << 20, 0},
		{"2G", 2ULL << 30, 0},
		{"1T", 1ULL << 40, 0},
		{"5ns", 0, 5},
		{"5us", 0, 5000},
		{"5 ms", 0, 5000000},
		{"7s", 0, 7 * NSEC_PER_SEC},
		{"2m", 0, 120 * NSEC_PER_SEC},
		{"2h", 0, 7200 * NSEC_PER_SEC},
		{"2d", 0, 172800 * NSEC_PER_SEC},
		{"99999999999999T", 0, 0},
		{"99999999999999d", 0, 0},
		{"1.5G", 0, 0},
		{"-2", 0, 0},
		{"K", 0, 0},
		{"", 0, 0},
		{"1 KK", 0, 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		uint64_t bytes = 0, ns = 0;

		assert_int_equal(ini_size_bytes(rows[i].text, &bytes), rows[i].bytes ? 0 : -EINVAL);
		assert_int_equal(units_parse_duration(rows[i].text, &ns) < 0, rows[i].ns == 0);
		assert_true(bytes == rows[i].bytes);
		assert_true(ns == rows[i].ns);
	}
}

TEST_MAIN(NULL, NULL)
