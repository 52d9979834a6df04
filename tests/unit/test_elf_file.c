/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ELF files: symbols against the dynamic linker's own answer, patterns, and copies that are cut short, mutated, or
 * shrink while they are open.
 */
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include "daemon/probes/elf_file.h"

#include "tests/test.h"

#define COPY_BYTES_MAX (4u << 20)

TEST(matches_patterns)
{
	static const struct {
		const char *pattern, *text;
		bool matches;
	} cases[] = {
		{"a", "a", true},
		{"a", "b", false},
		{"", "", true},
		{"", "a", false},
		{"*", "", true},
		{"*", "abc", true},
		{"a*", "abc", true},
		{"a*c", "abc", true},
		{"a*c", "abcd", false},
		{"a*b*c", "aXbXbXc", true},
		{"?", "", false},
		{"a?c", "abc", true},
		{"**a", "bba", true},
		{"a[b]", "ab", false},
		{"a[b]", "a[b]", true},
		{"a*a*a*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		if (pattern_matches(cases[i].pattern, cases[i].text) != cases[i].matches)
			fail_msg("%s on %s", cases[i].pattern, cases[i].text);
	assert_int_equal(pattern_literal_bytes("ab*c"), 2);
	assert_int_equal(pattern_literal_bytes("abc"), 3);
}

/* Asked of the library itself: a sanitizer's own qsort stands before it in the program. */
static void *c_function(const char *function)
{
	void *library = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
	void *address;

	assert_non_null(library);
	address = dlsym(library, function);
	assert_non_null(address);
	dlclose(library);
	return address;
}

/* Path of the C library, and a function's address in it. */
static const char *c_library(const char *function, uint64_t *ret_vaddr)
{
	Dl_info info;
	void *address = c_function(function);

	assert_true(dladdr(address, &info) != 0);
	*ret_vaddr = (uint64_t)((uintptr_t)address - (uintptr_t)info.dli_fbase);
	return info.dli_fname;
}

static struct elf_file *must_open(int fd)
{
	struct elf_file *elf = NULL;

	assert_int_equal(elf_file_open(fd, &elf), 0);
	return elf;
}

TEST(finds_what_the_linker_finds)
{
	static const char *const patterns[] = {
		"qsort", "no_such_function", "getad*info", "getaddrinfo", "qsort", "strlen"};
	struct elf_symbol symbol[ARRAY_SIZE(patterns)], one, every[4];
	bool found[ARRAY_SIZE(patterns)];
	uint64_t vaddr;
	_cleanup_close_ int fd = open(c_library("qsort", &vaddr), O_RDONLY | O_CLOEXEC);
	struct elf_file *elf = must_open(fd);
	uint8_t code[16];

	assert_int_equal(elf_file_find(elf, "qsort", &one), 0);
	/* Code is mapped where it lies in the file, in every library of this kind. */
	assert_int_equal(one.file_offset, vaddr);
	assert_true(one.size_bytes > 0);
	assert_int_equal(elf_file_bytes(elf, one.file_offset, code, sizeof(code)), sizeof(code));
	assert_memory_equal(code, c_function("qsort"), sizeof(code));

	/* strlen is an indirect function, whose own code is only the choice. */
	assert_int_equal(elf_file_find_all(elf, patterns, ARRAY_SIZE(patterns), symbol, found), 4);
	assert_true(found[0] && !found[1] && found[2] && found[3] && found[4] && !found[5]);
	assert_int_equal(symbol[0].file_offset, one.file_offset);
	assert_int_equal(symbol[4].file_offset, one.file_offset);
	assert_int_equal(symbol[2].file_offset, symbol[3].file_offset);
	assert_string_equal(symbol[2].name, "getaddrinfo");

	assert_int_equal(elf_file_find(elf, "no_such*", &one), -ENOENT);
	assert_int_equal(elf_file_find_every(elf, "qsort*", every, ARRAY_SIZE(every)), 2);
	assert_true(every[0].file_offset < every[1].file_offset);
	assert_int_equal(elf_file_find_every(elf, "*", NULL, 0), elf_file_find_every(elf, "**", every, 1));
	assert_true(elf_file_find_every(elf, "*", NULL, 0) > 1000);
	assert_int_equal(elf_file_bytes(elf, 0, code, sizeof(code)), -ENOENT);
	elf_file_close(elf);
}

static __attribute__((noinline, used)) int a_local_function(int x)
{
	return x * 7 + 1;
}

/* Our own static function is in .symtab alone. */
TEST(finds_local_symbols)
{
	_cleanup_close_ int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct elf_file *elf = must_open(fd);
	struct elf_symbol symbol;
	uint8_t code[4];

	assert_int_equal(elf_file_find(elf, "a_local_func*", &symbol), 0);
	assert_string_equal(symbol.name, "a_local_function");
	assert_true(symbol.size_bytes >= sizeof(code));
	assert_int_equal(elf_file_bytes(elf, symbol.file_offset, code, sizeof(code)), sizeof(code));
	assert_memory_equal(code, (const void *)(uintptr_t)a_local_function, sizeof(code));
	elf_file_close(elf);
}

/* Two functions as a compiler leaves them that has split the unlikely part off: it lies first and has the longer
 * name. */
__asm__(".pushsection .text\n"
	".type elf_split_me.cold, %function\nelf_split_me.cold:\n\tnop\n\tnop\n.size elf_split_me.cold, 2\n"
	".type elf_split_me, %function\nelf_split_me:\n\tnop\n.size elf_split_me, 1\n"
	".popsection\n");

TEST(takes_no_split_part_for_its_function)
{
	struct elf_symbol symbol, every[4];
	struct elf_file *file;
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	assert_int_equal(elf_file_open(fd, &file), 0);
	assert_int_equal(elf_file_find(file, "elf_split_m*", &symbol), 0);
	assert_string_equal(symbol.name, "elf_split_me");
	assert_int_equal(elf_file_find_every(file, "elf_split_m*", every, ARRAY_SIZE(every)), 1);
	assert_int_equal(elf_file_find(file, "elf_split_me.cold", &symbol), 0); /* asked for by its name it is found */
	elf_file_close(file);
	close(fd);
}

TEST(refuses_what_is_no_library)
{
	struct elf_file *elf = NULL;
	_cleanup_close_ int text = open("/etc/passwd", O_RDONLY | O_CLOEXEC);
	_cleanup_close_ int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	_cleanup_close_ int empty = memfd_create("empty", MFD_CLOEXEC);

	assert_int_equal(elf_file_open(text, &elf), -ENOEXEC);
	assert_int_equal(elf_file_open(null, &elf), -ENOEXEC);
	assert_int_equal(elf_file_open(empty, &elf), -ENOEXEC);
	assert_true(elf_file_open(-1, &elf) < 0);
	assert_null(elf);
	assert_null(elf_file_close(NULL));
}

static size_t read_copy(uint8_t **ret)
{
	uint64_t vaddr;
	_cleanup_close_ int fd = open(c_library("qsort", &vaddr), O_RDONLY | O_CLOEXEC);
	ssize_t n;

	*ret = malloc(COPY_BYTES_MAX);
	assert_non_null(*ret);
	n = read(fd, *ret, COPY_BYTES_MAX);
	assert_true(n > 4096);
	return (size_t)n;
}

/* Whatever it answers, it answers, and what it finds lies in the file. */
static void use(int fd, size_t size)
{
	static const char *const patterns[] = {"qsort", "get*", "*"};
	struct elf_symbol symbol[ARRAY_SIZE(patterns)];
	bool found[ARRAY_SIZE(patterns)];
	struct usdt_site site[4];
	struct elf_file *elf = NULL;
	uint8_t code[64];

	if (elf_file_open(fd, &elf) < 0)
		return;
	if (elf_file_find_all(elf, patterns, ARRAY_SIZE(patterns), symbol, found) >= 0)
		for (size_t i = 0; i < ARRAY_SIZE(patterns); i++)
			if (found[i]) {
				assert_true(symbol[i].file_offset < size);
				assert_true(strlen(symbol[i].name) > 0);
				elf_file_bytes(elf, symbol[i].file_offset, code, sizeof(code));
			}
	elf_file_find_every(elf, "q*", symbol, ARRAY_SIZE(patterns));
	elf_file_usdt(elf, "libc", "setjmp", site, ARRAY_SIZE(site));
	elf_file_close(elf);
}

TEST(survives_cut_files)
{
	_cleanup_free_ uint8_t *copy = NULL;
	size_t size = read_copy(&copy);
	_cleanup_close_ int fd = memfd_create("cut", MFD_CLOEXEC);

	assert_int_equal(pwrite(fd, copy, size, 0), (ssize_t)size);
	for (size_t n = size; n > 0; n -= n > 4096 ? size / 61 + 1 < n ? size / 61 + 1 : n : n > 64 ? 64 : 1) {
		assert_int_equal(ftruncate(fd, (off_t)n), 0);
		use(fd, n);
	}
}

TEST(survives_shrinking_while_open)
{
	_cleanup_free_ uint8_t *copy = NULL;
	size_t size = read_copy(&copy);
	_cleanup_close_ int fd = memfd_create("shrink", MFD_CLOEXEC);
	struct elf_symbol symbol;
	struct elf_file *elf;

	assert_int_equal(pwrite(fd, copy, size, 0), (ssize_t)size);
	elf = must_open(fd);
	assert_int_equal(ftruncate(fd, 4096), 0);
	assert_int_equal(elf_file_find(elf, "qsort", &symbol), -EBADMSG);
	elf_file_close(elf);
}

static uint64_t next_random(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

/* Wrong bytes in the file header, the program headers and, mostly, the section headers, where the offsets are. */
TEST(survives_wrong_numbers)
{
	static const uint8_t nasty[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
	_cleanup_free_ uint8_t *copy = NULL;
	size_t size = read_copy(&copy);
	_cleanup_close_ int fd = memfd_create("wrong", MFD_CLOEXEC);
	uint64_t seed = 88172645463325252ULL;
	const Elf64_Ehdr *header = (const Elf64_Ehdr *)(void *)copy;

	assert_true(header->e_shoff < size);
	assert_int_equal(pwrite(fd, copy, size, 0), (ssize_t)size);
	for (unsigned round = 0; round < 1500; round++) {
		uint64_t offsets[3];

		for (size_t i = 0; i < ARRAY_SIZE(offsets); i++) {
			uint64_t r = next_random(&seed);

			offsets[i] = r % 4 == 0 ? r / 8 % 1024 : header->e_shoff + r / 8 % (size - header->e_shoff);
			assert_int_equal(pwrite(fd, &nasty[r / 4 % ARRAY_SIZE(nasty)], 1, (off_t)offsets[i]), 1);
		}
		use(fd, size);
		for (size_t i = 0; i < ARRAY_SIZE(offsets); i++)
			assert_int_equal(pwrite(fd, copy + offsets[i], 1, (off_t)offsets[i]), 1);
	}
	use(fd, size);
}

TEST_MAIN(NULL, NULL)
