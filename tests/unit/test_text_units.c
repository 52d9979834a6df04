/* SPDX-License-Identifier: Apache-2.0 */
/* Units of CPython's str to UTF-8: every width, and what is no character or does not fit. */
#include "daemon/base/util.h"

#include "tests/test.h"

TEST(every_width)
{
	static const uint8_t latin[] = {'c', 'a', 'f', 0xe9};
	static const uint16_t chinese[] = {0x6570, 0x636e, 'A'};
	static const uint32_t rocket[] = {0x1f680, 0x7ff, 0x800};
	char text[64];

	text_from_units(latin, sizeof(latin), 1, text, sizeof(text));
	assert_string_equal(text, "caf\xc3\xa9");
	text_from_units(chinese, sizeof(chinese), 2, text, sizeof(text));
	assert_string_equal(text, "\xe6\x95\xb0\xe6\x8d\xae"
				  "A");
	text_from_units(rocket, sizeof(rocket), 4, text, sizeof(text));
	assert_string_equal(text, "\xf0\x9f\x9a\x80\xdf\xbf\xe0\xa0\x80");
	text_from_units("plain", 5, 0, text, sizeof(text));
	assert_string_equal(text, "plain");
}

TEST(no_characters_are_replaced)
{
	static const uint16_t lone[] = {0xd800, 'x', 0xdfff};
	static const uint32_t beyond[] = {0x110000, 0xffffffff};
	char text[64];

	text_from_units(lone, sizeof(lone), 2, text, sizeof(text));
	assert_string_equal(text, "\xef\xbf\xbdx\xef\xbf\xbd");
	text_from_units(beyond, sizeof(beyond), 4, text, sizeof(text));
	assert_string_equal(text, "\xef\xbf\xbd\xef\xbf\xbd");
}

TEST(ends_are_kept)
{
	static const uint16_t two[] = {0x6570, 0x636e};
	static const uint16_t nul[] = {'a', 0, 'b'};
	char text[8];

	text_from_units(two, sizeof(two), 2, text, 6); /* space for one and two thirds of a character */
	assert_string_equal(text, "\xe6\x95\xb0");
	text_from_units(two, 3, 2, text, sizeof(text)); /* half a unit */
	assert_string_equal(text, "\xe6\x95\xb0");
	text_from_units(nul, sizeof(nul), 2, text, sizeof(text));
	assert_string_equal(text, "a");
	text_from_units("abcdef", 6, 0, text, 4);
	assert_string_equal(text, "abc");
	text_from_units("a", 1, 1, text, 1);
	assert_string_equal(text, "");
}

TEST_MAIN(NULL, NULL)
