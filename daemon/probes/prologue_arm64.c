/* SPDX-License-Identifier: Apache-2.0 */
/*
 * aarch64 instructions for the chooser. All have four bytes; needed are the registers written and whether the kernel
 * simulates it: nop, adr, adrp and branches (arm_probe_decode_insn in arch/arm64/kernel/probes/decode-insn.c). Literal
 * loads are refused for uprobes; instructions outside the table are unknown.
 *
 * "moves_stack" includes the link register: a return probe swaps it, before it is saved, signed (paciasp) or
 * overwritten.
 */
#include "daemon/probes/prologue.h"

#define REG_LINK 30u
#define REG_SP 31u
#define ARG_REGS 8u

enum dest {
	DEST_NONE,
	DEST_RD,       /* bits 4:0, 31 is the zero register */
	DEST_RD_FLAGS, /* as DEST_RD, but 31 is the stack pointer unless the instruction sets flags (bit 29) */
	DEST_LOGICAL,  /* as DEST_RD, but 31 is the stack pointer unless it is ands (bits 30:29 both set) */
	DEST_PAIR,     /* load/store pair */
	DEST_SINGLE,   /* load/store of one register */
	DEST_HINT,
};

struct form {
	uint32_t mask, value;
	enum dest dest;
	bool emulated, ends;
};

static const struct form forms[] = {
	{0xffffffff, 0xd503201f, DEST_NONE, true, false},  /* nop */
	{0xfffff01f, 0xd503201f, DEST_HINT, false, false}, /* bti, paciasp, other hints */
	{0x1f000000, 0x10000000, DEST_RD, true, false},	   /* adr, adrp */
	{0xfc000000, 0x14000000, DEST_NONE, true, true},   /* b */
	{0xfc000000, 0x94000000, DEST_NONE, true, true},   /* bl */
	{0xff000010, 0x54000000, DEST_NONE, true, true},   /* b.cond */
	{0x7e000000, 0x34000000, DEST_NONE, true, true},   /* cbz, cbnz */
	{0x7e000000, 0x36000000, DEST_NONE, true, true},   /* tbz, tbnz */
	{0xfffffc1f, 0xd61f0000, DEST_NONE, true, true},   /* br */
	{0xfffffc1f, 0xd63f0000, DEST_NONE, true, true},   /* blr */
	{0xfffffc1f, 0xd65f0000, DEST_NONE, true, true},   /* ret */
	{0x3a000000, 0x28000000, DEST_PAIR, false, false},
	{0x3b000000, 0x39000000, DEST_SINGLE, false, false},   /* unsigned offset */
	{0x3b200000, 0x38000000, DEST_SINGLE, false, false},   /* unscaled, post- and pre-indexed */
	{0x3b200c00, 0x38200800, DEST_SINGLE, false, false},   /* register offset */
	{0x1f800000, 0x11000000, DEST_RD_FLAGS, false, false}, /* add, sub immediate */
	{0x1f800000, 0x12000000, DEST_LOGICAL, false, false},  /* and, orr, eor immediate */
	{0x1f800000, 0x12800000, DEST_RD, false, false},       /* movn, movz, movk */
	{0x1f800000, 0x13000000, DEST_RD, false, false},       /* bit fields */
	{0x1f800000, 0x13800000, DEST_RD, false, false},       /* extr */
	{0x1f000000, 0x0a000000, DEST_RD, false, false},       /* and, orr, mov, eor register */
	{0x1f200000, 0x0b000000, DEST_RD, false, false},       /* add, sub shifted register */
	{0x1fe00000, 0x0b200000, DEST_RD_FLAGS, false, false}, /* add, sub extended register */
	{0x1fe00000, 0x1a800000, DEST_RD, false, false},       /* csel and kin */
	{0x5fe00000, 0x1ac00000, DEST_RD, false, false},       /* two sources */
	{0x1f000000, 0x1b000000, DEST_RD, false, false},       /* three sources */
	{0xfff00000, 0xd5300000, DEST_RD, false, false},       /* mrs: the stack protector's thread pointer */
};

static void prologue_arm64_writes(struct prologue_insn *insn, uint32_t reg, bool is_sp)
{
	if (reg < ARG_REGS)
		insn->writes_args |= 1u << reg;
	if (reg == REG_LINK || (reg == REG_SP && is_sp))
		insn->moves_stack = true;
}

static void prologue_arm64_pair(struct prologue_insn *insn, uint32_t word)
{
	bool vector = word & (1u << 26), load = word & (1u << 22), write_back = word & (1u << 23);

	if (load && !vector) {
		prologue_arm64_writes(insn, word & 31, false);
		prologue_arm64_writes(insn, (word >> 10) & 31, false);
	}
	/* Bits 24:23: 01 post-index, 11 pre-index; 00 and 10 have no write-back. */
	if (write_back)
		prologue_arm64_writes(insn, (word >> 5) & 31, true);
}

static void prologue_arm64_single(struct prologue_insn *insn, uint32_t word)
{
	bool vector = word & (1u << 26), load = word & (3u << 22);
	bool indexed = !(word & (1u << 24)) && !(word & (1u << 21)) && (word & (1u << 10));

	if (load && !vector)
		prologue_arm64_writes(insn, word & 31, false);
	if (indexed)
		prologue_arm64_writes(insn, (word >> 5) & 31, true);
}

static void prologue_arm64_destination(struct prologue_insn *insn, enum dest dest, uint32_t word)
{
	uint32_t hint = (word >> 5) & 0x7f;

	switch (dest) {
	case DEST_NONE:
		break;
	case DEST_RD:
		prologue_arm64_writes(insn, word & 31, false);
		break;
	case DEST_RD_FLAGS:
		prologue_arm64_writes(insn, word & 31, !(word & (1u << 29)));
		break;
	case DEST_LOGICAL:
		prologue_arm64_writes(insn, word & 31, (word >> 29 & 3) != 3);
		break;
	case DEST_PAIR:
		prologue_arm64_pair(insn, word);
		break;
	case DEST_SINGLE:
		prologue_arm64_single(insn, word);
		break;
	case DEST_HINT:
		/* xpaclri (7) and the pac and aut family (24 to 31) change the link register. */
		insn->moves_stack = hint == 7 || (hint >= 24 && hint <= 31);
		break;
	}
}

bool prologue_decode_arm64(const uint8_t *code, size_t size_bytes, struct prologue_insn *ret)
{
	uint32_t word;

	if (size_bytes < 4)
		return false;
	word = (uint32_t)code[0] | (uint32_t)code[1] << 8 | (uint32_t)code[2] << 16 | (uint32_t)code[3] << 24;
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		const struct form *form = &forms[i];

		if ((word & form->mask) != form->value)
			continue;
		*ret = (struct prologue_insn){.length_bytes = 4, .emulated = form->emulated, .ends = form->ends};
		prologue_arm64_destination(ret, form->dest, word);
		return true;
	}
	return false;
}
