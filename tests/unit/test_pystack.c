/* SPDX-License-Identifier: Apache-2.0 */
/* Python stacks from memory made by hand, in each version's layout: right, refused, or bounded. */
#include "tests/stacks/world.h"

#include "daemon/base/util.h"
#include "tests/test.h"

#define FIRST 8 /* versions with a layout */
#define LAST 14

static struct world world;
static struct pystack_frame frames[PYSTACK_FRAMES_MAX];
static enum pystack_refusal why;

static struct pystack_stack read_stack(int expected)
{
	struct pystack_stack stack = {.frames = frames, .capacity = ARRAY_SIZE(frames)};

	assert_int_equal(world_read(&world, &stack, &why), expected);
	return stack;
}

static void assert_refused(enum pystack_refusal expected)
{
	(void)read_stack(-ENOTSUP);
	assert_string_equal(pystack_refusal_word(why), pystack_refusal_word(expected));
}

static void make(unsigned minor)
{
	world_make(&world, minor);
	world_call(&world, "<module>", 1, 10);
	world_call(&world, "outer", 200, 20);
	world_call(&world, "inner", 400, 99);
}

TEST(each_version_is_read)
{
	for (unsigned minor = FIRST; minor <= LAST; minor++) {
		struct pystack_stack stack;

		make(minor);
		stack = read_stack(0);
		assert_int_equal(stack.count, 3);
		assert_int_equal(stack.omitted, 0);
		assert_true(stack.has_gil);
		assert_string_equal(frames[0].function, "<module>");
		assert_string_equal(frames[2].function, "inner");
		assert_string_equal(frames[2].file, "/a.py");
		assert_int_equal(frames[0].line, 11);
		assert_int_equal(frames[1].line, 220);
		assert_int_equal(frames[1].first_line, 200);
		assert_int_equal(frames[2].line, 499);
		assert_int_equal(frames[2].instruction, 198);
		assert_int_equal(frames[2].code, world.code[2]);
		/* Until 3.10 each call in Python is a call in C. */
		assert_int_equal(frames[1].entry, minor <= 10);
	}
}

TEST(versions_and_threads_are_known)
{
	for (unsigned minor = FIRST; minor <= LAST; minor++) {
		_cleanup_(pystack_closep) struct pystack *stack = NULL;
		struct pystack_thread threads[4];
		size_t count;

		make(minor);
		assert_int_equal(world_open(&world, &stack, &why), 0);
		assert_int_equal(pystack_version(stack)->minor, minor);
		assert_int_equal(pystack_version(stack)->micro, minor < 11 ? 0 : 5);
		assert_int_equal(pystack_version(stack)->runtime, world.runtime);
		assert_int_equal(pystack_threads(stack, threads, 4, &count), 0);
		assert_int_equal(count, 2);
		assert_true(threads[0].has_gil);
		assert_false(threads[1].has_gil);
		assert_int_equal(threads[1].state, world.state[1]);
		assert_int_equal(threads[1].pthread, 0x7001);
		assert_int_equal(threads[1].tid, minor < 11 ? 0 : 101);
		assert_int_equal(pystack_threads(stack, threads, 1, &count), 0);
		assert_int_equal(count, 1);
	}
}

TEST(other_layouts_are_refused)
{
	for (unsigned minor = FIRST; minor <= LAST; minor++) {
		make(minor);
		world_u64(&world, world.members + 40 + 16, 8); /* co_filename is elsewhere */
		assert_refused(PYSTACK_LAYOUT);
		make(minor);
		world_u64(&world, world.code_type + world.layout->type_name, world.runtime);
		assert_refused(PYSTACK_LAYOUT);
		make(minor);
		world_u64(&world, world.state[0] + world.layout->thread_interp, world.runtime);
		assert_refused(PYSTACK_LAYOUT);
		make(minor);
		world_u64(&world, world.runtime + world.layout->runtime_interps, 0);
		assert_refused(PYSTACK_NOT_READY);
	}
}

TEST(interpreters_own_table_is_checked)
{
	for (unsigned minor = 13; minor <= LAST; minor++) {
		make(minor);
		world_put(&world, world.table, "xdebugPY", 8);
		assert_refused(PYSTACK_LAYOUT);
		make(minor);
		world_u64(&world, world.table + 8, 0x030c0000);
		assert_refused(PYSTACK_LAYOUT);
		make(minor);
		world_u64(&world, world.table + 16, 1);
		assert_refused(PYSTACK_FREE_THREADED);
		make(minor);
		world_u64(&world, world.table + 5 * 8, 1ull << 40);
		assert_refused(PYSTACK_LAYOUT);
	}
}

TEST(circles_end)
{
	for (unsigned minor = FIRST; minor <= LAST; minor++)
		for (size_t to = 0; to < 3; to++) {
			make(minor);
			world_u64(&world, world.frame[0] + world.layout->frame_previous, world.frame[to]);
			assert_refused(PYSTACK_BAD_FRAME);
		}
}

TEST(lists_of_threads_that_are_no_lists_are_refused)
{
	for (unsigned minor = FIRST; minor <= LAST; minor++) {
		make(minor);
		world_u64(&world, world.state[1] + world.layout->thread_next, world.state[0]);
		(void)read_stack(-EAGAIN);
		make(minor);
		world_u64(&world, world.state[1] + world.layout->thread_prev, 0);
		(void)read_stack(-EAGAIN);
		make(minor);
		world_u64(&world, world.interp + world.layout->interp_next, world.interp);
		(void)read_stack(-EAGAIN);
	}
}

TEST(wild_pointers_are_refused)
{
	const uint64_t wild[] = {8, 0x7fff00000000, 1ull << 63, UINT64_MAX, WORLD_BASE + WORLD_BYTES - 8};

	for (unsigned minor = FIRST; minor <= LAST; minor++)
		for (size_t i = 0; i < ARRAY_SIZE(wild); i++) {
			make(minor);
			world_u64(&world, world.frame[1] + world.layout->frame_previous, wild[i]);
			assert_refused(PYSTACK_UNREADABLE);
			make(minor);
			world_u64(&world, world.frame[1] + world.layout->frame_code, wild[i]);
			(void)read_stack(-ENOTSUP);
			make(minor);
			world_u64(&world, world.code[1] + world.layout->code_file, wild[i]);
			assert_refused(PYSTACK_UNREADABLE);
			make(minor);
			world_u64(&world, world.code[1] + world.layout->code_lines, wild[i]);
			assert_refused(PYSTACK_UNREADABLE);
		}
}

TEST(what_is_no_code_is_refused)
{
	for (unsigned minor = FIRST; minor <= LAST; minor++) {
		const struct pylayout *layout = pylayout_row(minor);

		make(minor);
		world_u64(&world, world.code[1] + layout->object_type, world.text_type);
		assert_refused(PYSTACK_BAD_CODE);
		make(minor);
		world_u64(&world, world.frame[1] + layout->frame_instruction, world.code[1] + 0x7000);
		assert_refused(PYSTACK_BAD_CODE);
		make(minor);
		world_u64(&world, world.code[1] + layout->code_lines, world.code[1]);
		assert_refused(PYSTACK_BAD_CODE);
		make(minor);
		world_u64(&world, world.code[1] + (layout->code_bytes ? layout->code_name : layout->code_qualname),
			world.code[1]);
		assert_refused(PYSTACK_BAD_CODE);
		make(minor);
		if (layout->code_adaptive)
			world_u64(&world, world.code[1] + layout->object_size, 1ull << 62);
		else
			world_u64(&world, world.code[1] + layout->code_bytes, world.code[1]);
		assert_refused(PYSTACK_BAD_CODE);
	}
}

TEST(a_state_of_another_thread_is_refused)
{
	struct pystack_stack stack = {.frames = frames, .capacity = ARRAY_SIZE(frames)};

	for (unsigned minor = FIRST; minor <= LAST; minor++) {
		_cleanup_(pystack_closep) struct pystack *process = NULL;
		struct pystack_thread thread;
		size_t count;

		make(minor);
		assert_int_equal(world_open(&world, &process, &why), 0);
		assert_int_equal(pystack_threads(process, &thread, 1, &count), 0);
		world_u64(&world, world.state[0] + world.layout->thread_pthread, 0x9000);
		assert_int_equal(pystack_read(process, &thread, NULL, NULL, &stack, &why), -ENOTSUP);
		assert_int_equal(why, PYSTACK_THREAD_GONE);
		assert_int_equal(pystack_counts(process)->refused[PYSTACK_THREAD_GONE], 1);
		assert_int_equal(pystack_counts(process)->stacks, 0);
	}
}

TEST(frames_without_python_code_are_left_out)
{
	for (unsigned minor = 12; minor <= LAST; minor++) {
		struct pystack_stack stack;

		world_make(&world, minor);
		world_call(&world, "a", 1, 10);
		world_call(&world, "b", 1, 10);
		world_shim(&world);
		world_call(&world, "c", 1, 10);
		world_call(&world, "begins", 1, 1); /* before its first traceable instruction */
		stack = read_stack(0);
		assert_int_equal(stack.count, 3);
		assert_string_equal(frames[2].function, "c");
		assert_true(frames[0].entry);
		assert_false(frames[1].entry);
		assert_true(frames[2].entry);
		assert_int_equal(stack.inner_entries, 0);
		world_shim(&world);
		assert_int_equal(read_stack(0).inner_entries, 1);
	}
}

TEST(entry_frames_of_3_11_are_known)
{
	make(11);
	world_entry(&world, 1);
	(void)read_stack(0);
	assert_true(frames[0].entry);
	assert_true(frames[1].entry);
	assert_false(frames[2].entry);
}

/* In 3.11 and 3.12 the record of a call is in use before its frame is in it. */
TEST(a_call_that_begins_is_refused)
{
	for (unsigned minor = 11; minor <= 12; minor++) {
		const struct pylayout *layout = pylayout_row(minor);

		make(minor);
		world_u64(&world, world.cframe + 32 + layout->cframe_frame, world.frame[2]);
		assert_refused(PYSTACK_BAD_FRAME);
		make(minor);
		world_u64(&world, world.cframe + layout->cframe_frame, 0);
		assert_refused(PYSTACK_BAD_FRAME);
		make(minor);
		world_u64(&world, world.cframe + layout->cframe_previous, 0);
		assert_refused(PYSTACK_BAD_FRAME);
	}
}

TEST(references_may_be_tagged)
{
	make(14);
	world_u64(&world, world.frame[1] + world.layout->frame_code, world.code[1] | 1);
	assert_int_equal(read_stack(0).count, 3);
	assert_int_equal(frames[1].code, world.code[1]);
}

TEST(an_idle_thread_has_no_frames)
{
	for (unsigned minor = FIRST; minor <= LAST; minor++) {
		world_make(&world, minor);
		assert_int_equal(read_stack(0).count, 0);
	}
}

TEST(outer_frames_are_omitted)
{
	struct pystack_stack stack = {.frames = frames, .capacity = 2};

	for (unsigned minor = FIRST; minor <= LAST; minor++) {
		make(minor);
		assert_int_equal(world_read(&world, &stack, &why), 0);
		assert_int_equal(stack.count, 2);
		assert_int_equal(stack.omitted, 1);
		assert_string_equal(frames[0].function, "outer");
		assert_string_equal(frames[1].function, "inner");
	}
}

static void name_is(const void *text, size_t length, unsigned width, bool ascii, const char *expected)
{
	const struct pylayout *layout = world.layout;

	world_u64(&world, world.code[2] + (layout->code_qualname ? layout->code_qualname : layout->code_name),
		world_text(&world, text, length, width, ascii));
	assert_int_equal(read_stack(0).count, 3);
	assert_string_equal(frames[2].function, expected);
}

TEST(texts_become_utf8)
{
	const uint8_t latin[] = {'a', 0xe9, 'b'};
	const uint16_t two[] = {0x5909, 'x', 0xdc80};	/* a lone surrogate */
	const uint32_t four[] = {0x10900, 0x110000, 0}; /* beyond Unicode, and a zero */

	for (unsigned minor = FIRST; minor <= LAST; minor++) {
		make(minor);
		name_is("", 0, 1, true, "");
		name_is(latin, 3, 1, false,
			"a\xc3\xa9"
			"b");
		name_is(two, 3, 2, false, "\xe5\xa4\x89x\xef\xbf\xbd");
		name_is(four, 3, 4, false, "\xf0\x90\xa4\x80\xef\xbf\xbd\xef\xbf\xbd");
	}
}

TEST(long_texts_are_cut)
{
	static char text[3 * PYTEXT_CHARACTERS_MAX];
	static char expected[PYTEXT_CHARACTERS_MAX + 1];

	memset(text, 'n', sizeof(text));
	memset(expected, 'n', PYTEXT_CHARACTERS_MAX);
	make(11);
	name_is(text, sizeof(text), 1, true, expected);
}

TEST(reads_are_batched)
{
	make(13);
	world.reads = 0;
	(void)read_stack(0);
	/* Opening, the list and the stack; a page is read once each. */
	assert_in_range(world.reads, 1, 3 * WORLD_BYTES / PYMEM_PAGE_BYTES);
}

/* As bpf/profile_code.bpf.h makes it. */
static struct rt_profile_code_event record(struct pystack *stack, const struct rt_profile_frame *frame)
{
	struct rt_profile_python at;
	struct rt_profile_code_event ret = {.address = {frame->code}, .bytes = {0, 0, 64, 64}, .print = frame->print};
	uint64_t size;

	assert_int_equal(pystack_probe_layout(stack, &at, &why), 0);
	assert_in_range(at.code_bytes, 1, sizeof(ret.object));
	ret.bytes[0] = at.code_bytes;
	assert_int_equal(pymem_read(stack->memory, frame->code, ret.object, at.code_bytes), 0);
	if (at.code_instructions)
		memcpy(&ret.address[1], ret.object + at.code_instructions, sizeof(uint64_t));
	memcpy(&ret.address[2], ret.object + at.code_name, sizeof(uint64_t));
	memcpy(&ret.address[3], ret.object + at.code_file, sizeof(uint64_t));
	memcpy(&ret.address[4], ret.object + at.code_lines, sizeof(uint64_t));
	ret.bytes[1] = ret.address[1] ? 32 : 0;
	if (ret.address[1])
		assert_int_equal(
			pymem_read(stack->memory, ret.address[1], ret.instructions, sizeof(ret.instructions)), 0);
	assert_int_equal(pymem_read(stack->memory, ret.address[2], ret.name, 64), 0);
	assert_int_equal(pymem_read(stack->memory, ret.address[3], ret.file, 64), 0);
	assert_int_equal(pymem_u64(stack->memory, ret.address[4] + RT_PROFILE_SIZE_AT, &size), 0);
	ret.bytes[4] = (uint32_t)(size + RT_PROFILE_BYTES_AT + 7) / 8 * 8;
	assert_int_equal(pymem_read(stack->memory, ret.address[4], ret.lines, ret.bytes[4]), 0);
	return ret;
}

static struct rt_profile_frame recorded_frame(struct pystack *stack, size_t i)
{
	struct rt_profile_frame frame = {.code = world.code[i], .flags = RT_PROFILE_COMPLETE};
	const struct pylayout *layout = world.layout;
	uint64_t word[4];
	int32_t first_line;
	const uint64_t fields[] = {layout->code_qualname ? layout->code_qualname : layout->code_name, layout->code_file,
		layout->code_lines};

	assert_int_equal(pymem_u64(stack->memory, world.frame[i] + layout->frame_instruction, &frame.instruction), 0);
	world_u64(&world, frame.code, 1);
	for (size_t k = 0; k < ARRAY_SIZE(fields); k++) {
		assert_int_equal(pymem_u64(stack->memory, frame.code + fields[k], &word[k]), 0);
		world_u64(&world, word[k], 1);
	}
	pystack_forget(stack);
	assert_int_equal(pymem_u64(stack->memory, word[0] + RT_PROFILE_HASH_AT, &word[3]), 0);
	assert_int_equal(
		pymem_read(stack->memory, frame.code + layout->code_first_line, &first_line, sizeof(first_line)), 0);
	frame.print = rt_profile_print(word[0], word[3], word[1], word[2], (uint32_t)first_line);
	return frame;
}

static int name_one(struct pystack *stack, const struct rt_profile_frame *frame)
{
	struct pystack_stack ret = {.frames = frames, .capacity = 1};
	int r;

	pystack_forget(stack);
	r = pystack_name(stack, frame, 1, &ret, &why);
	return r == 0 && !pystack_unchanged(stack, frame, 1) ? -ESTALE : r;
}

/* A process that has ended: the layout that it had, and records. */
TEST(an_ended_process_is_named_by_records)
{
	for (unsigned minor = FIRST; minor <= LAST; minor++) {
		_cleanup_(pystack_closep) struct pystack *stack = NULL, *ended = NULL;
		const struct rt_profile_code_event *codes[1];
		struct rt_profile_code_event event;
		struct rt_profile_python python;
		struct rt_profile_frame frame;
		struct pystack_image image;

		make(minor);
		assert_int_equal(world_open(&world, &stack, &why), 0);
		frame = recorded_frame(stack, 1);
		event = record(stack, &frame);
		codes[0] = &event;
		assert_int_equal(pystack_probe_layout(stack, &python, &why), 0);
		pystack_image(stack, &image);
		assert_int_equal(pystack_open_recorded(&image, &python, &ended), 0);
		assert_int_equal(name_one(ended, &frame), -ENOTSUP);
		pystack_codes(ended, codes, 1);
		assert_int_equal(name_one(ended, &frame), 0);
		assert_string_equal(frames[0].function, "outer");
		assert_string_equal(frames[0].file, "/a.py");
		assert_int_equal(frames[0].line, 220);
		/* A table of lines that did not fit: its head alone. */
		event.bytes[4] = RT_PROFILE_BYTES_AT;
		assert_int_equal(name_one(ended, &frame), 0);
		assert_string_equal(frames[0].function, "outer");
		assert_int_equal(frames[0].line, 0);
		/* The layout is of another interpreter, or of none. */
		pystack_closep(&ended);
		ended = NULL;
		image.text_type++;
		assert_int_equal(pystack_open_recorded(&image, &python, &ended), 0);
		pystack_codes(ended, codes, 1);
		assert_int_equal(name_one(ended, &frame), -ENOTSUP);
		image.minor = 99;
		pystack_closep(&ended);
		ended = NULL;
		assert_int_equal(pystack_open_recorded(&image, &python, &ended), -ENOTSUP);
	}
}

TEST(freed_code_is_named_by_its_record)
{
	for (unsigned minor = FIRST; minor <= LAST; minor++) {
		_cleanup_(pystack_closep) struct pystack *stack = NULL;
		const struct rt_profile_code_event *codes[1];
		struct rt_profile_code_event event;
		struct rt_profile_frame frame;

		make(minor);
		assert_int_equal(world_open(&world, &stack, &why), 0);
		frame = recorded_frame(stack, 1);
		event = record(stack, &frame);
		codes[0] = &event;
		assert_int_equal(name_one(stack, &frame), 0);
		/* Its memory is another code object's. */
		world_u64(&world, frame.code, 0);
		world_u64(&world, event.address[2], 0);
		world_u64(&world, frame.code + world.layout->code_lines, 0);
		assert_int_equal(name_one(stack, &frame), -ENOTSUP);
		pystack_codes(stack, codes, 1);
		assert_int_equal(name_one(stack, &frame), 0);
		assert_string_equal(frames[0].function, "outer");
		assert_string_equal(frames[0].file, "/a.py");
		assert_int_equal(frames[0].line, 220);
		/* A record that is not what its print says, and one of another code object. */
		event.object[world.layout->code_first_line]++;
		assert_int_equal(name_one(stack, &frame), -ENOTSUP);
		event.object[world.layout->code_first_line]--;
		event.bytes[4] = 0;
		assert_int_equal(name_one(stack, &frame), -ENOTSUP);
		event.print++;
		assert_int_equal(name_one(stack, &frame), -ENOTSUP);
	}
}

int main(void)
{
	int failed = TEST_RUN(NULL, NULL);

	world_close(&world);
	return failed;
}
