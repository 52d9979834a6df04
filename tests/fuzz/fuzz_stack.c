/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of workers, as the daemon takes them: what is accepted is within bounds, and compares. */
#undef NDEBUG
#include <assert.h>

#include "analyzers/base/stack.h"
#include "daemon/base/util.h"
#include "daemon/coll/comm_reader.h"
#include "stacks/reply/reply.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define THREADS_MAX 64
#define FRAMES_MAX 64

static void compare(const Ranktrace__StackProcess *process)
{
	static struct stack_frame frames[THREADS_MAX][FRAMES_MAX], parsed[FRAMES_MAX];
	static char text[STACK_FRAMES_BYTES_MAX];
	struct stack_thread threads[THREADS_MAX];
	char sentence[STACK_SENTENCE_BYTES];
	size_t count = process->n_threads < THREADS_MAX ? process->n_threads : THREADS_MAX;

	for (size_t i = 0; i < count; i++) {
		const Ranktrace__StackThread *thread = process->threads[i];
		size_t n = thread->n_frames < FRAMES_MAX ? thread->n_frames : FRAMES_MAX;

		threads[i] = (struct stack_thread){.rank = (int32_t)i,
			.is_rank = true,
			.main = thread->main,
			.job = "",
			.name = thread->name,
			.state = thread->state,
			.wait = thread->wait,
			.frame = frames[i],
			.frames = n};
		for (size_t j = 0; j < n; j++) {
			/* Beyond the array if the number was not checked. */
			const Ranktrace__StackFrame *frame = process->frames[thread->frames[j]];

			frames[i][j] = (struct stack_frame){
				frame->kind, frame->function, frame->file, frame->line, frame->address};
		}
		stack_frames_text(&threads[i], text, sizeof(text));
		(void)stack_frames_parse(text, parsed, FRAMES_MAX);
	}
	stack_sentence(threads, count, sentence);
}

static void assert_printable(const char *text, bool lines)
{
	for (; *text; text++)
		assert((unsigned char)*text >= ' ' ? *text != 127 : lines && *text == '\n');
}

/* Where the frames of a process's Python are: what the kernel reads by it is within its buffers. */
static void take_layout(const uint8_t *data, size_t size)
{
	struct reply_layout layout;
	const struct rt_profile_python *python = &layout.python;

	if (reply_layout_read(data, size, &layout) < 0)
		return;
	assert_printable(layout.reason, false);
	if (!python->interps)
		return;
	assert(python->thread_bytes <= RT_PROFILE_THREAD_BYTES && python->thread_frame < python->thread_bytes &&
		python->thread_pthread < python->thread_bytes);
	assert(python->frame_bytes <= RT_PROFILE_FRAME_BYTES && python->frame_code < python->frame_bytes &&
		python->frame_owner < python->frame_bytes);
	assert(python->code_bytes <= RT_PROFILE_CODE_BYTES && python->code_name < python->code_bytes);
}

/* Names of a profile's stacks. */
static void take_names(const uint8_t *data, size_t size)
{
	static struct stack_frame parsed[FRAMES_MAX];
	struct reply_stack head;
	size_t before = size;
	char *text;

	while (reply_next_stack(&data, &size, &head, &text) > 0) {
		assert(size < before && !text == !!(head.flags & REPLY_STACK_REFUSED));
		before = size;
		if (!text)
			continue;
		assert(strlen(text) <= head.bytes && head.bytes < REPLY_STACK_BYTES_MAX);
		assert_printable(text, true);
		(void)stack_frames_parse(text, parsed, FRAMES_MAX);
		free(text);
	}
}

/* Identity or name of a communicator. */
static void take_communicator(const uint8_t *data, size_t size)
{
	struct worker_reply reply = {.end = WORKER_ANSWERED, .data = data, .size_bytes = size};
	struct comm_answer answer;

	if (comm_reader_take(&reply, &answer) < 0)
		return;
	assert_printable(answer.name, false);
	assert_printable(answer.reason, false);
	assert(!answer.members || answer.member < answer.members);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char text[65537];
	static struct stack_frame parsed[FRAMES_MAX];
	Ranktrace__StackProcess *process;
	const uint8_t *at = data;
	size_t left = size;

	take_layout(data, size);
	take_names(data, size);
	take_communicator(data, size);
	while (reply_next(&at, &left, &process) > 0) {
		compare(process);
		ranktrace__stack_process__free_unpacked(process, NULL);
	}
	/* Most inputs have no good length: their bytes are a text of the store. */
	if (size < sizeof(text)) {
		memcpy(text, data, size);
		text[size] = 0;
		(void)stack_frames_parse(text, parsed, FRAMES_MAX);
	}
	return 0;
}
