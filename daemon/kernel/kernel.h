/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel as we found it: features probed (never inferred from a version), the maps that all BPF objects share, and
 * the ring. Every collector loads its skeleton through kernel_share() so that one ring and one rank filter serve all.
 */
#ifndef RANKTRACE_DAEMON_KERNEL_KERNEL_H
#define RANKTRACE_DAEMON_KERNEL_KERNEL_H

#include "daemon/base/util.h"

struct bpf_object;
struct context;
struct kernel;

struct kernel_features {
	bool btf;           /* /sys/kernel/btf/vmlinux is readable */
	bool ring_buffer;   /* 5.8 */
	bool tp_btf;        /* a BTF raw tracepoint loads */
	bool uprobe_multi;  /* 6.6 */
	bool perf_cookie;   /* 5.15: bpf_cookie on perf uprobes */
	bool perf_uprobe;   /* the uprobe PMU answers to us (needs CAP_SYS_ADMIN on patched kernels) */
	bool host_pids;     /* /proc shows the initial PID namespace, whose numbers the events carry */
};

/* What to say where host_pids is missing, and what to do about it. */
#define KERNEL_NO_HOST_PIDS                                                                                            \
	"the daemon runs in a PID namespace of its own, so kernel events cannot be matched with ranks"
#define KERNEL_NO_HOST_PIDS_ADVICE                                                                                     \
	"give its container the host's PID namespace: docker run --pid=host, in Kubernetes hostPID: true"

/* Probes the features only; needs no kernel object. */
void kernel_probe(struct kernel_features *ret);

/* -EPERM, -ENOSYS ...: with a sentence in the log. */
int kernel_open(struct context *context, struct kernel **ret);
struct kernel *kernel_close(struct kernel *kernel);
const struct kernel_features *kernel_features(const struct kernel *kernel);

/* Between a skeleton's open and its load: reuses events, drops and ranks. */
int kernel_share(struct kernel *kernel, struct bpf_object *object);

/* The rank filter. */
int kernel_rank_add(struct kernel *kernel, uint32_t pid, uint32_t slot);
int kernel_rank_remove(struct kernel *kernel, uint32_t pid);

/* Records dropped in the kernel for want of room, by kind (summed over CPUs). */
uint64_t kernel_drops(const struct kernel *kernel, unsigned kind);

/* For the loop: readable when the ring has records. */
int kernel_fd(const struct kernel *kernel);
/* Where kernel_drain() delivers each record, which is valid for the call; NULL: nowhere. */
typedef void (*kernel_sink)(void *arg, const void *data, size_t size_bytes);
void kernel_deliver(struct kernel *kernel, kernel_sink sink, void *arg);
/* Drains the ring, or a good part of it where it fills faster: then kernel_fd() stays readable.
 * Returns records or -errno. */
int kernel_drain(struct kernel *kernel);

#endif
