/* SPDX-License-Identifier: Apache-2.0 */
/* How processes end, in words; and which stack is that of a stage. */
#include <signal.h>

#include "daemon/ranks/end_words.h"
#include "daemon/stacks/profile_rank.h"
#include "tests/test.h"

#define EXITED(status) ((status) << 8)
#define DUMPED 0x80

TEST(test_kinds)
{
	static const struct {
		int status;
		enum end_kind kind;
		const char *words;
	} cases[] = {
		{EXITED(0), END_NORMAL, "exit status 0"},
		{EXITED(1), END_ERROR, "exit status 1"},
		{EXITED(255), END_ERROR, "exit status 255"},
		{EXITED(128 + SIGTERM), END_ASKED, "exit status 143"},
		{EXITED(128 + SIGSEGV), END_ERROR, "exit status 139"},
		{SIGSEGV, END_ERROR, "SIGSEGV"},
		{SIGABRT | DUMPED, END_ERROR, "SIGABRT"},
		{SIGKILL, END_ASKED, "SIGKILL"},
		{SIGTERM, END_ASKED, "SIGTERM"},
		{SIGUSR1, END_ASKED, "SIGUSR1"},
		{40, END_ERROR, "signal 40"},
		{END_STATUS_UNKNOWN, END_UNKNOWN, "cause not seen"},
	};
	char words[END_WORDS_BYTES];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_int_equal(end_kind_of(cases[i].status, NULL), cases[i].kind);
		assert_string_equal(end_words(cases[i].status, "", NULL, words), cases[i].words);
	}
	assert_string_equal(end_words(EXITED(1), "ValueError", NULL, words), "exit status 1, ValueError");
	/* An exception that was shown is not why a signal came. */
	assert_string_equal(end_words(SIGKILL, "ValueError", NULL, words), "SIGKILL");
}

TEST(the_sender_of_a_signal_is_named)
{
	struct end_sender shell = {.signal = SIGTERM, .pid = 4711, .name = "bash"}, kernel = {.signal = SIGKILL};
	char words[END_WORDS_BYTES];

	assert_string_equal(end_words(SIGTERM, "", &shell, words), "SIGTERM from bash (pid 4711)");
	assert_string_equal(end_words(EXITED(128 + SIGTERM), "", &shell, words),
		"exit status 143 after SIGTERM from bash (pid 4711)");
	assert_string_equal(end_words(SIGKILL, "", &shell, words), "SIGKILL"); /* the one before was another */
	assert_string_equal(end_words(EXITED(1), "", &shell, words), "exit status 1");
	assert_string_equal(end_words(SIGSEGV, "", &shell, words), "SIGSEGV");
	assert_int_equal(end_kind_of(SIGTERM, &shell), END_ASKED);
	assert_string_equal(end_words(SIGKILL, "", &kernel, words), "SIGKILL from the kernel");
	assert_int_equal(end_kind_of(SIGKILL, &kernel), END_ASKED);
	kernel.out_of_memory = true;
	assert_string_equal(end_words(SIGKILL, "", &kernel, words), "SIGKILL from the kernel, out of memory");
	assert_int_equal(end_kind_of(SIGKILL, &kernel), END_ERROR); /* nobody asked for it */
	assert_string_equal(end_words(SIGSEGV, "", &kernel, words), "SIGSEGV");
	assert_int_equal(end_kind_of(0, &kernel), END_NORMAL);
}

static struct steps_open open_stage(const char *stage, const char *name, uint64_t start_ns)
{
	struct steps_open ret = {.start_ns = start_ns, .thread_id = 7};

	copy_text(ret.stage, sizeof(ret.stage), stage);
	copy_text(ret.name, sizeof(ret.name), name);
	return ret;
}

TEST(test_stages)
{
	struct steps_open step = open_stage("optimizer", "step", 1000), zero = open_stage("zero_grad", "zero", 2000);
	struct rt_profile_stack_event event = {.event = {.thread_id = 7, .time_ns = 1500}, .stack = 5};
	struct stage_stacks stacks = {0};
	char name[16];

	assert_true(stage_stacks_add(&stacks, &step, &event));
	assert_false(stage_stacks_add(&stacks, &step, &event)); /* once for each */
	assert_int_equal(stacks.of[0].stack, 5);
	/* A hit that begins no stage: the stage around it is of another thread, began before, or begins later. */
	event.event.time_ns = 2000 + STAGE_STACKS_APART_NS;
	assert_false(stage_stacks_add(&stacks, &zero, &event));
	event.event.time_ns = 1999;
	assert_false(stage_stacks_add(&stacks, &zero, &event));
	event.event.time_ns = 2500;
	event.event.thread_id = 8;
	assert_false(stage_stacks_add(&stacks, &zero, &event));
	event.event.thread_id = 7;
	assert_true(stage_stacks_add(&stacks, &zero, &event));
	for (int i = 2; i < 2 * (int)STAGE_STACKS_MAX; i++) {
		snprintf(name, sizeof(name), "%d", i);
		zero = open_stage("mark", name, 2000);
		assert_int_equal(stage_stacks_add(&stacks, &zero, &event), i < (int)STAGE_STACKS_MAX);
	}
}

/* Soon at first, then seldom. */
TEST(test_due)
{
	struct stage_stacks stacks = {0};
	unsigned count = 0;

	for (uint64_t now_ns = NSEC_PER_SEC; now_ns < 3600 * NSEC_PER_SEC; now_ns += NSEC_PER_SEC / 10) {
		count += stage_stacks_due(&stacks, now_ns);
		if (now_ns == 4 * NSEC_PER_SEC)
			assert_int_equal(count, 3); /* at 1, 2 and 4 s */
	}
	assert_in_range(count, 3600 / 64, 3600 / 64 + 8);
}

/* Long system calls wait for the names of their stacks, but not for ever, and not too many of them. */
TEST(test_waits)
{
	static struct wait_stacks waits;
	struct rt_wait_event wait = {.event = {.time_ns = 5}, .stack = 1};

	for (unsigned i = 0; i < WAIT_STACKS_MAX + 3; i++)
		wait_stacks_add(&waits, &wait);
	assert_int_equal(waits.lost, 3);
	wait_stacks_put(&waits, NULL, 5 + WAIT_STACKS_FOR_NS - 1);
	assert_int_equal(waits.count, WAIT_STACKS_MAX);
	wait_stacks_put(&waits, NULL, 5 + WAIT_STACKS_FOR_NS);
	assert_int_equal(waits.count, 0);
	assert_int_equal(waits.lost, WAIT_STACKS_MAX + 3);
}

TEST_MAIN(NULL, NULL)
