/* SPDX-License-Identifier: Apache-2.0 */
/* tracectl: the table of verbs, what a command line may be, what is suggested, and what shells complete. */
#include <sys/stat.h>
#include <unistd.h>
#include "ctl/levels.h"

#include "tests/test.h"

/* Writes stdout or stderr into a file from here on. */
static int capture_begin(int fd, FILE **ret)
{
	int saved;

	fflush(NULL);
	saved = dup(fd);
	*ret = tmpfile();
	assert_true(saved >= 0 && *ret && dup2(fileno(*ret), fd) >= 0);
	return saved;
}

static void capture_end(int fd, int saved, FILE *file, char *text, size_t size)
{
	size_t n;

	fflush(NULL);
	dup2(saved, fd);
	close(saved);
	rewind(file);
	n = fread(text, 1, size - 1, file);
	text[n] = 0;
	fclose(file);
}

#define WORDS(...) ((char **)(const char *[]){__VA_ARGS__, NULL})

static int parse(struct command *command, const char *verb, char **word, char *said, size_t size)
{
	FILE *file;
	int count = 0, saved, code;

	*command = (struct command){.verb = verb_find(verb)};
	while (word[count])
		count++;
	saved = capture_begin(STDERR_FILENO, &file);
	code = command_parse(command, count, word);
	capture_end(STDERR_FILENO, saved, file, said, size);
	return code;
}

TEST(test_table)
{
	for (size_t i = 0; i < verbs_count; i++) {
		const struct verb *verb = &verbs[i];

		assert_ptr_equal(verb_find(verb->name), verb); /* no name twice */
		assert_true(*verb->summary);
		assert_true(strlen(verb->name) <= 10); /* the column of help */
		if (!verb->run)
			continue;
		assert_true(*verb->exits && verb->words_min <= verb->words_max);
		assert_int_equal(verb->words_max > 0, *verb->arguments != 0);
		for (size_t n = 0; verb->option[n].name; n++)
			assert_true(n < VERB_OPTIONS_MAX && *verb->option[n].help);
	}
	assert_null(verb_find("stat"));
}

TEST(test_parse)
{
	struct command command;
	char said[1024];

	assert_int_equal(
		parse(&command, "set", WORDS("L1=on", "--for", "10m", "L2=on"), said, sizeof(said)), EXIT_DONE);
	assert_int_equal(command.words, 2);
	assert_string_equal(command.word[1], "L2=on");
	assert_string_equal(command_option(&command, "for"), "10m");
	assert_null(command_option(&command, "rank"));
	assert_int_equal(parse(&command, "ops", WORDS("--rank=3-7"), said, sizeof(said)), EXIT_DONE);
	assert_string_equal(command_option(&command, "rank"), "3-7");
	assert_int_equal(parse(&command, "print", WORDS("--", "--odd"), said, sizeof(said)), EXIT_DONE);
	assert_string_equal(command.word[0], "--odd");
	assert_string_equal(said, "");
	assert_int_equal(parse(&command, "ops", WORDS("--rank"), said, sizeof(said)), EXIT_USAGE);
	assert_non_null(strstr(said, "--rank needs a value"));
	assert_int_equal(parse(&command, "ops", WORDS("--ranks", "3"), said, sizeof(said)), EXIT_USAGE);
	assert_non_null(strstr(said, "unknown option '--ranks'; usage: tracectl ops [--rank LIST]"));
	assert_int_equal(parse(&command, "status", WORDS("now"), said, sizeof(said)), EXIT_USAGE);
	assert_non_null(strstr(said, "unexpected 'now'"));
	assert_int_equal(parse(&command, "set", WORDS("--for", "1m"), said, sizeof(said)), EXIT_USAGE);
	assert_non_null(strstr(said, "LEVEL=VALUE... is missing"));
	assert_int_equal(parse(&command, "status", WORDS("--json=yes"), said, sizeof(said)), EXIT_USAGE);
	assert_non_null(strstr(said, "takes no value"));
}

TEST(test_nearest)
{
	static const struct {
		const char *word, *meant;
	} cases[] = {{"stat", "did you mean 'status'?"}, {"fin", "did you mean 'findings'?"},
		{"rnaks", "did you mean 'ranks'?"}, {"statsu", "did you mean 'status'?"},
		{"opps", "did you mean 'ops'?"}, {"finding", "did you mean 'findings'?"},
		{"st", "did you mean 'status' or 'stack'?"}, {"s", "see tracectl help"}, {"compl", "see tracectl help"},
		{"frobnicate", "see tracectl help"}, {"", "see tracectl help"}};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char said[512], expected[512];
		FILE *file;
		int saved = capture_begin(STDERR_FILENO, &file);
		int code = verb_unknown(cases[i].word);

		capture_end(STDERR_FILENO, saved, file, said, sizeof(said));
		assert_int_equal(code, EXIT_USAGE);
		snprintf(expected, sizeof(expected), "unknown verb '%s'; %s\n", cases[i].word, cases[i].meant);
		assert_non_null(strstr(said, expected));
	}
}

TEST(test_levels)
{
	char good[] = "l1.LAUNCHES=On", bad[] = "L9=on", none[] = "L0=5", plain[] = "L1", said[512];
	const char *level = NULL;
	char *value = NULL;
	FILE *file;
	int saved;

	assert_int_equal(level_split(verb_find("set"), good, false, &level, &value), EXIT_DONE);
	assert_string_equal(level, "L1.launches");
	assert_string_equal(value, "On");
	assert_string_equal(level_word("l3"), "L3");
	assert_null(level_word("l3x"));
	saved = capture_begin(STDERR_FILENO, &file);
	assert_int_equal(level_split(verb_find("set"), bad, false, &level, &value), EXIT_USAGE);
	assert_int_equal(level_split(verb_find("interval"), none, true, &level, &value), EXIT_USAGE);
	assert_int_equal(level_split(verb_find("set"), plain, false, &level, &value), EXIT_USAGE);
	capture_end(STDERR_FILENO, saved, file, said, sizeof(said));
	assert_non_null(strstr(said, "unknown level 'L9'"));
	assert_non_null(strstr(said, "L0 has no interval"));
	assert_non_null(strstr(said, "'L1' is not LEVEL=VALUE"));
}

static void completes(char **word, const char *expected)
{
	struct command command = {.verb = verb_find("complete"), .word = word};
	char text[4096];
	FILE *file;
	int saved;

	while (word[command.words])
		command.words++;
	saved = capture_begin(STDOUT_FILENO, &file);
	assert_int_equal(cmd_complete(&command), EXIT_DONE);
	capture_end(STDOUT_FILENO, saved, file, text, sizeof(text));
	assert_string_equal(text, expected);
}

/* A program of libexec/ranktrace whose help is known. */
TEST(test_complete)
{
	char folder[] = "/tmp/ranktrace-verbs-XXXXXX", path[64];
	FILE *program;

	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/report", folder);
	program = fopen(path, "w");
	assert_non_null(program);
	fputs("#!/bin/sh\necho '  --since TIME  from'\necho '  -o, --output FILE  where'\necho '    --inner N  not for "
	      "people'\n"
	      "echo '  --dir FOLDER...  stores'\necho '  --text, --html'\n",
		program);
	fclose(program);
	assert_int_equal(chmod(path, 0755), 0);
	setenv("RANKTRACE_LIBEXEC", folder, 1);
	completes(WORDS("stat"), "status\n");
	completes(WORDS("re"), "report\n");
	completes(WORDS("find"), ""); /* has a row, and is not installed */
	completes(WORDS("comp"), "");
	completes(WORDS("help", "int"), "interval\n");
	completes(WORDS("set", "L1"), "L1=\nL1.launches=\n");
	completes(WORDS("set", "L1", "="), "on\noff\n");
	completes(WORDS("set", "L1", "=", "of"), "off\n");
	completes(WORDS("set", "L1=of"), "L1=off\n");
	completes(WORDS("set", "--f"), "--for\n");
	completes(WORDS("set", "L1=on", "--for", ""), "1m\n10m\n1h\n");
	completes(WORDS("set", "L1", "=", "on", "--for", "=", "10"), "10m\n");
	completes(WORDS("interval", "L"), "L1=\nL2=\nL3=\n");
	completes(WORDS("print", "L1"), "L1\nL1.launches\n");
	completes(WORDS("--socket", "x", "ops", "--r"), "--rank\n");
	completes(WORDS("ops", "--rank", ""), "0\n0-7\n");
	completes(WORDS("--socket", ""), ":file\n");
	completes(WORDS("report", "--"), "--socket\n--since\n--output\n--dir\n--text\n--html\n");
	completes(WORDS("report", "-o", ""), ":file\n");
	completes(WORDS("report", "--since", "1"), "10m\n1h\n12h\n1d\n");
	completes(WORDS("report", "--dir", "a", "b"), ":folder\n");
	completes(WORDS("no-such-verb", ""), "--socket\n--state-dir\n");
	unlink(path);
	rmdir(folder);
}

TEST_MAIN(NULL, NULL)
