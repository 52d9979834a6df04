/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A window on launches in the running kernel: a child calls functions of our own library in a known rhythm while the
 * window is open, and exactly those calls must be in the sums; before and after it there is no probe.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sys/wait.h>

#include "daemon/core/context.h"
#include "daemon/kernel/kernel.h"
#include "daemon/collect/launch.h"
#include "daemon/probes/elf_file.h"
#include "tests/kernel/call_target.h"
#include "tests/test.h"

#define FIRST 97
#define SECOND 31
#define PAUSE_NS (20 * NSEC_PER_MSEC)
#define LONG_NS (3600 * NSEC_PER_SEC)

static struct context context;
static struct launch_window *window;
static struct launch_target target;

enum { API_CALL = 3, API_END = RT_LAUNCH_APIS_MAX - 1 };

static void *other_thread(void *arg)
{
	for (int i = 0; i < SECOND; i++)
		target_end();
	return NULL;
}

/* A pause between two calls; a call of the other function after it; a second thread. */
static void rhythm(void)
{
	pthread_t thread;

	for (int i = 0; i < FIRST; i++)
		(void)target_probe(i);
	nanosleep(&(struct timespec){.tv_nsec = (long)PAUSE_NS}, NULL);
	(void)target_probe(0);
	target_end();
	pthread_create(&thread, NULL, other_thread, NULL);
	pthread_join(thread, NULL);
}

struct run {
	bool as_rank;
	pid_t pid;
	unsigned links; /* while the window was open */
};

/* Links of uprobes that this process holds, as the kernel lists them. */
static unsigned links(void)
{
	unsigned count = 0;

	for (int fd = 3; fd < 256; fd++) {
		char path[64], line[256];
		FILE *f;

		snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
		f = fopen(path, "re");
		while (f && fgets(line, sizeof(line), f))
			count += strncmp(line, "link_type:\tuprobe_multi", 23) == 0 ||
				 strncmp(line, "link_type:\tperf", 15) == 0;
		if (f)
			fclose(f);
	}
	return count;
}

/* What passes while the window is open: a whole life of a child. */
static void one_child(void *arg, uint64_t until_ns)
{
	struct run *run = arg;
	int fds[2], status;
	char c;

	run->links = links();
	assert_int_equal(pipe(fds), 0);
	run->pid = fork();
	assert_true(run->pid >= 0);
	if (run->pid == 0) {
		if (read(fds[0], &c, 1) == 1)
			rhythm();
		_exit(0);
	}
	if (run->as_rank)
		assert_int_equal(kernel_rank_add(context.kernel, (uint32_t)run->pid, 0), 0);
	assert_int_equal(write(fds[1], "x", 1), 1);
	assert_int_equal(waitpid(run->pid, &status, 0), run->pid);
	assert_int_equal(status, 0);
	close(fds[0]);
	close(fds[1]);
	(void)kernel_rank_remove(context.kernel, (uint32_t)run->pid);
}

static struct launch_result run_window(struct run *run)
{
	struct launch_result result;

	launch_window_run(window, &target, 1, NSEC_PER_MSEC, one_child, run, &result);
	assert_int_equal(result.error, 0);
	assert_int_equal(result.attached, 2);
	assert_true(result.duration_ns > 0);
	return result;
}

TEST(exact_counts_and_the_pause)
{
	struct run run = {.as_rank = true};
	struct launch_result result = run_window(&run);
	const struct launch_thread *first = NULL, *second = NULL;

	assert_int_equal(result.threads, 2);
	for (size_t i = 0; i < result.threads; i++) {
		assert_int_equal(result.thread[i].pid, run.pid);
		*(result.thread[i].thread_id == (uint32_t)run.pid ? &first : &second) = &result.thread[i];
	}
	assert_non_null(first);
	assert_non_null(second);
	assert_int_equal(first->api[API_CALL].count, FIRST + 1);
	assert_int_equal(first->api[API_END].count, 1);
	assert_true(first->api[API_CALL].longest_gap_ns >= PAUSE_NS);
	assert_true(first->api[API_CALL].longest_gap_ns <= result.duration_ns);
	assert_int_equal(second->api[API_CALL].count, 0);
	assert_int_equal(second->api[API_CALL].longest_gap_ns, 0);
	assert_int_equal(second->api[API_END].count, SECOND);
	/* It began after the pause: the time from the window's start to its first launch counts. */
	assert_true(second->api[API_END].longest_gap_ns >= PAUSE_NS);
	assert_int_equal(kernel_drops(context.kernel, RT_KIND_LAUNCHES), 0);
	free(result.thread);
}

/* The child's last launch is followed by a longer time than any between its launches. */
static void wait_after(void *arg, uint64_t until_ns)
{
	one_child(arg, until_ns);
	nanosleep(&(struct timespec){.tv_nsec = (long)(3 * PAUSE_NS)}, NULL);
}

TEST(what_the_end_cuts_off_counts)
{
	struct run run = {.as_rank = true};
	struct launch_result result;

	launch_window_run(window, &target, 1, 0, wait_after, &run, &result);
	assert_int_equal(result.threads, 2);
	for (size_t i = 0; i < result.threads; i++)
		assert_true(result.thread[i].api[API_END].longest_gap_ns >= 3 * PAUSE_NS);
	free(result.thread);
}

TEST(others_are_not_counted)
{
	struct run run = {.as_rank = false};
	struct launch_result result = run_window(&run);

	assert_int_equal(result.threads, 0);
	free(result.thread);
}

static void nothing(void *arg, uint64_t until_ns)
{
}

TEST(outside_there_is_no_probe)
{
	struct run run = {.as_rank = true};
	struct launch_result result;

	free(run_window(&run).thread);
	assert_int_equal(run.links, kernel_features(context.kernel)->uprobe_multi ? 1 : 2);
	assert_int_equal(links(), 0);
	one_child(&run, 0);
	/* A window after it finds nothing of what was called outside, and nothing of the window before. */
	launch_window_run(window, &target, 1, 0, nothing, NULL, &result);
	assert_int_equal(result.threads, 0);
	free(result.thread);
}

TEST(a_file_that_cannot_be_probed_is_reported)
{
	struct launch_target both[2] = {{.fd = -1, .count = 1, .offset = {4096}}, target};
	struct run run = {.as_rank = true};
	struct launch_result result;

	launch_window_run(window, both, 2, 0, one_child, &run, &result);
	assert_true(result.error < 0);
	assert_int_equal(result.attached, 2);
	assert_int_equal(result.threads, 2);
	free(result.thread);
	launch_window_run(window, both, 1, 0, one_child, &run, &result);
	assert_int_equal(result.attached, 0);
	assert_int_equal(result.duration_ns, 0);
	assert_null(result.thread);
}

static struct launch_order *order_at(uint64_t at_ns)
{
	struct launch_order *order = calloc(1, sizeof(*order));

	assert_non_null(order);
	order->at_ns = at_ns;
	order->length_ns = LONG_NS;
	order->targets = 1;
	order->target[0] = target;
	order->target[0].fd = dup(target.fd);
	return order;
}

/* Closing waits for no hour, before or in a window, and leaves no probe or descriptor. */
TEST(a_stop_ends_the_window)
{
	struct launch_worker *worker = NULL;
	struct launch_result result;
	struct launch_order *spare;
	int next = dup(target.fd);

	close(next);
	for (int begun = 0; begun < 2; begun++) {
		assert_int_equal(launch_worker_start(window, &worker), 0);
		assert_true(launch_worker_is_idle(worker));
		assert_false(launch_worker_take(worker, &result));
		assert_int_equal(launch_worker_order(worker, order_at(begun ? 0 : monotonic_ns() + LONG_NS)), 0);
		assert_false(launch_worker_is_idle(worker));
		spare = order_at(0);
		assert_int_equal(launch_worker_order(worker, spare), -EBUSY);
		launch_order_free(spare);
		while (begun && links() == 0)
			sched_yield();
		assert_true(launch_worker_stop(worker, LONG_NS));
		assert_int_equal(links(), 0);
		/* Stopped before it began, or before the worker saw the order at all. */
		if (launch_worker_take(worker, &result)) {
			assert_true(begun ? result.duration_ns > 0 && result.duration_ns < LONG_NS
					  : result.duration_ns == 0);
			free(result.thread);
		} else {
			assert_false(begun);
		}
		launch_worker_free(worker);
	}
	assert_int_equal(dup(target.fd), next);
	close(next);
}

/* Two names of one function are one site, and of a set only its first variant that is there. */
TEST(sites_are_found_once)
{
	static const char text[] =
		"[probe \"other\"]\nlevel=L1\nlibrary=libcall_target.so\nsymbol=target_call\nedge=entry\nevent=alloc\n"
		"[probe \"absent\"]\nlevel=L1.launches\nlibrary=libcall_target.so\nsymbol=target_absent\nedge=entry\n"
		"event=launch\nset=a/1\n"
		"[probe \"driver\"]\nlevel=L1.launches\nlibrary=libcall_target.so\nsymbol=target_probe target_prob?\n"
		"symbols_all=yes\nedge=entry\nevent=launch\nset=a/2\n"
		"[probe \"runtime\"]\nlevel=L1.launches\nlibrary=libcall_target.so\nsymbol=target_end\nedge=entry\n"
		"event=launch\nset=a/3\n";
	struct probe_table table = {0};
	struct launch_sites *sites = NULL;
	struct launch_target found[4];
	unsigned functions, libraries;
	char error[512];

	assert_int_equal(probe_table_parse(&table, "t.conf", text, strlen(text), error, sizeof(error)), 0);
	probe_table_keep_levels(&table, LEVEL_BIT(LEVEL_L1_LAUNCHES));
	assert_int_equal(table.count, 3);
	assert_int_equal(launch_sites_new(&table, &context, &sites), 0);
	assert_int_equal(launch_sites_targets(sites, found, ARRAY_SIZE(found)), 0);
	launch_sites_scan(sites, (uint32_t)getpid(), 0, 7);
	assert_true(launch_sites_are_known(sites, 7));
	assert_false(launch_sites_are_known(sites, 8));
	assert_int_equal(launch_sites_targets(sites, found, ARRAY_SIZE(found)), 1);
	assert_int_equal(found[0].count, 1);
	assert_string_equal(launch_sites_api(sites, (unsigned)found[0].cookie[0]), "driver");
	close(found[0].fd);
	launch_sites_count(sites, &functions, &libraries);
	assert_true(functions == 1 && libraries == 1);
	assert_string_equal(launch_sites_api(sites, 3), "");
	assert_string_equal(launch_sites_reason(sites), "");
	launch_sites_forget(sites, 7);
	assert_int_equal(launch_sites_targets(sites, found, ARRAY_SIZE(found)), 0);
	launch_sites_free(sites);
	probe_table_free(&table);
}

static void add_function(struct elf_file *file, const char *name, uint64_t api)
{
	struct elf_symbol symbol;

	assert_int_equal(elf_file_find(file, name, &symbol), 0);
	target.offset[target.count] = symbol.file_offset;
	target.cookie[target.count++] = api;
}

static int open_all(void **state)
{
	struct elf_file *file;

	target = (struct launch_target){.fd = open(CALL_TARGET, O_RDONLY | O_CLOEXEC)};
	assert_true(target.fd >= 0);
	assert_int_equal(elf_file_open(target.fd, &file), 0);
	add_function(file, "target_probe", API_CALL);
	add_function(file, "target_end", API_END);
	elf_file_close(file);
	return launch_window_open(context.kernel, &window);
}

static int close_all(void **state)
{
	window = launch_window_close(window);
	close(target.fd);
	return 0;
}

int main(void)
{
	struct kernel_features features;
	int failed = 0;

	kernel_probe(&features);
	if (geteuid() != 0 || !features.uprobe_multi) {
		puts("SKIP: needs root and a kernel with uprobe_multi links (6.6)");
		return 77;
	}
	context.config.ring_size_bytes = 64u << 10;
	context.config.ranks_max = 16;
	if (kernel_open(&context, &context.kernel) < 0)
		return 1;
	for (int multi = 1; multi >= 0; multi--) {
		/* The other way to attach is that of older kernels: tried where this one has it, too. */
		if (!multi && !features.perf_cookie)
			break;
		((struct kernel_features *)kernel_features(context.kernel))->uprobe_multi = multi;
		printf("attaching through %s\n", multi ? "uprobe_multi" : "perf events with cookies");
		failed += TEST_RUN(open_all, close_all);
	}
	kernel_close(context.kernel);
	return failed;
}
