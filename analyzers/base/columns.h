/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays of one length: reserved and freed together. The owner has a pointer to each, and lists them once:
 *	state->columns = COLUMNS_OF(COLUMN_OF(state->work), COLUMN_OF(state->mean));
 */
#ifndef RANKTRACE_BASE_COLUMNS_H
#define RANKTRACE_BASE_COLUMNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS_MAX 12

struct columns {
	struct {
		void *pointer; /* to the pointer to the array; NULL: no more */
		size_t size;   /* of an item */
	} column[COLUMNS_MAX];
	size_t capacity; /* items */
};

#define COLUMN_OF(array) \
	{ \
		&(array), sizeof(*(array)) \
	}
#define COLUMNS_OF(...) \
	(struct columns) \
	{ \
		.column = { __VA_ARGS__ } \
	}

/* All are NULL then. */
static inline void columns_free(struct columns *columns)
{
	void *none = NULL, *array;

	columns->capacity = 0;
	for (size_t i = 0; i < COLUMNS_MAX && columns->column[i].pointer; i++) {
		memcpy(&array, columns->column[i].pointer, sizeof(array));
		free(array);
		memcpy(columns->column[i].pointer, &none, sizeof(none));
	}
}

/* Space for n items in each; where there was less, they are zeroed and what was in them is lost. False: out of memory,
 * all are NULL. */
static inline bool columns_renew(struct columns *columns, size_t n)
{
	if (n <= columns->capacity)
		return true;
	columns_free(columns);
	columns->capacity = n;
	for (size_t i = 0; i < COLUMNS_MAX && columns->column[i].pointer; i++) {
		void *array = calloc(n, columns->column[i].size);

		memcpy(columns->column[i].pointer, &array, sizeof(array));
		if (!array) {
			columns_free(columns);
			return false;
		}
	}
	return true;
}

#endif
