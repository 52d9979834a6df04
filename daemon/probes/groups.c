/* SPDX-License-Identifier: Apache-2.0 */
/* A node has few libraries, and this runs only for new ones: quadratic is fine. */
#include "daemon/base/log.h"
#include "daemon/kernel/uprobe.h"
#include "daemon/probes/attachment.h"
#include "daemon/probes/coverage.h"

struct groups {
	struct libraries *libraries;
	const bool *on;
	size_t count;
	struct {
		struct library *library;
		unsigned of_user; /* libraries that its user has */
	} library[LIBRARIES_MAX];
};

struct group {
	const struct library *of;
	bool found[PROBES_MAX];
};

static bool groups_together(const struct library *a, const struct library *b)
{
	for (size_t i = 0; i < a->users; i++)
		if (library_used_by(b, a->user[i].instance))
			return true;
	return a == b;
}

static void probe_groups_add_found(void *arg, struct library *library)
{
	struct group *group = arg;
	const bool *found;

	if (!library->owner_data || !groups_together(group->of, library))
		return;
	found = attachment_found(library->owner_data);
	for (size_t i = 0; i < PROBES_MAX; i++)
		group->found[i] |= found[i];
}

static void probe_groups_choose(const struct groups *groups, struct library *library)
{
	struct group group = {.of = library};
	struct attachment *attachment = library->owner_data;

	libraries_each(groups->libraries, probe_groups_add_found, &group);
	attachment_choose(attachment, group.found);
	for (enum level level = 0; level < LEVEL_MAX; level++)
		if (groups->on[level])
			attachment_level(attachment, level, true);
}

/* Orders of earlier turns are not waited for, nor is a kernel that has spent a whole turn on one. */
static bool probe_groups_settle(struct library *library, uint64_t until_ns)
{
	struct attachment *attachment = library->owner_data;
	bool waits = !library->is_chosen && uprobe_job_age_ns() < LIMIT_ATTACH_TURN_MS * NSEC_PER_MSEC;
	unsigned before = attachment_attached(attachment), after;
	bool is_settled = attachment_settle(attachment, waits ? until_ns : 0);

	after = attachment_attached(attachment);
	if (after != before)
		log_info("call", "%s: %u probe%s attached", library->path, after, after == 1 ? "" : "s");
	return is_settled;
}

static void probe_groups_list(void *arg, struct library *library)
{
	struct groups *groups = arg;

	if (library->owner_data)
		groups->library[groups->count++].library = library;
}

static int probe_groups_compare(const void *a, const void *b)
{
	const unsigned *x = &((const typeof(((struct groups *)0)->library[0]) *)a)->of_user;
	const unsigned *y = &((const typeof(((struct groups *)0)->library[0]) *)b)->of_user;

	return (*x > *y) - (*x < *y);
}

/* Users with few libraries first: one with hundreds makes none of them wait. */
static void probe_groups_sort(struct groups *groups)
{
	for (size_t i = 0; i < groups->count; i++) {
		groups->library[i].of_user = 0;
		for (size_t k = 0; k < groups->count; k++)
			groups->library[i].of_user +=
				groups->library[k].library->uid == groups->library[i].library->uid;
	}
	qsort(groups->library, groups->count, sizeof(groups->library[0]), probe_groups_compare);
}

bool groups_choose(struct libraries *libraries, const bool on[LEVEL_MAX], bool anew)
{
	_cleanup_free_ struct groups *groups = calloc(1, sizeof(*groups));
	uint64_t until_ns = monotonic_ns() + LIMIT_ATTACH_TURN_MS * NSEC_PER_MSEC;

	if (!groups)
		return false;
	groups->libraries = libraries;
	groups->on = on;
	libraries_each(libraries, probe_groups_list, groups);
	probe_groups_sort(groups);
	for (size_t i = 0; i < groups->count && anew; i++)
		groups->library[i].library->is_chosen = false;
	for (size_t i = 0; i < groups->count; i++) {
		struct library *library = groups->library[i].library;
		bool is_settled;

		if (!library->is_chosen && monotonic_ns() >= until_ns)
			return false;
		if (!library->is_chosen)
			probe_groups_choose(groups, library);
		is_settled = probe_groups_settle(library, until_ns);
		library->is_chosen = true;
		if (!is_settled)
			return false;
	}
	return true;
}
