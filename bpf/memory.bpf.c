/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Kernel side of the memory collector: what the framework's allocator reports of its blocks, see memory.h. The call
 * engine attaches these programs where the arguments of the function are still in their registers.
 *
 * A hit adds to the curve of its device and to its class of sizes. A sampled block costs its stack; a release ends
 * after a search in the map of the blocks that are followed.
 */
#define CODE_KIND RT_KIND_MEMORY_CODE
#define CODE_LINES_OPTIONAL false /* as in profile.bpf.c */

#include "bpf/call_stack.bpf.h"
#include "bpf/memory.h"
#include "bpf/profile_code.bpf.h"
#include "bpf/scratch.bpf.h"

/* Slots of struct pt_regs with the first arguments of a function, and the stack pointer. */
#if defined(__TARGET_ARCH_arm64)
#define ARGUMENT_1 0
#define ARGUMENT_2 1
#define ARGUMENT_3 2
#define ARGUMENT_4 3
#define ARGUMENT_5 4
#define STACK_POINTER 31
#else
#define ARGUMENT_1 14
#define ARGUMENT_2 13
#define ARGUMENT_3 12
#define ARGUMENT_4 11
#define ARGUMENT_5 9
#define STACK_POINTER 19
#endif

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* set by the loader: ranks */
	__type(key, uint32_t);
	__type(value, struct rt_memory_rank);
} memory_ranks SEC(".maps");

struct memory_sites {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, RT_MEMORY_SITES_MAX);
	__uint(key_size, sizeof(uint64_t));
	__uint(value_size, sizeof(struct rt_memory_site));
};

struct memory_blocks {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, RT_MEMORY_BLOCKS_MAX);
	__uint(key_size, sizeof(uint64_t));
	__uint(value_size, sizeof(struct rt_memory_block));
};

/* By the rank's slot: no rank takes the place of another's, and what an ended rank had goes with its map. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1); /* set by the loader: ranks */
	__type(key, uint32_t);
	__array(values, struct memory_sites);
} memory_sites SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1); /* set by the loader: ranks */
	__type(key, uint32_t);
	__array(values, struct memory_blocks);
} memory_blocks SEC(".maps");

/* Reports count while it is not 0; the daemon writes it. Attaching and detaching the probe takes longer than a window
 * may. */
volatile uint32_t memory_open;

static __always_inline struct rt_memory_rank *memory_followed(uint32_t *ret_slot)
{
	uint32_t pid = bpf_get_current_pid_tgid() >> 32, *slot = bpf_map_lookup_elem(&ranks, &pid);
	struct rt_memory_rank *rank;

	if (!slot)
		return NULL;
	*ret_slot = *slot;
	rank = bpf_map_lookup_elem(&memory_ranks, slot);
	return rank && rank->pid == pid ? rank : NULL;
}

/* The curve. */

static __always_inline struct rt_memory_device *memory_device(
	struct rt_memory_rank *rank, uint32_t device, uint64_t before)
{
	for (uint32_t i = 0; i < RT_MEMORY_DEVICES_MAX; i++) {
		struct rt_memory_device *item = &rank->device[i];

		if (!item->used) {
			item->device = device;
			item->before = before;
			item->used = i + 1;
		}
		if (item->device == device)
			return item;
	}
	rank->devices_left_out++;
	return NULL;
}

/* Reports of one device come under the allocator's lock; those of the CPU may pass each other. */
static __always_inline void memory_curve(
	struct rt_memory_device *device, uint64_t time_ns, int64_t bytes, uint64_t allocated, uint64_t reserved)
{
	uint64_t number = time_ns / RT_MEMORY_SECOND_NS;
	struct rt_memory_second *second = &device->second[number & (RT_MEMORY_SECONDS - 1)];

	if (bytes < 0) {
		__sync_fetch_and_add(&device->frees, 1);
	} else {
		__sync_fetch_and_add(&device->allocs, 1);
		__sync_fetch_and_add(&device->alloc_bytes, bytes);
	}
	if (second->second != number) {
		second->allocated_min = allocated;
		second->allocated_max = allocated;
		second->reserved_max = reserved;
		second->second = number;
	}
	device->allocated = allocated;
	second->allocated = allocated;
	second->reserved = reserved;
	if (allocated < second->allocated_min)
		second->allocated_min = allocated;
	if (allocated > second->allocated_max)
		second->allocated_max = allocated;
	if (reserved > second->reserved_max)
		second->reserved_max = reserved;
}

/* Blocks. */

static __always_inline void memory_count(struct rt_memory_class *class, int64_t bytes)
{
	__sync_fetch_and_add(&class->live_bytes, bytes);
	if (class->live_bytes < class->live_min)
		class->live_min = class->live_bytes;
}

static __always_inline void memory_release(uint32_t slot, uint64_t address)
{
	void *blocks = bpf_map_lookup_elem(&memory_blocks, &slot);

	if (blocks)
		bpf_map_delete_elem(blocks, &address);
}

/* Reads the current thread's stack into the entry of the scratch; its hash, or 0: not valid. */
static __always_inline uint64_t memory_stack(void *ctx, struct rt_memory_rank *rank, uint32_t entry)
{
	uint32_t thread_id = (uint32_t)bpf_get_current_pid_tgid();
	struct profile_scratch *s = find_scratch(entry);
	uint64_t known[2] = {};
	long bytes;

	if (!s)
		return 0;
	profile_begin(s, &rank->python);
	if (s->python.interps) {
		if (rank->thread_id == thread_id) {
			known[0] = rank->known[0];
			known[1] = rank->known[1];
		}
		if (!s->pthread || !read_python(s, entry, known))
			return 0;
		/* Another thread may write in between: a state that is not the thread's own is searched for again. */
		rank->known[0] = known[0];
		rank->known[1] = known[1];
		rank->thread_id = thread_id;
	}
	bytes = bpf_get_stack(ctx, s->record.native, sizeof(s->record.native), BPF_F_USER_STACK);
	if (bytes > 0)
		s->record.natives = (uint32_t)bytes / 8;
	profile_hash(entry);
	return s->record.stack;
}

/* With what names it: programs often end soon after a request that failed. */
static __always_inline bool memory_send_stack(uint32_t slot, uint32_t entry)
{
	struct profile_scratch *s = find_scratch(entry);
	uint64_t id = bpf_get_current_pid_tgid();

	if (!s)
		return false;
	send_codes(s, entry);
	return send_rank_event(find_quota(slot), &s->record.event, sizeof(s->record), RT_KIND_MEMORY_STACK,
		record_bytes(&s->record), id >> 32, (uint32_t)id);
}

/* Without frames of Python, the thread's name shows what its memory is for: autograd's threads run the backward
 * pass. */
static __always_inline void memory_name_thread(uint32_t entry, struct rt_memory_site *site)
{
	struct profile_scratch *s = find_scratch(entry);

	if (s && site->stack && !s->record.frames)
		bpf_get_current_comm(site->thread_name, sizeof(site->thread_name));
}

/* The site of the stack in the scratch, which is sent if it was not. */
static __always_inline struct rt_memory_site *memory_find_site(
	uint32_t slot, uint64_t stack, uint32_t device, uint32_t entry, uint64_t *ret_key)
{
	struct rt_memory_site fresh = {.stack = stack, .device = device};
	uint64_t key = rt_profile_mix(stack, device);
	void *sites = bpf_map_lookup_elem(&memory_sites, &slot);
	struct rt_memory_site *site;

	if (!sites)
		return NULL;
	site = bpf_map_lookup_elem(sites, &key);
	if (!site) {
		memory_name_thread(entry, &fresh);
		bpf_map_update_elem(sites, &key, &fresh, BPF_NOEXIST);
		site = bpf_map_lookup_elem(sites, &key);
	}
	if (site && stack && !site->sent)
		site->sent = memory_send_stack(slot, entry);
	*ret_key = key;
	return site;
}

static __always_inline void memory_keep(
	uint32_t slot, struct rt_memory_rank *rank, struct rt_memory_site *site, struct rt_memory_block *block)
{
	void *blocks = bpf_map_lookup_elem(&memory_blocks, &slot);

	__sync_fetch_and_add(&site->alloc_bytes, block->weight_bytes * rank->share >> RT_MEMORY_COUNT_SHIFT);
	__sync_fetch_and_add(&site->alloc_count, block->weight_bytes * rank->share / block->bytes);
	__sync_fetch_and_add(&site->sampled, 1);
	if (!blocks || bpf_map_update_elem(blocks, &block->address, block, BPF_ANY))
		__sync_fetch_and_add(&rank->lost, 1);
}

/* Follows a block until it is freed, at the site that its stack gives. */
static __always_inline void memory_sampled(void *ctx, uint32_t slot, struct rt_memory_rank *rank, uint32_t device_id,
	uint64_t now_ns, struct rt_memory_block *block)
{
	uint32_t cpu = bpf_get_smp_processor_id(), entry = take_scratch(cpu);
	struct rt_memory_site *site;
	uint64_t stack = 0, key = 0;

	__sync_fetch_and_add(&rank->sampled, 1);
	if (entry < SCRATCHES)
		stack = memory_stack(ctx, rank, entry);
	if (!stack)
		__sync_fetch_and_add(&rank->refused, 1);
	site = memory_find_site(slot, stack, device_id, entry, &key);
	if (entry < SCRATCHES)
		give_scratch(cpu, entry);
	block->site = key;
	block->window = rank->window;
	block->is_part = rank->is_part;
	block->born_ms = (uint32_t)(now_ns / 1000000);
	if (site)
		memory_keep(slot, rank, site, block);
	else
		__sync_fetch_and_add(&rank->lost, 1);
	__sync_fetch_and_add(&rank->took_ns, bpf_ktime_get_ns() - now_ns);
}

SEC("uprobe")
int memory_usage(void *ctx)
{
	uint64_t address = FIXED_SLOT(ctx, ARGUMENT_1), allocated = FIXED_SLOT(ctx, ARGUMENT_3),
		 reserved = FIXED_SLOT(ctx, ARGUMENT_4);
	uint64_t now_ns, mean = 0;
	int64_t bytes = FIXED_SLOT(ctx, ARGUMENT_2);
	uint32_t device_id = FIXED_SLOT(ctx, ARGUMENT_5) & 0xffff, slot;
	struct rt_memory_block block = {.address = address, .bytes = bytes};
	struct rt_memory_rank *rank = memory_open ? memory_followed(&slot) : NULL;
	struct rt_memory_device *device;
	struct rt_memory_class *class;
	struct cost_hit cost;
	bool sampled;

	if (!rank || !bytes)
		return 0;
	now_ns = bpf_ktime_get_ns();
	if (!rank->open_ns)
		rank->open_ns = now_ns;
	cost = cost_begin(slot, RT_COST_L2, RT_COST_EMULATED, now_ns);
	device = memory_device(rank, device_id, allocated - bytes);
	if (!device)
		goto done;
	memory_curve(device, rank->is_part ? rank->open_ns : now_ns, bytes, allocated, reserved);
	/* Read again: the verifier follows all that comes for each place that it knows. */
	block.device = (device->used - 1) & (RT_MEMORY_DEVICES_MAX - 1);
	block.class = rt_memory_class(bytes < 0 ? -bytes : bytes);
	class = &rank->device[block.device].class[block.class];
	memory_count(class, bytes);
	if (bytes < 0) {
		memory_release(slot, address);
		goto done;
	}
	sampled = rt_memory_sample(rank, now_ns, bytes, FIXED_SLOT(ctx, STACK_POINTER), bpf_get_prandom_u32(), &mean);
	if (mean > class->mean_max)
		class->mean_max = mean;
	/* A block of this address has been released between windows. */
	if (!sampled && rank->is_part)
		memory_release(slot, address);
	if (!sampled)
		goto done;
	block.weight_bytes = rt_memory_weight(bytes, mean);
	memory_sampled(ctx, slot, rank, device_id, now_ns, &block);
done:
	cost_end(&cost);
	return 0;
}

SEC("uprobe")
int memory_failed(void *ctx)
{
	uint64_t bytes = FIXED_SLOT(ctx, ARGUMENT_1), allocated = FIXED_SLOT(ctx, ARGUMENT_2),
		 reserved = FIXED_SLOT(ctx, ARGUMENT_3);
	uint64_t stack = 0, key = 0;
	uint32_t device = FIXED_SLOT(ctx, ARGUMENT_4) & 0xffff, slot, cpu = bpf_get_smp_processor_id(), entry;
	struct rt_memory_rank *rank = memory_followed(&slot);
	struct rt_memory_failed_event *event;

	if (!rank)
		return 0;
	entry = take_scratch(cpu);
	if (entry < SCRATCHES) {
		stack = memory_stack(ctx, rank, entry);
		memory_find_site(slot, stack, device, entry, &key);
		give_scratch(cpu, entry);
	}
	event = reserve_rank_event(find_quota(slot), RT_KIND_MEMORY_FAILED, sizeof(*event));
	if (!event)
		return 0;
	event->bytes = bytes;
	event->allocated = allocated;
	event->reserved = reserved;
	event->stack = stack;
	event->device = device;
	event->pad0 = 0;
	event->call_ns = 0;
	submit_event(event);
	return 0;
}

/* The stack of a call of the driver, which is sent if it was not; 0: not known. */
static __always_inline uint64_t memory_call_stack(
	void *ctx, uint32_t slot, struct rt_memory_rank *rank, uint64_t now_ns, uint32_t failed)
{
	uint32_t cpu = bpf_get_smp_processor_id(),
		 entry = rt_memory_call(rank, now_ns, failed) ? take_scratch(cpu) : SCRATCHES;
	uint64_t stack, key = 0;

	if (entry >= SCRATCHES)
		return 0;
	stack = memory_stack(ctx, rank, entry);
	if (stack && !memory_find_site(slot, stack, RT_MEMORY_CALLS, entry, &key))
		stack = 0;
	give_scratch(cpu, entry);
	return stack;
}

/* The call engine calls this at the return of a call whose stack is wanted, after the call's record. */
SEC("uprobe")
int memory_call(void *ctx)
{
	uint64_t id = bpf_get_current_pid_tgid(), now_ns = bpf_ktime_get_ns(), stack;
	struct rt_stack_call *found = bpf_map_lookup_elem(&stack_calls, &id), call;
	struct rt_memory_failed_event *event;
	struct rt_memory_rank *rank;
	struct cost_hit cost;
	uint32_t slot;

	if (!found)
		return 0;
	call = *found;
	bpf_map_delete_elem(&stack_calls, &id);
	rank = memory_followed(&slot);
	if (!rank)
		return 0;
	cost = cost_begin(slot, RT_COST_L2, RT_COST_TRACEPOINT, now_ns);
	stack = memory_call_stack(ctx, slot, rank, now_ns, (uint32_t)call.failed);
	__sync_fetch_and_add(&rank->calls, 1);
	if (!stack)
		__sync_fetch_and_add(&rank->calls_refused, 1);
	event = stack ? reserve_rank_event(find_quota(slot), RT_KIND_MEMORY_FAILED, sizeof(*event)) : NULL;
	if (event) {
		__builtin_memset(&event->bytes, 0, sizeof(*event) - sizeof(event->event));
		event->event.flags = call.failed ? RT_MEMORY_CALL_FAILED : 0;
		event->stack = stack;
		event->call_ns = call.start_ns;
		submit_event(event);
	}
	cost_end(&cost);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
