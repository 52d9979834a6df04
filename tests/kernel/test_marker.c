/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NCCL profiler plugin as built, loaded as NCCL loads it, under the real program in the running kernel: exactly the
 * operations that were played come out of the ring, with exactly their times, in few hits. And hostile batches.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "bpf/marker.h"
#include "bpf/marker/usdt.h"
#include "daemon/kernel/kernel.h"
#include "daemon/collect/collect_internal.h"
#include "daemon/probes/elf_file.h"
#include "daemon/kernel/uprobe.h"
#include "marker.skel.h"
#include "tests/test.h"
#include "tests/unit/nccl_script.h"

#define OPERATIONS 1009
#define CHANNELS 24
#define IDENTITY 0x123456789abcdefULL

static struct kernel_features features;

struct seen {
	struct marker_bpf *skeleton;
	struct uprobe_link *link;
	struct ring_buffer *ring;
	struct marker_process process;
	unsigned events, operations, lost;
	struct coll_device device[OPERATIONS + 64];
};

static void on_device(void *arg, const struct coll_device *device)
{
	struct seen *seen = arg;

	assert_true(seen->operations < ARRAY_SIZE(seen->device));
	if (device->members == 4)
		assert_string_equal(device->op, "AllReduce");
	seen->device[seen->operations++] = *device;
}

static int on_record(void *arg, void *data, size_t size)
{
	const struct rt_marker_event *event = data;
	struct seen *seen = arg;

	assert_int_equal(event->event.kind, RT_KIND_MARKER);
	assert_int_equal(event->event.size_bytes, size);
	assert_int_equal(event->event.pid, getpid());
	seen->events++;
	seen->lost += event->lost;
	marker_decode(&seen->process, event, size, on_device, seen);
	return 0;
}

static int load(struct seen *seen)
{
	struct marker_bpf *s = seen->skeleton = marker_bpf__open();

	if (!s)
		return -errno;
	if (features.uprobe_multi)
		bpf_program__set_expected_attach_type(s->progs.marker_batch, UPROBE_MULTI_ATTACH_TYPE);
	bpf_map__set_max_entries(s->maps.events, 4 << 20);
	return marker_bpf__load(s);
}

/* Attaches to the probe of this file, as the collector does. */
static struct seen *start(const char *path, bool is_rank)
{
	struct seen *seen = calloc(1, sizeof(*seen));
	uint32_t pid = (uint32_t)getpid(), slot = 0;
	struct uprobe_target target = {.multi = features.uprobe_multi, .count = 1};
	struct elf_file *file = NULL;
	struct usdt_site site;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	assert_non_null(seen);
	assert_int_equal(elf_file_open(fd, &file), 0);
	assert_int_equal(elf_file_usdt(file, "ranktrace", "batch", &site, 1), 1);
	assert_int_equal(site.operands, 4);
	elf_file_close(file);
	assert_int_equal(load(seen), 0);
	target.program_fd = bpf_program__fd(seen->skeleton->progs.marker_batch);
	target.file_fd = fd;
	target.offsets = &site.file_offset;
	seen->ring = ring_buffer__new(bpf_map__fd(seen->skeleton->maps.events), on_record, seen, NULL);
	assert_non_null(seen->ring);
	if (is_rank)
		assert_int_equal(bpf_map_update_elem(bpf_map__fd(seen->skeleton->maps.ranks), &pid, &slot, BPF_ANY), 0);
	assert_int_equal(uprobe_attach(&target, &seen->link), 0);
	close(fd);
	return seen;
}

static void stop(struct seen *seen)
{
	uprobe_detach(seen->link);
	ring_buffer__free(seen->ring);
	marker_bpf__destroy(seen->skeleton);
	free(seen);
}

static uint64_t drops(const struct seen *seen)
{
	uint32_t kind = RT_KIND_MARKER;
	uint64_t count = 0;

	assert_int_equal(bpf_map_lookup_elem(bpf_map__fd(seen->skeleton->maps.drops), &kind, &count), 0);
	return count;
}

static uint64_t hits(const struct seen *seen)
{
	struct bpf_prog_info info = {0};
	uint32_t size = sizeof(info);

	assert_int_equal(bpf_obj_get_info_by_fd(bpf_program__fd(seen->skeleton->progs.marker_batch), &info, &size), 0);
	return info.run_cnt;
}

static struct {
	const struct nccl_profiler_v5 *plugin;
	void *context;
	void *op[OPERATIONS];
	uint64_t start_ns; /* UTC */
	unsigned started;
} play;

static void *progress(void *arg)
{
	for (unsigned i = 0; i < OPERATIONS; i++) {
		while (__atomic_load_n(&play.started, __ATOMIC_ACQUIRE) <= i)
			sched_yield();
		nccl_run_channels(play.plugin, play.context, play.op[i], CHANNELS, play.start_ns + i * 100,
			play.start_ns + i * 100 + 50);
	}
	return arg;
}

/* Plays the job; one operation remains open to prevent idle flushes, which add hits. Returns the duration. */
static uint64_t play_job(void)
{
	uint64_t begin_ns = monotonic_ns();
	pthread_t thread;
	void *blocker;
	int mask;

	play.started = 0;
	assert_int_equal(play.plugin->init(&play.context, IDENTITY, &mask, "dp", 1, 4, 2, NULL), 0);
	blocker = nccl_start_coll(play.plugin, play.context, NULL, 1, 1);
	play.start_ns = realtime_ns();
	assert_int_equal(pthread_create(&thread, NULL, progress, NULL), 0);
	for (unsigned i = 0; i < OPERATIONS; i++) {
		void *call = nccl_start_call(play.plugin, play.context, false);

		play.op[i] = nccl_start_coll(play.plugin, play.context, call, i + 1, CHANNELS);
		assert_non_null(play.op[i]);
		play.plugin->stop(play.op[i]);
		__atomic_store_n(&play.started, i + 1, __ATOMIC_RELEASE);
	}
	pthread_join(thread, NULL);
	(void)blocker; /* ends with the communicator, incomplete */
	play.plugin->finalize(play.context);
	return monotonic_ns() - begin_ns;
}

TEST(every_operation_comes_out)
{
	struct seen *seen = start(MARKER_PLUGIN, true);
	int stats = bpf_enable_stats(BPF_STATS_RUN_TIME);
	uint64_t took_ns = play_job(), batches = hits(seen);
	uint64_t zero_ns = 0; /* the first operation's start */

	assert_true(ring_buffer__consume(seen->ring) >= 0);
	assert_int_equal(drops(seen), 0);
	assert_int_equal(seen->lost, 0);
	assert_int_equal(seen->operations, OPERATIONS + 1);
	assert_int_equal(seen->process.counts.incomplete, 1);
	assert_int_equal(seen->process.counts.unreadable, 0);
	assert_int_equal(seen->process.interface, 5);
	for (unsigned i = 0; i < OPERATIONS; i++) {
		const struct coll_device *device = &seen->device[i];

		assert_int_equal(device->identity, IDENTITY);
		assert_int_equal(device->seq, i + 1);
		assert_int_equal(device->count, i + 1);
		assert_int_equal(device->member, 2);
		assert_int_equal(device->peer, -1);
		assert_int_equal(device->stop_ns - device->start_ns, 50);
		zero_ns = zero_ns ? zero_ns : device->start_ns;
		assert_int_equal(device->start_ns, zero_ns + i * 100);
	}
	/* A hit for each full batch, which holds 63 and who they are of, and one for each wait that was too long. */
	if (stats >= 0)
		assert_in_range(batches, OPERATIONS / 63, OPERATIONS / 63 + 2 + took_ns / (20 * NSEC_PER_MSEC));
	printf("%u operations of %u channels: %u hits, %u events\n", OPERATIONS, CHANNELS, (unsigned)batches,
		seen->events);
	closep(&stats);
	stop(seen);
}

TEST(others_are_not_seen)
{
	struct seen *seen = start(MARKER_PLUGIN, false);

	play_job();
	assert_int_equal(ring_buffer__consume(seen->ring), 0);
	assert_int_equal(seen->operations, 0);
	stop(seen);
}

static __attribute__((noinline)) void hit(const void *records, uint32_t count, uint32_t record_bytes, uint32_t version)
{
	marker_probe(records, count, record_bytes, version);
}

/* A process may say anything at that probe. */
TEST(hostile_batches)
{
	struct seen *seen = start("/proc/self/exe", true);
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *memory = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct rt_marker_record *record = (void *)(memory + page - 3 * sizeof(*record));

	assert_ptr_not_equal(memory, MAP_FAILED);
	assert_int_equal(munmap(memory + page, page), 0);
	for (int i = 0; i < 3; i++) {
		record[i] = (struct rt_marker_record){
			.kind = RT_MARKER_COLL, .size_bytes = sizeof(*record), .host_stop_ns = 1};
		memset(record[i].text, 'x', sizeof(record[i].text)); /* not terminated */
	}
	hit(record, 3, sizeof(*record), RT_MARKER_VERSION);
	assert_int_equal(ring_buffer__consume(seen->ring), 1);
	assert_int_equal(seen->operations, 3);
	hit(record, 5, sizeof(*record), RT_MARKER_VERSION); /* two of them are not there */
	assert_int_equal(ring_buffer__consume(seen->ring), 1);
	assert_int_equal(seen->operations, 6);
	assert_int_equal(seen->lost, 2);
	hit(record, UINT32_MAX, sizeof(*record), RT_MARKER_VERSION);
	assert_int_equal(ring_buffer__consume(seen->ring), RT_MARKER_BATCH_MAX / RT_MARKER_EVENT_RECORDS);
	assert_int_equal(seen->operations, 9);
	assert_int_equal(drops(seen), 1);
	hit(NULL, RT_MARKER_BATCH_MAX, sizeof(*record), RT_MARKER_VERSION);
	assert_int_equal(ring_buffer__consume(seen->ring), RT_MARKER_BATCH_MAX / RT_MARKER_EVENT_RECORDS);
	assert_int_equal(seen->operations, 9);
	hit(record, 1, 0, RT_MARKER_VERSION);
	hit(record, 1, UINT32_MAX, RT_MARKER_VERSION);
	hit(record, 0, sizeof(*record), RT_MARKER_VERSION);
	assert_int_equal(ring_buffer__consume(seen->ring), 0);
	assert_int_equal(drops(seen), 3);
	hit(record, 1, sizeof(*record), 99);
	assert_int_equal(ring_buffer__consume(seen->ring), 1);
	assert_int_equal(seen->process.counts.newer, 1);
	/* Records of a newer library are longer; the part that is known is read. */
	hit(record, 2, 2 * sizeof(*record), RT_MARKER_VERSION);
	assert_int_equal(ring_buffer__consume(seen->ring), 1);
	assert_int_equal(seen->operations, 11);
	munmap(memory, page);
	stop(seen);
}

int main(void)
{
	void *library = dlopen(MARKER_PLUGIN, RTLD_NOW | RTLD_LOCAL);
	struct seen seen = {0};
	int r;

	if (!library) {
		printf("cannot load the plugin: %s\n", dlerror());
		return 1;
	}
	play.plugin = dlsym(library, "ncclProfiler_v5");
	kernel_probe(&features);
	if (!play.plugin || !features.ring_buffer || !(features.uprobe_multi || features.perf_uprobe)) {
		printf("skipped: %s\n", play.plugin ? "no uprobe can be attached here" : "no interface 5");
		return play.plugin ? 77 : 1;
	}
	r = load(&seen);
	marker_bpf__destroy(seen.skeleton);
	if (r == -EPERM || r == -EACCES) {
		printf("skipped: BPF programs are not allowed here\n");
		return 77;
	}
	return TEST_RUN(NULL, NULL);
}
