/* SPDX-License-Identifier: Apache-2.0 */
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
#ifndef RANKTRACE_GLOO_IDENTITY_H
#define RANKTRACE_GLOO_IDENTITY_H

#include "daemon/util.h"

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

#endif
