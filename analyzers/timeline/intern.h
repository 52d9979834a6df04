/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers for texts, from 1, by kind: a text is written once and named by its number from then on. Bounded: when it is
 * full, everything is forgotten, and the caller has to say so to who reads.
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

struct intern *intern_new(void); /* NULL: no memory */
struct intern *intern_free(struct intern *intern);
/* Whether there is room for so many more texts with so many bytes. */
bool intern_has_capacity(const struct intern *intern, size_t texts, size_t bytes);
void intern_clear(struct intern *intern);
/* Its number; new: it was not there. Room has been asked for. */
uint64_t intern_number(struct intern *intern, enum intern_kind kind, const char *text, bool *ret_new);

#endif
