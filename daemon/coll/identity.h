/* SPDX-License-Identifier: Apache-2.0 */
/* Identity and name of process groups of PyTorch, from the memory of their process (cxx_memory.h). */
#ifndef RANKTRACE_DAEMON_COLL_IDENTITY_H
#define RANKTRACE_DAEMON_COLL_IDENTITY_H

#include "daemon/base/util.h"
#include "daemon/coll/cxx_memory.h"

/*
 * Identity of a c10d::ProcessGroupGloo, read at any time of its life without the process's help.
 *
 * The group keeps the store at which its members met. The store's prefix is the group's own: equal on all members,
 * different between groups of one store. The store itself is identified by its TCP address or its file; hash of both
 * is the identity. A loopback address (127.0.0.1, localhost) is ambiguous between hosts, so host and network namespace
 * are hashed too; for a file, its inode. The job is hashed as well, if known: a later job at the same address differs.
 *
 * Nothing is guessed: what cannot be read is unknown, with a reason.
 */

/* The process to read. */
struct gloo_process {
	uint32_t pid;
	const char *proc_root; /* "/proc" */
	const char *boot_id;   /* of this host */
	const char *job;       /* job or run id, "" if none */
};

struct gloo_group {
	uint64_t identity; /* never 0 */
	uint32_t member;   /* this process's number in the group */
	uint32_t members;
	char name[64]; /* the program's name for it, "" if PyTorch keeps none */
};

/*
 * 0; otherwise *ret_reason is a sentence on what could not be read. Never stops the process; at most some hundred
 * reads. May wait for a file system.
 */
int gloo_identity_read(
	const struct gloo_process *process, uint64_t address, struct gloo_group *ret, const char **ret_reason);

/*
 * Description of a c10d::Backend: newer versions keep a number and a description as its first two strings. "" if
 * absent (PyTorch writes "undefined").
 */
void torch_group_name(struct cxx_memory *memory, const struct cxx_object *group, char *ret, size_t size);

/* Description of the c10d::ProcessGroupNCCL at that address. -ENOENT: none there; otherwise as cxx_read_object(). */
int torch_group_nccl_name(uint32_t pid, uint64_t address, char *ret, size_t size);

#endif
