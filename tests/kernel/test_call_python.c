/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts in objects of CPython, and PyTorch's operator call: objects made up in the layouts of CPython 3.11, 3.12
 * and 3.14, so that what is read does not depend on the Python of this machine.
 */
#include "tests/kernel/call_fixture.h"

#define COMPACT_ASCII (1u << 5 | 1u << 6)
#define WIDE (1u << 5 | 2u << 2) /* compact, two bytes a unit */
#define TYPE_TUPLE (1UL << 26)
#define TYPE_STR (1UL << 28)

static const char table_text[] =
	"[probe "
	"\"string\"]\nlevel=L1\nlibrary=libcall_target.so\nsymbol=target_pystring\nedge=begin\nargs=pystring(1)\n"
	"[probe \"tuple\"]\nlevel=L1\nlibrary=libcall_target.so\nsymbol=target_pytuple\nedge=begin\nargs=pytuple(1)\n"
	"[probe "
	"\"mark\"]\nlevel=L1\nlibrary=libcall_target.so\nsymbol=target_mark\nedge=mark\nargs=pytuple(2)\nsymbol_reg="
	"1\n";

struct type {
	uint64_t head[3];
	const char *name; /* 24 */
	uint64_t more[17];
	uint64_t flags; /* 168 */
};

_Static_assert(offsetof(struct type, flags) == 168, "as in PyTypeObject");

struct object {
	uint64_t references;
	const struct type *type;
	uint64_t word[16];
};

/* How one line of versions differs from the others. */
static const struct layout {
	const char *name;
	unsigned text_at;  /* words behind the object's head */
	unsigned units_at; /* of a text that is not ASCII */
	unsigned items_at;
} layouts[] = {{"3.11", 4, 7, 1}, {"3.12", 3, 5, 1}, {"3.14", 3, 5, 2}};

static const struct layout *layout;

static struct object make_string(const struct type *type, const char *text)
{
	struct object string = {1, type, {strlen(text), 0x1234, COMPACT_ASCII}};

	memcpy(&string.word[layout->text_at], text, strlen(text) + 1);
	return string;
}

static struct object make_tuple(const struct type *type, uint64_t size, const void *first, const void *second)
{
	struct object tuple = {1, type, {size, ~0ULL}};

	tuple.word[layout->items_at] = (uintptr_t)first;
	tuple.word[layout->items_at + 1] = (uintptr_t)second;
	return tuple;
}

static const uint16_t wide_text[] = {0x8bad, 0x7ec3, 0x6b65};

static void objects(void)
{
	struct type str = {.name = "str", .flags = TYPE_STR}, tuple = {.name = "tuple", .flags = TYPE_TUPLE};
	struct type none = {.name = "NoneType"};
	struct object nothing = {1, &none, {0}};
	struct object hello = make_string(&str, "Optimizer.step#SGD.step"), empty = make_string(&str, "");
	struct object wide = {1, &str, {3, 0x1234, WIDE}}, old = {1, &str, {3, 0x1234, 0}}, pair, single, wrong;
	const void *reference;

	memcpy(&wide.word[layout->units_at], wide_text, sizeof(wide_text));
	target_pystring(&hello);
	target_pystring(&empty);
	target_pystring(&wide);
	target_pystring(&old);
	target_pystring(&nothing);
	target_pystring(NULL);
	target_pystring((void *)8);
	pair = make_tuple(&tuple, 2, &hello, &nothing);
	single = make_tuple(&tuple, 1, &nothing, NULL);
	wrong = make_tuple(&str, 1, &hello, NULL);
	reference = &pair;
	target_pytuple(&reference);
	reference = &single;
	target_pytuple(&reference);
	reference = &wrong;
	target_pytuple(&reference);
	target_pytuple(NULL);
}

static void check_text(const struct rt_call_text_event *record, const char *text)
{
	assert_true(record->call.event.flags & RT_CALL_TEXT);
	assert_int_equal(record->call.text_bytes, strlen(text));
	assert_memory_equal(record->text, text, strlen(text));
}

TEST(test_texts)
{
	for (layout = layouts; layout < layouts + ARRAY_SIZE(layouts); layout++) {
		print_message("CPython %s\n", layout->name);
		run_child(objects, true);
		assert_int_equal(count_of("string").begins, 7);
		assert_int_equal(count_of("string").texts, 3);
		check_text(record_of("string", 0), "Optimizer.step#SGD.step");
		check_text(record_of("string", 1), "");
		assert_int_equal(RT_CALL_UNIT_BYTES(record_of("string", 0)->call.event.flags), 0);
		assert_int_equal(RT_CALL_UNIT_BYTES(record_of("string", 2)->call.event.flags), 2);
		assert_int_equal(record_of("string", 2)->call.text_bytes, sizeof(wide_text));
		assert_memory_equal(record_of("string", 2)->text, wide_text, sizeof(wide_text));
		assert_true(record_of("string", 3)->call.event.flags & RT_CALL_FAULT); /* not compact */
		assert_int_equal(count_of("tuple").begins, 4);
		assert_int_equal(count_of("tuple").texts, 1);
		check_text(record_of("tuple", 0), "Optimizer.step#SGD.step");
	}
}

enum { ENTER = 1000, FAR = 500 };

static void marks(void)
{
	struct type str = {.name = "str", .flags = TYPE_STR}, tuple = {.name = "tuple", .flags = TYPE_TUPLE};
	struct type none = {.name = "NoneType"}, tensor = {.name = "torch.Tensor"},
		    script = {.name = "torch.ScriptObject"};
	struct object nothing = {1, &none, {0}}, handle = {1, &tensor, {0}}, boxed = {1, &script, {0}};
	struct object name = make_string(&str, "forward");
	struct object begin = make_tuple(&tuple, 2, &name, &nothing), end = make_tuple(&tuple, 1, &handle, NULL);
	struct object other = make_tuple(&tuple, 2, &handle, &nothing), named_end = make_tuple(&tuple, 1, &boxed, NULL);
	struct object three = make_tuple(&tuple, 3, &name, &nothing), none_at_all = make_tuple(&tuple, 0, NULL, NULL);
	const void *reference = &end;

	target_mark(ENTER + 1, &reference); /* before any enter is known: any operator of one argument */
	reference = &begin;
	target_mark(ENTER, &reference);
	reference = &other;
	target_mark(ENTER + 1, &reference);
	reference = &three;
	target_mark(ENTER + 1, &reference);
	reference = &none_at_all;
	target_mark(ENTER + 1, &reference);
	reference = &end;
	target_mark(FAR, &reference);
	target_mark(ENTER, &reference);
	target_mark(ENTER + 2, &reference); /* the exit */
	reference = &named_end;
	target_mark(FAR, &reference); /* an exit by its handle's type */
	target_mark(FAR, NULL);
}

TEST(test_marks)
{
	for (layout = layouts; layout < layouts + ARRAY_SIZE(layouts); layout++) {
		print_message("CPython %s\n", layout->name);
		run_child(marks, true);
		assert_int_equal(fixture.seen, 3);
		check_text(record_of("mark", 0), "forward");
		assert_int_equal(count_of("mark").begins, 1);
		assert_int_equal(count_of("mark").ends, 2);
	}
}

CALL_TEST_MAIN(table_text, fixture_level_on)
