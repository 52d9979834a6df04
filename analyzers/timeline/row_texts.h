/* SPDX-License-Identifier: Apache-2.0 */
/* Texts by numbers, each kept once: rows that are sorted carry numbers. Bounded: what finds no room has no number. */
#ifndef RANKTRACE_TIMELINE_ROW_TEXTS_H
#define RANKTRACE_TIMELINE_ROW_TEXTS_H

#include <stddef.h>
#include <stdint.h>

#define ROW_TEXTS_MAX 1048576
#define ROW_TEXTS_BYTES_MAX (32UL << 20)

struct row_texts;

struct row_texts *row_texts_new(void); /* NULL: no memory */
struct row_texts *row_texts_free(struct row_texts *texts);
/* From 1; 0: no room. */
uint32_t row_texts_number(struct row_texts *texts, const char *text);
/* NULL: no text has that number. Valid until the next row_texts_number(). */
const char *row_texts_of(const struct row_texts *texts, uint32_t number);

#endif
