/* SPDX-License-Identifier: Apache-2.0 */
/* What tracectl says of times. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#undef fail /* tracectl has another */
#include "ctl/out.h"

static void test_for(void **state)
{
	static const struct {
		uint64_t ns;
		const char *text;
	} cases[] = {{0, ""}, {999, ""}, {1000, " for 1 us"}, {1250000000, " for 1.25 s"}, {UINT64_MAX, NULL}};
	char buffer[UNITS_BYTES];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *text = out_for(cases[i].ns, buffer);

		if (cases[i].text)
			assert_string_equal(text, cases[i].text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
