/* SPDX-License-Identifier: Apache-2.0 */
/* The request `status`: everything that the daemon counts, from whoever counts it. Changes nothing. */
#include <sys/resource.h>
#include "bpf/event.h"
#include "daemon/memory/allocs.h"
#include "daemon/collect/collector.h"
#include "daemon/core/context.h"
#include "daemon/dump/dumps.h"
#include "daemon/findings/online.h"
#include "daemon/gauges/gauges.h"
#include "daemon/guard/guard.h"
#include "daemon/kernel/kernel.h"
#include "daemon/coll/rank_coll.h"
#include "daemon/ranks/ranks.h"
#include "daemon/control/request.h"
#include "daemon/store/store.h"
#include "daemon/worker/worker.h"

#define COSTS_MAX 2048u	       /* ranks times levels; an answer has a limit */
#define DEVICE_CLOCKS_MAX 256u /* an answer has a limit, a node has fewer devices */

static const struct {
	const char *name;
	size_t offset;
} features[] = {
	{"btf", offsetof(struct kernel_features, btf)},
	{"ring_buffer", offsetof(struct kernel_features, ring_buffer)},
	{"tp_btf", offsetof(struct kernel_features, tp_btf)},
	{"uprobe_multi", offsetof(struct kernel_features, uprobe_multi)},
	{"perf_cookie", offsetof(struct kernel_features, perf_cookie)},
	{"perf_uprobe", offsetof(struct kernel_features, perf_uprobe)},
	{"sampling", offsetof(struct kernel_features, sampling)},
	{"host_pids", offsetof(struct kernel_features, host_pids)},
};

static int request_status_fill_features(const struct context *context, Ranktrace__StatusBody *body)
{
	const struct kernel_features *found = context->kernel ? kernel_features(context->kernel) : NULL;

	if (!found)
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(features); i++) {
		Ranktrace__Feature *item = REQUEST_ADD(body, features);

		if (!item)
			return -ENOMEM;
		item->name = strdup(features[i].name);
		item->present = *(const bool *)((const char *)found + features[i].offset);
	}
	return 0;
}

static int request_status_fill_collector(
	Ranktrace__Collector *item, const struct collector *collector, const struct collector_status *status)
{
	unsigned notes = status->notes < COLLECTOR_NOTES_MAX ? status->notes : COLLECTOR_NOTES_MAX;

	item->name = strdup(collector->name);
	item->summary = strdup(collector->summary);
	item->probes_attached = status->probes_attached;
	item->libraries = status->libraries;
	item->attaching = status->attaching;
	item->events = status->events;
	item->drops = status->drops;
	item->notes_left_out = status->notes_left_out;
	item->levels = calloc(LEVEL_MAX, sizeof(*item->levels));
	item->notes = calloc(notes + 1, sizeof(*item->notes));
	item->level_probes = calloc(LEVEL_MAX, sizeof(*item->level_probes));
	if (!item->levels || !item->notes || !item->level_probes)
		return -ENOMEM;
	for (enum level l = 0; l < LEVEL_MAX; l++) {
		if (!(collector->levels & LEVEL_BIT(l)))
			continue;
		item->levels[item->n_levels++] = strdup(level_name(l));
		item->level_probes[item->n_level_probes++] = status->level_probes[l];
	}
	for (unsigned i = 0; i < notes; i++)
		item->notes[item->n_notes++] = strndup(status->note[i], COLLECTOR_NOTE_BYTES);
	return 0;
}

static int request_status_fill_collectors(const struct context *context, Ranktrace__StatusBody *body)
{
	_cleanup_free_ struct collector_status *status = calloc(1, sizeof(*status));
	const struct collector *collector;
	int r;

	if (!context->collectors)
		return 0;
	if (!status)
		return -ENOMEM;
	for (unsigned i = 0;; i++) {
		Ranktrace__Collector *item;

		memset(status, 0, sizeof(*status));
		if (!collectors_status(context->collectors, i, &collector, status))
			break;
		item = REQUEST_ADD(body, collectors);
		if (!item)
			return -ENOMEM;
		r = request_status_fill_collector(item, collector, status);
		if (r < 0)
			return r;
	}
	body->records_refused = collectors_refused(context->collectors);
	body->records_limited = collectors_limited(context->collectors);
	return 0;
}

static int request_status_fill_store_drops(Ranktrace__Store *item, const struct store_status *status)
{
	for (size_t i = 0; i < status->drops_count; i++) {
		Ranktrace__StoreDrop *drop = REQUEST_ADD(item, drops);

		if (!drop)
			return -ENOMEM;
		drop->table = strdup(status->drops[i].table);
		drop->reason = strdup(status->drops[i].reason);
		drop->rows = status->drops[i].rows;
	}
	return 0;
}

static int request_status_fill_store(const struct context *context, Ranktrace__StatusBody *body)
{
	Ranktrace__Store *item = REQUEST_ADD(body, store);
	struct store_status status = {0};

	if (!item)
		return -ENOMEM;
	if (context->store)
		store_status(context->store, &status);
	if (asprintf(&item->path, "%s/db", context->config.state_dir) < 0) {
		item->path = NULL;
		return -ENOMEM;
	}
	item->segments = status.segments;
	item->size_bytes = status.size_bytes;
	item->oldest_ns = status.oldest_ns;
	item->newest_ns = status.newest_ns;
	item->rows = status.rows;
	item->rows_dropped = status.rows_dropped;
	item->rows_pending = status.rows_pending;
	item->segments_removed = status.segments_removed;
	item->segments_corrupt = status.segments_corrupt;
	item->reason = strndup(status.reason, sizeof(status.reason));
	return request_status_fill_store_drops(item, &status);
}

/* "VmRSS:     1234 kB"; 0 where the line is missing. */
static uint64_t request_status_proc_status_bytes(const char *key)
{
	_cleanup_fclose_ FILE *f = fopen("/proc/self/status", "re");
	size_t length = strlen(key);
	char line[256];

	while (f && fgets(line, sizeof(line), f))
		if (strncmp(line, key, length) == 0 && line[length] == ':')
			return strtoull(line + length + 1, NULL, 10) * 1024;
	return 0;
}

static int request_status_fill_self(const struct context *context, Ranktrace__StatusBody *body)
{
	Ranktrace__Self *item = REQUEST_ADD(body, self);
	struct rusage usage = {0};

	if (!item)
		return -ENOMEM;
	getrusage(RUSAGE_SELF, &usage);
	item->cpu_user_ns = timeval_ns(usage.ru_utime);
	item->cpu_system_ns = timeval_ns(usage.ru_stime);
	item->cpu_workers_ns = workers_cpu_ns(context->workers);
	item->rss_bytes = request_status_proc_status_bytes("VmRSS");
	item->loop_lag_known = true;
	item->loop_lag_max_ns = context->lag.max.late_ns;
	item->loop_lag_ready_ns = context->lag.max.thread.ready_ns;
	item->loop_lag_minute_ns = lag_last_minute(&context->lag, monotonic_ns());
	item->rss_peak_bytes = request_status_proc_status_bytes("VmHWM");
	if (context->ranks) {
		item->ranks = ranks_count(context->ranks, RANK_ROLE_RANK);
		item->children = ranks_count(context->ranks, RANK_ROLE_CHILD);
		item->launchers = ranks_count(context->ranks, RANK_ROLE_LAUNCHER);
	}
	return 0;
}

static int request_status_fill_operations(const struct context *context, Ranktrace__StatusBody *body)
{
	Ranktrace__Operations *item = REQUEST_ADD(body, operations);
	struct allocs_counts allocs = {0};
	struct rank_coll_counts ops = {0};

	if (!item)
		return -ENOMEM;
	if (context->ops)
		rank_coll_counts(context->ops, &ops);
	if (context->allocs)
		allocs_counts(context->allocs, &allocs);
	item->rows = ops.rows;
	item->groups = ops.groups;
	item->communicators = ops.communicators;
	item->lost = ops.lost;
	item->not_waited = ops.not_waited;
	item->late = ops.late;
	item->impossible = ops.impossible;
	item->forgotten = ops.forgotten;
	item->allocations = allocs.rows;
	item->allocations_live = allocs.live;
	item->allocations_not_followed = allocs.not_followed;
	return 0;
}

struct clock_list {
	Ranktrace__StatusBody *body;
	int64_t utc_ns; /* minus CLOCK_MONOTONIC, now */
	uint64_t now_ns;
	int error;
};

static void request_status_add_clock(void *arg, const struct rank *rank, const struct coll_clock *clock)
{
	struct clock_list *list = arg;
	const struct device_clock_estimate *estimate = &clock->estimate;
	Ranktrace__DeviceClock *item;

	if (list->error || list->body->n_device_clocks >= DEVICE_CLOCKS_MAX)
		return;
	item = REQUEST_ADD(list->body, device_clocks);
	if (!item) {
		list->error = -ENOMEM;
		return;
	}
	item->rank = rank->env.rank;
	item->pid = rank->pid;
	item->uid = rank->uid;
	item->job = strdup(rank->env.job);
	item->card = strdup(rank->env.card);
	item->device = (int32_t)clock->device - 1;
	item->offset_ns = estimate->offset_ns - list->utc_ns;
	item->offset_min_known = estimate->offset_min_ns != INT64_MIN;
	item->offset_min_ns = item->offset_min_known ? estimate->offset_min_ns - list->utc_ns : 0;
	item->offset_max_known = estimate->offset_max_ns != INT64_MAX;
	item->offset_max_ns = item->offset_max_known ? estimate->offset_max_ns - list->utc_ns : 0;
	item->drift_ppm = estimate->drift * 1e6;
	item->drift_min_ppm = estimate->drift_min * 1e6;
	item->drift_max_ppm = estimate->drift_max * 1e6;
	item->steps = clock->steps;
	item->drift_changes = clock->drift_changes;
	item->bounds = clock->bounds;
	item->ago_ns = list->now_ns > clock->newest_ns ? list->now_ns - clock->newest_ns : 0;
}

static int request_status_fill_clocks(const struct context *context, Ranktrace__StatusBody *body)
{
	struct clock_list list = {.body = body, .now_ns = monotonic_ns()};

	if (!context->ops)
		return 0;
	list.utc_ns = (int64_t)(realtime_ns() - list.now_ns);
	rank_coll_clocks(context->ops, request_status_add_clock, &list);
	return list.error;
}

static int request_status_fill_findings(const struct context *context, Ranktrace__StatusBody *body)
{
	Ranktrace__Findings *item = REQUEST_ADD(body, findings);
	struct online_counts counts;

	if (!item)
		return -ENOMEM;
	online_counts_get(context->findings, &counts);
	item->enabled = context->findings != NULL;
	item->suspected = counts.suspected;
	item->open = counts.open;
	item->closed = counts.closed;
	item->dropped = counts.dropped;
	item->frames = counts.frames;
	item->ranks_left_out = counts.ranks_left_out;
	item->raises = counts.raises;
	item->samples = counts.samples;
	return 0;
}

struct cost_list {
	const struct context *context;
	Ranktrace__Guard *body;
	int error;
};

static void request_status_add_cost(void *arg, const struct rank *rank)
{
	struct cost_list *list = arg;

	for (enum level level = 0; level < LEVEL_MAX && !list->error && rank->role == RANK_ROLE_RANK; level++) {
		struct guard_share share;
		Ranktrace__RankCost *item;

		guard_rank_paid(list->context->guard, rank, level, &share);
		if (!share.known || (share.hits_per_s <= 0 && !list->context->levels.on[level]))
			continue;
		item = list->body->n_costs < COSTS_MAX ? REQUEST_ADD(list->body, costs) : NULL;
		if (!item) {
			list->error = list->body->n_costs < COSTS_MAX ? -ENOMEM : 0;
			return;
		}
		item->rank = rank->env.rank;
		item->pid = rank->pid;
		item->uid = rank->uid;
		item->job = strdup(rank->env.job);
		item->level = strdup(level_name(level));
		item->hits_per_s = share.hits_per_s;
		item->share = share.share;
		item->share_min = share.low;
		item->share_max = share.high;
	}
}

static int request_status_fill_guard(const struct context *context, Ranktrace__StatusBody *body)
{
	const struct config *config = &context->config;
	struct cost_list list = {.context = context};
	struct guard_status status;

	if (!context->guard)
		return 0;
	list.body = REQUEST_ADD(body, guard);
	if (!list.body)
		return -ENOMEM;
	guard_status(context->guard, &status);
	list.body->budget_share = (double)config->budget_rank_ppm * 1e-6;
	list.body->budget_cpus = (double)config->budget_cpu_ppm * 1e-6;
	list.body->budget_bytes = config->budget_memory_bytes;
	list.body->calibrated = status.calibrated;
	list.body->reason = strdup(status.reason);
	list.body->hit_warm_ns = status.hot_ns;
	list.body->hit_cold_ns = status.cold_ns;
	list.body->cpus_known = status.own_known;
	list.body->cpus = status.own_cpus;
	if (context->ranks)
		ranks_each(context->ranks, request_status_add_cost, &list);
	return list.error;
}

static int request_status_fill_gauges(const struct context *context, Ranktrace__StatusBody *body)
{
	struct gauges_status status;

	for (unsigned i = 0; gauges_status(context->gauges, i, &status); i++) {
		Ranktrace__GaugeSource *source = status.groups ? REQUEST_ADD(body, gauges) : NULL;

		if (!source && status.groups)
			return -ENOMEM;
		if (source) {
			source->name = strdup(status.source->name);
			source->cpus = status.cpus;
		}
		for (size_t g = 0; g < status.groups; g++) {
			Ranktrace__GaugeGroup *group = REQUEST_ADD(source, groups);

			if (!group)
				return -ENOMEM;
			group->name = strdup(status.group[g].name);
			group->interval_s = (double)status.group[g].interval_ns / 1e9;
			group->slow = status.group[g].slow;
			group->cpus = status.group[g].cpus;
		}
	}
	return 0;
}

static int request_status_fill_dumps(const struct context *context, Ranktrace__StatusBody *body)
{
	Ranktrace__Dumps *item = REQUEST_ADD(body, dumps);
	struct dumps_status status;

	if (!item)
		return -ENOMEM;
	if (!context->dumps)
		return 0;
	dumps_status(context->dumps, &status);
	item->enabled = context->config.dump_enabled;
	item->l0_minutes = (double)context->config.dump_l0_interval_ns / (60.0 * (double)NSEC_PER_SEC);
	if (asprintf(&item->path, "%s/dump", context->config.state_dir) < 0) {
		item->path = NULL;
		return -ENOMEM;
	}
	item->files = status.state.kept_files;
	item->bytes = status.state.kept_bytes;
	item->running = status.running;
	item->cpu_ns = status.cpu_ns;
	item->reason = strdup(status.reason);
	for (unsigned i = 0; i < DUMP_KIND_MAX; i++) {
		const struct dump_wrote *wrote = &status.state.level[i].wrote;
		Ranktrace__DumpLevel *level = REQUEST_ADD(item, levels);

		if (!level)
			return -ENOMEM;
		level->level = strdup(dump_kind_name((enum dump_kind)i));
		level->written_ns = wrote->at_ns;
		level->files = wrote->files;
		level->rows = wrote->rows;
		level->bytes = wrote->bytes;
	}
	return 0;
}

int request_status(struct context *context, const Ranktrace__Request *request, Ranktrace__Response *response)
{
	static int (*const fill[])(const struct context *context, Ranktrace__StatusBody *body) = {
		request_status_fill_features, request_status_fill_collectors, request_status_fill_store,
		request_status_fill_self, request_status_fill_operations, request_status_fill_clocks,
		request_status_fill_findings, request_status_fill_dumps, request_status_fill_guard,
		request_status_fill_gauges, request_limits_fill};
	Ranktrace__StatusBody *body = request_body_new(response, RANKTRACE__RESPONSE__BODY_STATUS);
	int r;

	if (!body)
		return -ENOMEM;
	body->version = strdup(RANKTRACE_VERSION);
	body->pid = (uint32_t)getpid();
	body->uptime_ns = monotonic_ns() - context->started_ns;
	body->host = strdup(context->host);
	for (unsigned kind = RT_KIND_NONE + 1; context->kernel && kind < RT_KIND_MAX; kind++)
		body->ring_drops += kernel_drops(context->kernel, kind);
	r = request_levels_fill(context, &body->base, offsetof(Ranktrace__StatusBody, levels));
	for (size_t i = 0; i < ARRAY_SIZE(fill) && r == 0; i++)
		r = fill[i](context, body);
	return r;
}
