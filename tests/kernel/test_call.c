/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The call engine in the running kernel: a library of our own is probed through a table, a child calls its functions a
 * prime number of times, and exactly those calls must arrive, with their arguments, results and texts.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <cmocka.h>

#include "bpf/call.h"
#include "call.skel.h"
#include "daemon/collector.h"
#include "daemon/context.h"
#include "daemon/kernel.h"
#include "daemon/log.h"
#include "daemon/probes/attachment.h"
#include "daemon/uprobe.h"
#include "tests/kernel/call_target.h"

#define TIMES 97

static const char table_text[] =
	"[probe \"call\"]\nlevel=L1\nlibrary=libcall_target.so\nsymbol=target_call\nedge=call\nevent=e\nresult=yes\n"
	"args=reg(1) deref(2,0,4)\n"
	"[probe \"span\"]\nlevel=L1\nlibrary=libcall_target.so\nsymbol=target_span\nedge=span\nstage=span\n"
	"[probe \"begin\"]\nlevel=L1\nlibrary=libcall_target.so\nsymbol=target_begin\nedge=begin\nargs=stdstring(1)\n"
	"[probe \"stash\"]\nlevel=L1\nlibrary=libcall_target.so\nsymbol=target_stash\nedge=stash\nargs=stdstring(1)\n"
	"[probe \"named\"]\nlevel=L1\nlibrary=libcall_target.so\nsymbol=target_named\nedge=begin\n"
	"[probe \"end\"]\nlevel=L1\nlibrary=libcall_target.so\nsymbol=target_end\nedge=end\n"
	"[probe \"probe\"]\nlevel=L1\nlibrary=libcall_target.so\nsymbol=target_probe\nedge=call\nevent=e\nresult=yes\nreturn=probe\n"
	"args=s32(1)\n"
	"[probe \"place\"]\nlevel=L1\nlibrary=libcall_target.so\nusdt=ranktrace_test:place\nedge=entry\nevent=e\n"
	"args=usdt(1) usdt(2)\n"
	"[probe \"absent\"]\nlevel=L1\nlibrary=libcall_target.so\nsymbol=target_absent\nedge=entry\nevent=e\n";

struct count {
	unsigned begins, ends, calls, texts, wrong;
};

static struct state {
	struct context context;
	struct call_bpf *skeleton;
	struct probe_table table;
	struct attach_engine engine;
	struct library library;
	struct attachment *attachment;
	const struct probe *by_spec[RT_CALL_SPECS_MAX];
	uint32_t specs;
	pid_t child;
	struct count count[16]; /* by row */
} state;

static struct count *count_of(const char *name)
{
	for (size_t i = 0; i < state.table.count; i++)
		if (streq(state.table.probe[i].name, name))
			return &state.count[i];
	fail_msg("no row '%s'", name);
	return NULL;
}

static bool is_right(const struct probe *probe, const struct rt_call_event *event)
{
	const char *text = ((const struct rt_call_text_event *)event)->text;

	if (streq(probe->name, "call"))
		return event->arg[0] < TIMES && event->arg[1] == 7 && event->result == (int64_t)event->arg[0] * 2 &&
		       event->start_ns < event->event.time_ns;
	if (streq(probe->name, "probe"))
		return event->result == (int64_t)event->arg[0] + 1;
	if (streq(probe->name, "place"))
		return event->arg[0] == (uint64_t)-5LL && event->arg[1] == 1ULL << 40;
	if (streq(probe->name, "begin") || streq(probe->name, "named"))
		return event->text_bytes == 11 && memcmp(text, "hello world", 11) == 0;
	return true;
}

/* Takes the place of the daemon's own: what the ring brings is counted here. */
void collectors_event(struct collectors *collectors, const void *data, size_t size_bytes)
{
	const struct rt_call_event *event = data;
	const struct probe *probe;
	struct count *count;

	(void)collectors;
	if (size_bytes < sizeof(*event) || event->event.kind != RT_KIND_CALL || event->event.pid != (uint32_t)state.child)
		return;
	probe = state.by_spec[event->spec];
	count = &state.count[probe - state.table.probe];
	if ((event->event.flags & (RT_CALL_BEGIN | RT_CALL_END)) == (RT_CALL_BEGIN | RT_CALL_END))
		count->calls++;
	else if (event->event.flags & RT_CALL_BEGIN)
		count->begins++;
	else
		count->ends++;
	count->texts += (event->event.flags & RT_CALL_TEXT) != 0;
	count->wrong += !is_right(probe, event);
}

static int spec_new(void *arg, const struct place *place, const struct rt_call_spec *spec, uint32_t *ret)
{
	(void)arg;
	assert_int_equal(bpf_map_update_elem(bpf_map__fd(state.skeleton->maps.specs), &state.specs, spec, BPF_ANY), 0);
	state.by_spec[state.specs] = place->probe;
	*ret = state.specs++;
	return 0;
}

static void spec_free(void *arg, uint32_t spec)
{
	(void)arg;
	state.by_spec[spec] = NULL;
}

static void child_calls(int start_fd)
{
	/* On the stack, as a program's own data is that it has just made: a probe cannot read a page that nobody touched. */
	char text[] = "hello world";
	const struct target_string hello = {text, 11};
	const int32_t seven = 7;
	char c;

	if (read(start_fd, &c, 1) != 1)
		_exit(1);
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
	_exit(0);
}

/* Runs the child, as a rank or not, and drains what it caused. */
static void run_child(bool as_rank)
{
	int fds[2], status;

	memset(state.count, 0, sizeof(state.count));
	assert_int_equal(pipe(fds), 0);
	state.child = fork();
	assert_true(state.child >= 0);
	if (state.child == 0)
		child_calls(fds[0]);
	if (as_rank)
		assert_int_equal(kernel_rank_add(state.context.kernel, (uint32_t)state.child, 0), 0);
	assert_int_equal(write(fds[1], "x", 1), 1);
	assert_int_equal(waitpid(state.child, &status, 0), state.child);
	assert_int_equal(status, 0);
	close(fds[0]);
	close(fds[1]);
	while (kernel_drain(state.context.kernel) > 0)
		;
	if (as_rank)
		assert_int_equal(kernel_rank_remove(state.context.kernel, (uint32_t)state.child), 0);
}

static void test_level_off_sees_nothing(void **arg)
{
	(void)arg;
	assert_int_equal(attachment_attached(state.attachment), 0);
	run_child(true);
	assert_int_equal(count_of("call")->calls, 0);
	assert_int_equal(count_of("end")->ends, 0);
}

static void test_exact_counts(void **arg)
{
	(void)arg;
	assert_int_equal(attachment_level(state.attachment, LEVEL_L1, true), 0);
	run_child(true);
	assert_int_equal(count_of("call")->calls, TIMES);
	assert_int_equal(count_of("probe")->calls, TIMES);
	assert_int_equal(count_of("span")->begins, TIMES * 3); /* recursion: begins and ends pair on the thread's stack */
	assert_int_equal(count_of("span")->ends, TIMES * 3);
	assert_int_equal(count_of("begin")->begins, TIMES);
	assert_int_equal(count_of("begin")->texts, TIMES);
	assert_int_equal(count_of("end")->ends, TIMES);
	assert_int_equal(count_of("named")->begins, TIMES);
	assert_int_equal(count_of("named")->texts, TIMES); /* the one that was stashed */
	assert_int_equal(count_of("place")->begins, TIMES);
	for (size_t i = 0; i < state.table.count; i++)
		assert_int_equal(state.count[i].wrong, 0);
	assert_int_equal(kernel_drops(state.context.kernel, RT_KIND_CALL), 0);
}

static void test_others_are_not_recorded(void **arg)
{
	(void)arg;
	run_child(false);
	for (size_t i = 0; i < state.table.count; i++)
		assert_int_equal(state.count[i].calls + state.count[i].begins + state.count[i].ends, 0);
}

static void test_missing_is_told(void **arg)
{
	(void)arg;
	assert_string_equal(attachment_missing(state.attachment, LEVEL_L1, 0), "absent");
	assert_null(attachment_missing(state.attachment, LEVEL_L1, 1));
}

static void test_detached_is_gone(void **arg)
{
	(void)arg;
	assert_int_equal(attachment_level(state.attachment, LEVEL_L1, false), 0);
	assert_int_equal(attachment_attached(state.attachment), 0);
	run_child(true);
	assert_int_equal(count_of("call")->calls, 0);
}

static int set_up(void **arg)
{
	const struct kernel_features *features;
	char error[512];

	(void)arg;
	state.context.config.ring_size_bytes = 1u << 20;
	state.context.config.ranks_max = 16;
	assert_int_equal(kernel_open(&state.context, &state.context.kernel), 0);
	features = kernel_features(state.context.kernel);
	assert_int_equal(probe_table_parse(&state.table, "test.conf", table_text, strlen(table_text), error, sizeof(error)), 0);
	state.skeleton = call_bpf__open();
	assert_non_null(state.skeleton);
	if (features->uprobe_multi) {
		bpf_program__set_expected_attach_type(state.skeleton->progs.call_enter, UPROBE_MULTI_ATTACH_TYPE);
		bpf_program__set_expected_attach_type(state.skeleton->progs.call_exit, UPROBE_MULTI_ATTACH_TYPE);
	}
	assert_int_equal(kernel_share(state.context.kernel, state.skeleton->obj), 0);
	assert_int_equal(call_bpf__load(state.skeleton), 0);
	state.engine = (struct attach_engine){
		.table = &state.table,
		.enter_fd = bpf_program__fd(state.skeleton->progs.call_enter),
		.exit_fd = bpf_program__fd(state.skeleton->progs.call_exit),
		.multi = features->uprobe_multi,
		.spec_new = spec_new,
		.spec_free = spec_free,
	};
	copy_text(state.library.path, sizeof(state.library.path), CALL_TARGET);
	state.library.base_name = strrchr(state.library.path, '/') + 1;
	state.library.fd = open(CALL_TARGET, O_RDONLY | O_CLOEXEC);
	assert_true(state.library.fd >= 0);
	assert_int_equal(attachment_new(&state.engine, &state.library, &state.attachment), 0);
	return 0;
}

static int tear_down(void **arg)
{
	(void)arg;
	attachment_free(state.attachment);
	call_bpf__destroy(state.skeleton);
	kernel_close(state.context.kernel);
	probe_table_free(&state.table);
	close(state.library.fd);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_level_off_sees_nothing), cmocka_unit_test(test_exact_counts),
		cmocka_unit_test(test_others_are_not_recorded), cmocka_unit_test(test_missing_is_told),
		cmocka_unit_test(test_detached_is_gone),
	};
	struct kernel_features features;

	kernel_probe(&features);
	if (!features.uprobe_multi && !features.perf_cookie) {
		puts("SKIP: this kernel lets us attach no uprobe (root? CONFIG_UPROBES?)");
		return 77;
	}
	printf("attaching through %s\n", features.uprobe_multi ? "uprobe_multi" : "perf events");
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
