/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's side of the call engine: bpf/call.bpf.c loaded, its specifications, and how its programs are attached.
 * There are three ways, by what the kernel has: many places in one uprobe_multi link (6.6), a perf event a place with
 * the specification's number as a cookie (5.15), and before that a perf event a place and a program pair a
 * specification, because nothing else tells such a program which place was hit.
 */
#ifndef RANKTRACE_DAEMON_PROBES_CALL_ENGINE_H
#define RANKTRACE_DAEMON_PROBES_CALL_ENGINE_H

#include "daemon/kernel/kernel.h"
#include "daemon/probes/attachment.h"
#include "daemon/probes/table.h"

/*
 * The numbers of specifications (bpf/call.h). A row that means the same in several library files has one number, and
 * keeps it after its last file is gone for as long as others find room: a record that waited in the ring meanwhile
 * still names the right row. A number that must be taken for another row is the one unused longest, and records older
 * than that are known by their time. Pure: the kernel's copy is the caller's.
 */

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

enum call_engine_mode { CALL_ENGINE_NONE, CALL_ENGINE_MULTI, CALL_ENGINE_COOKIE, CALL_ENGINE_FIXED };

/* Specifications at a time where each needs programs of its own. */
#define CALL_ENGINE_FIXED_MAX 64

struct call_engine;

/* The best that the kernel has. */
enum call_engine_mode call_engine_mode(const struct kernel_features *features);
const char *call_engine_mode_name(enum call_engine_mode mode);

int call_engine_open(struct kernel *kernel, enum call_engine_mode mode, struct call_engine **ret);
struct call_engine *call_engine_close(struct call_engine *engine);

/* What attachments need, for this table; valid while both live. */
struct attach_engine call_engine_attach(struct call_engine *engine, const struct probe_table *table);
/* Whose record it is; NULL where it is none that we still know. */
const struct probe *call_engine_probe(const struct call_engine *engine, const struct rt_call_event *event);
/* Probes left out because all numbers were in use. */
uint64_t call_engine_refused(const struct call_engine *engine);

/*
 * Calls that were entered and whose return will not come (the process is gone, its level went off) would pass for the
 * caller of every later call of their thread, as a group that will not be closed would for its group. Asks of each call
 * in flight, and of each group by the row that opened it, whether to keep it.
 */
void call_engine_sweep(
	struct call_engine *engine, bool (*keep)(void *arg, uint32_t pid, const struct probe *probe), void *arg);

/* Every call in flight whose probe we still know: reads the kernel's map anew. */
void call_engine_inflight(struct call_engine *engine,
	void (*each)(void *arg, uint64_t pid_thread, const struct probe *probe, const struct rt_inflight *call), void *arg);

#endif
