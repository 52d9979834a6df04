/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text on a terminal: its width, its colours, wrapping. A stream that is no terminal has no width and no colours, so
 * that a pipe gets everything. A character is one column; colour codes are none. Foreign text is cleaned before
 * (text_clean(), base/text.h).
 */
#ifndef RANKTRACE_BASE_TERM_H
#define RANKTRACE_BASE_TERM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum term_colour { TERM_PLAIN, TERM_GREEN, TERM_YELLOW, TERM_RED, TERM_FAINT, TERM_COLOURS };

/* Columns; 0: no terminal. */
size_t term_width(FILE *out);
/* A terminal, and neither NO_COLOR nor TERM=dumb forbids it. */
bool term_has_colours(FILE *out);
/* The codes around coloured text; "" where out has no colours, or for TERM_PLAIN. */
const char *term_start(FILE *out, enum term_colour colour);
const char *term_end(FILE *out, enum term_colour colour);

size_t term_columns(const char *text);
/* Cuts to width columns, the last one '~' where something is missing; yields text, which has no colour codes. */
char *term_cut(char *text, size_t width);

/*
 * Writes text with breaks at blanks so that no line is wider than width (0: no limit), without a line break at its
 * end. column: where the first line begins; indent: where the others do. A word that is wider than
 * a line is broken, but whole where a line has fewer than 8 columns.
 */
void term_wrap(FILE *out, const char *text, size_t column, size_t indent, size_t width);

#endif
