/* SPDX-License-Identifier: Apache-2.0 */
/* Families of the daemon itself. */
#include <sys/resource.h>
#include "bpf/event.h"
#include "daemon/base/procfs.h"
#include "daemon/kernel/kernel.h"
#include "daemon/metrics/metrics_internal.h"
#include "daemon/worker/worker.h"

static struct metrics_labels metrics_label(const char *name, const char *value)
{
	struct metrics_labels labels;

	labels.used = 0;
	metrics_labels_add(&labels, name, value);
	return labels;
}

void metrics_of_build(const struct metrics_gather *gather, struct metrics_page *page)
{
	struct metrics_labels labels = metrics_label("version", RANKTRACE_VERSION);

	metrics_labels_add(&labels, "node", gather->context->host);
	metrics_page_count(page, &labels, 1);
}

void metrics_of_cpu_seconds(const struct metrics_gather *gather, struct metrics_page *page)
{
	struct metrics_labels user = metrics_label("mode", "user"), system = metrics_label("mode", "system"),
			      workers = metrics_label("mode", "workers");
	struct rusage usage = {0};

	getrusage(RUSAGE_SELF, &usage);
	metrics_page_seconds(page, &user, timeval_ns(usage.ru_utime));
	metrics_page_seconds(page, &system, timeval_ns(usage.ru_stime));
	metrics_page_seconds(page, &workers, workers_cpu_ns(gather->context->workers));
}

void metrics_of_resident_bytes(const struct metrics_gather *gather, struct metrics_page *page)
{
	uint64_t bytes = procfs_own_resident();

	if (bytes)
		metrics_page_count(page, NULL, bytes);
}

void metrics_of_processes(const struct metrics_gather *gather, struct metrics_page *page)
{
	static const char *const roles[RANK_ROLE_MAX] = {"rank", "child", "launcher"};

	for (enum rank_role role = 0; role < RANK_ROLE_MAX; role++) {
		struct metrics_labels labels = metrics_label("role", roles[role]);

		metrics_page_count(page, &labels, ranks_count(gather->context->ranks, role));
	}
}

void metrics_of_level_on(const struct metrics_gather *gather, struct metrics_page *page)
{
	for (enum level level = 0; level < LEVEL_MAX; level++) {
		struct metrics_labels labels = metrics_label("level", level_name(level));

		metrics_page_count(page, &labels, gather->context->levels.on[level]);
	}
}

void metrics_of_level_probes(const struct metrics_gather *gather, struct metrics_page *page)
{
	for (enum level level = 0; level < LEVEL_MAX; level++) {
		struct metrics_labels labels = metrics_label("level", level_name(level));
		uint64_t probes = 0;

		for (size_t i = 0; i < gather->collectors; i++)
			probes += gather->collector[i]->levels == LEVEL_BIT(level)
					  ? gather->collector_status[i].probes_attached
					  : gather->collector_status[i].level_probes[level];
		metrics_page_count(page, &labels, probes);
	}
}

void metrics_of_ring_bytes(const struct metrics_gather *gather, struct metrics_page *page)
{
	if (gather->context->kernel)
		metrics_page_count(page, NULL, gather->context->config.ring_size_bytes);
}

void metrics_of_ring_dropped_records(const struct metrics_gather *gather, struct metrics_page *page)
{
	uint64_t drops = 0;

	for (unsigned kind = RT_KIND_NONE + 1; gather->context->kernel && kind < RT_KIND_MAX; kind++)
		drops += kernel_drops(gather->context->kernel, kind);
	metrics_page_count(page, NULL, drops);
}

void metrics_of_records_refused(const struct metrics_gather *gather, struct metrics_page *page)
{
	if (gather->context->collectors)
		metrics_page_count(page, NULL, collectors_refused(gather->context->collectors));
}

static void metrics_of_collectors(const struct metrics_gather *gather, struct metrics_page *page, bool drops)
{
	for (size_t i = 0; i < gather->collectors; i++) {
		struct metrics_labels labels = metrics_label("collector", gather->collector[i]->name);

		metrics_page_count(
			page, &labels, drops ? gather->collector_status[i].drops : gather->collector_status[i].events);
	}
}

void metrics_of_collector_records(const struct metrics_gather *gather, struct metrics_page *page)
{
	metrics_of_collectors(gather, page, false);
}

void metrics_of_collector_dropped_records(const struct metrics_gather *gather, struct metrics_page *page)
{
	metrics_of_collectors(gather, page, true);
}

void metrics_of_store_dropped_rows(const struct metrics_gather *gather, struct metrics_page *page)
{
	for (size_t i = 0; i < gather->store.drops_count; i++) {
		struct metrics_labels labels = metrics_label("table", gather->store.drops[i].table);

		metrics_labels_add(&labels, "reason", gather->store.drops[i].reason);
		metrics_page_count(page, &labels, gather->store.drops[i].rows);
	}
}

/* Families of one value without labels. */
#define METRICS_ONE(name, put, value) \
	void metrics_of_##name(const struct metrics_gather *gather, struct metrics_page *page) \
	{ \
		metrics_page_##put(page, NULL, value); \
	}

METRICS_ONE(uptime_seconds, seconds, gather->now_ns - gather->context->started_ns)
METRICS_ONE(loop_lag_seconds, seconds, lag_last_minute(&gather->context->lag, gather->now_ns))
METRICS_ONE(store_bytes, count, gather->store.size_bytes)
METRICS_ONE(store_segments, count, gather->store.segments)
METRICS_ONE(store_rows, count, gather->store.rows)
METRICS_ONE(store_pending_rows, count, gather->store.rows_pending)
METRICS_ONE(store_removed_segments, count, gather->store.segments_removed)
METRICS_ONE(store_corrupt_segments, count, gather->store.segments_corrupt)
METRICS_ONE(store_degraded, count, gather->store.reason[0] != 0)
METRICS_ONE(page_build_seconds, seconds, gather->metrics->build_cpu_ns)
METRICS_ONE(page_ranks_left_out, count, gather->ranks_left_out)
METRICS_ONE(page_refused_clients, count, gather->metrics->refused)
