/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a hit of a probe costs on this machine: the daemon attaches this program to functions of its own and calls them
 * (daemon/guard/calibrate.c). It does what every program does before it knows what the hit means, and adds up the time
 * of the part that programs measure in ranks too (cost_begin() in probe.bpf.h).
 */
#include "bpf/probe.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, uint32_t);
	__type(value, struct rt_costs);
} calibration SEC(".maps");

static __always_inline int calibrate_hit(void)
{
	uint32_t pid = bpf_get_current_pid_tgid() >> 32, key = 0;
	struct rt_costs *all;
	struct rt_cost *cost;
	uint64_t start_ns;

	if (bpf_map_lookup_elem(&ranks, &pid)) /* the daemon is no rank: both ways cost the same */
		return 0;
	if (!find_quota(key))
		return 0;
	start_ns = bpf_ktime_get_ns();
	all = bpf_map_lookup_elem(&calibration, &key);
	if (!all)
		return 0;
	cost = &all->at[0][0];
	__sync_fetch_and_add(&cost->hits, 1);
	__sync_fetch_and_add(&cost->find_ns, bpf_ktime_get_ns() - start_ns);
	cost_add(cost, start_ns);
	return 0;
}

SEC("uprobe")
int calibrate_uprobe(void *ctx)
{
	(void)ctx;
	return calibrate_hit();
}

/* At every system call of the machine, as long as it is attached: only those of the daemon's process go further. */
const volatile uint32_t own_pid;

SEC("raw_tp/sys_enter")
int calibrate_tracepoint(void *ctx)
{
	(void)ctx;
	return bpf_get_current_pid_tgid() >> 32 == own_pid ? calibrate_hit() : 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
