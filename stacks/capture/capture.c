/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the threads of a process and packs what they say. See capture.h. */
#include "stacks/capture/capture.h"

#define CAPTURE_KERNEL_FRAMES 1u

struct capture {
	Ranktrace__StackProcess *message;
	struct native_process *native;
	struct native_thread *thread;
	size_t threads;
	struct pystack *python;
	struct pystack_thread *state; /* PYSTACK_THREADS_MAX */
	size_t states;
	int32_t interpreter;
	uint64_t deadline_ns;
	struct pystack_stack *stack; /* one of a thread; frame arrays of their own */
	int *stack_error;
	enum pystack_refusal *stack_why;
};

/* Of texts that are bounded already. */
static char *capture_copy(const char *text)
{
	char *copy = strdup(text);

	return copy ? copy : (char *)protobuf_c_empty_string;
}

static bool capture_same(const Ranktrace__StackFrame *a, const Ranktrace__StackFrame *b)
{
	return a->line == b->line && a->address == b->address && streq(a->kind, b->kind) &&
	       streq(a->function, b->function) && streq(a->file, b->file);
}

static Ranktrace__StackFrame *capture_frame_new(const Ranktrace__StackFrame *frame)
{
	Ranktrace__StackFrame *copy = malloc(sizeof(*copy));

	if (!copy)
		return NULL;
	*copy = (Ranktrace__StackFrame)RANKTRACE__STACK_FRAME__INIT;
	copy->kind = capture_copy(frame->kind);
	copy->function = capture_copy(frame->function);
	copy->file = capture_copy(frame->file);
	copy->line = frame->line;
	copy->address = frame->address;
	return copy;
}

bool capture_add(Ranktrace__StackProcess *process, const Ranktrace__StackFrame *frame, struct capture_list *list)
{
	size_t i = 0;

	while (i < process->n_frames && !capture_same(process->frames[i], frame))
		i++;
	if (i == process->n_frames) {
		Ranktrace__StackFrame *copy;

		if (i == CAPTURE_FRAMES_MAX)
			return false;
		if (!process->frames)
			process->frames = calloc(CAPTURE_FRAMES_MAX, sizeof(*process->frames));
		copy = process->frames ? capture_frame_new(frame) : NULL;
		if (!copy)
			return false;
		process->frames[process->n_frames++] = copy;
	}
	list->frame[list->count++] = (uint32_t)i;
	return true;
}

void capture_forget(Ranktrace__StackProcess *process, Ranktrace__StackThread *thread)
{
	for (size_t i = 0; i < process->n_frames; i++)
		ranktrace__stack_frame__free_unpacked(process->frames[i], NULL);
	free(process->frames);
	process->frames = NULL;
	process->n_frames = 0;
	if (thread->native_reason != protobuf_c_empty_string)
		free(thread->native_reason);
	thread->native_reason = (char *)protobuf_c_empty_string;
}

static const struct pystack_thread *capture_state(const struct capture *capture, uint32_t thread_id)
{
	for (size_t i = 0; i < capture->states; i++)
		if ((uint32_t)capture->state[i].tid == thread_id)
			return &capture->state[i];
	return NULL;
}

static void capture_read_python(struct capture *capture, size_t i)
{
	const struct pystack_thread *state = capture_state(capture, capture->thread[i].thread_id);
	struct pystack_stack *stack = &capture->stack[i];

	if (!state)
		return;
	if (!stack->frames)
		stack->frames = calloc(PYSTACK_FRAMES_MAX, sizeof(*stack->frames));
	if (!stack->frames) {
		capture->stack_error[i] = -ENOMEM;
		return;
	}
	stack->capacity = PYSTACK_FRAMES_MAX;
	stack->has_gil = state->has_gil;
	capture->stack_error[i] = pystack_read(capture->python, state, NULL, NULL, stack, &capture->stack_why[i]);
	if (capture->stack_error[i] < 0)
		stack->count = 0;
}

/* Python and native frames of one moment, if the thread lets it: a thread that runs has Python frames only. */
static void capture_read_thread(struct capture *capture, size_t i)
{
	struct native_thread *thread = &capture->thread[i];

	for (unsigned tries = 0; tries < NATIVE_TRIES; tries++) {
		if (tries)
			native_thread_refresh(capture->native, thread);
		capture_read_python(capture, i);
		native_unwind(capture->native, thread);
		if (!thread->blocked || thread->frames || native_thread_same(capture->native, thread))
			return;
	}
}

/* The file that holds the interpreter. */
static int32_t capture_interpreter(const struct capture *capture)
{
	const struct pystack_version *version = capture->python ? pystack_version(capture->python) : NULL;

	return version ? native_module_of(capture->native, version->path) : -1;
}

static void capture_open_python(struct capture *capture, uint32_t pid)
{
	enum pystack_refusal why = PYSTACK_REFUSAL_MAX;
	const struct pystack_version *version;
	char text[64];
	int r = pystack_open((pid_t)pid, &capture->python, &why);

	if (r == -ENOTSUP && why < PYSTACK_REFUSAL_MAX)
		capture->message->python_reason = capture_copy(pystack_refusal_sentence(why));
	else if (r < 0)
		capture->message->python_reason = capture_copy(strerror(-r));
	if (r < 0)
		return;
	version = pystack_version(capture->python);
	snprintf(text, sizeof(text), "%u.%u.%u", version->major, version->minor, version->micro);
	if (!version->micro)
		text[strlen(text) - 2] = 0;
	capture->message->python = capture_copy(text);
	capture->state = calloc(PYSTACK_THREADS_MAX, sizeof(*capture->state));
	r = capture->state ? pystack_threads(capture->python, capture->state, PYSTACK_THREADS_MAX, &capture->states)
			   : -ENOMEM;
	if (r < 0) {
		capture->states = 0;
		capture->message->python_reason = capture_copy(
			r == -EAGAIN ? "its list of threads changed in each try to read it" : strerror(-r));
	}
}

static void capture_pack_frames(struct capture *capture, size_t i, Ranktrace__StackThread *item)
{
	struct native_thread *thread = &capture->thread[i];
	struct pystack_stack *stack = &capture->stack[i];
	const struct capture_merge merge = {capture->native, thread, stack, capture->interpreter};
	struct capture_list list = {
		.frame = calloc(thread->frames + stack->count + CAPTURE_KERNEL_FRAMES, sizeof(*list.frame))};

	if (!list.frame)
		return;
	capture_merge_frames(&merge, capture->message, item, &list);
	item->frames = list.frame;
	item->n_frames = list.count;
	item->omitted = stack->omitted;
}

static Ranktrace__StackThread *capture_pack_thread(struct capture *capture, size_t i)
{
	Ranktrace__StackThread *item = malloc(sizeof(*item));
	struct native_thread *thread = &capture->thread[i];
	char state[2] = {thread->state, 0};

	if (!item)
		return NULL;
	*item = (Ranktrace__StackThread)RANKTRACE__STACK_THREAD__INIT;
	item->thread_id = thread->thread_id;
	item->name = capture_copy(thread->name);
	item->state = capture_copy(state);
	item->wait = capture_copy(thread->wait);
	item->main = thread->thread_id == capture->message->pid;
	item->has_gil = capture->stack[i].has_gil;
	if (thread->reason[0])
		item->native_reason = capture_copy(thread->reason);
	if (capture->stack_error[i] == -ENOTSUP && capture->stack_why[i] < PYSTACK_REFUSAL_MAX)
		item->python_reason = capture_copy(pystack_refusal_sentence(capture->stack_why[i]));
	else if (capture->stack_error[i] < 0)
		item->python_reason = capture_copy(strerror(-capture->stack_error[i]));
	capture_pack_frames(capture, i, item);
	return item;
}

static int capture_threads(struct capture *capture)
{
	size_t left_out = 0, read = 0;
	int r = native_threads(capture->native, &capture->thread, &capture->threads, &left_out);

	if (r < 0)
		return r;
	capture->stack = calloc(capture->threads, sizeof(*capture->stack));
	capture->stack_error = calloc(capture->threads, sizeof(*capture->stack_error));
	capture->stack_why = calloc(capture->threads, sizeof(*capture->stack_why));
	capture->message->threads = calloc(capture->threads, sizeof(*capture->message->threads));
	if (!capture->stack || !capture->stack_error || !capture->stack_why || !capture->message->threads)
		return -ENOMEM;
	for (; read < capture->threads && (!read || monotonic_ns() < capture->deadline_ns); read++)
		capture_read_thread(capture, read);
	native_symbolize(capture->native);
	for (size_t i = 0; i < read; i++) {
		Ranktrace__StackThread *item = capture_pack_thread(capture, i);

		if (!item)
			return -ENOMEM;
		capture->message->threads[capture->message->n_threads++] = item;
	}
	capture->message->threads_left_out = left_out + capture->threads - read;
	return 0;
}

static const char *capture_why(int error)
{
	return error == -ENOENT || error == -ESRCH   ? "the process has ended"
	       : error == -EACCES || error == -EPERM ? "the kernel does not let ranktrace read the process"
	       : error == -ENOEXEC		     ? "the program is of another architecture"
						     : strerror(-error);
}

Ranktrace__StackProcess *capture_process(const char *root, uint32_t pid, uint64_t deadline_ns)
{
	struct capture capture = {.deadline_ns = deadline_ns, .message = malloc(sizeof(*capture.message))};
	uint64_t start_ns = monotonic_ns();
	int r;

	if (!capture.message)
		return NULL;
	*capture.message = (Ranktrace__StackProcess)RANKTRACE__STACK_PROCESS__INIT;
	capture.message->pid = pid;
	r = native_open(root, (pid_t)pid, &capture.native);
	if (r == 0) {
		capture_open_python(&capture, pid);
		capture.interpreter = capture_interpreter(&capture);
		r = capture_threads(&capture);
	}
	if (r < 0)
		capture.message->reason = capture_copy(capture_why(r));
	for (size_t i = 0; capture.stack && i < capture.threads; i++)
		free(capture.stack[i].frames);
	free(capture.stack);
	free(capture.stack_error);
	free(capture.stack_why);
	free(capture.state);
	pystack_close(capture.python);
	native_close(capture.native);
	capture.message->took_ns = monotonic_ns() - start_ns;
	return capture.message;
}
