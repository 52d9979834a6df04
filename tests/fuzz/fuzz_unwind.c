/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An ELF file in the place of a library that a process has mapped: unwind tables, symbols and headers are its bytes.
 * The process is the fuzzer itself, its stack is real.
 */
#include <fcntl.h>
#include <sys/mman.h>

#include "stacks/native/native_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* So large that a real mapping's offsets are within. */
#define MAP_BYTES (16u << 20)

static struct native_process *process_of(uint8_t *image, size_t size, int fd)
{
	struct native_process *process = calloc(1, sizeof(*process));
	struct native_module *module;

	if (!process)
		return NULL;
	process->pid = getpid();
	snprintf(process->root, sizeof(process->root), "/proc");
	process->self_fd = -1;
	process->module = calloc(1, sizeof(*process->module));
	process->map = calloc(1, sizeof(*process->map));
	process->thread = calloc(1, sizeof(*process->thread));
	if (!process->module || !process->map || !process->thread)
		abort();
	module = &process->module[process->modules++];
	*module = (struct native_module){.start = 0x100000000,
		.end = 0x100000000 + MAP_BYTES,
		.path = strdup("/lib/x.so"),
		.shown = strdup("/lib/x.so"),
		.fd = fd,
		.tried = true};
	module->elf = elf_memory((char *)image, size);
	if (module->elf && elf_kind(module->elf) != ELF_K_ELF) {
		elf_end(module->elf);
		module->elf = NULL;
	}
	process->map[process->maps++] = (struct native_map){module->start, module->end, 0, 0};
	return process;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint64_t stack[64];
	struct native_process *process;
	struct native_thread *thread;
	uint8_t *image = malloc(size ? size : 1);
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	if (!image || fd < 0 || (size && write(fd, data, size) != (ssize_t)size))
		abort();
	memcpy(image, data, size);
	elf_version(EV_CURRENT);
	process = process_of(image, size, fd);
	if (!process)
		abort();
	process->self_fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	process->self = elf_begin(process->self_fd, ELF_C_READ, NULL);
	/* Return addresses within the file, wherever the tables expect one. */
	for (size_t i = 0; i < ARRAY_SIZE(stack); i++)
		stack[i] = process->module[0].start + (size ? data[i % size] * 16u : 0);
	thread = &process->thread[process->threads++];
	*thread = (struct native_thread){.thread_id = (uint32_t)getpid(),
		.blocked = true,
		.number = 0,
		.sp = (uint64_t)(uintptr_t)stack,
		.pc = process->module[0].start + 16};
	native_unwind(process, thread);
	/* It ran while it was read, so it has no frames: these are named all the same. */
	thread->frames = thread->frame ? 4 : 0;
	for (size_t i = 0; i < thread->frames; i++)
		thread->frame[i] = (struct native_frame){.pc = 1, .file_address = 16 + 64 * i, .module = 0};
	native_symbolize(process);
	native_close(process);
	free(image);
	return 0;
}
