/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers for texts, each stored once, for rows to be sorted. Bounded: texts beyond the bound have no number. */
#ifndef RANKTRACE_TIMELINE_ROW_TEXTS_H
#define RANKTRACE_TIMELINE_ROW_TEXTS_H

#include <stddef.h>
#include <stdint.h>

#define ROW_TEXTS_MAX 1048576
#define ROW_TEXTS_BYTES_MAX (32UL << 20)

struct row_texts;

struct row_texts *row_texts_new(void); /* NULL: out of memory */
struct row_texts *row_texts_free(struct row_texts *texts);
/* From 1; 0: full. */
uint32_t row_texts_number(struct row_texts *texts, const char *text);
/* NULL: unknown number. Valid until the next row_texts_number(). */
const char *row_texts_of(const struct row_texts *texts, uint32_t number);

#endif
