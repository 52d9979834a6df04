/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Payload and specification of the call engine: one BPF program pair for all probed functions.
 *
 * A specification is a row of a probe table with its symbol resolved: which arguments to keep, how to read them, and
 * what an entry or a return means. It is in the array map `specs`, at the number in the probe's cookie. Reads of user
 * memory are bounded: RT_CALL_ARGS_MAX words and one text of RT_CALL_TEXT_MAX bytes.
 */
#ifndef RANKTRACE_CALL_H
#define RANKTRACE_CALL_H

#include "bpf/event.h"

#define RT_CALL_ARGS_MAX 8
#define RT_CALL_HOPS_MAX 2   /* pointers followed to an argument */
#define RT_CALL_HASH_MAX 128 /* bytes hashed */
#define RT_CALL_TEXT_MAX 96
#define RT_CALL_SPECS_MAX 1024

/* Meaning of a probe's hit. */
enum rt_edge {
	RT_EDGE_CALL = 0,  /* entry and return make one record, sent at the return */
	RT_EDGE_ENTRY = 1, /* the entry alone is a record; no return probe */
	RT_EDGE_BEGIN = 2, /* begins a stage that another probe of the stage ends */
	RT_EDGE_END = 3,   /* ends the last BEGIN of the stage on this thread */
	RT_EDGE_SPAN = 4,  /* entry is sent as BEGIN, return as END: visible while it runs */
	RT_EDGE_MARK = 5,  /* PyTorch's operator call: BEGIN for (name, args), END for (record handle), else nothing */
	RT_EDGE_STASH = 6, /* keeps its text for the next BEGIN of this thread that has none; no record */
	RT_EDGE_OPEN = 7,  /* opens a group of calls on this thread; groups nest; no record */
	/*
	 * closes it; the return of the outermost close sends a record if the group has calls: start_ns is the opening,
	 * arg[0] the number of calls, arg[1] the entry of this close
	 */
	RT_EDGE_CLOSE = 8,
	/* An allocator's report of a block, and of a request that it could not serve: memory.bpf.c reads them. No
	 * record. */
	RT_EDGE_MEMORY = 9,
	RT_EDGE_MEMORY_FAILED = 10,
	RT_EDGE_EXCEPTION = 11, /* Python shows an exception that nobody caught: ends.bpf.c reads it. No record. */
	RT_EDGE_MAX
};

/*
 * What to read, given the location of an argument. Table rows number registers from 1 in the order of the C calling
 * convention; the loader maps them to slots of struct pt_regs (x86-64: r15 is 0, rsp 19; aarch64: x0 is 0, sp 31), or,
 * past the registers, to slots on the stack (RT_CALL_SLOT_*).
 */
enum rt_read {
	RT_READ_NONE = 0,
	RT_READ_REG, /* the register itself */
	/*
	 * size bytes at the end of the path: at register + offset[0], or with one hop at *(register + offset[0]) +
	 * offset[1], and so on
	 */
	RT_READ_DEREF,
	RT_READ_CSTRING,   /* text at the end of the path (no hop, offset 0: char * in the register) */
	RT_READ_STDSTRING, /* text: std::string * or std::string_view-like {char *, size_t} * in the register */
	RT_READ_PYSTRING,  /* text: PyObject * of a compact str in the register */
	RT_READ_PYTUPLE,   /* text: first item of the tuple at *(PyObject **)register, if it is such a str */
	RT_READ_FRAME,	   /* like RT_READ_REG, but reg is a pt_regs slot in the table too (USDT operands) */
	RT_READ_CONST,	   /* the constant in offset[0] (USDT operands, const) */
	/* read at the return: size bytes at the entry's register (out parameters); while in flight, that pointer */
	RT_READ_OUT,
	RT_READ_HASH,	/* 64-bit hash of size bytes at the register: 5381, then for each byte times 33, xor the byte,
			   which is a signed char if is_signed (NCCL's hash of its unique id before 2.26) */
	RT_READ_DIGEST, /* the same by words of 8 bytes, as NCCL does it from 2.26 on */
	RT_READ_MAX
};

/* Slots past those of struct pt_regs, relative to the stack pointer at the entry. */
#define RT_CALL_SLOT_STACK 64	   /* + N: word N of the stack arguments, from 0 */
#define RT_CALL_SLOT_STACK_BASE 96 /* address of the first: of a structure passed by value */
/* Number of RT_CALL_SLOT_STACK_BASE in a row, which numbers registers. */
#define RT_CALL_REG_STACK_BASE 255

struct rt_call_arg {
	uint8_t read;	    /* enum rt_read */
	uint8_t reg;	    /* argument register, from 1; in the kernel's map a slot */
	uint8_t size_bytes; /* 1, 2, 4 or 8; sign-extended if is_signed; of a hash up to RT_CALL_HASH_MAX */
	uint8_t is_signed : 1;
	uint8_t hops : 7;		      /* pointers to follow, up to RT_CALL_HOPS_MAX */
	int32_t offset[RT_CALL_HOPS_MAX + 1]; /* bytes */
};

#define RT_CALL_NEEDS_RETURN 1u /* a return probe is attached too */
#define RT_CALL_HAS_TEXT 2u	/* one of the readers yields text */
#define RT_CALL_TAKES_STASH 4u	/* the text is the thread's last stash */
#define RT_CALL_RETURN_PROBE 8u /* caught by a uretprobe: the return address is already off the stack */
#define RT_CALL_MEMBER 16u	/* counts as a member of the thread's open group */
#define RT_CALL_STEPPED 32u	/* the kernel does not emulate the instruction at the entry */
/* edge call: a call that returns 0 adds to the sums of copies.h; edge entry: each does; arg[0] are its bytes, arg[1]
 * its direction */
#define RT_CALL_SUMMED 128u
#define RT_CALL_ASYNC 256u
/* Edge call: no record within another such call of its thread; a runtime calls its driver */
#define RT_CALL_OUTERMOST 64u
#define RT_CALL_STACK 512u /* edge call: its stack is wanted, whatever it returns */

struct rt_call_spec {
	uint8_t edge;	    /* enum rt_edge */
	uint8_t args;	    /* number of arg[] in use */
	uint8_t symbol_reg; /* RT_EDGE_MARK: register with the c10::Symbol */
	uint8_t cost_level; /* enum rt_cost_level */
	uint32_t flags;	    /* RT_CALL_* */
	struct rt_call_arg arg[RT_CALL_ARGS_MAX];
};

/* event.flags of a call record: its edge and its content. */
#define RT_CALL_BEGIN 1u
#define RT_CALL_END 2u	      /* BEGIN | END together: a whole call */
#define RT_CALL_TEXT 4u	      /* text follows (struct rt_call_text_event) */
#define RT_CALL_TRUNCATED 8u  /* text was truncated */
#define RT_CALL_FAULT 16u     /* an unreadable argument: its word is 0 */
#define RT_CALL_RESULT 32u    /* result is valid, as requested by the spec */
#define RT_CALL_IN_GROUP 512u /* called within a group open on its thread */
/* Text in code points of 1, 2 or 4 bytes, CPython's form of non-ASCII text; 0: bytes of a C or C++ string. */
#define RT_CALL_UNIT_SHIFT 6
#define RT_CALL_UNIT_BYTES(flags) ((flags) >> RT_CALL_UNIT_SHIFT & 7u)

struct rt_call_event {
	struct rt_event event; /* kind RT_KIND_CALL; time_ns is the entry of a BEGIN, else the return */
	uint64_t start_ns;     /* entry */
	uint64_t arg[RT_CALL_ARGS_MAX];
	int64_t result;		/* return register */
	uint64_t stack_pointer; /* BEGIN and END at different depths: an exception left the function */
	uint32_t spec;
	uint32_t text_bytes;
};

struct rt_call_text_event {
	struct rt_call_event call;
	char text[RT_CALL_TEXT_MAX]; /* not terminated, text_bytes long */
};

/*
 * Calls in flight: the map `inflight`, which the daemon may read any time. A group's close is in it from its entry,
 * start_ns (arg[0]: members so far, arg[1]: opening of the group).
 */
struct rt_inflight_key {
	uint64_t pid_thread; /* tgid << 32 | thread */
	uint32_t spec;
	uint32_t pad0;
};

struct rt_inflight {
	uint64_t start_ns;
	uint64_t stack_pointer; /* at the entry: distinguishes stale calls (left by an exception) from nested ones */
	uint64_t arg[RT_CALL_ARGS_MAX];
	uint32_t flags;
	uint32_t pad0;
};

/* Calls whose start the memory collector's program has yet to read: it does at once, in the same hit. */
#define RT_STACK_CALLS_MAX 1024

struct rt_stack_call {
	uint64_t start_ns;
	uint64_t failed; /* 1: it returned an error */
};

/* Group open on a thread: the map `groups`, by tgid << 32 | thread. */
#define RT_GROUP_AGE_MAX_NS 60000000000ULL /* older groups missed their close */

struct rt_group {
	uint64_t start_ns; /* of the outermost opening */
	uint32_t depth;	   /* 0: none open */
	uint32_t members;
	uint32_t spec; /* of the outermost opening */
	uint32_t pad0;
};

#endif
