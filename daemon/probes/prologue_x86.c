/* SPDX-License-Identifier: Apache-2.0 */
/*
 * x86-64 instructions for the chooser: length of the forms that compilers use in prologues, and the registers they
 * write. A wrong length would put a breakpoint inside an instruction, so anything outside the tables (VEX, EVEX, 0f 38
 * and 0f 3a maps, string operations, locks, system instructions, address-size prefixes) is unknown and ends the walk.
 *
 * The kernel emulates (branch_setup_xol_ops and push_setup_xol_ops in arch/x86/kernel/uprobes.c): push of a register
 * with no prefix but REX 41; jmp, call and conditional jumps to a displacement without prefix; the nops of its own
 * table (one byte on every kernel, longer ones since 6.16). A nop with a cs prefix cannot be probed; 90 with REX is an
 * exchange.
 */
#include "daemon/probes/prologue.h"

#define LENGTH_MAX 15

enum {
	MODRM = 1 << 0,
	IMM8 = 1 << 1,
	IMMZ = 1 << 2,	   /* 4 bytes, 2 with the operand-size prefix */
	IMMV = 1 << 3,	   /* as IMMZ, 8 with REX.W */
	W_RM = 1 << 4,	   /* writes the register in r/m */
	W_REG = 1 << 5,	   /* writes the register in reg */
	W_OPCODE = 1 << 6, /* writes the register in the opcode's low bits */
	W_DX = 1 << 7,
	BYTE = 1 << 8, /* writes a byte register: 4 to 7 are ah, ch, dh, bh without REX */
	STACK = 1 << 9,
	ENDS = 1 << 10,
	BRANCH = 1 << 11, /* emulated if without prefix */
	PUSH = 1 << 12,
	GROUP = 1 << 13,  /* selected by reg: group() */
	MEMORY = 1 << 14, /* no register form */
	KNOWN = 1 << 15,
};

struct range {
	uint8_t first, last;
	uint16_t flags;
};

static const struct range one_byte[] = {
	{0x50, 0x57, PUSH | STACK},
	{0x58, 0x5f, W_OPCODE | STACK},
	{0x63, 0x63, MODRM | W_REG},	    /* movslq */
	{0x68, 0x68, IMMZ | STACK},	    /* push */
	{0x69, 0x69, MODRM | IMMZ | W_REG}, /* imul */
	{0x6a, 0x6a, IMM8 | STACK},
	{0x6b, 0x6b, MODRM | IMM8 | W_REG},
	{0x70, 0x7f, IMM8 | ENDS | BRANCH},
	{0x80, 0x80, MODRM | IMM8 | BYTE | GROUP}, /* add .. cmp */
	{0x81, 0x81, MODRM | IMMZ | GROUP},
	{0x83, 0x83, MODRM | IMM8 | GROUP},
	{0x84, 0x85, MODRM},			   /* test */
	{0x86, 0x86, MODRM | W_RM | W_REG | BYTE}, /* xchg */
	{0x87, 0x87, MODRM | W_RM | W_REG},
	{0x88, 0x88, MODRM | W_RM | BYTE}, /* mov */
	{0x89, 0x89, MODRM | W_RM},
	{0x8a, 0x8a, MODRM | W_REG | BYTE},
	{0x8b, 0x8b, MODRM | W_REG},
	{0x8d, 0x8d, MODRM | W_REG | MEMORY}, /* lea */
	{0x90, 0x90, 0},
	{0x98, 0x98, 0},    /* cltq */
	{0x99, 0x99, W_DX}, /* cqto */
	{0xa8, 0xa8, IMM8}, /* test */
	{0xa9, 0xa9, IMMZ},
	{0xb0, 0xb7, IMM8 | W_OPCODE | BYTE},
	{0xb8, 0xbf, IMMV | W_OPCODE},
	{0xc0, 0xc0, MODRM | IMM8 | W_RM | BYTE}, /* shifts */
	{0xc1, 0xc1, MODRM | IMM8 | W_RM},
	{0xc3, 0xc3, ENDS},			   /* ret */
	{0xc6, 0xc6, MODRM | IMM8 | GROUP | BYTE}, /* mov */
	{0xc7, 0xc7, MODRM | IMMZ | GROUP},
	{0xc9, 0xc9, STACK}, /* leave */
	{0xd0, 0xd0, MODRM | W_RM | BYTE},
	{0xd1, 0xd1, MODRM | W_RM},
	{0xd2, 0xd2, MODRM | W_RM | BYTE},
	{0xd3, 0xd3, MODRM | W_RM},
	{0xe8, 0xe9, IMMZ | ENDS | BRANCH}, /* call, jmp */
	{0xeb, 0xeb, IMM8 | ENDS | BRANCH},
	{0xf6, 0xf6, MODRM | GROUP | BYTE},
	{0xf7, 0xf7, MODRM | GROUP},
	{0xfe, 0xfe, MODRM | GROUP | BYTE},
	{0xff, 0xff, MODRM | GROUP},
};

static const struct range two_byte[] = {
	{0x10, 0x17, MODRM},	      /* vector moves */
	{0x18, 0x18, MODRM | MEMORY}, /* prefetch */
	{0x1f, 0x1f, MODRM | GROUP},  /* nop */
	{0x28, 0x2b, MODRM},
	{0x2c, 0x2d, MODRM | W_REG}, /* cvttsd2si, cvtsd2si */
	{0x2e, 0x2f, MODRM},	     /* ucomiss, comiss */
	{0x40, 0x4f, MODRM | W_REG}, /* cmov */
	{0x50, 0x50, MODRM | W_REG}, /* movmskps */
	{0x51, 0x6f, MODRM},
	{0x70, 0x73, MODRM | IMM8},
	{0x74, 0x76, MODRM},
	{0x7e, 0x7e, MODRM | W_RM}, /* movd; the f3 form writes a vector register: harmless */
	{0x7f, 0x7f, MODRM},
	{0x80, 0x8f, IMMZ | ENDS | BRANCH},
	{0x90, 0x9f, MODRM | W_RM | BYTE}, /* set */
	{0xa3, 0xa3, MODRM},		   /* bt */
	{0xa4, 0xa4, MODRM | IMM8 | W_RM}, /* shld */
	{0xa5, 0xa5, MODRM | W_RM},
	{0xab, 0xab, MODRM | W_RM},	   /* bts */
	{0xac, 0xac, MODRM | IMM8 | W_RM}, /* shrd */
	{0xad, 0xad, MODRM | W_RM},
	{0xaf, 0xaf, MODRM | W_REG},		   /* imul */
	{0xb3, 0xb3, MODRM | W_RM},		   /* btr */
	{0xb6, 0xb7, MODRM | W_REG},		   /* movzx */
	{0xba, 0xba, MODRM | IMM8 | W_RM},	   /* bt .. btc */
	{0xbb, 0xbb, MODRM | W_RM},		   /* btc */
	{0xbc, 0xbf, MODRM | W_REG},		   /* bsf, bsr, movsx */
	{0xc0, 0xc0, MODRM | W_RM | W_REG | BYTE}, /* xadd */
	{0xc1, 0xc1, MODRM | W_RM | W_REG},
	{0xc4, 0xc4, MODRM | IMM8},	    /* pinsrw */
	{0xc5, 0xc5, MODRM | IMM8 | W_REG}, /* pextrw */
	{0xc6, 0xc6, MODRM | IMM8},	    /* shufps */
	{0xc8, 0xcf, W_OPCODE},		    /* bswap */
	{0xd1, 0xd6, MODRM},
	{0xd7, 0xd7, MODRM | W_REG}, /* pmovmskb */
	{0xd8, 0xef, MODRM},
	{0xf1, 0xfe, MODRM},
};

/* The nops of the kernel's table, by length, except those with segment prefix. */
static const uint8_t nops[][9] = {
	{0x90},
	{0x66, 0x90},
	{0x0f, 0x1f, 0x00},
	{0x0f, 0x1f, 0x40, 0x00},
	{0x0f, 0x1f, 0x44, 0x00, 0x00},
	{0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00},
	{0x0f, 0x1f, 0x80, 0x00, 0x00, 0x00, 0x00},
	{0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00},
	{0x66, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00},
};

static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};

struct decode {
	const uint8_t *code;
	size_t size_bytes, at;
	unsigned prefixes;
	bool operand_16;
	uint8_t rex, opcode, modrm;
	bool two_byte;
	unsigned flags;
};

static bool next_byte(struct decode *decode, uint8_t *ret)
{
	if (decode->at >= decode->size_bytes || decode->at >= LENGTH_MAX)
		return false;
	*ret = decode->code[decode->at++];
	return true;
}

static bool skip_bytes(struct decode *decode, size_t count)
{
	uint8_t byte;

	while (count--)
		if (!next_byte(decode, &byte))
			return false;
	return true;
}

static bool is_prefix(uint8_t byte)
{
	return byte == 0x66 || byte == 0xf2 || byte == 0xf3 || byte == 0x2e || byte == 0x3e || byte == 0x64 ||
	       byte == 0x65;
}

static bool read_opcode(struct decode *decode)
{
	uint8_t byte;

	if (!next_byte(decode, &byte))
		return false;
	while (is_prefix(byte)) {
		decode->prefixes++;
		decode->operand_16 |= byte == 0x66;
		if (!next_byte(decode, &byte))
			return false;
	}
	if ((byte & 0xf0) == 0x40) {
		decode->rex = byte;
		if (!next_byte(decode, &byte))
			return false;
	}
	decode->two_byte = byte == 0x0f;
	if (decode->two_byte && !next_byte(decode, &byte))
		return false;
	decode->opcode = byte;
	return true;
}

/* 00 to 3d: add, or, adc, sbb, and, sub, xor, cmp in six forms each; only cmp writes nothing. */
static unsigned arithmetic_flags(uint8_t opcode)
{
	static const uint16_t forms[] = {
		MODRM | W_RM | BYTE, MODRM | W_RM, MODRM | W_REG | BYTE, MODRM | W_REG, IMM8, IMMZ};
	unsigned flags;

	if ((opcode & 7) >= ARRAY_SIZE(forms))
		return 0;
	flags = forms[opcode & 7] | KNOWN;
	return opcode >= 0x38 ? flags & ~(unsigned)(W_RM | W_REG) : flags;
}

static unsigned prologue_x86_lookup(const struct range *ranges, size_t count, uint8_t opcode)
{
	for (size_t i = 0; i < count; i++)
		if (opcode >= ranges[i].first && opcode <= ranges[i].last)
			return ranges[i].flags | KNOWN;
	return 0;
}

static unsigned opcode_flags(const struct decode *decode)
{
	if (decode->two_byte)
		return prologue_x86_lookup(two_byte, ARRAY_SIZE(two_byte), decode->opcode);
	if (decode->opcode < 0x40)
		return arithmetic_flags(decode->opcode);
	return prologue_x86_lookup(one_byte, ARRAY_SIZE(one_byte), decode->opcode);
}

/* Opcodes with the operation in the reg field. 0: unknown. */
static unsigned group_flags(const struct decode *decode, unsigned reg)
{
	unsigned flags = decode->flags;
	unsigned imm = decode->flags & BYTE ? IMM8 : IMMZ;

	if (decode->two_byte) /* 0f 1f */
		return reg == 0 ? flags : 0;
	switch (decode->opcode) {
	case 0x80:
	case 0x81:
	case 0x83:
		return reg == 7 ? flags : flags | W_RM;
	case 0xc6:
	case 0xc7:
		return reg == 0 ? flags | W_RM : 0;
	case 0xf6:
	case 0xf7: /* test with a constant; not, neg; mul, imul, div, idiv of dx:ax */
		return reg < 2 ? flags | imm : reg < 4 ? flags | W_RM : flags | W_DX;
	case 0xfe:
		return reg < 2 ? flags | W_RM : 0;
	case 0xff: /* inc, dec; call, jmp; push */
		return reg < 2 ? flags | W_RM : reg == 2 || reg == 4 ? flags | ENDS : reg == 6 ? flags | STACK : 0;
	default:
		return 0;
	}
}

static bool read_modrm(struct decode *decode)
{
	unsigned mode, rm;
	uint8_t sib;

	if (!next_byte(decode, &decode->modrm))
		return false;
	mode = decode->modrm >> 6;
	rm = decode->modrm & 7;
	if (decode->flags & GROUP)
		decode->flags = group_flags(decode, decode->modrm >> 3 & 7);
	if (!decode->flags || (mode == 3 && decode->flags & MEMORY))
		return false;
	if (mode == 3)
		return true;
	if (rm == 4) {
		if (!next_byte(decode, &sib))
			return false;
		if (mode == 0 && (sib & 7) == 5)
			return skip_bytes(decode, 4);
	} else if (mode == 0 && rm == 5) {
		return skip_bytes(decode, 4);
	}
	return skip_bytes(decode, mode == 1 ? 1 : mode == 2 ? 4 : 0);
}

static bool skip_immediate(struct decode *decode)
{
	size_t z = decode->operand_16 && !(decode->rex & 8) ? 2 : 4;

	if (decode->flags & IMMV)
		z = decode->rex & 8 ? 8 : z;
	if (decode->flags & (IMMZ | IMMV) && !skip_bytes(decode, z))
		return false;
	return !(decode->flags & IMM8) || skip_bytes(decode, 1);
}

static void prologue_x86_writes(struct prologue_insn *insn, const struct decode *decode, unsigned low, bool extended)
{
	/* rax rcx rdx rbx rsp rbp rsi rdi r8 r9 */
	static const uint8_t arg_bit[16] = {0, 1 << 3, 1 << 2, 0, 0, 0, 1 << 1, 1 << 0, 1 << 4, 1 << 5};
	unsigned reg = low | (extended ? 8u : 0u);

	if (decode->flags & BYTE && !decode->rex && reg >= 4)
		reg -= 4;
	insn->writes_args |= arg_bit[reg];
	insn->moves_stack |= reg == 4;
}

static void prologue_x86_effects(const struct decode *decode, struct prologue_insn *insn)
{
	unsigned flags = decode->flags;

	insn->ends = flags & ENDS;
	insn->moves_stack = flags & STACK;
	if (flags & W_RM && decode->modrm >> 6 == 3)
		prologue_x86_writes(insn, decode, decode->modrm & 7, decode->rex & 1);
	if (flags & W_REG)
		prologue_x86_writes(insn, decode, decode->modrm >> 3 & 7, decode->rex & 4);
	if (flags & W_OPCODE)
		prologue_x86_writes(insn, decode, decode->opcode & 7, decode->rex & 1);
	if (flags & W_DX)
		insn->writes_args |= 1 << 2;
}

static bool is_emulated(const struct decode *decode)
{
	size_t length = decode->at;

	if (length <= ARRAY_SIZE(nops) && memcmp(decode->code, nops[length - 1], length) == 0)
		return true;
	if (decode->flags & PUSH)
		return !decode->prefixes && (!decode->rex || decode->rex == 0x41);
	return decode->flags & BRANCH && !decode->prefixes && !decode->rex;
}

bool prologue_decode_x86(const uint8_t *code, size_t size_bytes, struct prologue_insn *ret)
{
	struct decode decode = {.code = code, .size_bytes = size_bytes};

	if (size_bytes >= sizeof(endbr64) && memcmp(code, endbr64, sizeof(endbr64)) == 0) {
		*ret = (struct prologue_insn){.length_bytes = sizeof(endbr64)};
		return true;
	}
	if (!read_opcode(&decode))
		return false;
	decode.flags = opcode_flags(&decode);
	/* Intel and AMD decode a 16-bit branch differently; 90 with REX is an exchange. */
	if (!decode.flags || (decode.flags & BRANCH && decode.operand_16) ||
		(!decode.two_byte && decode.opcode == 0x90 && decode.rex))
		return false;
	if ((decode.flags & MODRM && !read_modrm(&decode)) || !skip_immediate(&decode))
		return false;
	*ret = (struct prologue_insn){.length_bytes = (uint8_t)decode.at, .emulated = is_emulated(&decode)};
	prologue_x86_effects(&decode, ret);
	return true;
}
