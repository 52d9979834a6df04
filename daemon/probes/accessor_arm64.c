/* SPDX-License-Identifier: Apache-2.0 */
/* aarch64 instructions for the accessor's walk. Unlisted instructions clobber the registers they write. */
#include "daemon/probes/accessor_private.h"

#define SP 31u
#define ZERO 32u
#define CALL_LOSES 18u /* x0 to x17, and x18, the platform register */

static unsigned accessor_arm64_reg_of(unsigned name)
{
	if (name >= ARM64_REG_X0 && name <= ARM64_REG_X28)
		return name - ARM64_REG_X0;
	if (name >= ARM64_REG_W0 && name <= ARM64_REG_W30)
		return name - ARM64_REG_W0;
	switch (name) {
	case ARM64_REG_X29:
		return 29;
	case ARM64_REG_X30:
		return 30;
	case ARM64_REG_SP:
	case ARM64_REG_WSP:
		return SP;
	case ARM64_REG_XZR:
	case ARM64_REG_WZR:
		return ZERO;
	}
	return FLOW_NO_REG;
}

static bool accessor_arm64_is_word(unsigned name)
{
	return (name >= ARM64_REG_W0 && name <= ARM64_REG_W30) || name == ARM64_REG_WZR;
}

static struct value read_reg(const struct flow *flow, unsigned name)
{
	struct value value = flow_get(flow, accessor_arm64_reg_of(name));

	if (accessor_arm64_reg_of(name) == ZERO)
		return (struct value){.kind = VALUE_CONST};
	if (accessor_arm64_is_word(name) && value.kind != VALUE_CONST &&
		!(value.kind == VALUE_MEMBER && value.size_bytes <= 4))
		return (struct value){0};
	return value;
}

static void write_reg(struct flow *flow, unsigned name, struct value value)
{
	if (accessor_arm64_reg_of(name) != ZERO)
		flow_set(flow, accessor_arm64_reg_of(name), value);
}

/* Registers and memory operand of a load or store, and its write-back: [x0], #16 moves x0 afterwards. */
struct access {
	unsigned regs;
	unsigned reg[2];
	struct value address;
};

static bool find_access(const cs_insn *insn, struct flow *flow, struct access *ret)
{
	const cs_arm64 *arm64 = &insn->detail->arm64;
	unsigned i = 0;
	int64_t after = 0;
	struct value base;

	*ret = (struct access){0};
	for (; i < arm64->op_count && arm64->operands[i].type == ARM64_OP_REG && ret->regs < 2; i++)
		ret->reg[ret->regs++] = arm64->operands[i].reg;
	if (i == arm64->op_count || arm64->operands[i].type != ARM64_OP_MEM || !ret->regs)
		return false;
	base = flow_get(flow, accessor_arm64_reg_of(arm64->operands[i].mem.base));
	ret->address = value_plus(base, arm64->operands[i].mem.disp);
	if (arm64->operands[i].mem.index != ARM64_REG_INVALID)
		ret->address = (struct value){0};
	if (i + 1u < arm64->op_count)
		after = arm64->operands[i + 1].type == ARM64_OP_IMM ? arm64->operands[i + 1].imm : 0;
	if (arm64->writeback || i + 1u < arm64->op_count)
		flow_set(flow, accessor_arm64_reg_of(arm64->operands[i].mem.base), value_plus(ret->address, after));
	return true;
}

static unsigned size_of(unsigned id, unsigned reg)
{
	switch (id) {
	case ARM64_INS_LDRB:
	case ARM64_INS_LDURB:
	case ARM64_INS_LDARB:
	case ARM64_INS_LDXRB:
	case ARM64_INS_LDAXRB:
	case ARM64_INS_LDRSB:
	case ARM64_INS_LDURSB:
	case ARM64_INS_STRB:
	case ARM64_INS_STURB:
	case ARM64_INS_STLRB:
		return 1;
	case ARM64_INS_LDRH:
	case ARM64_INS_LDURH:
	case ARM64_INS_LDARH:
	case ARM64_INS_LDXRH:
	case ARM64_INS_LDAXRH:
	case ARM64_INS_LDRSH:
	case ARM64_INS_LDURSH:
	case ARM64_INS_STRH:
	case ARM64_INS_STURH:
	case ARM64_INS_STLRH:
		return 2;
	case ARM64_INS_LDRSW:
	case ARM64_INS_LDURSW:
	case ARM64_INS_LDPSW:
		return 4;
	}
	if (accessor_arm64_reg_of(reg) == FLOW_NO_REG) /* a vector register: assume its full size */
		return 16;
	return accessor_arm64_is_word(reg) ? 4 : 8;
}

static bool accessor_arm64_is_in(const uint16_t *list, size_t count, unsigned id)
{
	for (size_t i = 0; i < count; i++)
		if (list[i] == id)
			return true;
	return false;
}

static bool is_load(unsigned id)
{
	static const uint16_t loads[] = {ARM64_INS_LDR, ARM64_INS_LDUR, ARM64_INS_LDRB, ARM64_INS_LDURB, ARM64_INS_LDRH,
		ARM64_INS_LDURH, ARM64_INS_LDRSB, ARM64_INS_LDURSB, ARM64_INS_LDRSH, ARM64_INS_LDURSH, ARM64_INS_LDRSW,
		ARM64_INS_LDURSW, ARM64_INS_LDAR, ARM64_INS_LDARB, ARM64_INS_LDARH, ARM64_INS_LDXR, ARM64_INS_LDXRB,
		ARM64_INS_LDXRH, ARM64_INS_LDAXR, ARM64_INS_LDAXRB, ARM64_INS_LDAXRH, ARM64_INS_LDP, ARM64_INS_LDPSW};

	return accessor_arm64_is_in(loads, ARRAY_SIZE(loads), id);
}

static bool is_store(unsigned id)
{
	static const uint16_t stores[] = {ARM64_INS_STR, ARM64_INS_STUR, ARM64_INS_STRB, ARM64_INS_STURB,
		ARM64_INS_STRH, ARM64_INS_STURH, ARM64_INS_STLR, ARM64_INS_STLRB, ARM64_INS_STLRH, ARM64_INS_STP};

	return accessor_arm64_is_in(stores, ARRAY_SIZE(stores), id);
}

static bool accessor_arm64_accesses(const cs_insn *insn, struct flow *flow, struct step *step)
{
	struct access access;
	bool load = is_load(insn->id);

	if ((!load && !is_store(insn->id)) || !find_access(insn, flow, &access))
		return false;
	for (unsigned i = 0; i < access.regs; i++) {
		unsigned size = size_of(insn->id, access.reg[i]);

		if (load)
			write_reg(flow, access.reg[i], flow_load(flow, access.address, size));
		else
			flow_store(flow, access.address, size, read_reg(flow, access.reg[i]), step);
		access.address = value_plus(access.address, size);
	}
	return true;
}

static bool accessor_arm64_computes(const cs_insn *insn, struct flow *flow)
{
	const cs_arm64 *arm64 = &insn->detail->arm64;
	const cs_arm64_op *op = arm64->operands;
	struct value value;
	int64_t number;

	switch (insn->id) {
	case ARM64_INS_MOVZ:
	case ARM64_INS_MOVN:
		write_reg(flow, op[0].reg, (struct value){.kind = VALUE_CONST});
		return true;
	case ARM64_INS_MOV:
		if (arm64->op_count != 2 || (op[1].type != ARM64_OP_REG && op[1].type != ARM64_OP_IMM))
			return false;
		value = op[1].type == ARM64_OP_IMM ? (struct value){.kind = VALUE_CONST} : read_reg(flow, op[1].reg);
		if (accessor_arm64_reg_of(op[0].reg) != 29 && accessor_arm64_reg_of(op[0].reg) != SP)
			flow_escape(flow, value);
		write_reg(flow, op[0].reg, value);
		return true;
	case ARM64_INS_ADD:
	case ARM64_INS_SUB:
		if (arm64->op_count != 3 || op[2].type != ARM64_OP_IMM || accessor_arm64_is_word(op[0].reg) ||
			arm64->update_flags)
			return false;
		number = op[2].shift.type == ARM64_SFT_LSL ? op[2].imm << (op[2].shift.value & 31) : op[2].imm;
		value = value_plus(
			flow_get(flow, accessor_arm64_reg_of(op[1].reg)), insn->id == ARM64_INS_SUB ? -number : number);
		if (accessor_arm64_reg_of(op[0].reg) != 29 && accessor_arm64_reg_of(op[0].reg) != SP)
			flow_escape(flow, value);
		write_reg(flow, op[0].reg, value);
		return true;
	case ARM64_INS_CSEL:
		write_reg(flow, op[0].reg, value_meet(read_reg(flow, op[1].reg), read_reg(flow, op[2].reg)));
		return true;
	case ARM64_INS_SXTW:
	case ARM64_INS_UXTW:
		write_reg(flow, op[0].reg, read_reg(flow, op[1].reg));
		return true;
	default:
		return false;
	}
}

/* Nearly every other instruction writes its first operand; for compares, clobbering it is harmless. */
static void accessor_arm64_forget_written(csh handle, const cs_insn *insn, struct flow *flow, struct step *step)
{
	const cs_arm64 *arm64 = &insn->detail->arm64;
	cs_regs read, written;
	uint8_t reads, writes;

	if (insn->id == ARM64_INS_CMP || insn->id == ARM64_INS_CMN || insn->id == ARM64_INS_TST ||
		insn->id == ARM64_INS_CCMP || insn->id == ARM64_INS_NOP || insn->id == ARM64_INS_HINT)
		return;
	if (cs_regs_access(handle, insn, read, &reads, written, &writes) == CS_ERR_OK)
		for (uint8_t i = 0; i < writes; i++)
			write_reg(flow, written[i], (struct value){0});
	for (uint8_t i = 0; i < arm64->op_count; i++) {
		const cs_arm64_op *op = &arm64->operands[i];

		/* With memory: both of a pair, or the old value of an atomic operation. */
		if (op->type == ARM64_OP_REG && (i == 0 || arm64->operands[arm64->op_count - 1].type == ARM64_OP_MEM))
			write_reg(flow, op->reg, (struct value){0});
		if (op->type == ARM64_OP_MEM)
			flow_store(flow, value_plus(flow_get(flow, accessor_arm64_reg_of(op->mem.base)), op->mem.disp),
				16, (struct value){0}, step);
	}
}

static void on_branch(const cs_insn *insn, struct step *step)
{
	const cs_arm64 *arm64 = &insn->detail->arm64;
	const cs_arm64_op *last = arm64->op_count ? &arm64->operands[arm64->op_count - 1] : NULL;
	bool conditional = insn->id == ARM64_INS_CBZ || insn->id == ARM64_INS_CBNZ || insn->id == ARM64_INS_TBZ ||
			   insn->id == ARM64_INS_TBNZ ||
			   (insn->id == ARM64_INS_B && arm64->cc != ARM64_CC_INVALID && arm64->cc != ARM64_CC_AL);

	step->leaves = !conditional;
	step->has_target = true;
	/* Indirect branch, unknown target: treated as leaving the function. */
	step->target = last && last->type == ARM64_OP_IMM ? (uint64_t)last->imm : UINT64_MAX;
}

static void accessor_arm64_on_call(struct flow *flow)
{
	for (unsigned reg = 0; reg <= CALL_LOSES; reg++)
		flow_set(flow, reg, (struct value){0});
}

static void step_arm64(csh handle, const cs_insn *insn, struct flow *flow, struct step *ret)
{
	switch (insn->id) {
	case ARM64_INS_RET:
		ret->returns = true;
		return;
	case ARM64_INS_BL:
	case ARM64_INS_BLR:
		accessor_arm64_on_call(flow);
		return;
	case ARM64_INS_B:
	case ARM64_INS_BR:
	case ARM64_INS_CBZ:
	case ARM64_INS_CBNZ:
	case ARM64_INS_TBZ:
	case ARM64_INS_TBNZ:
		on_branch(insn, ret);
		return;
	case ARM64_INS_BRK:
	case ARM64_INS_HLT:
		ret->leaves = true;
		return;
	}
	if (!accessor_arm64_accesses(insn, flow, ret) && !accessor_arm64_computes(insn, flow))
		accessor_arm64_forget_written(handle, insn, flow, ret);
}

const struct accessor_machine accessor_arm64 = {
	.arch = CS_ARCH_ARM64,
	.mode = CS_MODE_ARM,
	.stack_reg = SP,
	.result_reg = 0,
	.arg_reg = {0, 1},
	.step = step_arm64,
};
