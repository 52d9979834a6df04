/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's side of the call engine: bpf/call.bpf.c loaded, its specifications, and how its programs are attached.
 * There are three ways, by what the kernel has: many places in one uprobe_multi link (6.6), a perf event a place with
 * the specification's number as a cookie (5.15), and before that a perf event a place and a program pair a
 * specification, because nothing else tells such a program which place was hit.
 */
#ifndef RANKTRACE_PROBES_CALL_ENGINE_H
#define RANKTRACE_PROBES_CALL_ENGINE_H

#include "daemon/kernel.h"
#include "daemon/probes/attachment.h"

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
