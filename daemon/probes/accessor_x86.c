/* SPDX-License-Identifier: Apache-2.0 */
/* x86-64 instructions for the accessor's walk. Unlisted instructions clobber the registers they write. */
#include "daemon/probes/accessor_private.h"

enum { RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8, REGS = 16 };

/* Names of each register with 64, 32, 16 and 8 bits (and of its second byte). */
static const uint16_t names[REGS][5] = {
	{X86_REG_RAX, X86_REG_EAX, X86_REG_AX, X86_REG_AL, X86_REG_AH},
	{X86_REG_RCX, X86_REG_ECX, X86_REG_CX, X86_REG_CL, X86_REG_CH},
	{X86_REG_RDX, X86_REG_EDX, X86_REG_DX, X86_REG_DL, X86_REG_DH},
	{X86_REG_RBX, X86_REG_EBX, X86_REG_BX, X86_REG_BL, X86_REG_BH},
	{X86_REG_RSP, X86_REG_ESP, X86_REG_SP, X86_REG_SPL},
	{X86_REG_RBP, X86_REG_EBP, X86_REG_BP, X86_REG_BPL},
	{X86_REG_RSI, X86_REG_ESI, X86_REG_SI, X86_REG_SIL},
	{X86_REG_RDI, X86_REG_EDI, X86_REG_DI, X86_REG_DIL},
	{X86_REG_R8, X86_REG_R8D, X86_REG_R8W, X86_REG_R8B},
	{X86_REG_R9, X86_REG_R9D, X86_REG_R9W, X86_REG_R9B},
	{X86_REG_R10, X86_REG_R10D, X86_REG_R10W, X86_REG_R10B},
	{X86_REG_R11, X86_REG_R11D, X86_REG_R11W, X86_REG_R11B},
	{X86_REG_R12, X86_REG_R12D, X86_REG_R12W, X86_REG_R12B},
	{X86_REG_R13, X86_REG_R13D, X86_REG_R13W, X86_REG_R13B},
	{X86_REG_R14, X86_REG_R14D, X86_REG_R14W, X86_REG_R14B},
	{X86_REG_R15, X86_REG_R15D, X86_REG_R15W, X86_REG_R15B},
};

static unsigned accessor_x86_reg_of(unsigned name)
{
	for (unsigned reg = 0; name && reg < REGS; reg++)
		for (unsigned i = 0; i < ARRAY_SIZE(names[reg]); i++)
			if (names[reg][i] == name)
				return reg;
	return FLOW_NO_REG;
}

static struct value address_of(const struct flow *flow, const cs_x86_op *op)
{
	if (op->mem.index != X86_REG_INVALID || op->mem.segment != X86_REG_INVALID)
		return (struct value){0};
	return value_plus(flow_get(flow, accessor_x86_reg_of(op->mem.base)), op->mem.disp);
}

/* Only a full 8-byte register holds an address. */
static struct value accessor_x86_narrowed(struct value value, unsigned size_bytes)
{
	bool fits = size_bytes == 8 || value.kind == VALUE_CONST ||
		    (value.kind == VALUE_MEMBER && value.size_bytes <= size_bytes);

	return fits ? value : (struct value){0};
}

static struct value read_operand(const struct flow *flow, const cs_x86_op *op)
{
	if (op->type == X86_OP_IMM)
		return (struct value){.kind = VALUE_CONST};
	if (op->type == X86_OP_REG)
		return accessor_x86_narrowed(flow_get(flow, accessor_x86_reg_of(op->reg)), op->size);
	return flow_load(flow, address_of(flow, op), op->size);
}

/* Writes of 1 or 2 bytes keep the upper part; a member of that size is read from the lower part only. */
static bool accessor_x86_fills(const cs_x86_op *op, struct value value)
{
	unsigned reg = accessor_x86_reg_of(op->reg);

	return op->size >= 4 ||
	       (value.kind == VALUE_MEMBER && value.size_bytes == op->size && reg < REGS && names[reg][4] != op->reg);
}

static void write_operand(struct flow *flow, const cs_x86_op *op, struct value value, struct step *step)
{
	if (op->type == X86_OP_MEM)
		flow_store(flow, address_of(flow, op), op->size, value, step);
	else if (op->type == X86_OP_REG)
		flow_set(flow, accessor_x86_reg_of(op->reg), accessor_x86_fills(op, value) ? value : (struct value){0});
}

/* Clobbers what the instruction writes, according to the disassembler. */
static void accessor_x86_forget_written(csh handle, const cs_insn *insn, struct flow *flow, struct step *step)
{
	const cs_x86 *x86 = &insn->detail->x86;
	cs_regs read, written;
	uint8_t reads, writes;

	if (insn->id == X86_INS_NOP || insn->id == X86_INS_CMP || insn->id == X86_INS_TEST)
		return;
	if (cs_regs_access(handle, insn, read, &reads, written, &writes) != CS_ERR_OK)
		writes = 0;
	for (uint8_t i = 0; i < writes; i++)
		flow_set(flow, accessor_x86_reg_of(written[i]), (struct value){0});
	for (uint8_t i = 0; i < x86->op_count; i++)
		if (x86->operands[i].type == X86_OP_MEM && (x86->operands[i].access & CS_AC_WRITE || i == 0))
			write_operand(flow, &x86->operands[i], (struct value){0}, step);
	/* Incomplete in the disassembler: clobber everything. */
	if (x86->op_count && x86->operands[0].type == X86_OP_REG)
		flow_set(flow, accessor_x86_reg_of(x86->operands[0].reg), (struct value){0});
}

static void accessor_x86_on_call(struct flow *flow)
{
	static const uint8_t lost[] = {RAX, RCX, RDX, RSI, RDI, R8, R8 + 1, R8 + 2, R8 + 3};

	for (size_t i = 0; i < ARRAY_SIZE(lost); i++)
		flow_set(flow, lost[i], (struct value){0});
}

static void on_jump(const cs_insn *insn, struct step *step)
{
	const cs_x86_op *op = &insn->detail->x86.operands[0];

	step->leaves = insn->id == X86_INS_JMP;
	if (insn->detail->x86.op_count == 1 && op->type == X86_OP_IMM) {
		step->has_target = true;
		step->target = (uint64_t)op->imm;
	} else if (step->leaves) {
		/* Indirect jump, unknown target: treated as leaving the function. */
		step->has_target = true;
		step->target = UINT64_MAX;
	}
}

static void on_push(struct flow *flow, const cs_x86_op *op, struct step *step)
{
	struct value value = read_operand(flow, op);
	struct value stack = value_plus(flow_get(flow, RSP), -8);

	flow_set(flow, RSP, stack);
	flow_store(flow, stack, 8, op->type == X86_OP_REG ? value : (struct value){0}, step);
}

static void on_pop(struct flow *flow, const cs_x86_op *op, struct step *step)
{
	struct value stack = flow_get(flow, RSP);

	write_operand(flow, op, flow_load(flow, stack, 8), step);
	flow_set(flow, RSP, value_plus(stack, 8));
}

/* add or sub of a constant to an address; other operands clobber it. */
static bool on_add(const cs_insn *insn, struct flow *flow)
{
	const cs_x86_op *op = insn->detail->x86.operands;
	int64_t number = insn->id == X86_INS_SUB ? -op[1].imm : op[1].imm;
	unsigned reg;

	if (op[0].type != X86_OP_REG || op[0].size != 8 || op[1].type != X86_OP_IMM)
		return false;
	reg = accessor_x86_reg_of(op[0].reg);
	flow_set(flow, reg, value_plus(flow_get(flow, reg), number));
	return true;
}

/* Idioms for 0 and, with or, for -1. */
static bool makes_constant(const cs_insn *insn)
{
	const cs_x86_op *op = insn->detail->x86.operands;

	if (insn->id == X86_INS_OR && op[0].type == X86_OP_REG && op[0].size >= 4)
		return op[1].type == X86_OP_IMM && (int32_t)op[1].imm == -1;
	return (insn->id == X86_INS_XOR || insn->id == X86_INS_SUB) && op[0].type == X86_OP_REG && op[0].size >= 4 &&
	       op[1].type == X86_OP_REG && op[0].reg == op[1].reg;
}

/* lea: a stack address in a register may be written through. */
static void on_lea(struct flow *flow, const cs_x86_op *op)
{
	struct value value = op[0].size == 8 ? address_of(flow, &op[1]) : (struct value){0};
	unsigned reg = accessor_x86_reg_of(op[0].reg);

	if (reg != RSP && reg != RBP)
		flow_escape(flow, value);
	flow_set(flow, reg, value);
}

static void on_exchange_add(struct flow *flow, const cs_x86_op *op, struct step *step)
{
	struct value before = read_operand(flow, &op[0]);

	write_operand(flow, &op[0], (struct value){0}, step);
	write_operand(flow, &op[1], before, step);
}

static bool accessor_x86_moves(const cs_insn *insn, struct flow *flow, struct step *step)
{
	const cs_x86_op *op = insn->detail->x86.operands;

	switch (insn->id) {
	case X86_INS_MOV:
	case X86_INS_MOVABS:
	case X86_INS_MOVZX:
	case X86_INS_MOVSX:
	case X86_INS_MOVSXD:
		write_operand(flow, &op[0], read_operand(flow, &op[1]), step);
		return true;
	case X86_INS_CDQE:
		flow_set(flow, RAX, accessor_x86_narrowed(flow_get(flow, RAX), 4));
		return true;
	case X86_INS_LEA:
		on_lea(flow, op);
		return true;
	case X86_INS_PUSH:
		on_push(flow, op, step);
		return true;
	case X86_INS_POP:
		on_pop(flow, op, step);
		return true;
	case X86_INS_LEAVE:
		flow_set(flow, RSP, flow_get(flow, RBP));
		on_pop(flow, &(cs_x86_op){.type = X86_OP_REG, .reg = X86_REG_RBP, .size = 8}, step);
		return true;
	case X86_INS_XADD:
		on_exchange_add(flow, op, step);
		return true;
	default:
		return false;
	}
}

static bool accessor_x86_computes(const cs_insn *insn, struct flow *flow)
{
	const cs_x86_op *op = insn->detail->x86.operands;

	if (makes_constant(insn)) {
		flow_set(flow, accessor_x86_reg_of(op[0].reg), (struct value){.kind = VALUE_CONST});
		return true;
	}
	if (insn->id >= X86_INS_CMOVA && insn->id <= X86_INS_CMOVS && op[0].type == X86_OP_REG) {
		flow_set(flow, accessor_x86_reg_of(op[0].reg),
			value_meet(accessor_x86_narrowed(flow_get(flow, accessor_x86_reg_of(op[0].reg)), op[0].size),
				read_operand(flow, &op[1])));
		return true;
	}
	return (insn->id == X86_INS_ADD || insn->id == X86_INS_SUB) && on_add(insn, flow);
}

static void step_x86(csh handle, const cs_insn *insn, struct flow *flow, struct step *ret)
{
	if (cs_insn_group(handle, insn, CS_GRP_RET)) {
		ret->returns = true;
	} else if (cs_insn_group(handle, insn, CS_GRP_CALL)) {
		accessor_x86_on_call(flow);
	} else if (cs_insn_group(handle, insn, CS_GRP_JUMP)) {
		on_jump(insn, ret);
	} else if (insn->id == X86_INS_HLT || insn->id == X86_INS_UD2 || insn->id == X86_INS_INT3) {
		ret->leaves = true;
	} else if (!accessor_x86_moves(insn, flow, ret) && !accessor_x86_computes(insn, flow)) {
		accessor_x86_forget_written(handle, insn, flow, ret);
	}
}

const struct accessor_machine accessor_x86 = {
	.arch = CS_ARCH_X86,
	.mode = CS_MODE_64,
	.stack_reg = RSP,
	.result_reg = RAX,
	.arg_reg = {RDI, RSI},
	.step = step_x86,
};
