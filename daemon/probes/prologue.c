/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks the straight-line code from the entry to the first instruction that the kernel emulates. Stops before an
 * instruction that changes what the probe reads, branches, or is unknown.
 */
#include "daemon/probes/prologue.h"

static const struct {
	bool (*decode)(const uint8_t *code, size_t size_bytes, struct prologue_insn *ret);
} decoders[] = {
	[ELF_MACHINE_X86_64] = {prologue_decode_x86},
	[ELF_MACHINE_AARCH64] = {prologue_decode_arm64},
};

void prologue_choose(enum elf_machine machine, const uint8_t *code, size_t size_bytes, const struct prologue_need *need,
	struct prologue_choice *ret)
{
	size_t offset = 0;

	*ret = (struct prologue_choice){0};
	while (offset < size_bytes && offset < PROLOGUE_BYTES_MAX) {
		struct prologue_insn insn;

		if (!decoders[machine].decode(code + offset, size_bytes - offset, &insn))
			return;
		if (insn.emulated) {
			*ret = (struct prologue_choice){.offset_bytes = (uint32_t)offset, .emulated = true};
			return;
		}
		if (insn.ends || (insn.writes_args & need->arg_regs) || (insn.moves_stack && need->entry_stack))
			return;
		offset += insn.length_bytes;
	}
}
