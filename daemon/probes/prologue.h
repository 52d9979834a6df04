/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Selects the breakpoint's address. The kernel emulates a few instructions at a uprobe (x86-64: nops, push, jmp, call,
 * conditional jumps: arch/x86/kernel/uprobes.c; aarch64: nop, adr, adrp, branches:
 * arch/arm64/kernel/probes/decode-insn.c) and single-steps all others, at 10 to 40 times the cost. So the probe goes
 * to the first emulated instruction of the straight-line prologue, before any register or stack slot it reads is
 * changed, and, for a return probe, before the stack pointer moves. An unknown instruction ends the search: the entry
 * is always correct.
 */
#ifndef RANKTRACE_DAEMON_PROBES_PROLOGUE_H
#define RANKTRACE_DAEMON_PROBES_PROLOGUE_H

#include "daemon/probes/elf_file.h"

#define PROLOGUE_BYTES_MAX 64 /* search limit */

struct prologue_need {
	uint32_t arg_regs; /* bit i: argument register i+1 (C calling convention) must be unchanged */
	bool entry_stack;  /* stack pointer and link register must be unchanged (return probe, stack arguments) */
};

struct prologue_choice {
	uint32_t offset_bytes; /* from the function's first byte */
	bool emulated;	       /* false: offset 0, single-stepped */
};

void prologue_choose(enum elf_machine machine, const uint8_t *code, size_t size_bytes, const struct prologue_need *need,
	struct prologue_choice *ret);

/* Length and effect of an instruction, for the chooser and its tests; false if unknown. */
struct prologue_insn {
	uint8_t length_bytes;
	bool emulated;
	bool ends;	      /* leaves the straight line */
	bool moves_stack;     /* or, on aarch64, changes or signs the link register */
	uint32_t writes_args; /* bit i: argument register i+1 */
};

bool prologue_decode_x86(const uint8_t *code, size_t size_bytes, struct prologue_insn *ret);
bool prologue_decode_arm64(const uint8_t *code, size_t size_bytes, struct prologue_insn *ret);

#endif
