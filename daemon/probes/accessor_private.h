/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What accessor.c and its machines share. A machine turns one instruction into changes of the flow: it moves, loads and
 * stores values, and says where control goes. What it does not know, it must forget: a register that is written becomes
 * unknown.
 */
#ifndef RANKTRACE_DAEMON_PROBES_ACCESSOR_PRIVATE_H
#define RANKTRACE_DAEMON_PROBES_ACCESSOR_PRIVATE_H

#include <capstone/capstone.h>

#include "daemon/probes/accessor.h"

#define FLOW_REGS 34
#define FLOW_SLOTS 24
#define FLOW_NO_REG FLOW_REGS

enum value_kind {
	VALUE_UNKNOWN,
	VALUE_CONST,  /* whatever it is */
	VALUE_ARG,    /* argument `arg` of the function, plus offset */
	VALUE_STACK,  /* stack pointer of the entry, plus offset */
	VALUE_MEMBER, /* size_bytes loaded from the first argument plus offset */
	VALUE_PART,   /* what a member of the first argument points to, plus offset */
	VALUE_INNER,  /* size_bytes loaded from there */
};

struct value {
	uint8_t kind;
	uint8_t arg; /* from 1 */
	uint8_t size_bytes;
	uint8_t pad0;
	int32_t offset;
};

struct slot {
	int32_t offset; /* of the stack */
	uint8_t size_bytes;
	bool escaped; /* its address was taken: others may write it */
	struct value value;
};

/* What is known before an instruction. */
struct flow {
	struct value reg[FLOW_REGS];
	unsigned slots;
	struct slot slot[FLOW_SLOTS];
};

/* What an instruction does to control, and what it hands out. */
struct step {
	bool returns;
	bool leaves;	 /* it does not go on to the next instruction */
	bool has_target; /* it may go to target, an offset from the function's first byte */
	bool has_store;	 /* of a value through the second argument */
	uint64_t target;
	struct value stored;
};

struct accessor_machine {
	cs_arch arch;
	cs_mode mode;
	unsigned stack_reg, result_reg;
	unsigned arg_reg[2];
	void (*step)(csh handle, const cs_insn *insn, struct flow *flow, struct step *ret);
};

extern const struct accessor_machine accessor_x86, accessor_arm64;

/* An address as the machines find it in a memory operand. */
static inline struct value value_plus(struct value value, int64_t offset)
{
	int64_t sum = (int64_t)value.offset + offset;

	if (value.kind == VALUE_MEMBER && value.size_bytes == 8 && offset >= INT32_MIN && offset <= INT32_MAX)
		return (struct value){.kind = VALUE_PART, .offset = (int32_t)offset};
	if ((value.kind != VALUE_ARG && value.kind != VALUE_STACK && value.kind != VALUE_PART) || sum < INT32_MIN || sum > INT32_MAX)
		return (struct value){.kind = value.kind == VALUE_CONST ? VALUE_CONST : VALUE_UNKNOWN};
	value.offset = (int32_t)sum;
	return value;
}

struct value flow_get(const struct flow *flow, unsigned reg);
void flow_set(struct flow *flow, unsigned reg, struct value value);
/* What a load of size_bytes from the address yields. */
struct value flow_load(const struct flow *flow, struct value address, unsigned size_bytes);
void flow_store(struct flow *flow, struct value address, unsigned size_bytes, struct value value, struct step *step);
/* The address of a stack slot was put into a register. */
void flow_escape(struct flow *flow, struct value address);
/* What both ways leave known. */
struct value value_meet(struct value a, struct value b);

#endif
