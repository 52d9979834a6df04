/* SPDX-License-Identifier: Apache-2.0 */
/* Messages as they arrive on stderr: form, levels, long and broken ones, those of libbpf, and when it is the journal.
 */
#define TEST_ALONE	     /* has a file of the daemon within */
#include "daemon/base/log.c" /* for what libbpf calls */
#include "tests/test.h"

static int saved_stderr = -1;
static FILE *capture;

static int setup(void **state)
{
	unsetenv("JOURNAL_STREAM");
	capture = tmpfile();
	if (!capture)
		return -1;
	saved_stderr = dup(STDERR_FILENO);
	return log_open(LOG_INFO);
}

static int teardown(void **state)
{
	close(saved_stderr);
	return fclose(capture);
}

static void begin_capture(void)
{
	fflush(stderr);
	assert_int_equal(ftruncate(fileno(capture), 0), 0);
	rewind(capture);
	assert_true(dup2(fileno(capture), STDERR_FILENO) >= 0);
}

/* A failed assertion must reach the real stderr, so capturing ends before anything is compared. */
static void expect_captured(const char *text)
{
	static char got[8192];
	size_t n;

	fflush(stderr);
	dup2(saved_stderr, STDERR_FILENO);
	rewind(capture);
	n = fread(got, 1, sizeof(got) - 1, capture);
	got[n] = 0;
	assert_string_equal(got, text);
}

TEST(lines_name_level_and_component)
{
	begin_capture();
	log_warning("store", "no space in %s, dropping rows", "/d");
	log_debug("store", "not shown");
	log_info("ranks", "shown");
	expect_captured("ranktraced: warning: store: no space in /d, dropping rows\nranktraced: info: ranks: shown\n");
	begin_capture();
	log_set_level(LOG_ERR);
	log_warning("store", "not shown");
	log_error("store", "shown");
	log_set_level(LOG_DEBUG);
	log_debug("store", "shown");
	expect_captured("ranktraced: error: store: shown\nranktraced: debug: store: shown\n");
	log_set_level(LOG_INFO);
}

TEST(errors_keep_errno_and_yield_it)
{
	int r, after;

	begin_capture();
	errno = EPIPE;
	r = log_error_errno("store", ENOSPC, "cannot write %s", "x");
	after = errno;
	expect_captured("ranktraced: error: store: cannot write x: No space left on device\n");
	assert_int_equal(r, -ENOSPC);
	assert_int_equal(after, EPIPE);
}

TEST(long_and_broken_messages_are_one_line_each)
{
	char text[LOG_MESSAGE_BYTES + 100];
	char expected[LOG_MESSAGE_BYTES + 100];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	snprintf(expected, sizeof(expected), "ranktraced: info: a: %.*s...\n", LOG_MESSAGE_BYTES - 4, text);
	begin_capture();
	log_info("a", "%s", text);
	expect_captured(expected);
	begin_capture();
	log_info("a", "one\n\ntwo\r\n");
	log_info("a", "%s", "");
	expect_captured("ranktraced: info: a: one  two\n");
}

static _printf_(2, 3) void as_libbpf(enum libbpf_print_level level, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	log_on_libbpf(level, format, list);
	va_end(list);
}

/* What a job is called may be no text at all. */
TEST(any_bytes_are_text)
{
	const char *field[] = {"RANKTRACE_JOB=x"};

	begin_capture();
	log_info("ranks", "job %s", "a\xff\xfe\x1b[2Jb\x7f \xe2\x82\xac \xc3");
	log_info("ranks", "job %s", "x\nranktraced: error: store: forged \xe2\x80\xae\xc2\x9b");
	log_fields(LOG_INFO, "findings", "b\xff", field, 1);
	expect_captured(
		"ranktraced: info: ranks: job a???[2Jb? \xe2\x82\xac ?\n"
		"ranktraced: info: ranks: job x ranktraced: error: store: forged ??\nranktraced: info: findings: b?\n");
}

TEST(libraries_are_routed)
{
	begin_capture();
	as_libbpf(LIBBPF_WARN, "prog '%s': failed\n", "p");
	as_libbpf(LIBBPF_WARN, "one\ntwo\n");
	as_libbpf(LIBBPF_INFO, "not shown\n");
	as_libbpf(LIBBPF_WARN, "Failed to bump RLIMIT_MEMLOCK (err = %d)\n", -1);
	as_libbpf(
		LIBBPF_WARN, "prog '%s': failed to attach to raw tracepoint '%s': %s\n", "p", "t", "Invalid argument");
	log_on_libevent(EVENT_LOG_WARN, "epoll is odd");
	log_on_libevent(99, "unknown severity");
	expect_captured("ranktraced: info: libbpf: prog 'p': failed\n"
			"ranktraced: info: libbpf: one\nranktraced: info: libbpf: two\nranktraced: warning: libevent: "
			"epoll is odd\n"
			"ranktraced: warning: libevent: unknown severity\n");
}

TEST(the_journal_is_known_by_its_stream)
{
	char stream[64];
	struct stat st;

	assert_false(log_stderr_is_journal());
	setenv("JOURNAL_STREAM", "nonsense", 1);
	assert_false(log_stderr_is_journal());
	assert_int_equal(fstat(STDERR_FILENO, &st), 0);
	snprintf(stream, sizeof(stream), "%llu:%llu", (unsigned long long)st.st_dev, (unsigned long long)st.st_ino + 1);
	setenv("JOURNAL_STREAM", stream, 1);
	assert_false(log_stderr_is_journal());
	snprintf(stream, sizeof(stream), "%llu:%llu", (unsigned long long)st.st_dev, (unsigned long long)st.st_ino);
	setenv("JOURNAL_STREAM", stream, 1);
	assert_true(log_stderr_is_journal());
	unsetenv("JOURNAL_STREAM");
}

TEST_MAIN(setup, teardown)
