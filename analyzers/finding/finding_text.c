/* SPDX-License-Identifier: Apache-2.0 */
/* See finding_text.h. */
#include "analyzers/finding/finding_text.h"

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
	size_t left = text->size - text->used;
	va_list args;
	int n;

	if (text->cut)
		return;
	va_start(args, format);
	n = vsnprintf(text->start + text->used, left, format, args);
	va_end(args);
	text->cut = n < 0 || (size_t)n >= left;
	text->used = text->cut ? text->size - 1 : text->used + (size_t)n;
}

/* Characters that move, hide or end text: C1 controls, marks of direction, line and paragraph separators. */
static bool printing(uint32_t code)
{
	return code >= 0xa0 && !(code >= 0x200b && code <= 0x200f) && !(code >= 0x2028 && code <= 0x202e) &&
	       !(code >= 0x2060 && code <= 0x206f) && !(code >= 0xd800 && code <= 0xdfff) && code != 0xfeff &&
	       code <= 0x10ffff;
}

size_t finding_text_character(const char *text)
{
	static const struct {
		uint8_t mask, head;
		uint32_t least;
	} forms[] = {{0xe0, 0xc0, 0x80}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}};
	const uint8_t *byte = (const uint8_t *)text;

	if (byte[0] >= 0x20 && byte[0] < 0x7f)
		return 1;
	for (size_t form = 0; form < sizeof(forms) / sizeof(forms[0]); form++) {
		uint32_t code = byte[0] & (uint8_t)~forms[form].mask;
		size_t i = 1;

		if ((byte[0] & forms[form].mask) != forms[form].head)
			continue;
		for (; i < form + 2 && (byte[i] & 0xc0) == 0x80; i++)
			code = code << 6 | (byte[i] & 0x3f);
		return i == form + 2 && code >= forms[form].least && printing(code) ? i : 0;
	}
	return 0;
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

/* Two units, the lesser one whole. */
static void two_units(struct finding_text *text, double value, double lesser, const char *unit, const char *lesser_unit)
{
	double whole = floor(value);
	double rest = floor((value - whole) * lesser);

	finding_text_add(text, "%.0f %s", whole, unit);
	if (rest > 0)
		finding_text_add(text, " %.0f %s", rest, lesser_unit);
}

/* Three digits that count. */
static void three_digits(struct finding_text *text, double value, const char *unit)
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
		two_units(text, s / 86400, 24, "d", "h");
	else if (s >= 3600)
		two_units(text, s / 3600, 60, "h", "min");
	else if (s >= 60)
		two_units(text, s / 60, 60, "min", "s");
	else if (s >= 0.9995)
		three_digits(text, s, "s");
	else if (ns >= 999500)
		three_digits(text, ns / 1e6, "ms");
	else if (ns >= 999.5)
		three_digits(text, ns / 1e3, "us");
	else
		finding_text_add(text, "%.0f ns", ns);
}

static void bytes(struct finding_text *text, double value)
{
	static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB"};
	size_t unit = 0;

	if (value < 1024) {
		finding_text_add(text, "%.0f B", value);
		return;
	}
	for (value /= 1024; value >= 1023.95 && unit < sizeof(units) / sizeof(units[0]) - 1; unit++)
		value /= 1024;
	three_digits(text, value, units[unit]);
}

void finding_text_value(struct finding_text *text, double value, const char *unit)
{
	if (!isfinite(value) || fabs(value) > 1e18)
		finding_text_add(text, "not known");
	else if (strcmp(unit, "ns") == 0)
		finding_text_duration(text, value);
	else if (strcmp(unit, "bytes") == 0 && value >= 0)
		bytes(text, value);
	else
		finding_text_add(text, fabs(value) >= 999.5 && fabs(value) < 1e15 ? "%.0f" : "%.3g", value);
}

void finding_text_end(struct finding_text *text)
{
	size_t n = text->size - 4;

	if (!text->cut)
		return;
	/* Not in the middle of a character. */
	while (n && ((unsigned char)text->start[n] & 0xc0) == 0x80)
		n--;
	memcpy(text->start + n, "...", 4);
}
