/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Payload and specification of the call engine: one BPF program pair that serves every probed function.
 *
 * A specification is a row of a probe table after its symbol was resolved: which arguments to keep, how to read each,
 * and what an entry or a return means. It sits in the array map `specs` under the number that the probe's cookie
 * carries. Everything a specification asks of user memory is bounded: RT_CALL_ARGS_MAX words and one text of
 * RT_CALL_TEXT_MAX bytes.
 */
#ifndef RANKTRACE_CALL_H
#define RANKTRACE_CALL_H

#include "bpf/event.h"

#define RT_CALL_ARGS_MAX 8
#define RT_CALL_HOPS_MAX 2  /* pointers followed on the way to an argument */
#define RT_CALL_HASH_MAX 128 /* bytes hashed */
#define RT_CALL_TEXT_MAX 96
#define RT_CALL_SPECS_MAX 1024

/* What one hit of a probe stands for. */
enum rt_edge {
	RT_EDGE_CALL = 0,  /* entry and return make one record, sent at the return */
	RT_EDGE_ENTRY = 1, /* the entry alone is the record; no return probe */
	RT_EDGE_BEGIN = 2, /* something begins here that another probe of the same stage ends */
	RT_EDGE_END = 3,   /* ends what the last BEGIN of the stage on this thread began */
	RT_EDGE_SPAN = 4,  /* entry is sent as BEGIN, return as END: visible while it runs */
	RT_EDGE_MARK = 5,  /* PyTorch's operator call: BEGIN for (name, args), END for (record handle), else nothing */
	RT_EDGE_STASH = 6, /* keeps its text for the next BEGIN of this thread that has none; no record */
	RT_EDGE_OPEN = 7,  /* a group of calls opens on this thread: groups nest; no record */
	RT_EDGE_CLOSE = 8, /* closes it; the return of the outermost one sends a record, if calls were made in the group:
			    * start_ns is the opening, arg[0] the number of calls, arg[1] when this close was entered */
	RT_EDGE_MAX
};

/*
 * What is read from where an argument is. In a table row registers are numbered from 1 in the order of the C calling
 * convention; the loader turns them into slots of the kernel's struct pt_regs (x86-64: r15 is 0, rsp 19; aarch64: x0 is
 * 0, sp 31), or, for arguments past the registers, into slots on the stack (RT_CALL_SLOT_*).
 */
enum rt_read {
	RT_READ_NONE = 0,
	RT_READ_REG,        /* the register itself */
	RT_READ_DEREF,      /* size bytes where the path leads: at register + offset[0], or with one hop at
			       *(register + offset[0]) + offset[1], and so on */
	RT_READ_CSTRING,    /* text: where the path leads (no hop, offset 0: char * in the register) */
	RT_READ_STDSTRING,  /* text: std::string * or std::string_view-like {char *, size_t} * in the register */
	RT_READ_PYSTRING,   /* text: PyObject * of a compact str in the register */
	RT_READ_PYTUPLE,    /* text: first item of the tuple at *(PyObject **)register, if it is such a str */
	RT_READ_FRAME,      /* like RT_READ_REG, but reg is a pt_regs slot in the table too (USDT operands) */
	RT_READ_CONST,      /* the constant in offset[0] (USDT operands) */
	RT_READ_OUT,        /* read at the return: size bytes where the register of the entry points to (out parameters);
			       while the call is in flight it is that pointer */
	RT_READ_HASH,       /* 64-bit hash of size bytes at the register: 5381, then for each byte times 33, xor the byte,
			       which is a signed char if is_signed (NCCL's hash of its unique id before 2.26) */
	RT_READ_DIGEST,     /* the same by words of 8 bytes, as NCCL does it from 2.26 on */
	RT_READ_MAX
};

/* Slots past those of struct pt_regs. All are seen from the stack pointer of the function's entry. */
#define RT_CALL_SLOT_STACK 64      /* + N: word N of the arguments that are passed on the stack, from 0 */
#define RT_CALL_SLOT_STACK_BASE 96 /* the address of the first of them: of a structure that is passed by value there */
/* The same in a row, where registers are numbered: the number of RT_CALL_SLOT_STACK_BASE. */
#define RT_CALL_REG_STACK_BASE 255

struct rt_call_arg {
	uint8_t read;       /* enum rt_read */
	uint8_t reg;        /* argument register, from 1; in the kernel's map a slot */
	uint8_t size_bytes; /* 1, 2, 4 or 8; sign-extended if is_signed; of a hash up to RT_CALL_HASH_MAX */
	uint8_t is_signed : 1;
	uint8_t hops : 7;   /* pointers to follow, up to RT_CALL_HOPS_MAX */
	int32_t offset[RT_CALL_HOPS_MAX + 1]; /* bytes */
};

#define RT_CALL_NEEDS_RETURN 1u  /* a return probe is attached too */
#define RT_CALL_HAS_TEXT 2u      /* one of the readers yields text */
#define RT_CALL_TAKES_STASH 4u   /* the text is what the thread stashed last */
#define RT_CALL_RETURN_PROBE 8u  /* the return is caught by a uretprobe: the return address is off the stack already */
#define RT_CALL_MEMBER 16u       /* counts as a member of the thread's open group */

struct rt_call_spec {
	uint8_t edge;       /* enum rt_edge */
	uint8_t args;       /* how many of arg[] are used */
	uint8_t symbol_reg; /* RT_EDGE_MARK: register with the c10::Symbol */
	uint8_t pad0;
	uint32_t flags;     /* RT_CALL_* */
	struct rt_call_arg arg[RT_CALL_ARGS_MAX];
};

/* event.flags of a call record: which edge it is, what it carries. */
#define RT_CALL_BEGIN 1u
#define RT_CALL_END 2u           /* BEGIN | END together: a whole call */
#define RT_CALL_TEXT 4u          /* text follows (struct rt_call_text_event) */
#define RT_CALL_TRUNCATED 8u     /* the text was longer */
#define RT_CALL_FAULT 16u        /* an argument could not be read: its word is 0 */
#define RT_CALL_RESULT 32u       /* result is valid: of a spec that it is kept */
#define RT_CALL_IN_GROUP 512u    /* called in a group that was open on its thread */
/* The text is code points of 1, 2 or 4 bytes each, as CPython keeps what is not ASCII; 0: bytes of a C or C++ string. */
#define RT_CALL_UNIT_SHIFT 6
#define RT_CALL_UNIT_BYTES(flags) ((flags) >> RT_CALL_UNIT_SHIFT & 7u)

struct rt_call_event {
	struct rt_event event; /* kind RT_KIND_CALL; time_ns is the entry of a BEGIN, else the return */
	uint64_t start_ns;     /* entry */
	uint64_t arg[RT_CALL_ARGS_MAX];
	int64_t result;        /* return register */
	uint64_t stack_pointer; /* where a BEGIN's and an END's are compared, a function that an exception left is noticed */
	uint32_t spec;
	uint32_t text_bytes;
};

struct rt_call_text_event {
	struct rt_call_event call;
	char text[RT_CALL_TEXT_MAX]; /* not terminated: text_bytes long */
};

/*
 * What is entered and not left: the map `inflight`, which the daemon may read at any time. A close of a group is in it
 * from its entry, start_ns, on (arg[0]: members so far, arg[1]: when the group was opened).
 */
struct rt_inflight_key {
	uint64_t pid_thread; /* tgid << 32 | thread */
	uint32_t spec;
	uint32_t pad0;
};

struct rt_inflight {
	uint64_t start_ns;
	uint64_t stack_pointer; /* at the entry: tells a stale call (left by an exception) from a nested one */
	uint64_t arg[RT_CALL_ARGS_MAX];
	uint32_t flags;
	uint32_t pad0;
};

/* The group that is open on a thread: the map `groups`, by tgid << 32 | thread. */
#define RT_GROUP_AGE_MAX_NS 60000000000ULL /* what was opened longer ago was left unseen: its close was missed */

struct rt_group {
	uint64_t start_ns; /* of the outermost opening */
	uint32_t depth;    /* 0: none is open */
	uint32_t members;
	uint32_t spec;     /* of the outermost opening */
	uint32_t pad0;
};

#endif
