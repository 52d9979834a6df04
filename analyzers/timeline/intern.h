/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers for texts, from 1 a kind: each text is written once. Bounded: the caller clears a full table and informs
 * readers.
 */
#ifndef RANKTRACE_TIMELINE_INTERN_H
#define RANKTRACE_TIMELINE_INTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define INTERN_TEXTS_MAX 16384
#define INTERN_BYTES_MAX (2UL << 20)

enum intern_kind { INTERN_CATEGORY, INTERN_NAME, INTERN_ARG, INTERN_VALUE, INTERN_KINDS };

struct intern;

struct intern *intern_new(void); /* NULL: out of memory */
struct intern *intern_free(struct intern *intern);
/* So many more texts with so many bytes fit. */
bool intern_fits(const struct intern *intern, size_t texts, size_t bytes);
void intern_clear(struct intern *intern);
/* Requires intern_fits(). */
uint64_t intern_number(struct intern *intern, enum intern_kind kind, const char *text, bool *ret_new);

#endif
