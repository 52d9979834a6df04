/* SPDX-License-Identifier: Apache-2.0 */
/* How tracectl says what is wrong. */
#include <stdarg.h>
#include "ctl/tracectl.h"

int fail(enum exit_code code, const char *format, ...)
{
	va_list args;

	fflush(stdout);
	fputs("tracectl: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	return (int)code;
}

int fail_argument(const char *verb, const char *argument)
{
	const struct verb *row = verb_find(verb);

	return fail(EXIT_USAGE, "%s does not take '%s'; usage: tracectl %s %s", verb, argument, verb,
		row ? row->usage : "");
}
