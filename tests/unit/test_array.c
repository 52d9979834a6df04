/* SPDX-License-Identifier: Apache-2.0 */
/* Growable arrays: the bound is exact, whatever the capacity. */
#include "analyzers/base/array.h"

#include "tests/test.h"

TEST(a_bound_is_exact)
{
	size_t capacity = 0;
	int *items = NULL;

	for (size_t need = 1; need <= 20; need++)
		assert_true(array_reserve((void **)&items, &capacity, need, sizeof(*items), 20));
	assert_true(capacity > 20);
	assert_false(array_reserve((void **)&items, &capacity, 21, sizeof(*items), 20));
	assert_true(array_reserve((void **)&items, &capacity, 21, sizeof(*items), 21));
	assert_false(array_reserve((void **)&items, &capacity, SIZE_MAX, sizeof(*items), SIZE_MAX));
	free(items);
}

TEST_MAIN(NULL, NULL)
