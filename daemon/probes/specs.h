/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The numbers of specifications (bpf/call.h). A row that means the same in several library files has one number, and
 * keeps it after its last file is gone for as long as others find room: a record that waited in the ring meanwhile
 * still names the right row. A number that must be taken for another row is the one unused longest, and records older
 * than that are known by their time. Pure: the kernel's copy is the caller's.
 */
#ifndef RANKTRACE_PROBES_SPECS_H
#define RANKTRACE_PROBES_SPECS_H

#include "daemon/probes/table.h"

struct spec_slot {
	const struct probe *probe; /* NULL: never used */
	struct rt_call_spec spec;
	unsigned users;
	uint64_t since_ns;   /* when the number came to mean this; CLOCK_MONOTONIC, as in records */
	uint64_t dropped_ns; /* when the last user went */
};

struct specs {
	uint32_t limit; /* at most RT_CALL_SPECS_MAX */
	struct spec_slot slot[RT_CALL_SPECS_MAX];
};

/* ret_fresh: the number means something else from now on. -ENOSPC: all are in use. */
int specs_take(struct specs *specs, const struct probe *probe, const struct rt_call_spec *spec, uint64_t now_ns,
	uint32_t *ret, bool *ret_fresh);
void specs_drop(struct specs *specs, uint32_t id, uint64_t now_ns);
/* Undoes a take that was fresh and came to nothing. */
void specs_clear(struct specs *specs, uint32_t id);
/* Whose record it is that was made at time_ns under this number; NULL: nobody's that we still know. */
const struct probe *specs_probe(const struct specs *specs, uint32_t id, uint64_t time_ns);

#endif
