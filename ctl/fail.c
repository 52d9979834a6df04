/* SPDX-License-Identifier: Apache-2.0 */
/* How what is wrong is said. */
#include <stdarg.h>
#include "analyzers/base/text.h"
#include "ctl/tracectl.h"

static const char *fail_name;

void fail_verb(const char *verb)
{
	fail_name = verb;
}

static _printf_(1, 0) void fail_write(const char *format, va_list args)
{
	fflush(stdout);
	fprintf(stderr, "tracectl%s%s: ", fail_name ? " " : "", fail_name ? fail_name : "");
	text_vprint(stderr, format, args);
}

int ctl_fail(enum exit_code code, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fail_write(format, args);
	va_end(args);
	fputc('\n', stderr);
	return (int)code;
}

int fail_usage(const struct verb *verb, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fail_write(format, args);
	va_end(args);
	fputs("; usage: tracectl ", stderr);
	verb_usage(verb, stderr);
	fputc('\n', stderr);
	return EXIT_USAGE;
}
