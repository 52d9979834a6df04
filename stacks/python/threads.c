/* SPDX-License-Identifier: Apache-2.0 */
/* Interpreters, their thread states, and which kernel thread is which. */
#include <ctype.h>

#include "daemon/base/util.h"
#include "stacks/python/pystack_internal.h"

#define INTERPS_MAX 256u   /* interpreters of a process */
#define LIST_TRIES_MAX 16u /* while threads start and end */
#define STATUS_BYTES 8192u
#define PTHREAD_BYTES 1024u /* of struct pthread, that are searched for the thread's id */
#define PTHREAD_WORD 4u

/* A thread of the kernel: its id here and in its own pid namespace. */
struct pytask {
	pid_t tid, inner;
};

struct pytasks {
	struct pytask *task;
	size_t count, capacity;
};

/* What a thread state says of its thread. */
struct pystate {
	uint64_t interp, next, prev, pthread, native;
};

int pythreads_has_gil(struct pystack *stack, uint64_t interp, uint64_t state, bool *ret)
{
	const struct pylayout *layout = &stack->layout;
	uint64_t gil = stack->image.runtime + layout->runtime_gil, holder;
	int32_t locked;
	int r = 0;

	if (!layout->runtime_gil)
		r = pymem_u64(stack->memory, interp + layout->interp_gil, &gil);
	if (r == 0)
		r = pymem_read(stack->memory, gil + layout->gil_locked, &locked, sizeof(locked));
	if (r == 0)
		r = pymem_u64(stack->memory, gil + layout->gil_holder, &holder);
	if (r == 0)
		*ret = locked == 1 && holder == state;
	return r;
}

static int pythreads_state(struct pystack *stack, uint64_t at, struct pystate *ret)
{
	const struct pylayout *layout = &stack->layout;
	int r = pymem_u64(stack->memory, at + layout->thread_interp, &ret->interp);

	ret->native = 0;
	if (r == 0)
		r = pymem_u64(stack->memory, at + layout->thread_next, &ret->next);
	if (r == 0)
		r = pymem_u64(stack->memory, at + layout->thread_prev, &ret->prev);
	if (r == 0)
		r = pymem_u64(stack->memory, at + layout->thread_pthread, &ret->pthread);
	if (r == 0 && layout->thread_native)
		r = pymem_u64(stack->memory, at + layout->thread_native, &ret->native);
	return r;
}

/* The thread states of an interpreter. -EAGAIN: the list is not consistent. */
static int pythreads_of_interp(
	struct pystack *stack, uint64_t interp, struct pystack_thread *threads, size_t max, size_t *count)
{
	uint64_t at, previous = 0;
	int64_t id;
	int r = pymem_read(stack->memory, interp + stack->layout.interp_id, &id, sizeof(id));

	if (r == 0)
		r = pymem_u64(stack->memory, interp + stack->layout.interp_threads, &at);
	for (size_t i = 0; r == 0 && at && *count < max; i++) {
		struct pystack_thread thread = {.state = at, .interp = interp, .interp_id = id};
		struct pystate state;

		if (i == PYSTACK_THREADS_MAX)
			return -EAGAIN;
		r = pythreads_state(stack, at, &state);
		if (r < 0)
			break;
		if (state.interp != interp || state.prev != previous)
			return -EAGAIN;
		thread.pthread = state.pthread;
		thread.tid = state.native <= INT32_MAX ? (pid_t)state.native : 0;
		r = pythreads_has_gil(stack, interp, at, &thread.has_gil);
		threads[(*count)++] = thread;
		previous = at;
		at = state.next;
	}
	return r;
}

static int pythreads_list(struct pystack *stack, struct pystack_thread *threads, size_t max, size_t *ret_count)
{
	uint64_t interp;
	size_t count = 0;
	int r;

	pymem_forget(stack->memory);
	r = pymem_u64(stack->memory, stack->image.runtime + stack->layout.runtime_interps, &interp);
	for (size_t i = 0; r == 0 && interp; i++) {
		if (i == INTERPS_MAX)
			return -EAGAIN;
		r = pythreads_of_interp(stack, interp, threads, max, &count);
		if (r == 0)
			r = pymem_u64(stack->memory, interp + stack->layout.interp_next, &interp);
	}
	*ret_count = count;
	return r == -EFAULT || r == -ENOBUFS ? -EAGAIN : r;
}

/* Last number of NSpid in /proc/PID/task/TID/status: the id in the innermost namespace. */
static pid_t pytasks_inner(const struct pystack *stack, pid_t tid)
{
	_cleanup_fclose_ FILE *file = NULL;
	char path[128], text[STATUS_BYTES], *line, *end;
	size_t n;

	snprintf(path, sizeof(path), "%s/%d/task/%d/status", stack->still.root, stack->pid, tid);
	file = fopen(path, "re");
	if (!file)
		return 0;
	n = fread(text, 1, sizeof(text) - 1, file);
	text[n] = 0;
	line = strstr(text, "\nNSpid:");
	if (!line)
		return tid;
	end = line + 1 + strcspn(line + 1, "\n");
	*end = 0;
	while (end > line && isdigit((unsigned char)end[-1]))
		end--;
	return (pid_t)strtol(end, NULL, 10);
}

static int pytasks_read(const struct pystack *stack, struct pytasks *tasks)
{
	_cleanup_closedir_ DIR *folder = NULL;
	char path[128];
	struct dirent *entry;
	bool nested = pytasks_inner(stack, stack->pid) != stack->pid;

	snprintf(path, sizeof(path), "%s/%d/task", stack->still.root, stack->pid);
	folder = opendir(path);
	if (!folder)
		return errno == ENOENT ? -ESRCH : -errno;
	while ((entry = readdir(folder)) && tasks->count < tasks->capacity) {
		pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);

		if (tid > 0)
			tasks->task[tasks->count++] =
				(struct pytask){.tid = tid, .inner = nested ? pytasks_inner(stack, tid) : tid};
	}
	return 0;
}

/* The id here of the thread with this id in its namespace; 0: there is none. */
static pid_t pytasks_find(const struct pytasks *tasks, pid_t inner)
{
	for (size_t i = 0; inner > 0 && i < tasks->count; i++)
		if (tasks->task[i].inner == inner)
			return tasks->task[i].tid;
	return 0;
}

/* How many thread states have distinct threads if the id is at this offset of struct pthread. */
static size_t pythreads_matches(struct pystack *stack, const struct pytasks *tasks, struct pystack_thread *threads,
	size_t count, uint64_t offset)
{
	size_t matches = 0;

	for (size_t i = 0; i < count; i++) {
		int32_t inner = 0;
		bool twice = false;

		threads[i].tid = 0;
		if (pymem_read(stack->memory, threads[i].pthread + offset, &inner, sizeof(inner)) == 0)
			threads[i].tid = pytasks_find(tasks, inner);
		for (size_t k = 0; k < i && threads[i].tid; k++)
			twice = twice || threads[k].tid == threads[i].tid;
		matches += threads[i].tid && !twice;
	}
	return matches;
}

/*
 * Thread ids through pthread_t, where the thread state has none: the C library keeps the id in its own structure, at
 * the first offset where each thread state has another thread.
 */
static void pythreads_by_pthread(
	struct pystack *stack, const struct pytasks *tasks, struct pystack_thread *threads, size_t count)
{
	/* glibc on x86-64 and on arm64, else searched for. */
	const uint64_t known[] = {720, 208};
	uint64_t best = known[0];
	size_t most = 0;

	for (uint64_t i = 0; i < ARRAY_SIZE(known) + PTHREAD_BYTES / PTHREAD_WORD && most < count; i++) {
		uint64_t offset = i < ARRAY_SIZE(known) ? known[i] : (i - ARRAY_SIZE(known)) * PTHREAD_WORD;
		size_t matches = pythreads_matches(stack, tasks, threads, count, offset);

		if (matches > most) {
			most = matches;
			best = offset;
		}
	}
	(void)pythreads_matches(stack, tasks, threads, count, best);
}

/* Whether the thread is rather that of state `other`: of the main interpreter, or newer. */
static bool pythreads_yields(const struct pystack_thread *threads, size_t i, size_t other)
{
	bool main = threads[i].interp_id == 0, other_main = threads[other].interp_id == 0;

	return threads[other].tid == threads[i].tid && (main == other_main ? other < i : other_main);
}

/*
 * One state a thread. A subinterpreter's state is known by the thread that made it, which may be another than the one
 * that runs it.
 */
static void pythreads_once(struct pystack_thread *threads, size_t count)
{
	for (size_t i = count; i-- > 0;)
		for (size_t other = 0; other < count && threads[i].tid; other++)
			if (other != i && pythreads_yields(threads, i, other))
				threads[i].tid = 0;
}

/* Makes ids of the process's namespace ours. */
static int pythreads_ids(struct pystack *stack, struct pystack_thread *threads, size_t count)
{
	_cleanup_free_ struct pytask *task = calloc(PYSTACK_THREADS_MAX, sizeof(*task));
	struct pytasks tasks = {.task = task, .capacity = PYSTACK_THREADS_MAX};
	size_t known = 0;
	int r;

	if (!task)
		return -ENOMEM;
	r = pytasks_read(stack, &tasks);
	if (r < 0)
		return r;
	for (size_t i = 0; i < count; i++) {
		threads[i].tid = pytasks_find(&tasks, threads[i].tid);
		known += threads[i].tid != 0;
	}
	/* Before 3.11 none is known. */
	if (known < count)
		pythreads_by_pthread(stack, &tasks, threads, count);
	pythreads_once(threads, count);
	return 0;
}

int pystack_threads(struct pystack *stack, struct pystack_thread *threads, size_t max, size_t *ret_count)
{
	int r = -EAGAIN;

	if (max > PYSTACK_THREADS_MAX)
		max = PYSTACK_THREADS_MAX;
	for (unsigned i = 0; i < LIST_TRIES_MAX && r == -EAGAIN; i++)
		r = pythreads_list(stack, threads, max, ret_count);
	if (r == 0 && stack->pid)
		r = pythreads_ids(stack, threads, *ret_count);
	return r;
}
