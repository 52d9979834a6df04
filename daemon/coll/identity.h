/* SPDX-License-Identifier: Apache-2.0 */
/* What PyTorch calls a process group: read from the memory of its process, see cxx_memory.h. */
#ifndef RANKTRACE_DAEMON_COLL_IDENTITY_H
#define RANKTRACE_DAEMON_COLL_IDENTITY_H

#include "daemon/base/util.h"
#include "daemon/coll/cxx_memory.h"

/*
 * Which group a c10d::ProcessGroupGloo is: from the memory of its process, with no help of it and at any time of its life.
 *
 * A process group of gloo keeps the store by which its members met, and the prefix of that store is the group's own: it
 * is equal on all members and differs between groups of one store. What names the store itself is its TCP address or its
 * file. Both together, hashed, are the group's identity. An address of this host alone (127.0.0.1, localhost) says nothing
 * to others, so that the host and its network namespace go in too; for a file its inode does. The job's number goes in
 * where the rank has one, so that a later job that meets at the same address is another.
 *
 * What cannot be read is not known: the trouble is a sentence, and nothing is guessed.
 */

/* The process whose memory is read. */
struct gloo_process {
	uint32_t pid;
	const char *proc_root; /* "/proc" */
	const char *boot_id;   /* of this host */
	const char *job;       /* job or run id, "" if none */
};

struct gloo_group {
	uint64_t identity;     /* never 0 */
	uint32_t member;       /* this process's number in it */
	uint32_t members;
	char name[64];         /* what the program calls it, "" if PyTorch keeps no name */
};

/* 0; -EAGAIN: a file system does not answer now; else *ret_trouble says in a sentence what could not be read. The process
 * is never stopped; at most some hundred reads. */
int gloo_identity_read(const struct gloo_process *process, uint64_t address, struct gloo_group *ret, const char **ret_trouble);

/* Of the object of a class made of c10d::Backend, which in newer versions keeps a number and a description of the group: its
 * first two strings. ret gets the description, "" where there is none ("undefined" is PyTorch's word for none). */
void torch_group_name(struct cxx_memory *memory, const struct cxx_object *group, char *ret, size_t size);

/* The same of the c10d::ProcessGroupNCCL at that address. -ENOENT: there is none; else as cxx_read_object(). */
int torch_group_nccl_name(uint32_t pid, uint64_t address, char *ret, size_t size);

#endif
