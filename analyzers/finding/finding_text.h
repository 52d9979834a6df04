/* SPDX-License-Identifier: Apache-2.0 */
/* Text of bounded size for findings' sentences: measures in units for people, names from outside. */
#ifndef RANKTRACE_FINDING_FINDING_TEXT_H
#define RANKTRACE_FINDING_FINDING_TEXT_H

#include <stdbool.h>
#include <stddef.h>

struct finding_text {
	char *start;
	size_t used, size; /* used < size: terminated */
	bool cut;
};

void finding_text_begin(struct finding_text *text, char *ret, size_t size);
__attribute__((format(printf, 2, 3))) void finding_text_add(struct finding_text *text, const char *format, ...);
/* A name from outside: bytes that are no printing UTF-8 become '?'; cut at bytes_max with "...". */
void finding_text_name(struct finding_text *text, const char *name, size_t bytes_max);
/* "310 ms", "1.21 s", "12 min 5 s", "2 h 10 min", "3 d 4 h". */
void finding_text_duration(struct finding_text *text, double ns);
/* By the unit of the evidence: duration, bytes, or a number. */
void finding_text_value(struct finding_text *text, double value, const char *unit);
/* Ends it with "..." if it was cut. */
void finding_text_end(struct finding_text *text);

/* Length of the printing UTF-8 character at text: 1 to 4; 0 if there is none. text is terminated. */
size_t finding_text_character(const char *text);

#endif
