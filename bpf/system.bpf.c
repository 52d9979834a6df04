/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Kernel side of the system collector. Raw tracepoints: those of kernels without BTF too; a kernel that lacks one
 * refuses the program as it is attached, and the daemon says so.
 */
#include "bpf/system_sums.bpf.h"

#define TCP_SYN_SENT 2
#define MERGED_MAX 32 /* of one request; those beyond it are not counted */
#define REQ_WRITE 1   /* the lowest bit of a bio's operation: data goes to the device */

/* Begin of what a thread is in, by cause and thread. An entry whose end was not seen makes way for others. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, uint64_t);
	__type(value, uint64_t);
} system_begun SEC(".maps");

struct system_bio {
	uint64_t start_ns;
	uint32_t slot, bytes, is_write, device;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, uint64_t);
	__type(value, struct system_bio);
} system_bios SEC(".maps");

/* Slots of the ranks that use a socket. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, uint64_t);
	__type(value, uint32_t);
} system_sockets SEC(".maps");

struct system_cpu {
	uint64_t irq_ns, softirq_ns; /* begin; 0: none */
	uint64_t irqs_ns;	     /* of interrupts within the present softirq */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, uint32_t);
	__type(value, struct system_cpu);
} system_cpus SEC(".maps");

static __always_inline uint32_t *slot_of_current(void)
{
	uint32_t pid = bpf_get_current_pid_tgid() >> 32;

	return pid ? bpf_map_lookup_elem(&ranks, &pid) : NULL;
}

static __always_inline void system_add_to(struct rt_system_sum *sum, uint64_t time_ns, uint64_t bytes)
{
	__sync_fetch_and_add(&sum->count, 1);
	/* The compiler turns the addition of a constant 0 into an atomic or, which kernels before 5.12 refuse. */
	if (time_ns)
		__sync_fetch_and_add(&sum->time_ns, time_ns);
	if (bytes)
		__sync_fetch_and_add(&sum->bytes, bytes);
}

static __always_inline void system_add(uint32_t slot, enum rt_system_cause cause, uint64_t time_ns, uint64_t now_ns)
{
	struct rt_system_sums *sums = system_sums_of(slot);
	struct cost_hit cost;

	if (!sums)
		return;
	cost = cost_begin(slot, RT_COST_L3, RT_COST_TRACEPOINT, now_ns);
	system_add_to(&sums->of[cause], time_ns, 0);
	cost_end(&cost);
}

/* What a thread does for itself. */

static __always_inline int system_begin(enum rt_system_cause cause)
{
	uint64_t key = (uint64_t)cause << 32 | (uint32_t)bpf_get_current_pid_tgid(), now_ns;

	if (!slot_of_current())
		return 0;
	now_ns = bpf_ktime_get_ns();
	bpf_map_update_elem(&system_begun, &key, &now_ns, BPF_ANY);
	return 0;
}

static __always_inline int system_end(enum rt_system_cause cause)
{
	uint64_t key = (uint64_t)cause << 32 | (uint32_t)bpf_get_current_pid_tgid(), now_ns;
	uint32_t *slot = slot_of_current();
	uint64_t *start_ns = slot ? bpf_map_lookup_elem(&system_begun, &key) : NULL;

	if (!slot || !start_ns)
		return 0;
	now_ns = bpf_ktime_get_ns();
	system_add(*slot, cause, now_ns - *start_ns, now_ns);
	bpf_map_delete_elem(&system_begun, &key);
	return 0;
}

#define SYSTEM_HOOK(name, body) \
	SEC("raw_tp/" #name) \
	int name(struct bpf_raw_tracepoint_args *ctx) \
	{ \
		(void)ctx; \
		return body; \
	}

SYSTEM_HOOK(mm_vmscan_direct_reclaim_begin, system_begin(RT_SYSTEM_RECLAIM))
SYSTEM_HOOK(mm_vmscan_direct_reclaim_end, system_end(RT_SYSTEM_RECLAIM))
SYSTEM_HOOK(mm_vmscan_memcg_reclaim_begin, system_begin(RT_SYSTEM_LIMIT_RECLAIM))
SYSTEM_HOOK(mm_vmscan_memcg_reclaim_end, system_end(RT_SYSTEM_LIMIT_RECLAIM))
SYSTEM_HOOK(mm_compaction_begin, system_begin(RT_SYSTEM_COMPACTION))
SYSTEM_HOOK(mm_compaction_end, system_end(RT_SYSTEM_COMPACTION))
SYSTEM_HOOK(dma_fence_wait_start, system_begin(RT_SYSTEM_FENCE))
SYSTEM_HOOK(dma_fence_wait_end, system_end(RT_SYSTEM_FENCE))

/* What interrupts take from it. */

static __always_inline struct system_cpu *this_cpu(void)
{
	uint32_t key = 0;

	return bpf_map_lookup_elem(&system_cpus, &key);
}

static __always_inline int irq_begin(void)
{
	struct system_cpu *cpu = this_cpu();

	if (cpu)
		cpu->irq_ns = bpf_ktime_get_ns();
	return 0;
}

static __always_inline int irq_end(void)
{
	struct system_cpu *cpu = this_cpu();
	uint64_t now_ns, took_ns;
	uint32_t *slot;

	if (!cpu || !cpu->irq_ns)
		return 0;
	now_ns = bpf_ktime_get_ns();
	took_ns = now_ns - cpu->irq_ns;
	cpu->irq_ns = 0;
	if (cpu->softirq_ns)
		cpu->irqs_ns += took_ns;
	slot = slot_of_current();
	if (slot)
		system_add(*slot, RT_SYSTEM_IRQ, took_ns, now_ns);
	return 0;
}

static __always_inline int softirq_begin(void)
{
	struct system_cpu *cpu = this_cpu();

	if (!cpu)
		return 0;
	cpu->softirq_ns = bpf_ktime_get_ns();
	cpu->irqs_ns = 0;
	return 0;
}

static __always_inline int softirq_end(void)
{
	struct system_cpu *cpu = this_cpu();
	uint64_t now_ns, took_ns;
	uint32_t *slot;

	if (!cpu || !cpu->softirq_ns)
		return 0;
	now_ns = bpf_ktime_get_ns();
	took_ns = now_ns - cpu->softirq_ns;
	took_ns = took_ns > cpu->irqs_ns ? took_ns - cpu->irqs_ns : 0;
	cpu->softirq_ns = 0;
	slot = slot_of_current();
	if (slot)
		system_add(*slot, RT_SYSTEM_SOFTIRQ, took_ns, now_ns);
	return 0;
}

SYSTEM_HOOK(irq_handler_entry, irq_begin())
SYSTEM_HOOK(irq_handler_exit, irq_end())
SYSTEM_HOOK(local_timer_entry, irq_begin())
SYSTEM_HOOK(local_timer_exit, irq_end())
SYSTEM_HOOK(call_function_entry, irq_begin())
SYSTEM_HOOK(call_function_exit, irq_end())
SYSTEM_HOOK(call_function_single_entry, irq_begin())
SYSTEM_HOOK(call_function_single_exit, irq_end())
SYSTEM_HOOK(reschedule_entry, irq_begin())
SYSTEM_HOOK(reschedule_exit, irq_end())
SYSTEM_HOOK(softirq_entry, softirq_begin())
SYSTEM_HOOK(softirq_exit, softirq_end())

/* Block devices. */

/* Not the partition: the disk. */
static __always_inline uint32_t bio_device(struct bio *bio)
{
	struct gendisk *disk = bpf_core_field_exists(bio->bi_bdev) ? BPF_CORE_READ(bio, bi_bdev, bd_disk)
								   : BPF_CORE_READ((struct bio___disk *)bio, bi_disk);

	return (uint32_t)BPF_CORE_READ(disk, major) << RT_SYSTEM_MINOR_BITS |
	       (uint32_t)BPF_CORE_READ(disk, first_minor);
}

static __always_inline int bio_queued(struct bio *bio)
{
	uint32_t *slot = slot_of_current();
	uint64_t key = (uint64_t)bio;
	struct system_bio begun = {};

	if (!slot)
		return 0;
	begun.slot = *slot;
	begun.bytes = BPF_CORE_READ(bio, bi_iter.bi_size);
	begun.is_write = BPF_CORE_READ(bio, bi_opf) & REQ_WRITE;
	begun.device = bio_device(bio);
	begun.start_ns = bpf_ktime_get_ns();
	bpf_map_update_elem(&system_bios, &key, &begun, BPF_ANY);
	return 0;
}

SYSTEM_HOOK(block_bio_queue, bio_queued((struct bio *)ctx->args[0]))

/* Before 5.11, b1f3b64d76cf: the queue comes first. */
SEC("raw_tp/block_bio_queue")
int block_bio_queue_old(struct bpf_raw_tracepoint_args *ctx)
{
	return bio_queued((struct bio *)ctx->args[1]);
}

static __always_inline void bio_add(const struct system_bio *begun, uint64_t now_ns)
{
	struct rt_system_sums *sums = system_sums_of(begun->slot);
	struct cost_hit cost;

	if (!sums)
		return;
	cost = cost_begin(begun->slot, RT_COST_L3, RT_COST_TRACEPOINT, now_ns);
	system_add_to(rt_system_block_sum(sums, begun->device, begun->is_write, now_ns), now_ns - begun->start_ns,
		begun->bytes);
	cost_end(&cost);
}

static __always_inline int bio_ended(struct bio *bio)
{
	uint64_t key = (uint64_t)bio, now_ns;
	struct system_bio *begun = bpf_map_lookup_elem(&system_bios, &key);

	if (!begun)
		return 0;
	now_ns = bpf_ktime_get_ns();
	bio_add(begun, now_ns);
	bpf_map_delete_elem(&system_bios, &key);
	return 0;
}

/* Of devices without requests, as those of the device mapper. */
SYSTEM_HOOK(block_bio_complete, bio_ended((struct bio *)ctx->args[1]))

/* Of all others. A request is several that were merged. */
SEC("raw_tp/block_rq_complete")
int block_rq_complete(struct bpf_raw_tracepoint_args *ctx)
{
	struct request *request = (struct request *)ctx->args[0];
	struct bio *bio = BPF_CORE_READ(request, bio);

	for (int i = 0; bio && i < MERGED_MAX; i++) {
		bio_ended(bio);
		bio = BPF_CORE_READ(bio, bi_next);
	}
	return 0;
}

/* Sockets. A packet comes in the context of any task: the sockets of ranks are noted as these use them. */

static __always_inline int socket_used(uint64_t socket)
{
	uint32_t *slot = slot_of_current(), *known;

	if (!slot)
		return 0;
	known = bpf_map_lookup_elem(&system_sockets, &socket);
	if (!known || *known != *slot)
		bpf_map_update_elem(&system_sockets, &socket, slot, BPF_ANY);
	return 0;
}

static __always_inline int socket_event(uint64_t socket, enum rt_system_cause cause)
{
	uint32_t *slot = bpf_map_lookup_elem(&system_sockets, &socket);

	if (slot)
		system_add(*slot, cause, 0, bpf_ktime_get_ns());
	return 0;
}

SYSTEM_HOOK(sock_send_length, socket_used(ctx->args[0]))
SYSTEM_HOOK(inet_sock_set_state, ctx->args[2] == TCP_SYN_SENT ? socket_used(ctx->args[0]) : 0)
SYSTEM_HOOK(tcp_retransmit_skb, socket_event(ctx->args[0], RT_SYSTEM_RETRANSMIT))
SYSTEM_HOOK(tcp_send_reset, socket_event(ctx->args[0], RT_SYSTEM_RESET))
SYSTEM_HOOK(tcp_receive_reset, socket_event(ctx->args[0], RT_SYSTEM_RESET))

char LICENSE[] SEC("license") = "Dual BSD/GPL";
