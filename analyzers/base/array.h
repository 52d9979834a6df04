/* SPDX-License-Identifier: Apache-2.0 */
/* Sorted arrays, words of an enum, and growable arrays: a pointer and its capacity in items, both owned by the
 * caller. */
#ifndef RANKTRACE_BASE_ARRAY_H
#define RANKTRACE_BASE_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/*
 * Makes place for `need` items of `size` bytes in *items (void ** to the array). The capacity doubles from 16; it may
 * pass `max`, but `need` may not. False: need > max, the size overflows, or memory is out; nothing has changed then.
 * New items are not set.
 */
static inline bool array_reserve(void **items, size_t *capacity, size_t need, size_t size, size_t max)
{
	size_t next = *capacity ? *capacity : 16;
	void *grown;

	if (need > max || need > SIZE_MAX / 2)
		return false;
	if (need <= *capacity)
		return true;
	while (next < need)
		next *= 2;
	grown = reallocarray(*items, next, size);
	if (!grown)
		return false;
	*items = grown;
	*capacity = next;
	return true;
}

/* For comparisons of qsort(): below, equal or above 0; further keys follow behind "?:". */
#define ORDER(a, b) (((a) > (b)) - ((a) < (b)))

/* A function that returns the word of each value of an enum, "" of others. One word a value: [VALUE] = "word", ... */
#define WORD_OF_ENUM(name, type, max, ...) \
	const char *name(enum type value) \
	{ \
		static const char *const words[] = {__VA_ARGS__}; \
\
		_Static_assert(sizeof(words) / sizeof(words[0]) == (max), "a word a value"); \
		return (size_t)value < (max) ? words[value] : ""; \
	}

#define ARRAY_COMPARE(type, name) \
	static inline int name(const void *a, const void *b) \
	{ \
		const type *x = a, *y = b; \
\
		return ORDER(*x, *y); \
	}
ARRAY_COMPARE(uint64_t, compare_u64)
ARRAY_COMPARE(int64_t, compare_i64)
ARRAY_COMPARE(double, compare_double)

/*
 * The first index, of `count`, of which `before` is false; `count`: none. `index` names it in `before`, which holds for
 * all before the first one: array_first_not(i, list->count, list->item[i].key < key)
 */
#define array_first_not(index, count, before) \
	({ \
		size_t _low = 0, _high = (count); \
\
		while (_low < _high) { \
			size_t index = _low + (_high - _low) / 2; \
\
			if (before) \
				_low = index + 1; \
			else \
				_high = index; \
		} \
		_low; \
	})

#endif
