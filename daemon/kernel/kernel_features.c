/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Features of this kernel, by trying: loads or attaches a two-instruction program for each. Versions are no evidence:
 * distributions backport, containers restrict.
 */
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "daemon/kernel/kernel.h"
#include "daemon/kernel/uprobe.h"

static const struct bpf_insn return_zero[] = {
	{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 0},
	{.code = BPF_JMP | BPF_EXIT},
};

static bool tp_btf_loads(void)
{
	int type = libbpf_find_vmlinux_btf_id("sched_switch", BPF_TRACE_RAW_TP);
	LIBBPF_OPTS(bpf_prog_load_opts, options, .expected_attach_type = BPF_TRACE_RAW_TP);
	_cleanup_close_ int fd = -1;

	if (type <= 0)
		return false;
	options.attach_btf_id = (uint32_t)type;
	fd = bpf_prog_load(
		BPF_PROG_TYPE_TRACING, "probe_tp_btf", "GPL", return_zero, ARRAY_SIZE(return_zero), &options);
	return fd >= 0;
}

static bool ring_buffer_loads(void)
{
	_cleanup_close_ int fd = bpf_map_create(BPF_MAP_TYPE_RINGBUF, "probe_ring", 0, 0, 1u << 16, NULL);

	return fd >= 0;
}

/* Attaches and detaches a uprobe on a byte of our own program that no function starts at. */
static bool uprobe_attaches(bool multi, uint64_t cookie)
{
	LIBBPF_OPTS(bpf_prog_load_opts, options, .expected_attach_type = multi ? UPROBE_MULTI_ATTACH_TYPE : 0);
	_cleanup_close_ int program_fd = -1, file_fd = open("/proc/self/exe", O_PATH | O_CLOEXEC);
	struct uprobe_link *link;
	uint64_t offset = 0;
	struct uprobe_target target = {
		.multi = multi, .file_fd = file_fd, .count = 1, .offsets = &offset, .cookies = cookie ? &cookie : NULL};

	if (file_fd < 0 || uprobe_own_offset(&offset) < 0)
		return false;
	program_fd = bpf_prog_load(
		BPF_PROG_TYPE_KPROBE, "probe_uprobe", "GPL", return_zero, ARRAY_SIZE(return_zero), &options);
	target.program_fd = program_fd;
	if (program_fd < 0 || uprobe_attach(&target, &link) < 0)
		return false;
	uprobe_detach(link);
	return true;
}

/* As profiles do (daemon/stacks/profiles.c): of all threads on a CPU. Debian's patch refuses it to CAP_PERFMON at
 * paranoid 3. */
static bool kernel_features_samples(void)
{
	struct perf_event_attr attr = {.size = sizeof(attr),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_freq = 49,
		.freq = 1,
		.disabled = 1};
	_cleanup_close_ int fd = (int)syscall(SYS_perf_event_open, &attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);

	return fd >= 0;
}

static bool map_of(uint64_t bytes)
{
	_cleanup_close_ int fd =
		bpf_map_create(BPF_MAP_TYPE_ARRAY, "probe_memlock", 4, 4096, (uint32_t)(bytes / 4096), NULL);

	return fd >= 0;
}

bool kernel_is_memlocked(uint64_t bytes, uint64_t *ret_limit)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_MEMLOCK, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= bytes)
		return false;
	*ret_limit = limit.rlim_cur;
	return map_of(4096) && !map_of(bytes) && errno == EPERM;
}

/* Inode of the initial PID namespace, the same on every kernel since 3.8 (PROC_PID_INIT_INO in linux/proc_ns.h). */
#define PID_NAMESPACE_INITIAL 0xeffffffcU

/* Kernel threads are in the initial namespace only; the second process is their parent. */
static bool proc_shows_kernel_threads(void)
{
	static const unsigned flags_kernel_thread = 0x00200000; /* PF_KTHREAD, the same since 2.6.27 */
	_cleanup_fclose_ FILE *f = fopen("/proc/2/stat", "re");
	unsigned flags;

	return f && fscanf(f, "%*u (%*31[^)]) %*c %*d %*d %*d %*d %*d %u", &flags) == 1 &&
	       (flags & flags_kernel_thread);
}

/*
 * Events carry pids of the initial namespace, so /proc must show the same. Our own namespace may differ: a container
 * may have the machine's /proc. Unknown counts as yes.
 */
static bool proc_has_host_pids(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) < 0 || st.st_ino == PID_NAMESPACE_INITIAL || proc_shows_kernel_threads();
}

void kernel_probe(struct kernel_features *ret)
{
	*ret = (struct kernel_features){
		.btf = access("/sys/kernel/btf/vmlinux", R_OK) == 0,
		.ring_buffer = ring_buffer_loads(),
		.uprobe_multi = uprobe_attaches(true, 1),
		.perf_uprobe = uprobe_attaches(false, 0),
		.sampling = kernel_features_samples(),
		.host_pids = proc_has_host_pids(),
	};
	ret->tp_btf = ret->btf && tp_btf_loads();
	ret->perf_cookie = ret->perf_uprobe && uprobe_attaches(false, 1);
}
