/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The few kernel types that the programs read, instead of a generated vmlinux.h: the build does not depend on the
 * build host's kernel. Only used fields are declared; preserve_access_index makes libbpf relocate each access at load
 * time. A layout change is a ___flavour here, with the commit that made it.
 */
#ifndef RANKTRACE_CORE_H
#define RANKTRACE_CORE_H

typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;

#define bool _Bool
#define true 1
#define false 0
#define NULL ((void *)0)

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* Empty without CONFIG_SCHED_INFO: check with bpf_core_field_exists first. */
struct sched_info {
	unsigned long long run_delay;
	unsigned long long last_queued;
};

/* A CPU's run queue: sched_info uses its clock. */
struct rq {
	uint64_t clock;
};

/* rq exists only with CONFIG_FAIR_GROUP_SCHED: check first. */
struct cfs_rq {
	struct rq *rq;
};

struct sched_entity {
	unsigned long long sum_exec_runtime;
	unsigned long long nr_migrations;
	struct cfs_rq *cfs_rq;
};

/* The C library's thread pointer, as of the last switch from the thread: of x86, and of arm64. */
struct thread_struct {
	unsigned long fsbase;
	struct {
		unsigned long tp_value;
	} uw;
};

struct task_struct {
	unsigned int __state; /* since 5.14, 2f064a59a11f */
	unsigned int flags;
	unsigned int in_iowait : 1;
	int pid;
	int tgid;
	char comm[16];
	struct sched_entity se;
	struct sched_info sched_info;
	struct task_struct *group_leader;
	struct task_struct *real_parent;
	struct thread_struct thread;
	struct files_struct *files;
	unsigned long min_flt;
};

struct qstr {
	const unsigned char *name;
};

struct dentry {
	struct dentry *d_parent;
	struct qstr d_name;
};

struct path {
	struct dentry *dentry;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct inode {
	unsigned short i_mode;
};

struct file {
	struct path f_path;
	struct inode *f_inode;
	void *private_data;
};

struct in6_addr {
	unsigned char in6_u[16];
};

/* skc_v6_daddr exists only with CONFIG_IPV6: check first. */
struct sock_common {
	uint32_t skc_daddr;
	uint16_t skc_dport;
	unsigned short skc_family;
	struct in6_addr skc_v6_daddr;
};

struct sock {
	struct sock_common __sk_common;
};

struct socket {
	struct sock *sk;
};

struct bvec_iter {
	unsigned int bi_size;
};

struct gendisk {
	int major;
	int first_minor;
};

struct block_device {
	struct gendisk *bd_disk;
};

/* Before 5.12, 309dca309fc3. */
struct bio___disk {
	struct gendisk *bi_disk;
};

struct bio {
	struct bio *bi_next;
	struct block_device *bi_bdev;
	unsigned int bi_opf;
	struct bvec_iter bi_iter;
};

struct request {
	struct bio *bio;
};

struct task_struct___state {
	long state; /* until 5.13 */
};

#pragma clang attribute pop

#endif
