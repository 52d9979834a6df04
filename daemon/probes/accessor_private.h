/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by accessor.c and its machines. A machine applies one instruction to the flow: moves, loads, stores, control.
 * A register written in an unknown way becomes unknown.
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
	VALUE_CONST,  /* any constant */
	VALUE_ARG,    /* argument `arg`, plus offset */
	VALUE_STACK,  /* stack pointer at the entry, plus offset */
	VALUE_MEMBER, /* size_bytes loaded from the first argument plus offset */
	VALUE_PART,   /* pointer loaded from a member of the first argument, plus offset */
	VALUE_INNER,  /* size_bytes loaded through that pointer */
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
	bool escaped; /* its address was taken: calls may write it */
	struct value value;
};

/* Known before an instruction. */
struct flow {
	struct value reg[FLOW_REGS];
	unsigned slots;
	struct slot slot[FLOW_SLOTS];
};

/* Effect of an instruction on control and its result. */
struct step {
	bool returns;
	bool leaves;	 /* does not continue with the next instruction */
	bool has_target; /* may branch to target, an offset from the function's first byte */
	bool has_store;	 /* stores a value through the second argument */
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

/* Address of a memory operand. */
static inline struct value value_plus(struct value value, int64_t offset)
{
	int64_t sum = (int64_t)value.offset + offset;

	if (value.kind == VALUE_MEMBER && value.size_bytes == 8 && offset >= INT32_MIN && offset <= INT32_MAX)
		return (struct value){.kind = VALUE_PART, .offset = (int32_t)offset};
	if ((value.kind != VALUE_ARG && value.kind != VALUE_STACK && value.kind != VALUE_PART) || sum < INT32_MIN ||
		sum > INT32_MAX)
		return (struct value){.kind = value.kind == VALUE_CONST ? VALUE_CONST : VALUE_UNKNOWN};
	value.offset = (int32_t)sum;
	return value;
}

struct value flow_get(const struct flow *flow, unsigned reg);
void flow_set(struct flow *flow, unsigned reg, struct value value);
/* Result of a load of size_bytes from the address. */
struct value flow_load(const struct flow *flow, struct value address, unsigned size_bytes);
void flow_store(struct flow *flow, struct value address, unsigned size_bytes, struct value value, struct step *step);
/* A stack slot's address was put into a register. */
void flow_escape(struct flow *flow, struct value address);
/* Keeps what both paths agree on. */
struct value value_meet(struct value a, struct value b);

#endif
