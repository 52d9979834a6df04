/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The chooser against a disassembler, over the functions of the real libraries on this machine: a chosen offset lies on
 * an instruction boundary, nothing before it branches, writes a needed argument register or moves the stack, and what
 * it stands on is an instruction that the kernel emulates. A library that is missing is said so; all missing is a
 * failure.
 */
#include <capstone/capstone.h>
#include <fcntl.h>
#include <glob.h>
#include "daemon/probes/prologue.h"
#include "daemon/probes/table.h"
#include "tests/test.h"

#define FUNCTIONS_MAX 20000
#define TABLE_MATCHES_MAX 64

static const struct {
	enum x86_reg reg;
	uint32_t bit;
} arg_registers[] = {
	{X86_REG_RDI, 1},
	{X86_REG_EDI, 1},
	{X86_REG_DI, 1},
	{X86_REG_DIL, 1},
	{X86_REG_RSI, 2},
	{X86_REG_ESI, 2},
	{X86_REG_SI, 2},
	{X86_REG_SIL, 2},
	{X86_REG_RDX, 4},
	{X86_REG_EDX, 4},
	{X86_REG_DX, 4},
	{X86_REG_DL, 4},
	{X86_REG_DH, 4},
	{X86_REG_RCX, 8},
	{X86_REG_ECX, 8},
	{X86_REG_CX, 8},
	{X86_REG_CL, 8},
	{X86_REG_CH, 8},
	{X86_REG_R8, 16},
	{X86_REG_R8D, 16},
	{X86_REG_R8W, 16},
	{X86_REG_R8B, 16},
	{X86_REG_R9, 32},
	{X86_REG_R9D, 32},
	{X86_REG_R9W, 32},
	{X86_REG_R9B, 32},
};

struct tally {
	unsigned functions, emulated, at_entry;
};

static csh disassembler;
static unsigned libraries_seen;

static uint32_t written_args(const uint16_t *regs, uint8_t count, bool *ret_stack)
{
	uint32_t bits = 0;

	for (uint8_t i = 0; i < count; i++) {
		for (size_t k = 0; k < ARRAY_SIZE(arg_registers); k++)
			if (regs[i] == arg_registers[k].reg)
				bits |= arg_registers[k].bit;
		*ret_stack |= regs[i] == X86_REG_RSP || regs[i] == X86_REG_ESP || regs[i] == X86_REG_SP ||
			      regs[i] == X86_REG_SPL;
	}
	return bits;
}

static bool leaves(const cs_insn *insn)
{
	return cs_insn_group(disassembler, insn, CS_GRP_JUMP) || cs_insn_group(disassembler, insn, CS_GRP_CALL) ||
	       cs_insn_group(disassembler, insn, CS_GRP_RET) || cs_insn_group(disassembler, insn, CS_GRP_INT);
}

/* By the disassembler's own words, independent of our tables. */
static bool kernel_emulates(const cs_insn *insn)
{
	const cs_x86 *x86 = &insn->detail->x86;

	if (insn->id == X86_INS_NOP)
		return true;
	if (insn->id == X86_INS_PUSH)
		return x86->operands[0].type == X86_OP_REG &&
		       (insn->size == 1 || (insn->size == 2 && insn->bytes[0] == 0x41));
	return (cs_insn_group(disassembler, insn, CS_GRP_JUMP) || cs_insn_group(disassembler, insn, CS_GRP_CALL)) &&
	       x86->operands[0].type == X86_OP_IMM;
}

static void check_choice(const char *name, const uint8_t *code, size_t size, const struct prologue_need *need,
	const struct prologue_choice *choice, cs_insn *insn)
{
	const uint8_t *at = code;
	uint64_t address = 0;

	while (cs_disasm_iter(disassembler, &at, &size, &address, insn)) {
		cs_regs read, written;
		uint8_t reads = 0, writes = 0;
		uint64_t start = address - insn->size;
		bool stack = false;

		if (start == choice->offset_bytes) {
			if (!kernel_emulates(insn))
				fail_msg("%s+%u: %s %s is not emulated", name, choice->offset_bytes, insn->mnemonic,
					insn->op_str);
			return;
		}
		if (start > choice->offset_bytes)
			fail_msg("%s+%u is inside %s %s", name, choice->offset_bytes, insn->mnemonic, insn->op_str);
		if (leaves(insn))
			fail_msg("%s+%u is behind %s %s", name, choice->offset_bytes, insn->mnemonic, insn->op_str);
		assert_int_equal(cs_regs_access(disassembler, insn, read, &reads, written, &writes), CS_ERR_OK);
		if (written_args(written, writes, &stack) & need->arg_regs)
			fail_msg("%s+%u: %s %s changes an argument", name, choice->offset_bytes, insn->mnemonic,
				insn->op_str);
		if (stack && need->entry_stack)
			fail_msg("%s+%u: %s %s moves the stack", name, choice->offset_bytes, insn->mnemonic,
				insn->op_str);
	}
	fail_msg("%s+%u: the disassembler stops before it", name, choice->offset_bytes);
}

static void check_function(struct elf_file *elf, const struct elf_symbol *symbol, const struct prologue_need *need,
	struct tally *tally, cs_insn *insn)
{
	uint8_t code[PROLOGUE_BYTES_MAX + 16];
	struct prologue_choice choice;
	int n = elf_file_bytes(elf, symbol->file_offset, code, sizeof(code));
	size_t size;

	assert_true(n > 0);
	size = symbol->size_bytes && symbol->size_bytes < (size_t)n ? symbol->size_bytes : (size_t)n;
	prologue_choose(ELF_MACHINE_X86_64, code, size, need, &choice);
	tally->functions++;
	tally->emulated += choice.emulated;
	tally->at_entry += !choice.offset_bytes;
	if (choice.emulated)
		check_choice(symbol->name, code, (size_t)n, need, &choice, insn);
	else
		assert_int_equal(choice.offset_bytes, 0);
}

/* Every instruction at a function's start that the decoder says it knows, also where the chooser would not go. */
static unsigned check_decoder(struct elf_file *elf, const struct elf_symbol *symbol, cs_insn *insn)
{
	uint8_t code[PROLOGUE_BYTES_MAX + 16];
	int n = elf_file_bytes(elf, symbol->file_offset, code, sizeof(code));
	const uint8_t *at = code;
	size_t left = n > 0 ? (size_t)n : 0;
	uint64_t address = 0;
	unsigned known = 0;

	while (cs_disasm_iter(disassembler, &at, &left, &address, insn)) {
		struct prologue_insn ours;
		cs_regs read, written;
		uint8_t reads, writes;
		bool stack = false;

		if (!prologue_decode_x86(insn->bytes, insn->size, &ours))
			continue;
		known++;
		assert_int_equal(cs_regs_access(disassembler, insn, read, &reads, written, &writes), CS_ERR_OK);
		if (ours.length_bytes != insn->size || (leaves(insn) && !ours.ends) ||
			written_args(written, writes, &stack) & ~ours.writes_args ||
			(stack && !ours.moves_stack && !leaves(insn)) || (ours.emulated && !kernel_emulates(insn)))
			fail_msg("%s+%u: %s %s is decoded wrongly", symbol->name, (unsigned)(address - insn->size),
				insn->mnemonic, insn->op_str);
	}
	return known;
}

static struct elf_file *open_library(const char *path, int *ret_fd)
{
	struct elf_file *elf = NULL;

	*ret_fd = open(path, O_RDONLY | O_CLOEXEC);
	if (*ret_fd < 0 || elf_file_open(*ret_fd, &elf) < 0)
		return NULL;
	if (elf_file_machine(elf) != ELF_MACHINE_X86_64)
		elf = elf_file_close(elf);
	return elf;
}

static void check_library(const char *path)
{
	static const struct prologue_need needs[] = {{63, true}, {63, false}, {15, true}, {1, false}, {0, true}};
	_cleanup_free_ struct elf_symbol *symbol = calloc(FUNCTIONS_MAX, sizeof(*symbol));
	_cleanup_close_ int fd = -1;
	cs_insn *insn = cs_malloc(disassembler);
	struct tally tally[ARRAY_SIZE(needs)] = {0};
	struct elf_file *elf = open_library(path, &fd);
	unsigned known = 0;
	int count;

	assert_non_null(symbol);
	assert_non_null(insn);
	if (!elf)
		fail_msg("%s cannot be read", path);
	count = elf_file_find_every(elf, "*", symbol, FUNCTIONS_MAX);
	assert_true(count > 0);
	if (count > FUNCTIONS_MAX)
		count = FUNCTIONS_MAX;
	for (int i = 0; i < count; i++) {
		known += check_decoder(elf, &symbol[i], insn);
		for (size_t k = 0; k < ARRAY_SIZE(needs); k++)
			check_function(elf, &symbol[i], &needs[k], &tally[k], insn);
	}
	print_message(
		"%-28s %5u functions, %6u instructions; emulated: %4.1f %% with a return probe and all arguments, "
		"%4.1f %% without return\n",
		strrchr(path, '/') + 1, tally[0].functions, known, 100.0 * tally[0].emulated / tally[0].functions,
		100.0 * tally[1].emulated / tally[1].functions);
	libraries_seen++;
	cs_free(insn, 1);
	elf_file_close(elf);
}

TEST(real_libraries)
{
	static const char *const patterns[] = {
		"/usr/lib/x86_64-linux-gnu/libc.so.6",
		"/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
		"/usr/lib/x86_64-linux-gnu/libsqlite3.so.0",
		"/usr/lib/x86_64-linux-gnu/libcrypto.so.3",
		"/usr/lib/x86_64-linux-gnu/libc10.so.*.*.*",
		"/usr/lib/x86_64-linux-gnu/libtorch_python.so.*.*.*",
		"/usr/lib/x86_64-linux-gnu/libtorch_cpu.so.*.*.*",
		"/usr/bin/python3.[0-9]*[0-9]",
	};
	unsigned missing = 0;

	libraries_seen = 0;
	for (size_t i = 0; i < ARRAY_SIZE(patterns); i++) {
		glob_t paths;

		if (glob(patterns[i], 0, NULL, &paths) == 0) {
			check_library(paths.gl_pathv[0]);
		} else {
			print_message("%s: not on this machine, skipped\n", patterns[i]);
			missing++;
		}
		globfree(&paths);
	}
	print_message("%u libraries checked, %u skipped\n", libraries_seen, missing);
	assert_true(libraries_seen > 0);
}

static struct prologue_need need_of(const struct probe *probe)
{
	struct prologue_need need = {.entry_stack = probe->spec.flags & RT_CALL_NEEDS_RETURN};

	for (unsigned i = 0; i < probe->spec.args; i++)
		if (probe->spec.arg[i].reg)
			need.arg_regs |= 1u << (probe->spec.arg[i].reg - 1);
	if (probe->spec.symbol_reg)
		need.arg_regs |= 1u << (probe->spec.symbol_reg - 1);
	return need;
}

static unsigned check_row(const struct probe *probe, struct elf_file *elf, const char *base, cs_insn *insn)
{
	struct prologue_need need = need_of(probe);
	struct elf_symbol symbol[TABLE_MATCHES_MAX];
	unsigned total = 0;

	for (unsigned s = 0; s < probe->symbols; s++) {
		int count = elf_file_find_every(elf, probe->symbol[s], symbol, ARRAY_SIZE(symbol));

		assert_in_range(count, 0, ARRAY_SIZE(symbol));
		for (int i = 0; i < count; i++) {
			struct tally tally = {0};

			check_function(elf, &symbol[i], &need, &tally, insn);
			print_message(
				"%-28s %-24s %s\n", base, probe->name, tally.emulated ? "emulated" : "single-stepped");
			total++;
		}
	}
	return total;
}

/* Every row of the shipped tables against whatever library of its pattern is here. */
TEST(shipped_tables)
{
	struct probe_table table = {0};
	char error[512];
	cs_insn *insn = cs_malloc(disassembler);
	unsigned probes = 0, files = 0;
	glob_t paths;

	assert_int_equal(probe_table_load_dir(&table, SOURCE_DIR "/bpf/probes.d", error, sizeof(error)), 0);
	glob("/usr/lib/x86_64-linux-gnu/libtorch_*.so.*.*.*", 0, NULL, &paths);
	glob("/usr/bin/python3.[0-9]*[0-9]", GLOB_APPEND, NULL, &paths);
	glob("/usr/local/cuda*/targets/x86_64-linux/lib/libcudart.so.*.*.*", GLOB_APPEND, NULL, &paths);
	for (size_t f = 0; f < paths.gl_pathc; f++) {
		const char *base = strrchr(paths.gl_pathv[f], '/') + 1;
		_cleanup_close_ int fd = -1;
		struct elf_file *elf = open_library(paths.gl_pathv[f], &fd);

		if (!elf)
			continue;
		for (size_t i = 0; i < table.count; i++)
			if (table.probe[i].symbols && probe_matches_library(&table.probe[i], base))
				probes += check_row(&table.probe[i], elf, base, insn);
		files++;
		elf_file_close(elf);
	}
	print_message("%u functions of the shipped tables in %u files\n", probes, files);
	if (!files)
		skip();
	globfree(&paths);
	cs_free(insn, 1);
	probe_table_free(&table);
}

static int start(void **state)
{
	return cs_open(CS_ARCH_X86, CS_MODE_64, &disassembler) != CS_ERR_OK ||
	       cs_option(disassembler, CS_OPT_DETAIL, CS_OPT_ON) != CS_ERR_OK;
}

static int stop(void **state)
{
	return cs_close(&disassembler) != CS_ERR_OK;
}

TEST_MAIN(start, stop)
