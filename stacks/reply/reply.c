/* SPDX-License-Identifier: Apache-2.0 */
#include "stacks/reply/reply.h"

#include <errno.h>
#include <stdbool.h>
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
