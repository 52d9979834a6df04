/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Memory of devices as the framework's allocator reports it, summed in the kernel: c10::reportMemoryUsageToProfiler(),
 * which PyTorch calls for every block (memory.bpf.c). Bypasses the ring but for stacks and failed requests: the daemon
 * reads the maps.
 *
 * `memory_ranks` has the curves of each device, exact. Blocks are sampled, each by itself, with a probability of its size
 * divided by 2^shift bytes, at most 1; a sampled block is followed to its release and stands for 1/probability blocks. So
 * sums of live bytes by site are unbiased, and their variance is known: of one sampled block 2^shift * (2^shift - bytes).
 */
#ifndef RANKTRACE_MEMORY_H
#define RANKTRACE_MEMORY_H

#include "bpf/profile.h"

#define RT_MEMORY_ARGUMENTS 0x1fu /* argument registers that the programs read: bit i is register i + 1 */

#define RT_MEMORY_DEVICES_MAX 8 /* of a process; a training process has one card, and the CPU; a power of two */
#define RT_MEMORY_WINDOWS 4	/* seconds kept for the daemon; a power of two */
#define RT_MEMORY_WINDOW_NS 1000000000ULL
#define RT_MEMORY_SITES_MAX 4096  /* of a rank: pairs of stack and device */
#define RT_MEMORY_BLOCKS_MAX 32768 /* sampled ones of a rank that live */
#define RT_MEMORY_SHIFT_MAX 40	  /* blocks that are smaller are hardly sampled then */
/* Counts of blocks are in units of 1/256 block, variances in KiB². */
#define RT_MEMORY_COUNT_SHIFT 8
#define RT_MEMORY_VARIANCE_SHIFT 10

/* Extremes and last values of a second of CLOCK_MONOTONIC. */
struct rt_memory_window {
	uint64_t second; /* 0: none yet */
	uint64_t allocated, allocated_min, allocated_max;
	uint64_t reserved, reserved_max;
};

struct rt_memory_device {
	uint32_t device; /* c10::Device: type, then index, 8 bits each */
	uint32_t used;	 /* 0: free */
	uint64_t before; /* allocated before the first report */
	uint64_t allocs, frees, alloc_bytes, free_bytes; /* since then */
	struct rt_memory_window window[RT_MEMORY_WINDOWS]; /* at second % RT_MEMORY_WINDOWS */
};

/* Value of `memory_ranks`, by the rank's slot. The daemon writes the first part. */
struct rt_memory_rank {
	uint32_t pid; /* 0: not followed */
	uint32_t shift_min;
	struct rt_profile_python python;
	uint32_t shift;	 /* grows with the number of stacks that are read, so that their cost is bounded */
	uint32_t reads;	 /* since read_ns */
	uint64_t read_ns;
	uint32_t devices_left_out; /* reports of further devices */
	uint32_t thread_id;	   /* that `known` is of */
	uint64_t known[2];	   /* state of Python: its address, its interpreter's */
	uint64_t sampled, refused, lost, took_ns; /* refused: without a stack; lost: sites or blocks beyond the maps */
	struct rt_memory_device device[RT_MEMORY_DEVICES_MAX];
};

/* Value of a rank's map of sites; the key is a hash of stack and device. Sums are estimates. */
struct rt_memory_site {
	uint64_t stack; /* rt_profile_stack_event.stack; 0: unknown */
	uint32_t device;
	uint32_t sent; /* its stack */
	int64_t live_bytes, live_count, live_variance;
	uint64_t alloc_bytes, alloc_count;
	uint64_t sampled;
	uint64_t first_ns, last_ns; /* sampled allocations */
};

/* Value of a rank's map of sampled blocks; the key is the address. */
struct rt_memory_block {
	uint64_t site;
	uint64_t bytes, weight_bytes, count, variance;
	uint64_t time_ns;
};

struct rt_memory_failed_event {
	struct rt_event event; /* kind RT_KIND_MEMORY_FAILED */
	uint64_t bytes;	       /* that were asked for */
	uint64_t allocated, reserved;
	uint64_t stack; /* 0: unknown */
	uint32_t device;
	uint32_t pad0;
};

#endif
