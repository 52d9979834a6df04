/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of the call engine share: the kernel module, the engine in one of its modes, a table over
 * libcall_target.so attached, a child that calls the library as a rank, and the records that arrived, in order.
 */
#ifndef RANKTRACE_TESTS_CALL_FIXTURE_H
#define RANKTRACE_TESTS_CALL_FIXTURE_H

#include <fcntl.h>
#include <sys/wait.h>

#include "bpf/call.h"
#include "daemon/collect/collector.h"
#include "daemon/core/context.h"
#include "daemon/kernel/kernel.h"
#include "daemon/base/log.h"
#include "daemon/probes/call_engine.h"
#include "daemon/probes/coverage.h"
#include "daemon/kernel/uprobe.h"
#include "tests/kernel/call_target.h"
#include "tests/test.h"

#define RECORDS_MAX 8192

struct seen {
	const struct probe *probe;
	struct rt_call_text_event record;
};

struct count {
	unsigned begins, ends, calls, texts;
};

static struct fixture {
	enum call_engine_mode mode;
	struct context context;
	struct probe_table table;
	struct call_engine *engine;
	struct attach_engine attach;
	struct library library;
	struct attachment *attachment;
	uint32_t child;
	unsigned nobodys; /* records under a number that means nothing */
	size_t seen;
	struct seen record[RECORDS_MAX];
} fixture;

/* What the ring brings is kept here. */
static void keep_record(void *arg, const void *data, size_t size_bytes)
{
	const struct rt_call_event *event = data;
	struct seen *seen = &fixture.record[fixture.seen];

	if (size_bytes < sizeof(*event) || event->event.kind != RT_KIND_CALL || event->event.pid != fixture.child ||
		fixture.seen == RECORDS_MAX)
		return;
	*seen = (struct seen){.probe = call_engine_probe(fixture.engine, event)};
	memcpy(&seen->record, data, size_bytes < sizeof(seen->record) ? size_bytes : sizeof(seen->record));
	fixture.nobodys += !seen->probe;
	fixture.seen++;
}

static inline bool is_mode_here(enum call_engine_mode mode)
{
	struct kernel_features features;

	kernel_probe(&features);
	return mode == CALL_ENGINE_MULTI    ? features.uprobe_multi
	       : mode == CALL_ENGINE_COOKIE ? features.perf_cookie
					    : features.perf_uprobe;
}

static inline void fixture_open(enum call_engine_mode mode, const char *table_text)
{
	char error[512];

	fixture = (struct fixture){.mode = mode};
	fixture.context.config.ring_size_bytes = 4u << 20;
	fixture.context.config.ranks_max = 16;
	assert_int_equal(kernel_open(&fixture.context, &fixture.context.kernel), 0);
	kernel_deliver(fixture.context.kernel, keep_record, NULL);
	if (probe_table_parse(&fixture.table, "test.conf", table_text, strlen(table_text), error, sizeof(error)) < 0)
		fail_msg("%s", error);
	assert_int_equal(call_engine_open(fixture.context.kernel, mode, &fixture.engine), 0);
	fixture.attach = call_engine_attach(fixture.engine, &fixture.table);
	fixture.library.path = strdup(CALL_TARGET);
	assert_non_null(fixture.library.path);
	fixture.library.base_name = strrchr(fixture.library.path, '/') + 1;
	fixture.library.fd = open(CALL_TARGET, O_RDONLY | O_CLOEXEC);
	assert_true(fixture.library.fd >= 0);
	assert_int_equal(attachment_new(&fixture.attach, &fixture.library, &fixture.attachment), 0);
	attachment_choose(fixture.attachment, attachment_found(fixture.attachment));
}

static inline void fixture_level(bool on)
{
	int error;

	attachment_level(fixture.attachment, LEVEL_L1, on);
	assert_true(attachment_settle(fixture.attachment, UINT64_MAX));
	assert_null(attachment_refused(fixture.attachment, LEVEL_L1, 0, &error));
}

/* What a rank with this library alone misses; the caller's to free. */
static inline struct unresolved fixture_missing(void)
{
	const struct library *library = &fixture.library;
	struct unresolved missing = {0};

	fixture.library.owner_data = fixture.attachment;
	assert_int_equal(unresolved_add(&missing, &library, 1), 0);
	return missing;
}

static inline void fixture_close(void)
{
	attachment_free(fixture.attachment);
	call_engine_close(fixture.engine);
	kernel_close(fixture.context.kernel);
	probe_table_free(&fixture.table);
	close(fixture.library.fd);
	free(fixture.library.path);
}

static inline void fixture_drain(void)
{
	while (kernel_drain(fixture.context.kernel) > 0)
		;
}

struct child {
	pid_t pid;
	int start_fd;
};

/* The child waits for child_go(), so that it can be made a rank first. */
static inline struct child child_start(void (*calls)(void), bool as_rank)
{
	struct child child;
	int fds[2];
	char c;

	fixture.seen = fixture.nobodys = 0;
	assert_int_equal(pipe(fds), 0);
	child.pid = fork();
	assert_true(child.pid >= 0);
	if (child.pid == 0) {
		close(fds[1]);
		if (read(fds[0], &c, 1) == 1)
			calls();
		_exit(0);
	}
	close(fds[0]);
	child.start_fd = fds[1];
	fixture.child = (uint32_t)child.pid;
	if (as_rank)
		assert_int_equal(kernel_rank_add(fixture.context.kernel, fixture.child, 0), 0);
	return child;
}

static inline void child_go(struct child *child)
{
	assert_int_equal(write(child->start_fd, "x", 1), 1);
}

static inline void child_end(struct child *child)
{
	int status;

	assert_int_equal(waitpid(child->pid, &status, 0), child->pid);
	assert_int_equal(status, 0);
	close(child->start_fd);
	fixture_drain();
	(void)kernel_rank_remove(fixture.context.kernel, fixture.child);
	assert_int_equal(fixture.nobodys, 0);
}

static inline void run_child(void (*calls)(void), bool as_rank)
{
	struct child child = child_start(calls, as_rank);

	child_go(&child);
	child_end(&child);
}

static inline struct count count_of(const char *name)
{
	struct count count = {0};

	for (size_t i = 0; i < fixture.seen; i++) {
		const struct rt_call_event *event = &fixture.record[i].record.call;
		unsigned edges = event->event.flags & (RT_CALL_BEGIN | RT_CALL_END);

		if (!streq(fixture.record[i].probe->name, name))
			continue;
		count.calls += edges == (RT_CALL_BEGIN | RT_CALL_END);
		count.begins += edges == RT_CALL_BEGIN;
		count.ends += edges == RT_CALL_END;
		count.texts += (event->event.flags & RT_CALL_TEXT) != 0;
	}
	return count;
}

/* The i-th record of a row, from 0. */
static inline const struct rt_call_text_event *record_of(const char *name, unsigned i)
{
	for (size_t k = 0; k < fixture.seen; k++)
		if (streq(fixture.record[k].probe->name, name) && i-- == 0)
			return &fixture.record[k].record;
	fail_msg("no such record of '%s'", name);
	return NULL;
}

/* Runs the tests once in every mode that this kernel has; 77 where it has none. */
static inline int run_modes(const char *table_text, int (*run)(void))
{
	unsigned modes = 0;
	int failed = 0;

	for (enum call_engine_mode mode = CALL_ENGINE_MULTI; mode <= CALL_ENGINE_FIXED; mode++) {
		if (!is_mode_here(mode)) {
			printf("SKIP: this kernel has no %s\n", call_engine_mode_name(mode));
			continue;
		}
		printf("attaching through %s\n", call_engine_mode_name(mode));
		fixture_open(mode, table_text);
		failed += run();
		fixture_close();
		modes++;
	}
	if (modes == 0)
		puts("SKIP: this kernel lets us attach no uprobe (root? CONFIG_UPROBES?)");
	return modes == 0 ? 77 : failed;
}

/* Setup of the group. */
static inline int fixture_level_on(void **state)
{
	fixture_level(true);
	return 0;
}

/* As TEST_MAIN; the tests run in each mode. */
#define CALL_TEST_MAIN(table_text, setup) \
	static int call_tests(void) \
	{ \
		return TEST_RUN(setup, NULL); \
	} \
	int main(void) \
	{ \
		return run_modes(table_text, call_tests); \
	}

#endif
