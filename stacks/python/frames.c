/* SPDX-License-Identifier: Apache-2.0 */
/* Walks a thread's frames and reads what their code objects say. */
#include "daemon/base/util.h"
#include "stacks/python/pystack_internal.h"

#define WALK_MAX 65536u		   /* frames of a chain; beyond, or in a circle, it is refused */
#define TAG_MASK 7ull		   /* of references from 3.14; objects are aligned to 8 bytes */
#define OWNER_GENERATOR 1	   /* from 3.11 */
#define UNIT_BYTES 2		   /* of an instruction */
#define INSTRUCTIONS_MAX (1 << 28) /* bytes of a function */
#define LINES_BYTES_MAX (4u << 20) /* of a line table */

/* What a code object says. */
struct pycode {
	uint64_t file, name, lines, first; /* first: address of its first instruction */
	int64_t bytes;			   /* of instructions */
	int64_t traceable;		   /* offset of the first one after the prologue */
	int32_t first_line;
};

struct pywalk {
	uint64_t at;   /* next frame */
	uint64_t mark; /* for circles: a frame passed, moved at powers of two */
	size_t steps, limit;
	size_t count;
	uint64_t below; /* outside the innermost call of the eval loop: its caller's frame */
	bool bounded;	/* to be checked */
};

int pyframes_refuse(int r, enum pystack_refusal why, enum pystack_refusal *ret_why)
{
	if (r == -ESRCH || r == -EPERM || r == -ENOMEM)
		return r;
	*ret_why = r == -ENOBUFS ? PYSTACK_TOO_LARGE : r == -EFAULT ? PYSTACK_UNREADABLE : why;
	return -ENOTSUP;
}

/*
 * The innermost frame. In 3.11 and 3.12 it is in a record of the running call of the eval loop, which is in use a few
 * instructions before the frame is written into it. So what its caller's record says, walk->below, must be found where
 * the frames of this call end.
 */
static int pyframes_first(struct pystack *stack, uint64_t state, struct pywalk *walk)
{
	const struct pylayout *layout = &stack->layout;
	uint64_t record;
	int r = pymem_u64(stack->memory, state + layout->thread_frame, layout->cframe ? &record : &walk->at);

	if (r < 0 || !layout->cframe)
		return r;
	r = pymem_u64(stack->memory, record + layout->cframe_frame, &walk->at);
	if (r == 0)
		r = pymem_u64(stack->memory, record + layout->cframe_previous, &record);
	/* The first record is of no call. */
	if (r < 0 || !record)
		return r < 0 || !walk->at ? r : -ELOOP;
	walk->bounded = true;
	return pymem_u64(stack->memory, record + layout->cframe_frame, &walk->below);
}

/* Counts a step; -ELOOP: passed before, or too many (Brent's algorithm). */
static int pywalk_step(struct pywalk *walk)
{
	if (walk->at == walk->mark || ++walk->steps > WALK_MAX)
		return -ELOOP;
	if (walk->steps == walk->limit) {
		walk->mark = walk->at;
		walk->limit *= 2;
	}
	return 0;
}

/* Reads the frame at walk->at into *ret and goes on to the one that called it. *ret_shim: it runs no Python code. */
static int pyframes_frame(struct pystack *stack, struct pywalk *walk, struct pyframe *ret, bool *ret_shim)
{
	const struct pylayout *layout = &stack->layout;
	uint64_t at = walk->at;
	uint8_t owner = 0, entry = 1;
	int r = pymem_u64(stack->memory, at + layout->frame_code, &ret->code);

	if (r == 0)
		r = pymem_u64(stack->memory, at + layout->frame_instruction, &ret->instruction);
	if (r == 0 && layout->frame_owner)
		r = pymem_read(stack->memory, at + layout->frame_owner, &owner, sizeof(owner));
	if (r == 0 && layout->frame_entry)
		r = pymem_read(stack->memory, at + layout->frame_entry, &entry, sizeof(entry));
	if (r == 0)
		r = pymem_u64(stack->memory, at + layout->frame_previous, &walk->at);
	if (r < 0)
		return r;
	ret->code &= ~TAG_MASK;
	ret->complete = !layout->code_traceable || owner == OWNER_GENERATOR;
	/* From 3.12 each call of the eval loop has a frame of its own below those of Python. */
	*ret_shim = owner >= PYLAYOUT_OWNER_SHIM;
	ret->entry = layout->frame_owner && !layout->frame_entry ? false : entry;
	return 0;
}

/* All frames into stack->frame, innermost first; *ret_omitted: those beyond `capacity`. */
static int pyframes_walk(struct pystack *stack, uint64_t state, size_t capacity, struct pywalk *walk,
	size_t *ret_omitted, unsigned *ret_inner)
{
	int r = pyframes_first(stack, state, walk);

	while (r == 0 && walk->at) {
		struct pyframe frame;
		bool shim;

		r = pywalk_step(walk);
		if (r == 0)
			r = pyframes_frame(stack, walk, &frame, &shim);
		if (r < 0)
			return r;
		if (walk->bounded && (shim || frame.entry)) {
			if (walk->at != walk->below)
				return -ELOOP;
			walk->bounded = false;
		}
		if (shim) {
			if (walk->count && !*ret_omitted)
				stack->frame[walk->count - 1].entry = true;
			else if (!walk->count)
				++*ret_inner;
		} else if (walk->count < capacity) {
			stack->frame[walk->count++] = frame;
		} else {
			++*ret_omitted;
		}
	}
	return r == 0 && walk->bounded ? -ELOOP : r;
}

static int pycode_instructions(struct pystack *stack, uint64_t at, struct pycode *code)
{
	const struct pylayout *layout = &stack->layout;
	uint64_t object = at, type, size;
	int32_t traceable = 0;
	int r = 0;

	if (layout->code_bytes) {
		/* A bytes object until 3.10; then they follow the code object's fields. */
		r = pymem_u64(stack->memory, at + layout->code_bytes, &object);
		if (r == 0)
			r = pymem_u64(stack->memory, object + layout->object_type, &type);
		if (r == 0 && type != stack->image.bytes_type)
			return -EBADMSG;
	}
	if (r == 0)
		r = pymem_u64(stack->memory, object + layout->object_size, &size);
	if (r == 0 && layout->code_traceable)
		r = pymem_read(stack->memory, at + layout->code_traceable, &traceable, sizeof(traceable));
	if (r < 0)
		return r;
	if (!layout->code_bytes)
		size *= UNIT_BYTES;
	code->first = at + layout->code_adaptive;
	code->bytes = (int64_t)size;
	code->traceable = (int64_t)traceable * UNIT_BYTES;
	/* The interpreter's own code, for calls of __init__, has no such instruction: traceable is beyond its end. */
	return !size || size > INSTRUCTIONS_MAX || code->traceable < 0 ? -EBADMSG : 0;
}

static int pycode_read(struct pystack *stack, uint64_t at, struct pycode *ret)
{
	const struct pylayout *layout = &stack->layout;
	uint64_t type;
	int r = pymem_u64(stack->memory, at + layout->object_type, &type);

	if (r < 0)
		return r;
	if (type != stack->image.code_type)
		return -EBADMSG;
	r = pymem_u64(stack->memory, at + layout->code_file, &ret->file);
	if (r == 0)
		r = pymem_u64(stack->memory, at + (layout->code_qualname ? layout->code_qualname : layout->code_name),
			&ret->name);
	if (r == 0)
		r = pymem_u64(stack->memory, at + layout->code_lines, &ret->lines);
	if (r == 0)
		r = pymem_read(stack->memory, at + layout->code_first_line, &ret->first_line, sizeof(ret->first_line));
	return r < 0 ? r : pycode_instructions(stack, at, ret);
}

static int pycode_line(struct pystack *stack, const struct pycode *code, int64_t offset, uint32_t *ret)
{
	const struct pylayout *layout = &stack->layout;
	_cleanup_free_ uint8_t *table = NULL;
	uint64_t type, size;
	int r = pymem_u64(stack->memory, code->lines + layout->object_type, &type);

	if (r == 0)
		r = pymem_u64(stack->memory, code->lines + layout->bytes_size, &size);
	if (r < 0)
		return r;
	if (type != stack->image.bytes_type || size > LINES_BYTES_MAX)
		return -EBADMSG;
	table = malloc(size + 1);
	if (!table)
		return -ENOMEM;
	r = pymem_read(stack->memory, code->lines + layout->bytes_data, table, size);
	if (r == 0)
		*ret = layout->line(table, size, offset, code->first_line);
	return r;
}

int pyframes_resolve(struct pystack *stack, const struct pyframe *frame, struct pystack_frame *ret)
{
	struct pycode code;
	int64_t offset;
	int r = pycode_read(stack, frame->code, &code);

	if (r < 0)
		return r;
	offset = stack->layout.instruction(frame->instruction, code.first);
	/* One unit before the first instruction: about to begin. */
	if (offset < -UNIT_BYTES || offset >= code.bytes)
		return -EBADMSG;
	if (!frame->complete && offset < code.traceable)
		return 0;
	*ret = (struct pystack_frame){
		.code = frame->code,
		.entry = frame->entry,
		.first_line = code.first_line > 0 ? (uint32_t)code.first_line : 0,
		.instruction = offset > 0 ? (uint32_t)offset : 0,
	};
	r = pytexts_read(
		stack->texts, stack->memory, &stack->layout, stack->image.text_type, code.name, &ret->function);
	if (r == 0)
		r = pytexts_read(
			stack->texts, stack->memory, &stack->layout, stack->image.text_type, code.file, &ret->file);
	if (r == 0 && !stack->lineless)
		r = pycode_line(stack, &code, offset, &ret->line);
	return r < 0 ? r : 1;
}

/* Brings the pages of all code objects, then of what they point to, in few reads. */
static void pyframes_prefetch(struct pystack *stack, size_t count)
{
	const struct pylayout *layout = &stack->layout;
	size_t n = 0;

	for (size_t i = 0; i < count; i++) {
		stack->address[n++] = stack->frame[i].code;
		stack->address[n++] = stack->frame[i].code + layout->code_lines + sizeof(uint64_t);
	}
	pymem_prefetch(stack->memory, stack->address, n);
	n = 0;
	for (size_t i = 0; i < count; i++) {
		struct pycode code;

		if (pycode_read(stack, stack->frame[i].code, &code) < 0)
			continue;
		stack->address[n++] = code.file;
		stack->address[n++] = code.name;
		stack->address[n++] = code.lines;
	}
	pymem_prefetch(stack->memory, stack->address, n);
}

/* The state is this thread's: it may have ended, and its memory be another's. */
static int pyframes_same_thread(struct pystack *stack, const struct pystack_thread *thread)
{
	uint64_t interp, pthread;
	int r = pymem_u64(stack->memory, thread->state + stack->layout.thread_interp, &interp);

	if (r == 0)
		r = pymem_u64(stack->memory, thread->state + stack->layout.thread_pthread, &pthread);
	if (r < 0)
		return r;
	return interp == thread->interp && pthread == thread->pthread ? 0 : -ESTALE;
}

int pyframes_read(struct pystack *stack, const struct pystack_thread *thread, struct pystack_stack *ret,
	enum pystack_refusal *ret_why)
{
	size_t capacity = ret->capacity < PYSTACK_FRAMES_MAX ? ret->capacity : PYSTACK_FRAMES_MAX;
	struct pywalk walk = {.limit = 1};
	size_t count = 0;
	int r = pyframes_same_thread(stack, thread);

	if (r == -ESTALE || r == -EFAULT)
		return pyframes_refuse(-EBADMSG, PYSTACK_THREAD_GONE, ret_why);
	ret->omitted = 0;
	ret->inner_entries = 0;
	if (r == 0)
		r = pyframes_walk(stack, thread->state, capacity, &walk, &ret->omitted, &ret->inner_entries);
	if (r < 0)
		return pyframes_refuse(r, PYSTACK_BAD_FRAME, ret_why);
	pyframes_prefetch(stack, walk.count);
	/* Outermost first. */
	for (size_t i = walk.count; i > 0; i--) {
		r = pyframes_resolve(stack, &stack->frame[i - 1], &ret->frames[count]);
		if (r < 0)
			return pyframes_refuse(r, PYSTACK_BAD_CODE, ret_why);
		if (r == 0 && stack->frame[i - 1].entry)
			ret->inner_entries++;
		count += (size_t)r;
	}
	ret->count = count;
	r = pythreads_has_gil(stack, thread->interp, thread->state, &ret->has_gil);
	return r < 0 ? pyframes_refuse(r, PYSTACK_BAD_FRAME, ret_why) : 0;
}
