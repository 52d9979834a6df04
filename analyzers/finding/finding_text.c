/* SPDX-License-Identifier: Apache-2.0 */
/* See finding_text.h. */
#include "analyzers/finding/finding_text.h"
#include "analyzers/base/utf8.h"

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

void finding_text_begin(struct finding_text *text, char *ret, size_t size)
{
	*text = (struct finding_text){.start = ret, .size = size};
	ret[0] = 0;
}

void finding_text_add(struct finding_text *text, const char *format, ...)
{
	size_t space = text->size - text->used;
	va_list args;
	int n;

	if (text->cut)
		return;
	va_start(args, format);
	n = vsnprintf(text->start + text->used, space, format, args);
	va_end(args);
	text->cut = n < 0 || (size_t)n >= space;
	text->used = text->cut ? text->size - 1 : text->used + (size_t)n;
}

/* Characters that move, hide or end text: C1 controls, marks of direction, line and paragraph separators. */
static bool finding_text_prints(uint32_t code)
{
	return code >= 0xa0 && !(code >= 0x200b && code <= 0x200f) && !(code >= 0x2028 && code <= 0x202e) &&
	       !(code >= 0x2060 && code <= 0x206f) && !(code >= 0xd800 && code <= 0xdfff) && code != 0xfeff &&
	       code <= 0x10ffff;
}

size_t finding_text_character(const char *text)
{
	const unsigned char *byte = (const unsigned char *)text;
	size_t length = utf8_character(byte, 4); /* stops at the terminator, which continues no character */
	uint32_t code = length > 1 ? byte[0] & (0x7fU >> length) : byte[0];

	if (length == 1)
		return code >= 0x20 && code < 0x7f;
	for (size_t i = 1; i < length; i++)
		code = code << 6 | (byte[i] & 0x3f);
	return finding_text_prints(code) ? length : 0;
}

void finding_text_name(struct finding_text *text, const char *name, size_t bytes_max)
{
	size_t at = 0;

	while (name[at]) {
		size_t length = finding_text_character(name + at);

		if (at + (length ? length : 1) > bytes_max) {
			finding_text_add(text, "...");
			return;
		}
		finding_text_add(text, "%.*s", length ? (int)length : 1, length ? name + at : "?");
		at += length ? length : 1;
	}
}

/* "2 h 10 min". */
static void finding_text_two_units(
	struct finding_text *text, double value, double lesser, const char *unit, const char *lesser_unit)
{
	double whole = floor(value);
	double rest = floor((value - whole) * lesser);

	finding_text_add(text, "%.0f %s", whole, unit);
	if (rest > 0)
		finding_text_add(text, " %.0f %s", rest, lesser_unit);
}

/* Three significant digits. */
static void finding_text_three_digits(struct finding_text *text, double value, const char *unit)
{
	int decimals = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
	char digits[32];
	size_t n = (size_t)snprintf(digits, sizeof(digits), "%.*f", decimals, value);

	while (decimals && digits[n - 1] == '0')
		digits[--n] = 0;
	if (decimals && (digits[n - 1] < '0' || digits[n - 1] > '9'))
		digits[--n] = 0;
	finding_text_add(text, "%s %s", digits, unit);
}

void finding_text_duration(struct finding_text *text, double ns)
{
	double s = ns / 1e9;

	if (!(ns >= 0))
		finding_text_add(text, "0 s");
	else if (s > 1e9)
		finding_text_add(text, "years");
	else if (s >= 86400)
		finding_text_two_units(text, s / 86400, 24, "d", "h");
	else if (s >= 3600)
		finding_text_two_units(text, s / 3600, 60, "h", "min");
	else if (s >= 60)
		finding_text_two_units(text, s / 60, 60, "min", "s");
	else if (s >= 0.9995)
		finding_text_three_digits(text, s, "s");
	else if (ns >= 999500)
		finding_text_three_digits(text, ns / 1e6, "ms");
	else if (ns >= 999.5)
		finding_text_three_digits(text, ns / 1e3, "us");
	else
		finding_text_add(text, "%.0f ns", ns);
}

static void finding_text_bytes(struct finding_text *text, double value)
{
	static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB"};
	size_t unit = 0;

	if (value < 1024) {
		finding_text_add(text, "%.0f B", value);
		return;
	}
	for (value /= 1024; value >= 1023.95 && unit < sizeof(units) / sizeof(units[0]) - 1; unit++)
		value /= 1024;
	finding_text_three_digits(text, value, units[unit]);
}

void finding_text_value(struct finding_text *text, double value, const char *unit)
{
	if (!isfinite(value) || fabs(value) > 1e18)
		finding_text_add(text, "unknown");
	else if (strcmp(unit, "ns") == 0)
		finding_text_duration(text, value);
	else if (strcmp(unit, "bytes") == 0 && value >= 0)
		finding_text_bytes(text, value);
	else
		finding_text_add(text, fabs(value) >= 999.5 && fabs(value) < 1e15 ? "%.0f" : "%.3g", value);
}

void finding_text_end(struct finding_text *text)
{
	size_t n = text->size - 4;

	if (!text->cut)
		return;
	/* Whole characters only. */
	while (n && ((unsigned char)text->start[n] & 0xc0) == 0x80)
		n--;
	memcpy(text->start + n, "...", 4);
}
