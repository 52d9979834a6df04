/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Return instructions: known bytes, random bytes, and the functions of real libraries, where objdump is asked too. A
 * library or objdump that is missing is said so.
 */
#include <fcntl.h>
#include <glob.h>

#include "daemon/probes/attachment.h"

#include "tests/test.h"

#define FUNCTIONS_MAX 60000
#define RANDOM_ROUNDS 20000
#define SAMPLE 40 /* functions of a library that objdump is asked about */

TEST(test_known)
{
	static const uint8_t plain[] = {0x55, 0x5d, 0xc3}, two[] = {0x74, 0x01, 0xc3, 0xf3, 0xc3, 0xc2, 0x08, 0x00};
	static const uint8_t inside[] = {0xb8, 0xc3, 0xc3, 0xc3, 0xc3, 0xc3}, none[] = {0xeb, 0xfe},
			     half[] = {0xc3, 0x48};
	static const uint8_t arm[] = {0x1f, 0x20, 0x03, 0xd5, 0xc0, 0x03, 0x5f, 0xd6};
	uint32_t offset[RETURNS_MAX] = {99, 99, 99};

	assert_int_equal(returns_find(ELF_MACHINE_X86_64, plain, sizeof(plain), offset, RETURNS_MAX), 1);
	assert_int_equal(offset[0], 2);
	assert_int_equal(returns_find(ELF_MACHINE_X86_64, two, sizeof(two), offset, RETURNS_MAX), 3);
	assert_int_equal(offset[0], 2);
	assert_int_equal(offset[1], 3);
	assert_int_equal(offset[2], 5);
	assert_int_equal(returns_find(ELF_MACHINE_X86_64, two, sizeof(two), offset, 2), -E2BIG);
	assert_int_equal(returns_find(ELF_MACHINE_X86_64, inside, sizeof(inside), offset, RETURNS_MAX), 1);
	assert_int_equal(offset[0], 5); /* and none of those within the constant */
	assert_int_equal(returns_find(ELF_MACHINE_X86_64, none, sizeof(none), offset, RETURNS_MAX), -ENOENT);
	assert_int_equal(returns_find(ELF_MACHINE_X86_64, half, sizeof(half), offset, RETURNS_MAX), -EILSEQ);
	assert_int_equal(returns_find(ELF_MACHINE_X86_64, plain, 0, offset, RETURNS_MAX), -E2BIG);
	assert_int_equal(returns_find(ELF_MACHINE_AARCH64, arm, sizeof(arm), offset, RETURNS_MAX), 1);
	assert_int_equal(offset[0], 4);
}

TEST(test_random)
{
	static uint8_t code[512];
	uint32_t offset[RETURNS_MAX], seed = 12345;

	for (unsigned round = 0; round < RANDOM_ROUNDS; round++) {
		size_t size = 1 + round % sizeof(code);
		int r;

		for (size_t i = 0; i < size; i++) {
			seed = seed * 1664525 + 1013904223;
			code[i] = seed >> 24;
		}
		r = returns_find(round & 1 ? ELF_MACHINE_AARCH64 : ELF_MACHINE_X86_64, code, size, offset, RETURNS_MAX);
		assert_true(r <= RETURNS_MAX);
		for (int i = 0; i < r; i++)
			assert_true(offset[i] < size && (i == 0 || offset[i] > offset[i - 1]));
	}
}

/* The first byte, past a rep prefix, of the ways to return. */
static bool is_return(const uint8_t *code)
{
	if (*code == 0xf3 || *code == 0xf2) /* rep ret, bnd ret */
		code++;
	return *code == 0xc3 || *code == 0xc2 || *code == 0xcb || *code == 0xca;
}

/* How many returns objdump sees in the function's bytes; -1: it cannot be asked. */
static int ask_objdump(const uint8_t *code, size_t size_bytes)
{
	char file[] = "/tmp/ranktrace-returns-XXXXXX", command[128], line[512];
	int count = 0, fd = mkstemp(file);
	FILE *f;

	assert_true(fd >= 0);
	assert_true(write(fd, code, size_bytes) == (ssize_t)size_bytes);
	close(fd);
	snprintf(command, sizeof(command), "objdump -D -b binary -m i386:x86-64 --no-show-raw-insn %s 2>/dev/null",
		file);
	f = popen(command, "re");
	while (f && fgets(line, sizeof(line), f)) {
		const char *text = strchr(line, '\t');

		text = text ? text + 1 + strspn(text + 1, " ") : "";
		text += strncmp(text, "repz ", 5) == 0 || strncmp(text, "bnd ", 4) == 0 ? strcspn(text, " ") + 1 : 0;
		count += strncmp(text, "ret", 3) == 0;
	}
	unlink(file);
	return f && pclose(f) == 0 ? count : -1;
}

struct tally {
	unsigned functions, found, jumps_only, undecodable, many, asked;
};

static void check_function(
	const char *path, struct elf_file *elf, const struct elf_symbol *symbol, bool ask, struct tally *tally)
{
	uint8_t *code = malloc(symbol->size_bytes);
	uint32_t offset[RETURNS_MAX];
	int r;

	assert_non_null(code);
	if (elf_file_bytes(elf, symbol->file_offset, code, symbol->size_bytes) != (int)symbol->size_bytes) {
		free(code);
		return;
	}
	r = returns_find(elf_file_machine(elf), code, symbol->size_bytes, offset, RETURNS_MAX);
	tally->functions++;
	tally->found += r > 0;
	tally->jumps_only += r == -ENOENT;
	tally->undecodable += r == -EILSEQ;
	tally->many += r == -E2BIG;
	for (int i = 0; i < r; i++)
		if (!is_return(code + offset[i]))
			fail_msg("%s %s+%u is no return", path, symbol->name, offset[i]);
	if (ask && r > 0) {
		int theirs = ask_objdump(code, symbol->size_bytes);

		if (theirs >= 0) {
			tally->asked++;
			if (theirs != r)
				fail_msg("%s %s: %d returns, objdump sees %d", path, symbol->name, r, theirs);
		}
	}
	free(code);
}

static void check_library(const char *path)
{
	struct elf_symbol *symbol = calloc(FUNCTIONS_MAX, sizeof(*symbol));
	struct tally tally = {0};
	struct elf_file *elf = NULL;
	int fd = open(path, O_RDONLY | O_CLOEXEC), count;

	assert_non_null(symbol);
	assert_true(fd >= 0);
	assert_int_equal(elf_file_open(fd, &elf), 0);
	count = elf_file_find_every(elf, "*", symbol, FUNCTIONS_MAX);
	assert_true(count > 0);
	count = count > FUNCTIONS_MAX ? FUNCTIONS_MAX : count;
	for (int i = 0; i < count; i++)
		if (symbol[i].size_bytes > 0 && symbol[i].size_bytes <= RETURNS_FUNCTION_BYTES_MAX)
			check_function(path, elf, &symbol[i], i % (count / SAMPLE + 1) == 0, &tally);
	print_message("%-28s %6u functions: %u with returns, %u with jumps only, %u with more than %d, %u undecodable; "
		      "objdump agrees on %u\n",
		strrchr(path, '/') + 1, tally.functions, tally.found, tally.jumps_only, tally.many, RETURNS_MAX,
		tally.undecodable, tally.asked);
	assert_true(tally.found > tally.functions / 2);
	elf_file_close(elf);
	close(fd);
	free(symbol);
}

TEST(test_real_libraries)
{
	static const char *const patterns[] = {
		"/usr/lib/x86_64-linux-gnu/libc.so.6",
		"/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
		"/usr/lib/x86_64-linux-gnu/libc10.so.*.*.*",
		"/usr/lib/x86_64-linux-gnu/libtorch_python.so.*.*.*",
	};
	unsigned checked = 0;

	for (size_t i = 0; i < ARRAY_SIZE(patterns); i++) {
		glob_t paths;

		if (glob(patterns[i], 0, NULL, &paths) == 0) {
			check_library(paths.gl_pathv[0]);
			checked++;
		} else {
			print_message("%s: not on this machine, skipped\n", patterns[i]);
		}
		globfree(&paths);
	}
	if (!checked)
		skip();
}

TEST_MAIN(NULL, NULL)
