/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/tool/tool.h"
#include "analyzers/base/clock.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "analyzers/base/fnv1a.h"
#include "analyzers/base/replace.h"
#include "analyzers/base/text.h"
#include "analyzers/base/units.h"

#define WARNINGS_MAX 256	 /* distinct warnings remembered */
#define TOOL_SENTENCE_BYTES 4096 /* of a usage error; a longer one is cut */

static const char *tool_verb = "tool";
static char tool_full_name[64] = "tool"; /* with "tracectl " where that runs it */

void tool_begin(const char *name, char **argv)
{
	bool from_tracectl = argv[0] && strncmp(argv[0], "tracectl ", 9) == 0;

	tool_verb = name;
	snprintf(tool_full_name, sizeof(tool_full_name), "%s%s", from_tracectl ? "tracectl " : "", name);
	argv[0] = tool_full_name;
	signal(SIGPIPE, SIG_IGN);
}

const char *tool_name(void)
{
	return tool_full_name;
}

int tool_fail(int status, const char *format, ...)
{
	va_list args;

	fprintf(stderr, "%s: ", tool_full_name);
	va_start(args, format);
	text_vprint(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	return status;
}

/* Several passes over one store produce the same warnings. */
static bool tool_said(const char *sentence)
{
	static uint64_t hashes[WARNINGS_MAX];
	static size_t count;
	uint64_t hash = fnv1a_text(FNV1A_START, sentence);

	for (size_t i = 0; i < count; i++)
		if (hashes[i] == hash)
			return true;
	if (count < WARNINGS_MAX)
		hashes[count++] = hash;
	return false;
}

void tool_warn(void *arg, const char *sentence)
{
	if (tool_said(sentence))
		return;
	(void)tool_fail(0, "warning: %s", sentence);
}

int tool_fail_usage(const char *format, ...)
{
	char sentence[TOOL_SENTENCE_BYTES];
	va_list args;

	va_start(args, format);
	vsnprintf(sentence, sizeof(sentence), format, args);
	va_end(args);
	return tool_fail(2, "%s; see tracectl help %s", sentence, tool_verb);
}

int tool_fail_write(const char *path, int error)
{
	return tool_fail(1, "cannot write %s: %s", path, error == -EISDIR ? "it is a folder" : strerror(-error));
}

int tool_written(void)
{
	int r = replace_written(stdout);

	return r < 0 ? tool_fail(1, "cannot write: %s", strerror(-r)) : 0;
}

int tool_save(const char *what, const char *output, bool for_terminal, int (*write)(const void *arg, FILE *out),
	const void *arg)
{
	struct replace replace;
	int r;

	if (!output || strcmp(output, "-") == 0) {
		if (!for_terminal && isatty(STDOUT_FILENO))
			return tool_fail(2, "refusing to write %s to a terminal; use -o FILE", what);
		r = write(arg, stdout);
		return r < 0 ? tool_fail(1, "cannot write %s: %s", what, strerror(-r)) : tool_written();
	}
	r = replace_begin(&replace, output);
	if (r == 0)
		r = replace_end(&replace, write(arg, replace.out), false);
	return r < 0 ? tool_fail_write(output, r) : 0;
}

int tool_version(void)
{
	printf("%s (ranktrace) %s\n", tool_verb, RANKTRACE_VERSION);
	return tool_written();
}

int tool_usage(const char *text)
{
	fputs(text, stdout);
	return tool_written();
}

int tool_state_dir(const char *named, const char **ret)
{
	const char *set = getenv("RANKTRACE_STATE_DIR"), *error = getenv("RANKTRACE_STATE_ERROR");
	const char *note = getenv("RANKTRACE_STATE_NOTE"), *code = getenv("RANKTRACE_STATE_EXIT");

	*ret = named ? named : set && *set ? set : RANKTRACE_STATEDIR;
	if (named)
		return 0;
	if (error && *error)
		return tool_fail(code && strcmp(code, "3") == 0 ? 3 : 1, "%s", error);
	if (note && *note)
		(void)tool_fail(0, "%s", note);
	return 0;
}

uint64_t tool_now_ns(void)
{
	return clock_ns(CLOCK_REALTIME);
}

static int tool_parse_date(const char *text, uint64_t *ret_ns)
{
	static const char *const formats[] = {
		"%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M", "%Y-%m-%d"};

	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		struct tm tm = {.tm_isdst = -1};
		const char *end = strptime(text, formats[i], &tm);
		time_t seconds;

		if (!end || *end)
			continue;
		seconds = mktime(&tm);
		if (seconds < 0)
			return -EINVAL;
		*ret_ns = (uint64_t)seconds * NSEC_PER_SEC;
		return 0;
	}
	return -EINVAL;
}

/* A time of the last 24 hours: HH:MM or HH:MM:SS. */
static int tool_parse_clock(const char *text, uint64_t now_ns, uint64_t *ret_ns)
{
	time_t now = (time_t)(now_ns / NSEC_PER_SEC), seconds;
	const char *end;
	struct tm tm;

	if (!localtime_r(&now, &tm))
		return -EINVAL;
	tm.tm_sec = 0;
	end = strptime(text, "%H:%M", &tm);
	if (end && *end == ':')
		end = strptime(text, "%H:%M:%S", &tm);
	if (!end || *end)
		return -EINVAL;
	tm.tm_isdst = -1;
	seconds = mktime(&tm);
	if (seconds > now) {
		tm.tm_mday--;
		tm.tm_isdst = -1;
		seconds = mktime(&tm);
	}
	if (seconds < 0)
		return -EINVAL;
	*ret_ns = (uint64_t)seconds * NSEC_PER_SEC;
	return 0;
}

int tool_since(const char *text, uint64_t now_ns, uint64_t *ret_ns)
{
	uint64_t ago_ns = 0;
	int r = units_parse_duration(text, &ago_ns);

	if (r == -EINVAL && tool_parse_clock(text, now_ns, ret_ns) == 0)
		return 0;
	if (r == -EINVAL)
		return tool_parse_date(text, ret_ns);
	*ret_ns = r == 0 && ago_ns < now_ns ? now_ns - ago_ns : 0;
	return 0;
}

const char *tool_time(uint64_t ns, char buffer[TOOL_TEXT_BYTES])
{
	time_t seconds = (time_t)(ns / NSEC_PER_SEC);
	struct tm tm;

	if (!localtime_r(&seconds, &tm) || strftime(buffer, TOOL_TEXT_BYTES, "%Y-%m-%d %H:%M:%S", &tm) == 0)
		snprintf(buffer, TOOL_TEXT_BYTES, "?");
	return buffer;
}
