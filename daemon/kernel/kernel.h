/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The running kernel: probed features (never inferred from a version), the maps shared by all BPF objects, and the
 * ring. Collectors load their skeletons with kernel_load(), so that all use one ring and one rank filter.
 */
#ifndef RANKTRACE_DAEMON_KERNEL_KERNEL_H
#define RANKTRACE_DAEMON_KERNEL_KERNEL_H

#include "bpf/cost.h"
#include "bpf/quota.h"
#include "daemon/base/util.h"

struct bpf_object_skeleton;
struct context;
struct kernel;

struct kernel_features {
	bool btf;	   /* /sys/kernel/btf/vmlinux is readable */
	bool ring_buffer;  /* 5.8 */
	bool tp_btf;	   /* a BTF raw tracepoint loads */
	bool uprobe_multi; /* 6.6 */
	bool perf_cookie;  /* 5.15: bpf_cookie on perf uprobes */
	bool perf_uprobe;  /* the uprobe PMU is usable (needs CAP_SYS_ADMIN on patched kernels) */
	bool sampling;	   /* a perf event that samples other users' threads opens (kernel.perf_event_paranoid) */
	bool host_pids;	   /* /proc shows the initial PID namespace, whose numbers events carry */
};

#define KERNEL_MEMLOCK_ADVICE \
	"raise it (ulimit -l unlimited, or LimitMEMLOCK=infinity in the unit); Linux 5.11 and later need no such " \
	"limit"
/* Message if host_pids is missing, and advice. */
#define KERNEL_NO_HOST_PIDS \
	"the daemon runs in a PID namespace of its own, so kernel events cannot be matched with ranks"
#define KERNEL_NO_HOST_PIDS_ADVICE \
	"give its container the host's PID namespace: docker run --pid=host, in Kubernetes hostPID: true"

/*
 * Whether maps of this size are refused for the limit on locked memory, which kernels before 5.11 charge them to;
 * *ret_limit: that limit in bytes.
 */
bool kernel_is_memlocked(uint64_t bytes, uint64_t *ret_limit);

/* Probes the features only; needs no kernel object. */
void kernel_probe(struct kernel_features *ret);

/* -EPERM, -ENOSYS ...: logged. */
int kernel_open(struct context *context, struct kernel **ret);
struct kernel *kernel_close(struct kernel *kernel);
const struct kernel_features *kernel_features(const struct kernel *kernel);

/*
 * The program of an edge from RT_EDGE_MEMORY on (bpf/call.h): set, and with -1 removed, by the collector that owns it
 * and loads it as the call engine's programs are. The call engine attaches it. -1: none.
 */
void kernel_serve_edge(struct kernel *kernel, uint32_t edge, int program_fd);
int kernel_edge_program(const struct kernel *kernel, uint32_t edge);
/* Of RT_EDGE_MEMORY: its probes are detached meanwhile. */
void kernel_pause_memory(struct kernel *kernel, bool paused);
bool kernel_memory_is_paused(const struct kernel *kernel);

/* The program that runs after calls whose stack is wanted (bpf/call_stack.bpf.h); -1: none. */
int kernel_serve_call_stacks(struct kernel *kernel, int program_fd);
/* The program that runs after a hit of a rank of which stacks are wanted; -1: none. */
int kernel_serve_stages(struct kernel *kernel, int program_fd);
/* Of so many hits of the rank from now on. */
void kernel_want_stacks(struct kernel *kernel, uint32_t slot, uint32_t count);

/* Sums of a rank's copies since the daemon's start, also those of earlier ranks of the slot (bpf/copies.h). */
struct rt_copies;
bool kernel_copies(const struct kernel *kernel, uint32_t slot, struct rt_copies *ret);

/* Sums of what the kernel took from a rank, likewise (bpf/system.h). */
struct rt_system_sums;
bool kernel_system_sums(const struct kernel *kernel, uint32_t slot, struct rt_system_sums *ret);

/* Loads an opened skeleton (NAME->skeleton), with the maps that the kernel's side shares. */
int kernel_load(const struct kernel *kernel, struct bpf_object_skeleton *skeleton);
/* While many are loaded, freed memory is kept for the next; false: what is free goes back. */
void kernel_keep_memory(bool keep);

/* The rank filter. */
int kernel_rank_add(struct kernel *kernel, uint32_t pid, uint32_t slot);
int kernel_rank_remove(struct kernel *kernel, uint32_t pid);

#define KERNEL_POOLS_MAX 64 /* users with a pool of their own; ranks of further users have their own share only */

/*
 * Limits of ranks in the kernel (bpf/quota.h). Entries 0 to ranks_max - 1 are the ranks', by slot;
 * kernel_pool() is the entry of a user's pool. Rates are bytes a second of records, 0: no limit.
 */
struct kernel_limits {
	uint64_t bytes_per_s;
	uint64_t burst_bytes;
	uint32_t reserve_bytes; /* of the ring */
	uint32_t pool;		/* of a rank: entry of its pool, 0: none */
	uint32_t threads_max;	/* followed off the CPU, 0: no limit */
};
uint32_t kernel_pool(const struct kernel *kernel, unsigned number);
void kernel_limit(struct kernel *kernel, uint32_t entry, const struct kernel_limits *limits);
/* No limits, nothing used: a slot's next rank starts with this. */
void kernel_unlimit(struct kernel *kernel, uint32_t entry);
/* Records not sent and map entries not kept since kernel_unlimit(), because the rank was beyond its limits. */
uint64_t kernel_limited(const struct kernel *kernel, uint32_t slot);
/* Of these, records of calls and markers, on which the judgement rests. */
uint64_t kernel_limited_calls(const struct kernel *kernel, uint32_t slot);
uint32_t kernel_held(const struct kernel *kernel, uint32_t slot, enum rt_held what);
/* What probes cost the rank of this slot, since kernel_unlimit(). Programs add to it meanwhile. NULL: no such slot. */
const struct rt_costs *kernel_costs(const struct kernel *kernel, uint32_t slot);
/* User space removed an entry of this process from a map. */
void kernel_release(struct kernel *kernel, uint32_t pid, enum rt_held what);
/* Entries for all ranks of a map in which each may have `each`. */
uint32_t kernel_entries(const struct kernel *kernel, uint32_t each);
uint64_t kernel_ring_bytes(const struct kernel *kernel);

/* Records dropped in the kernel because the ring was full, by kind (summed over CPUs). */
uint64_t kernel_drops(const struct kernel *kernel, unsigned kind);

/* For the loop: readable when the ring has records. */
int kernel_fd(const struct kernel *kernel);
/* Receiver of each record in kernel_drain(), valid during the call; NULL: none. */
typedef void (*kernel_sink)(void *arg, const void *data, size_t size_bytes);
void kernel_deliver(struct kernel *kernel, kernel_sink sink, void *arg);
#define KERNEL_DRAIN_MS 50 /* of one drain: a busy ring must not starve the loop, whose stops are below 250 ms */
/* Drains the ring for KERNEL_DRAIN_MS at most. 0: it is empty; 1: it was not, and kernel_fd() is readable; or
 * -errno. */
int kernel_drain(struct kernel *kernel);

#endif
