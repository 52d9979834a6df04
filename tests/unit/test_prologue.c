/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The prologue decoder on hand-assembled instructions: lengths, effects, what the kernel emulates, and what the chooser
 * makes of whole prologues.
 */
#include "daemon/probes/prologue.h"

#include "tests/test.h"

enum { E = 1, END = 2, SP = 4, NO = 8 }; /* emulated, ends, moves the stack, not known */

#define RDI 1
#define RSI 2
#define RDX 4
#define RCX 8
#define R8 16
#define R9 32

static const struct {
	const char *code;
	uint8_t length;
	unsigned flags, writes;
} x86[] = {
#define I(bytes, flags, writes) \
	{ \
		bytes, sizeof(bytes) - 1, flags, writes \
	}
	I("\xf3\x0f\x1e\xfa", 0, 0),
	I("\x90", E, 0),
	I("\x66\x90", E, 0),
	I("\xf3\x90", 0, 0),
	I("\x41\x90", NO, 0), /* xchg %eax,%r8d */
	I("\x0f\x1f\x44\x00\x00", E, 0),
	I("\x66\x0f\x1f\x84\x00\x00\x00\x00\x00", E, 0),
	I("\x66\x2e\x0f\x1f\x84\x00\x00\x00\x00\x00", 0, 0), /* refused by the kernel */
	I("\x55", E | SP, 0),
	I("\x41\x57", E | SP, 0),
	I("\x48\x55", SP, 0),
	I("\x5f", SP, RDI),
	I("\x5c", SP, 0),
	I("\x68\x00\x01\x00\x00", SP, 0),
	I("\x6a\x01", SP, 0),
	I("\x48\x89\xe5", 0, 0),			 /* mov %rsp,%rbp */
	I("\x48\x89\xfb", 0, 0),			 /* mov %rdi,%rbx */
	I("\x48\x89\xdf", 0, RDI),			 /* mov %rbx,%rdi */
	I("\x41\x89\xc8", 0, R8),			 /* mov %ecx,%r8d */
	I("\x40\x88\xc7", 0, RDI),			 /* mov %al,%dil */
	I("\x88\xc7", 0, 0),				 /* mov %al,%bh */
	I("\x88\xc6", 0, RDX),				 /* mov %al,%dh */
	I("\x48\x89\x7c\x24\x08", 0, 0),		 /* mov %rdi,8(%rsp) */
	I("\x64\x48\x8b\x04\x25\x28\x00\x00\x00", 0, 0), /* mov %fs:0x28,%rax */
	I("\x48\x8b\x0d\x01\x02\x03\x04", 0, RCX),	 /* mov x(%rip),%rcx */
	I("\x48\x8d\x05\x01\x02\x03\x04", 0, 0),	 /* lea x(%rip),%rax */
	I("\x4c\x8d\x4c\x24\x08", 0, R9),		 /* lea 8(%rsp),%r9 */
	I("\x48\x8d\x64\x24\xf8", SP, 0),		 /* lea -8(%rsp),%rsp */
	I("\x48\x8d\x04\xcd\x01\x02\x03\x04", 0, 0),	 /* lea x(,%rcx,8),%rax */
	I("\x8d\xc0", NO, 0),
	I("\x48\x83\xec\x08", SP, 0),
	I("\x48\x81\xec\x00\x01\x00\x00", SP, 0),
	I("\x48\x83\xe4\xf0", SP, 0),
	I("\x48\x83\xfc\x08", 0, 0),		       /* cmp $8,%rsp */
	I("\x83\x3d\x01\x02\x03\x04\x00", 0, 0),       /* cmpl $0,x(%rip) */
	I("\x66\xc7\x07\x01\x02", 0, 0),	       /* movw $513,(%rdi) */
	I("\x66\x48\xc7\xc7\x01\x02\x03\x04", 0, RDI), /* REX.W beats 66 */
	I("\xc6\x07\x01", 0, 0),
	I("\xbf\x01\x02\x03\x04", 0, RDI),
	I("\x66\xbf\x01\x02", 0, RDI),
	I("\x48\xb9\x01\x02\x03\x04\x05\x06\x07\x08", 0, RCX),
	I("\x31\xd2", 0, RDX),
	I("\x39\xd2", 0, 0),
	I("\x33\xd2", 0, RDX),
	I("\x3b\xd2", 0, 0),
	I("\x85\xff", 0, 0),
	I("\xf7\xc7\x01\x02\x03\x04", 0, 0), /* test $x,%edi */
	I("\xf7\xdf", 0, RDI),		     /* neg */
	I("\xf7\xf1", 0, RDX),		     /* div */
	I("\xf6\xc1\x01", 0, 0),
	I("\x48\x99", 0, RDX),
	I("\x48\x63\xf6", 0, RSI),
	I("\x0f\xb6\xf0", 0, RSI),
	I("\x48\x0f\x44\xfe", 0, RDI),
	I("\x0f\x94\xc1", 0, RCX),
	I("\x0f\x29\x44\x24\x10", 0, 0),
	I("\x66\x0f\xef\xc0", 0, 0),
	I("\x66\x48\x0f\x6e\xc7", 0, 0),   /* movq %rdi,%xmm0 */
	I("\x66\x48\x0f\x7e\xc7", 0, RDI), /* movq %xmm0,%rdi */
	I("\xff\xc7", 0, RDI),
	I("\xff\xd0", END, 0),
	I("\xff\x25\x01\x02\x03\x04", END, 0),
	I("\xff\x35\x01\x02\x03\x04", SP, 0),
	I("\xe8\x01\x02\x03\x04", E | END, 0),
	I("\x66\xe8\x01\x02", NO, 0),
	I("\xf2\xe9\x01\x02\x03\x04", END, 0),
	I("\xeb\x01", E | END, 0),
	I("\x74\x01", E | END, 0),
	I("\x0f\x84\x01\x02\x03\x04", E | END, 0),
	I("\xc3", END, 0),
	I("\xc5\xf8\x77", NO, 0),	  /* vzeroupper */
	I("\xf0\x48\x0f\xb1\x0f", NO, 0), /* lock cmpxchg */
	I("\xf3\x48\xab", NO, 0),	  /* rep stos */
	I("\x0f\x05", NO, 0),
	I("\x67\x8b\x07", NO, 0),
#undef I
};

TEST(decodes_x86)
{
	for (size_t i = 0; i < ARRAY_SIZE(x86); i++) {
		struct prologue_insn insn = {0};
		unsigned flags;

		if (!prologue_decode_x86((const uint8_t *)x86[i].code, x86[i].length, &insn)) {
			if (x86[i].flags != NO)
				fail_msg("instruction %zu is not known", i);
			continue;
		}
		flags = (insn.emulated ? E : 0) | (insn.ends ? END : 0) | (insn.moves_stack ? SP : 0);
		if (insn.length_bytes != x86[i].length || flags != x86[i].flags || insn.writes_args != x86[i].writes)
			fail_msg("instruction %zu: length %u, flags %u, writes %u", i, insn.length_bytes, flags,
				insn.writes_args);
		/* Cut short it is never known. */
		for (size_t n = 0; n < x86[i].length; n++)
			if (prologue_decode_x86((const uint8_t *)x86[i].code, n, &insn) && insn.length_bytes > n)
				fail_msg("instruction %zu reads past its end", i);
	}
}

static const struct {
	uint32_t word;
	unsigned flags, writes;
} arm64[] = {
	{0xd503201f, E, 0},	  /* nop */
	{0xd503233f, SP, 0},	  /* paciasp */
	{0xd503245f, 0, 0},	  /* bti c */
	{0xa9bf7bfd, SP, 0},	  /* stp x29,x30,[sp,#-16]! */
	{0xa90153f3, 0, 0},	  /* stp x19,x20,[sp,#16] */
	{0xa94107e0, 0, 3},	  /* ldp x0,x1,[sp,#16] */
	{0xa8c17bfd, SP, 0},	  /* ldp x29,x30,[sp],#16 */
	{0x910003fd, 0, 0},	  /* mov x29,sp */
	{0xd10083ff, SP, 0},	  /* sub sp,sp,#32 */
	{0xeb00001f, 0, 0},	  /* cmp x0,x0 */
	{0xf100001f, 0, 0},	  /* cmp x0,#0 */
	{0xaa0003f3, 0, 0},	  /* mov x19,x0 */
	{0xaa1303e0, 0, 1},	  /* mov x0,x19 */
	{0xd2800022, 0, 4},	  /* mov x2,#1 */
	{0xf9400001, 0, 2},	  /* ldr x1,[x0] */
	{0xf9000001, 0, 0},	  /* str x1,[x0] */
	{0xf8408401, 0, 3},	  /* ldr x1,[x0],#8 */
	{0xf81f0fe1, SP, 0},	  /* str x1,[sp,#-16]! */
	{0xf8606821, 0, 2},	  /* ldr x1,[x1,x0] */
	{0x3dc00000, 0, 0},	  /* ldr q0,[x0] */
	{0x10000000, E, 1},	  /* adr x0,. */
	{0x90000008, E, 0},	  /* adrp x8,. */
	{0x14000001, E | END, 0}, /* b */
	{0x94000001, E | END, 0}, /* bl */
	{0x54000040, E | END, 0}, /* b.eq */
	{0xb4000040, E | END, 0}, /* cbz x0 */
	{0x36000040, E | END, 0}, /* tbz w0,#0 */
	{0xd65f03c0, E | END, 0}, /* ret */
	{0xd53bd045, 0, 32},	  /* mrs x5,tpidr_el0 */
	{0x58000040, NO, 0},	  /* ldr x0,literal: no uprobe there */
	{0x4f000400, NO, 0},	  /* movi v0.4s,#0 */
	{0x00000000, NO, 0},
};

TEST(decodes_arm64)
{
	for (size_t i = 0; i < ARRAY_SIZE(arm64); i++) {
		uint8_t code[4] = {(uint8_t)arm64[i].word, (uint8_t)(arm64[i].word >> 8),
			(uint8_t)(arm64[i].word >> 16), (uint8_t)(arm64[i].word >> 24)};
		struct prologue_insn insn = {0};
		unsigned flags;

		assert_false(prologue_decode_arm64(code, 3, &insn));
		if (!prologue_decode_arm64(code, 4, &insn)) {
			if (arm64[i].flags != NO)
				fail_msg("instruction %08x is not known", arm64[i].word);
			continue;
		}
		flags = (insn.emulated ? E : 0) | (insn.ends ? END : 0) | (insn.moves_stack ? SP : 0);
		if (flags != arm64[i].flags || insn.writes_args != arm64[i].writes)
			fail_msg("instruction %08x: flags %u, writes %u", arm64[i].word, flags, insn.writes_args);
	}
}

TEST(chooses)
{
	static const struct {
		const char *code;
		size_t size;
		struct prologue_need need;
		struct prologue_choice choice;
	} cases[] = {
#define C(bytes, regs, stack, offset, emulated) \
	{ \
		bytes, sizeof(bytes) - 1, {regs, stack}, \
		{ \
			offset, emulated \
		} \
	}
		C("\xf3\x0f\x1e\xfa\x55\x48\x89\xe5", 63, true, 4, true), /* endbr64; push */
		C("\x48\x89\xdf\x55", 0, true, 3, true),		  /* mov %rbx,%rdi; push */
		C("\x48\x89\xdf\x55", 1, false, 0, false),
		C("\x48\x89\xdf\x55", 2, false, 3, true),
		C("\x48\x83\xec\x08\x53", 63, true, 0, false), /* sub $8,%rsp; push */
		C("\x48\x83\xec\x08\x53", 63, false, 4, true),
		C("\x85\xff\x74\x05", 63, true, 2, true),  /* test; je */
		C("\xc3\x90", 0, false, 0, false),	   /* not past a return */
		C("\xc5\xf8\x77\x55", 0, false, 0, false), /* not past the unknown */
		C("\xf3\x0f\x1e\xfa\x55", 63, true, 4, true),
		C("\xf3\x0f\x1e\xfa\x48\x89", 63, true, 0, false), /* cut short */
		C("", 63, true, 0, false),
#undef C
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct prologue_choice choice;

		prologue_choose(
			ELF_MACHINE_X86_64, (const uint8_t *)cases[i].code, cases[i].size, &cases[i].need, &choice);
		if (choice.offset_bytes != cases[i].choice.offset_bytes || choice.emulated != cases[i].choice.emulated)
			fail_msg("case %zu: offset %u, emulated %d", i, choice.offset_bytes, choice.emulated);
	}
}

TEST_MAIN(NULL, NULL)
