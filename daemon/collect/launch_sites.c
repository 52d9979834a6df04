/* SPDX-License-Identifier: Apache-2.0 */
/* See launch.h. Reading files is libraries.c's and site.c's, choosing rows table.c's: here they meet. */
#include <fcntl.h>

#include "daemon/collect/launch.h"
#include "daemon/base/log.h"
#include "daemon/probes/libraries.h"
#include "daemon/probes/site.h"

struct launch_sites {
	struct probe_table table; /* the number of an API is its row's */
	struct attach_engine engine;
	struct libraries *libraries;
	bool stale; /* a library came or went: which rows to use may have changed */
	char trouble[256];
};

/* Of one library: the owner_data. */
struct file_places {
	struct places found;
	bool use[PROBES_MAX]; /* by row */
};

/* There is nothing to specify: a hit is all that is wanted. */
static int launch_sites_spec_new(void *arg, const struct place *place, const struct rt_call_spec *spec, uint32_t *ret)
{
	const struct launch_sites *places = arg;

	(void)spec;
	*ret = (uint32_t)(place->probe - places->table.probe);
	return 0;
}

static void launch_sites_spec_free(void *arg, uint32_t spec)
{
	(void)arg;
	(void)spec;
}

static bool launch_sites_wanted(void *arg, const char *base_name)
{
	const struct launch_sites *places = arg;

	for (size_t i = 0; i < places->table.count; i++)
		if (probe_matches_library(&places->table.probe[i], base_name))
			return true;
	return false;
}

static void launch_sites_library_added(void *arg, struct library *library)
{
	struct launch_sites *places = arg;
	struct file_places *file = calloc(1, sizeof(*file));
	int r = file ? sites_find(&places->engine, library, &file->found) : -ENOMEM;

	places->stale = true;
	if (r < 0) {
		snprintf(places->trouble, sizeof(places->trouble), "cannot read %.160s (%s): its launches stay unseen",
			library->path, strerror(-r));
		log_warning("launches", "%s", places->trouble);
		free(file);
		return;
	}
	library->owner_data = file;
}

static void launch_sites_library_dropped(void *arg, struct library *library)
{
	struct launch_sites *places = arg;
	struct file_places *file = library->owner_data;

	places->stale = true;
	if (file)
		sites_free(&file->found);
	free(file);
	library->owner_data = NULL;
}

static void launch_sites_library_refused(void *arg, uint32_t pid, const char *path, int error)
{
	struct launch_sites *places = arg;

	snprintf(places->trouble, sizeof(places->trouble),
		"cannot use %.160s of process %u (%s): its launches stay unseen", path, pid, strerror(-error));
	log_warning("launches", "%s", places->trouble);
}

struct launch_sites *launch_sites_free(struct launch_sites *places)
{
	if (!places)
		return NULL;
	libraries_free(places->libraries);
	probe_table_free(&places->table);
	free(places);
	return NULL;
}

int launch_sites_new(struct probe_table *table, struct launch_sites **ret)
{
	struct launch_sites *places = calloc(1, sizeof(*places));
	struct libraries_ops ops = {launch_sites_wanted, launch_sites_library_added, launch_sites_library_dropped, launch_sites_library_refused, places};

	if (!places)
		return -ENOMEM;
	places->libraries = libraries_new(&ops, "/proc");
	if (!places->libraries) {
		free(places);
		return -ENOMEM;
	}
	places->table = *table;
	*table = (struct probe_table){0};
	if (places->table.count > RT_LAUNCH_APIS_MAX) {
		snprintf(places->trouble, sizeof(places->trouble),
			"%zu rows of the probe tables launch, only the first %d are used", places->table.count,
			RT_LAUNCH_APIS_MAX);
		log_warning("launches", "%s", places->trouble);
		places->table.count = RT_LAUNCH_APIS_MAX;
	}
	places->engine = (struct attach_engine){.table = &places->table,
		.mixes_specs = true,
		.spec_new = launch_sites_spec_new,
		.spec_free = launch_sites_spec_free,
		.arg = places};
	*ret = places;
	return 0;
}

void launch_sites_scan(struct launch_sites *places, uint32_t pid, int64_t instance)
{
	(void)libraries_scan(places->libraries, pid, instance);
	places->stale = true; /* a user more or less of a library that is known changes its group, too */
}

void launch_sites_forget(struct launch_sites *places, int64_t instance)
{
	libraries_forget(places->libraries, instance);
	places->stale = true;
}

struct group {
	const struct library *of;
	bool found[PROBES_MAX];
};

static void launch_sites_add_found(void *arg, struct library *library)
{
	const struct file_places *file = library->owner_data;
	struct group *group = arg;
	bool together = group->of == library;

	for (size_t i = 0; i < library->users && !together; i++)
		together = library_used_by(group->of, library->user[i].instance);
	for (size_t i = 0; file && together && i < PROBES_MAX; i++)
		group->found[i] |= file->found.found[i];
}

/* Of the runtime's and the driver's functions the ones that are right where both are mapped (sets, probes/table.h). */
static void launch_sites_choose(void *arg, struct library *library)
{
	struct launch_sites *places = arg;
	struct file_places *file = library->owner_data;
	struct group group = {.of = library};

	if (!file)
		return;
	libraries_each(places->libraries, launch_sites_add_found, &group);
	probe_table_choose(&places->table, group.found, file->use);
}

static void refresh(struct launch_sites *places)
{
	if (places->stale)
		libraries_each(places->libraries, launch_sites_choose, places);
	places->stale = false;
}

static bool launch_sites_is_in(const struct launch_target *target, uint64_t offset)
{
	for (size_t i = 0; i < target->count; i++)
		if (target->offset[i] == offset)
			return true;
	return false;
}

/* Two names of one function are one place: a second probe there would count each launch twice. */
static void fill_target(const struct library *library, struct launch_target *ret)
{
	const struct file_places *file = library->owner_data;

	*ret = (struct launch_target){.fd = -1};
	for (unsigned i = 0; file && i < file->found.count && ret->count < LAUNCH_PLACES_MAX; i++) {
		const struct place *place = &file->found.place[i];

		if (!file->use[place->spec] || !place->entry_offset || launch_sites_is_in(ret, place->entry_offset))
			continue;
		ret->offset[ret->count] = place->entry_offset;
		ret->cookie[ret->count++] = place->spec;
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

size_t launch_sites_targets(struct launch_sites *places, struct launch_target *ret, size_t max)
{
	struct targets targets = {.target = ret, .max = max};

	refresh(places);
	libraries_each(places->libraries, add_target, &targets);
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

bool launch_sites_has(struct launch_sites *places, int64_t instance)
{
	struct question question = {.instance = instance};

	refresh(places);
	libraries_each(places->libraries, count_library, &question);
	return question.functions > 0;
}

void launch_sites_count(struct launch_sites *places, unsigned *ret_functions, unsigned *ret_libraries)
{
	struct question question = {0};

	refresh(places);
	libraries_each(places->libraries, count_library, &question);
	*ret_functions = question.functions;
	*ret_libraries = question.libraries;
}

const char *launch_sites_trouble(const struct launch_sites *places)
{
	return places->trouble;
}

const char *launch_sites_api(const struct launch_sites *places, unsigned api)
{
	return api < places->table.count ? places->table.probe[api].name : "";
}
