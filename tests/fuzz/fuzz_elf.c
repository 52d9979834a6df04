/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a library file: opened or refused, never a crash, and what is found lies inside. The code found goes
 * through both prologue decoders, and symbol lookups of both machines take what it returns.
 */
#include <sys/mman.h>
#include "daemon/probes/accessor.h"
#include "daemon/probes/elf_file.h"
#include "daemon/probes/prologue.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

static void choose(const uint8_t *code, size_t size_bytes)
{
	static const struct prologue_need need = {63, true};
	struct prologue_choice choice;
	struct accessor accessor;

	(void)accessor_read(ELF_MACHINE_X86_64, code, size_bytes, &accessor);
	(void)accessor_read(ELF_MACHINE_AARCH64, code, size_bytes, &accessor);
	prologue_choose(ELF_MACHINE_X86_64, code, size_bytes, &need, &choice);
	if (choice.offset_bytes && choice.offset_bytes >= size_bytes)
		abort();
	prologue_choose(ELF_MACHINE_AARCH64, code, size_bytes, &need, &choice);
	if (choice.offset_bytes && choice.offset_bytes >= size_bytes)
		abort();
}

static void inspect(struct elf_file *elf, size_t size_bytes)
{
	static const char *const patterns[] = {"f", "*", "main"};
	struct elf_symbol symbol[3];
	struct usdt_site site[4];
	uint8_t code[PROLOGUE_BYTES_MAX];
	bool found[3];
	int count = elf_file_find_all(elf, patterns, 3, symbol, found);

	for (size_t i = 0; count > 0 && i < 3; i++) {
		int n;

		if (!found[i])
			continue;
		if (symbol[i].file_offset >= size_bytes || !*symbol[i].name)
			abort();
		n = elf_file_bytes(elf, symbol[i].file_offset, code, sizeof(code));
		if (n > 0)
			choose(code, (size_t)n);
	}
	count = elf_file_find_every(elf, "*", symbol, 3);
	count = elf_file_usdt(elf, "p", "n", site, 4);
	for (int i = 0; i < count && i < 4; i++)
		if (site[i].file_offset >= size_bytes || site[i].operands > USDT_OPERANDS_MAX)
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
	_cleanup_close_ int fd = memfd_create("fuzz", MFD_CLOEXEC);
	struct elf_file *elf = NULL;

	choose(data, size_bytes);
	if (fd < 0 || write(fd, data, size_bytes) != (ssize_t)size_bytes || elf_file_open(fd, &elf) < 0)
		return 0;
	inspect(elf, size_bytes);
	elf_file_close(elf);
	return 0;
}
