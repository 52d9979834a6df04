/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of the worker that reads stacks, as the daemon takes them: what is accepted is within bounds, and compares. */
#include "analyzers/base/stack.h"
#include "daemon/base/util.h"
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

		threads[i] = (struct stack_thread){.rank = (int32_t)i, .is_rank = true, .main = thread->main, .job = "",
			.name = thread->name, .state = thread->state, .wait = thread->wait, .frame = frames[i], .frames = n};
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char text[65537];
	static struct stack_frame parsed[FRAMES_MAX];
	Ranktrace__StackProcess *process;
	const uint8_t *at = data;
	size_t left = size;

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
