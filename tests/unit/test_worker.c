/* SPDX-License-Identifier: Apache-2.0 */
/* Workers that answer, crash, hang, exceed each limit, or cannot be killed: the loop goes on, and others are served. */
#include <event2/event.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "daemon/worker/worker.h"
#include "daemon/worker/worker_wire.h"

#include "tests/test.h"

#define OWNER 1000
#define OTHER 1001

static struct event_base *base;
static struct workers *workers;

static const struct worker_kind once = {"test", "worker_target", 2, false, 512 << 20, 60, 60 * NSEC_PER_SEC, 1 << 20};
static const struct worker_kind reused = {"test", "worker_target", 1, true, 512 << 20, 60, 60 * NSEC_PER_SEC, 1 << 20};
static const struct worker_kind brief = {"test", "worker_target", 4, false, 512 << 20, 60, NSEC_PER_SEC / 2, 1 << 20};
static const struct worker_kind alone = {"test", "worker_target", 1, false, 512 << 20, 60, NSEC_PER_SEC / 2, 1 << 20};
static const struct worker_kind busy = {"test", "worker_target", 2, false, 512 << 20, 0, 60 * NSEC_PER_SEC, 1 << 20};
static const struct worker_kind absent = {"test", "no_such_program", 1, false, 512 << 20, 1, NSEC_PER_SEC, 1 << 20};

struct heard {
	unsigned count;
	enum worker_end end;
	size_t size_bytes;
	char text[64];
	unsigned fds;
	struct stat st;
};

static void on_done(void *arg, struct worker_reply *reply)
{
	struct heard *heard = arg;
	size_t n = reply->size_bytes < sizeof(heard->text) - 1 ? reply->size_bytes : sizeof(heard->text) - 1;

	heard->count++;
	heard->end = reply->end;
	heard->size_bytes = reply->size_bytes;
	if (n)
		memcpy(heard->text, reply->data, n);
	heard->text[n] = 0;
	heard->fds = reply->fds;
	if (reply->fds)
		assert_int_equal(fstat(reply->fd[0], &heard->st), 0);
}

static uint64_t ask(const struct worker_kind *kind, uint32_t owner, const char *request, struct heard *heard)
{
	uint64_t id = 0;

	*heard = (struct heard){0};
	assert_int_equal(
		worker_ask(workers, kind, owner, request, strlen(request) + 1, NULL, 0, on_done, heard, &id), 0);
	assert_int_not_equal(id, 0);
	return id;
}

static void wait_for(const struct heard *heard)
{
	while (!heard->count)
		assert_int_equal(event_base_loop(base, EVLOOP_ONCE), 0);
	assert_int_equal(heard->count, 1);
}

static enum worker_end end_of(const struct worker_kind *kind, const char *request, struct heard *heard)
{
	(void)ask(kind, OWNER, request, heard);
	wait_for(heard);
	return heard->end;
}

static int start(void **state)
{
	base = event_base_new();
	return !base || workers_new(base, &workers) < 0;
}

/* Also with requests that run and wait. */
static int stop(void **state)
{
	workers = workers_free(workers);
	event_base_free(base);
	return 0;
}

TEST_WITH(test_answers, start, stop)
{
	char *big = calloc(1, 300001);
	struct heard heard;

	assert_int_equal(end_of(&once, "echo", &heard), WORKER_ANSWERED);
	assert_string_equal(heard.text, "echo");
	assert_non_null(big);
	memset(big, 'e', 300000);
	assert_int_equal(end_of(&once, big, &heard), WORKER_ANSWERED);
	assert_int_equal(heard.size_bytes, 300001);
	/* As many bytes as a message takes, one less and one more. */
	for (size_t size_bytes = WORKER_INLINE_BYTES - 1; size_bytes <= WORKER_INLINE_BYTES + 1; size_bytes++) {
		big[size_bytes - 1] = 0;
		assert_int_equal(end_of(&once, big, &heard), WORKER_ANSWERED);
		assert_int_equal(heard.size_bytes, size_bytes);
		big[size_bytes - 1] = 'e';
	}
	free(big);
	assert_int_equal(end_of(&once, "rlimits", &heard), WORKER_ANSWERED);
	assert_string_equal(heard.text, "good");
}

/* Descriptors go there and back; nothing else of ours is open there. */
TEST_WITH(test_descriptors, start, stop)
{
	static const char expected[] = {0, 1, 2, 3};
	int leaked = open("/dev/zero", O_RDONLY), given = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
	struct heard heard = {0};
	struct stat st;
	uint64_t id;

	assert_int_equal(end_of(&once, "list", &heard), WORKER_ANSWERED);
	assert_int_equal(heard.size_bytes, sizeof(expected));
	assert_memory_equal(heard.text, expected, sizeof(expected));
	heard = (struct heard){0};
	assert_int_equal(worker_ask(workers, &once, OWNER, "echo", 5, &given, 1, on_done, &heard, &id), 0);
	wait_for(&heard);
	assert_int_equal(heard.fds, 1);
	assert_int_equal(fstat(given, &st), 0);
	assert_true(heard.st.st_ino == st.st_ino && heard.st.st_dev == st.st_dev);
	close(given);
	close(leaked);
}

TEST_WITH(test_limits, start, stop)
{
	struct workers_status status;
	struct heard heard;

	assert_int_equal(end_of(&once, "crash", &heard), WORKER_DIED);
	assert_int_equal(end_of(&once, "?", &heard), WORKER_DIED);
	assert_int_equal(end_of(&busy, "spin", &heard), WORKER_DIED);
	assert_int_equal(end_of(&once, "flood", &heard), WORKER_TOO_LONG);
	assert_int_equal(end_of(&brief, "pause", &heard), WORKER_TIMED_OUT);
	assert_string_equal(heard.text, "part");			   /* what it said before */
	assert_int_equal(end_of(&brief, "work", &heard), WORKER_ANSWERED); /* past the limit, ready to run */
	assert_int_equal(end_of(&absent, "echo", &heard), WORKER_UNSTARTED);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__clang__)
	assert_int_equal(end_of(&once, "memory", &heard), WORKER_ANSWERED);
	assert_string_equal(heard.text, "none");
#endif
	/* The end of one that has answered may come later. */
	for (workers_status(workers, &status); status.running; workers_status(workers, &status))
		assert_int_equal(event_base_loop(base, EVLOOP_ONCE), 0);
	assert_int_equal(status.ended[WORKER_DIED], 3);
	assert_int_equal(status.ended[WORKER_TIMED_OUT], 1);
	assert_int_equal(status.running + status.waiting + status.abandoned, 0);
}

/* Of those that run, and of those that have ended; a process that is not reaped yet does not take its time back. */
TEST_WITH(test_cpu_time, start, stop)
{
	uint64_t before_ns = workers_cpu_ns(workers), now_ns;
	struct heard heard;

	for (int i = 0; i < 20; i++) {
		assert_int_equal(end_of(i % 2 ? &once : &reused, "echo", &heard), WORKER_ANSWERED);
		now_ns = workers_cpu_ns(workers);
		assert_true(now_ns >= before_ns);
		before_ns = now_ns;
	}
	/* One of them still runs. */
	assert_true(workers_cpu_ns(NULL) < before_ns);
}

TEST_WITH(test_reused_and_replaced, start, stop)
{
	struct heard heard;

	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(end_of(&reused, "echo", &heard), WORKER_ANSWERED);
	assert_int_equal(end_of(&reused, "crash", &heard), WORKER_DIED);
	assert_int_equal(end_of(&reused, "echo", &heard), WORKER_ANSWERED);
}

/* Of two processes one owner has one: he waits for himself, others do not. */
TEST_WITH(test_shared_fairly, start, stop)
{
	struct heard slow, queued, other;
	uint64_t id;

	(void)ask(&once, OWNER, "pause", &slow);
	id = ask(&once, OWNER, "echo", &queued);
	(void)ask(&once, OTHER, "echo", &other);
	wait_for(&other);
	assert_int_equal(slow.count + queued.count, 0);
	worker_cancel(workers, id);
	worker_cancel(workers, 4711);
	for (unsigned i = 0; i < WORKER_QUEUE_OWNER_MAX - 1; i++)
		(void)ask(&once, OWNER, "echo", &queued);
	assert_int_equal(worker_ask(workers, &once, OWNER, "echo", 5, NULL, 0, on_done, &queued, &id), -EBUSY);
	(void)ask(&once, OTHER, "echo", &other);
	wait_for(&other);
	assert_int_equal(slow.count + queued.count, 0);
}

/* Takes every request and answers only the mount's: whose request was taken cannot be killed. */
static void *serve_dead(void *arg)
{
	static char buffer[1 << 20];
	const struct fuse_in_header *in = (const void *)buffer;
	struct {
		struct fuse_out_header head;
		struct fuse_init_out init;
	} out = {.head.len = sizeof(out), .init = {.major = FUSE_KERNEL_VERSION, .minor = FUSE_KERNEL_MINOR_VERSION}};
	int server = *(int *)arg;

	while (read(server, buffer, sizeof(buffer)) > 0) {
		out.head.unique = in->unique;
		if (in->opcode == FUSE_INIT && write(server, &out, sizeof(out)) < 0)
			break;
	}
	return NULL;
}

TEST_WITH(test_cannot_be_killed, start, stop)
{
	char path[] = "/tmp/ranktrace-worker-XXXXXX", options[96], request[64];
	struct heard heard = {0}, other;
	struct workers_status status = {0};
	int server = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	pthread_t thread;
	uint64_t id;

	assert_non_null(mkdtemp(path));
	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0", server);
	if (server < 0 || mount("dead", path, "fuse", 0, options) < 0) {
		rmdir(path);
		skip();
	}
	assert_int_equal(pthread_create(&thread, NULL, serve_dead, &server), 0);
	snprintf(request, sizeof(request), "h%s/x", path);
	for (unsigned i = 0; i < WORKER_ABANDONED_OWNER_MAX; i++)
		assert_int_equal(end_of(&brief, request, &heard), WORKER_TIMED_OUT);
	while (status.abandoned < WORKER_ABANDONED_OWNER_MAX) {
		assert_int_equal(event_base_loop(base, EVLOOP_ONCE), 0);
		workers_status(workers, &status);
	}
	assert_int_equal(worker_ask(workers, &brief, OWNER, "echo", 5, NULL, 0, on_done, &heard, &id), -EUSERS);
	(void)ask(&once, OTHER, "echo", &other);
	wait_for(&other);
	assert_int_equal(other.end, WORKER_ANSWERED);
	/* The file system ends after all, and with it the processes. */
	(void)umount2(path, MNT_FORCE); /* ends its requests; it is still in use */
	while (status.abandoned) {
		assert_int_equal(event_base_loop(base, EVLOOP_ONCE), 0);
		workers_status(workers, &status);
	}
	assert_int_equal(end_of(&once, "echo", &heard), WORKER_ANSWERED);
	pthread_cancel(thread);
	pthread_join(thread, NULL);
	close(server);
	assert_int_equal(umount2(path, MNT_DETACH), 0);
	rmdir(path);
}

/* One that has not ended yet, but can, is waited for. */
TEST_WITH(test_ends_late, start, stop)
{
	struct workers_status status;
	struct heard heard, next;

	if (end_of(&alone, "k", &heard) != WORKER_TIMED_OUT || strcmp(heard.text, "held") != 0)
		skip(); /* ptrace() is refused */
	(void)ask(&alone, OWNER, "echo", &next);
	while (!next.count) {
		assert_int_equal(event_base_loop(base, EVLOOP_ONCE), 0);
		workers_status(workers, &status);
		assert_int_equal(status.abandoned, 0);
	}
	assert_int_equal(next.end, WORKER_ANSWERED);
}

/* The kernel keeps one that waits, and one that goes on computing after its kill. */
TEST(test_stuck)
{
	assert_true(worker_is_stuck('D', 0));
	assert_false(worker_is_stuck('R', 100 * NSEC_PER_MSEC));
	assert_true(worker_is_stuck('R', NSEC_PER_SEC));
	assert_false(worker_is_stuck('Z', 0));
}

int main(void)
{
	setenv("RANKTRACE_LIBEXEC", WORKER_FOLDER, 1);
	return TEST_RUN(NULL, NULL);
}
