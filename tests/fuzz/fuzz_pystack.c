/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any memory as a Python process: a stack or a refusal, bounded, and what is said is well-formed. The first byte
 * chooses the version, then each 10 bytes change 8 of a process made by hand: place, what to add to it or put there.
 * The bytes are line tables as well.
 */
#include "daemon/base/util.h"
#include "tests/stacks/world.h"

#include "analyzers/base/utf8.h"

#define CHANGE_BYTES 10
#define READS_MAX 20000u /* of pages: more than all of the process's, in each step */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

static struct world world;

static void change(const uint8_t *data)
{
	uint64_t value, old;
	uint32_t at = data[0] | (uint32_t)data[1] << 8;
	bool add = at & 1;

	/* Odd places add, so that a pointer goes to a neighbour. */
	at = at * 2 % (WORLD_BYTES - 8) & ~7u;
	memcpy(&value, data + 2, sizeof(value));
	memcpy(&old, world.data + at, sizeof(old));
	world_u64(&world, WORLD_BASE + at, add ? old + (int64_t)value % 4096 : value);
}

static void check_text(const char *text)
{
	size_t length = strlen(text);

	for (size_t at = 0, n; at < length; at += n) {
		n = utf8_character((const unsigned char *)text + at, length - at);
		if (!n)
			abort();
	}
}

static void check_stack(void)
{
	static struct pystack_frame frames[PYSTACK_FRAMES_MAX];
	struct pystack_stack stack = {.frames = frames, .capacity = ARRAY_SIZE(frames)};
	enum pystack_refusal why = PYSTACK_REFUSAL_MAX;
	int r = world_read(&world, &stack, &why);

	if (r == -ENOTSUP && why >= PYSTACK_REFUSAL_MAX)
		abort();
	if (world.reads > READS_MAX)
		abort();
	if (r < 0)
		return;
	if (stack.count > ARRAY_SIZE(frames))
		abort();
	for (size_t i = 0; i < stack.count; i++) {
		check_text(frames[i].function);
		check_text(frames[i].file);
	}
}

static uint64_t recorded_word(const struct rt_profile_code_event *event, uint64_t offset)
{
	uint64_t word = 0;

	memcpy(&word, event->object + offset % (sizeof(event->object) - sizeof(word)), sizeof(word));
	return word;
}

/* That of a whole record. */
static uint32_t recorded_print(const struct rt_profile_code_event *event)
{
	const struct pylayout *layout = world.layout;
	uint64_t name = layout->code_qualname ? layout->code_qualname : layout->code_name, hash;

	memcpy(&hash, event->name + RT_PROFILE_HASH_AT, sizeof(hash));
	return rt_profile_print(recorded_word(event, name), hash, recorded_word(event, layout->code_file),
		recorded_word(event, layout->code_lines), (uint32_t)recorded_word(event, layout->code_first_line));
}

/* The same bytes as the record of a code object that a profile has: at its addresses, and nowhere else. */
static void check_recorded(const uint8_t *data, size_t size_bytes)
{
	static struct rt_profile_code_event event;
	const struct rt_profile_code_event *codes[] = {&event};
	struct rt_profile_frame frame = {.code = world.code[1], .flags = RT_PROFILE_COMPLETE};
	struct pystack_frame frames[1];
	struct pystack_stack stack = {.frames = frames, .capacity = 1};
	enum pystack_refusal why;

	if (!world.process)
		return;
	memset(&event, 0, sizeof(event));
	memcpy(event.address, data,
		size_bytes < sizeof(event) - sizeof(event.event) ? size_bytes : sizeof(event) - sizeof(event.event));
	event.address[0] = frame.code;
	event.bytes[0] %= sizeof(event.object) + 1;
	event.bytes[1] %= sizeof(event.instructions) + 1;
	event.bytes[2] %= sizeof(event.name) + 1;
	event.bytes[3] %= sizeof(event.file) + 1;
	event.bytes[4] %= sizeof(event.lines) + 1;
	frame.print = event.print = recorded_print(&event);
	frame.instruction = frame.code + world.layout->code_adaptive;
	pystack_codes(world.process, codes, 1);
	if (pystack_name(world.process, &frame, 1, &stack, &why) == 0 && stack.count)
		check_text(frames[0].function);
	pystack_codes(world.process, NULL, 0);
}

/* A layout of an ended process that is anything. */
static void check_ended(const uint8_t *data, size_t size_bytes)
{
	static struct rt_profile_code_event event;
	const struct rt_profile_code_event *codes[] = {&event};
	struct {
		struct pystack_image image;
		struct rt_profile_python python;
	} layout = {0};
	struct rt_profile_frame frame = {.code = 0x20000, .flags = RT_PROFILE_COMPLETE};
	struct pystack_frame frames[1];
	struct pystack_stack stack = {.frames = frames, .capacity = 1};
	enum pystack_refusal why;
	struct pystack *ended;
	size_t head = size_bytes < sizeof(layout) ? size_bytes : sizeof(layout), rest = size_bytes - head;

	memcpy(&layout, data, head);
	layout.image.minor = 8 + layout.image.minor % 7;
	memset(&event, 0, sizeof(event));
	memcpy(event.object, data + head, rest < sizeof(event.object) ? rest : sizeof(event.object));
	event.address[0] = frame.code;
	for (size_t i = 1; i < RT_PROFILE_CODE_OBJECTS; i++)
		event.address[i] = frame.code + 8 * i; /* they overlap */
	event.bytes[0] = sizeof(event.object);
	event.bytes[4] = sizeof(event.lines);
	if (pystack_open_recorded(&layout.image, &layout.python, &ended) < 0)
		return;
	pystack_codes(ended, codes, 1);
	if (pystack_name(ended, &frame, 1, &stack, &why) == 0 && stack.count)
		check_text(frames[0].function);
	pystack_close(ended);
}

static void check_lines(const uint8_t *data, size_t size_bytes)
{
	static const pylines_find find[] = {pylines_lnotab, pylines_ranges, pylines_locations};

	for (size_t i = 0; i < ARRAY_SIZE(find); i++)
		for (int64_t offset = -2; offset < 64; offset += 7)
			(void)find[i](data, size_bytes, offset, (int32_t)size_bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
	if (!size_bytes)
		return 0;
	check_lines(data, size_bytes);
	world_make(&world, 8 + data[0] % 7);
	world_call(&world, "<module>", 1, 10);
	world_call(&world, "outer", 200, 20);
	world_shim(&world);
	world_call(&world, "inner", 400, 99);
	for (size_t at = 1; at + CHANGE_BYTES <= size_bytes; at += CHANGE_BYTES)
		change(data + at);
	check_stack();
	check_recorded(data, size_bytes);
	check_ended(data, size_bytes);
	return 0;
}
