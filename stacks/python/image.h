/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mapped file that holds an interpreter: libpython, or a program linked with it. Its symbols are read from memory
 * (.dynsym, which an interpreter has for its extension modules), so that a file replaced or deleted since does not
 * matter.
 */
#ifndef RANKTRACE_STACKS_PYTHON_IMAGE_H
#define RANKTRACE_STACKS_PYTHON_IMAGE_H

#include "stacks/python/memory.h"
#include "stacks/python/pystack.h"

/* Where the thread pointer leads to: x86-64: the begin of glibc's struct pthread; aarch64: its end (THREAD_SELF in
 * tls.h of each). */
#if defined(__x86_64__)
#define PYIMAGE_POINTS_AT_END false
#else
#define PYIMAGE_POINTS_AT_END true
#endif

struct pyimage {
	uint64_t base;	  /* load address */
	uint64_t runtime; /* addresses: _PyRuntime */
	uint64_t code_type, frame_type, text_type, bytes_type;
	uint64_t version; /* PY_VERSION_HEX; 0 before 3.11 */
	unsigned major, minor, micro;
	char path[512];
};

/*
 * Searches /proc/PID/maps below `root`. -ENOTSUP: *ret_why says why. -ESRCH, -EPERM: of the process.
 */
int pyimage_find(struct pymem *memory, const char *root, pid_t pid, struct pyimage *ret, enum pystack_refusal *ret_why);
/*
 * Size of struct pthread in the process's C library, which states it for debuggers from glibc 2.34 on. -ENOENT: this
 * one does not. Other errors as above.
 */
int pyimage_pthread_bytes(struct pymem *memory, const char *root, pid_t pid, uint32_t *ret);
/* The file mapped at `base`. -ENOENT: it has no interpreter. */
int pyimage_read(
	struct pymem *memory, uint64_t base, const char *path, struct pyimage *ret, enum pystack_refusal *ret_why);

#endif
