/* SPDX-License-Identifier: Apache-2.0 */
/* Texts compared word by word: analyzers/align/align_internal.h. */
#include <stdio.h>
#include <stdlib.h>

#include "analyzers/align/align_internal.h"

#include "tests/test.h"

#define BITS 2

static struct align_known of(const char *text, size_t length)
{
	struct align_known ret;
	/* Exact length: a sanitizer reports reads beyond. */
	char *copy = malloc(length);

	assert_non_null(copy);
	assert_true(align_known_read(&ret, memcpy(copy, text, length), length));
	free(copy);
	return ret;
}

TEST(each_byte_and_the_length_distinguish)
{
	char text[ALIGN_KNOWN_BYTES];

	memset(text, 'a', sizeof(text));
	for (size_t length = 1; length <= sizeof(text); length++) {
		struct align_known one = of(text, length), same = of(text, length);

		assert_true(align_known_equal(&one, &same));
		for (size_t i = 0; i < length; i++) {
			struct align_known other;

			text[i] = 'b';
			other = of(text, length);
			text[i] = 'a';
			assert_false(align_known_equal(&one, &other));
		}
		for (size_t shorter = 1; shorter < length; shorter++) {
			struct align_known other = of(text, shorter);

			assert_false(align_known_equal(&one, &other));
		}
	}
}

TEST(none_and_long_ones_are_not_kept)
{
	char text[ALIGN_KNOWN_BYTES + 1] = "a text of more than that";
	struct align_known ret;

	assert_false(align_known_read(&ret, text, 0));
	assert_false(align_known_read(&ret, text, sizeof(text)));
}

TEST(the_newest_two_of_a_set_are_found)
{
	struct align_known known[2 << BITS] = {0}, what[3], *set = NULL;
	unsigned n = 0;

	for (unsigned i = 0; n < 3; i++) {
		char text[20];

		assert_true(i < 1000);
		snprintf(text, sizeof(text), "%016x", i);
		what[n] = of(text, 16);
		what[n].number = i;
		if (set && align_known_set(known, BITS, &what[n]) != set)
			continue;
		set = align_known_set(known, BITS, &what[n]);
		assert_true(set >= known && set <= &known[(2 << BITS) - 2]);
		assert_null(align_known_find(set, &what[n]));
		align_known_keep(set, &what[n++]);
	}
	assert_null(align_known_find(set, &what[0]));
	assert_int_equal(align_known_find(set, &what[1])->number, what[1].number);
	assert_int_equal(align_known_find(set, &what[2])->number, what[2].number);
}

TEST_MAIN(NULL, NULL)
