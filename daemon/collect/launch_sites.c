/* SPDX-License-Identifier: Apache-2.0 */
/* Resolves launch functions: combines libraries.c (files), table.c (rows) and site.c (sites). */
#include <fcntl.h>

#include "daemon/collect/launch.h"
#include "daemon/core/context.h"
#include "daemon/base/log.h"
#include "daemon/base/log_limit.h"
#include "daemon/probes/libraries.h"
#include "daemon/probes/site.h"

struct launch_sites {
	struct probe_table table; /* an API's number is its row's */
	struct attach_engine engine;
	struct libraries *libraries;
	const char **pattern; /* libraries in the table, NULL-terminated */
	bool stale;	      /* a library was added or dropped: row groups may change */
	char reason[256];
	launch_scanned scanned;
	void *scanned_arg;
};

/* owner_data of a library. */
struct launch_file {
	struct sites found;
	bool use[PROBES_MAX]; /* by row */
};

/* No specification needed: only hits count. */
static int launch_sites_spec_new(void *arg, const struct site *site, const struct rt_call_spec *spec, uint32_t *ret)
{
	const struct launch_sites *sites = arg;

	*ret = (uint32_t)(site->probe - sites->table.probe);
	return 0;
}

static void launch_sites_spec_free(void *arg, uint32_t spec)
{
}

static void launch_sites_library_added(void *arg, struct library *library)
{
	struct launch_sites *sites = arg;
	struct launch_file *file = calloc(1, sizeof(*file));
	int r = file ? sites_find(&sites->engine, library, &file->found) : -ENOMEM;

	sites->stale = true;
	if (r < 0) {
		snprintf(
			sites->reason, sizeof(sites->reason), "a library cannot be read: its launches are not counted");
		log_warning(
			"launches", "cannot read %s: %s; its launches are not counted", library->path, strerror(-r));
		free(file);
		return;
	}
	library->owner_data = file;
}

static void launch_sites_library_dropped(void *arg, struct library *library)
{
	struct launch_sites *sites = arg;
	struct launch_file *file = library->owner_data;

	sites->stale = true;
	if (file)
		sites_free(&file->found);
	free(file);
	library->owner_data = NULL;
}

static void launch_sites_library_refused(void *arg, uint32_t pid, uint32_t uid, const char *path, int error)
{
	struct launch_sites *sites = arg;

	snprintf(sites->reason, sizeof(sites->reason),
		"a library of process %u cannot be opened: its launches are not counted", pid);
	log_limited(LOG_WARNING, "launches", uid, "cannot use %s of process %u: %s; its launches are not counted", path,
		pid, strerror(-error));
}

struct launch_sites *launch_sites_free(struct launch_sites *sites)
{
	if (!sites)
		return NULL;
	libraries_free(sites->libraries);
	free(sites->pattern);
	probe_table_free(&sites->table);
	free(sites);
	return NULL;
}

static void launch_sites_scanned(void *arg, int64_t instance, int result, uint64_t cost_ns)
{
	struct launch_sites *sites = arg;

	sites->stale = true; /* users of a library determine its group */
	if (sites->scanned)
		sites->scanned(sites->scanned_arg, instance, result, cost_ns);
}

static int launch_sites_follow(struct launch_sites *sites, const struct context *context)
{
	const struct libraries_ops ops = {
		.patterns = sites->pattern,
		.added = launch_sites_library_added,
		.dropped = launch_sites_library_dropped,
		.refused = launch_sites_library_refused,
		.scanned = launch_sites_scanned,
		.arg = sites,
		.workers = context->workers,
		.table = &sites->table,
		.quarantine = context->quarantine,
		.takes_user_served = context->config.user_filesystems,
	};

	(void)probe_table_libraries(&sites->table, sites->pattern);
	sites->libraries = libraries_new(&ops, "/proc");
	return sites->libraries ? 0 : -ENOMEM;
}

int launch_sites_new(struct probe_table *table, const struct context *context, struct launch_sites **ret)
{
	struct launch_sites *sites = calloc(1, sizeof(*sites));

	if (!sites)
		return -ENOMEM;
	sites->pattern = calloc(table->count * PROBE_PATTERNS_MAX + 1, sizeof(*sites->pattern));
	sites->table = *table;
	if (!sites->pattern || launch_sites_follow(sites, context) < 0) {
		free(sites->pattern);
		free(sites);
		return -ENOMEM;
	}
	*table = (struct probe_table){0};
	if (sites->table.count > RT_LAUNCH_APIS_MAX) {
		snprintf(sites->reason, sizeof(sites->reason),
			"%zu launch functions in the probe tables, only the first %d are used", sites->table.count,
			RT_LAUNCH_APIS_MAX);
		log_warning("launches", "%s", sites->reason);
		sites->table.count = RT_LAUNCH_APIS_MAX;
	}
	sites->engine = (struct attach_engine){.table = &sites->table,
		.mixes_specs = true,
		.spec_new = launch_sites_spec_new,
		.spec_free = launch_sites_spec_free,
		.arg = sites};
	*ret = sites;
	return 0;
}

void launch_sites_observe(struct launch_sites *sites, launch_scanned scanned, void *arg)
{
	sites->scanned = scanned;
	sites->scanned_arg = arg;
}

void launch_sites_scan(struct launch_sites *sites, uint32_t pid, uint32_t uid, int64_t instance)
{
	(void)libraries_scan(sites->libraries, pid, uid, instance);
	sites->stale = true; /* users of a library determine its group */
}

void launch_sites_forget(struct launch_sites *sites, int64_t instance)
{
	libraries_forget(sites->libraries, instance);
	sites->stale = true;
}

struct group {
	const struct library *of;
	bool found[PROBES_MAX];
};

static void launch_sites_add_found(void *arg, struct library *library)
{
	const struct launch_file *file = library->owner_data;
	struct group *group = arg;
	bool together = group->of == library;

	for (size_t i = 0; i < library->users && !together; i++)
		together = library_used_by(group->of, library->user[i].instance);
	for (size_t i = 0; file && together && i < PROBES_MAX; i++)
		group->found[i] |= file->found.found[i];
}

/* Chooses between the runtime's and the driver's functions if both are mapped (sets, probes/table.h). */
static void launch_sites_choose(void *arg, struct library *library)
{
	struct launch_sites *sites = arg;
	struct launch_file *file = library->owner_data;
	struct group group = {.of = library};

	if (!file)
		return;
	libraries_each(sites->libraries, launch_sites_add_found, &group);
	probe_table_choose(&sites->table, group.found, file->use);
}

static void launch_sites_refresh(struct launch_sites *sites)
{
	if (sites->stale)
		libraries_each(sites->libraries, launch_sites_choose, sites);
	sites->stale = false;
}

static bool launch_sites_is_in(const struct launch_target *target, uint64_t offset)
{
	for (size_t i = 0; i < target->count; i++)
		if (target->offset[i] == offset)
			return true;
	return false;
}

/* Aliases share one site: a second probe would count each launch twice. */
static void fill_target(const struct library *library, struct launch_target *ret)
{
	const struct launch_file *file = library->owner_data;

	*ret = (struct launch_target){.fd = -1};
	for (unsigned i = 0; file && i < file->found.count && ret->count < LAUNCH_SITES_MAX; i++) {
		const struct site *site = &file->found.site[i];

		if (!file->use[site->spec] || !site->entry_offset || launch_sites_is_in(ret, site->entry_offset))
			continue;
		ret->offset[ret->count] = site->entry_offset;
		ret->cookie[ret->count++] = site->spec;
	}
}

struct targets {
	struct launch_target *target;
	size_t count, max;
};

static void add_target(void *arg, struct library *library)
{
	struct targets *targets = arg;
	struct launch_target *target = &targets->target[targets->count];

	if (targets->count == targets->max)
		return;
	fill_target(library, target);
	if (target->count == 0)
		return;
	target->fd = fcntl(library->fd, F_DUPFD_CLOEXEC, 3);
	if (target->fd >= 0)
		targets->count++;
}

size_t launch_sites_targets(struct launch_sites *sites, struct launch_target *ret, size_t max)
{
	struct targets targets = {.target = ret, .max = max};

	launch_sites_refresh(sites);
	libraries_each(sites->libraries, add_target, &targets);
	return targets.count;
}

struct question {
	int64_t instance;
	unsigned functions, libraries;
};

static void count_library(void *arg, struct library *library)
{
	struct question *question = arg;
	struct launch_target target;

	if (question->instance && !library_used_by(library, question->instance))
		return;
	fill_target(library, &target);
	question->functions += (unsigned)target.count;
	question->libraries += target.count > 0;
}

bool launch_sites_are_known(struct launch_sites *sites, int64_t instance)
{
	struct question question = {.instance = instance};

	if (libraries_busy_for(sites->libraries, instance))
		return false;
	launch_sites_refresh(sites);
	libraries_each(sites->libraries, count_library, &question);
	return question.functions > 0;
}

void launch_sites_count(struct launch_sites *sites, unsigned *ret_functions, unsigned *ret_libraries)
{
	struct question question = {0};

	launch_sites_refresh(sites);
	libraries_each(sites->libraries, count_library, &question);
	*ret_functions = question.functions;
	*ret_libraries = question.libraries;
}

const char *launch_sites_reason(const struct launch_sites *sites)
{
	return sites->reason;
}

const char *launch_sites_api(const struct launch_sites *sites, unsigned api)
{
	return api < sites->table.count ? sites->table.probe[api].name : "";
}
