/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shipped tables over the real libraries at hand: of each set one variant is placed and it is the one that this
 * version of PyTorch has, every breakpoint is on an instruction of its function, and no argument that is read has been
 * changed before it. RANKTRACE_TEST_ROOTS names folders (by colons) with the roots of other distributions.
 */
#include <capstone/capstone.h>
#include <fcntl.h>
#include <glob.h>

#include "daemon/probes/site.h"

#include "tests/test.h"

#define FOLDER "/usr/lib/x86_64-linux-gnu/"

static struct probe_table table;
static csh disassembler;
static uint32_t specs, specs_max;

static int spec_new(void *arg, const struct site *site, const struct rt_call_spec *spec, uint32_t *ret)
{
	if (specs >= specs_max)
		return -ENOSPC;
	/* What goes to the kernel names slots of struct pt_regs. */
	for (unsigned i = 0; i < spec->args; i++)
		assert_true(spec->arg[i].reg < 24);
	assert_true(site->function_offset > 0);
	*ret = specs++;
	return 0;
}

static const struct attach_engine *engine(void)
{
	static struct attach_engine engine;

	engine = (struct attach_engine){.table = &table, .spec_new = spec_new};
	return &engine;
}

/* Argument registers by number, as their 64-bit names; the disassembler names each write by its widest register. */
static uint32_t args_written(const cs_insn *insn)
{
	static const char *const names[] = {"rdi edi di dil", "rsi esi si sil", "rdx edx dx dl dh", "rcx ecx cx cl ch",
		"r8 r8d r8w r8b", "r9 r9d r9w r9b"};
	cs_regs read, written;
	uint8_t reads, writes;
	uint32_t bits = 0;

	assert_int_equal(cs_regs_access(disassembler, insn, read, &reads, written, &writes), CS_ERR_OK);
	for (uint8_t i = 0; i < writes; i++) {
		const char *name = cs_reg_name(disassembler, written[i]);

		for (unsigned k = 0; k < ARRAY_SIZE(names); k++) {
			const char *at = strstr(names[k], name);

			bits |= at && (at == names[k] || at[-1] == ' ') &&
						(at[strlen(name)] == ' ' || !at[strlen(name)])
					? 1u << k
					: 0;
		}
	}
	return bits;
}

static uint32_t args_needed(const struct probe *probe)
{
	uint32_t bits = probe->spec.symbol_reg ? 1u << (probe->spec.symbol_reg - 1) : 0;

	for (unsigned i = 0; i < probe->spec.args; i++)
		bits |= probe->spec.arg[i].reg ? 1u << (probe->spec.arg[i].reg - 1) : 0;
	return bits;
}

/* From the function's first byte to its last breakpoint, every breakpoint is met as an instruction. */
static void check_site(struct elf_file *elf, const struct site *site)
{
	uint64_t entry = site->entry_offset ? site->entry_offset : site->function_offset,
		 address = site->function_offset;
	uint64_t last = site->returns ? site->return_offset[site->returns - 1] : entry;
	size_t left = last - site->function_offset + 16;
	uint8_t *code = malloc(left);
	const uint8_t *at = code;
	cs_insn *insn = cs_malloc(disassembler);
	bool entered = false;
	uint32_t returns = 0;
	int n;

	assert_non_null(code);
	assert_true(last >= site->function_offset && last < site->function_offset + RETURNS_FUNCTION_BYTES_MAX);
	n = elf_file_bytes(elf, site->function_offset, code, left);
	assert_true(n > 0);
	left = (size_t)n;
	while (cs_disasm_iter(disassembler, &at, &left, &address, insn) && insn->address <= last) {
		entered |= insn->address == entry;
		if (!entered && (args_written(insn) & args_needed(site->probe)))
			fail_msg("%s: %s %s changes an argument before the probe", site->probe->name, insn->mnemonic,
				insn->op_str);
		if (returns < site->returns && insn->address == site->return_offset[returns]) {
			assert_true(cs_insn_group(disassembler, insn, CS_GRP_RET));
			returns++;
		}
	}
	if (!entered || returns != site->returns)
		fail_msg("%s: a breakpoint is within an instruction", site->probe->name);
	cs_free(insn, 1);
	free(code);
}

/* Of the rows that the libraries of one PyTorch have together, a set's used ones are of one variant: the expected
 * one. */
static void check_variant(const bool *used, const char *set, const char *expected, const char *root)
{
	const struct probe *first = NULL;

	for (size_t i = 0; i < table.count; i++) {
		if (!used[i] || !streq(table.probe[i].set, set))
			continue;
		if (first && first->variant != table.probe[i].variant)
			fail_msg("%s: %s and %s are variants of one set", root, first->name, table.probe[i].name);
		first = first ? first : &table.probe[i];
	}
	if (!first || !streq(first->name, expected))
		fail_msg("%s: %s instead of %s", root, first ? first->name : "nothing", expected);
}

static void check_library(const char *path, bool *group_found)
{
	struct library library = {.path = (char *)path, .base_name = strrchr(path, '/') + 1};
	struct elf_file *elf = NULL;
	struct sites sites;
	unsigned emulated = 0, ends = 0, missing_ends = 0;

	specs = 0;
	specs_max = RT_CALL_SPECS_MAX;
	library.fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(library.fd >= 0);
	assert_int_equal(elf_file_open(library.fd, &elf), 0);
	assert_int_equal(sites_find(engine(), &library, &sites), 0);
	for (unsigned i = 0; i < sites.count; i++) {
		const struct site *site = &sites.site[i];

		check_site(elf, site);
		emulated += site->emulated;
		ends += site->returns > 0 || site->return_probe;
		missing_ends +=
			(site->probe->spec.flags & RT_CALL_NEEDS_RETURN) && !site->returns && !site->return_probe;
	}
	print_message(
		"%-28s %2u sites, %2u emulated, %u with returns\n", library.base_name, sites.count, emulated, ends);
	assert_true(sites.count > 0);
	assert_int_equal(missing_ends, 0);
	assert_int_equal(sites.count, specs);
	for (size_t i = 0; i < table.count; i++)
		group_found[i] |= sites.found[i];
	sites_free(&sites);
	specs_max = 1; /* table full: the rest is left out, and what is there is whole */
	specs = 0;
	assert_int_equal(sites_find(engine(), &library, &sites), 0);
	assert_int_equal(sites.count, 1);
	sites_free(&sites);
	elf_file_close(elf);
	close(library.fd);
}

/* What each version of PyTorch has; bpf/probes.d/torch.conf says why. The first row of the variant that must be
 * used. */
static const struct {
	const char *python_library;
	const char *names;
	const char *backward;
} versions[] = {
	{FOLDER "libtorch_python.so.1.13.*", "record_function.byvalue", "backward"},
	{FOLDER "libtorch_python.so.2.6.*", "record_function.box", "backward"},
	{FOLDER "libtorch_python.so.2.14.*", "record_function.box", "backward.engine"},
};

static bool check_found(const char *root, const char *pattern, bool *group_found)
{
	char path[512];
	bool found;
	glob_t paths;

	snprintf(path, sizeof(path), "%s%s", root, pattern);
	found = glob(path, 0, NULL, &paths) == 0;
	if (found)
		check_library(paths.gl_pathv[0], group_found);
	globfree(&paths);
	return found;
}

static unsigned check_root(const char *root)
{
	bool found[PROBES_MAX] = {0}, used[PROBES_MAX] = {0};
	unsigned checked = check_found(root, "/usr/bin/python3.[0-9]*[0-9]", found);

	checked += check_found(root, FOLDER "libtorch_cpu.so.[0-9]*.[0-9]*.[0-9]*", found);
	for (size_t i = 0; i < ARRAY_SIZE(versions); i++) {
		if (!check_found(root, versions[i].python_library, found))
			continue;
		probe_table_choose(&table, found, used);
		check_variant(used, "record_function", versions[i].names, root);
		check_variant(used, "backward", versions[i].backward, root);
		checked++;
	}
	print_message("%u libraries below '%s'\n", checked, root);
	return checked;
}

TEST(test_real_libraries)
{
	const char *roots = getenv("RANKTRACE_TEST_ROOTS");
	char root[256];
	unsigned checked = check_root("");

	for (; roots && *roots; roots += strcspn(roots, ":"), roots += *roots == ':') {
		snprintf(root, sizeof(root), "%.*s", (int)strcspn(roots, ":"), roots);
		checked += check_root(root);
	}
	if (!checked)
		skip();
}

static int start(void **state)
{
	char error[512];

	return probe_table_load_dir(&table, SOURCE_DIR "/bpf/probes.d", error, sizeof(error)) < 0 ||
	       cs_open(CS_ARCH_X86, CS_MODE_64, &disassembler) != CS_ERR_OK ||
	       cs_option(disassembler, CS_OPT_DETAIL, CS_OPT_ON) != CS_ERR_OK;
}

static int stop(void **state)
{
	probe_table_free(&table);
	return cs_close(&disassembler) != CS_ERR_OK;
}

TEST_MAIN(start, stop)
