/* SPDX-License-Identifier: Apache-2.0 */
/* Runs when a level is switched and for the status: plain loops over ranks, libraries and rows suffice. */
#include "analyzers/base/array.h"
#include "daemon/probes/attachment.h"
#include "daemon/probes/coverage.h"

/* Readable libraries of one rank. */
struct input {
	const struct library *const *library;
	size_t count;
	const struct probe_table *table;
};

static bool is_named(const struct input *input, size_t row)
{
	for (size_t i = 0; i < input->count; i++)
		if (attachment_names(input->library[i]->owner_data, row))
			return true;
	return false;
}

static bool unresolved_is_used(const struct input *input, size_t row)
{
	for (size_t i = 0; i < input->count; i++)
		if (attachment_uses(input->library[i]->owner_data, row))
			return true;
	return false;
}

/* A row without a set stands alone. */
static bool is_same_set(const struct probe *a, const struct probe *b)
{
	return a == b || (a->set[0] && streq(a->set, b->set));
}

static bool is_same_variant(const struct probe *a, const struct probe *b)
{
	return is_same_set(a, b) && a->variant == b->variant;
}

/* Does the predicate hold for every row of this row's variant? */
static bool all_rows(const struct input *input, const struct probe *variant, bool (*question)(const struct input *input, size_t row))
{
	for (size_t i = 0; i < input->table->count; i++)
		if (is_same_variant(variant, &input->table->probe[i]) && !question(input, i))
			return false;
	return true;
}

static bool any_variant(const struct input *input, const struct probe *of, bool (*question)(const struct input *input, size_t row))
{
	for (size_t i = 0; i < input->table->count; i++)
		if (is_same_set(of, &input->table->probe[i]) && all_rows(input, &input->table->probe[i], question))
			return true;
	return false;
}

/* The row that names the set. */
static const struct probe *name_of(const struct probe_table *table, const struct probe *of)
{
	const struct probe *best = of;

	for (size_t i = 0; i < table->count; i++) {
		const struct probe *probe = &table->probe[i];

		if (is_same_set(of, probe) &&
			(probe->variant < best->variant || (probe->variant == best->variant && probe < best)))
			best = probe;
	}
	return best;
}

static bool is_optional(const struct probe_table *table, const struct probe *of)
{
	for (size_t i = 0; i < table->count; i++)
		if (is_same_set(of, &table->probe[i]) && !table->probe[i].optional)
			return false;
	return true;
}

static bool names_any(const struct input *input, const struct library *library, const struct probe *of)
{
	for (size_t row = 0; row < input->table->count; row++)
		if (is_same_set(of, &input->table->probe[row]) && attachment_names(library->owner_data, row))
			return true;
	return false;
}

static const char *unresolved_reason(const struct input *input, const struct library *library, const struct probe *of)
{
	for (size_t row = 0; row < input->table->count; row++)
		if (is_same_set(of, &input->table->probe[row]) && attachment_reason(library->owner_data, row))
			return attachment_reason(library->owner_data, row);
	return NULL;
}

/* Library to report: preferably one that has the function and a reason. */
static void unresolved_describe(const struct input *input, struct unresolved_thing *thing)
{
	for (size_t i = 0; i < input->count; i++) {
		const char *reason = unresolved_reason(input, input->library[i], thing->probe);

		if (!names_any(input, input->library[i], thing->probe))
			continue;
		thing->others += thing->library != NULL;
		if (!thing->library || (reason && !thing->reason)) {
			thing->library = input->library[i];
			thing->reason = reason;
		}
	}
}

static int unresolved_keep(struct unresolved *missing, const struct unresolved_thing *thing)
{
	for (size_t i = 0; i < missing->count; i++)
		if (missing->thing[i].probe == thing->probe && missing->thing[i].library == thing->library)
			return 0;
	if (!array_reserve((void **)&missing->thing, &missing->capacity, missing->count + 1, sizeof(*thing), SIZE_MAX))
		return -ENOMEM;
	missing->thing[missing->count++] = *thing;
	return 0;
}

int unresolved_add(struct unresolved *missing, const struct library *const *library, size_t count)
{
	struct input input = {library, count, NULL};

	if (count == 0)
		return 0;
	input.table = attachment_table(library[0]->owner_data);
	for (size_t i = 0; i < input.table->count; i++) {
		struct unresolved_thing thing = {.probe = &input.table->probe[i]};
		int r;

		if (name_of(input.table, thing.probe) != thing.probe || !any_variant(&input, thing.probe, is_named) ||
			any_variant(&input, thing.probe, unresolved_is_used))
			continue;
		unresolved_describe(&input, &thing);
		if (!thing.reason && is_optional(input.table, thing.probe))
			continue;
		r = unresolved_keep(missing, &thing);
		if (r < 0)
			return r;
	}
	return 0;
}

struct collection {
	size_t count;
	const struct library *library[LIBRARIES_MAX];
};

static void unresolved_collect(void *arg, struct library *library)
{
	struct collection *collection = arg;

	if (library->owner_data && collection->count < LIBRARIES_MAX)
		collection->library[collection->count++] = library;
}

/* Adds what a library's user lacks, unless an earlier library reported it. */
static int unresolved_add_user(struct unresolved *missing, const struct collection *all, size_t from, int64_t instance, struct collection *own)
{
	own->count = 0;
	for (size_t i = 0; i < from; i++)
		if (library_used_by(all->library[i], instance))
			return 0;
	for (size_t i = from; i < all->count; i++)
		if (library_used_by(all->library[i], instance))
			own->library[own->count++] = all->library[i];
	return unresolved_add(missing, own->library, own->count);
}

int unresolved_find(struct libraries *libraries, struct unresolved *ret)
{
	_cleanup_free_ struct collection *all = calloc(1, sizeof(*all)), *own = calloc(1, sizeof(*own));
	struct unresolved missing = {0};
	int r = 0;

	if (!all || !own)
		return -ENOMEM;
	libraries_each(libraries, unresolved_collect, all);
	for (size_t i = 0; i < all->count; i++)
		for (size_t k = 0; k < all->library[i]->users && r == 0; k++)
			r = unresolved_add_user(&missing, all, i, all->library[i]->user[k].instance, own);
	if (r < 0) {
		unresolved_free(&missing);
		return r;
	}
	*ret = missing;
	return 0;
}

void unresolved_free(struct unresolved *missing)
{
	free(missing->thing);
	*missing = (struct unresolved){0};
}

/* Is it of this list, and its name new in it? */
static bool is_listed(const struct unresolved *missing, size_t i, enum level level, bool with_reason)
{
	const struct unresolved_thing *thing = &missing->thing[i];

	if (thing->probe->level != level || !thing->reason == with_reason)
		return false;
	for (size_t k = 0; k < i; k++)
		if (missing->thing[k].probe == thing->probe && !missing->thing[k].reason == !with_reason)
			return false;
	return true;
}

unsigned unresolved_names(const struct unresolved *missing, enum level level, bool with_reason, char names[MISSING_NAMES_BYTES])
{
	const size_t capacity = MISSING_NAMES_BYTES - sizeof(" and 4294967295 more");
	unsigned count = 0, shown = 0;
	size_t used = 0;

	names[0] = 0;
	for (size_t i = 0; i < missing->count; i++) {
		const char *name = missing->thing[i].probe->name;

		if (!is_listed(missing, i, level, with_reason))
			continue;
		/* After the first that does not fit, none is added: the list remains a prefix. */
		if (shown == count++ && used + strlen(name) + 2 < capacity) {
			used += (size_t)snprintf(names + used, MISSING_NAMES_BYTES - used, "%s%s", used ? ", " : "", name);
			shown++;
		}
	}
	if (shown < count)
		snprintf(names + used, MISSING_NAMES_BYTES - used, " and %u more", count - shown);
	return count;
}
