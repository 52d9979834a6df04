/* SPDX-License-Identifier: Apache-2.0 */
/* The system program in the running kernel: what this process causes is in the sums of its slot, and nothing of others
 * is. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "bpf/system.h"
#include "daemon/base/util.h"
#include "system.skel.h"

#include "tests/test.h"

#define RESETS 37
#define WRITES 53
#define BYTES 4096
#define SPIN_NS (500 * NSEC_PER_MSEC)
#define FENCES 7
#define FENCE_US 3000

static struct {
	struct system_bpf *skeleton;
	struct bpf_link *link[64];
	unsigned links;
} t;

static void start(bool is_rank)
{
	uint32_t pid = (uint32_t)getpid(), slot = 0;
	struct bpf_program *program;

	t.skeleton = system_bpf__open();
	assert_non_null(t.skeleton);
	assert_int_equal(bpf_map__set_max_entries(t.skeleton->maps.events, 1u << 16), 0);
	assert_int_equal(system_bpf__load(t.skeleton), 0);
	if (is_rank)
		assert_int_equal(bpf_map_update_elem(bpf_map__fd(t.skeleton->maps.ranks), &pid, &slot, BPF_ANY), 0);
	t.links = 0;
	/* Of the two for one hook, one attaches. */
	bpf_object__for_each_program(program, t.skeleton->obj)
	{
		struct bpf_link *link = bpf_program__attach(program);

		if (link && t.links < ARRAY_SIZE(t.link))
			t.link[t.links++] = link;
	}
	assert_true(t.links > 10);
}

static struct rt_system_sums read_sums(void)
{
	struct rt_system_sums sums;
	uint32_t slot = 0;

	assert_int_equal(bpf_map_lookup_elem(bpf_map__fd(t.skeleton->maps.system_sums), &slot, &sums), 0);
	return sums;
}

static void stop(void)
{
	while (t.links)
		bpf_link__destroy(t.link[--t.links]);
	system_bpf__destroy(t.skeleton);
}

/* A port at which nobody listens: each connection is reset. */
static void be_refused(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(at);
	int closed = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(closed, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(getsockname(closed, (struct sockaddr *)&at, &length), 0);
	for (unsigned i = 0; i < RESETS; i++) {
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

		assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof(at)), -1);
		assert_int_equal(errno, ECONNREFUSED);
		close(fd);
	}
	close(closed);
}

static void spin(void)
{
	uint64_t until_ns = monotonic_ns() + SPIN_NS;

	while (monotonic_ns() < until_ns)
		;
}

TEST(resets_of_a_ranks_connections_are_counted)
{
	struct rt_system_sums sums;

	start(true);
	be_refused();
	sums = read_sums();
	assert_int_equal(sums.of[RT_SYSTEM_RESET].count, RESETS);
	assert_int_equal(sums.of[RT_SYSTEM_RESET].time_ns, 0);
	stop();
}

TEST(interrupts_take_a_part_of_the_time)
{
	struct rt_system_sums sums;
	uint64_t took_ns;

	start(true);
	spin();
	sums = read_sums();
	took_ns = sums.of[RT_SYSTEM_IRQ].time_ns + sums.of[RT_SYSTEM_SOFTIRQ].time_ns;
	/* The timer ticks at least every 10 ms while a thread runs. */
	assert_true(sums.of[RT_SYSTEM_IRQ].count + sums.of[RT_SYSTEM_SOFTIRQ].count >= 10);
	assert_true(took_ns > 0 && took_ns < 2 * SPIN_NS);
	stop();
}

/* As the kernel numbers it; of a partition, the disk around it. */
static uint32_t disk_of(dev_t device)
{
	char folder[64], path[96];
	unsigned disk_major, disk_minor;
	FILE *file;

	snprintf(folder, sizeof(folder), "/sys/dev/block/%u:%u", major(device), minor(device));
	snprintf(path, sizeof(path), "%s/partition", folder);
	snprintf(path, sizeof(path), "%s%s/dev", folder, access(path, F_OK) == 0 ? "/.." : "");
	file = fopen(path, "re");
	assert_non_null(file);
	assert_int_equal(fscanf(file, "%u:%u", &disk_major, &disk_minor), 2);
	fclose(file);
	return disk_major << RT_SYSTEM_MINOR_BITS | disk_minor;
}

/* On a file system without a block device of this machine there are no requests. */
TEST(direct_writes_are_requests)
{
	_Alignas(BYTES) static char data[BYTES];
	char path[] = "/var/tmp/rt-system-XXXXXX";
	const struct rt_system_device *device;
	struct rt_system_sums sums;
	struct stat file;
	int fd = mkstemp(path), direct;

	assert_true(fd >= 0);
	direct = open(path, O_WRONLY | O_DIRECT | O_CLOEXEC);
	unlink(path);
	assert_int_equal(fstat(fd, &file), 0);
	close(fd);
	if (direct < 0 || major(file.st_dev) == 0)
		skip();
	start(true);
	for (unsigned i = 0; i < WRITES; i++)
		assert_int_equal(pwrite(direct, data, BYTES, (off_t)i * BYTES), BYTES);
	close(direct);
	sums = read_sums();
	stop();
	/* The file system may add some of its own. It may be on a partition of the disk. */
	device = &sums.device[0];
	assert_true(device->of[1].count >= WRITES);
	assert_true(device->of[1].bytes >= WRITES * BYTES);
	assert_true(device->of[1].time_ns > 0);
	assert_int_equal(device->device, disk_of(file.st_dev));
	assert_int_equal(sums.of[RT_SYSTEM_BLOCK_WRITE].count, 0);
}

/* A disk in memory, as machines of tests/vm have: /var/tmp is on no disk there. */
TEST(direct_reads_are_requests)
{
	_Alignas(BYTES) static char data[BYTES];
	int direct = open("/dev/ram0", O_RDONLY | O_DIRECT | O_CLOEXEC);
	struct rt_system_sums sums;
	struct stat file;

	if (direct < 0)
		skip();
	assert_int_equal(fstat(direct, &file), 0);
	start(true);
	for (unsigned i = 0; i < WRITES; i++)
		assert_int_equal(pread(direct, data, BYTES, (off_t)i * BYTES), BYTES);
	close(direct);
	sums = read_sums();
	stop();
	assert_int_equal(sums.device[0].device, disk_of(file.st_rdev));
	assert_int_equal(sums.device[0].of[0].count, WRITES);
	assert_int_equal(sums.device[0].of[0].bytes, WRITES * BYTES);
	assert_int_equal(sums.of[RT_SYSTEM_BLOCK_READ].count, 0);
}

/* As if the driver of a device waited: there may be none here. */
static void run_hook(struct bpf_program *program)
{
	uint64_t arguments[2] = {0};
	LIBBPF_OPTS(bpf_test_run_opts, options, .ctx_in = arguments, .ctx_size_in = sizeof(arguments));

	assert_int_equal(bpf_prog_test_run_opts(bpf_program__fd(program), &options), 0);
}

TEST(fence_waits_take_time)
{
	struct rt_system_sums sums;

	start(true);
	for (unsigned i = 0; i < FENCES; i++) {
		run_hook(t.skeleton->progs.dma_fence_wait_start);
		usleep(FENCE_US);
		run_hook(t.skeleton->progs.dma_fence_wait_end);
	}
	run_hook(t.skeleton->progs.dma_fence_wait_end); /* of a wait that began before */
	sums = read_sums();
	assert_int_equal(sums.of[RT_SYSTEM_FENCE].count, FENCES);
	assert_true(sums.of[RT_SYSTEM_FENCE].time_ns >= FENCES * FENCE_US * NSEC_PER_USEC);
	stop();
}

/* For a limit of its control group, within which the machine may run short, too. */
TEST(reclaim_is_the_machines_or_for_a_limit)
{
	struct rt_system_sums sums;

	start(true);
	run_hook(t.skeleton->progs.mm_vmscan_memcg_reclaim_begin);
	run_hook(t.skeleton->progs.mm_vmscan_direct_reclaim_begin);
	usleep(FENCE_US);
	run_hook(t.skeleton->progs.mm_vmscan_direct_reclaim_end);
	run_hook(t.skeleton->progs.mm_vmscan_memcg_reclaim_end);
	run_hook(t.skeleton->progs.mm_vmscan_memcg_reclaim_begin);
	run_hook(t.skeleton->progs.mm_vmscan_memcg_reclaim_end);
	sums = read_sums();
	assert_int_equal(sums.of[RT_SYSTEM_RECLAIM].count, 1);
	assert_int_equal(sums.of[RT_SYSTEM_LIMIT_RECLAIM].count, 2);
	assert_true(sums.of[RT_SYSTEM_RECLAIM].time_ns >= FENCE_US * NSEC_PER_USEC);
	assert_true(sums.of[RT_SYSTEM_LIMIT_RECLAIM].time_ns >= sums.of[RT_SYSTEM_RECLAIM].time_ns);
	stop();
}

TEST(a_process_that_is_no_rank_counts_nothing)
{
	struct rt_system_sums sums;

	start(false);
	be_refused();
	spin();
	sums = read_sums();
	for (unsigned cause = 0; cause < RT_SYSTEM_CAUSES; cause++)
		assert_int_equal(sums.of[cause].count, 0);
	stop();
}

int main(void)
{
	if (geteuid() != 0) {
		printf("SKIP: needs root to load BPF programs\n");
		return 77;
	}
	return TEST_RUN(NULL, NULL);
}
