/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The running kernel: probed features (never inferred from a version), the maps shared by all BPF objects, and the
 * ring. Collectors load their skeletons through kernel_share(), so that all use one ring and one rank filter.
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
	bool perf_uprobe;   /* the uprobe PMU is usable (needs CAP_SYS_ADMIN on patched kernels) */
	bool host_pids;	    /* /proc shows the initial PID namespace, whose numbers events carry */
};

/* Message if host_pids is missing, and advice. */
#define KERNEL_NO_HOST_PIDS \
	"the daemon runs in a PID namespace of its own, so kernel events cannot be matched with ranks"
#define KERNEL_NO_HOST_PIDS_ADVICE                                                                                     \
	"give its container the host's PID namespace: docker run --pid=host, in Kubernetes hostPID: true"

/* Probes the features only; needs no kernel object. */
void kernel_probe(struct kernel_features *ret);

/* -EPERM, -ENOSYS ...: logged. */
int kernel_open(struct context *context, struct kernel **ret);
struct kernel *kernel_close(struct kernel *kernel);
const struct kernel_features *kernel_features(const struct kernel *kernel);

/* Between a skeleton's open and load: reuses events, drops and ranks. */
int kernel_share(struct kernel *kernel, struct bpf_object *object);

/* The rank filter. */
int kernel_rank_add(struct kernel *kernel, uint32_t pid, uint32_t slot);
int kernel_rank_remove(struct kernel *kernel, uint32_t pid);

/* Records dropped in the kernel because the ring was full, by kind (summed over CPUs). */
uint64_t kernel_drops(const struct kernel *kernel, unsigned kind);

/* For the loop: readable when the ring has records. */
int kernel_fd(const struct kernel *kernel);
/* Receiver of each record in kernel_drain(), valid during the call; NULL: none. */
typedef void (*kernel_sink)(void *arg, const void *data, size_t size_bytes);
void kernel_deliver(struct kernel *kernel, kernel_sink sink, void *arg);
#define KERNEL_DRAIN_MAX 65536 /* records per drain: a busy ring must not starve the loop */
/* Drains the ring, or KERNEL_DRAIN_MAX records of it: kernel_fd() then remains readable. Returns records or -errno. */
int kernel_drain(struct kernel *kernel);

#endif
