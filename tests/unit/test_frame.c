/* SPDX-License-Identifier: Apache-2.0 */
/* proto/frame: whole frames, cut ones, wrong ones, one byte at a time. */
#include <string.h>
#include "proto/frame.h"

#include "tests/test.h"

static char error[FRAME_ERROR_BYTES];
static struct frame frame;

TEST(test_header_bytes)
{
	static const uint8_t expected[FRAME_HEADER_BYTES] = {'R', 'T', 'C', 'T', 1, 0, 2, 0, 0x04, 0x03, 0x02, 0};
	uint8_t header[FRAME_HEADER_BYTES];

	frame_header(header, FRAME_RESPONSE, 0x020304);
	assert_memory_equal(header, expected, sizeof(header));
}

TEST(test_one_byte_at_a_time)
{
	uint8_t data[FRAME_HEADER_BYTES + 5 + 3] = {0};

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

TEST(test_empty_message)
{
	uint8_t data[FRAME_HEADER_BYTES];

	frame_header(data, FRAME_REQUEST, 0);
	assert_int_equal(frame_parse(data, sizeof(data), FRAME_REQUEST, &frame, error), FRAME_MESSAGE);
	assert_int_equal(frame.body_bytes, 0);
}

TEST(test_garbage_at_its_first_byte)
{
	assert_int_equal(frame_parse((const uint8_t *)"G", 1, FRAME_REQUEST, &frame, error), FRAME_ERROR);
	assert_int_equal(frame_parse((const uint8_t *)"RTC?", 4, FRAME_REQUEST, &frame, error), FRAME_ERROR);
	assert_non_null(strstr(error, "not a ranktrace"));
	assert_int_equal(frame_parse((const uint8_t *)"RTC", 3, FRAME_REQUEST, &frame, error), FRAME_NEED_MORE);
}

TEST(test_too_long)
{
	uint8_t data[FRAME_HEADER_BYTES];

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

TEST(test_other_version_and_type)
{
	uint8_t data[FRAME_HEADER_BYTES];

	frame_header(data, FRAME_REQUEST, 0);
	assert_int_equal(frame_parse(data, sizeof(data), FRAME_RESPONSE, &frame, error), FRAME_ERROR);
	data[5] = 3;
	assert_int_equal(frame_parse(data, sizeof(data), FRAME_REQUEST, &frame, error), FRAME_OTHER_VERSION);
	assert_int_equal(frame.version, 0x301);
	assert_non_null(strstr(error, "769"));
}

TEST_MAIN(NULL, NULL)
