/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The programs of system calls in the running kernel: each call of this process is in a sum, and each on a regular file
 * is a record or in a sum of its own.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "bpf/cost.h"
#include "bpf/quota.h"
#include "bpf/syscalls.h"
#include "daemon/base/syscall_names.h"
#include "daemon/base/util.h"
#include "syscalls.skel.h"

#include "tests/test.h"

#define WRITES 97
#define READS 89
#define SYNCS 7
#define BYTES 4096
#define CALLS_MAX 1024
#define NEVER_NS UINT64_MAX
#define PART_BYTES (RT_SYSCALL_SLOTS * sizeof(struct rt_syscall_sums))

static struct {
	struct syscalls_bpf *skeleton;
	struct rt_syscall_sums *part, *sums; /* the inner map's memory; of it, this process's */
	struct ring_buffer *ring;
	char folder[64], path[96];
	uint32_t calls, count[RT_FILE_OPS];
	struct rt_file_event call[CALLS_MAX];
} t;

/* Only of the test's own file: the C library or a profiler may write, too. */
static int on_record(void *arg, void *data, size_t size)
{
	const struct rt_file_event *call = data;

	assert_int_equal(size, sizeof(*call));
	assert_int_equal(call->event.kind, RT_KIND_FILE);
	assert_int_equal(call->event.pid, getpid());
	if (call->op != RT_FILE_SEND && !streq(call->name, "checkpoint.pt"))
		return 0;
	assert_true(t.calls < CALLS_MAX && call->op < RT_FILE_OPS);
	t.call[t.calls++] = *call;
	t.count[call->op]++;
	return 0;
}

#define ENTRIES 64
#define SLOT (RT_SYSCALL_SLOTS + 3) /* of the second part */

static int load(uint64_t threshold_ns)
{
	struct syscalls_bpf *skeleton = t.skeleton = syscalls_bpf__open();

	if (!skeleton)
		return -errno;
	skeleton->rodata->threshold_ns = threshold_ns;
	syscall_kinds(skeleton->rodata->kinds);
	bpf_map__set_max_entries(skeleton->maps.syscalls, ENTRIES);
	bpf_map__set_max_entries(skeleton->maps.syscall_sums, 2);
	bpf_map__set_max_entries(skeleton->maps.quotas, 2 * RT_SYSCALL_SLOTS);
	bpf_map__set_max_entries(skeleton->maps.costs, 2 * RT_SYSCALL_SLOTS);
	bpf_map__set_max_entries(skeleton->maps.events, 4 << 20);
	return syscalls_bpf__load(skeleton);
}

static void start(uint64_t threshold_ns, bool is_rank)
{
	uint32_t pid = (uint32_t)getpid(), slot = SLOT, part = SLOT / RT_SYSCALL_SLOTS;
	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_MMAPABLE);
	int sums;

	t.calls = 0;
	memset(t.count, 0, sizeof(t.count));
	assert_int_equal(load(threshold_ns), 0);
	t.ring = ring_buffer__new(bpf_map__fd(t.skeleton->maps.events), on_record, NULL, NULL);
	assert_non_null(t.ring);
	if (is_rank)
		assert_int_equal(bpf_map_update_elem(bpf_map__fd(t.skeleton->maps.ranks), &pid, &slot, BPF_ANY), 0);
	snprintf(t.folder, sizeof(t.folder), "/var/tmp/rt-files-XXXXXX");
	assert_non_null(mkdtemp(t.folder));
	snprintf(t.path, sizeof(t.path), "%s/checkpoint.pt", t.folder);
	assert_int_equal(close(open(t.path, O_CREAT | O_CLOEXEC, 0600)), 0);
	sums = bpf_map_create(BPF_MAP_TYPE_ARRAY, "sums", sizeof(slot), sizeof(*t.sums), RT_SYSCALL_SLOTS, &options);
	assert_true(sums >= 0);
	t.part = mmap(NULL, PART_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, sums, 0);
	assert_true(t.part != MAP_FAILED);
	t.sums = &t.part[SLOT % RT_SYSCALL_SLOTS];
	assert_int_equal(bpf_map_update_elem(bpf_map__fd(t.skeleton->maps.syscall_sums), &part, &sums, BPF_ANY), 0);
	close(sums);
	assert_int_equal(syscalls_bpf__attach(t.skeleton), 0);
}

static void stop(void)
{
	ring_buffer__free(t.ring);
	assert_int_equal(munmap(t.part, PART_BYTES), 0);
	syscalls_bpf__destroy(t.skeleton);
	assert_int_equal(unlink(t.path), 0);
	assert_int_equal(rmdir(t.folder), 0);
}

static void work(void)
{
	char data[BYTES] = "";
	int fd = open(t.path, O_RDWR | O_CREAT | O_CLOEXEC, 0600), pair[2];

	assert_true(fd >= 0);
	for (unsigned i = 0; i < WRITES; i++)
		assert_int_equal(write(fd, data, sizeof(data)), sizeof(data));
	for (unsigned i = 0; i < READS; i++)
		assert_int_equal(pread(fd, data, sizeof(data), i), sizeof(data));
	for (unsigned i = 0; i < SYNCS; i++)
		assert_int_equal(fsync(fd), 0);
	close(fd);
	/* It has no name. */
	assert_int_equal(open("/nonexistent", O_RDONLY | O_CLOEXEC), -1);
	/* A pipe is no file. */
	assert_int_equal(pipe(pair), 0);
	assert_int_equal(write(pair[1], data, 1), 1);
	assert_int_equal(read(pair[0], data, 1), 1);
	close(pair[0]);
	close(pair[1]);
}

static void read_sums(struct rt_file_sum ret[RT_FILE_OPS])
{
	memcpy(ret, t.sums->file, RT_FILE_OPS * sizeof(*ret));
}

TEST(slow_calls_are_records)
{
	struct rt_file_sum sum[RT_FILE_OPS];

	start(0, true);
	work();
	assert_true(ring_buffer__consume(t.ring) >= 0);
	assert_int_equal(t.count[RT_FILE_WRITE], WRITES);
	assert_int_equal(t.count[RT_FILE_READ], READS);
	assert_int_equal(t.count[RT_FILE_SYNC], SYNCS);
	assert_int_equal(t.count[RT_FILE_OPEN], 1);
	for (uint32_t i = 0; i < t.calls; i++) {
		assert_string_equal(t.call[i].folder, strrchr(t.folder, '/') + 1);
		assert_int_equal(
			t.call[i].bytes, t.call[i].op == RT_FILE_SYNC || t.call[i].op == RT_FILE_OPEN ? 0 : BYTES);
		assert_int_equal(t.call[i].start_ns + t.call[i].duration_ns <= t.call[i].event.time_ns, true);
	}
	read_sums(sum);
	assert_int_equal(sum[RT_FILE_WRITE].count + sum[RT_FILE_READ].count + sum[RT_FILE_SYNC].count, 0);
	assert_int_equal(sum[RT_FILE_OPEN].count, 1); /* the one that failed */
	stop();
}

#ifdef SYS_creat
#define CREATE(path) (int)syscall(SYS_creat, path, 0600)
#else
#define CREATE(path) open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600)
#endif

TEST(rarer_calls_are_seen)
{
	char data[BYTES] = "";
	struct iovec part = {data, sizeof(data)};
	loff_t from = 0;
	int to, in;

	start(0, true);
	to = CREATE(t.path);
	in = open(t.path, O_RDONLY | O_CLOEXEC);
	assert_true(to >= 0 && in >= 0);
	assert_int_equal(pwritev2(to, &part, 1, 0, 0), BYTES);
	assert_int_equal(preadv2(in, &part, 1, 0, 0), BYTES);
	assert_int_equal(sync_file_range(to, 0, 0, SYNC_FILE_RANGE_WRITE), 0);
	assert_int_equal(lseek(to, BYTES, SEEK_SET), BYTES);
	assert_int_equal(sendfile(to, in, &from, BYTES), BYTES);
	from = 0;
	assert_int_equal(copy_file_range(in, &from, to, NULL, BYTES, 0), BYTES);
	assert_true(ring_buffer__consume(t.ring) >= 0);
	assert_int_equal(t.count[RT_FILE_OPEN], 2);
	assert_int_equal(t.count[RT_FILE_WRITE], 2);
	assert_int_equal(t.count[RT_FILE_READ], 2);
	assert_int_equal(t.count[RT_FILE_SYNC], 1);
	close(to);
	close(in);
	stop();
}

#define SENDS 43

/* Connected to a socket that listens on a port of its own. */
static int connect_to(int family, int *ret_listening, uint16_t *ret_port)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};
	struct sockaddr *at = family == AF_INET ? (struct sockaddr *)&v4 : (struct sockaddr *)&v6;
	socklen_t length = family == AF_INET ? sizeof(v4) : sizeof(v6);
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	*ret_listening = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(*ret_listening, at, length) < 0)
		return -1; /* a machine without IPv6 */
	assert_int_equal(listen(*ret_listening, 1), 0);
	assert_int_equal(getsockname(*ret_listening, at, &length), 0);
	assert_int_equal(connect(fd, at, length), 0);
	*ret_port = family == AF_INET ? v4.sin_port : v6.sin6_port;
	return fd;
}

static void send_some(int fd)
{
	for (unsigned i = 0; i < SENDS; i++)
		assert_int_equal(i % 2 ? send(fd, "123", 3, 0) : write(fd, "123", 3), 3);
}

static void assert_sends(unsigned family, const void *address, size_t address_bytes, uint16_t port)
{
	t.calls = t.count[RT_FILE_SEND] = 0;
	assert_true(ring_buffer__consume(t.ring) >= 0);
	assert_int_equal(t.count[RT_FILE_SEND], SENDS);
	for (uint32_t i = 0; i < t.calls; i++) {
		assert_int_equal(t.call[i].op, RT_FILE_SEND);
		assert_int_equal(t.call[i].bytes, 3);
		assert_int_equal(t.call[i].family, family);
		assert_int_equal(t.call[i].port, port);
		assert_memory_equal(t.call[i].address, address, address_bytes);
	}
}

TEST(sends_have_their_peer)
{
	const uint32_t here = htonl(INADDR_LOOPBACK);
	int fd[2] = {-1, -1}, listening[2] = {-1, -1}, pair[2];
	uint16_t port[2];

	fd[0] = connect_to(AF_INET, &listening[0], &port[0]);
	assert_true(fd[0] >= 0);
	fd[1] = connect_to(AF_INET6, &listening[1], &port[1]);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	start(0, true);
	send_some(fd[0]);
	assert_sends(AF_INET, &here, sizeof(here), port[0]);
	if (fd[1] >= 0) {
		send_some(fd[1]);
		assert_sends(AF_INET6, &in6addr_loopback, sizeof(in6addr_loopback), port[1]);
	}
	send_some(pair[0]);
	assert_sends(0, "", 1, 0);
	stop();
	for (unsigned i = 0; i < 2; i++) {
		close(pair[i]);
		close(fd[i]);
		close(listening[i]);
	}
}

TEST(others_are_summed)
{
	struct rt_file_sum sum[RT_FILE_OPS];

	start(NEVER_NS, true);
	work();
	assert_true(ring_buffer__consume(t.ring) >= 0);
	assert_int_equal(t.calls, 0);
	read_sums(sum);
	assert_true(sum[RT_FILE_WRITE].count >= WRITES && sum[RT_FILE_WRITE].bytes >= WRITES * BYTES);
	assert_true(sum[RT_FILE_READ].count >= READS && sum[RT_FILE_READ].bytes >= READS * BYTES);
	assert_int_equal(sum[RT_FILE_SYNC].count, SYNCS);
	assert_true(sum[RT_FILE_SYNC].duration_ns > 0);
	assert_int_equal(sum[RT_FILE_OPEN].count, 2);
	assert_true(sum[RT_FILE_OPEN].duration_ns > 0);
	assert_int_equal(sum[RT_FILE_OPEN].bytes, 0);
	stop();
}

TEST(who_is_no_rank_is_not_seen)
{
	struct rt_file_sum sum[RT_FILE_OPS];
	uint32_t key;

	start(0, false);
	work();
	assert_int_equal(ring_buffer__consume(t.ring), 0);
	read_sums(sum);
	assert_int_equal(sum[RT_FILE_WRITE].count + sum[RT_FILE_READ].count + sum[RT_FILE_SYNC].count, 0);
	assert_int_equal(bpf_map_get_next_key(bpf_map__fd(t.skeleton->maps.syscalls), NULL, &key), -ENOENT);
	stop();
}

static unsigned entries(void)
{
	uint32_t key, *before = NULL;
	unsigned count = 0;

	for (; bpf_map_get_next_key(bpf_map__fd(t.skeleton->maps.syscalls), before, &key) == 0; before = &key)
		count++;
	return count;
}

#define POLLS 211
#define WAIT_MS 30

/* Of all machines; the C library's poll() is another call on some. */
static int wait_ms(int ms)
{
	struct timespec wait = {.tv_nsec = ms * 1000000L};

	return ppoll(NULL, 0, ms < 0 ? NULL : &wait, NULL);
}

TEST(every_call_is_counted)
{
	struct rt_syscall_sums sums;
	const struct rt_syscall_sum *polls = &sums.of[SYS_ppoll], *pids = &sums.of[SYS_getppid];

	start(NEVER_NS, true);
	for (unsigned i = 0; i < POLLS; i++)
		(void)wait_ms(0);
	assert_int_equal(wait_ms(WAIT_MS), 0);
	for (unsigned i = 0; i < POLLS; i++)
		(void)getppid();
	(void)syscall(RT_SYSCALLS_MAX + 1); /* there is none */
	sums = *t.sums;
	assert_int_equal(polls->count, POLLS + 1);
	assert_true(polls->longest_ns >= WAIT_MS * NSEC_PER_MSEC);
	assert_true(polls->duration_ns > polls->longest_ns);
	assert_int_equal(pids->count, POLLS);
	assert_true(pids->duration_ns >= pids->longest_ns && pids->longest_ns > 0);
	work();
	sums = *t.sums;
	assert_true(sums.of[SYS_fsync].count == SYNCS && sums.of[SYS_pread64].count == READS);
	assert_int_equal(sums.of[SYS_write].count, WRITES + 1); /* one to a pipe */
	stop();
}

static uint64_t hits(void)
{
	uint32_t slot = SLOT;
	struct rt_costs costs;

	assert_int_equal(bpf_map_lookup_elem(bpf_map__fd(t.skeleton->maps.costs), &slot, &costs), 0);
	return costs.at[RT_COST_L3][RT_COST_TRACEPOINT].hits;
}

#define YIELDS 1009

/* NCCL's thread that serves the network yields a million times a second: nothing of that is followed. */
TEST(a_thread_that_yields_is_left_out)
{
	uint64_t before, polled, after;

	start(NEVER_NS, true);
	before = hits();
	for (unsigned i = 0; i < POLLS; i++)
		(void)wait_ms(0);
	polled = hits();
	for (unsigned i = 0; i < YIELDS; i++)
		assert_int_equal(sched_yield(), 0);
	after = hits();
	assert_int_equal(t.sums->of[SYS_ppoll].count, POLLS);
	assert_int_equal(t.sums->of[SYS_sched_yield].count, 0);
	/* Two of each call, and bpf() of hits(). */
	assert_int_equal(polled - before, 2 * POLLS + 2);
	assert_int_equal(after - polled, 2);
	stop();
}

static void *wait_for_ever(void *arg)
{
	(void)wait_ms(-1);
	return arg;
}

/* Threads that are killed within a call, that end, and the process's own: nothing of them is kept but this call. */
TEST(a_thread_that_ends_leaves_nothing)
{
	uint32_t slot = SLOT, pid;
	pthread_t thread;
	int gate[2];

	start(NEVER_NS, true);
	assert_int_equal(pipe(gate), 0);
	pid = (uint32_t)fork();
	if (pid == 0) {
		char byte;

		if (read(gate[0], &byte, 1) == 1)
			for (unsigned i = 0; i < 13; i++)
				(void)pthread_create(&thread, NULL, wait_for_ever, NULL);
		(void)wait_ms(-1);
	}
	assert_int_equal(bpf_map_update_elem(bpf_map__fd(t.skeleton->maps.ranks), &pid, &slot, BPF_ANY), 0);
	assert_int_equal(write(gate[1], "", 1), 1);
	for (unsigned i = 0; i < 1000 && entries() < 14 + 1; i++)
		usleep(10000);
	assert_int_equal(entries(), 14 + 1); /* and bpf() of this thread */
	assert_int_equal(t.sums->held, 14);
	assert_int_equal(kill((pid_t)pid, SIGKILL), 0);
	assert_int_equal(waitpid((pid_t)pid, NULL, 0), (pid_t)pid);
	assert_int_equal(entries(), 1);
	assert_int_equal(t.sums->held, 0);
	close(gate[0]);
	close(gate[1]);
	stop();
}

TEST(a_rank_has_its_part_of_the_entries)
{
	struct rt_quota quota = {.threads_max = 1}, now;
	uint32_t slot = SLOT;

	start(NEVER_NS, true);
	assert_int_equal(bpf_map_update_elem(bpf_map__fd(t.skeleton->maps.quotas), &slot, &quota, BPF_ANY), 0);
	(void)getppid();
	assert_int_equal(t.sums->of[SYS_getppid].count, 1);
	/* As if another thread were in a call. */
	t.sums->held = 1;
	for (unsigned i = 0; i < 7; i++)
		(void)getppid();
	assert_int_equal(t.sums->of[SYS_getppid].count, 1);
	assert_int_equal(bpf_map_lookup_elem(bpf_map__fd(t.skeleton->maps.quotas), &slot, &now), 0);
	assert_true(now.limited >= 7);
	stop();
}

static struct {
	atomic_uint go, done;
	atomic_uint thread_id;
} spinner;

/* Makes no call but those that the test asks for. */
static void *spin(void *arg)
{
	atomic_store(&spinner.thread_id, (unsigned)gettid());
	for (unsigned i = 1; i <= 7; i++) {
		while (atomic_load(&spinner.go) < i)
			;
		(void)getppid();
		atomic_store(&spinner.done, i);
	}
	return NULL;
}

TEST(an_exit_that_was_missed_is_made_up_for)
{
	struct rt_syscall missed = {.slot = SLOT, .number = SYS_getppid};
	pthread_t thread;
	uint32_t thread_id;

	spinner.go = spinner.done = spinner.thread_id = 0;
	start(NEVER_NS, true);
	assert_int_equal(pthread_create(&thread, NULL, spin, NULL), 0);
	while (!atomic_load(&spinner.thread_id))
		;
	thread_id = spinner.thread_id;
	for (unsigned i = 1; i <= 7; i++) {
		assert_int_equal(
			bpf_map_update_elem(bpf_map__fd(t.skeleton->maps.syscalls), &thread_id, &missed, BPF_ANY), 0);
		t.sums->held = 1;
		atomic_store(&spinner.go, i);
		while (atomic_load(&spinner.done) < i)
			;
		assert_int_equal(t.sums->held, 0);
	}
	assert_int_equal(pthread_join(thread, NULL), 0);
	stop();
}

/* 16 KiB at once, and then almost nothing. */
TEST(slow_calls_leave_half_of_a_part)
{
	struct rt_quota quota = {.ns_per_kib = 1u << 31, .burst_ns = 16ULL << 31}, now;
	uint32_t slot = SLOT;
	size_t bytes;

	start(0, true);
	assert_int_equal(bpf_map_update_elem(bpf_map__fd(t.skeleton->maps.quotas), &slot, &quota, BPF_ANY), 0);
	work();
	assert_true(ring_buffer__consume(t.ring) >= 0);
	bytes = t.calls * sizeof(struct rt_file_event);
	assert_in_range(bytes, 6 << 10, (8 << 10) + sizeof(struct rt_file_event)); /* the clock goes on */
	assert_int_equal(bpf_map_lookup_elem(bpf_map__fd(t.skeleton->maps.quotas), &slot, &now), 0);
	assert_true(now.limited > 0 && now.limited_calls == 0);
	stop();
}

/* Says why nothing can be tested here, or returns NULL. */
static const char *cannot_test(void)
{
	char link[64] = "";
	int r;

	if (geteuid() != 0)
		return "needs root";
	if (readlink("/proc/self/ns/pid", link, sizeof(link) - 1) < 0 || !streq(link, "pid:[4026531836]"))
		return "needs the initial PID namespace: the kernel's pids are not ours";
	if (access("/sys/kernel/btf/vmlinux", R_OK) < 0)
		return "this kernel has no BTF";
	r = load(0);
	if (r == 0)
		r = syscalls_bpf__attach(t.skeleton);
	syscalls_bpf__destroy(t.skeleton);
	return r == -EPERM    ? "BPF programs are not allowed here"
	       : r == -ENOENT ? "no tracepoints of system calls"
			      : NULL;
}

int main(void)
{
	const char *why = cannot_test();

	if (why) {
		printf("skipped: %s\n", why);
		return 77;
	}
	return TEST_RUN(NULL, NULL);
}
