/* SPDX-License-Identifier: Apache-2.0 */
/* proto/frame: whole frames, cut ones, wrong ones, one byte at a time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "proto/frame.h"

static char error[FRAME_ERROR_BYTES];
static struct frame frame;

static void test_header_bytes(void **state)
{
	static const uint8_t expected[FRAME_HEADER_BYTES] = {'R', 'T', 'C', 'T', 1, 0, 2, 0, 0x04, 0x03, 0x02, 0};
	uint8_t header[FRAME_HEADER_BYTES];

	(void)state;
	frame_header(header, FRAME_RESPONSE, 0x020304);
	assert_memory_equal(header, expected, sizeof(header));
}

static void test_one_byte_at_a_time(void **state)
{
	uint8_t data[FRAME_HEADER_BYTES + 5 + 3] = {0};

	(void)state;
	frame_header(data, FRAME_REQUEST, 5);
	memcpy(data + FRAME_HEADER_BYTES, "hello", 5);
	memset(data + FRAME_HEADER_BYTES + 5, 0xff, 3); /* the next frame's business */
	for (size_t n = 0; n < FRAME_HEADER_BYTES + 5; n++) {
		assert_int_equal(frame_parse(data, n, FRAME_REQUEST, &frame, error), FRAME_NEED_MORE);
		assert_int_equal(frame.size_bytes, n < FRAME_HEADER_BYTES ? 0 : FRAME_HEADER_BYTES + 5);
	}
	for (size_t n = FRAME_HEADER_BYTES + 5; n <= sizeof(data); n++) {
		assert_int_equal(frame_parse(data, n, FRAME_REQUEST, &frame, error), FRAME_MESSAGE);
		assert_int_equal(frame.body_bytes, 5);
		assert_memory_equal(frame.body, "hello", 5);
		assert_int_equal(frame.size_bytes, FRAME_HEADER_BYTES + 5);
	}
}

static void test_empty_message(void **state)
{
	uint8_t data[FRAME_HEADER_BYTES];

	(void)state;
	frame_header(data, FRAME_REQUEST, 0);
	assert_int_equal(frame_parse(data, sizeof(data), FRAME_REQUEST, &frame, error), FRAME_MESSAGE);
	assert_int_equal(frame.body_bytes, 0);
}

static void test_garbage_at_its_first_byte(void **state)
{
	(void)state;
	assert_int_equal(frame_parse((const uint8_t *)"G", 1, FRAME_REQUEST, &frame, error), FRAME_ERROR);
	assert_int_equal(frame_parse((const uint8_t *)"RTC?", 4, FRAME_REQUEST, &frame, error), FRAME_ERROR);
	assert_non_null(strstr(error, "not a ranktrace"));
	assert_int_equal(frame_parse((const uint8_t *)"RTC", 3, FRAME_REQUEST, &frame, error), FRAME_NEED_MORE);
}

static void test_too_long(void **state)
{
	uint8_t data[FRAME_HEADER_BYTES];

	(void)state;
	frame_header(data, FRAME_REQUEST, FRAME_REQUEST_BYTES_MAX);
	assert_int_equal(frame_parse(data, sizeof(data), FRAME_REQUEST, &frame, error), FRAME_NEED_MORE);
	frame_header(data, FRAME_REQUEST, FRAME_REQUEST_BYTES_MAX + 1);
	assert_int_equal(frame_parse(data, sizeof(data), FRAME_REQUEST, &frame, error), FRAME_ERROR);
	assert_non_null(strstr(error, "65537"));
	frame_header(data, FRAME_RESPONSE, FRAME_BYTES_MAX + 1);
	assert_int_equal(frame_parse(data, sizeof(data), FRAME_RESPONSE, &frame, error), FRAME_ERROR);
	memset(data + 8, 0xff, 4);
	assert_int_equal(frame_parse(data, sizeof(data), FRAME_RESPONSE, &frame, error), FRAME_ERROR);
}

static void test_other_version_and_type(void **state)
{
	uint8_t data[FRAME_HEADER_BYTES];

	(void)state;
	frame_header(data, FRAME_REQUEST, 0);
	assert_int_equal(frame_parse(data, sizeof(data), FRAME_RESPONSE, &frame, error), FRAME_ERROR);
	data[5] = 3;
	assert_int_equal(frame_parse(data, sizeof(data), FRAME_REQUEST, &frame, error), FRAME_OTHER_VERSION);
	assert_int_equal(frame.version, 0x301);
	assert_non_null(strstr(error, "769"));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_header_bytes),
		cmocka_unit_test(test_one_byte_at_a_time),
		cmocka_unit_test(test_empty_message),
		cmocka_unit_test(test_garbage_at_its_first_byte),
		cmocka_unit_test(test_too_long),
		cmocka_unit_test(test_other_version_and_type),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
