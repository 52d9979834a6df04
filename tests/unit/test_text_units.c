/* SPDX-License-Identifier: Apache-2.0 */
/* Units of CPython's str to UTF-8: every width, and what is no character or does not fit. */
#include "daemon/base/text_units.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void every_width(void **state)
{
	static const uint8_t latin[] = {'c', 'a', 'f', 0xe9};
	static const uint16_t chinese[] = {0x6570, 0x636e, 'A'};
	static const uint32_t rocket[] = {0x1f680, 0x7ff, 0x800};
	char text[64];

	(void)state;
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

static void no_characters_are_replaced(void **state)
{
	static const uint16_t lone[] = {0xd800, 'x', 0xdfff};
	static const uint32_t beyond[] = {0x110000, 0xffffffff};
	char text[64];

	(void)state;
	text_from_units(lone, sizeof(lone), 2, text, sizeof(text));
	assert_string_equal(text, "\xef\xbf\xbdx\xef\xbf\xbd");
	text_from_units(beyond, sizeof(beyond), 4, text, sizeof(text));
	assert_string_equal(text, "\xef\xbf\xbd\xef\xbf\xbd");
}

static void ends_are_kept(void **state)
{
	static const uint16_t two[] = {0x6570, 0x636e};
	static const uint16_t nul[] = {'a', 0, 'b'};
	char text[8];

	(void)state;
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_width),
		cmocka_unit_test(no_characters_are_replaced),
		cmocka_unit_test(ends_are_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
