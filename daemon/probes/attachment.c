/* SPDX-License-Identifier: Apache-2.0 */
/* Owns the links of one library; site.c resolves its sites. */
#include "daemon/probes/attachment.h"
#include "daemon/base/log.h"
#include "daemon/kernel/uprobe.h"
#include "daemon/probes/site.h"

#define LINKS_MAX (SITES_MAX * 3)
#define ALL_SITES (-1)

struct link_slot {
	enum level level;
	enum attach_part part;
	bool boundary; /* its sites are, or are not */
	int site;      /* ALL_SITES: of the level, part and boundary */
	unsigned breakpoints;
	bool is_attached;
	struct uprobe_job *job;
};

struct attachment {
	const struct attach_engine *engine;
	const struct library *library;
	struct sites sites;
	bool used[PROBES_MAX];	     /* by row: chosen in the group */
	bool names[PROBES_MAX];	     /* by row: names this library */
	int error[SITES_MAX];	     /* last error of the site */
	bool on[LEVEL_MAX], reduced; /* reduced: L0 */
	int parts_left[LEVEL_MAX];   /* parts that are not ordered, from ATTACH_PARTS - 1 down */
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

static bool attachment_is_of(const struct attachment *attachment, const struct site *site, const struct link_slot *of)
{
	return site->probe->level == of->level && probe_is_boundary(site->probe) == of->boundary &&
	       attachment_is_used(attachment, site);
}

static enum attach_part attachment_entry_part(const struct site *site)
{
	switch (site->probe->edge) {
	case RT_EDGE_MEMORY:
		return ATTACH_MEMORY;
	case RT_EDGE_MEMORY_FAILED:
		return ATTACH_MEMORY_FAILED;
	case RT_EDGE_EXCEPTION:
		return ATTACH_EXCEPTION;
	default:
		return ATTACH_ENTRY;
	}
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

/* Orders one link. */
static int attach_batch(struct attachment *attachment, const struct link_slot *of, const struct batch *batch)
{
	const struct attach_engine *engine = attachment->engine;
	struct link_slot *slot = &attachment->link[attachment->links];
	const struct uprobe_target target = {
		.file_fd = attachment->library->fd,
		.file = attachment->library->inode,
		.count = batch->count,
		.offsets = batch->offset,
		.semaphores = of->part < ATTACH_RETURN_INSN ? batch->semaphore : NULL,
		.cookies = batch->cookie,
	};
	int r;

	if (batch->count == 0)
		return 0;
	if (attachment->links >= LINKS_MAX)
		return -ENOSPC;
	*slot = *of;
	slot->breakpoints = (unsigned)batch->count;
	r = engine->attach(engine->arg, of->part, &target, &slot->job);
	attachment->links += r == 0;
	return r;
}

static void attachment_refuse(struct attachment *attachment, int site, int error)
{
	attachment->error[site] = error;
	log_warning("call", "cannot probe '%s' in %s: %s; skipping it", attachment->sites.site[site].probe->name,
		attachment->library->path, strerror(-error));
}

/* One site at a time, so that a refused one does not affect the others. */
static void attach_singly(struct attachment *attachment, struct link_slot of, struct batch *batch)
{
	for (unsigned i = 0; i < attachment->sites.count; i++) {
		const struct site *site = &attachment->sites.site[i];
		int r;

		if (!attachment_is_of(attachment, site, &of))
			continue;
		batch->count = 0;
		batch_add_site(batch, site, of.part);
		of.site = (int)i;
		r = attach_batch(attachment, &of, batch);
		if (r < 0)
			attachment_refuse(attachment, (int)i, r);
	}
}

static void attach_sites(struct attachment *attachment, struct link_slot of, bool singly)
{
	_cleanup_free_ struct batch *batch = NULL;

	if (attachment->engine->is_paused && attachment->engine->is_paused(attachment->engine->arg, of.part))
		return;
	batch = calloc(1, sizeof(*batch));
	if (!batch) {
		log_warning("call", "out of memory: functions of %s are not probed", attachment->library->path);
		return;
	}
	for (unsigned i = 0; i < attachment->sites.count; i++)
		if (attachment_is_of(attachment, &attachment->sites.site[i], &of))
			batch_add_site(batch, &attachment->sites.site[i], of.part);
	of.site = ALL_SITES;
	if (singly || !attachment->engine->mixes_specs || attach_batch(attachment, &of, batch) < 0)
		attach_singly(attachment, of, batch);
}

static bool attachment_has_link(const struct attachment *attachment, const struct link_slot *of)
{
	for (unsigned i = 0; i < attachment->links; i++) {
		const struct link_slot *link = &attachment->link[i];

		if (link->level == of->level && link->part == of->part && link->boundary == of->boundary)
			return true;
	}
	return false;
}

/* What of it is not attached. */
static void attach_part(struct attachment *attachment, enum level level, enum attach_part part)
{
	for (int boundary = level == LEVEL_L0 && attachment->reduced; boundary < 2; boundary++) {
		struct link_slot of = {.level = level, .part = part, .boundary = boundary};

		if (!attachment_has_link(attachment, &of))
			attach_sites(attachment, of, false);
	}
}

static void attachment_remove_link(struct attachment *attachment, unsigned i)
{
	uprobe_job_detach(attachment->link[i].job);
	attachment->link[i] = attachment->link[--attachment->links];
}

static void attachment_detach(struct attachment *attachment, enum level level)
{
	for (unsigned i = attachment->links; i-- > 0;)
		if (attachment->link[i].level == level)
			attachment_remove_link(attachment, i);
}

/* Takes the results that are there. Returns an order of the level without one, or NULL. */
static const struct uprobe_job *attachment_take(struct attachment *attachment, enum level level)
{
	const struct uprobe_job *pending = NULL;

	for (unsigned i = 0; i < attachment->links; i++) {
		struct link_slot slot = attachment->link[i];
		int r;

		if (slot.is_attached || slot.level != level)
			continue;
		r = uprobe_job_result(slot.job);
		attachment->link[i].is_attached = r == 0;
		if (r == -EINPROGRESS)
			pending = slot.job;
		if (r == 0 || r == -EINPROGRESS)
			continue;
		attachment_remove_link(attachment, i--);
		if (slot.site == ALL_SITES)
			attach_sites(attachment, slot, true);
		else
			attachment_refuse(attachment, slot.site, r);
	}
	return pending;
}

/* Ends before begins: calls entered while attaching get an end; an end without a begin is harmless. */
static bool attachment_settle_level(struct attachment *attachment, enum level level, uint64_t until_ns)
{
	for (;;) {
		const struct uprobe_job *pending = attachment_take(attachment, level);

		if (pending && uprobe_job_wait(pending, until_ns) == -EINPROGRESS)
			return false;
		if (!pending && attachment->parts_left[level] == 0)
			return true;
		if (!pending)
			attach_part(attachment, level, (enum attach_part)-- attachment->parts_left[level]);
	}
}

bool attachment_settle(struct attachment *attachment, uint64_t until_ns)
{
	for (enum level level = 0; level < LEVEL_MAX; level++)
		if (attachment->on[level] && !attachment_settle_level(attachment, level, until_ns))
			return false;
	return true;
}

void attachment_level(struct attachment *attachment, enum level level, bool on)
{
	if (attachment->on[level] == on)
		return;
	attachment->on[level] = on;
	attachment->parts_left[level] = on ? ATTACH_PARTS : 0;
	if (!on)
		attachment_detach(attachment, level);
	for (unsigned i = 0; on && i < attachment->sites.count; i++)
		if (attachment->sites.site[i].probe->level == level)
			attachment->error[i] = 0;
}

void attachment_pause(struct attachment *attachment, enum attach_part part)
{
	for (unsigned i = attachment->links; i-- > 0;)
		if (attachment->link[i].part == part)
			attachment_remove_link(attachment, i);
	for (enum level level = 0; level < LEVEL_MAX; level++)
		if (attachment->on[level] && attachment->parts_left[level] <= (int)part)
			attach_part(attachment, level, part);
}

void attachment_reduce(struct attachment *attachment, bool reduced)
{
	if (attachment->reduced == reduced)
		return;
	attachment->reduced = reduced;
	attachment->parts_left[LEVEL_L0] = attachment->on[LEVEL_L0] ? ATTACH_PARTS : 0;
	for (unsigned i = attachment->links; reduced && i-- > 0;)
		if (attachment->link[i].level == LEVEL_L0 && !attachment->link[i].boundary)
			attachment_remove_link(attachment, i);
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
		uprobe_job_detach(attachment->link[i].job);
	for (unsigned i = 0; i < attachment->sites.count; i++)
		attachment->engine->spec_free(attachment->engine->arg, attachment->sites.site[i].spec);
	sites_free(&attachment->sites);
	free(attachment);
	return NULL;
}

unsigned attachment_attached(const struct attachment *attachment)
{
	unsigned sum = 0;

	for (enum level level = 0; level < LEVEL_MAX; level++)
		sum += attachment_attached_level(attachment, level);
	return sum;
}

unsigned attachment_attached_level(const struct attachment *attachment, enum level level)
{
	unsigned sum = 0;

	for (unsigned i = 0; i < attachment->links; i++)
		if (attachment->link[i].level == level && attachment->link[i].is_attached)
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

void attachment_rows(const struct attachment *attachment, bool *named, bool *used)
{
	for (size_t row = 0; row < attachment->engine->table->count; row++) {
		named[row] = named[row] || attachment->names[row];
		used[row] = used[row] || attachment->used[row];
	}
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
