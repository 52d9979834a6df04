/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers for texts, in their order, each stored once. Bounded: texts beyond the bound have no number. */
#ifndef RANKTRACE_BASE_TEXT_POOL_H
#define RANKTRACE_BASE_TEXT_POOL_H

#include <stddef.h>
#include <stdint.h>

#define TEXT_POOL_MAX 1048576
#define TEXT_POOL_BYTES_MAX (32UL << 20)

struct text_pool;

struct text_pool *text_pool_new(void); /* NULL: out of memory */
struct text_pool *text_pool_free(struct text_pool *texts);
/* From 1; 0: full. */
uint32_t text_pool_number(struct text_pool *texts, const char *text);
/* NULL: unknown number. Valid until the next text_pool_number(). */
const char *text_pool_text(const struct text_pool *texts, uint32_t number);

#endif
