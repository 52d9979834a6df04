/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs when a level is switched and for each status, in the loop: what it costs must not grow with ranks times rows
 * times rows. Rows of a set are brought together once, and of a rank's libraries only the union counts.
 */
#include <stdlib.h>
#include "analyzers/base/array.h"
#include "daemon/probes/attachment.h"
#include "daemon/probes/coverage.h"

/* A function: a row without a set, or a whole set. Its rows are order[begin .. end - 1], in the order of variants. */
struct unresolved_sets {
	const struct probe_table *table;
	size_t *order;	    /* row numbers */
	size_t *begin;	    /* of a row that names a function; of others table->count */
	bool *named, *used; /* rows, of one rank */
};

/* Readable libraries of one rank. */
struct input {
	const struct library *const *library;
	size_t count;
	const struct unresolved_sets *sets;
};

static int unresolved_by_set(const void *a, const void *b, void *arg)
{
	const struct probe_table *table = arg;
	size_t x = *(const size_t *)a, y = *(const size_t *)b;
	const struct probe *p = &table->probe[x], *q = &table->probe[y];

	return strcmp(p->set, q->set) ?: (p->set[0] ? ORDER(p->variant, q->variant) : 0) ?: ORDER(x, y);
}

/* Rows without a set stand alone. */
static bool is_same_set(const struct probe *a, const struct probe *b)
{
	return a == b || (a->set[0] && streq(a->set, b->set));
}

static struct unresolved_sets *unresolved_sets_free(struct unresolved_sets *sets)
{
	if (sets) {
		free(sets->order);
		free(sets->begin);
		free(sets->named);
		free(sets->used);
	}
	free(sets);
	return NULL;
}

static struct unresolved_sets *unresolved_sets_new(const struct probe_table *table)
{
	struct unresolved_sets *sets = calloc(1, sizeof(*sets));
	size_t rows = table->count ? table->count : 1;

	if (!sets)
		return NULL;
	sets->table = table;
	sets->order = calloc(rows, sizeof(*sets->order));
	sets->begin = calloc(rows, sizeof(*sets->begin));
	sets->named = calloc(rows, sizeof(*sets->named));
	sets->used = calloc(rows, sizeof(*sets->used));
	if (!sets->order || !sets->begin || !sets->named || !sets->used)
		return unresolved_sets_free(sets);
	for (size_t i = 0; i < table->count; i++)
		sets->order[i] = i;
	qsort_r(sets->order, table->count, sizeof(*sets->order), unresolved_by_set, (void *)table);
	for (size_t i = 0; i < table->count; i++) {
		const struct probe *probe = &table->probe[sets->order[i]];
		bool is_first = i == 0 || !is_same_set(probe, &table->probe[sets->order[i - 1]]);

		sets->begin[sets->order[i]] = is_first ? i : table->count;
	}
	return sets;
}

/* Row i of the function that row `of` names, in the order of variants; NULL: no more. */
static const struct probe *unresolved_row(const struct unresolved_sets *sets, const struct probe *of, size_t i)
{
	size_t at = sets->begin[of - sets->table->probe] + i;
	const struct probe *probe = at < sets->table->count ? &sets->table->probe[sets->order[at]] : NULL;

	return probe && is_same_set(of, probe) ? probe : NULL;
}

/* Is every row of one of its variants in the rows? */
static bool any_variant(const struct unresolved_sets *sets, const struct probe *of, const bool *rows)
{
	const struct probe *probe;
	unsigned variant = 0;
	bool all = false;

	for (size_t i = 0; (probe = unresolved_row(sets, of, i)); i++) {
		if (i > 0 && probe->variant != variant && all)
			return true;
		all = (i == 0 || probe->variant != variant || all) && rows[probe - sets->table->probe];
		variant = probe->variant;
	}
	return all;
}

static bool is_optional(const struct unresolved_sets *sets, const struct probe *of)
{
	const struct probe *probe;

	for (size_t i = 0; (probe = unresolved_row(sets, of, i)); i++)
		if (!probe->optional)
			return false;
	return true;
}

static bool names_any(const struct unresolved_sets *sets, const struct library *library, const struct probe *of)
{
	const struct probe *probe;

	for (size_t i = 0; (probe = unresolved_row(sets, of, i)); i++)
		if (attachment_names(library->owner_data, (size_t)(probe - sets->table->probe)))
			return true;
	return false;
}

static const char *unresolved_reason(
	const struct unresolved_sets *sets, const struct library *library, const struct probe *of)
{
	const struct probe *probe;

	for (size_t i = 0; (probe = unresolved_row(sets, of, i)); i++)
		if (attachment_reason(library->owner_data, (size_t)(probe - sets->table->probe)))
			return attachment_reason(library->owner_data, (size_t)(probe - sets->table->probe));
	return NULL;
}

/* Library to report: preferably one that has the function and a reason. */
static void unresolved_describe(const struct input *input, struct unresolved_thing *thing)
{
	for (size_t i = 0; i < input->count; i++) {
		const char *reason;

		if (!names_any(input->sets, input->library[i], thing->probe))
			continue;
		reason = unresolved_reason(input->sets, input->library[i], thing->probe);
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
	struct unresolved_sets *sets;
	struct input input = {library, count, NULL};

	if (count == 0)
		return 0;
	if (!missing->sets)
		missing->sets = unresolved_sets_new(attachment_table(library[0]->owner_data));
	input.sets = sets = missing->sets;
	if (!sets)
		return -ENOMEM;
	memset(sets->named, 0, sets->table->count * sizeof(*sets->named));
	memset(sets->used, 0, sets->table->count * sizeof(*sets->used));
	for (size_t i = 0; i < count; i++)
		attachment_rows(library[i]->owner_data, sets->named, sets->used);
	for (size_t i = 0; i < sets->table->count; i++) {
		struct unresolved_thing thing = {.probe = &sets->table->probe[i]};
		int r;

		if (sets->begin[i] == sets->table->count || !any_variant(sets, thing.probe, sets->named) ||
			any_variant(sets, thing.probe, sets->used))
			continue;
		unresolved_describe(&input, &thing);
		if (!thing.reason && is_optional(sets, thing.probe))
			continue;
		r = unresolved_keep(missing, &thing);
		if (r < 0)
			return r;
	}
	return 0;
}

/* A rank's use of a library. */
struct use {
	int64_t instance;
	const struct library *library;
	size_t number; /* of the library */
};

struct uses {
	struct use *use;
	size_t count, capacity, libraries;
	int error;
};

static void unresolved_collect(void *arg, struct library *library)
{
	struct uses *uses = arg;

	if (!library->owner_data || uses->error < 0)
		return;
	if (!array_reserve(
		    (void **)&uses->use, &uses->capacity, uses->count + library->users, sizeof(*uses->use), SIZE_MAX)) {
		uses->error = -ENOMEM;
		return;
	}
	for (size_t i = 0; i < library->users; i++)
		uses->use[uses->count++] = (struct use){library->user[i].instance, library, uses->libraries};
	uses->libraries++;
}

static int unresolved_by_instance(const void *a, const void *b)
{
	const struct use *x = a, *y = b;

	return ORDER(x->instance, y->instance) ?: ORDER(x->number, y->number);
}

/* Ranks of a job map the same files: one after another with the same libraries adds nothing. */
static int unresolved_add_all(
	struct unresolved *missing, const struct uses *uses, const struct library **own, const struct library **before)
{
	size_t own_count = 0, before_count = 0;
	int r = 0;

	for (size_t i = 0; i < uses->count && r == 0; i++) {
		own[own_count++] = uses->use[i].library;
		if (i + 1 < uses->count && uses->use[i + 1].instance == uses->use[i].instance)
			continue;
		if (own_count != before_count || memcmp(own, before, own_count * sizeof(*own)) != 0) {
			const struct library **spare = before;

			r = unresolved_add(missing, own, own_count);
			before = own;
			before_count = own_count;
			own = spare;
		}
		own_count = 0;
	}
	return r;
}

int unresolved_find(struct libraries *libraries, struct unresolved *ret)
{
	_cleanup_free_ const struct library **own = NULL, **before = NULL;
	struct unresolved missing = {0};
	struct uses uses = {0};
	int r;

	libraries_each(libraries, unresolved_collect, &uses);
	own = calloc(uses.libraries + 1, sizeof(*own));
	before = calloc(uses.libraries + 1, sizeof(*before));
	r = uses.error < 0 || !own || !before ? -ENOMEM : 0;
	if (r == 0 && uses.count)
		qsort(uses.use, uses.count, sizeof(*uses.use), unresolved_by_instance);
	if (r == 0)
		r = unresolved_add_all(&missing, &uses, own, before);
	free(uses.use);
	if (r < 0) {
		unresolved_free(&missing);
		return r;
	}
	*ret = missing;
	return 0;
}

void unresolved_free(struct unresolved *missing)
{
	unresolved_sets_free(missing->sets);
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

unsigned unresolved_names(
	const struct unresolved *missing, enum level level, bool with_reason, char names[MISSING_NAMES_BYTES])
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
			used += (size_t)snprintf(
				names + used, MISSING_NAMES_BYTES - used, "%s%s", used ? ", " : "", name);
			shown++;
		}
	}
	if (shown < count)
		snprintf(names + used, MISSING_NAMES_BYTES - used, " and %u more", count - shown);
	return count;
}
