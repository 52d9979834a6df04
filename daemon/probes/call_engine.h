/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernel side of the call engine: loads bpf/call.bpf.c, keeps its specifications, attaches its programs. Three modes,
 * by kernel: many sites in one uprobe_multi link (6.6); a perf event per site with the specification's number as
 * cookie (5.15); before that, a perf event per site and a program pair per specification, because the program cannot
 * identify its site otherwise.
 */
#ifndef RANKTRACE_DAEMON_PROBES_CALL_ENGINE_H
#define RANKTRACE_DAEMON_PROBES_CALL_ENGINE_H

#include "daemon/kernel/kernel.h"
#include "daemon/probes/attachment.h"
#include "daemon/probes/table.h"

/*
 * Numbers of specifications (bpf/call.h). Rows with equal meaning in several library files share a number, and keep it
 * after their last file is dropped, until it is needed: records still in the ring resolve correctly. The number reused
 * first is the one unused longest; older records are recognized by their time. Pure: the caller keeps the kernel's
 * copy.
 */

struct spec_slot {
	const struct probe *probe; /* NULL: never used */
	struct rt_call_spec spec;
	unsigned users;
	uint64_t since_ns;   /* start of the number's current meaning; CLOCK_MONOTONIC, as in records */
	uint64_t dropped_ns; /* last user dropped */
};

struct specs {
	uint32_t limit; /* at most RT_CALL_SPECS_MAX */
	struct spec_slot slot[RT_CALL_SPECS_MAX];
};

/* ret_fresh: the number has a new meaning. -ENOSPC: all in use. */
int specs_take(struct specs *specs, const struct probe *probe, const struct rt_call_spec *spec, uint64_t now_ns,
	uint32_t *ret, bool *ret_fresh);
void specs_drop(struct specs *specs, uint32_t id, uint64_t now_ns);
/* The probe of a record of this number and time; NULL: no longer known. */
const struct probe *specs_probe(const struct specs *specs, uint32_t id, uint64_t time_ns);

enum call_engine_mode { CALL_ENGINE_NONE, CALL_ENGINE_MULTI, CALL_ENGINE_COOKIE, CALL_ENGINE_FIXED };

/* Specifications in use at a time if each needs its own programs: more than the shipped tables have for libraries of
 * three vendors, which are more than 64. */
#define CALL_ENGINE_FIXED_MAX 128

struct call_engine;

/* The best mode of this kernel. */
enum call_engine_mode call_engine_mode(const struct kernel_features *features);
const char *call_engine_mode_name(enum call_engine_mode mode);

int call_engine_open(struct kernel *kernel, enum call_engine_mode mode, struct call_engine **ret);
struct call_engine *call_engine_close(struct call_engine *engine);

/* Operations for attachments with this table; valid while both live. */
struct attach_engine call_engine_attach(struct call_engine *engine, const struct probe_table *table);
/* The record's probe; NULL if no longer known. */
const struct probe *call_engine_probe(const struct call_engine *engine, const struct rt_call_event *event);
/* Probes not attached because all numbers were in use. */
uint64_t call_engine_refused(const struct call_engine *engine);

/*
 * Removes calls whose return will not come (process gone, level off): they would read as the caller of every later
 * call of their thread; likewise groups never closed. Asks for each call in flight, and each group by the row that
 * opened it, whether to keep it.
 */
void call_engine_sweep(struct call_engine *engine,
	bool (*keep)(void *arg, uint32_t pid, const struct probe *probe, uint64_t start_ns), void *arg);

/* Every call in flight with a known probe; rereads the kernel's map. */
void call_engine_inflight(struct call_engine *engine,
	void (*each)(void *arg, uint64_t pid_thread, const struct probe *probe, const struct rt_inflight *call),
	void *arg);

#endif
