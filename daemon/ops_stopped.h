/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members whose process is stopped (SIGSTOP, a debugger). A library that works on the host, as gloo,
 * goes no further with an operation that all members have called while one of them is stopped in it: none is behind by its
 * numbers, and yet one is missing.
 */
#ifndef RANKTRACE_OPS_STOPPED_H
#define RANKTRACE_OPS_STOPPED_H

#include "daemon/ops_look.h"

/* Marks stopped members. If nothing else is wrong, and one has been in an operation that it called for longer than
 * patience_ns, it is missing, and the verdict says so. If it is missing anyway, those are not who wait for it in the same
 * operation. */
void coll_stopped(struct coll_snapshot_comm *comm, struct coll_snapshot_member *member, const char *proc_root, uint64_t now_ns,
		 uint64_t patience_ns);

#endif
