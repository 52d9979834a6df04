/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <time.h>
#include "analyzers/base/clock.h"
#include "ctl/out.h"

#define OUT_LABEL_COLUMNS 10

json_t *out_json_optional(const char *text)
{
	return text && *text ? json_string(text) : json_null();
}

uint64_t out_now_ns(void)
{
	return clock_ns(CLOCK_REALTIME);
}

const char *out_for(uint64_t ns, char buffer[UNITS_BYTES])
{
	char lasting[UNITS_BYTES];

	snprintf(
		buffer, UNITS_BYTES, "%s%.20s", ns < 1000 ? "" : " for ", ns < 1000 ? "" : units_duration(ns, lasting));
	return buffer;
}

const char *out_start(enum term_colour colour)
{
	return term_start(stdout, colour);
}

const char *out_end(enum term_colour colour)
{
	return term_end(stdout, colour);
}

static _printf_(2, 0) void out_wrapped(size_t indent, const char *format, va_list args)
{
	char *text = NULL;

	if (vasprintf(&text, format, args) < 0)
		exit(ctl_fail(EXIT_REFUSED, "out of memory"));
	term_wrap(stdout, text, indent, indent, term_width(stdout));
	putchar('\n');
	free(text);
}

void out_line(const char *label, const char *format, ...)
{
	va_list args;

	printf("%-*s", OUT_LABEL_COLUMNS, label);
	va_start(args, format);
	out_wrapped(OUT_LABEL_COLUMNS, format, args);
	va_end(args);
}

void out_below(size_t indent, const char *format, ...)
{
	va_list args;

	printf("%*s", (int)indent, "");
	va_start(args, format);
	out_wrapped(indent, format, args);
	va_end(args);
}

int out_json(json_t *json)
{
	int r = json ? json_dumpf(json, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(15)) : -1;

	json_decref(json);
	if (r < 0)
		return ctl_fail(EXIT_REFUSED, "cannot write the answer as JSON");
	putchar('\n');
	return EXIT_DONE;
}
