/* SPDX-License-Identifier: Apache-2.0 */
/* Texts by numbers, each kept once: rows that are sorted carry numbers. Bounded: what finds no room has no number. */
#ifndef RANKTRACE_TIMELINE_TEXTS_H
#define RANKTRACE_TIMELINE_TEXTS_H

#include <stddef.h>
#include <stdint.h>

#define TEXTS_MAX 1048576
#define TEXTS_BYTES_MAX (32UL << 20)

struct texts;

struct texts *texts_new(void); /* NULL: no memory */
struct texts *texts_free(struct texts *texts);
/* From 1; 0: no room. */
uint32_t texts_number(struct texts *texts, const char *text);
/* NULL: no text has that number. Valid until the next texts_number() or texts_clear(). */
const char *texts_of(const struct texts *texts, uint32_t number);
/* Forgets all. */
void texts_clear(struct texts *texts);

#endif
