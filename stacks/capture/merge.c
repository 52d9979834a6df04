/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One list of native and Python frames. A call of _PyEval_EvalFrameDefault() runs a run of Python frames, whose first
 * is marked `entry`: the calls, from the outermost on, stand for the runs in their order.
 *
 * Parts of that function that the compiler moved away (".cold") have no name in a stripped file. They are recognized by
 * the size of their stack frame, which is that of the function, and only where calls and runs then agree in number.
 * Where they do not, native frames outside of the innermost call are left out: they cannot be placed.
 */
#include "stacks/capture/capture.h"

#define MERGE_EVAL "_PyEval_EvalFrameDefault"

static bool merge_is_eval(const struct native_frame *frame)
{
	size_t n = strlen(MERGE_EVAL);

	return frame->function && strncmp(frame->function, MERGE_EVAL, n) == 0 &&
	       (!frame->function[n] || frame->function[n] == '.');
}

static bool merge_is_cold(const struct capture_merge *merge, const struct native_frame *frame, int32_t eval_size)
{
	return !frame->function && frame->module == merge->interpreter && eval_size > 0 &&
	       frame->cfa_offset == eval_size;
}

struct merge_calls {
	bool is_call[NATIVE_FRAMES_MAX]; /* of native frames, innermost first */
	size_t count;
};

static void merge_count(const struct capture_merge *merge, struct merge_calls *calls, int32_t eval_size)
{
	calls->count = 0;
	for (size_t i = 0; i < merge->thread->frames; i++) {
		const struct native_frame *frame = &merge->thread->frame[i];

		calls->is_call[i] = merge_is_eval(frame) || merge_is_cold(merge, frame, eval_size);
		calls->count += calls->is_call[i];
	}
}

static size_t merge_runs(const struct pystack_stack *python)
{
	size_t runs = 0;

	for (size_t i = 0; i < python->count; i++)
		runs += python->frames[i].entry || i == 0;
	return runs;
}

static void merge_find_calls(const struct capture_merge *merge, size_t runs, struct merge_calls *calls)
{
	int32_t eval_size = -1;

	merge_count(merge, calls, -1);
	if (calls->count >= runs)
		return;
	for (size_t i = 0; i < merge->thread->frames; i++)
		if (merge_is_eval(&merge->thread->frame[i]))
			eval_size = merge->thread->frame[i].cfa_offset;
	merge_count(merge, calls, eval_size);
	if (calls->count != runs && !merge->thread->reason[0])
		merge_count(merge, calls, -1);
}

struct merging {
	const struct capture_merge *merge;
	Ranktrace__StackProcess *process;
	struct capture_list *list;
};

/* Cut to what a message holds. */
static char *merge_text(const char *text, char ret[CAPTURE_TEXT_BYTES_MAX + 1])
{
	size_t n = strnlen(text, CAPTURE_TEXT_BYTES_MAX + 1);

	if (n <= CAPTURE_TEXT_BYTES_MAX) {
		memcpy(ret, text, n + 1);
		return ret;
	}
	memcpy(ret, text, CAPTURE_TEXT_BYTES_MAX - 3);
	memcpy(ret + CAPTURE_TEXT_BYTES_MAX - 3, "...", 4);
	return ret;
}

static void merge_add_native(struct merging *merging, const struct native_frame *native)
{
	char function[CAPTURE_TEXT_BYTES_MAX + 1], file[CAPTURE_TEXT_BYTES_MAX + 1];
	bool ours = native->module == merging->merge->interpreter && native->module >= 0;
	Ranktrace__StackFrame frame = RANKTRACE__STACK_FRAME__INIT;

	frame.kind = (char *)(ours ? "interpreter" : "native");
	frame.function = merge_text(native->function ? native->function : "", function);
	frame.file = merge_text(native_module_path(merging->merge->native, native->module), file);
	/* One place of a named function is as good as another. */
	frame.address = native->function ? 0 : native->file_address;
	(void)capture_add(merging->process, &frame, merging->list);
}

static void merge_add_python(struct merging *merging, const struct pystack_frame *python)
{
	char function[CAPTURE_TEXT_BYTES_MAX + 1], file[CAPTURE_TEXT_BYTES_MAX + 1];
	Ranktrace__StackFrame frame = RANKTRACE__STACK_FRAME__INIT;

	frame.kind = (char *)"python";
	frame.function = merge_text(python->function, function);
	frame.file = merge_text(python->file, file);
	frame.line = python->line;
	(void)capture_add(merging->process, &frame, merging->list);
}

/* The frames from *next on, up to the next run; with all, of all runs. */
static void merge_add_run(struct merging *merging, size_t *next, bool all)
{
	const struct pystack_stack *python = merging->merge->python;
	size_t start = *next;

	for (; *next < python->count && (all || *next == start || !python->frames[*next].entry); ++*next)
		merge_add_python(merging, &python->frames[*next]);
}

static void merge_add_kernel(struct merging *merging)
{
	Ranktrace__StackFrame frame = RANKTRACE__STACK_FRAME__INIT;
	const struct native_thread *thread = merging->merge->thread;

	if (!thread || !thread->kernel[0])
		return;
	frame.kind = (char *)"kernel";
	frame.function = (char *)thread->kernel;
	(void)capture_add(merging->process, &frame, merging->list);
}

/* Calls and runs both known. */
static void merge_both(struct merging *merging, Ranktrace__StackThread *thread)
{
	const struct native_thread *native = merging->merge->thread;
	const struct pystack_stack *python = merging->merge->python;
	size_t runs = merge_runs(python), next = 0, outer = native->frames, skipped_runs;
	struct merge_calls calls;

	merge_find_calls(merging->merge, runs, &calls);
	/* What is missing at the outer end is missing of both. */
	skipped_runs = runs > calls.count && native->reason[0] ? runs - calls.count : 0;
	if (calls.count != runs && !skipped_runs) {
		char text[160];

		snprintf(text, sizeof(text),
			"%zu calls of the interpreter and %zu runs of Python frames: native frames outside are left "
			"out",
			calls.count, runs);
		if (thread->native_reason == protobuf_c_empty_string)
			thread->native_reason = strdup(text);
		merge_add_run(merging, &next, true);
		for (outer = 0; outer < native->frames && !calls.is_call[outer] &&
				(calls.count || native->frame[outer].module != merging->merge->interpreter);
			outer++)
			;
	}
	for (; skipped_runs; skipped_runs--)
		merge_add_run(merging, &next, false);
	while (outer-- > 0) {
		if (calls.is_call[outer])
			merge_add_run(merging, &next, false);
		else
			merge_add_native(merging, &native->frame[outer]);
	}
	merge_add_run(merging, &next, true);
}

void capture_merge_frames(const struct capture_merge *merge, Ranktrace__StackProcess *process,
	Ranktrace__StackThread *thread, struct capture_list *list)
{
	struct merging merging = {.merge = merge, .process = process, .list = list};
	size_t next = 0;

	if (merge->thread && merge->thread->frames && merge->python && merge->python->count)
		merge_both(&merging, thread);
	else if (merge->python && merge->python->count)
		merge_add_run(&merging, &next, true);
	else if (merge->thread)
		for (size_t i = merge->thread->frames; i-- > 0;)
			merge_add_native(&merging, &merge->thread->frame[i]);
	merge_add_kernel(&merging);
}
