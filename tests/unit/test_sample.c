/* SPDX-License-Identifier: Apache-2.0 */
/* What the daemon and the kernel believe of a process's layout and of its stacks' names. */
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stacks/python/pystack_internal.h"
#include "stacks/reply/reply.h"
#include "tests/test.h"

/* Each version's layout fits into what the kernel reads, and the daemon takes it. */
TEST(test_layouts)
{
	for (unsigned minor = 8; minor <= 14; minor++) {
		struct pystack *stack = pystack_new(&pymem_process, NULL);
		struct reply_layout layout = {0}, read;
		enum pystack_refusal why;

		assert_non_null(stack);
		stack->pid = getpid();
		stack->layout = *pylayout_row(minor);
		stack->image.runtime = 0x1000;
		assert_int_equal(pystack_probe_layout(stack, &layout.python, &why), 0);
		assert_int_equal(layout.python.interps, 0x1000 + stack->layout.runtime_interps);
		assert_int_equal(reply_layout_read((const uint8_t *)&layout, sizeof(layout), &read), 0);
		assert_memory_equal(&read, &layout, sizeof(read));
		/* An offset beyond what is read, and a structure beyond the buffer. */
		layout.python.frame_owner = layout.python.frame_bytes;
		assert_int_equal(reply_layout_read((const uint8_t *)&layout, sizeof(layout), &read), -EBADMSG);
		layout.python.frame_owner = 0;
		layout.python.code_bytes = RT_PROFILE_CODE_BYTES + 8;
		assert_int_equal(reply_layout_read((const uint8_t *)&layout, sizeof(layout), &read), -EBADMSG);
		pystack_close(stack);
	}
}

/* As the C library of this program states it. */
TEST(test_size_of_struct_pthread)
{
	const uint32_t *truth = dlsym(RTLD_DEFAULT, "_thread_db_sizeof_pthread");
	pid_t pid = getpid(), none = 0;
	struct pymem *memory = pymem_new(&pymem_process, &pid);
	uint32_t bytes = 0;

	assert_non_null(memory);
	assert_non_null(truth);
	assert_int_equal(pyimage_pthread_bytes(memory, "/proc", pid, &bytes), 0);
	assert_int_equal(bytes, *truth);
	assert_true(bytes > 0 && bytes % 8 == 0);
	assert_int_equal(pyimage_pthread_bytes(memory, "/proc", none, &bytes), -ESRCH);
	pymem_free(memory);
}

TEST(test_layout_reason)
{
	struct reply_layout layout = {.reason = "no\nPython"}, read;

	assert_int_equal(reply_layout_read((const uint8_t *)&layout, sizeof(layout) - 1, &read), -EBADMSG);
	assert_int_equal(reply_layout_read((const uint8_t *)&layout, sizeof(layout), &read), 0);
	assert_string_equal(read.reason, "no Python");
	memset(layout.reason, 'x', sizeof(layout.reason));
	assert_int_equal(reply_layout_read((const uint8_t *)&layout, sizeof(layout), &read), -EBADMSG);
}

static size_t sample_add(uint8_t *data, uint64_t stack, const char *text, uint32_t bytes)
{
	const struct reply_stack head = {.stack = stack, .bytes = bytes, .flags = text ? 0 : REPLY_STACK_REFUSED};

	memcpy(data, &head, sizeof(head));
	if (text)
		memcpy(data + sizeof(head), text, strlen(text));
	return sizeof(head) + (text ? strlen(text) : 0);
}

TEST(test_names)
{
	const char *hostile = "python a\x1b (x.py:1)\npython b\xe2\x80\xae (x.py:2)\nnative c";
	uint8_t data[512];
	const uint8_t *at = data;
	struct reply_stack head;
	size_t left;
	char *text;

	left = sample_add(data, 7, hostile, (uint32_t)strlen(hostile));
	left += sample_add(data + left, 9, NULL, 0);
	assert_int_equal(reply_next_stack(&at, &left, &head, &text), 1);
	assert_int_equal(head.stack, 7);
	assert_null(strpbrk(text, "\x1b\xe2"));
	assert_non_null(strstr(text, "\npython b"));
	assert_non_null(strstr(text, "\nnative c"));
	free(text);
	assert_int_equal(reply_next_stack(&at, &left, &head, &text), 1);
	assert_int_equal(head.stack, 9);
	assert_null(text);
	assert_int_equal(reply_next_stack(&at, &left, &head, &text), 0);
	/* Longer than what is there, longer than allowed, and a part of a head. */
	at = data;
	left = sample_add(data, 7, "native c", 9);
	assert_int_equal(reply_next_stack(&at, &left, &head, &text), -EBADMSG);
	at = data;
	left = sample_add(data, 7, "native c", REPLY_STACK_BYTES_MAX);
	assert_int_equal(reply_next_stack(&at, &left, &head, &text), -EBADMSG);
	left = sizeof(head) - 1;
	assert_int_equal(reply_next_stack(&at, &left, &head, &text), -EBADMSG);
}

TEST(test_events)
{
	const size_t fixed = offsetof(struct rt_profile_stack_event, frame);
	struct rt_profile_stack_event event = {.frames = 2, .natives = 1};

	assert_true(reply_stack_event_valid(&event, fixed + 2 * sizeof(event.frame[0])));
	assert_false(reply_stack_event_valid(&event, fixed + 1 * sizeof(event.frame[0])));
	event.natives = RT_PROFILE_NATIVE_MAX + 1;
	assert_false(reply_stack_event_valid(&event, fixed + 2 * sizeof(event.frame[0])));
	event.natives = 0;
	event.frames = RT_PROFILE_FRAMES_MAX + 1;
	assert_false(reply_stack_event_valid(&event, fixed + event.frames * sizeof(event.frame[0])));
	assert_false(reply_stack_event_valid(&event, fixed - 1));
}

TEST_MAIN(NULL, NULL)
