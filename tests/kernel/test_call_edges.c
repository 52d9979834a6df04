/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The call engine where things are not as they should be: functions that are left without returning, recursion,
 * pointers to nowhere, texts too long, levels toggled while the functions run. In each way that the engine can attach.
 */
#include <alloca.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "bpf/copies.h"
#include "tests/kernel/call_fixture.h"

#define TOGGLES 50
#define LATE 3	       /* of them in a row, in which nobody waits for the kernel */
#define TOGGLES_PERF 5 /* the kernel takes a tenth of a second to close each perf event */

static const char table_text[] =
	"[probe \"call\"]\nlevel=L1\nlibrary=libcall_target.so\nsymbol=target_call\nedge=call\nevent=op\nargs=reg(1) "
	"deref(2,0,4)\n"
	"[probe "
	"\"recurse\"]\nlevel=L1\nlibrary=libcall_target.so\nsymbol=target_recurse\nedge=call\nevent=op\nargs=u32(1)"
	"\nresult=yes\n"
	"[probe \"leave_call\"]\nlevel=L1\nlibrary=libcall_target.so\nsymbol=target_leave_call\nedge=call\nevent=op\n"
	"[probe "
	"\"leave_span\"]\nlevel=L1\nlibrary=libcall_target.so\nsymbol=target_leave_span\nedge=span\nstage=leave\n"
	"[probe "
	"\"wait\"]\nlevel=L1\nlibrary=libcall_target.so\nsymbol=target_comm_rank\nedge=span\nreturn=probe\nresult="
	"yes\nstage=sync\n"
	"[probe \"outer\"]\nlevel=L1\nlibrary=libcall_target.so\nsymbol=target_group_end\nedge=call\nevent=alloc\n"
	"[probe "
	"\"inner\"]\nlevel=L1\nlibrary=libcall_target.so\nsymbol=target_probe\nedge=call\nevent=free\nargs=reg(1)\n"
	"[probe \"copied\"]\nlevel=L1\nlibrary=libcall_target.so\nsymbol=target_many\nedge=entry\nevent=copy_async\n"
	"args=bytes:reg(2) direction:const(3)\n"
	"[probe \"begin\"]\nlevel=L1\nlibrary=libcall_target.so\nsymbol=target_begin\nedge=begin\nargs=stdstring(1)\n"
	"[probe \"end\"]\nlevel=L1\nlibrary=libcall_target.so\nsymbol=target_end\nedge=end\n";

static void recursion(void)
{
	if (target_recurse(5) != 5 || target_recurse(2) != 2)
		_exit(2);
}

TEST(test_recursion_is_one_call)
{
	run_child(recursion, true);
	assert_int_equal(count_of("recurse").calls, 2);
	assert_int_equal(record_of("recurse", 0)->call.arg[0], 5);
	assert_int_equal(record_of("recurse", 0)->call.result, 5);
	assert_int_equal(record_of("recurse", 1)->call.arg[0], 2);
}

static int within(void)
{
	return (int)target_probe(7) + (int)target_call(1, &(int32_t){2}, "");
}

static void call_within_a_call(void)
{
	(void)target_group_end(within);
	(void)target_probe(8);
}

TEST(test_memory_calls_count_once)
{
	run_child(call_within_a_call, true);
	assert_int_equal(count_of("outer").calls, 1);
	/* The call of another event within it is recorded. */
	assert_int_equal(count_of("call").calls, 1);
	assert_int_equal(count_of("inner").calls, 1);
	assert_int_equal(record_of("inner", 0)->call.arg[0], 8);
}

#define LIMITED_CALLS 1000

static void many_calls(void)
{
	for (unsigned i = 0; i < LIMITED_CALLS; i++)
		(void)target_call(1, &(int32_t){2}, "");
}

/* 16 KiB at once, and then almost nothing: calls have all of it. */
TEST(test_calls_have_all_of_a_part)
{
	const struct kernel_limits limits = {.bytes_per_s = 512, .burst_bytes = 16 << 10};
	size_t bytes;

	kernel_limit(fixture.context.kernel, 0, &limits);
	run_child(many_calls, true);
	assert_int_equal(kernel_limited_calls(fixture.context.kernel, 0), LIMITED_CALLS - count_of("call").calls);
	assert_int_equal(kernel_limited_calls(fixture.context.kernel, 0), kernel_limited(fixture.context.kernel, 0));
	kernel_unlimit(fixture.context.kernel, 0);
	bytes = count_of("call").calls * sizeof(struct rt_call_event);
	assert_in_range(bytes, 15 << 10, 17 << 10);
}

#define COPIES 13

static void copies(void)
{
	for (int64_t i = 0; i < COPIES; i++)
		(void)target_many(0, i, 0, 0, 0, 0, 0, 0, 0);
}

TEST(test_a_copy_without_return_is_summed)
{
	struct rt_copies before, after;
	struct rt_copy_sum *from = &before.sum[1][3], *to = &after.sum[1][3];

	assert_true(kernel_copies(fixture.context.kernel, 0, &before));
	run_child(copies, true);
	assert_true(kernel_copies(fixture.context.kernel, 0, &after));
	assert_int_equal(fixture.seen, 0);
	assert_int_equal(to->count - from->count, COPIES);
	assert_int_equal(to->bytes - from->bytes, COPIES * (COPIES - 1) / 2);
	assert_int_equal(to->ns + to->longest_ns + to->held_count, 0);
}

static void leave_and_call_again(void)
{
	jmp_buf where;

	if (setjmp(where) == 0)
		target_leave_call(&where);
	if (setjmp(where) == 0)
		target_leave_span(&where);
	target_end();
	target_leave_call(NULL);
	target_leave_span(NULL);
}

TEST(test_left_by_a_jump)
{
	run_child(leave_and_call_again, true);
	assert_int_equal(count_of("leave_call").calls, 1);
	/* The call that returned, not the one that was left before it. */
	assert_true(record_of("leave_call", 0)->call.start_ns > record_of("end", 0)->call.event.time_ns);
	assert_int_equal(count_of("leave_span").begins, 2);
	assert_int_equal(count_of("leave_span").ends, 1);
	assert_int_equal(record_of("leave_span", 2)->call.event.flags & (RT_CALL_BEGIN | RT_CALL_END), RT_CALL_END);
	/* By which the reader pairs them. */
	assert_true(record_of("leave_span", 1)->call.stack_pointer == record_of("leave_span", 2)->call.stack_pointer);
}

static void wait_and_fail(void)
{
	(void)target_comm_rank(&(struct target_comm){.rank = 0});
	(void)target_comm_rank(&(struct target_comm){.rank = 700});
}

TEST(test_a_stage_has_its_result)
{
	run_child(wait_and_fail, true);
	assert_int_equal(count_of("wait").ends, 2);
	assert_int_equal(record_of("wait", 1)->call.event.flags, RT_CALL_END | RT_CALL_RESULT);
	assert_int_equal(record_of("wait", 1)->call.result, 0);
	assert_int_equal(record_of("wait", 3)->call.event.flags, RT_CALL_END | RT_CALL_RESULT);
	assert_int_equal((int32_t)record_of("wait", 3)->call.result, 700);
	assert_int_equal(record_of("wait", 3)->call.start_ns, record_of("wait", 3)->call.event.time_ns);
}

static int phase[2];

static __attribute__((noinline)) int deeper(void)
{
	volatile char *stack = alloca(4096);

	stack[0] = 1;
	return target_leave_call(NULL) + stack[0];
}

static void leave_then_call_deeper(void)
{
	jmp_buf where;
	char c;

	if (setjmp(where) == 0)
		target_leave_call(&where);
	target_end();
	if (read(phase[0], &c, 1) != 1)
		_exit(3);
	deeper();
	target_leave_call(NULL);
}

static bool keep_none(void *arg, uint32_t pid, const struct probe *probe, uint64_t start_ns)
{
	assert_true(start_ns && start_ns <= monotonic_ns());
	assert_int_equal(pid, fixture.child);
	(*(unsigned *)arg)++;
	return false;
}

TEST(test_swept_calls_hide_no_later_ones)
{
	struct child child;
	unsigned swept = 0;

	assert_int_equal(pipe(phase), 0);
	child = child_start(leave_then_call_deeper, true);
	child_go(&child);
	while (fixture.seen == 0)
		fixture_drain();
	call_engine_sweep(fixture.engine, keep_none, &swept);
	assert_int_equal(swept, 1);
	assert_int_equal(write(phase[1], "x", 1), 1);
	child_end(&child);
	assert_int_equal(count_of("leave_call").calls, 2);
	close(phase[0]);
	close(phase[1]);
}

static void long_texts(void)
{
	char text[200];
	struct target_string string = {text, sizeof(text)};

	memset(text, 'x', sizeof(text));
	target_begin(&string);
	string.length = RT_CALL_TEXT_MAX;
	target_begin(&string);
	string.length = RT_CALL_TEXT_MAX + 1;
	target_begin(&string);
	string.length = 0;
	target_begin(&string);
	string.length = 1UL << 40; /* a lie */
	target_begin(&string);
}

TEST(test_long_texts_are_cut)
{
	static const struct {
		uint32_t bytes;
		bool cut;
	} expected[] = {{RT_CALL_TEXT_MAX, true}, {RT_CALL_TEXT_MAX, false}, {RT_CALL_TEXT_MAX, true}, {0, false},
		{RT_CALL_TEXT_MAX, true}};

	run_child(long_texts, true);
	assert_int_equal(count_of("begin").texts, ARRAY_SIZE(expected));
	for (unsigned i = 0; i < ARRAY_SIZE(expected); i++) {
		const struct rt_call_text_event *record = record_of("begin", i);

		assert_int_equal(record->call.text_bytes, expected[i].bytes);
		assert_int_equal(!!(record->call.event.flags & RT_CALL_TRUNCATED), expected[i].cut);
		for (uint32_t k = 0; k < record->call.text_bytes; k++)
			assert_int_equal(record->text[k], 'x');
	}
}

static void bad_pointers(void)
{
	void *nowhere = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct target_string string = {nowhere, 10};
	const int32_t one = 1;

	((volatile char *)nowhere)[0] = 1;
	target_call(1, &one, "x");
	target_call(2, nowhere, "x");
	if (mprotect(nowhere, 4096, PROT_NONE) < 0)
		_exit(4);
	target_begin(&string);
}

TEST(test_pointers_to_nowhere)
{
	run_child(bad_pointers, true);
	assert_int_equal(count_of("call").calls, 2);
	assert_int_equal(record_of("call", 0)->call.event.flags & RT_CALL_FAULT, 0);
	assert_int_equal(record_of("call", 0)->call.arg[1], 1);
	assert_int_equal(count_of("begin").begins, 1);
	assert_int_equal(count_of("begin").texts, 0);
	assert_int_equal(record_of("begin", 0)->call.event.flags & RT_CALL_FAULT, RT_CALL_FAULT);
}

static struct shared {
	atomic_bool stop;
	atomic_uint calls;
} * shared;

static void call_until_stopped(void)
{
	const int32_t seven = 7;

	while (!atomic_load(&shared->stop)) {
		atomic_fetch_add(&shared->calls, 1);
		if (target_call(3, &seven, "x") != 6)
			_exit(5);
		target_leave_span(NULL);
	}
}

TEST(test_toggled_while_called)
{
	int toggles = fixture.mode == CALL_ENGINE_MULTI ? TOGGLES : TOGGLES_PERF;
	struct child child;
	struct count call;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(shared != MAP_FAILED);
	child = child_start(call_until_stopped, true);
	child_go(&child);
	for (int i = 0; i < toggles; i++) {
		size_t before = fixture.seen;

		for (int k = 0; k < LATE; k++) {
			attachment_level(fixture.attachment, LEVEL_L1, false);
			assert_int_equal(attachment_attached(fixture.attachment), 0);
			attachment_level(fixture.attachment, LEVEL_L1, true);
			(void)attachment_settle(fixture.attachment, 0);
		}
		assert_true(attachment_settle(fixture.attachment, UINT64_MAX));
		while (fixture.seen == before && fixture.seen < RECORDS_MAX)
			fixture_drain();
	}
	atomic_store(&shared->stop, true);
	child_end(&child);
	call = count_of("call");
	assert_true(call.calls > 0 && call.calls <= atomic_load(&shared->calls));
	assert_true(count_of("leave_span").begins <= atomic_load(&shared->calls));
	assert_true(count_of("leave_span").ends <= atomic_load(&shared->calls));
	munmap(shared, sizeof(*shared));
}

CALL_TEST_MAIN(table_text, fixture_level_on)
