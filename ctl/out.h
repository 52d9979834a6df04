/* SPDX-License-Identifier: Apache-2.0 */
/* Text and JSON for people and programs; units, colours and tables are in analyzers/base. */
#ifndef RANKTRACE_OUT_H
#define RANKTRACE_OUT_H

#include <jansson.h>
#include "analyzers/base/term_table.h"
#include "analyzers/base/units.h"
#include "ctl/tracectl.h"
#include "proto/control.pb-c.h"

/* A message of the daemon (its descriptor has a row in out_message.c), null for NULL. Its texts are printable
 * (client.h). */
json_t *out_message(const void *message);
/* An array of them. */
json_t *out_message_list(size_t count, void *const *message);
/* Text, or null where it is empty. */
json_t *out_json_optional(const char *text);

/* " for 1.25 s"; "" where it has just begun */
const char *out_for(uint64_t ns, char buffer[UNITS_BYTES]);
/* Since the epoch. */
uint64_t out_now_ns(void);

/* A line behind a label, "" for none, wrapped behind it where the terminal is narrower. */
void out_line(const char *label, const char *format, ...) _printf_(2, 3);
/* A line as of out_line(), at another indent and without a label, for texts below something. */
void out_below(size_t indent, const char *format, ...) _printf_(2, 3);
/* Codes of colours on stdout, for texts of these. */
const char *out_start(enum term_colour colour);
const char *out_end(enum term_colour colour);

/* Prints and releases; returns EXIT_DONE. */
int out_json(json_t *json);

#endif
