/* SPDX-License-Identifier: Apache-2.0 */
/* Text and JSON for people and programs. What comes from ranks (names, command lines) is cleaned before it is shown. */
#ifndef RANKTRACE_OUT_H
#define RANKTRACE_OUT_H

#include <jansson.h>
#include "ctl/tracectl.h"

#define OUT_BYTES 32

/* A copy for free(), in which control characters and broken UTF-8 are '?' (line breaks stay). Ends the program where
 * there is no memory. */
char *out_clean(const char *text);
json_t *out_json_text(const char *text);
/* Text, or null where it is empty. */
json_t *out_json_optional(const char *text);

/* "3 h 12 min", "1.25 s", "830 us" */
const char *out_duration(uint64_t ns, char buffer[OUT_BYTES]);
/* " for 1.25 s"; "" where it has just begun */
const char *out_for(uint64_t ns, char buffer[OUT_BYTES]);
/* Since the epoch. */
uint64_t out_now_ns(void);
/* "12.3 MiB" */
const char *out_size(uint64_t bytes, char buffer[OUT_BYTES]);
/* "1,234,567" */
const char *out_count(uint64_t n, char buffer[OUT_BYTES]);
/* Cut to width columns, the last one '~' where something is missing; yields text. */
char *out_cut(char *text, size_t width);
/* Columns that a clean text takes, a character each. */
size_t out_columns(const char *text);
/* Of the terminal that is written to; 120 where it is none. */
size_t out_terminal_columns(void);

/* Prints and releases; returns EXIT_DONE. */
int out_json(json_t *json);

#endif
