/* SPDX-License-Identifier: Apache-2.0 */
/*
 * USDT operands as the notes write them, and the notes of the Python interpreter that is installed here.
 */
#include <fcntl.h>
#include <glob.h>
#include "daemon/probes/elf_file.h"

#include "tests/test.h"

static const struct {
	enum elf_machine machine;
	const char *text;
	struct usdt_operand operand;
} operands[] = {
	{ELF_MACHINE_X86_64, "-4@112(%rsp)", {4, true, USDT_DEREF, 19, 112}},
	{ELF_MACHINE_X86_64, "-4@-20(%rbp)", {4, true, USDT_DEREF, 4, -20}},
	{ELF_MACHINE_X86_64, "8@(%rax)", {8, false, USDT_DEREF, 10, 0}},
	{ELF_MACHINE_X86_64, "8@%r12", {8, false, USDT_REG, 3, 0}},
	{ELF_MACHINE_X86_64, "-4@%ebp", {4, true, USDT_REG, 4, 0}},
	{ELF_MACHINE_X86_64, "1@%dil", {1, false, USDT_REG, 14, 0}},
	{ELF_MACHINE_X86_64, "4@$5", {4, false, USDT_CONST, 0, 5}},
	{ELF_MACHINE_X86_64, "-8@$-7", {8, true, USDT_CONST, 0, -7}},
	{ELF_MACHINE_X86_64, "8@name(%rip)", {.where = USDT_UNKNOWN}},
	{ELF_MACHINE_X86_64, "8@4(%rip)", {.where = USDT_UNKNOWN}},
	{ELF_MACHINE_X86_64, "8@(%rax,%rcx,8)", {.where = USDT_UNKNOWN}},
	{ELF_MACHINE_X86_64, "8@name+4(%rax)", {.where = USDT_UNKNOWN}},
	{ELF_MACHINE_X86_64, "8f@%xmm0", {.where = USDT_UNKNOWN}},
	{ELF_MACHINE_X86_64, "1@%ah", {.where = USDT_UNKNOWN}},
	{ELF_MACHINE_X86_64, "3@%rax", {.where = USDT_UNKNOWN}},
	{ELF_MACHINE_X86_64, "%rax", {.where = USDT_UNKNOWN}},
	{ELF_MACHINE_X86_64, "8@", {.where = USDT_UNKNOWN}},
	{ELF_MACHINE_X86_64, "8@99999999999999999999(%rax)", {.where = USDT_UNKNOWN}},
	{ELF_MACHINE_AARCH64, "8@x0", {8, false, USDT_REG, 0, 0}},
	{ELF_MACHINE_AARCH64, "-4@w19", {4, true, USDT_REG, 19, 0}},
	{ELF_MACHINE_AARCH64, "-4@[sp, 60]", {4, true, USDT_DEREF, 31, 60}},
	{ELF_MACHINE_AARCH64, "8@[x3]", {8, false, USDT_DEREF, 3, 0}},
	{ELF_MACHINE_AARCH64, "8@[x3, #-8]", {8, false, USDT_DEREF, 3, -8}},
	{ELF_MACHINE_AARCH64, "4@5", {4, false, USDT_CONST, 0, 5}},
	{ELF_MACHINE_AARCH64, "8@x31", {.where = USDT_UNKNOWN}},
	{ELF_MACHINE_AARCH64, "8@[x3, x4]", {.where = USDT_UNKNOWN}},
	{ELF_MACHINE_AARCH64, "8@[x3", {.where = USDT_UNKNOWN}},
};

TEST(parses_operands)
{
	for (size_t i = 0; i < ARRAY_SIZE(operands); i++) {
		const struct usdt_operand *want = &operands[i].operand;
		struct usdt_operand got[2];

		assert_int_equal(usdt_parse_operands(operands[i].machine, operands[i].text, got, 2), 1);
		if (got->where != want->where || got->size_bytes != want->size_bytes ||
			got->is_signed != want->is_signed || got->reg != want->reg || got->offset != want->offset)
			fail_msg("%s: where %d, size %u, register %u, offset %lld", operands[i].text, got->where,
				got->size_bytes, got->reg, (long long)got->offset);
	}
}

TEST(splits_operands)
{
	struct usdt_operand got[USDT_OPERANDS_MAX];

	assert_int_equal(usdt_parse_operands(ELF_MACHINE_X86_64, "", got, USDT_OPERANDS_MAX), 0);
	assert_int_equal(usdt_parse_operands(ELF_MACHINE_X86_64, "8@%rbx  8@%r15 -4@$1 ", got, USDT_OPERANDS_MAX), 3);
	assert_int_equal(got[1].reg, 0);
	assert_int_equal(got[2].where, USDT_CONST);
	assert_int_equal(usdt_parse_operands(ELF_MACHINE_AARCH64, "8@[sp, 8] 8@x1", got, USDT_OPERANDS_MAX), 2);
	assert_int_equal(got[1].reg, 1);
	assert_int_equal(usdt_parse_operands(ELF_MACHINE_X86_64, "1@$1 1@$2 1@$3", got, 2), 2);
}

TEST(finds_pythons_probes)
{
	struct usdt_site start[8], done[8];
	struct elf_file *elf = NULL;
	_cleanup_close_ int fd = -1;
	glob_t paths;
	int starts, dones;

	if (glob("/usr/bin/python3.[0-9]*[0-9]", 0, NULL, &paths) != 0) {
		print_message("no Python in /usr/bin\n");
		skip();
	}
	fd = open(paths.gl_pathv[0], O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(elf_file_open(fd, &elf), 0);
	starts = elf_file_usdt(elf, "python", "gc__start", start, ARRAY_SIZE(start));
	dones = elf_file_usdt(elf, "python", "gc__done", done, ARRAY_SIZE(done));
	assert_in_range(starts, 1, ARRAY_SIZE(start));
	assert_in_range(dones, 1, ARRAY_SIZE(done));
	assert_int_equal(start[0].operands, 1);
	assert_true(start[0].operand[0].where != USDT_UNKNOWN);
	assert_int_equal(start[0].operand[0].size_bytes, 4);
	assert_true(start[0].semaphore_offset != 0);
	for (int i = 0; i < starts; i++) {
		uint8_t byte;

		/* A probe's site is a nop in the code. */
		assert_int_equal(elf_file_bytes(elf, start[i].file_offset, &byte, 1), 1);
		assert_int_equal(byte, 0x90);
	}
	assert_int_equal(elf_file_usdt(elf, "python", "gc__nothing", start, ARRAY_SIZE(start)), 0);
	assert_int_equal(elf_file_usdt(elf, "python", "gc__start", NULL, 0), starts);
	elf_file_close(elf);
	globfree(&paths);
}

TEST_MAIN(NULL, NULL)
