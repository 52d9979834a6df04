/* SPDX-License-Identifier: Apache-2.0 */
/* Native and Python frames as one list, and the worker's answer as the daemon reads it. */
#include "stacks/capture/capture.h"
#include "stacks/reply/reply.h"
#include "tests/test.h"

static struct native_process *self;
static int32_t interpreter = 0; /* some file that is mapped here */

#define CALL \
	{ \
		.pc = 1, .module = 0, .cfa_offset = 352, .function = (char *)"_PyEval_EvalFrameDefault" \
	}
#define COLD_NAMED \
	{ \
		.pc = 1, .module = 0, .cfa_offset = 352, .function = (char *)"_PyEval_EvalFrameDefault.cold" \
	}
#define COLD \
	{ \
		.pc = 1, .module = 0, .cfa_offset = 352, .file_address = 5 \
	}
#define UNNAMED \
	{ \
		.pc = 1, .module = 0, .cfa_offset = 48, .file_address = 6 \
	}
#define INSIDE(name) \
	{ \
		.pc = 1, .module = 0, .cfa_offset = 48, .function = (char *)(name) \
	}
#define LIBRARY(name) \
	{ \
		.pc = 1, .module = 1, .cfa_offset = 48, .function = (char *)(name) \
	}
#define ENTRY(name) \
	{ \
		.function = (name), .file = "a.py", .line = 1, .entry = true \
	}
#define PLAIN(name) \
	{ \
		.function = (name), .file = "a.py", .line = 1 \
	}

#define MERGE_MAX 16

/* Expects "kind function" of each, outermost first; native frames are given innermost first, as they are found. */
static void merges(const struct native_frame *native, size_t natives, const char *reason,
	const struct pystack_frame *python, size_t pythons, const char *const *expected, bool left_out)
{
	struct native_frame natives_of[MERGE_MAX];
	struct pystack_frame pythons_of[MERGE_MAX];
	struct native_thread thread = {.frame = natives_of, .frames = natives, .kernel = "futex_do_wait"};
	const struct pystack_stack stack = {.frames = pythons_of, .count = pythons};
	const struct capture_merge merge = {self, &thread, &stack, interpreter};
	Ranktrace__StackProcess *process = calloc(1, sizeof(*process));
	Ranktrace__StackThread message = RANKTRACE__STACK_THREAD__INIT;
	uint32_t numbers[2 * MERGE_MAX];
	struct capture_list list = {.frame = numbers};
	size_t count = 0;

	*process = (Ranktrace__StackProcess)RANKTRACE__STACK_PROCESS__INIT;
	memcpy(natives_of, native, natives * sizeof(*native));
	if (pythons)
		memcpy(pythons_of, python, pythons * sizeof(*python));
	snprintf(thread.reason, sizeof(thread.reason), "%s", reason);
	capture_merge_frames(&merge, process, &message, &list);
	for (; expected[count]; count++) {
		char text[128];

		assert_true(count < list.count);
		snprintf(text, sizeof(text), "%.1s %s", process->frames[numbers[count]]->kind,
			process->frames[numbers[count]]->function);
		assert_string_equal(text, expected[count]);
	}
	assert_int_equal(count, list.count);
	assert_int_equal(message.native_reason != protobuf_c_empty_string, left_out);
	if (left_out)
		free(message.native_reason);
	ranktrace__stack_process__free_unpacked(process, NULL);
}

#define MERGES(native, reason, python, left_out, ...) \
	merges(native, ARRAY_SIZE(native), reason, python, ARRAY_SIZE(python), \
		(const char *const[]){__VA_ARGS__, NULL}, left_out)

TEST(test_whole)
{
	static const struct native_frame native[] = {
		LIBRARY("read"), INSIDE("os_read"), CALL, INSIDE("vectorcall"), LIBRARY("sort"), CALL, INSIDE("main")};
	static const struct pystack_frame python[] = {ENTRY("<module>"), PLAIN("train"), ENTRY("key"), PLAIN("load")};

	MERGES(native, "", python, false, "i main", "p <module>", "p train", "n sort", "i vectorcall", "p key",
		"p load", "i os_read", "n read", "k futex_do_wait");
}

/* A part of the interpreter's loop without a name has the size of its frame. */
TEST(test_cold)
{
	static const struct native_frame unnamed[] = {LIBRARY("read"), COLD, UNNAMED, CALL, UNNAMED};
	static const struct native_frame named[] = {LIBRARY("read"), COLD_NAMED, UNNAMED, CALL, UNNAMED};
	static const struct pystack_frame python[] = {ENTRY("<module>"), ENTRY("f")};

	MERGES(unnamed, "", python, false, "i ", "p <module>", "i ", "p f", "n read", "k futex_do_wait");
	MERGES(named, "", python, false, "i ", "p <module>", "i ", "p f", "n read", "k futex_do_wait");
}

/* The outer end is missing of the native stack: the innermost calls are those of the innermost runs. */
TEST(test_truncated)
{
	static const struct native_frame native[] = {LIBRARY("wait"), CALL, LIBRARY("backward")};
	static const struct native_frame none[] = {LIBRARY("wait"), LIBRARY("backward")};
	static const struct pystack_frame python[] = {ENTRY("<module>"), PLAIN("train"), ENTRY("hook")};

	MERGES(native, "a return probe", python, false, "p <module>", "p train", "n backward", "p hook", "n wait",
		"k futex_do_wait");
	MERGES(none, "a return probe", python, false, "p <module>", "p train", "p hook", "n backward", "n wait",
		"k futex_do_wait");
}

/* What does not fit together is not guessed. */
TEST(test_mismatch)
{
	static const struct native_frame more[] = {LIBRARY("read"), CALL, LIBRARY("sort"), CALL, CALL, INSIDE("main")};
	static const struct native_frame fewer[] = {
		LIBRARY("read"), INSIDE("os_read"), LIBRARY("sort"), INSIDE("main")};
	static const struct pystack_frame python[] = {ENTRY("<module>"), ENTRY("key")};

	MERGES(more, "", python, true, "p <module>", "p key", "n read", "k futex_do_wait");
	MERGES(fewer, "", python, true, "p <module>", "p key", "n read", "k futex_do_wait");
}

TEST(test_alone)
{
	static const struct native_frame native[] = {LIBRARY("poll"), LIBRARY("clone")};
	static const char *const expected[] = {"n clone", "n poll", "k futex_do_wait", NULL};
	static const struct pystack_frame python[] = {ENTRY("<module>"), PLAIN("spin")};
	static const char *const runs[] = {"p <module>", "p spin", "k futex_do_wait", NULL};

	merges(native, 2, "", NULL, 0, expected, false);
	merges(native, 0, "it runs", python, 2, runs, false);
}

/* The process of this test, packed as the worker packs it. */
static size_t answer(uint8_t **ret)
{
	Ranktrace__StackProcess *process = capture_process("/proc", (uint32_t)getpid(), UINT64_MAX);
	size_t bytes;

	assert_non_null(process);
	assert_string_equal(process->reason, "");
	assert_int_equal(process->n_threads, 1);
	bytes = ranktrace__stack_process__get_packed_size(process);
	*ret = malloc(4 + bytes);
	assert_non_null(*ret);
	for (unsigned i = 0; i < 4; i++)
		(*ret)[i] = (uint8_t)(bytes >> 8 * i);
	ranktrace__stack_process__pack(process, *ret + 4);
	ranktrace__stack_process__free_unpacked(process, NULL);
	return 4 + bytes;
}

TEST(test_reply)
{
	Ranktrace__StackProcess *process = NULL;
	uint8_t *data;
	size_t bytes = answer(&data), left = bytes;
	const uint8_t *at = data;

	assert_int_equal(reply_next(&at, &left, &process), 1);
	assert_int_equal(process->pid, getpid());
	assert_int_equal(process->threads[0]->thread_id, getpid());
	assert_int_equal(left, 0);
	ranktrace__stack_process__free_unpacked(process, NULL);
	assert_int_equal(reply_next(&at, &left, &process), 0);
	/* Cut anywhere, it is refused. */
	for (size_t n = 1; n < bytes; n++) {
		at = data;
		left = n;
		assert_int_equal(reply_next(&at, &left, &process), -EBADMSG);
	}
	free(data);
}

/* Numbers of frames beyond the frames, and texts that a terminal would obey. */
TEST(test_reply_hostile)
{
	uint32_t number = 1;
	Ranktrace__StackFrame frame = RANKTRACE__STACK_FRAME__INIT, *frames[] = {&frame};
	Ranktrace__StackThread thread = RANKTRACE__STACK_THREAD__INIT, *threads[] = {&thread};
	Ranktrace__StackProcess process = RANKTRACE__STACK_PROCESS__INIT, *read = NULL;
	uint8_t data[4096];

	frame.kind = (char *)"python";
	frame.function = (char *)"\033[2Jf\n";
	thread.frames = &number;
	thread.n_frames = 1;
	process.frames = frames;
	process.n_frames = 1;
	process.threads = threads;
	process.n_threads = 1;
	for (; number < 2; number--) {
		size_t bytes = ranktrace__stack_process__pack(&process, data + 4), left = 4 + bytes;
		const uint8_t *at = data;

		for (unsigned i = 0; i < 4; i++)
			data[i] = (uint8_t)(bytes >> 8 * i);
		assert_int_equal(reply_next(&at, &left, &read), number ? -EBADMSG : 1);
	}
	assert_string_equal(read->frames[0]->function, "?[2Jf ");
	ranktrace__stack_process__free_unpacked(read, NULL);
}

static int begin(void **state)
{
	return native_open("/proc", getpid(), &self);
}

static int finish(void **state)
{
	native_close(self);
	return 0;
}

TEST_MAIN(begin, finish)
