/* SPDX-License-Identifier: Apache-2.0 */
/* The threads of a process: names, states, system calls. */
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>

#include "stacks/native/native_internal.h"

#define THREADS_STATUS_BYTES 4096u

static int threads_self(struct native_process *process)
{
	process->self_fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	if (process->self_fd < 0)
		return -errno;
	process->self = elf_begin(process->self_fd, ELF_C_READ, NULL);
	return process->self ? 0 : -ENOEXEC;
}

/* Programs of other architectures have other registers. */
static int threads_machine(const struct native_process *process)
{
	GElf_Ehdr ours, its = {0};
	char start[EI_NIDENT + 4];
	ssize_t n = native_read_proc(process, "exe", start, sizeof(start));

	if (n < 0)
		return (int)n;
	if (!gelf_getehdr(process->self, &ours))
		return -ENOEXEC;
	memcpy(its.e_ident, start, EI_NIDENT);
	if (n < EI_NIDENT || memcmp(start, ELFMAG, SELFMAG) != 0 || its.e_ident[EI_CLASS] != ours.e_ident[EI_CLASS])
		return -ENOEXEC;
	return 0;
}

int native_open(const char *root, pid_t pid, struct native_process **ret)
{
	struct native_process *process = calloc(1, sizeof(*process));
	int r;

	if (!process)
		return -ENOMEM;
	elf_version(EV_CURRENT);
	process->pid = pid;
	process->self_fd = -1;
	snprintf(process->root, sizeof(process->root), "%s", root);
	r = threads_self(process);
	if (r == 0)
		r = threads_machine(process);
	if (r == 0)
		r = native_maps_read(process);
	if (r < 0) {
		native_close(process);
		return r;
	}
	*ret = process;
	return 0;
}

struct native_process *native_close(struct native_process *process)
{
	if (!process)
		return NULL;
	if (process->dwfl)
		dwfl_end(process->dwfl);
	for (size_t i = 0; i < process->modules; i++) {
		struct native_module *module = &process->module[i];

		elf_end(module->elf);
		if (module->fd >= 0)
			close(module->fd);
		free(module->image);
		free(module->path);
		free(module->shown);
	}
	for (size_t i = 0; i < process->threads; i++) {
		for (size_t j = 0; j < process->thread[i].frames; j++)
			free(process->thread[i].frame[j].function);
		free(process->thread[i].frame);
	}
	elf_end(process->self);
	if (process->self_fd >= 0)
		close(process->self_fd);
	free(process->thread);
	free(process->module);
	free(process->map);
	free(process->chunk);
	free(process);
	return NULL;
}

static ssize_t threads_read(
	const struct native_process *process, uint32_t thread_id, const char *name, char *ret, size_t size)
{
	char path[64];
	ssize_t n;

	snprintf(path, sizeof(path), "task/%u/%s", thread_id, name);
	n = native_read_proc(process, path, ret, size);
	if (n >= 0)
		ret[strcspn(ret, "\n")] = 0;
	return n;
}

/* Sum of voluntary and other switches: it grows whenever the thread has run. */
static bool threads_switches(const struct native_process *process, uint32_t thread_id, uint64_t *ret)
{
	char path[64], text[THREADS_STATUS_BYTES], *voluntary, *other;

	snprintf(path, sizeof(path), "task/%u/status", thread_id);
	if (native_read_proc(process, path, text, sizeof(text)) < 0)
		return false;
	voluntary = strstr(text, "\nvoluntary_ctxt_switches:");
	other = strstr(text, "\nnonvoluntary_ctxt_switches:");
	if (!voluntary || !other)
		return false;
	*ret = strtoull(strchr(voluntary, ':') + 1, NULL, 10) + strtoull(strchr(other, ':') + 1, NULL, 10);
	return true;
}

/* "number args... sp pc", "-1 sp pc" where it is blocked outside a system call, "running". */
static bool threads_syscall(struct native_thread *thread, const char *text)
{
	uint64_t *a = thread->args;

	if (sscanf(text,
		    "%ld %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64,
		    &thread->number, &a[0], &a[1], &a[2], &a[3], &a[4], &a[5], &thread->sp, &thread->pc) == 9)
		return thread->number >= 0;
	thread->number = -1;
	return sscanf(text, "-1 %" SCNx64 " %" SCNx64, &thread->sp, &thread->pc) == 2;
}

static char threads_state(const char *stat)
{
	const char *end = strrchr(stat, ')');

	return end && end[1] == ' ' ? end[2] : '?';
}

static bool threads_fill(const struct native_process *process, struct native_thread *thread)
{
	char text[512];
	ssize_t n;

	if (threads_read(process, thread->thread_id, "comm", text, sizeof(text)) < 0)
		return false;
	snprintf(thread->name, sizeof(thread->name), "%.16s", text);
	native_printable(thread->name);
	n = threads_read(process, thread->thread_id, "syscall", text, sizeof(text));
	thread->blocked = n > 0 && threads_syscall(thread, text);
	/* After the registers: a thread that is about to sleep runs still, and counts one more. */
	if (threads_read(process, thread->thread_id, "stat", text, sizeof(text)) < 0)
		return false;
	thread->state = threads_state(text);
	if (!threads_switches(process, thread->thread_id, &thread->switches))
		return false;
	if (n == -EPERM || n == -EACCES)
		snprintf(thread->reason, sizeof(thread->reason), "the kernel refuses its registers: %s",
			strerror((int)-n));
	else if (!thread->blocked)
		snprintf(thread->reason, sizeof(thread->reason), "running: its registers cannot be read");
	if (!thread->blocked)
		return true;
	if (threads_read(process, thread->thread_id, "wchan", text, sizeof(text)) > 0 && !streq(text, "0"))
		snprintf(thread->kernel, sizeof(thread->kernel), "%.40s", text);
	native_printable(thread->kernel);
	native_wait_write(process, thread);
	return true;
}

void native_thread_refresh(struct native_process *process, struct native_thread *thread)
{
	native_thread_clear(thread);
	thread->blocked = false;
	thread->kernel[0] = 0;
	thread->wait[0] = 0;
	if (!threads_fill(process, thread))
		thread->state = 'X';
}

bool native_thread_same(struct native_process *process, const struct native_thread *thread)
{
	struct native_thread now = {.thread_id = thread->thread_id};
	char text[256];

	if (!threads_switches(process, thread->thread_id, &now.switches) || now.switches != thread->switches)
		return false;
	now.blocked = threads_read(process, thread->thread_id, "syscall", text, sizeof(text)) > 0 &&
		      threads_syscall(&now, text);
	return now.blocked == thread->blocked && now.sp == thread->sp && now.pc == thread->pc &&
	       now.number == thread->number && memcmp(now.args, thread->args, sizeof(now.args)) == 0;
}

static int threads_order(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* The main thread's id is the process's and, but for a process that ran out of pids, the lowest. */
static size_t threads_list(const struct native_process *process, uint32_t ids[NATIVE_THREADS_MAX], size_t *ret_left_out)
{
	_cleanup_closedir_ DIR *folder = NULL;
	struct dirent *entry;
	size_t count = 0;
	char path[160];

	snprintf(path, sizeof(path), "%s/%d/task", process->root, (int)process->pid);
	folder = opendir(path);
	while (folder && (entry = readdir(folder))) {
		uint32_t id = (uint32_t)strtoul(entry->d_name, NULL, 10);

		if (!id)
			continue;
		if (count == NATIVE_THREADS_MAX)
			++*ret_left_out;
		else
			ids[count++] = id;
	}
	qsort(ids, count, sizeof(*ids), threads_order);
	for (size_t i = 1; i < count; i++)
		if (ids[i] == (uint32_t)process->pid) {
			memmove(ids + 1, ids, i * sizeof(*ids));
			ids[0] = (uint32_t)process->pid;
		}
	return count;
}

int native_threads(struct native_process *process, struct native_thread **ret, size_t *ret_count, size_t *ret_left_out)
{
	uint32_t ids[NATIVE_THREADS_MAX];
	size_t left_out = 0, count = threads_list(process, ids, &left_out);

	if (!count)
		return -ESRCH;
	process->thread = calloc(count, sizeof(*process->thread));
	if (!process->thread)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		struct native_thread *thread = &process->thread[process->threads];

		*thread = (struct native_thread){.thread_id = ids[i]};
		process->threads += threads_fill(process, thread);
	}
	*ret = process->thread;
	*ret_count = process->threads;
	*ret_left_out = left_out;
	return 0;
}
