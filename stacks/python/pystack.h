/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks of CPython 3.8 to 3.14 in another process, which is neither stopped nor asked.
 *
 *	pystack_open()      finds the interpreter, its version and layout; all is verified against its memory
 *	pystack_threads()   the thread states of all interpreters, with kernel thread ids
 *	pystack_read()      the frames of one of them at one moment, or a counted refusal; never a wrong stack
 *
 * A stack is read while its thread is off the CPU, which still.h proves. Each frame is checked: its code must be a code
 * object, its instruction one of that code, its names strings. What is not so is refused.
 *
 * Layout: _Py_DebugOffsets from 3.13, else versions.def, compared with the interpreter's own member tables before use.
 * Free-threaded builds are refused.
 *
 * The process is not trusted: memory may change, hold anything, or be unmapped. Reads, chains and texts are bounded.
 * Texts are valid UTF-8 but may hold control bytes. Nothing here logs. Functions return 0 or a negative errno;
 * -ENOTSUP comes with a reason (enum pystack_refusal).
 *
 * A handle belongs to one thread. Texts belong to the handle, until pystack_close().
 */
#ifndef RANKTRACE_STACKS_PYTHON_PYSTACK_H
#define RANKTRACE_STACKS_PYTHON_PYSTACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "bpf/profile.h"

#define PYSTACK_FRAMES_MAX 1024u  /* default of recursion is 1000 */
#define PYSTACK_THREADS_MAX 4096u /* thread states of a process */

/* Why there is no stack. Rows: identifier, word, sentence. */
enum pystack_refusal {
#define PYSTACK_REFUSAL(id, word, sentence) PYSTACK_##id,
#include "stacks/python/refusals.def"
#undef PYSTACK_REFUSAL
	PYSTACK_REFUSAL_MAX,
};

struct pystack; /* a process */

struct pystack_version {
	unsigned major, minor, micro; /* micro: 0 if unknown, before 3.11 */
	uint64_t runtime;	      /* address of _PyRuntime */
	uint64_t image;		      /* load address of the file with the interpreter */
	char path[512];		      /* of this file, as in /proc/PID/maps */
};

/* A thread state. */
struct pystack_thread {
	uint64_t state;	   /* address of the PyThreadState */
	uint64_t interp;   /* address of its interpreter */
	uint64_t pthread;  /* its pthread_t */
	int64_t interp_id; /* 0: main */
	/* In the caller's pid namespace. 0: unknown, or the thread has a state in the main interpreter, too; no
	 * stack. */
	pid_t tid;
	bool has_gil; /* at the moment of pystack_threads() */
};

struct pystack_frame {
	const char *function; /* qualified name from 3.11, before it the name */
	const char *file;
	uint32_t line;	      /* of the instruction; 0: it has none */
	uint32_t first_line;  /* of the function */
	uint64_t code;	      /* address of the code object */
	uint32_t instruction; /* offset in the code, in bytes */
	bool entry; /* the C function of the eval loop was called for this frame; not so for calls within Python */
};

/* `frames`: of the caller, `capacity` items, outermost first, innermost last. */
struct pystack_stack {
	struct pystack_frame *frames;
	size_t capacity;
	size_t count;	/* 0: the thread runs no Python code */
	size_t omitted; /* outer frames that did not fit */
	/* Calls of the eval loop inside the innermost frame, which run no Python code (yet, or any more). */
	unsigned inner_entries;
	bool has_gil;	   /* the thread holds the lock of its interpreter */
	char thread_state; /* of the kernel, as in /proc/PID/stat */
	unsigned tries;
};

/*
 * Called while the thread is proven to be off the CPU, before its frames are read; several times if tries are needed,
 * the last call is the one of the stack. Negative errno: ends the try and pystack_read().
 */
typedef int (*pystack_also)(void *arg, pid_t tid);

/* Since pystack_open(). */
struct pystack_counts {
	uint64_t stacks; /* read */
	uint64_t refused[PYSTACK_REFUSAL_MAX];
	uint64_t tries; /* of stacks, refused ones included */
	uint64_t reads; /* system calls that read memory */
	uint64_t read_bytes;
};

/*
 * -ENOTSUP: *ret_why says why. -ESRCH: no such process. -EPERM: may not read its memory. The caller closes.
 */
int pystack_open(pid_t pid, struct pystack **ret, enum pystack_refusal *ret_why);
void pystack_close(struct pystack *stack);

static inline void pystack_closep(struct pystack **stack)
{
	pystack_close(*stack);
}

const struct pystack_version *pystack_version(const struct pystack *stack);
const struct pystack_counts *pystack_counts(struct pystack *stack);
/* A word (for JSON) and a sentence. */
const char *pystack_refusal_word(enum pystack_refusal why);
const char *pystack_refusal_sentence(enum pystack_refusal why);

/*
 * All thread states, newest first in each interpreter; *ret_count at most `max`. -EAGAIN: the list changed in each of
 * several tries. -ESRCH: ended.
 */
int pystack_threads(struct pystack *stack, struct pystack_thread *threads, size_t max, size_t *ret_count);

/*
 * The frames of a thread. `also` may be NULL. -ENOTSUP: refused, *ret_why says why and it is counted. -ESRCH: the
 * thread ended.
 */
int pystack_read(struct pystack *stack, const struct pystack_thread *thread, pystack_also also, void *arg,
	struct pystack_stack *ret, enum pystack_refusal *ret_why);

/*
 * For a program in the kernel that walks frames itself (bpf/profile.bpf.c). The layout as offsets; -ENOTSUP: *ret_why.
 */
int pystack_probe_layout(const struct pystack *stack, struct rt_profile_python *ret, enum pystack_refusal *ret_why);
/* What names of a process's frames take beside the layout for a program in the kernel, once it has ended. */
struct pystack_image {
	uint32_t minor;
	uint32_t pad0;
	uint64_t text_type, bytes_type; /* addresses */
};

void pystack_image(const struct pystack *stack, struct pystack_image *ret);
/*
 * A process that has ended, with all memory but recorded code objects. -ENOTSUP: not a layout of this program's. What
 * is given may be anything.
 */
int pystack_open_recorded(
	const struct pystack_image *image, const struct rt_profile_python *python, struct pystack **ret);
/*
 * Code objects that it recorded: their frames are named by these, whatever the memory holds by now. The array is
 * sorted; it and the records outlive the handle. Records are hostile, but of their size.
 */
void pystack_codes(struct pystack *stack, const struct rt_profile_code_event **codes, size_t count);
/*
 * Names frames that it recorded, innermost first as it sends them. -ENOTSUP: a code object is not valid, or no longer
 * the one that was recorded. Memory is read once and kept: call pystack_forget() before.
 */
int pystack_name(struct pystack *stack, const struct rt_profile_frame *frames, size_t count, struct pystack_stack *ret,
	enum pystack_refusal *ret_why);
/* Are these still the code objects that were recorded? Their names are right if so after they were read. */
bool pystack_unchanged(struct pystack *stack, const struct rt_profile_frame *frames, size_t count);
void pystack_forget(struct pystack *stack);

#endif
