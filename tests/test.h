/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests of cmocka that register themselves. TEST(name) { ... } defines a test, TEST_WITH(name, setup, teardown) one
 * with fixtures; both have `void **state`. TEST_MAIN(setup, teardown) ends the file: it runs the tests in the order of
 * the file, within the fixtures of the group (NULL: none). Includes what cmocka.h wants before it.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#ifdef main /* a name of its own, in a program of several test files: tests/unit/CMakeLists.txt */
int main(void);
#endif

#define TESTS_MAX 64 /* of one file */

__attribute__((unused)) static struct CMUnitTest test_list[TESTS_MAX];

/* Its place is that in the file: the order of constructors is the linker's. */
#define TEST_WITH(test, setup, teardown) \
	static void test(void **state); \
	__attribute__((constructor)) static void test##_add(void) \
	{ \
		test_list[__COUNTER__] = (struct CMUnitTest){#test, test, setup, teardown, NULL}; \
	} \
	static void test(void **state)
#define TEST(test) TEST_WITH(test, NULL, NULL)

/* Runs all tests above this line; how many failed. */
#define TEST_RUN(setup, teardown) \
	({ \
		enum { TESTS = __COUNTER__ }; \
		struct CMUnitTest tests[TESTS]; \
		_Static_assert(TESTS > 0 && TESTS <= TESTS_MAX, "TESTS_MAX"); \
		memcpy(tests, test_list, sizeof(tests)); \
		cmocka_run_group_tests(tests, setup, teardown); \
	})

#define TEST_MAIN(setup, teardown) \
	int main(void) \
	{ \
		return TEST_RUN(setup, teardown); \
	}
