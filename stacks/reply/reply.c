/* SPDX-License-Identifier: Apache-2.0 */
#include "stacks/reply/reply.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/text.h"

/* Makes it printable, too. */
static bool reply_text(char *text)
{
	if (!text || strnlen(text, REPLY_TEXT_BYTES_MAX + 1) > REPLY_TEXT_BYTES_MAX)
		return false;
	/* An empty one is protobuf-c's own, which cannot be written. */
	if (*text)
		text_clean(text);
	return true;
}

static bool reply_frame(const Ranktrace__StackFrame *frame)
{
	return reply_text(frame->kind) && reply_text(frame->function) && reply_text(frame->file);
}

static bool reply_thread(const Ranktrace__StackProcess *process, const Ranktrace__StackThread *thread)
{
	if (!reply_text(thread->name) || !reply_text(thread->state) || !reply_text(thread->wait) ||
		!reply_text(thread->native_reason) || !reply_text(thread->python_reason) ||
		thread->n_frames > REPLY_THREAD_FRAMES_MAX)
		return false;
	for (size_t i = 0; i < thread->n_frames; i++)
		if (thread->frames[i] >= process->n_frames)
			return false;
	return true;
}

static bool reply_process(const Ranktrace__StackProcess *process)
{
	if (!reply_text(process->job) || !reply_text(process->role) || !reply_text(process->command) ||
		!reply_text(process->python) || !reply_text(process->python_reason) || !reply_text(process->reason) ||
		process->n_threads > REPLY_THREADS_MAX || process->n_frames > REPLY_FRAMES_MAX)
		return false;
	for (size_t i = 0; i < process->n_frames; i++)
		if (!reply_frame(process->frames[i]))
			return false;
	for (size_t i = 0; i < process->n_threads; i++)
		if (!reply_thread(process, process->threads[i]))
			return false;
	return true;
}

int reply_next(const uint8_t **data, size_t *size_bytes, Ranktrace__StackProcess **ret)
{
	const uint8_t *at = *data;
	Ranktrace__StackProcess *process;
	uint32_t bytes;

	if (!*size_bytes)
		return 0;
	if (*size_bytes < sizeof(bytes))
		return -EBADMSG;
	bytes = (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
	if (bytes > *size_bytes - sizeof(bytes))
		return -EBADMSG;
	process = ranktrace__stack_process__unpack(NULL, bytes, at + sizeof(bytes));
	if (!process)
		return -EBADMSG;
	if (!reply_process(process)) {
		ranktrace__stack_process__free_unpacked(process, NULL);
		return -EBADMSG;
	}
	*data = at + sizeof(bytes) + bytes;
	*size_bytes -= sizeof(bytes) + bytes;
	*ret = process;
	return 1;
}

/* Printable, but for the ends of its lines. */
static void reply_clean_lines(char *text)
{
	char *line = text, *to = text;

	while (line) {
		char *end = strchr(line, '\n');
		size_t bytes;

		if (end)
			*end = 0;
		bytes = strlen(text_clean(line)); /* what is not printable gets shorter */
		memmove(to, line, bytes);
		to += bytes;
		if (end)
			*to++ = '\n';
		line = end ? end + 1 : NULL;
	}
	*to = 0;
}

static bool reply_offset(uint32_t offset, uint32_t bytes)
{
	return offset < bytes;
}

/* What the kernel reads lies within what it reads of each structure, and that within its buffers. */
static bool reply_python(const struct rt_profile_python *python)
{
	const uint32_t thread[] = {python->thread_prev, python->thread_next, python->thread_interp,
		python->thread_pthread, python->thread_frame};
	const uint32_t frame[] = {python->frame_previous, python->frame_code, python->frame_instruction,
		python->frame_owner, python->frame_entry};
	const uint32_t code[] = {python->code_name, python->code_file, python->code_lines, python->code_first_line,
		python->code_instructions};
	bool fits = python->thread_bytes <= RT_PROFILE_THREAD_BYTES && python->frame_bytes <= RT_PROFILE_FRAME_BYTES &&
		    python->code_bytes <= RT_PROFILE_CODE_BYTES;

	for (size_t i = 0; i < sizeof(thread) / sizeof(*thread); i++)
		fits = fits && reply_offset(thread[i], python->thread_bytes);
	for (size_t i = 0; i < sizeof(frame) / sizeof(*frame); i++)
		fits = fits && reply_offset(frame[i], python->frame_bytes);
	for (size_t i = 0; i < sizeof(code) / sizeof(*code); i++)
		fits = fits && reply_offset(code[i], python->code_bytes);
	return fits;
}

int reply_layout_read(const uint8_t *data, size_t size_bytes, struct reply_layout *ret)
{
	struct reply_layout layout;

	if (size_bytes != sizeof(layout))
		return -EBADMSG;
	memcpy(&layout, data, sizeof(layout));
	if (!memchr(layout.reason, 0, sizeof(layout.reason)) ||
		(layout.python.interps && !reply_python(&layout.python)))
		return -EBADMSG;
	text_clean(layout.reason);
	*ret = layout;
	return 0;
}

int reply_next_stack(const uint8_t **data, size_t *size_bytes, struct reply_stack *ret, char **ret_text)
{
	struct reply_stack stack;
	char *text = NULL;

	if (!*size_bytes)
		return 0;
	if (*size_bytes < sizeof(stack))
		return -EBADMSG;
	memcpy(&stack, *data, sizeof(stack));
	if (stack.bytes >= REPLY_STACK_BYTES_MAX || stack.bytes > *size_bytes - sizeof(stack))
		return -EBADMSG;
	if (!(stack.flags & REPLY_STACK_REFUSED)) {
		text = malloc(stack.bytes + 1);
		if (!text)
			return -ENOMEM;
		memcpy(text, *data + sizeof(stack), stack.bytes);
		text[stack.bytes] = 0;
		reply_clean_lines(text);
	}
	*data += sizeof(stack) + stack.bytes;
	*size_bytes -= sizeof(stack) + stack.bytes;
	*ret = stack;
	*ret_text = text;
	return 1;
}

bool reply_stack_event_valid(const struct rt_profile_stack_event *stack, size_t size_bytes)
{
	size_t fixed = offsetof(struct rt_profile_stack_event, frame);

	return size_bytes >= fixed && stack->frames <= RT_PROFILE_FRAMES_MAX &&
	       stack->natives <= RT_PROFILE_NATIVE_MAX && size_bytes == fixed + stack->frames * sizeof(stack->frame[0]);
}

bool reply_code_event_valid(const struct rt_profile_code_event *code, size_t size_bytes)
{
	const size_t most[RT_PROFILE_CODE_OBJECTS] = {sizeof(code->object), sizeof(code->instructions),
		sizeof(code->name), sizeof(code->file), sizeof(code->lines)};
	size_t fixed = offsetof(struct rt_profile_code_event, lines);

	if (size_bytes < fixed)
		return false;
	for (size_t i = 0; i < RT_PROFILE_CODE_OBJECTS; i++)
		if (code->bytes[i] > most[i])
			return false;
	return code->bytes[4] % 8 == 0 && size_bytes == fixed + code->bytes[4];
}
