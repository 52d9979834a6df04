/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/base/term.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static const char *const term_codes[TERM_COLOURS] = {
	[TERM_PLAIN] = "",
	[TERM_GREEN] = "\033[32m",
	[TERM_YELLOW] = "\033[33m",
	[TERM_RED] = "\033[1;31m",
	[TERM_FAINT] = "\033[2m",
};

#define TERM_CODE_END "\033[0m"
#define TERM_WIDTH_UNKNOWN 80

size_t term_width(FILE *out)
{
	struct winsize size;
	int fd = fileno(out);

	if (fd < 0 || !isatty(fd))
		return 0;
	if (ioctl(fd, TIOCGWINSZ, &size) < 0 || size.ws_col == 0)
		return TERM_WIDTH_UNKNOWN;
	return size.ws_col;
}

bool term_has_colours(FILE *out)
{
	const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
	int fd = fileno(out);

	if ((no && *no) || !term || !*term || strcmp(term, "dumb") == 0)
		return false;
	return fd >= 0 && isatty(fd);
}

const char *term_start(FILE *out, enum term_colour colour)
{
	return term_has_colours(out) ? term_codes[colour] : "";
}

const char *term_end(FILE *out, enum term_colour colour)
{
	return colour != TERM_PLAIN && term_has_colours(out) ? TERM_CODE_END : "";
}

/* The first byte behind a colour code that begins at p, else p. */
static const char *term_skip_code(const char *p)
{
	const char *end;

	if (p[0] != '\033' || p[1] != '[')
		return p;
	end = p + 2 + strspn(p + 2, "0123456789;");
	return *end == 'm' ? end + 1 : p;
}

static size_t term_columns_of(const char *text, size_t bytes)
{
	const char *end = text + bytes;
	size_t columns = 0;

	while (text < end) {
		const char *next = term_skip_code(text);

		if (next != text) {
			text = next;
			continue;
		}
		columns += (*text & 0xc0) != 0x80;
		text++;
	}
	return columns;
}

/* Bytes of text that fill that many columns. */
static size_t term_bytes_of(const char *text, size_t bytes, size_t columns)
{
	const char *p = text, *end = text + bytes;

	while (p < end) {
		const char *next = term_skip_code(p);

		if (next == p && (*p & 0xc0) != 0x80 && columns-- == 0)
			break;
		p = next == p ? p + 1 : next;
	}
	return (size_t)(p - text);
}

size_t term_columns(const char *text)
{
	return term_columns_of(text, strlen(text));
}

char *term_cut(char *text, size_t width)
{
	size_t columns = 0;
	char *last = text;

	for (char *p = text; *p; p++) {
		if ((*p & 0xc0) == 0x80)
			continue;
		if (++columns > width) {
			strcpy(last, width ? "~" : "");
			return text;
		}
		last = p;
	}
	return text;
}

#define TERM_PART_MIN 8 /* columns; a line for fewer leaves a long word whole */

static void term_break(FILE *out, size_t indent)
{
	fprintf(out, "\n%*s", (int)indent, "");
}

void term_wrap(FILE *out, const char *text, size_t column, size_t indent, size_t width)
{
	bool first = true; /* of its line */

	while (*text) {
		size_t blanks = strspn(text, " "), bytes = strcspn(text + blanks, " \n");
		size_t columns = term_columns_of(text + blanks, bytes);

		if (text[blanks] == '\n') {
			term_break(out, indent);
			column = indent;
			first = true;
			text += blanks + 1;
			continue;
		}
		/* Nothing is gained where a line has only its indent. */
		if (width && bytes && column + blanks + columns > width && (!first || column > indent)) {
			term_break(out, indent);
			column = indent;
			text += blanks;
			blanks = 0;
		}
		fwrite(text, 1, blanks, out);
		text += blanks;
		column += blanks;
		while (column + columns > width && width > column && width >= indent + TERM_PART_MIN) {
			size_t part = term_bytes_of(text, bytes, width - column);

			fwrite(text, 1, part, out);
			term_break(out, indent);
			text += part;
			bytes -= part;
			columns -= width - column;
			column = indent;
		}
		fwrite(text, 1, bytes, out);
		column += columns;
		first = false;
		text += bytes;
	}
}
