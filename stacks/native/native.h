/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads of another process, from outside: state, what they wait for in the kernel, and the native stack of a thread
 * that is blocked in a system call. Nothing is stopped, written or loaded there. For the worker `stack` alone, a
 * process with limits of its own: it reads files and memory that the process controls.
 *
 * Registers of a blocked thread are those of /proc/PID/task/TID/syscall: stack pointer and place. Frames are found with
 * the unwind tables (.eh_frame) of the files that are mapped, by libdw; where a table is missing, or an address lies in
 * no executable mapping, the stack ends there and `reason` says so. A frame is never guessed. Of the registers only
 * stack pointer and place are known: where a function and all that it calls are built with frame pointers, as in some
 * distributions, its callers are not found. A thread that ran while it was read is read again, at most NATIVE_TRIES
 * times, and then has no frames.
 *
 * Only /proc/PID of the procfs at `root` is read, at most NATIVE_THREADS_MAX threads, NATIVE_MAPS_MAX mappings,
 * NATIVE_FRAMES_MAX frames a thread. Functions return 0 or a negative errno.
 */
#ifndef RANKTRACE_STACKS_NATIVE_NATIVE_H
#define RANKTRACE_STACKS_NATIVE_NATIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define NATIVE_THREADS_MAX 512u /* a rank of PyTorch on a node of 192 CPUs has about 400 */
#define NATIVE_FRAMES_MAX 128u
#define NATIVE_MAPS_MAX 65536u /* vm.max_map_count is 65530 unless raised */
#define NATIVE_TRIES 3u
#define NATIVE_WAIT_BYTES 160u
#define NATIVE_REASON_BYTES 128u

struct native_frame {
	uint64_t pc;
	uint64_t file_address; /* of the instruction, in the file's own addresses */
	int32_t module;	       /* number of its file in the process; -1: none */
	int32_t cfa_offset;    /* size of the frame at this place; -1: not a multiple of the stack pointer */
	char *function;	       /* demangled; NULL: no symbol covers the address. Owned by the process */
};

struct native_thread {
	uint32_t thread_id;
	char name[20]; /* printable */
	char state;    /* of /proc: R, S, D, T, t, Z */
	bool blocked;  /* in a system call: what follows is known */
	long number;   /* of the system call; -1: blocked outside one, as on a page fault */
	uint64_t args[6], sp, pc;
	uint64_t switches;		  /* times it left a CPU so far */
	char kernel[48];		  /* function of the kernel in which it waits; "" where the kernel hides it */
	char wait[NATIVE_WAIT_BYTES];	  /* the system call and what it waits for: "read 5 (pipe:[123])" */
	size_t frames;			  /* innermost first */
	struct native_frame *frame;	  /* NATIVE_FRAMES_MAX, NULL without frames; owned by the process */
	char reason[NATIVE_REASON_BYTES]; /* why the stack has no frames or ends early; "" where it is whole */
};

struct native_process;

/* -ESRCH: gone. -EACCES, -EPERM: not ours to read. -ENOEXEC: not of this machine's architecture. */
int native_open(const char *root, pid_t pid, struct native_process **ret);
struct native_process *native_close(struct native_process *process);

/*
 * Reads its threads, the main one first; state, name and wait only. They belong to the process. *ret_left_out: beyond
 * NATIVE_THREADS_MAX.
 */
int native_threads(struct native_process *process, struct native_thread **ret, size_t *ret_count, size_t *ret_left_out);
/* Reads state, name and wait again; its frames are gone. */
void native_thread_refresh(struct native_process *process, struct native_thread *thread);
/* The thread has not run since it was read. */
bool native_thread_same(struct native_process *process, const struct native_thread *thread);
/* Finds the frames of a blocked thread; sets reason. */
void native_unwind(struct native_process *process, struct native_thread *thread);
/* Names the functions of all frames found so far: one pass over the symbols of each file. */
void native_symbolize(struct native_process *process);

/*
 * Stacks that a program in the kernel recorded by frame pointers, in place of native_threads(): `count` threads without
 * name or state. They belong to the process.
 */
int native_stacks(struct native_process *process, size_t count, struct native_thread **ret);
/*
 * Frames of such a stack: the place of the thread, and return addresses as far as the unwind tables say that the
 * function before keeps the frame pointer where it was looked for. A frame is never guessed; `reason` says where it
 * ends.
 */
void native_prove(struct native_process *process, struct native_thread *thread, const uint64_t *pc, size_t count);

/* Path of a frame's file as the process sees it, printable; "" where it has none. */
const char *native_module_path(const struct native_process *process, int32_t module);
/* Number of the mapped file of that path; -1: none. */
int32_t native_module_of(const struct native_process *process, const char *path);
/* Reads the process's memory: bytes read, or negative errno. */
ssize_t native_memory(const struct native_process *process, uint64_t address, void *ret, size_t size_bytes);

#endif
