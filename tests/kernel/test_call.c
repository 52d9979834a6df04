/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The call engine in the running kernel, in each way that it can attach: a library of our own is probed through a
 * table, a child calls its functions a prime number of times, and exactly those calls must arrive, with their
 * arguments, results and texts.
 */
#include "tests/kernel/call_fixture.h"
#include "call.skel.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#define TIMES 97

static const char table_text[] =
	"[probe \"call\"]\nlevel=L1\nlibrary=libcall_target.so\nsymbol=target_call\nedge=call\nevent=op\nresult=yes\n"
	"args=reg(1) deref(2,0,4)\n"
	"[probe \"span\"]\nlevel=L1\nlibrary=libcall_target.so\nsymbol=target_span\nedge=span\nstage=span\n"
	"[probe \"begin\"]\nlevel=L1\nlibrary=libcall_target.so\nsymbol=target_begin\nedge=begin\nargs=stdstring(1)\n"
	"[probe \"stash\"]\nlevel=L1\nlibrary=libcall_target.so\nsymbol=target_stash\nedge=stash\nargs=stdstring(1)\n"
	"[probe \"named\"]\nlevel=L1\nlibrary=libcall_target.so\nsymbol=target_named\nedge=begin\n"
	"[probe \"end\"]\nlevel=L1\nlibrary=libcall_target.so\nsymbol=target_end\nedge=end\n"
	"[probe "
	"\"probe\"]\nlevel=L1\nlibrary=libcall_target.so\nsymbol=target_probe\nedge=call\nevent=op\nresult=yes\nreturn="
	"probe\n"
	"args=s32(1)\n"
	"[probe \"place\"]\nlevel=L1\nlibrary=libcall_target.so\nusdt=ranktrace_test:place\nedge=entry\nevent=op\n"
	"args=usdt(1) usdt(2)\n"
	"[probe \"absent\"]\nlevel=L1\nlibrary=libcall_target.so\nsymbol=target_absent\nedge=entry\nevent=op\n";

static bool is_right(const struct probe *probe, const struct rt_call_text_event *full)
{
	const struct rt_call_event *event = &full->call;

	if (streq(probe->name, "call"))
		return event->arg[0] < TIMES && event->arg[1] == 7 && event->result == (int64_t)event->arg[0] * 2 &&
		       event->start_ns < event->event.time_ns;
	if (streq(probe->name, "probe"))
		return event->result == (int64_t)event->arg[0] + 1;
	if (streq(probe->name, "place"))
		return event->arg[0] == (uint64_t)-5LL && event->arg[1] == 1ULL << 40;
	if (streq(probe->name, "begin") || streq(probe->name, "named"))
		return event->text_bytes == 11 && memcmp(full->text, "hello world", 11) == 0;
	return true;
}

static void all_functions(void)
{
	/* On the stack, as a program's own data is that it has just made: a probe cannot read a page that nobody
	 * touched. */
	char text[] = "hello world";
	const struct target_string hello = {text, 11};
	const int32_t seven = 7;

	for (int i = 0; i < TIMES; i++) {
		if (target_call(i, &seven, "x") != i * 2 || target_probe(i) != i + 1)
			_exit(2);
		target_span(2);
		target_begin(&hello);
		target_end();
		target_stash(&hello);
		target_named();
		target_usdt(-5, 1L << 40);
	}
}

TEST(test_level_off_sees_nothing)
{
	assert_int_equal(attachment_attached(fixture.attachment), 0);
	run_child(all_functions, true);
	assert_int_equal(fixture.seen, 0);
}

TEST(test_exact_counts)
{
	fixture_level(true);
	run_child(all_functions, true);
	assert_int_equal(count_of("call").calls, TIMES);
	assert_int_equal(count_of("probe").calls, TIMES);
	assert_int_equal(
		count_of("span").begins, TIMES * 3); /* recursion: begins and ends pair on the thread's stack */
	assert_int_equal(count_of("span").ends, TIMES * 3);
	assert_int_equal(count_of("begin").begins, TIMES);
	assert_int_equal(count_of("begin").texts, TIMES);
	assert_int_equal(count_of("end").ends, TIMES);
	assert_int_equal(count_of("named").begins, TIMES);
	assert_int_equal(count_of("named").texts, TIMES); /* the one that was stashed */
	assert_int_equal(count_of("place").begins, TIMES);
	for (size_t i = 0; i < fixture.seen; i++)
		assert_true(is_right(fixture.record[i].probe, &fixture.record[i].record));
	assert_int_equal(kernel_drops(fixture.context.kernel, RT_KIND_CALL), 0);
}

TEST(test_others_are_not_recorded)
{
	run_child(all_functions, false);
	assert_int_equal(fixture.seen, 0);
}

TEST(test_missing_is_reported)
{
	struct unresolved missing = fixture_missing();

	assert_int_equal(missing.count, 1);
	assert_string_equal(missing.thing[0].probe->name, "absent");
	assert_null(missing.thing[0].reason);
	unresolved_free(&missing);
}

TEST(test_detached_is_gone)
{
	fixture_level(false);
	assert_int_equal(attachment_attached(fixture.attachment), 0);
	uprobe_detach_wait();
	assert_false(uprobe_is_detaching());
	run_child(all_functions, true);
	assert_int_equal(fixture.seen, 0);
}

/* Two files of one library, as two containers bring them, take no more numbers than one. */
TEST(test_same_rows_share_numbers)
{
	struct attachment *twin = NULL;

	assert_int_equal(attachment_new(&fixture.attach, &fixture.library, &twin), 0);
	attachment_choose(twin, attachment_found(twin));
	attachment_level(twin, LEVEL_L1, true);
	assert_true(attachment_settle(twin, UINT64_MAX));
	attachment_free(fixture.attachment);
	uprobe_detach_wait();
	fixture.attachment = twin;
	run_child(all_functions, true);
	assert_int_equal(count_of("call").calls, TIMES);
	assert_int_equal(count_of("named").texts, TIMES);
	assert_int_equal(call_engine_refused(fixture.engine), 0);
}

/* Before 5.15 each function has a program of its own: verified for all functions it would take half a second each. */
TEST(test_own_program_is_small)
{
	struct call_bpf *own = call_bpf__open();
	struct bpf_prog_info info = {.nr_map_ids = 0};
	uint32_t size = sizeof(info);

	assert_non_null(own);
	own->rodata->fixed_id = 1;
	own->rodata->fixed_spec = (struct rt_call_spec){.edge = RT_EDGE_CALL, .args = 2};
	assert_int_equal(call_bpf__load(own), 0);
	assert_int_equal(bpf_obj_get_info_by_fd(bpf_program__fd(own->progs.call_enter), &info, &size), 0);
	/* 0: kernels before 5.16 do not say. The program for all functions takes 210,000. */
	assert_in_range(info.verified_insns, 0, 20000);
	call_bpf__destroy(own);
}

CALL_TEST_MAIN(table_text, NULL)
