/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Memory of devices as the framework's allocator reports it, summed in the kernel: c10::reportMemoryUsageToProfiler(),
 * which PyTorch calls for every block (memory.bpf.c). Bypasses the ring but for stacks and failed requests: the daemon
 * reads the maps.
 *
 * `memory_ranks` has the curves of each device and the live bytes of each class of sizes, exact. Blocks are sampled,
 * each by itself, with a probability of its size divided by 2^shift bytes, at most 1; a sampled block is followed to
 * its release and stands for 1/probability blocks. The reader divides the live bytes of a class among the sites of its
 * sampled blocks (analyzers/memory/held.h).
 *
 * Pairs of a size and a stack pointer have a shift each: what a step allocates and releases again comes in few of them,
 * hundreds of times a second, which share what stacks may cost; what is kept has mostly a pair of its own.
 *
 * The trap of the probe alone takes 0.5 us. Where reports come so often that this is too much, the daemon has the probe
 * attached in windows only. A window is as if L2 were turned on for it: the sums of classes begin anew, and blocks of
 * earlier windows that live are carried over (analyzers/memory/held.h). Values of the curve are arguments of each
 * report, exact at any time.
 */
#ifndef RANKTRACE_MEMORY_H
#define RANKTRACE_MEMORY_H

#include "bpf/profile.h"

#define RT_MEMORY_ARGUMENTS 0x1fu /* argument registers that the programs read: bit i is register i + 1 */

#define RT_MEMORY_DEVICES_MAX 8 /* of a process; a training process has one card, and the CPU; a power of two */
#define RT_MEMORY_SECONDS 4	/* kept for the daemon; a power of two */
#define RT_MEMORY_SECOND_NS 1000000000ULL
#define RT_MEMORY_SITES_MAX 4096   /* of a rank: pairs of stack and device */
#define RT_MEMORY_BLOCKS_MAX 32768 /* sampled ones of a rank that live */
/* Of the kernel, for an entry of a hash map: struct htab_elem, 48 bytes, the key of 8, and a bucket of 16
 * (kernel/bpf/hashtab.c). */
#define RT_MEMORY_ENTRY_BYTES 72
#define RT_MEMORY_CLASSES 48	     /* a class for each power of two of bytes; the last has all of 128 TiB and more */
#define RT_MEMORY_SHIFT_MAX 36	     /* 64 GiB: a sum of all followed blocks fits in 64 bits */
#define RT_MEMORY_STRATA 1024	     /* pairs that are counted at a time; a power of two; a step has some 100 */
#define RT_MEMORY_STRATUM_PROBES 4   /* places that a pair may have */
#define RT_MEMORY_STRATUM_IDLE 8     /* turns: then another pair may have its place */
#define RT_MEMORY_STRATUM_NS_BITS 30 /* a turn of a stratum: 1.07 s */
#define RT_MEMORY_STRATUM_READS_MAX 64 /* stacks in it; fewer where the sum is too much */
/* A stack takes some 5 us: 500 of them a second are 0.25 % of a thread's time. Calls that fail have as many of their
 * own. */
#define RT_MEMORY_READS_MAX 50
#define RT_MEMORY_READS_TURN_NS 100000000ULL
#define RT_MEMORY_CALLS \
	0xffffffffu		/* in the place of a device: the site is of calls of the driver, and has no blocks */
#define RT_MEMORY_COUNT_SHIFT 8 /* counts of blocks, and shares, are in units of 1/256 */

/* Extremes and last values of a second of CLOCK_MONOTONIC, or of a window that began in it. */
struct rt_memory_second {
	uint64_t second; /* 0: none yet */
	uint64_t allocated, allocated_min, allocated_max;
	uint64_t reserved, reserved_max;
};

/*
 * Blocks of a class of sizes, exactly, since the window began. Those from before it are only seen released: the sum may
 * be negative, and what is held of blocks since then is at least live_bytes - live_min.
 */
struct rt_memory_class {
	int64_t live_bytes, live_min; /* live_min: the least, at most 0 */
	uint64_t mean_max;	      /* largest of rt_memory_sample() */
};

struct rt_memory_device {
	uint32_t device;				   /* c10::Device: type, then index, 8 bits each */
	uint32_t used;					   /* its place, from 1; 0: free */
	uint64_t before;				   /* allocated before the first report */
	uint64_t allocs, frees, alloc_bytes;		   /* reported since then */
	uint64_t allocated;				   /* by the newest report */
	struct rt_memory_second second[RT_MEMORY_SECONDS]; /* at second % RT_MEMORY_SECONDS */
	struct rt_memory_class class[RT_MEMORY_CLASSES];   /* at rt_memory_class() */
};

/* Blocks of one size and stack pointer, or of a few. */
struct rt_memory_stratum {
	uint32_t pair;	/* hash of it; 0: free */
	uint32_t turn;	/* of time, of the newest block */
	uint32_t reads; /* stacks in that turn */
	uint32_t shift;
};

/* Value of `memory_ranks`, by the rank's slot. The daemon writes the first part. */
struct rt_memory_rank {
	uint32_t pid; /* 0: not followed */
	uint32_t shift_min;
	struct rt_profile_python python;
	uint32_t window;	    /* number of the present one, from 1 */
	uint32_t is_part;	    /* the probe is attached in windows only: a window is one row of the curve */
	uint64_t open_ns;	    /* first report in the window; 0: none yet */
	uint64_t share;		    /* allocations that one in this window stands for, in units of 1/256 */
	uint32_t stratum_reads_max; /* halved while too many stacks are read, so that their cost is bounded */
	uint32_t shift;		    /* grows where even one of each size is too many */
	uint32_t reads;		    /* since read_ns */
	uint32_t pad0;
	uint64_t read_ns;
	uint32_t devices_left_out;		  /* reports of further devices */
	uint32_t thread_id;			  /* that `known` is of */
	uint64_t known[2];			  /* state of Python: its address, its interpreter's */
	uint64_t sampled, refused, lost, took_ns; /* refused: without a stack; lost: sites or blocks beyond the maps */
	uint64_t calls, calls_refused;		  /* of the driver; without a stack */
	uint64_t call_turn;			  /* of time, of the newest call */
	uint32_t call_reads[2];			  /* stacks in that turn: of calls that succeeded, and that failed */
	struct rt_memory_device device[RT_MEMORY_DEVICES_MAX];
	struct rt_memory_stratum stratum[RT_MEMORY_STRATA];
};

/* Value of a rank's map of sites; the key is a hash of stack and device. Sums are estimates. */
struct rt_memory_site {
	uint64_t stack;	 /* rt_profile_stack_event.stack; 0: unknown */
	uint32_t device; /* or RT_MEMORY_CALLS */
	uint32_t sent;	 /* its stack */
	uint64_t alloc_bytes, alloc_count;
	uint64_t sampled;
	char thread_name[RT_COMM_SIZE]; /* "": its stack has frames of Python */
};

/* Value of a rank's map of sampled blocks; the key is the address. */
struct rt_memory_block {
	uint64_t site;
	uint64_t address;
	uint64_t bytes, weight_bytes;
	uint16_t device; /* of rt_memory_rank.device */
	uint16_t class;
	uint32_t window;
	uint32_t born_ms; /* CLOCK_MONOTONIC, modulo 2^32 */
	uint32_t is_part; /* rt_memory_rank.is_part, of its window */
};

/* A request that the framework's allocator could not serve; or a call of the driver, of which stack, start and success
 * are known. */
#define RT_MEMORY_CALL_FAILED 1u /* in event.flags */

struct rt_memory_failed_event {
	struct rt_event event; /* kind RT_KIND_MEMORY_FAILED */
	uint64_t bytes;	       /* that were asked for */
	uint64_t allocated, reserved;
	uint64_t stack;	  /* 0: unknown */
	uint64_t call_ns; /* start of the call; 0: a request */
	uint32_t device;
	uint32_t pad0;
};

/*
 * bytes: at least 1. The number of its highest bit; by halves, because clang 14 has none of that for BPF,
 * and without a branch, because the verifier follows both ways of each.
 */
static inline uint32_t rt_memory_class(uint64_t bytes)
{
	uint32_t class = 0;

	for (uint32_t bits = 32; bits; bits /= 2) {
		uint64_t minus = -(bytes >> bits);
		uint32_t by;

		asm volatile("" : "+r"(minus));	     /* else the compiler compares */
		by = (uint32_t)(minus >> 63) * bits; /* 0 or bits */
		bytes >>= by;
		class += by;
	}
	return class < RT_MEMORY_CLASSES ? class : RT_MEMORY_CLASSES - 1;
}

/* The stratum of a pair; where all its places are in use, it shares the last. */
static inline struct rt_memory_stratum *rt_memory_find_stratum(
	struct rt_memory_rank *rank, uint32_t turn, uint64_t bytes, uint64_t stack_pointer)
{
	uint32_t pair = (uint32_t)(rt_profile_mix(stack_pointer, bytes) >> 32) | 1, at = 0;

	for (uint32_t i = 0; i < RT_MEMORY_STRATUM_PROBES; i++) {
		struct rt_memory_stratum *stratum;

		at = ((pair >> 16) + i) & (RT_MEMORY_STRATA - 1);
		stratum = &rank->stratum[at];
		if (stratum->pair == pair)
			return stratum;
		if (stratum->pair && turn - stratum->turn <= RT_MEMORY_STRATUM_IDLE)
			continue;
		stratum->pair = pair;
		stratum->shift = 0;
		stratum->reads = 0;
		stratum->turn = turn;
		return stratum;
	}
	return &rank->stratum[at & (RT_MEMORY_STRATA - 1)];
}

/* Shift of a stratum, for its next block. */
static inline uint32_t rt_memory_stratum_shift(
	struct rt_memory_rank *rank, struct rt_memory_stratum *stratum, uint32_t turn)
{
	uint32_t max = rank->stratum_reads_max;

	if (stratum->shift < rank->shift_min)
		stratum->shift = rank->shift_min;
	if (stratum->turn != turn) {
		if (stratum->reads * 2 < max && stratum->shift > rank->shift_min)
			stratum->shift--;
		stratum->turn = turn;
		stratum->reads = 0;
	} else if (stratum->reads >= max && stratum->shift < RT_MEMORY_SHIFT_MAX) {
		stratum->shift++;
		stratum->reads = 0;
	}
	return stratum->shift;
}

/* Keeps the number of stacks below RT_MEMORY_READS_MAX a turn, and near it; in windows below what this is for all of
 * the time. */
static inline void rt_memory_pace(struct rt_memory_rank *rank, uint64_t now_ns)
{
	uint64_t max = RT_MEMORY_READS_MAX * rank->share >> RT_MEMORY_COUNT_SHIFT;

	if (rank->shift < rank->shift_min)
		rank->shift = rank->shift_min;
	if (!rank->stratum_reads_max)
		rank->stratum_reads_max = RT_MEMORY_STRATUM_READS_MAX;
	if (now_ns - rank->read_ns >= RT_MEMORY_READS_TURN_NS) {
		if (rank->reads < max / 4 && rank->shift > rank->shift_min)
			rank->shift--;
		else if (rank->reads < max / 4 && rank->stratum_reads_max < RT_MEMORY_STRATUM_READS_MAX)
			rank->stratum_reads_max *= 2;
	} else if (rank->reads < max) {
		return;
	} else if (rank->stratum_reads_max > 1) {
		rank->stratum_reads_max /= 2;
	} else if (rank->shift < RT_MEMORY_SHIFT_MAX) {
		rank->shift++;
	}
	rank->read_ns = now_ns;
	rank->reads = 0;
}

/*
 * Is this block sampled? Sets the size up to which blocks are sampled in part. What has been sampled decides on it,
 * never the block itself. `random`: 32 bits.
 */
static inline uint32_t rt_memory_sample(struct rt_memory_rank *rank, uint64_t now_ns, uint64_t bytes,
	uint64_t stack_pointer, uint32_t random, uint64_t *ret_mean)
{
	uint32_t turn = (uint32_t)(now_ns >> RT_MEMORY_STRATUM_NS_BITS), shift;
	struct rt_memory_stratum *stratum = rt_memory_find_stratum(rank, turn, bytes, stack_pointer);

	rt_memory_pace(rank, now_ns);
	shift = rt_memory_stratum_shift(rank, stratum, turn);
	shift = (shift > rank->shift ? shift : rank->shift) & 63;
	*ret_mean = 1ULL << shift;
	if (bytes >> shift == 0 && (bytes << (63 - shift)) >> 31 <= random)
		return 0;
	rank->reads++;
	stratum->reads++;
	return 1;
}

/*
 * Is the stack of a call of the driver read? It counts as one of a block, of which fewer are read then. One that fails
 * often comes at the end of thousands that succeed: they leave it its own. failed: 0 or 1.
 */
static inline uint32_t rt_memory_call(struct rt_memory_rank *rank, uint64_t now_ns, uint32_t failed)
{
	uint64_t turn = now_ns / RT_MEMORY_READS_TURN_NS;
	uint32_t *reads = &rank->call_reads[failed & 1];

	if (rank->call_turn != turn) {
		rank->call_turn = turn;
		rank->call_reads[0] = rank->call_reads[1] = 0;
	}
	if (*reads >= RT_MEMORY_READS_MAX)
		return 0;
	(*reads)++;
	rank->reads++;
	return 1;
}

/* Bytes that a sampled block stands for. */
static inline uint64_t rt_memory_weight(uint64_t bytes, uint64_t mean)
{
	return bytes < mean ? mean : bytes;
}

#endif
