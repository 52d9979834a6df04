/* SPDX-License-Identifier: Apache-2.0 */
#include "stacks/capture/capture.h"

#include "analyzers/base/stack.h"

struct sample {
	struct native_process *native;
	struct native_thread *thread; /* one a stack */
	struct pystack *python;	      /* NULL: none */
	struct pystack_stack *stack;  /* one a stack; frames of their own */
	bool *refused;
	int32_t interpreter;
	size_t count;
};

void sample_layout(uint32_t pid, struct reply_layout *ret)
{
	enum pystack_refusal why = PYSTACK_REFUSAL_MAX;
	_cleanup_(pystack_closep) struct pystack *python = NULL;
	int r = pystack_open((pid_t)pid, &python, &why);

	*ret = (struct reply_layout){0};
	if (r == 0)
		r = pystack_probe_layout(python, &ret->python, &why);
	if (r == 0)
		pystack_image(python, &ret->image);
	if (r == -ENOTSUP && why < PYSTACK_REFUSAL_MAX)
		(void)copy_text(ret->reason, sizeof(ret->reason), pystack_refusal_sentence(why));
	else if (r < 0)
		(void)copy_text(ret->reason, sizeof(ret->reason), strerror(-r));
}

static int sample_name_python(struct sample *sample, const struct rt_profile_stack_event *event, size_t i)
{
	struct pystack_stack *stack = &sample->stack[i];
	enum pystack_refusal why;
	int r;

	if (!event->frames)
		return 0;
	stack->frames = calloc(event->frames, sizeof(*stack->frames));
	stack->capacity = event->frames;
	if (!stack->frames)
		return -ENOMEM;
	r = sample->python ? pystack_name(sample->python, event->frame, event->frames, stack, &why) : -ENOTSUP;
	sample->refused[i] = r == -ENOTSUP;
	return r == -ENOTSUP ? 0 : r;
}

/* The innermost function in which the kernel waits that is none of its scheduler, nor what reads the stack there. */
static void sample_kernel(const struct rt_profile_stack_event *event, struct native_thread *thread)
{
	static const char *const inner[] = {"bpf_", "__bpf_", "___bpf_", "__traceiter_", "trace_", "__schedule",
		"schedule", "io_schedule", "preempt_schedule", "0x"};

	thread->kernel[0] = 0;
	for (size_t i = 0; i < RT_PROFILE_KERNEL_MAX && event->kernel[i][0]; i++) {
		const char *name = event->kernel[i];
		bool is_inner = false;

		for (size_t j = 0; j < sizeof(inner) / sizeof(*inner); j++)
			is_inner |= strncmp(name, inner[j], strlen(inner[j])) == 0;
		if (is_inner)
			continue;
		snprintf(thread->kernel, sizeof(thread->kernel), "%.*s", RT_PROFILE_KERNEL_BYTES - 1, name);
		return;
	}
}

static int sample_show(const struct sample *sample, const struct rt_profile_stack_event *event, size_t i,
	sample_named named, void *arg)
{
	struct capture_merge merge = {
		sample->native, sample->thread ? &sample->thread[i] : NULL, &sample->stack[i], sample->interpreter};
	Ranktrace__StackProcess process = RANKTRACE__STACK_PROCESS__INIT;
	Ranktrace__StackThread ignored = RANKTRACE__STACK_THREAD__INIT;
	size_t most = (sample->thread ? sample->thread[i].frames : 0) + sample->stack[i].count + 1;
	_cleanup_free_ uint32_t *numbers = calloc(most, sizeof(*numbers));
	_cleanup_free_ struct stack_frame *frames = calloc(most, sizeof(*frames));
	struct capture_list list = {.frame = numbers};
	struct stack_thread thread = {.frame = frames};
	char text[REPLY_STACK_BYTES_MAX];

	if (!numbers || !frames)
		return -ENOMEM;
	capture_merge_frames(&merge, &process, &ignored, &list);
	for (; thread.frames < list.count; thread.frames++) {
		const Ranktrace__StackFrame *frame = process.frames[numbers[thread.frames]];

		frames[thread.frames] =
			(struct stack_frame){frame->kind, frame->function, frame->file, frame->line, frame->address};
	}
	stack_frames_text(&thread, text, sizeof(text));
	capture_forget(&process, &ignored);
	return named(arg, event, text, !sample->thread || sample->thread[i].reason[0]);
}

static int sample_read(struct sample *sample, const struct rt_profile_stack_event *const *stacks)
{
	int r = native_stacks(sample->native, sample->count, &sample->thread);

	if (r < 0)
		return r;
	for (size_t i = 0; i < sample->count && r == 0; i++) {
		r = sample_name_python(sample, stacks[i], i);
		native_prove(sample->native, &sample->thread[i], stacks[i]->native, stacks[i]->natives);
		sample_kernel(stacks[i], &sample->thread[i]);
	}
	if (r < 0)
		return r;
	if (sample->python)
		pystack_forget(sample->python);
	for (size_t i = 0; i < sample->count; i++)
		if (stacks[i]->frames && !sample->refused[i])
			sample->refused[i] = !pystack_unchanged(sample->python, stacks[i]->frame, stacks[i]->frames);
	native_symbolize(sample->native);
	return 0;
}

static int sample_show_all(
	const struct sample *sample, const struct sample_request *request, sample_named named, void *arg)
{
	int r = 0;

	for (size_t i = 0; i < sample->count && r == 0; i++)
		r = sample->refused[i] ? named(arg, request->stack[i], NULL, false)
				       : sample_show(sample, request->stack[i], i, named, arg);
	return r;
}

static void sample_free(struct sample *sample)
{
	for (size_t i = 0; sample->stack && i < sample->count; i++)
		free(sample->stack[i].frames);
	free(sample->stack);
	free(sample->refused);
	pystack_close(sample->python);
	native_close(sample->native);
}

int sample_name_ended(
	const struct reply_layout *layout, const struct sample_request *request, sample_named named, void *arg)
{
	struct sample sample = {.count = request->stacks,
		.interpreter = -1,
		.stack = calloc(request->stacks, sizeof(*sample.stack)),
		.refused = calloc(request->stacks, sizeof(*sample.refused))};
	int r = sample.stack && sample.refused ? pystack_open_recorded(&layout->image, &layout->python, &sample.python)
					       : -ENOMEM;

	if (r == 0)
		pystack_codes(sample.python, request->code, request->codes);
	for (size_t i = 0; i < sample.count && r == 0; i++)
		r = sample_name_python(&sample, request->stack[i], i);
	if (r == 0)
		r = sample_show_all(&sample, request, named, arg);
	sample_free(&sample);
	return r;
}

int sample_name(const char *root, uint32_t pid, const struct sample_request *request, sample_named named, void *arg)
{
	size_t count = request->stacks;
	struct sample sample = {.count = count,
		.interpreter = -1,
		.stack = calloc(count, sizeof(*sample.stack)),
		.refused = calloc(count, sizeof(*sample.refused))};
	enum pystack_refusal why;
	int r = sample.stack && sample.refused ? native_open(root, (pid_t)pid, &sample.native) : -ENOMEM;

	if (r == 0) {
		r = pystack_open((pid_t)pid, &sample.python, &why);
		if (r == 0) {
			sample.interpreter = native_module_of(sample.native, pystack_version(sample.python)->path);
			pystack_codes(sample.python, request->code, request->codes);
		}
		r = r == 0 || r == -ENOTSUP ? sample_read(&sample, request->stack) : r;
	}
	if (r == 0)
		r = sample_show_all(&sample, request, named, arg);
	sample_free(&sample);
	return r;
}
