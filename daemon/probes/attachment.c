/* SPDX-License-Identifier: Apache-2.0 */
/* Owns the links of one library; site.c resolves its sites. */
#include "daemon/probes/attachment.h"
#include "daemon/base/log.h"
#include "daemon/kernel/uprobe.h"
#include "daemon/probes/site.h"

#define LINKS_MAX (SITES_MAX * 3)

struct link_slot {
	enum level level;
	unsigned breakpoints;
	struct uprobe_link *link;
};

struct attachment {
	const struct attach_engine *engine;
	const struct library *library;
	struct sites sites;
	bool used[PROBES_MAX];	/* by row: chosen in the group */
	bool names[PROBES_MAX]; /* by row: names this library */
	int error[SITES_MAX];	/* last error of the site */
	bool on[LEVEL_MAX];
	unsigned links;
	struct link_slot link[LINKS_MAX];
};

/* One link per part of a level, if the engine can. */
struct batch {
	size_t count;
	uint64_t offset[SITES_MAX * RETURNS_MAX];
	uint64_t semaphore[SITES_MAX * RETURNS_MAX];
	uint64_t cookie[SITES_MAX * RETURNS_MAX];
};

static void batch_add(struct batch *batch, uint64_t offset, uint64_t semaphore, uint32_t spec)
{
	batch->offset[batch->count] = offset;
	batch->semaphore[batch->count] = semaphore;
	batch->cookie[batch->count++] = spec;
}

static bool attachment_is_used(const struct attachment *attachment, const struct site *site)
{
	return attachment->used[site->probe - attachment->engine->table->probe];
}

static enum attach_part attachment_entry_part(const struct site *site)
{
	if (site->probe->edge == RT_EDGE_MEMORY)
		return ATTACH_MEMORY;
	return site->probe->edge == RT_EDGE_MEMORY_FAILED ? ATTACH_MEMORY_FAILED : ATTACH_ENTRY;
}

static void batch_add_site(struct batch *batch, const struct site *site, enum attach_part part)
{
	if (part == attachment_entry_part(site) && site->entry_offset)
		batch_add(batch, site->entry_offset, site->semaphore_offset, site->spec);
	if (part == ATTACH_RETURN_PROBE && site->return_probe)
		batch_add(batch, site->function_offset, 0, site->spec);
	for (uint32_t i = 0; part == ATTACH_RETURN_INSN && i < site->returns; i++)
		batch_add(batch, site->return_offset[i], 0, site->spec);
}

static int attach_batch(struct attachment *attachment, enum level level, enum attach_part part, const struct batch *batch)
{
	const struct attach_engine *engine = attachment->engine;
	struct link_slot *slot = &attachment->link[attachment->links];
	char path[64];
	struct uprobe_target target = {
		.path = path,
		.file = attachment->library->inode,
		.count = batch->count,
		.offsets = batch->offset,
		.semaphores = part < ATTACH_RETURN_INSN ? batch->semaphore : NULL,
		.cookies = batch->cookie,
	};
	int r;

	if (batch->count == 0)
		return 0;
	if (attachment->links >= LINKS_MAX)
		return -ENOSPC;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", attachment->library->fd);
	uprobe_detach_file(target.file);
	r = engine->attach(engine->arg, part, &target, &slot->link);
	if (r < 0)
		return r;
	slot->level = level;
	slot->breakpoints = (unsigned)batch->count;
	attachment->links++;
	return 0;
}

/* One site at a time, so that a refused one does not affect the others. */
static int attach_singly(struct attachment *attachment, enum level level, enum attach_part part, struct batch *batch)
{
	int first_error = 0;

	for (unsigned i = 0; i < attachment->sites.count; i++) {
		const struct site *site = &attachment->sites.site[i];
		int r;

		if (site->probe->level != level || !attachment_is_used(attachment, site))
			continue;
		batch->count = 0;
		batch_add_site(batch, site, part);
		r = attach_batch(attachment, level, part, batch);
		if (r < 0) {
			attachment->error[i] = r;
			first_error = first_error ? first_error : r;
			log_warning("call", "cannot probe '%s' in %s: %s; skipping it", site->probe->name,
				attachment->library->path, strerror(-r));
		}
	}
	return first_error;
}

static int attach_part(struct attachment *attachment, enum level level, enum attach_part part)
{
	_cleanup_free_ struct batch *batch = calloc(1, sizeof(*batch));

	if (!batch)
		return -ENOMEM;
	for (unsigned i = 0; i < attachment->sites.count; i++)
		if (attachment->sites.site[i].probe->level == level &&
			attachment_is_used(attachment, &attachment->sites.site[i]))
			batch_add_site(batch, &attachment->sites.site[i], part);
	if (attachment->engine->mixes_specs && attach_batch(attachment, level, part, batch) == 0)
		return 0;
	return attach_singly(attachment, level, part, batch);
}

static void detach(struct attachment *attachment, enum level level)
{
	for (unsigned i = 0; i < attachment->links; i++) {
		if (attachment->link[i].level != level)
			continue;
		uprobe_detach_async(attachment->link[i].link);
		attachment->link[i--] = attachment->link[--attachment->links];
	}
}

int attachment_level(struct attachment *attachment, enum level level, bool on)
{
	int first_error = 0;

	if (attachment->on[level] == on)
		return 0;
	attachment->on[level] = on;
	if (!on) {
		detach(attachment, level);
		return 0;
	}
	for (unsigned i = 0; i < attachment->sites.count; i++)
		if (attachment->sites.site[i].probe->level == level)
			attachment->error[i] = 0;
	/* Ends before begins: calls entered while attaching get an end; an end without a begin is harmless. */
	for (int part = ATTACH_PARTS - 1; part >= 0; part--) {
		int r = attach_part(attachment, level, (enum attach_part)part);

		first_error = first_error ? first_error : r;
	}
	return first_error;
}

const bool *attachment_found(const struct attachment *attachment)
{
	return attachment->sites.found;
}

void attachment_choose(struct attachment *attachment, const bool *group_found)
{
	const struct probe_table *table = attachment->engine->table;
	bool used[PROBES_MAX] = {0};
	bool changed = false;

	probe_table_choose(table, group_found, used);
	for (size_t i = 0; i < table->count; i++) {
		used[i] &= attachment->sites.found[i];
		changed |= used[i] != attachment->used[i];
	}
	memcpy(attachment->used, used, sizeof(used));
	for (enum level level = 0; changed && level < LEVEL_MAX; level++) {
		if (!attachment->on[level])
			continue;
		attachment_level(attachment, level, false);
		attachment_level(attachment, level, true);
	}
}

int attachment_new(const struct attach_engine *engine, const struct library *library, struct attachment **ret)
{
	struct attachment *attachment = calloc(1, sizeof(*attachment));
	int r;

	if (!attachment)
		return -ENOMEM;
	attachment->engine = engine;
	attachment->library = library;
	for (size_t i = 0; i < engine->table->count; i++)
		attachment->names[i] = probe_matches_library(&engine->table->probe[i], library->base_name);
	r = sites_find(engine, library, &attachment->sites);
	if (r < 0) {
		free(attachment);
		return r;
	}
	*ret = attachment;
	return 0;
}

struct attachment *attachment_free(struct attachment *attachment)
{
	if (!attachment)
		return NULL;
	for (unsigned i = 0; i < attachment->links; i++)
		uprobe_detach_async(attachment->link[i].link);
	for (unsigned i = 0; i < attachment->sites.count; i++)
		attachment->engine->spec_free(attachment->engine->arg, attachment->sites.site[i].spec);
	sites_free(&attachment->sites);
	free(attachment);
	return NULL;
}

unsigned attachment_attached(const struct attachment *attachment)
{
	unsigned sum = 0;

	for (unsigned i = 0; i < attachment->links; i++)
		sum += attachment->link[i].breakpoints;
	return sum;
}

unsigned attachment_attached_level(const struct attachment *attachment, enum level level)
{
	unsigned sum = 0;

	for (unsigned i = 0; i < attachment->links; i++)
		if (attachment->link[i].level == level)
			sum += attachment->link[i].breakpoints;
	return sum;
}

const struct probe_table *attachment_table(const struct attachment *attachment)
{
	return attachment->engine->table;
}

bool attachment_names(const struct attachment *attachment, size_t row)
{
	return attachment->names[row];
}

bool attachment_uses(const struct attachment *attachment, size_t row)
{
	return attachment->used[row];
}

const char *attachment_reason(const struct attachment *attachment, size_t row)
{
	return attachment->sites.reason[row];
}

const char *attachment_refused(const struct attachment *attachment, enum level level, unsigned i, int *ret_error)
{
	for (unsigned k = 0; k < attachment->sites.count; k++)
		if (attachment->sites.site[k].probe->level == level && attachment->error[k] && i-- == 0) {
			*ret_error = attachment->error[k];
			return attachment->sites.site[k].probe->name;
		}
	return NULL;
}

bool attachment_has_set(const struct attachment *attachment, const char *set)
{
	for (unsigned k = 0; k < attachment->sites.count; k++)
		if (streq(attachment->sites.site[k].probe->set, set) &&
			attachment_is_used(attachment, &attachment->sites.site[k]) && !attachment->error[k])
			return true;
	return false;
}
