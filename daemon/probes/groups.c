/* SPDX-License-Identifier: Apache-2.0 */
/* A node has few libraries, and this runs only for new ones: quadratic is fine. */
#include "daemon/base/log.h"
#include "daemon/probes/attachment.h"
#include "daemon/probes/coverage.h"

struct groups {
	struct libraries *libraries;
	const bool *on;
};

struct group {
	const struct library *of;
	bool found[PROBES_MAX];
};

static bool together(const struct library *a, const struct library *b)
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

	if (!library->owner_data || !together(group->of, library))
		return;
	found = attachment_found(library->owner_data);
	for (size_t i = 0; i < PROBES_MAX; i++)
		group->found[i] |= found[i];
}

static void probe_groups_choose(void *arg, struct library *library)
{
	const struct groups *groups = arg;
	struct group group = {.of = library};
	struct attachment *attachment = library->owner_data;
	unsigned before, after;

	if (!attachment)
		return;
	before = attachment_attached(attachment);
	libraries_each(groups->libraries, probe_groups_add_found, &group);
	attachment_choose(attachment, group.found);
	for (enum level level = 0; level < LEVEL_MAX; level++)
		if (groups->on[level])
			attachment_level(attachment, level, true);
	after = attachment_attached(attachment);
	if (after != before)
		log_info("call", "%s: %u probe%s attached", library->path, after, after == 1 ? "" : "s");
}

void groups_choose(struct libraries *libraries, const bool on[LEVEL_MAX])
{
	struct groups groups = {libraries, on};

	libraries_each(libraries, probe_groups_choose, &groups);
}
