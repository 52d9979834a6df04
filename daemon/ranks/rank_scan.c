/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A walk over all processes, where starts of processes were not reported. Opening a file of a process in /proc can
 * last: while its parent reaps it, others spin in the kernel until the parent has a CPU. So a thread makes the walk.
 */
#include "analyzers/base/array.h"
#include "daemon/base/job_thread.h"
#include "daemon/base/log.h"
#include "daemon/base/procfs.h"
#include "daemon/core/context.h"
#include "daemon/ranks/ranks.h"
#include "daemon/ranks/ranks_internal.h"

#define SCAN_PROCESSES_MAX (1u << 20)

struct rank_scan {
	struct thread_job job; /* first */
	char proc_root[128];
	uint64_t since_ns;
	int error;
	size_t count, capacity;
	struct rank_scanned *process;
};

static bool rank_scan_found(void *arg, uint32_t pid)
{
	struct rank_scan *scan = arg;
	struct procfs_status status;

	if (procfs_status(scan->proc_root, pid, &status) < 0 || status.is_kernel)
		return true;
	if (!array_reserve((void **)&scan->process, &scan->capacity, scan->count + 1, sizeof(*scan->process),
		    SCAN_PROCESSES_MAX))
		return false;
	scan->process[scan->count++] = (struct rank_scanned){.pid = pid, .uid = status.uid, .inode = status.inode};
	return scan->count < SCAN_PROCESSES_MAX;
}

static int rank_scan_compare(const void *a, const void *b)
{
	const struct rank_scanned *x = a, *y = b;

	return ORDER(x->pid, y->pid);
}

static void rank_scan_run(struct thread_job *job)
{
	struct rank_scan *scan = (struct rank_scan *)job;

	scan->error = procfs_each(scan->proc_root, rank_scan_found, scan);
	/* Most parents before their children. */
	if (scan->count)
		qsort(scan->process, scan->count, sizeof(*scan->process), rank_scan_compare);
}

static void rank_scan_job_free(struct thread_job *job)
{
	struct rank_scan *scan = (struct rank_scan *)job;

	free(scan->process);
	free(scan);
}

static int rank_scan_use(struct ranks *ranks, struct rank_scan *scan)
{
	int r = scan->error;

	for (size_t i = 0; r >= 0 && i < scan->count; i++)
		ranks_scanned(ranks, &scan->process[i], scan->since_ns);
	rank_scan_job_free(&scan->job);
	return r < 0 ? log_error_errno("ranks", r, "cannot walk over %s", ranks->proc_root) : 0;
}

int ranks_scan(struct ranks *ranks)
{
	struct rank_scan *scan;

	if (ranks->scan)
		return -EALREADY;
	scan = calloc(1, sizeof(*scan));
	if (!scan)
		return -ENOMEM;
	scan->job = (struct thread_job){.run = rank_scan_run, .free = rank_scan_job_free};
	scan->since_ns = monotonic_ns();
	(void)copy_text(scan->proc_root, sizeof(scan->proc_root), ranks->proc_root);
	if (!ranks->context->workers || (!ranks->scanner && job_thread_new(&ranks->scanner) < 0)) {
		rank_scan_run(&scan->job);
		return rank_scan_use(ranks, scan);
	}
	ranks->scan = scan;
	job_thread_order(ranks->scanner, &scan->job);
	return 0;
}

void rank_scan_tick(struct ranks *ranks)
{
	struct rank_scan *scan = ranks->scan;

	if (!scan || !job_thread_wait(ranks->scanner, &scan->job, 0))
		return;
	ranks->scan = NULL;
	(void)rank_scan_use(ranks, scan);
}

void rank_scan_free(struct ranks *ranks)
{
	if (ranks->scan)
		job_thread_forget(ranks->scanner, &ranks->scan->job);
	ranks->scan = NULL;
	ranks->scanner = job_thread_free(ranks->scanner);
}
