/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Payload of the profile collector: a sample of a thread of a profiled process, and each distinct stack once.
 *
 * A stack holds numbers only: addresses of native code, and of Python frames the code object, the instruction and a
 * print of the code object's contents. The worker `stack` makes names of them: from the record of the code object,
 * which is a copy of what the names take, and without one from the memory of the process. A code object there whose
 * print is another by then was freed and its memory reused, and the stack is refused.
 */
#ifndef RANKTRACE_PROFILE_H
#define RANKTRACE_PROFILE_H

#include "bpf/event.h"

#define RT_PROFILE_FRAMES_MAX 64 /* Python frames recorded, innermost first; a power of two */
#define RT_PROFILE_NATIVE_MAX 32 /* native frames */
#define RT_PROFILE_KERNEL_MAX 10 /* functions of the kernel: those of the scheduler, and some further out */
#define RT_PROFILE_KERNEL_BYTES 32

/* Bits of rt_event.flags of a sample. */
#define RT_PROFILE_OFF_CPU 1u /* an interval in which the thread waited; without it: a sample on a CPU */
#define RT_PROFILE_REFUSED 2u /* no stack: its frames are not valid */
#define RT_PROFILE_LIMITED 4u /* no stack: it did not fit the ring */

struct rt_profile_sample_event {
	struct rt_event event; /* kind RT_KIND_SAMPLE; pid and thread_id are the sampled thread */
	uint64_t start_ns;     /* when it was sampled, or left the CPU */
	uint64_t duration_ns;  /* time off the CPU; 0 on it */
	uint64_t weight_ns;    /* period of sampling or time off the CPU, times the samples that it stands for */
	uint64_t stack;	       /* rt_profile_stack_event.stack; 0: none */
	char thread_name[RT_COMM_SIZE];
};

/* Bits of rt_profile_frame.flags. */
#define RT_PROFILE_ENTRY 1u    /* the eval loop was called for this frame */
#define RT_PROFILE_COMPLETE 2u /* the function has begun, whatever the instruction */

struct rt_profile_frame {
	uint64_t code;	      /* address of the code object */
	uint64_t instruction; /* as the frame holds it: an address, or a number in the low 32 bits */
	uint32_t print;	      /* rt_profile_print() of the code object */
	uint32_t flags;
};

/* Bits of rt_profile_stack_event.state. */
#define RT_PROFILE_CUT 1u /* outer Python frames are missing */

struct rt_profile_stack_event {
	struct rt_event event; /* kind RT_KIND_STACK; size_bytes ends after the last frame */
	uint64_t stack;	       /* hash of what follows; never 0 */
	uint16_t state;
	uint16_t frames; /* of Python, innermost first */
	uint16_t natives;
	uint16_t pad0;
	/* In which it waits, innermost first, as texts: addresses do not leave the kernel. "": none, or unknown. */
	char kernel[RT_PROFILE_KERNEL_MAX][RT_PROFILE_KERNEL_BYTES];
	uint64_t
		native[RT_PROFILE_NATIVE_MAX]; /* innermost first: the place, then return addresses by frame pointers */
	struct rt_profile_frame frame[RT_PROFILE_FRAMES_MAX]; /* last: of it as much as is used is sent */
};

#define RT_PROFILE_CODE_BYTES 256 /* read of a code object; a power of two */
#define RT_PROFILE_CODE_OBJECTS 5

/*
 * A code object and what its names and lines take, as the process's memory held them when a thread ran it: once for
 * each, in front of the first stack with it. None is sent of one that does not fit; of a thread that ends, one without
 * its lines, of which the head is there, RT_PROFILE_BYTES_AT bytes.
 */
struct rt_profile_code_event {
	struct rt_event event; /* kind RT_KIND_CODE; size_bytes ends after the table of lines */
	/* Of the objects that follow, in their order: where they were, and how much of each there is. */
	uint64_t address[RT_PROFILE_CODE_OBJECTS]; /* the first is that of the code object; 0: not in this version */
	uint32_t bytes[RT_PROFILE_CODE_OBJECTS];
	uint32_t print; /* rt_profile_print() */
	uint8_t object[RT_PROFILE_CODE_BYTES];
	uint8_t instructions[32]; /* head, before CPython 3.11 */
	uint8_t name[256], file[512];
	uint8_t lines
		[8192]; /* a module of 800 lines has as much; last: of it as much as is used is sent, a multiple of 8 */
};

/*
 * Where a process's CPython keeps what is read: addresses, and offsets in bytes. From the worker, which compared them
 * with the interpreter's own memory; checked by the daemon. Offsets of words are multiples of 8.
 */
#define RT_PROFILE_THREAD_BYTES 256 /* read of a thread state; a power of two, as the next */
#define RT_PROFILE_FRAME_BYTES 128

struct rt_profile_python {
	uint64_t interps;   /* address of the pointer to the first interpreter; 0: no Python */
	uint64_t code_type; /* address of the type of code objects */
	uint32_t interp_next, interp_threads;
	uint32_t thread_bytes; /* read of a thread state, up to the end of its last field */
	uint32_t thread_prev, thread_next, thread_interp, thread_pthread, thread_frame;
	uint32_t cframe; /* 1: thread_frame leads to a record of the running call of the eval loop */
	uint32_t cframe_frame, cframe_previous;
	uint32_t frame_bytes;
	uint32_t frame_previous, frame_code, frame_instruction;
	uint32_t frame_owner, frame_entry; /* 0: not in this version */
	uint32_t code_bytes;
	uint32_t code_name, code_file, code_lines, code_first_line;
	uint32_t has_complete;	    /* 1: a frame counts from its first traceable instruction on, but for generators */
	uint32_t code_instructions; /* 0: they follow the code object's fields */
	uint32_t text_head;	    /* of a str that is not ASCII; its characters follow */
	uint32_t code_adaptive; /* of a code object, where its instructions begin; 0: rt_profile_frame has numbers */
	uint32_t unit_bytes;	/* of such a number */
	uint32_t pthread_below; /* from the thread pointer down to what pthread_self() returns */
};

#define RT_PROFILE_TYPE_AT 8	 /* of an object */
#define RT_PROFILE_SIZE_AT 16	 /* of a bytes, or characters of a str */
#define RT_PROFILE_BYTES_AT 32	 /* of a bytes */
#define RT_PROFILE_STATE_AT 32	 /* of a str: bits 2 to 4 are the bytes of a character */
#define RT_PROFILE_HASH_AT 24	 /* of a str: hash of its characters */
#define RT_PROFILE_TAG_MASK 7ULL /* of references from CPython 3.14 on */
/* Of a traceback, as all versions have it, and of a frame object from CPython 3.11 on, whose frame is elsewhere. */
#define RT_PROFILE_TRACEBACK_NEXT_AT 16
#define RT_PROFILE_TRACEBACK_FRAME_AT 24
#define RT_PROFILE_TRACEBACK_OFFSET_AT 32 /* of the instruction, in bytes, 32 bits */
#define RT_PROFILE_FRAME_OBJECT_AT 24
#define RT_PROFILE_OWNER_GENERATOR 1
#define RT_PROFILE_OWNER_SHIM 3 /* and above: the frame runs no Python code, from 3.12 on */

/* Value of the map `profiled`, by process. */
struct rt_profile_process {
	uint64_t period_ns;
	uint32_t threads_max; /* followed */
	uint32_t threads;
	uint64_t cpu_ppm, waits_ppm; /* of a thread's time, for its samples on a CPU and for those off it */
	uint64_t seen,
		read; /* samples and waits; those whose stack was read: less where the cost has no place in the budget */
	uint64_t samples, refused, lost; /* lost: ring full, or beyond a limit */
	uint64_t took_ns;		 /* of its threads' time */
	struct rt_profile_python python;
};

/* Mixes a word into a hash: the multiplier is 2^64 divided by the golden ratio. */
static inline __attribute__((always_inline)) uint64_t rt_profile_mix(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;
	return hash ^ hash >> 29;
}

/* What distinguishes a code object from another one in the same memory: where its texts are, and the hash of its
 * name. */
static inline __attribute__((always_inline)) uint32_t rt_profile_print(
	uint64_t name, uint64_t name_hash, uint64_t file, uint64_t lines, uint32_t first_line)
{
	uint64_t hash = rt_profile_mix(first_line, name);

	hash = rt_profile_mix(hash, name_hash);
	hash = rt_profile_mix(hash, file);
	return (uint32_t)(rt_profile_mix(hash, lines) >> 32);
}

#endif
