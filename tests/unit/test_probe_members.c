/* SPDX-License-Identifier: Apache-2.0 */
/* Members of what pointers lead to: PyTorch's own code for the number of elements, and the rows that ask for it. */
#include "daemon/probes/accessor.h"
#include "daemon/probes/table.h"
#include "tests/test.h"

/* at::FunctionalTensorWrapper::numel_custom() of 1.13: its value's numel_, unless that is of a class that counts
 * itself. */
static const uint8_t numel_1_13[] = {0x48, 0x8b, 0xbf, 0xc0, 0, 0, 0, 0x0f, 0xb6, 0x87, 0xb6, 0, 0, 0, 0xc0, 0xe8, 0x02,
	0x83, 0xe0, 0x03, 0x3c, 0x01, 0x77, 0x08, 0x48, 0x8b, 0x87, 0xa8, 0, 0, 0, 0xc3, 0x48, 0x8b, 0x07, 0xff, 0x60,
	0x50};
/* The same of 2.14, where a function begins with a landing mark. */
static const uint8_t numel_2_14[] = {0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x8b, 0xbf, 0xb0, 0, 0, 0, 0x0f, 0xb6, 0x87, 0xa6, 0,
	0, 0, 0xc0, 0xe8, 0x02, 0x83, 0xe0, 0x03, 0x3c, 0x01, 0x77, 0x0c, 0x48, 0x8b, 0x87, 0x98, 0, 0, 0, 0xc3, 0x0f,
	0x1f, 0x40, 0x00, 0x48, 0x8b, 0x07, 0xff, 0x60, 0x68};
/* ldr x0, [x0, #0xc0]; ldr x0, [x0, #0xa8]; ret */
static const uint8_t inner_arm64[] = {0x00, 0x60, 0x40, 0xf9, 0x00, 0x54, 0x40, 0xf9, 0xc0, 0x03, 0x5f, 0xd6};
/* mov 0xac(%rdi),%eax; ret */
static const uint8_t plain[] = {0x8b, 0x87, 0xac, 0, 0, 0, 0xc3};
/* mov 0xc0(%rdi),%rax; mov 0x8(%rax),%rax; mov 0x10(%rax),%rax; ret */
static const uint8_t too_deep[] = {
	0x48, 0x8b, 0x87, 0xc0, 0, 0, 0, 0x48, 0x8b, 0x40, 0x08, 0x48, 0x8b, 0x40, 0x10, 0xc3};

TEST(members_of_parts_are_found)
{
	struct accessor accessor;

	assert_int_equal(accessor_read_part(ELF_MACHINE_X86_64, numel_1_13, sizeof(numel_1_13), &accessor), 0);
	assert_int_equal(accessor.offset, 0xa8);
	assert_int_equal(accessor.size_bytes, 8);
	assert_int_equal(accessor_read_part(ELF_MACHINE_X86_64, numel_2_14, sizeof(numel_2_14), &accessor), 0);
	assert_int_equal(accessor.offset, 0x98);
	assert_int_equal(accessor_read_part(ELF_MACHINE_AARCH64, inner_arm64, sizeof(inner_arm64), &accessor), 0);
	assert_int_equal(accessor.offset, 0xa8);
}

/* Neither shape is taken for the other. */
TEST(shapes_are_distinguished)
{
	struct accessor accessor;

	assert_true(accessor_read(ELF_MACHINE_X86_64, numel_1_13, sizeof(numel_1_13), &accessor) < 0);
	assert_true(accessor_read(ELF_MACHINE_AARCH64, inner_arm64, sizeof(inner_arm64), &accessor) < 0);
	assert_true(accessor_read_part(ELF_MACHINE_X86_64, plain, sizeof(plain), &accessor) < 0);
	assert_true(accessor_read_part(ELF_MACHINE_X86_64, too_deep, sizeof(too_deep), &accessor) < 0);
	assert_int_equal(accessor_read(ELF_MACHINE_X86_64, plain, sizeof(plain), &accessor), 0);
	assert_int_equal(accessor.offset, 0xac);
}

#define ROW \
	"[probe \"p\"]\nlevel = L1\nlibrary = lib.so\nsymbol = f\nedge = entry\nevent = op\nfamily = gloo\nop = " \
	"AllReduce\nargs = "

static int parse(struct probe_table *table, const char *args, char *error, size_t size)
{
	char text[512];

	snprintf(text, sizeof(text), ROW "%s\n", args);
	return probe_table_parse(table, "x.conf", text, strlen(text), error, size);
}

TEST(rows_follow_pointers)
{
	struct probe_table table = {0};
	const struct probe *probe;
	char error[256] = "";

	assert_int_equal(parse(&table,
				 "comm:reg(1) seq:member(1,g,4) count:part(3,8,0,g,8) dtype:part(3,0,g,2,8) "
				 "root:member(3,16,g,8,4)",
				 error, sizeof(error)),
		0);
	probe = &table.probe[0];
	assert_int_equal(probe->accessors, 2); /* g in two shapes */
	assert_false(probe->accessor_is_part[0]);
	assert_true(probe->accessor_is_part[1]);
	assert_int_equal(probe->spec.arg[1].hops, 0);
	assert_int_equal(probe->spec.arg[2].hops, 2);
	assert_int_equal(probe->spec.arg[2].offset[0], 8);
	assert_int_equal(probe->accessor_of[2], 2);
	assert_int_equal(probe->spec.arg[3].hops, 1);
	assert_int_equal(probe->spec.arg[3].offset[1], 8);
	assert_int_equal(probe->spec.arg[4].hops, 1);
	assert_int_equal(probe->spec.arg[4].offset[0], 16);
	assert_int_equal(probe->spec.arg[4].offset[1], 4);
	assert_int_equal(probe->accessor_of[4], 1);
	probe_table_free(&table);
}

TEST(bad_rows_are_refused)
{
	static const char *const bad[] = {"part(3,0,0,0,g,8)", "part(3,0,0,8)", "part(3,g)", "part(3,0,0,g,3)",
		"part(3,g,8,x)", "part(3,0,0,g,8,1,1)", "part(3,0,,8)", "member(3,99999999,g,8)"};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct probe_table table = {0};
		char error[256] = "";

		assert_true(parse(&table, bad[i], error, sizeof(error)) < 0);
		assert_true(strstr(error, "x.conf:") == error);
		probe_table_free(&table);
	}
}

TEST_MAIN(NULL, NULL)
