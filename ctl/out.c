/* SPDX-License-Identifier: Apache-2.0 */
/* Text and JSON for people and programs: see out.h. */
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>
#include "ctl/out.h"

/* Bytes of the well-formed UTF-8 sequence at p, 0 if there is none; overlong forms and surrogates are not well-formed.
 */
static size_t utf8_length(const unsigned char *p)
{
	static const struct {
		unsigned char first, last, low, high;
		size_t length;
	} forms[] = {
		{0x00, 0x7f, 0x80, 0xbf, 1},
		{0xc2, 0xdf, 0x80, 0xbf, 2},
		{0xe0, 0xe0, 0xa0, 0xbf, 3},
		{0xe1, 0xec, 0x80, 0xbf, 3},
		{0xed, 0xed, 0x80, 0x9f, 3},
		{0xee, 0xef, 0x80, 0xbf, 3},
		{0xf0, 0xf0, 0x90, 0xbf, 4},
		{0xf1, 0xf3, 0x80, 0xbf, 4},
		{0xf4, 0xf4, 0x80, 0x8f, 4},
	};

	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		if (p[0] < forms[i].first || p[0] > forms[i].last)
			continue;
		if (forms[i].length > 1 && (p[1] < forms[i].low || p[1] > forms[i].high))
			return 0;
		for (size_t n = 2; n < forms[i].length; n++)
			if ((p[n] & 0xc0) != 0x80)
				return 0;
		return forms[i].length;
	}
	return 0;
}

char *out_clean(const char *text)
{
	char *copy = strdup(text ? text : "");

	if (!copy)
		exit(fail(EXIT_REFUSED, "out of memory"));
	for (unsigned char *p = (unsigned char *)copy; *p;) {
		size_t length = utf8_length(p);
		/* C1 controls (U+0080 to U+009F) move cursors as well as the old ones do. */
		bool control = (*p < ' ' && *p != '\n') || *p == 0x7f || (length == 2 && p[0] == 0xc2 && p[1] < 0xa0);

		if (length == 0 || control)
			memset(p, '?', length ? length : 1);
		p += length ? length : 1;
	}
	return copy;
}

json_t *out_json_text(const char *text)
{
	char *clean = out_clean(text);
	json_t *json = json_string(clean);

	free(clean);
	return json;
}

json_t *out_json_optional(const char *text)
{
	return text && *text ? out_json_text(text) : json_null();
}

uint64_t out_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000ULL + (uint64_t)t.tv_nsec;
}

const char *out_duration(uint64_t ns, char buffer[OUT_BYTES])
{
	static const struct {
		uint64_t unit_ns, part_ns;
		const char *unit, *part;
	} long_units[] = {
		{86400000000000ULL, 3600000000000ULL, "d", "h"},
		{3600000000000ULL, 60000000000ULL, "h", "min"},
		{60000000000ULL, 1000000000ULL, "min", "s"},
	};
	static const struct {
		double unit_ns;
		const char *unit;
	} short_units[] = {{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}};

	for (size_t i = 0; i < ARRAY_SIZE(long_units); i++) {
		if (ns >= long_units[i].unit_ns) {
			snprintf(buffer, OUT_BYTES, "%llu %s %llu %s", (unsigned long long)(ns / long_units[i].unit_ns),
				long_units[i].unit,
				(unsigned long long)(ns % long_units[i].unit_ns / long_units[i].part_ns),
				long_units[i].part);
			return buffer;
		}
	}
	for (size_t i = 0; i < ARRAY_SIZE(short_units); i++) {
		double value = (double)ns / short_units[i].unit_ns;

		if (value >= 1) {
			snprintf(
				buffer, OUT_BYTES, "%.*f %s", value < 10 ? 2 : value < 100, value, short_units[i].unit);
			return buffer;
		}
	}
	snprintf(buffer, OUT_BYTES, "%llu ns", (unsigned long long)ns);
	return buffer;
}

const char *out_for(uint64_t ns, char buffer[OUT_BYTES])
{
	char lasting[OUT_BYTES];

	snprintf(buffer, OUT_BYTES, "%s%.20s", ns < 1000 ? "" : " for ", ns < 1000 ? "" : out_duration(ns, lasting));
	return buffer;
}

const char *out_size(uint64_t bytes, char buffer[OUT_BYTES])
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	double value = (double)bytes;
	size_t i = 0;

	for (; value >= 1024 && i + 1 < ARRAY_SIZE(units); i++)
		value /= 1024;
	snprintf(buffer, OUT_BYTES, i ? "%.1f %s" : "%.0f %s", value, units[i]);
	return buffer;
}

const char *out_count(uint64_t n, char buffer[OUT_BYTES])
{
	char digits[OUT_BYTES];
	int length = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)n), at = 0;

	for (int i = 0; i < length; i++) {
		if (i && (length - i) % 3 == 0)
			buffer[at++] = ',';
		buffer[at++] = digits[i];
	}
	buffer[at] = 0;
	return buffer;
}

char *out_cut(char *text, size_t width)
{
	size_t columns = 0;
	char *last = text;

	for (char *p = text; *p; p++) {
		if ((*p & 0xc0) == 0x80)
			continue;
		if (++columns > width) {
			strcpy(last, "~");
			return text;
		}
		last = p;
	}
	return text;
}

size_t out_columns(const char *text)
{
	size_t columns = 0;

	for (; *text; text++)
		columns += (*text & 0xc0) != 0x80;
	return columns;
}

size_t out_terminal_columns(void)
{
	struct winsize size;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_col == 0)
		return 120;
	return size.ws_col;
}

int out_json(json_t *json)
{
	int r = json ? json_dumpf(json, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(15)) : -1;

	json_decref(json);
	if (r < 0)
		return fail(EXIT_REFUSED, "the answer could not be written as JSON");
	putchar('\n');
	return EXIT_DONE;
}
