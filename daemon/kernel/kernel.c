/* SPDX-License-Identifier: Apache-2.0 */
/* Owns the shared maps and the ring: created here without libbpf's skeletons, whose objects reuse the descriptors. */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <inttypes.h>
#include <malloc.h>
#include <sys/mman.h>

#include "bpf/call.h"
#include "bpf/copies.h"
#include "bpf/ends.h"
#include "bpf/event.h"
#include "bpf/system.h"
#include "daemon/core/context.h"
#include "daemon/kernel/kernel.h"
#include "daemon/base/log.h"

#define DRAIN_RECORDS 64 /* between readings of the clock: how far a drain may exceed its time, in records */

#define LOAD_MMAP_BYTES (32 << 20) /* blocks of fewer bytes are from the heap: the most that glibc takes */
#define LOAD_KEPT_BYTES (64 << 20) /* free at the heap's end: several times the BTF */
#define RUN_MMAP_BYTES (1 << 20)   /* large blocks go back at once */
#define RUN_KEPT_BYTES (2 << 20)

#define EDGES (RT_EDGE_MAX - RT_EDGE_MEMORY) /* that collectors serve */

struct kernel {
	struct kernel_features features;
	int events_fd;
	int drops_fd;
	int ranks_fd;
	int quotas_fd;
	int costs_fd;
	int stack_calls_fd;
	int stack_program_fd;
	int copies_fd;
	int system_sums_fd;
	int stage_program_fd;
	int end_ranks_fd;
	int edge_program[EDGES];
	bool memory_paused;
	struct rt_quota *quota;	       /* the map's memory, shared with the programs */
	struct rt_costs *cost;	       /* the same of the map `costs`, by slot */
	struct rt_system_sums *system; /* by slot */
	uint64_t *drops;	       /* by kind */
	uint32_t quotas, slots;
	/* Filtered processes by pid: chains of slot + 1. */
	uint32_t chain[4096];
	struct {
		uint32_t pid, next;
	} * filtered;
	uint64_t ring_bytes;
	int budget;	   /* records left until the clock is read */
	uint64_t until_ns; /* of this drain */
	struct ring_buffer *ring;
	kernel_sink sink;
	void *sink_arg;
};

/* Of each map but the ring. */
static const struct kernel_map {
	const char *name;
	enum bpf_map_type type;
	uint32_t key_bytes, value_bytes, entries, extra; /* entries 0: as many as slots, and `extra` more */
	size_t fd, memory; /* in struct kernel: descriptor; memory that is shared with the programs, 0: it is not */
} maps[] = {
#define MAP_FD(name) offsetof(struct kernel, name##_fd)
#define MAP_MEMORY(name) offsetof(struct kernel, name)
	{"drops", BPF_MAP_TYPE_ARRAY, 4, 8, RT_KIND_MAX, 0, MAP_FD(drops), MAP_MEMORY(drops)},
	{"ranks", BPF_MAP_TYPE_HASH, 4, 4, 0, 0, MAP_FD(ranks), 0},
	{"quotas", BPF_MAP_TYPE_ARRAY, 4, sizeof(struct rt_quota), 0, KERNEL_POOLS_MAX, MAP_FD(quotas),
		MAP_MEMORY(quota)},
	{"costs", BPF_MAP_TYPE_ARRAY, 4, sizeof(struct rt_costs), 0, 0, MAP_FD(costs), MAP_MEMORY(cost)},
	{"stack_calls", BPF_MAP_TYPE_LRU_HASH, 8, sizeof(struct rt_stack_call), RT_STACK_CALLS_MAX, 0,
		MAP_FD(stack_calls), 0},
	{"stack_program", BPF_MAP_TYPE_PROG_ARRAY, 4, 4, 1, 0, MAP_FD(stack_program), 0},
	{"copies", BPF_MAP_TYPE_ARRAY, 4, sizeof(struct rt_copies), 0, 0, MAP_FD(copies), 0},
	{"system_sums", BPF_MAP_TYPE_ARRAY, 4, sizeof(struct rt_system_sums), 0, 0, MAP_FD(system_sums),
		MAP_MEMORY(system)},
	{"stage_program", BPF_MAP_TYPE_PROG_ARRAY, 4, 4, 1, 0, MAP_FD(stage_program), 0},
	{"end_ranks", BPF_MAP_TYPE_ARRAY, 4, sizeof(struct rt_end_rank), 0, 0, MAP_FD(end_ranks), 0},
};
#undef MAP_FD
#undef MAP_MEMORY

static int *map_fd(const struct kernel *kernel, const struct kernel_map *map)
{
	return (int *)((uintptr_t)kernel + map->fd);
}

static void **map_memory(const struct kernel *kernel, const struct kernel_map *map)
{
	return (void **)((uintptr_t)kernel + map->memory);
}

static uint32_t map_entries(const struct kernel *kernel, const struct kernel_map *map)
{
	return map->entries ? map->entries : kernel->slots + map->extra;
}

/* The kernel maps whole pages. */
static size_t map_memory_bytes(const struct kernel *kernel, const struct kernel_map *map)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = (size_t)map_entries(kernel, map) * map->value_bytes;

	return (bytes + page - 1) / page * page;
}

static uint32_t *kernel_chain(struct kernel *kernel, uint32_t pid)
{
	return &kernel->chain[pid % ARRAY_SIZE(kernel->chain)];
}

/* The link that holds a filtered process's slot + 1, or the 0 at the end of its chain. */
static uint32_t *kernel_link(struct kernel *kernel, uint32_t pid)
{
	uint32_t *link = kernel_chain(kernel, pid);

	while (*link && kernel->filtered[*link - 1].pid != pid)
		link = &kernel->filtered[*link - 1].next;
	return link;
}

/* Gives the rank its space in the ring back. */
static void kernel_count_read(struct kernel *kernel, const void *data, size_t size_bytes)
{
	const struct rt_event *event = data;
	uint32_t *link;

	if (size_bytes < sizeof(*event) || event->kind == RT_KIND_EXEC || event->kind == RT_KIND_EXIT)
		return;
	link = kernel_link(kernel, event->pid);
	if (*link)
		__atomic_fetch_add(
			&kernel->quota[*link - 1].read_bytes, RT_RING_BYTES(event->size_bytes), __ATOMIC_RELAXED);
}

static int kernel_on_record(void *arg, void *data, size_t size_bytes)
{
	struct kernel *kernel = arg;

	kernel_count_read(kernel, data, size_bytes);
	if (kernel->sink)
		kernel->sink(kernel->sink_arg, data, size_bytes);
	if (--kernel->budget > 0)
		return 0;
	kernel->budget = DRAIN_RECORDS;
	return monotonic_ns() < kernel->until_ns ? 0 : -EAGAIN; /* this record is consumed anyway */
}

/* Rounds up to a power of two pages, from 64 KiB to 1 GiB. */
static uint32_t ring_bytes(uint64_t wanted)
{
	uint64_t size = 1u << 16;

	while (size < wanted && size < (1u << 30))
		size <<= 1;
	return (uint32_t)size;
}

struct kernel *kernel_close(struct kernel *kernel)
{
	if (!kernel)
		return NULL;
	ring_buffer__free(kernel->ring);
	closep(&kernel->events_fd);
	for (size_t i = 0; i < ARRAY_SIZE(maps); i++) {
		closep(map_fd(kernel, &maps[i]));
		if (maps[i].memory && *map_memory(kernel, &maps[i]))
			munmap(*map_memory(kernel, &maps[i]), map_memory_bytes(kernel, &maps[i]));
	}
	free(kernel->filtered);
	free(kernel);
	return NULL;
}

DEFINE_CLEANUP(struct kernel *, kernel_close)

static int make_map(struct kernel *kernel, const struct kernel_map *map)
{
	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = map->memory ? BPF_F_MMAPABLE : 0);
	int fd = bpf_map_create(
		map->type, map->name, map->key_bytes, map->value_bytes, map_entries(kernel, map), &options);
	void *memory;

	if (fd < 0)
		return log_error_errno("kernel", fd, "cannot create the BPF map '%s' (see tracectl check)", map->name);
	*map_fd(kernel, map) = fd;
	if (!map->memory)
		return 0;
	memory = mmap(NULL, map_memory_bytes(kernel, map), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		return log_error_errno("kernel", -errno, "cannot map the memory of the BPF map '%s'", map->name);
	*map_memory(kernel, map) = memory;
	return 0;
}

static int make_maps(struct kernel *kernel)
{
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(maps) && r == 0; i++)
		r = make_map(kernel, &maps[i]);
	return r;
}

static int make_ring(const struct config *config, int *ret)
{
	unsigned long size_bytes = (unsigned long)ring_bytes(config->ring_size_bytes);
	int fd = bpf_map_create(BPF_MAP_TYPE_RINGBUF, "events", 0, 0, (uint32_t)size_bytes, NULL);
	uint64_t limit;

	if (fd == -ENOMEM)
		log_error("kernel",
			"no memory for the ring of %lu bytes: lower size of [ring] in ranktrace.conf, or raise "
			"MemoryHigh= and "
			"MemoryMax= of the unit",
			size_bytes);
	else if (fd == -EPERM && kernel_is_memlocked(size_bytes, &limit))
		log_error("kernel",
			"the limit on locked memory, %" PRIu64
			" KiB, is too small for the ring of %lu KiB: " KERNEL_MEMLOCK_ADVICE,
			limit >> 10, size_bytes >> 10);
	else if (fd < 0)
		log_error_errno("kernel", fd, "cannot create the ring of %lu bytes (see tracectl check)", size_bytes);
	if (fd < 0)
		return fd;
	*ret = fd;
	return 0;
}

int kernel_open(struct context *context, struct kernel **ret)
{
	_cleanup_(kernel_closep) struct kernel *kernel = calloc(1, sizeof(*kernel));
	int r;

	if (!kernel)
		return -ENOMEM;
	kernel->events_fd = -1;
	for (size_t i = 0; i < ARRAY_SIZE(maps); i++)
		*map_fd(kernel, &maps[i]) = -1;
	for (uint32_t i = 0; i < EDGES; i++)
		kernel->edge_program[i] = -1;
	kernel->slots = (uint32_t)context->config.ranks_max;
	kernel->quotas = kernel->slots + KERNEL_POOLS_MAX;
	kernel->ring_bytes = ring_bytes(context->config.ring_size_bytes);
	kernel_probe(&kernel->features);
	if (!kernel->features.host_pids)
		log_warning("kernel", KERNEL_NO_HOST_PIDS "; " KERNEL_NO_HOST_PIDS_ADVICE);
	kernel->filtered = calloc(kernel->slots ? kernel->slots : 1, sizeof(*kernel->filtered));
	if (!kernel->filtered)
		return -ENOMEM;
	r = make_ring(&context->config, &kernel->events_fd);
	if (r == 0)
		r = make_maps(kernel);
	if (r < 0)
		return r;
	kernel->ring = ring_buffer__new(kernel->events_fd, kernel_on_record, kernel, NULL);
	if (!kernel->ring)
		return log_error_errno("kernel", errno, "cannot map the ring of %lu bytes",
			(unsigned long)context->config.ring_size_bytes);
	*ret = TAKE_PTR(kernel);
	return 0;
}

const struct kernel_features *kernel_features(const struct kernel *kernel)
{
	return &kernel->features;
}

void kernel_serve_edge(struct kernel *kernel, uint32_t edge, int program_fd)
{
	kernel->edge_program[edge - RT_EDGE_MEMORY] = program_fd;
}

int kernel_edge_program(const struct kernel *kernel, uint32_t edge)
{
	return kernel->edge_program[edge - RT_EDGE_MEMORY];
}

void kernel_pause_memory(struct kernel *kernel, bool paused)
{
	kernel->memory_paused = paused;
}

bool kernel_memory_is_paused(const struct kernel *kernel)
{
	return kernel->memory_paused;
}

static int kernel_serve_program(int map_fd, int program_fd)
{
	uint32_t key = 0;

	if (program_fd < 0)
		return bpf_map_delete_elem(map_fd, &key) < 0 ? -errno : 0;
	return bpf_map_update_elem(map_fd, &key, &program_fd, BPF_ANY) < 0 ? -errno : 0;
}

int kernel_serve_call_stacks(struct kernel *kernel, int program_fd)
{
	return kernel_serve_program(kernel->stack_program_fd, program_fd);
}

int kernel_serve_stages(struct kernel *kernel, int program_fd)
{
	return kernel_serve_program(kernel->stage_program_fd, program_fd);
}

void kernel_want_stacks(struct kernel *kernel, uint32_t slot, uint32_t count)
{
	if (slot < kernel->quotas)
		__atomic_store_n(&kernel->quota[slot].stacks_wanted, count, __ATOMIC_RELAXED);
}

bool kernel_copies(const struct kernel *kernel, uint32_t slot, struct rt_copies *ret)
{
	return bpf_map_lookup_elem(kernel->copies_fd, &slot, ret) == 0;
}

bool kernel_system_sums(const struct kernel *kernel, uint32_t slot, struct rt_system_sums *ret)
{
	if (slot >= kernel->slots)
		return false;
	*ret = kernel->system[slot];
	return true;
}

static int kernel_share_map(const struct bpf_object *object, const char *name, int fd)
{
	struct bpf_map *map = bpf_object__find_map_by_name(object, name);
	int r = map ? bpf_map__reuse_fd(map, fd) : 0;

	return r < 0 ? log_error_errno("kernel", r, "cannot share the BPF map '%s'", name) : 0;
}

static int kernel_share(const struct kernel *kernel, const struct bpf_object *object)
{
	int r = kernel_share_map(object, "events", kernel->events_fd);

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(maps); i++)
		r = kernel_share_map(object, maps[i].name, *map_fd(kernel, &maps[i]));
	return r;
}

/*
 * libbpf reads the kernel's BTF, some MB, anew for each object. Mapping memory again that went back to the kernel takes
 * longer than the reading. So these blocks come from the heap, which keeps its memory while the daemon starts
 * (kernel_keep_memory()). Other large blocks do not: pages of a fresh mapping take memory only once they are written.
 */
int kernel_load(const struct kernel *kernel, struct bpf_object_skeleton *skeleton)
{
	int r = kernel_share(kernel, *skeleton->obj);

	if (r < 0)
		return r;
	(void)mallopt(M_MMAP_THRESHOLD, LOAD_MMAP_BYTES);
	r = bpf_object__load_skeleton(skeleton);
	(void)mallopt(M_MMAP_THRESHOLD, RUN_MMAP_BYTES);
	return r;
}

void kernel_keep_memory(bool keep)
{
	(void)mallopt(M_MMAP_THRESHOLD, RUN_MMAP_BYTES);
	(void)mallopt(M_TRIM_THRESHOLD, keep ? LOAD_KEPT_BYTES : RUN_KEPT_BYTES);
	if (!keep)
		malloc_trim(0);
}

int kernel_rank_add(struct kernel *kernel, uint32_t pid, uint32_t slot)
{
	uint32_t *link = kernel_link(kernel, pid);

	if (slot >= kernel->slots)
		return -ERANGE;
	if (!*link) {
		kernel->filtered[slot].pid = pid;
		kernel->filtered[slot].next = 0;
		*link = slot + 1;
	}
	return bpf_map_update_elem(kernel->ranks_fd, &pid, &slot, BPF_ANY);
}

int kernel_rank_remove(struct kernel *kernel, uint32_t pid)
{
	uint32_t *link = kernel_link(kernel, pid);

	if (*link)
		*link = kernel->filtered[*link - 1].next;
	return bpf_map_delete_elem(kernel->ranks_fd, &pid);
}

uint32_t kernel_pool(const struct kernel *kernel, unsigned number)
{
	return number < KERNEL_POOLS_MAX ? kernel->slots + number : 0;
}

/* The programs read each field at any time: one store each. */
void kernel_limit(struct kernel *kernel, uint32_t entry, const struct kernel_limits *limits)
{
	uint64_t rate = limits->bytes_per_s, per_kib = rate ? NSEC_PER_SEC * 1024 / rate : 0;
	struct rt_quota *quota = &kernel->quota[entry];

	if (entry >= kernel->quotas)
		return;
	if (rate && !per_kib)
		per_kib = 1;
	__atomic_store_n(&quota->burst_ns, limits->burst_bytes * per_kib / 1024, __ATOMIC_RELAXED);
	__atomic_store_n(&quota->pool, limits->pool, __ATOMIC_RELAXED);
	__atomic_store_n(&quota->threads_max, limits->threads_max, __ATOMIC_RELAXED);
	__atomic_store_n(&quota->reserve_bytes, limits->reserve_bytes, __ATOMIC_RELAXED);
	__atomic_store_n(&quota->ns_per_kib, per_kib < UINT32_MAX ? (uint32_t)per_kib : UINT32_MAX, __ATOMIC_RELAXED);
}

void kernel_unlimit(struct kernel *kernel, uint32_t entry)
{
	if (entry < kernel->quotas)
		memset(&kernel->quota[entry], 0, sizeof(kernel->quota[entry]));
	if (entry < kernel->slots)
		memset(&kernel->cost[entry], 0, sizeof(kernel->cost[entry]));
}

const struct rt_costs *kernel_costs(const struct kernel *kernel, uint32_t slot)
{
	return slot < kernel->slots ? &kernel->cost[slot] : NULL;
}

uint64_t kernel_limited(const struct kernel *kernel, uint32_t slot)
{
	return slot < kernel->quotas ? __atomic_load_n(&kernel->quota[slot].limited, __ATOMIC_RELAXED) : 0;
}

uint64_t kernel_limited_calls(const struct kernel *kernel, uint32_t slot)
{
	return slot < kernel->quotas ? __atomic_load_n(&kernel->quota[slot].limited_calls, __ATOMIC_RELAXED) : 0;
}

uint32_t kernel_held(const struct kernel *kernel, uint32_t slot, enum rt_held what)
{
	int32_t held = slot < kernel->quotas ? __atomic_load_n(&kernel->quota[slot].held[what], __ATOMIC_RELAXED) : 0;

	return held > 0 ? (uint32_t)held : 0;
}

void kernel_release(struct kernel *kernel, uint32_t pid, enum rt_held what)
{
	uint32_t slot;

	if (bpf_map_lookup_elem(kernel->ranks_fd, &pid, &slot) == 0 && slot < kernel->quotas)
		__atomic_fetch_sub(&kernel->quota[slot].held[what], 1, __ATOMIC_RELAXED);
}

uint32_t kernel_entries(const struct kernel *kernel, uint32_t each)
{
	return (kernel->slots ? kernel->slots : 1) * each;
}

uint64_t kernel_ring_bytes(const struct kernel *kernel)
{
	return kernel->ring_bytes;
}

uint64_t kernel_drops(const struct kernel *kernel, unsigned kind)
{
	return kind < RT_KIND_MAX ? __atomic_load_n(&kernel->drops[kind], __ATOMIC_RELAXED) : 0;
}

int kernel_fd(const struct kernel *kernel)
{
	return ring_buffer__epoll_fd(kernel->ring);
}

void kernel_deliver(struct kernel *kernel, kernel_sink sink, void *arg)
{
	kernel->sink = sink;
	kernel->sink_arg = arg;
}

int kernel_drain(struct kernel *kernel)
{
	int r;

	kernel->budget = DRAIN_RECORDS;
	kernel->until_ns = monotonic_ns() + KERNEL_DRAIN_MS * NSEC_PER_MSEC;
	r = ring_buffer__consume(kernel->ring);
	return r == -EAGAIN ? 1 : r < 0 ? r : 0;
}
