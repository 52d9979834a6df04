/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Ranks whose Python can be read at any moment of theirs: at their end, at the begin of a stage, after a long system
 * call. */
#ifndef RANKTRACE_ENDS_RANK_BPF_H
#define RANKTRACE_ENDS_RANK_BPF_H

#include "bpf/ends.h"
#include "bpf/profile_python.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* the loader's map has one for each slot */
	__type(key, uint32_t);
	__type(value, struct rt_end_rank);
} end_ranks SEC(".maps");

static __always_inline struct rt_end_rank *end_rank_of(uint32_t pid, uint32_t *ret_slot)
{
	uint32_t *slot = bpf_map_lookup_elem(&ranks, &pid);
	struct rt_end_rank *rank;

	if (!slot)
		return NULL;
	*ret_slot = *slot;
	rank = bpf_map_lookup_elem(&end_ranks, slot);
	return rank && rank->pid == pid ? rank : NULL;
}

static __always_inline struct rt_end_rank *end_rank(uint32_t *ret_slot)
{
	return end_rank_of(bpf_get_current_pid_tgid() >> 32, ret_slot);
}

#endif
