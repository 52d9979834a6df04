/* SPDX-License-Identifier: Apache-2.0 */
/* What a program in the kernel needs to walk frames itself, and names for what it recorded. */
#include "analyzers/base/array.h"
#include "daemon/base/util.h"
#include "stacks/python/pystack_internal.h"

/* The largest of the fields' ends, to which a structure is read. */
static uint32_t pyprobe_bytes(const uint64_t *offsets, size_t count)
{
	uint64_t most = 0;

	for (size_t i = 0; i < count; i++)
		most = offsets[i] > most ? offsets[i] : most;
	return (uint32_t)(most + sizeof(uint64_t));
}

int pystack_probe_layout(const struct pystack *stack, struct rt_profile_python *ret, enum pystack_refusal *ret_why)
{
	const struct pylayout *layout = &stack->layout;
	uint64_t name = layout->code_qualname ? layout->code_qualname : layout->code_name;
	/* Bytes among words (owner, entry, first line) end within the word that they are in. */
	const uint64_t thread[] = {layout->thread_prev, layout->thread_next, layout->thread_interp,
		layout->thread_pthread, layout->thread_frame};
	const uint64_t frame[] = {layout->frame_previous, layout->frame_code, layout->frame_instruction,
		layout->frame_owner & ~7ULL, layout->frame_entry & ~7ULL};
	const uint64_t code[] = {layout->object_type, layout->object_size, layout->code_file, name, layout->code_lines,
		layout->code_first_line & ~7ULL, layout->code_bytes, layout->code_traceable & ~7ULL};
	struct rt_profile_python python = {
		.interps = stack->image.runtime + layout->runtime_interps,
		.code_type = stack->image.code_type,
		.interp_next = (uint32_t)layout->interp_next,
		.interp_threads = (uint32_t)layout->interp_threads,
		.thread_bytes = pyprobe_bytes(thread, ARRAY_SIZE(thread)),
		.thread_prev = (uint32_t)layout->thread_prev,
		.thread_next = (uint32_t)layout->thread_next,
		.thread_interp = (uint32_t)layout->thread_interp,
		.thread_pthread = (uint32_t)layout->thread_pthread,
		.thread_frame = (uint32_t)layout->thread_frame,
		.cframe = layout->cframe,
		.cframe_frame = (uint32_t)layout->cframe_frame,
		.cframe_previous = (uint32_t)layout->cframe_previous,
		.frame_bytes = pyprobe_bytes(frame, ARRAY_SIZE(frame)),
		.frame_previous = (uint32_t)layout->frame_previous,
		.frame_code = (uint32_t)layout->frame_code,
		.frame_instruction = (uint32_t)layout->frame_instruction,
		.frame_owner = (uint32_t)layout->frame_owner,
		.frame_entry = (uint32_t)layout->frame_entry,
		.code_bytes = pyprobe_bytes(code, ARRAY_SIZE(code)),
		.code_name = (uint32_t)name,
		.code_file = (uint32_t)layout->code_file,
		.code_lines = (uint32_t)layout->code_lines,
		.code_first_line = (uint32_t)layout->code_first_line,
		.has_complete = layout->code_traceable != 0,
		.code_instructions = (uint32_t)layout->code_bytes,
		.text_head = (uint32_t)layout->text_compact,
		.code_adaptive = (uint32_t)layout->code_adaptive,
		.unit_bytes = layout->code_adaptive ? 0 : (uint32_t)layout->instruction(1, 0),
	};

	int r = PYIMAGE_POINTS_AT_END
			? pyimage_pthread_bytes(stack->memory, PYSTACK_PROC, stack->pid, &python.pthread_below)
			: 0;

	*ret_why = PYSTACK_MACHINE;
	if (r < 0)
		return r == -ENOENT ? -ENOTSUP : r;
	*ret_why = PYSTACK_LAYOUT;
	if (python.thread_bytes > RT_PROFILE_THREAD_BYTES || python.frame_bytes > RT_PROFILE_FRAME_BYTES ||
		python.code_bytes > RT_PROFILE_CODE_BYTES || layout->object_type != RT_PROFILE_TYPE_AT ||
		layout->text_length != RT_PROFILE_SIZE_AT || layout->text_state != RT_PROFILE_STATE_AT ||
		layout->bytes_size != RT_PROFILE_SIZE_AT || layout->bytes_data != RT_PROFILE_BYTES_AT)
		return -ENOTSUP;
	*ret = python;
	return 0;
}

void pystack_image(const struct pystack *stack, struct pystack_image *ret)
{
	*ret = (struct pystack_image){
		.minor = stack->layout.minor,
		.text_type = stack->image.text_type,
		.bytes_type = stack->image.bytes_type,
	};
}

static ssize_t pyprobe_read_nothing(void *arg, const uint64_t *pages, size_t count, uint8_t *ret)
{
	return 0;
}

int pystack_open_recorded(
	const struct pystack_image *image, const struct rt_profile_python *python, struct pystack **ret)
{
	static const struct pymem_ops nothing = {.read = pyprobe_read_nothing};
	const struct pylayout *row = pylayout_row(image->minor);
	struct pystack *stack = row ? pystack_new(&nothing, NULL) : NULL;
	struct pylayout *layout;

	if (!stack)
		return row ? -ENOMEM : -ENOTSUP;
	layout = &stack->layout;
	*layout = *row;
	*(layout->code_qualname ? &layout->code_qualname : &layout->code_name) = python->code_name;
	layout->code_file = python->code_file;
	layout->code_lines = python->code_lines;
	layout->code_first_line = python->code_first_line;
	layout->code_bytes = python->code_instructions;
	layout->code_adaptive = python->code_adaptive;
	layout->code_traceable = layout->code_adaptive ? layout->code_adaptive - PYLAYOUT_TRACEABLE_BACK : 0;
	stack->image.code_type = python->code_type;
	stack->image.text_type = image->text_type;
	stack->image.bytes_type = image->bytes_type;
	*ret = stack;
	return 0;
}

void pystack_forget(struct pystack *stack)
{
	pymem_forget(stack->memory);
}

/*
 * Of a freed object the allocator overwrites the first word, its count of references, with an address or 0. A count is
 * below 2^32; 3.14 has flags in the highest 16 bits.
 */
static bool pyprobe_lives(struct pystack *stack, uint64_t object)
{
	uint64_t count;

	return pymem_u64(stack->memory, object, &count) == 0 && (uint32_t)count && !(count >> 32 & 0xffff);
}

static int pyprobe_print(struct pystack *stack, uint64_t code, uint32_t *ret)
{
	const struct pylayout *layout = &stack->layout;
	uint64_t name, hash, file, lines;
	uint32_t first_line;
	int r = pymem_u64(
		stack->memory, code + (layout->code_qualname ? layout->code_qualname : layout->code_name), &name);

	if (r == 0)
		r = pymem_u64(stack->memory, name + RT_PROFILE_HASH_AT, &hash);
	if (r == 0)
		r = pymem_u64(stack->memory, code + layout->code_file, &file);
	if (r == 0)
		r = pymem_u64(stack->memory, code + layout->code_lines, &lines);
	if (r == 0)
		r = pymem_read(stack->memory, code + layout->code_first_line, &first_line, sizeof(first_line));
	if (r == 0 && (!pyprobe_lives(stack, code) || !pyprobe_lives(stack, name) || !pyprobe_lives(stack, file) ||
			      !pyprobe_lives(stack, lines)))
		r = -ESTALE;
	if (r == 0)
		*ret = rt_profile_print(name, hash, file, lines, first_line);
	return r;
}

static int pyprobe_order(const struct rt_profile_code_event *event, uint64_t code, uint32_t print)
{
	if (event->address[0] != code)
		return event->address[0] < code ? -1 : 1;
	return (event->print > print) - (event->print < print);
}

/* The record of a frame's code object; NULL: none. */
static const struct rt_profile_code_event *pyprobe_recorded(
	const struct pystack *stack, const struct rt_profile_frame *frame)
{
	size_t i = array_first_not(at, stack->codes, pyprobe_order(stack->code[at], frame->code, frame->print) < 0);

	return i < stack->codes && pyprobe_order(stack->code[i], frame->code, frame->print) == 0 ? stack->code[i]
												 : NULL;
}

static int pyprobe_compare(const void *a, const void *b)
{
	const struct rt_profile_code_event *y = *(const struct rt_profile_code_event *const *)b;

	return pyprobe_order(*(const struct rt_profile_code_event *const *)a, y->address[0], y->print);
}

void pystack_codes(struct pystack *stack, const struct rt_profile_code_event **codes, size_t count)
{
	if (count)
		qsort(codes, count, sizeof(*codes), pyprobe_compare);
	stack->code = codes;
	stack->codes = count;
}

bool pystack_unchanged(struct pystack *stack, const struct rt_profile_frame *frames, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		uint32_t print = 0;

		if (pyprobe_recorded(stack, &frames[i]))
			continue;
		if (pyprobe_print(stack, frames[i].code, &print) < 0 || print != frames[i].print)
			return false;
	}
	return true;
}

/* The memory is what the record holds; the print says whether it was complete. */
static int pyprobe_resolve_recorded(struct pystack *stack, const struct rt_profile_code_event *code,
	const struct pyframe *frame, struct pystack_frame *ret)
{
	const uint8_t *const data[RT_PROFILE_CODE_OBJECTS] = {
		code->object, code->instructions, code->name, code->file, code->lines};
	struct pymem_piece pieces[RT_PROFILE_CODE_OBJECTS];
	uint32_t print = 0;
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(pieces); i++)
		pieces[i] = (struct pymem_piece){code->address[i], data[i], code->bytes[i]};
	pymem_pieces(stack->memory, pieces, ARRAY_SIZE(pieces));
	stack->lineless = code->bytes[RT_PROFILE_CODE_OBJECTS - 1] == RT_PROFILE_BYTES_AT;
	r = pyprobe_print(stack, code->address[0], &print);
	if (r == 0)
		r = print == code->print ? pyframes_resolve(stack, frame, ret) : -EBADMSG;
	stack->lineless = false;
	pymem_pieces(stack->memory, NULL, 0);
	return r;
}

int pystack_name(struct pystack *stack, const struct rt_profile_frame *frames, size_t count, struct pystack_stack *ret,
	enum pystack_refusal *ret_why)
{
	ret->count = 0;
	ret->omitted = 0;
	/* Outermost first. */
	for (size_t i = count; i > 0; i--) {
		const struct pyframe frame = {
			.code = frames[i - 1].code,
			.instruction = frames[i - 1].instruction,
			.entry = frames[i - 1].flags & RT_PROFILE_ENTRY,
			.complete = frames[i - 1].flags & RT_PROFILE_COMPLETE,
		};
		const struct rt_profile_code_event *code = pyprobe_recorded(stack, &frames[i - 1]);
		struct pystack_frame *to = &ret->frames[ret->count];
		int r;

		if (ret->count == ret->capacity)
			r = -ENOBUFS;
		else
			r = code ? pyprobe_resolve_recorded(stack, code, &frame, to)
				 : pyframes_resolve(stack, &frame, to);
		if (r < 0)
			return pyframes_refuse(r, PYSTACK_BAD_CODE, ret_why);
		ret->count += (size_t)r;
	}
	return 0;
}
