/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accessors: functions compiled here by each compiler at hand, at several levels of optimisation, whose members must be
 * found where offsetof() says; functions that have no one answer, which must get none; and real ones of PyTorch.
 */
#include <fcntl.h>

#include "daemon/probes/accessor.h"

#include "tests/test.h"

/* struct comm is laid out so that no two members share an offset with another's value. */
static const char source[] =
	"#include <stdint.h>\n"
	"struct comm { uint64_t magic; char name[1000]; int rank; int ranks; uint64_t seq; uint8_t flag; struct comm "
	"*next; };\n"
	"#define F __attribute__((visibility(\"default\"), noinline))\n"
	"extern void note(const char *what, ...); extern int check(const struct comm *comm, const char *what);\n"
	"struct range { uint64_t word[8]; }; extern void range_push(struct range *); extern void range_pop(struct "
	"range *);\n"
	"F int get_rank(const struct comm *c) { return c->rank; }\n"
	"F uint64_t get_seq(const struct comm *c) { return c->seq; }\n"
	"F uint8_t get_flag(const struct comm *c) { return c->flag; }\n"
	"F uint64_t next_seq(struct comm *c) { return c->seq++; }\n"
	"F uint64_t next_atomic(struct comm *c) { return __atomic_fetch_add(&c->seq, 1, __ATOMIC_SEQ_CST); }\n"
	"F uint64_t load_atomic(struct comm *c) { return __atomic_load_n(&c->seq, __ATOMIC_SEQ_CST); }\n"
	"F int noted_rank(const struct comm *c) { note(\"rank\"); return c->rank; }\n"
	"F int rank_or(const struct comm *c) { if (!c) return -1; return c->rank; }\n"
	"F int out_rank(const struct comm *c, int *out) { *out = c->rank; return 0; }\n"
	"F int out_ranks(const struct comm *c, int *out)\n"
	"{\n"
	"	struct range range = {{1, 2, 3}};\n"
	"	int r;\n"
	"	range_push(&range);\n"
	"	r = check(c, \"ranks\");\n"
	"	if (r) { note(\"bad %d\", r); range_pop(&range); return r; }\n"
	"	if (!out) { note(\"no out\"); range_pop(&range); return 4; }\n"
	"	if (c->magic != 0x0280028002800280ULL || c->next) { note(\"magic\", c->magic); range_pop(&range); "
	"return 5; }\n"
	"	*out = c->ranks;\n"
	"	note(\"ranks %d\", c->ranks);\n"
	"	range_pop(&range);\n"
	"	return 0;\n"
	"}\n"
	/* No answers: another object's, a sum, one of two, none at all. */
	"F int other_rank(const struct comm *c) { return c->next->rank; }\n"
	"F int sum(const struct comm *c) { return c->rank + c->ranks; }\n"
	"F int either(const struct comm *c) { if (c->magic) return c->rank; return c->ranks; }\n"
	"F int out_either(const struct comm *c, int *out) { if (c->magic) *out = c->rank; else *out = c->ranks; return "
	"0; }\n"
	"F int out_other(const struct comm *c, int *out) { *out = c->magic ? c->rank : check(c, \"\"); return 0; }\n"
	"F int constant(const struct comm *c) { (void)c; return 7; }\n"
	"F int called(const struct comm *c) { return check(c, \"\"); }\n"
	"F const char *address(const struct comm *c) { return c->name; }\n"
	"F int of_second(int n, const struct comm *c) { (void)n; return c->rank; }\n";

struct comm {
	uint64_t magic;
	char name[1000];
	int rank;
	int ranks;
	uint64_t seq;
	uint8_t flag;
	struct comm *next;
};

static const struct {
	const char *name;
	int32_t offset; /* -1: no answer */
	uint8_t size_bytes;
} expected[] = {
	{"get_rank", offsetof(struct comm, rank), 4},
	{"get_seq", offsetof(struct comm, seq), 8},
	{"get_flag", offsetof(struct comm, flag), 1},
	{"next_seq", offsetof(struct comm, seq), 8},
	{"next_atomic", offsetof(struct comm, seq), 8},
	{"load_atomic", offsetof(struct comm, seq), 8},
	{"noted_rank", offsetof(struct comm, rank), 4},
	{"rank_or", offsetof(struct comm, rank), 4},
	{"out_rank", offsetof(struct comm, rank), 4},
	{"out_ranks", offsetof(struct comm, ranks), 4},
	{"other_rank", -1, 0},
	{"sum", -1, 0},
	{"either", -1, 0},
	{"out_either", -1, 0},
	{"out_other", -1, 0},
	{"constant", -1, 0},
	{"called", -1, 0},
	{"address", -1, 0},
	{"of_second", -1, 0},
};

static const char *const builds[] = {"gcc -O0", "gcc -O1", "gcc -O2", "gcc -O3", "gcc -Os",
	"gcc -O2 -fstack-protector-all -fcf-protection=full", "clang -O0", "clang -O1", "clang -O2", "clang -O3",
	"clang --target=aarch64-linux-gnu -O0", "clang --target=aarch64-linux-gnu -O2",
	"clang --target=aarch64-linux-gnu -O3 -mbranch-protection=standard", "aarch64-linux-gnu-gcc -O0",
	"aarch64-linux-gnu-gcc -O2"};

/* Links if a linker for the machine exists; else reads the object file by its symbols. */
static bool build(const char *compiler, const char *dir)
{
	char command[1024];

	snprintf(command, sizeof(command),
		"cd '%s' && rm -f a.so && %s -fPIC -shared -nostdlib -ffreestanding -o a.so a.c 2>/dev/null || "
		"%s -fPIC -shared -nostdlib -ffreestanding -fuse-ld=lld -o a.so a.c 2>/dev/null",
		dir, compiler, compiler);
	return system(command) == 0;
}

static void check_build(const char *compiler, const char *path)
{
	struct elf_file *file = NULL;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(elf_file_open(fd, &file), 0);
	for (size_t i = 0; i < ARRAY_SIZE(expected); i++) {
		struct accessor accessor = {-2, 0};
		int r = accessor_find(file, expected[i].name, &accessor);

		if (expected[i].offset < 0 ? r != -ENOENT && r != -ENOTUNIQ : r < 0)
			fail_msg("%s: %s is %d (%s), offset %d", compiler, expected[i].name, r,
				r < 0 ? accessor_reason(r) : "an answer", accessor.offset);
		if (r == 0 && (accessor.offset != expected[i].offset || accessor.size_bytes != expected[i].size_bytes))
			fail_msg("%s: %s is %d bytes at %d", compiler, expected[i].name, accessor.size_bytes,
				accessor.offset);
	}
	elf_file_close(file);
	close(fd);
}

TEST(test_compiled)
{
	char dir[] = "/tmp/ranktrace-accessor-XXXXXX", path[64], library[64];
	unsigned built = 0;
	FILE *f;

	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/a.c", dir);
	snprintf(library, sizeof(library), "%s/a.so", dir);
	f = fopen(path, "we");
	assert_non_null(f);
	assert_true(fputs(source, f) >= 0);
	assert_int_equal(fclose(f), 0);
	for (size_t i = 0; i < ARRAY_SIZE(builds); i++) {
		if (!build(builds[i], dir)) {
			print_message("no %s here\n", builds[i]);
			continue;
		}
		check_build(builds[i], library);
		built++;
	}
	unlink(path);
	unlink(library);
	rmdir(dir);
	if (!built)
		skip();
}

TEST(test_pytorch)
{
	static const char path[] = "/usr/lib/x86_64-linux-gnu/libtorch_cpu.so.1.13";
	struct elf_file *file = NULL;
	struct accessor accessor;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		skip();
	assert_int_equal(elf_file_open(fd, &file), 0);
	assert_int_equal(accessor_find(file, "_ZN4c10d16ProcessGroupGloo7nextTagEv", &accessor), 0);
	assert_int_equal(accessor.size_bytes, 4);
	assert_in_range(accessor.offset, 16, 4096);
	/* Behind an optional and a mutex. */
	assert_true(accessor_find(file, "_ZN4c10d16ProcessGroupGloo25getSequenceNumberForGroupEv", &accessor) < 0);
	assert_int_equal(accessor_find(file, "no_such_function", &accessor), -ENXIO);
	elf_file_close(file);
	close(fd);
}

/* Bytes that are no code, and code that is cut off: an error or an answer, and an end. */
TEST(test_garbage)
{
	struct accessor accessor;
	uint8_t code[512];
	uint32_t seed = 1;

	for (unsigned round = 0; round < 4000; round++) {
		for (size_t i = 0; i < sizeof(code); i++)
			code[i] = (uint8_t)((seed = seed * 1664525u + 1013904223u) >> 24);
		for (enum elf_machine machine = ELF_MACHINE_X86_64; machine <= ELF_MACHINE_AARCH64; machine++)
			(void)accessor_read(machine, code, 1 + round % sizeof(code), &accessor);
	}
	assert_int_equal(accessor_read(ELF_MACHINE_X86_64, code, 0, &accessor), -E2BIG);
	assert_int_equal(accessor_read(ELF_MACHINE_X86_64, (const uint8_t *)"\xeb\xfe", 2, &accessor), -ENOENT);
}

TEST_MAIN(NULL, NULL)
