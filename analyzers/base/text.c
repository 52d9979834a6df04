/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/base/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/utf8.h"

void text_begin(struct text *text, char *ret, size_t size)
{
	*text = (struct text){.start = ret, .size = size};
	ret[0] = 0;
}

static void text_vadd(struct text *text, const char *format, va_list args)
{
	size_t left = text->size - text->used;
	int n;

	if (text->cut)
		return;
	n = vsnprintf(text->start + text->used, left, format, args);
	text->cut = n < 0 || (size_t)n >= left;
	text->used = text->cut ? text->size - 1 : text->used + (size_t)n;
}

void text_add(struct text *text, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	text_vadd(text, format, args);
	va_end(args);
}

void text_append(char *text, size_t size, const char *format, ...)
{
	struct text all = {.start = text, .used = strlen(text), .size = size};
	va_list args;

	va_start(args, format);
	text_vadd(&all, format, args);
	va_end(args);
	text_end(&all);
}

static bool text_is_printable(uint32_t code)
{
	static const struct {
		uint32_t first, last;
	} hidden[] = {
		{0x80, 0x9f},	    /* C1 controls: U+009B is ESC [ in one */
		{0x61c, 0x61c},	    /* direction of Arabic */
		{0x200b, 0x200f},   /* no width, direction */
		{0x2028, 0x202e},   /* line and paragraph separators, directions */
		{0x2060, 0x206f},   /* invisible operators, isolates */
		{0xfeff, 0xfeff},   /* byte order */
		{0xfff9, 0xfffb},   /* annotations */
		{0xe0000, 0xe0fff}, /* tags */
	};

	for (size_t i = 0; i < sizeof(hidden) / sizeof(hidden[0]); i++)
		if (code >= hidden[i].first && code <= hidden[i].last)
			return false;
	return true;
}

size_t text_printable(const char *text)
{
	const unsigned char *p = (const unsigned char *)text;
	size_t n = p[0] ? utf8_character(p, strnlen(text, 4)) : 0;

	if (n <= 1)
		return n && p[0] >= 0x20 && p[0] < 0x7f;
	return text_is_printable(utf8_decode(p, n)) ? n : 0;
}

char *text_clean(char *text)
{
	char *to = text;

	for (const char *from = text; *from;) {
		size_t length = text_printable(from), whole;

		if (length) {
			memmove(to, from, length);
			to += length;
			from += length;
			continue;
		}
		whole = utf8_character((const unsigned char *)from, strnlen(from, 4));
		*to++ = *from == '\n' || *from == '\r' || *from == '\t' ? ' ' : '?';
		from += whole ? whole : 1;
	}
	/* An empty text may be protobuf-c's constant, which cannot be written to. */
	if (*to)
		*to = 0;
	return text;
}

void text_vprint(FILE *out, const char *format, va_list args)
{
	char *text = NULL;

	if (vasprintf(&text, format, args) < 0) {
		fputs("out of memory", out);
		return;
	}
	fputs(text_clean(text), out);
	free(text);
}

void text_name(struct text *text, const char *name, size_t bytes_max)
{
	size_t at = 0;

	while (name[at]) {
		size_t length = text_printable(name + at);

		if (at + (length ? length : 1) > bytes_max) {
			text_add(text, "...");
			return;
		}
		text_add(text, "%.*s", length ? (int)length : 1, length ? name + at : "?");
		at += length ? length : 1;
	}
}

/* Two units, both whole. */
static void text_two_units(struct text *text, double value, double lesser, const char *unit, const char *lesser_unit)
{
	double whole = floor(value);
	/* A quotient may be a rounding error short of its whole: 190 s are 3 min 10 s. */
	double rest = fmin(floor((value - whole) * lesser + 1e-6), lesser - 1);

	text_add(text, "%.0f %s", whole, unit);
	if (rest > 0)
		text_add(text, " %.0f %s", rest, lesser_unit);
}

/* Three significant digits. */
static void text_three_digits(struct text *text, double value, const char *unit)
{
	int decimals = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
	char digits[32];
	size_t n = (size_t)snprintf(digits, sizeof(digits), "%.*f", decimals, value);

	while (decimals && digits[n - 1] == '0')
		digits[--n] = 0;
	if (decimals && (digits[n - 1] < '0' || digits[n - 1] > '9'))
		digits[--n] = 0;
	text_add(text, "%s %s", digits, unit);
}

void text_duration(struct text *text, double ns)
{
	double s = ns / 1e9;

	if (!(ns >= 0))
		text_add(text, "0 s");
	else if (s > 1e9)
		text_add(text, "years");
	else if (s >= 86400)
		text_two_units(text, s / 86400, 24, "d", "h");
	else if (s >= 3600)
		text_two_units(text, s / 3600, 60, "h", "min");
	else if (s >= 60)
		text_two_units(text, s / 60, 60, "min", "s");
	else if (s >= 0.9995)
		text_three_digits(text, s, "s");
	else if (ns >= 999500)
		text_three_digits(text, ns / 1e6, "ms");
	else if (ns >= 999.5)
		text_three_digits(text, ns / 1e3, "us");
	else
		text_add(text, "%.0f ns", ns);
}

void text_bytes(struct text *text, double value)
{
	static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	size_t unit = 0;

	if (value < 1024) {
		text_add(text, "%.0f B", value);
		return;
	}
	for (value /= 1024; value >= 1023.95 && unit < sizeof(units) / sizeof(units[0]) - 1; unit++)
		value /= 1024;
	text_three_digits(text, value, units[unit]);
}

void text_value(struct text *text, double value, const char *unit)
{
	if (!isfinite(value) || fabs(value) > 1e18)
		text_add(text, "unknown");
	else if (strcmp(unit, "ns") == 0)
		text_duration(text, value);
	else if (strcmp(unit, "bytes") == 0 && value >= 0)
		text_bytes(text, value);
	else
		text_add(text, fabs(value) >= 999.5 && fabs(value) < 1e15 ? "%.0f" : "%.3g", value);
}

void text_end(struct text *text)
{
	if (text->cut)
		memcpy(text->start + utf8_cut(text->start, text->size - 4), "...", 4);
}

const char *text_format_duration(uint64_t ns, char *ret, size_t size)
{
	struct text text;

	text_begin(&text, ret, size);
	text_duration(&text, (double)ns);
	return ret;
}

void text_put_html(FILE *out, const char *text)
{
	static const struct {
		char c;
		const char *as;
	} escapes[] = {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}};

	for (; *text; text++) {
		const char *as = NULL;

		for (size_t i = 0; i < sizeof(escapes) / sizeof(escapes[0]) && !as; i++)
			as = escapes[i].c == *text ? escapes[i].as : NULL;
		if (as)
			fputs(as, out);
		else
			fputc(*text, out);
	}
}
