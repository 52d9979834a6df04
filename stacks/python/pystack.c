/* SPDX-License-Identifier: Apache-2.0 */
#include "stacks/python/pystack.h"

#include "daemon/base/util.h"
#include "stacks/python/pystack_internal.h"
#include "stacks/still/still.h"

#define TRIES_MAX 200u			   /* of a stack */
#define TRIES_MIN 10u			   /* even if each is slow */
#define TRIES_TIME_NS (50 * NSEC_PER_MSEC) /* then no more tries: 100 ms is the goal for all threads of a rank */

#define UNSETTLED_MAX 4u	/* reads again of a stack that is not valid */
#define UNSETTLED_PAUSE_US 500u /* for a thread that waits for the caller's CPU */

static const struct {
	const char *word, *sentence;
} pystack_refusals[] = {
#define PYSTACK_REFUSAL(id, word, sentence) [PYSTACK_##id] = {word, sentence},
#include "stacks/python/refusals.def"
#undef PYSTACK_REFUSAL
};
_Static_assert(ARRAY_SIZE(pystack_refusals) == PYSTACK_REFUSAL_MAX, "a row for each");

const char *pystack_refusal_word(enum pystack_refusal why)
{
	return pystack_refusals[why].word;
}

const char *pystack_refusal_sentence(enum pystack_refusal why)
{
	return pystack_refusals[why].sentence;
}

struct pystack *pystack_new(const struct pymem_ops *ops, void *arg)
{
	struct pystack *stack = calloc(1, sizeof(*stack));

	if (!stack)
		return NULL;
	stack->memory = pymem_new(ops, arg ? arg : &stack->pid);
	stack->texts = pytexts_new();
	if (!stack->memory || !stack->texts) {
		pystack_close(stack);
		return NULL;
	}
	return stack;
}

void pystack_close(struct pystack *stack)
{
	if (!stack)
		return;
	still_close(&stack->still);
	pymem_free(stack->memory);
	pytexts_free(stack->texts);
	free(stack);
}

/*
 * Between two instructions of the interpreter a frame may be half made; a thread can be off the CPU there. So such a
 * stack is read again when the thread has run on.
 */
static bool pystack_unsettled(enum pystack_refusal why)
{
	return why == PYSTACK_BAD_FRAME || why == PYSTACK_BAD_CODE || why == PYSTACK_UNREADABLE;
}

/* The interpreter's image is known. */
static int pystack_identify(struct pystack *stack, enum pystack_refusal *ret_why)
{
	const struct pyimage *image = &stack->image;

	stack->version = (struct pystack_version){
		.major = image->major,
		.minor = image->minor,
		.micro = image->micro,
		.runtime = image->runtime,
		.image = image->base,
	};
	(void)copy_text(stack->version.path, sizeof(stack->version.path), image->path);
	pymem_forget(stack->memory);
	return pylayout_find(stack->memory, image, &stack->layout, ret_why);
}

/* Errors of reading are a reason, those of the process are not. */
static int pystack_opened(int r, enum pystack_refusal *ret_why)
{
	if (r != -EFAULT && r != -ENOBUFS)
		return r;
	*ret_why = PYSTACK_UNREADABLE;
	return -ENOTSUP;
}

int pystack_open_memory(const struct pymem_ops *ops, void *arg, uint64_t base, const char *path, struct pystack **ret,
	enum pystack_refusal *ret_why)
{
	_cleanup_(pystack_closep) struct pystack *stack = pystack_new(ops, arg);
	int r;

	if (!stack)
		return -ENOMEM;
	*ret_why = PYSTACK_NO_PYTHON;
	r = pyimage_read(stack->memory, base, path, &stack->image, ret_why);
	if (r == 0)
		r = pystack_identify(stack, ret_why);
	if (r < 0)
		return r == -ENOENT ? -ENOTSUP : pystack_opened(r, ret_why);
	*ret = TAKE_PTR(stack);
	return 0;
}

int pystack_open(pid_t pid, struct pystack **ret, enum pystack_refusal *ret_why)
{
	_cleanup_(pystack_closep) struct pystack *stack = pystack_new(&pymem_process, NULL);
	int r;

	if (!stack)
		return -ENOMEM;
	stack->pid = pid;
	r = still_open(&stack->still, PYSTACK_PROC);
	if (r == 0)
		r = pyimage_find(stack->memory, PYSTACK_PROC, pid, &stack->image, ret_why);
	if (r == 0)
		r = pystack_identify(stack, ret_why);
	if (r < 0)
		return pystack_opened(r, ret_why);
	*ret = TAKE_PTR(stack);
	return 0;
}

const struct pystack_version *pystack_version(const struct pystack *stack)
{
	return &stack->version;
}

const struct pystack_counts *pystack_counts(struct pystack *stack)
{
	stack->counts.reads = pymem_reads(stack->memory);
	stack->counts.read_bytes = pymem_pages(stack->memory) * PYMEM_PAGE_BYTES;
	return &stack->counts;
}

/* One try. -EAGAIN: the thread ran. */
static int pystack_try(struct pystack *stack, const struct pystack_thread *thread, pystack_also also, void *arg,
	struct pystack_stack *ret, enum pystack_refusal *ret_why)
{
	int r, proof = stack->pid ? still_begin(&stack->still, stack->pid, thread->tid) : 0;

	*ret_why = proof == -EPERM ? PYSTACK_NOT_HERE : PYSTACK_RUNNING;
	if (proof < 0)
		return proof == -EPERM ? -ENOTSUP : proof;
	stack->counts.tries++;
	ret->thread_state = stack->still.state;
	pymem_forget(stack->memory);
	r = also ? also(arg, thread->tid) : 0;
	if (r == 0)
		r = pyframes_read(stack, thread, ret, ret_why);
	/* What was read while it ran says nothing, errors included. */
	proof = stack->pid ? still_check(&stack->still) : 0;
	return proof < 0 ? proof : r;
}

int pystack_read(struct pystack *stack, const struct pystack_thread *thread, pystack_also also, void *arg,
	struct pystack_stack *ret, enum pystack_refusal *ret_why)
{
	uint64_t started_ns = monotonic_ns();
	unsigned tries = 0, unsettled = 0;
	int r = -EAGAIN;

	*ret_why = PYSTACK_THREAD_GONE;
	if (stack->pid && !thread->tid)
		r = -ENOTSUP;
	while (r == -EAGAIN && tries < TRIES_MAX &&
		(tries < TRIES_MIN || monotonic_ns() - started_ns < TRIES_TIME_NS)) {
		tries++;
		r = pystack_try(stack, thread, also, arg, ret, ret_why);
		if (r == -ENOTSUP && stack->pid && pystack_unsettled(*ret_why) && unsettled++ < UNSETTLED_MAX) {
			usleep(UNSETTLED_PAUSE_US);
			r = -EAGAIN;
		}
	}
	/* What the caller does next does not belong on the thread's CPU. */
	still_close(&stack->still);
	ret->tries = tries;
	if (r == -EAGAIN) {
		*ret_why = PYSTACK_RUNNING;
		r = -ENOTSUP;
	}
	if (r == 0)
		stack->counts.stacks++;
	else if (r == -ENOTSUP)
		stack->counts.refused[*ret_why]++;
	return r;
}
