/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of a child of this test, read from outside: whole stacks, stacks through a signal, broken ones. */
#define TEST_ALONE /* its outermost function is main() */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "daemon/base/util.h"
#include "stacks/native/native.h"
#include "tests/test.h"

/* Sanitizers build with frame pointers, of which the innermost is not known from outside: the stack says that it
 * ends. */
#if defined(__SANITIZE_ADDRESS__)
#define HAS_FRAME_POINTERS true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAS_FRAME_POINTERS true
#endif
#endif
#ifndef HAS_FRAME_POINTERS
#define HAS_FRAME_POINTERS false
#endif

static int gate[2], ready[2]; /* the child reads the gate until it is killed */

/* Functions that the compiler leaves as they are: each has a frame of its own. */
#ifdef __clang__ /* does not clone */
#define FRAME __attribute__((noinline))
#else
#define FRAME __attribute__((noinline, noclone))
#endif

static FRAME void native_test_wait(void)
{
	char byte;

	while (read(gate[0], &byte, 1) != 1)
		;
	__asm__ volatile("");
}

static FRAME void native_test_middle(volatile int depth)
{
	if (depth > 0)
		native_test_middle(depth - 1);
	else
		native_test_wait();
	__asm__ volatile("");
}

static void native_test_handler(int number)
{
	native_test_wait();
	__asm__ volatile("");
}

static FRAME void native_test_signal(void)
{
	signal(SIGUSR1, native_test_handler);
	raise(SIGUSR1);
	__asm__ volatile("");
}

/* Its caller's address on the stack is not one. */
static FRAME void native_test_broken(void)
{
	void *volatile *frame = __builtin_frame_address(0);

	frame[1] = (void *)0x1234;
	native_test_wait();
	__asm__ volatile("");
}

static void *native_test_thread(void *arg)
{
	prctl(PR_SET_NAME, "worker\tone");
	native_test_middle(0);
	return arg;
}

static FRAME void native_test_threads(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, native_test_thread, NULL);
	native_test_wait();
	__asm__ volatile("");
}

static FRAME void native_test_deep(void)
{
	native_test_middle(1000);
	__asm__ volatile("");
}

static FRAME void native_test_two(void)
{
	native_test_middle(2);
	__asm__ volatile("");
}

static FRAME void native_test_spin(void)
{
	for (volatile unsigned long i = 0;; i++)
		;
}

static void native_test_stripped(void)
{
	dup2(gate[0], STDIN_FILENO);
	execl(WORKER_FOLDER "/stripped_target", "stripped_target", NULL);
}

static pid_t child_start(void (*function)(void))
{
	pid_t pid;

	assert_int_equal(pipe2(gate, O_CLOEXEC), 0);
	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (write(ready[1], "", 1) == 1)
			function();
		_exit(0);
	}
	return pid;
}

static void child_end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	for (int i = 0; i < 2; i++) {
		close(gate[i]);
		close(ready[i]);
	}
}

struct seen {
	pid_t pid;
	struct native_process *process;
	struct native_thread *thread;
	size_t threads;
};

/* Until all of `threads` wait in read(), or one runs where none should wait. */
static void seen_open(struct seen *seen, void (*function)(void), size_t threads, bool waits)
{
	seen->pid = child_start(function);
	for (unsigned tries = 0; tries < 2000; tries++) {
		size_t left_out, waiting = 0;

		assert_int_equal(native_open("/proc", seen->pid, &seen->process), 0);
		assert_int_equal(native_threads(seen->process, &seen->thread, &seen->threads, &left_out), 0);
		for (size_t i = 0; i < seen->threads; i++)
			waiting += seen->thread[i].blocked && seen->thread[i].number == SYS_read;
		if (waits ? waiting == threads && seen->threads == threads
			  : seen->thread[0].state == 'R' && !seen->thread[0].blocked)
			return;
		native_close(seen->process);
		usleep(5000);
	}
	fail_msg("the child does not come to its place");
}

static void seen_unwind(struct seen *seen)
{
	for (size_t i = 0; i < seen->threads; i++)
		native_unwind(seen->process, &seen->thread[i]);
	native_symbolize(seen->process);
}

static void seen_close(struct seen *seen)
{
	native_close(seen->process);
	child_end(seen->pid);
}

/* Place of the function among the frames, innermost first; -1: none. */
static int place(const struct native_thread *thread, const char *function)
{
	for (size_t i = 0; i < thread->frames; i++)
		if (thread->frame[i].function && streq(thread->frame[i].function, function))
			return (int)i;
	return -1;
}

TEST(test_whole)
{
	struct seen seen;
	int at;

	if (HAS_FRAME_POINTERS)
		skip();
	seen_open(&seen, native_test_two, 1, true);
	assert_int_equal(seen.thread[0].thread_id, seen.pid);
	assert_int_equal(seen.thread[0].state, 'S');
	assert_non_null(strstr(seen.thread[0].wait, "read "));
	assert_non_null(strstr(seen.thread[0].wait, "(pipe:["));
	seen_unwind(&seen);
	assert_string_equal(seen.thread[0].reason, "");
	at = place(&seen.thread[0], "native_test_wait");
	assert_true(at > 0);
	for (int i = 1; i <= 3; i++)
		assert_string_equal(seen.thread[0].frame[at + i].function, "native_test_middle");
	assert_string_equal(seen.thread[0].frame[at + 4].function, "native_test_two");
	assert_true(place(&seen.thread[0], "main") > at + 4);
	assert_string_equal(seen.thread[0].frame[seen.thread[0].frames - 1].function, "_start");
	assert_true(native_thread_same(seen.process, &seen.thread[0]));
	assert_non_null(strstr(native_module_path(seen.process, seen.thread[0].frame[at].module), "test_native"));
	/* Once it has run, it is another moment. */
	assert_int_equal(kill(seen.pid, SIGSTOP), 0);
	while (native_thread_same(seen.process, &seen.thread[0]))
		usleep(1000);
	native_thread_refresh(seen.process, &seen.thread[0]);
	assert_int_equal(seen.thread[0].frames, 0);
	seen_close(&seen);
}

/* Symbols are in the file that .gnu_debuglink names. */
TEST(test_debug_link)
{
	struct seen seen;
	int at;

	if (HAS_FRAME_POINTERS)
		skip();
	seen_open(&seen, native_test_stripped, 1, true);
	assert_non_null(strstr(seen.thread[0].wait, "(pipe:["));
	seen_unwind(&seen);
	at = place(&seen.thread[0], "stripped_target_wait");
	assert_true(at > 0);
	assert_string_equal(seen.thread[0].frame[at + 1].function, "main");
	seen_close(&seen);
}

TEST(test_signal)
{
	struct seen seen;

	if (HAS_FRAME_POINTERS)
		skip();
	seen_open(&seen, native_test_signal, 1, true);
	seen_unwind(&seen);
	assert_string_equal(seen.thread[0].reason, "");
	assert_true(place(&seen.thread[0], "native_test_handler") > place(&seen.thread[0], "native_test_wait"));
	assert_true(place(&seen.thread[0], "native_test_signal") > place(&seen.thread[0], "native_test_handler"));
	assert_true(place(&seen.thread[0], "main") > place(&seen.thread[0], "native_test_signal"));
	seen_close(&seen);
}

TEST(test_threads)
{
	struct seen seen;

	if (HAS_FRAME_POINTERS)
		skip();
	seen_open(&seen, native_test_threads, 2, true);
	seen_unwind(&seen);
	assert_true(place(&seen.thread[0], "native_test_threads") > 0);
	assert_string_equal(seen.thread[1].name, "worker?one");
	assert_true(place(&seen.thread[1], "native_test_thread") > place(&seen.thread[1], "native_test_middle"));
	assert_int_equal(place(&seen.thread[1], "main"), -1);
	seen_close(&seen);
}

TEST(test_broken)
{
	struct seen seen;

	if (HAS_FRAME_POINTERS)
		skip();
	seen_open(&seen, native_test_broken, 1, true);
	seen_unwind(&seen);
	assert_true(place(&seen.thread[0], "native_test_broken") > 0);
	assert_int_equal(place(&seen.thread[0], "native_test_broken"), (int)seen.thread[0].frames - 1);
	assert_non_null(strstr(seen.thread[0].reason, "in no executable mapping"));
	seen_close(&seen);
}

TEST(test_deep)
{
	struct seen seen;

	if (HAS_FRAME_POINTERS)
		skip();
	seen_open(&seen, native_test_deep, 1, true);
	seen_unwind(&seen);
	assert_int_equal(seen.thread[0].frames, NATIVE_FRAMES_MAX);
	assert_non_null(strstr(seen.thread[0].reason, "deeper than"));
	seen_close(&seen);
}

TEST(test_running)
{
	struct seen seen;

	seen_open(&seen, native_test_spin, 1, false);
	seen_unwind(&seen);
	assert_int_equal(seen.thread[0].frames, 0);
	assert_non_null(strstr(seen.thread[0].reason, "running: "));
	seen_close(&seen);
}

TEST(test_gone)
{
	struct native_process *process = NULL;
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	waitpid(pid, NULL, 0);
	assert_true(native_open("/proc", pid, &process) < 0);
	assert_null(process);
}

TEST(test_frame_pointers)
{
	struct seen seen;

	if (!HAS_FRAME_POINTERS)
		skip();
	seen_open(&seen, native_test_two, 1, true);
	seen_unwind(&seen);
	assert_true(seen.thread[0].frames > 0);
	assert_non_null(strstr(seen.thread[0].reason, "not known from outside"));
	seen_close(&seen);
}

TEST_MAIN(NULL, NULL)
