/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What readers bring from the running kernel: arguments on the stack, structures passed by value, out parameters,
 * paths, hashes, members found by accessors, a call's text. In each way that the engine can attach.
 */
#include <sys/mman.h>

#include "tests/kernel/call_fixture.h"

#define ROW(name, symbol, edge) \
	"[probe \"" name "\"]\nlevel=L1\nlibrary=libcall_target.so\nsymbol=" symbol "\nedge=" edge \
	"\nevent=op\nfamily=test\n"

static const char table_text[] = ROW("many", "target_many", "call") "args=reg(1) reg(6) s32(7) u32(7) reg(8)\n" ROW(
	"many.entry", "target_many", "entry") "args=reg(6) s32(7) reg(8)\n"
	/* A structure that is passed by value lies on the stack, or elsewhere with its address in a register. */
	ROW("init", "target_init",
		"call") "arch=x86_64\nresult=yes\n"
			"args=comm:out(1,8) identity:hash(stack,128) digest(stack,128) deref(stack,120,8) s32(3) "
			"deref(stack,0,1)\n" ROW("init.arm64", "target_init",
				"call") "arch=aarch64\nresult=yes\n"
					"args=comm:out(1,8) identity:hash(3,128) digest(3,128) deref(3,120,8) s32(4) "
					"deref(3,0,1)\n" ROW("read", "target_read",
						"call") "args=path(1,216,208,4) path(1,216,216,212,4) deref(1,212,4) "
							"hash(2,7) digest(2,13)"
							" member:member(1,target_comm_rank,4) "
							"members:member(1,target_comm_ranks,4) "
							"member(1,target_comm_rank,4,4)\n" ROW("named", "target_op",
								"call") "args=reg(2) cstring(1,224,0)\n" ROW("named."
													     "inner",
								"target_op",
								"entry") "args=cstring(1,216,224,0)\n" ROW("unclear",
								"target_op",
								"entry") "args=member(1,target_comm_"
									 "unclear,4)\n" ROW("nowhere", "target_op",
										 "entry") "args=member(1,"
											  "target_comm_"
											  "absent,4)\n";

#if defined(__x86_64__)
#define INIT_ROW "init"
#else
#define INIT_ROW "init.arm64"
#endif

static const struct target_comm inner_most = {.rank = 31, .ranks = 32, .name = "inner most"};
static const struct target_comm inner = {.rank = -21, .ranks = 22, .inner = &inner_most, .name = "inner"};
static const struct target_comm comm = {.rank = 11, .ranks = 12, .inner = &inner, .name = "a group's name"};
static struct target_id id;

static void make_id(void)
{
	for (size_t i = 0; i < sizeof(id.bytes); i++)
		id.bytes[i] = (char)(i * 37 + 129);
}

/* The two hashes once more, straight from what they are said to be. */
#if defined(__x86_64__)
static uint64_t hash(size_t bytes)
{
	uint64_t result = 5381;

	for (size_t i = 0; i < bytes; i++)
		result = (result * 33) ^ (uint64_t)(int64_t)id.bytes[i];
	return result;
}
#endif

static uint64_t digest(size_t bytes)
{
	uint64_t sum[2] = {1 ^ bytes, 1};

	for (size_t i = 0; i < bytes; i += 8) {
		uint64_t word = 0;

		memcpy(&word, id.bytes + i, bytes - i < 8 ? bytes - i : 8);
		sum[0] += sum[1];
		sum[1] ^= sum[0];
		sum[0] ^= sum[0] >> 31;
		sum[0] *= 0x9de62bbc8cef3ce3ULL;
		sum[1] ^= sum[1] >> 32;
		sum[1] *= 0x485cd6311b599e79ULL;
		sum[0] += word;
	}
	sum[0] ^= sum[0] >> 31;
	sum[0] = sum[0] * 0xbac3bd562846de6bULL + sum[1];
	sum[0] ^= sum[0] >> 32;
	return sum[0] * 0x995a187a14e7b445ULL;
}

static void many(void)
{
	if (target_many(1, 2, 3, 4, 5, 6, -7, 8000000000, 9) != -7)
		_exit(2);
}

TEST(test_arguments_on_the_stack)
{
	const struct rt_call_event *event;

	run_child(many, true);
	assert_int_equal(count_of("many").calls, 1);
	event = &record_of("many", 0)->call;
	assert_int_equal(event->arg[0], 1);
	assert_int_equal(event->arg[1], 6);
	assert_int_equal((int64_t)event->arg[2], -7);
	assert_int_equal(event->arg[3], 0xfffffff9);
	assert_int_equal(event->arg[4], 8000000000);
	assert_int_equal(event->event.flags & RT_CALL_FAULT, 0);
	event = &record_of("many.entry", 0)->call;
	assert_int_equal(event->arg[0], 6);
	assert_int_equal((int64_t)event->arg[1], -7);
	assert_int_equal(event->arg[2], 8000000000);
}

static void init(void)
{
	const struct target_comm *made = NULL;

	if (target_init(&made, &comm, id, -3) != -3 || made != &comm)
		_exit(3);
}

TEST(test_out_and_by_value)
{
	const struct rt_call_event *event;
	uint64_t word;

	make_id();
	run_child(init, true);
	event = &record_of(INIT_ROW, 0)->call;
	assert_int_equal(event->arg[0], (uintptr_t)&comm);
#if defined(__x86_64__)
	assert_int_equal(event->arg[1], hash(128));
#endif
	assert_int_equal(event->arg[2], digest(128));
	memcpy(&word, id.bytes + 120, 8);
	assert_int_equal(event->arg[3], word);
	assert_int_equal((int64_t)event->arg[4], -3);
	assert_int_equal(event->arg[5], (uint8_t)id.bytes[0]);
	assert_int_equal((int32_t)event->result, -3);
}

/* Whatever the compiler knows of it: an arm64 may mark a page as used by a fault, which a program in the kernel does
 * not make. */
static int touch(const volatile struct target_comm *touched)
{
	return touched->rank;
}

static void read_comm(void)
{
	void *nowhere = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (touch(&comm) + touch(&inner) + touch(&inner_most) != 21 || id.bytes[0] == 0)
		_exit(4);
	target_read(&comm, &id);
	target_read(NULL, nowhere);
}

TEST(test_paths_hashes_members)
{
	const struct rt_call_event *event;

	make_id();
	run_child(read_comm, true);
	assert_int_equal(count_of("read").calls, 2);
	event = &record_of("read", 0)->call;
	assert_int_equal(event->event.flags & RT_CALL_FAULT, 0);
	assert_int_equal(event->arg[0], (uint32_t)-21);
	assert_int_equal(event->arg[1], 32);
	assert_int_equal(event->arg[2], 12);
#if defined(__x86_64__)
	assert_int_equal(event->arg[3], hash(7));
#endif
	assert_int_equal(event->arg[4], digest(13));
	assert_int_equal(event->arg[5], 11);
	assert_int_equal(event->arg[6], 12);
	assert_int_equal(event->arg[7], 12);
	event = &record_of("read", 1)->call;
	assert_int_equal(event->event.flags & RT_CALL_FAULT, RT_CALL_FAULT);
	for (unsigned i = 0; i < RT_CALL_ARGS_MAX; i++)
		assert_int_equal(event->arg[i], 0);
}

static void named(void)
{
	struct target_comm local = comm;
	char text[] = "a group's name", deep[] = "inner";
	struct target_comm below = inner;

	local.name = text;
	local.inner = &below;
	below.name = deep;
	target_op(&local, 5);
	target_op(NULL, 6);
}

TEST(test_texts)
{
	const struct rt_call_text_event *record;

	run_child(named, true);
	record = record_of("named", 0);
	assert_int_equal(record->call.arg[0], 5);
	assert_int_equal(record->call.event.flags & RT_CALL_TEXT, RT_CALL_TEXT);
	assert_int_equal(record->call.text_bytes, 14);
	assert_memory_equal(record->text, "a group's name", 14);
	assert_int_equal(record_of("named.inner", 0)->call.text_bytes, 5);
	assert_memory_equal(record_of("named.inner", 0)->text, "inner", 5);
	record = record_of("named", 1);
	assert_int_equal(record->call.arg[0], 6);
	assert_int_equal(record->call.event.flags & (RT_CALL_TEXT | RT_CALL_FAULT), RT_CALL_FAULT);
}

TEST(test_unclear_accessors_are_reported)
{
	struct unresolved missing = fixture_missing();

	assert_int_equal(count_of("unclear").begins + count_of("nowhere").begins, 0);
	assert_int_equal(missing.count, 2);
	assert_string_equal(missing.thing[0].probe->name, "unclear");
	assert_non_null(strstr(missing.thing[0].reason, "target_comm_unclear "));
	assert_string_equal(missing.thing[1].probe->name, "nowhere");
	assert_string_equal(missing.thing[1].reason, "target_comm_absent is not in the library");
	unresolved_free(&missing);
}

CALL_TEST_MAIN(table_text, fixture_level_on)
