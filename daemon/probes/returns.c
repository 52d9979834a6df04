/* SPDX-License-Identifier: Apache-2.0 */
/* Return instructions of a function, by disassembly (attachment.h). */
#include "daemon/probes/attachment.h"

#include <capstone/capstone.h>

static int returns_sweep(csh handle, const uint8_t *code, size_t size_bytes, uint32_t *ret, size_t max)
{
	cs_insn *insn = cs_malloc(handle);
	uint64_t address = 0;
	size_t left = size_bytes;
	int found = 0;

	if (!insn)
		return -ENOMEM;
	while (left > 0) {
		if (!cs_disasm_iter(handle, &code, &left, &address, insn)) {
			found = -EILSEQ;
			break;
		}
		if (!cs_insn_group(handle, insn, CS_GRP_RET))
			continue;
		if ((size_t)found >= max) {
			found = -E2BIG;
			break;
		}
		ret[found++] = (uint32_t)insn->address;
	}
	cs_free(insn, 1);
	return found;
}

int returns_find(enum elf_machine machine, const uint8_t *code, size_t size_bytes, uint32_t *ret, size_t max)
{
	static const struct {
		cs_arch arch;
		cs_mode mode;
	} machines[] = {
		[ELF_MACHINE_X86_64] = {CS_ARCH_X86, CS_MODE_64},
		[ELF_MACHINE_AARCH64] = {CS_ARCH_ARM64, CS_MODE_ARM},
	};
	uint32_t offsets[RETURNS_MAX];
	csh handle;
	int r;

	if (size_bytes == 0 || size_bytes > RETURNS_FUNCTION_BYTES_MAX)
		return -E2BIG;
	if (cs_open(machines[machine].arch, machines[machine].mode, &handle) != CS_ERR_OK)
		return -ENOTSUP;
	if (cs_option(handle, CS_OPT_DETAIL, CS_OPT_ON) == CS_ERR_OK)
		r = returns_sweep(handle, code, size_bytes, offsets, max < RETURNS_MAX ? max : RETURNS_MAX);
	else
		r = -ENOTSUP;
	cs_close(&handle);
	if (r == 0)
		return -ENOENT;
	if (r > 0)
		memcpy(ret, offsets, (size_t)r * sizeof(*ret));
	return r;
}
