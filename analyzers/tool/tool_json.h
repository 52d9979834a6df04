/* SPDX-License-Identifier: Apache-2.0 */
/* Values and objects of JSON, as programs write them: null for what is not known. */
#ifndef RANKTRACE_TOOL_TOOL_JSON_H
#define RANKTRACE_TOOL_TOOL_JSON_H

#include <jansson.h>
#include <stdint.h>

/* An object of pairs of a key and a json_t *, which it takes, up to NULL. */
json_t *tool_object(const char *key, ...) __attribute__((sentinel));
/* null for "" and for what is not UTF-8. */
json_t *tool_text(const char *text);
/* null for what is not finite. */
json_t *tool_real(double value);
json_t *tool_count(uint64_t count);
/* null for 0. */
json_t *tool_some(uint64_t count);
/* null below 0. */
json_t *tool_known(int64_t number);
/* Prints it with a line break, and releases it. 0, or 1 with a sentence for NULL. Write errors: tool_written(). */
int tool_print(json_t *json, size_t flags);

#endif
