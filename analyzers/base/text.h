/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text for people in a bounded buffer: cut text ends with "...", measures carry units, foreign names become printable.
 *
 * What a terminal or a log shows passes text_printable(): names of jobs, ranks, files and segments may hold anything.
 * Raw text goes only into files and pipes of a format that quotes it (CSV, JSON, traces).
 */
#ifndef RANKTRACE_BASE_TEXT_H
#define RANKTRACE_BASE_TEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct text {
	char *start;
	size_t used, size; /* used < size; terminated */
	bool cut;
};

/* size: at least 4. */
void text_begin(struct text *text, char *ret, size_t size);
__attribute__((format(printf, 2, 3))) void text_add(struct text *text, const char *format, ...);
/* A foreign name: bytes that are not printable UTF-8 become '?'; cut at bytes_max with "...". */
void text_name(struct text *text, const char *name, size_t bytes_max);
/* "310 ms", "1.21 s", "12 min 5 s", "2 h 10 min", "3 d 4 h". */
void text_duration(struct text *text, double ns);
/* "512 B", "4 MiB", "1.21 GiB". */
void text_bytes(struct text *text, double bytes);
/* In the unit of a piece of evidence: "ns", "bytes" or any other. */
void text_value(struct text *text, double value, const char *unit);
/* Ends cut text with "...". */
void text_end(struct text *text);

/* Adds to terminated text in a buffer of that size; cut text ends with "...". */
__attribute__((format(printf, 3, 4))) void text_append(char *text, size_t size, const char *format, ...);

/* text_duration() into a buffer, which is returned. */
const char *text_format_duration(uint64_t ns, char *ret, size_t size);

/* Length of the printable UTF-8 character at text: 1 to 4; 0 if there is none. Controls, and what moves, hides,
 * reorders or ends text, are not. */
size_t text_printable(const char *text);
/* One printable line, in place: line breaks and tabs become blanks, other characters that are not printable '?'.
 * Returns text. */
char *text_clean(char *text);
/* Prints a message as one such line, without a line break. */
__attribute__((format(printf, 2, 0))) void text_vprint(FILE *out, const char *format, va_list args);
/* Escaped for HTML's text and attributes in quotes. */
void text_put_html(FILE *out, const char *text);

#endif
