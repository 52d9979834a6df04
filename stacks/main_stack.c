/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libexec/ranktrace/worker/stack: the daemon's worker that reads stacks (stacks/reply/reply.h), and a program for
 * people: `stack --pid PID...` prints the stacks of processes, the innermost frame last. Exit codes: 0 done, 1 a
 * process could not be read, 2 usage.
 */
#include <linux/capability.h>

#include "daemon/base/procfs.h"
#include "daemon/worker/worker.h"
#include "stacks/capture/capture.h"
#include "stacks/reply/reply.h"

static const char usage[] = "usage: stack --pid PID...\n"
			    "Prints the stacks of all threads of processes, the innermost frame last. tracectl stack "
			    "shows those of ranks.\n";

#define STACK_BIT(capability) (1ULL << (capability))
#ifndef CAP_CHECKPOINT_RESTORE /* Linux 5.9 */
#define CAP_CHECKPOINT_RESTORE 40
#endif

static int stack_answer(const Ranktrace__StackProcess *process)
{
	size_t bytes = ranktrace__stack_process__get_packed_size(process);
	uint8_t *data = bytes < REPLY_BYTES_MAX ? malloc(4 + bytes) : NULL;
	int r;

	if (!data)
		return -EMSGSIZE;
	for (unsigned i = 0; i < 4; i++)
		data[i] = (uint8_t)(bytes >> 8 * i);
	ranktrace__stack_process__pack(process, data + 4);
	r = worker_child_add(data, 4 + bytes, NULL, 0);
	free(data);
	return r;
}

static Ranktrace__StackProcess *stack_gone(uint32_t pid)
{
	Ranktrace__StackProcess *message = malloc(sizeof(*message));

	if (!message)
		return NULL;
	*message = (Ranktrace__StackProcess)RANKTRACE__STACK_PROCESS__INIT;
	message->pid = pid;
	message->reason = strdup("the process has ended");
	return message;
}

static bool stack_is(const struct reply_pid *want)
{
	struct procfs_stat stat;

	return procfs_stat("/proc", want->pid, &stat) == 0 &&
	       (!want->start_time_ns || stat.start_time_ns == want->start_time_ns);
}

/* Its pid may become another process's at any moment: what was read counts only if it is the same one at the end. */
static Ranktrace__StackProcess *stack_read(const struct reply_pid *want)
{
	Ranktrace__StackProcess *message =
		stack_is(want) ? capture_process("/proc", want->pid, monotonic_ns() + REPLY_PROCESS_NS) : NULL;

	if (message && !stack_is(want)) {
		ranktrace__stack_process__free_unpacked(message, NULL);
		message = NULL;
	}
	return message ? message : stack_gone(want->pid);
}

/* What follows the head of a request. */
struct stack_input {
	const uint8_t *data;
	size_t size_bytes;
	uint32_t count;
};

static const void *stack_take(struct stack_input *input, size_t size_bytes)
{
	const uint8_t *data = input->data;

	if (size_bytes > input->size_bytes)
		return NULL;
	input->data += size_bytes;
	input->size_bytes -= size_bytes;
	return data;
}

static int stack_serve_threads(struct stack_input *input)
{
	int r = 0;

	if (input->count > REPLY_PIDS_MAX)
		return -EINVAL;
	for (uint32_t i = 0; i < input->count && r >= 0; i++) {
		const struct reply_pid *want = stack_take(input, sizeof(*want));
		Ranktrace__StackProcess *message = want ? stack_read(want) : NULL;

		r = !want ? -EINVAL : message ? stack_answer(message) : -ENOMEM;
		if (message)
			ranktrace__stack_process__free_unpacked(message, NULL);
	}
	return r;
}

static int stack_serve_layout(struct stack_input *input)
{
	const struct reply_pid *want = stack_take(input, sizeof(*want));
	struct reply_layout layout = {.reason = "the process has ended"};

	if (!want)
		return -EINVAL;
	if (stack_is(want))
		sample_layout(want->pid, &layout);
	return worker_child_add(&layout, sizeof(layout), NULL, 0);
}

/* Answers of a process that is another one by now are of no use: the daemon drops what comes without an end. */
static int stack_add_named(void *arg, const struct rt_profile_stack_event *stack, const char *frames, bool native_cut)
{
	struct reply_stack reply = {.stack = stack->stack,
		.bytes = frames ? (uint32_t)strlen(frames) : 0,
		.flags = (frames ? 0 : REPLY_STACK_REFUSED) | (native_cut ? REPLY_STACK_NATIVE_CUT : 0)};
	int r = worker_child_add(&reply, sizeof(reply), NULL, 0);

	return r < 0 || !frames ? r : worker_child_add(frames, reply.bytes, NULL, 0);
}

/* A record of the ring within a request; its head says how long it is. NULL: there is none. */
static const void *stack_take_event(struct stack_input *input)
{
	struct rt_event head;

	if (input->size_bytes < sizeof(head))
		return NULL;
	memcpy(&head, input->data, sizeof(head));
	return head.size_bytes >= sizeof(head) ? stack_take(input, head.size_bytes) : NULL;
}

/* What is to be named, and what names it. */
struct stack_records {
	const struct rt_profile_stack_event *stack[REPLY_STACKS_MAX];
	const struct rt_profile_code_event *code[REPLY_CODES_MAX];
	struct sample_request request;
};

static bool stack_take_records(struct stack_input *input, struct stack_records *ret)
{
	size_t codes = 0;

	if (input->count > REPLY_STACKS_MAX)
		return false;
	for (uint32_t i = 0; i < input->count; i++) {
		ret->stack[i] = stack_take_event(input);
		if (!ret->stack[i] || !reply_stack_event_valid(ret->stack[i], ret->stack[i]->event.size_bytes))
			return false;
	}
	while (input->size_bytes && codes < REPLY_CODES_MAX) {
		const struct rt_profile_code_event *item = stack_take_event(input);

		if (!item || !reply_code_event_valid(item, item->event.size_bytes))
			return false;
		ret->code[codes++] = item;
	}
	ret->request =
		(struct sample_request){.stack = ret->stack, .stacks = input->count, .code = ret->code, .codes = codes};
	return true;
}

static int stack_serve_names(struct stack_input *input)
{
	const struct reply_pid *want = stack_take(input, sizeof(*want));
	struct stack_records records;

	if (!want || !stack_take_records(input, &records))
		return -EINVAL;
	return stack_is(want) ? sample_name("/proc", want->pid, &records.request, stack_add_named, NULL) : -ESRCH;
}

static int stack_serve_ended(struct stack_input *input)
{
	const void *taken = stack_take(input, sizeof(struct reply_layout));
	struct stack_records records;
	struct reply_layout layout;

	if (!taken || !stack_take_records(input, &records))
		return -EINVAL;
	memcpy(&layout, taken, sizeof(layout));
	return sample_name_ended(&layout, &records.request, stack_add_named, NULL);
}

static int stack_serve(const struct worker_task *task)
{
	static int (*const serve[REPLY_WHATS])(struct stack_input * input) = {
		[REPLY_THREADS] = stack_serve_threads,
		[REPLY_LAYOUT] = stack_serve_layout,
		[REPLY_NAMES] = stack_serve_names,
		[REPLY_ENDED] = stack_serve_ended,
	};
	struct stack_input input = {.data = task->request, .size_bytes = task->size_bytes};
	const struct reply_request *request = stack_take(&input, sizeof(*request));

	if (!request || request->what >= REPLY_WHATS)
		return -EINVAL;
	(void)worker_child_keep(
		STACK_BIT(CAP_SYS_PTRACE) | STACK_BIT(CAP_DAC_READ_SEARCH) | STACK_BIT(CAP_CHECKPOINT_RESTORE));
	input.count = request->count;
	return serve[request->what](&input);
}

static void stack_show_thread(const Ranktrace__StackProcess *process, const Ranktrace__StackThread *thread)
{
	printf("  thread %u %s%s, state %s%s%s%s\n", thread->thread_id, thread->name, thread->main ? " (main)" : "",
		thread->state, *thread->wait ? ", " : "", thread->wait, thread->has_gil ? ", holds the GIL" : "");
	if (*thread->native_reason)
		printf("    native frames: %s\n", thread->native_reason);
	if (*thread->python_reason)
		printf("    Python frames: %s\n", thread->python_reason);
	for (size_t i = 0; i < thread->n_frames; i++) {
		const Ranktrace__StackFrame *frame = process->frames[thread->frames[i]];

		printf("    %-11s %s", frame->kind, *frame->function ? frame->function : "?");
		if (frame->line)
			printf(" (%s:%u)", frame->file, frame->line);
		else if (*frame->file)
			printf(" (%s)", frame->file);
		putchar('\n');
	}
}

static int stack_show_process(uint32_t pid)
{
	const struct reply_pid want = {.pid = pid};
	Ranktrace__StackProcess *process = stack_read(&want);
	int status = !process || *process->reason;

	if (!process)
		return 1;
	printf("process %u%s%s%s%s, read in %.1f ms\n", pid, *process->python ? ", Python " : "", process->python,
		*process->reason || *process->python_reason ? ": " : "",
		*process->reason ? process->reason : process->python_reason, (double)process->took_ns / 1e6);
	for (size_t i = 0; i < process->n_threads; i++)
		stack_show_thread(process, process->threads[i]);
	if (process->threads_left_out)
		printf("  and %llu more threads\n", (unsigned long long)process->threads_left_out);
	ranktrace__stack_process__free_unpacked(process, NULL);
	return status;
}

int main(int argc, char **argv)
{
	int status = 0;

	if (argc < 2 || argv[1][0] != '-')
		return worker_child_main(argc, argv, stack_serve);
	if (streq(argv[1], "--help")) {
		fputs(usage, stdout);
		return 0;
	}
	if (!streq(argv[1], "--pid") || argc < 3) {
		fputs(usage, stderr);
		return 2;
	}
	for (int i = 2; i < argc; i++) {
		char *end;
		unsigned long pid = strtoul(argv[i], &end, 10);

		if (*end || !pid || pid > INT32_MAX) {
			fprintf(stderr, "stack: '%s' is no process id\n", argv[i]);
			return 2;
		}
		status |= stack_show_process((uint32_t)pid);
	}
	return status;
}
