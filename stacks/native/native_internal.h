/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by maps.c (mappings and files), threads.c, wait.c (system calls), unwind.c and symbols.c. */
#ifndef RANKTRACE_STACKS_NATIVE_INTERNAL_H
#define RANKTRACE_STACKS_NATIVE_INTERNAL_H

#include <elfutils/libdwfl.h>
#include <gelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/util.h"
#include "stacks/native/native.h"

/* A file that is mapped, once per place. */
struct native_module {
	uint64_t start, end; /* from the mapping of its first byte to the end of its last */
	uint64_t device, inode;
	char *path; /* as in maps; printable copy in `shown` */
	char *shown;
	Elf *elf; /* NULL: not opened, or refused */
	int fd;
	bool tried, vdso;
	char reason[NATIVE_REASON_BYTES]; /* why it is refused */
	Dwfl_Module *reported;
	struct native_process *process;
	void *image; /* of the vdso */
};

/* An executable mapping. */
struct native_map {
	uint64_t start, end, offset;
	uint32_t module;
};

#define NATIVE_CHUNK_BYTES 16384u /* a stack is read in such pieces */
#define NATIVE_CHUNKS 64u	  /* of a thread: 1 MiB */

struct native_chunk {
	uint64_t address; /* 0: free */
	size_t size_bytes;
	uint8_t data[NATIVE_CHUNK_BYTES];
};

struct native_process {
	pid_t pid;
	char root[96]; /* of procfs */
	struct native_module *module;
	size_t modules;
	struct native_map *map; /* by address */
	size_t maps;
	uint64_t probe_start, probe_end; /* where the kernel sends the returns that a return probe watches */
	struct native_thread *thread;
	size_t threads;
	Dwfl *dwfl;
	Elf *self; /* of this program: says which architecture */
	int self_fd;
	struct native_thread *unwinding; /* now */
	struct native_chunk *chunk;	 /* NATIVE_CHUNKS, of the thread */
	size_t chunks;
};

/* maps.c */
int native_maps_read(struct native_process *process);
/* NULL where no executable mapping of a file holds it. */
const struct native_map *native_map_of(const struct native_process *process, uint64_t address);
/* Opens the file that is mapped; false with module->reason where it cannot be had. */
bool native_module_open(struct native_process *process, struct native_module *module);
/* The file's own address of an offset in it; false where no segment has it. */
bool native_module_address(const struct native_module *module, uint64_t offset, uint64_t *ret);
/* /proc/PID/NAME: reads at most size - 1 bytes and terminates them. */
ssize_t native_read_proc(const struct native_process *process, const char *name, char *ret, size_t size);
void native_printable(char *text);

/* unwind.c: drops frames and reason. */
void native_thread_clear(struct native_thread *thread);

/* wait.c: fills thread->wait from number and args. */
void native_wait_write(const struct native_process *process, struct native_thread *thread);

#endif
