/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Kernel side of sampled launches: a hit only adds to its thread's sums. Each entry has a single writer, its thread,
 * so no addition is lost; the daemon reads after all probes are detached.
 *
 * Probes attach and detach one by one. To count every function over the same time, hits count only while
 * window_start_ns is not 0.
 */
#include "bpf/probe.bpf.h"
#include "bpf/launches.h"

/* Kernels before 5.15 have no cookies: every function counts as API 0. */
const volatile bool has_cookies = true;

volatile uint64_t window_start_ns = 0; /* 0: no open window */

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, RT_LAUNCH_THREADS_MAX);
	__type(key, uint64_t);
	__type(value, struct rt_launch_thread);
} launches SEC(".maps");

/* A thread's entry starts as if it had launched at the window's start: the wait until now is a gap. */
static __always_inline struct rt_launch_thread *new_thread(uint64_t thread, uint64_t start_ns)
{
	struct rt_launch_thread fresh = {.last_ns = start_ns};

	if (bpf_map_update_elem(&launches, &thread, &fresh, BPF_NOEXIST))
		count_drop(RT_KIND_LAUNCHES);
	return bpf_map_lookup_elem(&launches, &thread);
}

SEC("uprobe")
int launch_call(void *ctx)
{
	uint64_t start_ns = window_start_ns, thread = bpf_get_current_pid_tgid();
	uint64_t api = 0, now_ns, gap_ns;
	uint32_t pid = thread >> 32;
	struct rt_launch_thread *known;

	if (!start_ns || !bpf_map_lookup_elem(&ranks, &pid))
		return 0;
	if (has_cookies)
		api = bpf_get_attach_cookie(ctx);
	if (api >= RT_LAUNCH_APIS_MAX)
		return 0;
	known = bpf_map_lookup_elem(&launches, &thread);
	if (!known)
		known = new_thread(thread, start_ns);
	if (!known)
		return 0;
	now_ns = bpf_ktime_get_ns();
	gap_ns = now_ns - known->last_ns;
	known->last_ns = now_ns;
	known->last_api = api;
	known->api[api].count++;
	if (gap_ns > known->api[api].longest_gap_ns)
		known->api[api].longest_gap_ns = gap_ns;
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
