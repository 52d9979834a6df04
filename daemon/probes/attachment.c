/* SPDX-License-Identifier: Apache-2.0 */
/* Owns the links of one library. Placing a row (which bytes) is site.c; this file attaches what was placed. */
#include "daemon/probes/attachment.h"
#include "daemon/base/log.h"
#include "daemon/kernel/uprobe.h"
#include "daemon/probes/site.h"

#include <capstone/capstone.h>

/* Owns the disassembly behind attachment.h. */

static int returns_sweep(csh handle, const uint8_t *code, size_t size_bytes, uint32_t *ret, size_t max)
{
	cs_insn *insn = cs_malloc(handle);
	uint64_t address = 0;
	size_t left = size_bytes;
	int found = 0;

	if (!insn)
		return -ENOMEM;
	while (left > 0) {
		if (!cs_disasm_iter(handle, &code, &left, &address, insn)) {
			found = -EILSEQ;
			break;
		}
		if (!cs_insn_group(handle, insn, CS_GRP_RET))
			continue;
		if ((size_t)found >= max) {
			found = -E2BIG;
			break;
		}
		ret[found++] = (uint32_t)insn->address;
	}
	cs_free(insn, 1);
	return found;
}

int returns_find(enum elf_machine machine, const uint8_t *code, size_t size_bytes, uint32_t *ret, size_t max)
{
	static const struct {
		cs_arch arch;
		cs_mode mode;
	} machines[] = {
		[ELF_MACHINE_X86_64] = {CS_ARCH_X86, CS_MODE_64},
		[ELF_MACHINE_AARCH64] = {CS_ARCH_ARM64, CS_MODE_ARM},
	};
	uint32_t offsets[RETURNS_MAX];
	csh handle;
	int r;

	if (size_bytes == 0 || size_bytes > RETURNS_FUNCTION_BYTES_MAX)
		return -E2BIG;
	if (cs_open(machines[machine].arch, machines[machine].mode, &handle) != CS_ERR_OK)
		return -ENOTSUP;
	if (cs_option(handle, CS_OPT_DETAIL, CS_OPT_ON) == CS_ERR_OK)
		r = returns_sweep(handle, code, size_bytes, offsets, max < RETURNS_MAX ? max : RETURNS_MAX);
	else
		r = -ENOTSUP;
	cs_close(&handle);
	if (r == 0)
		return -ENOENT;
	if (r > 0)
		memcpy(ret, offsets, (size_t)r * sizeof(*ret));
	return r;
}

#define LINKS_MAX (PLACES_MAX * 3)

struct link_slot {
	enum level level;
	unsigned breakpoints;
	struct uprobe_link *link;
};

struct attachment {
	const struct attach_engine *engine;
	const struct library *library;
	struct places places;
	bool used[PROBES_MAX];        /* by row: whether the group's choice is this row */
	bool names[PROBES_MAX];       /* by row: whether it names this library */
	int error[PLACES_MAX];        /* of the last try to attach the place */
	bool on[LEVEL_MAX];
	unsigned links;
	struct link_slot link[LINKS_MAX];
};

/* Each part of a level becomes one link where the engine can. */
struct batch {
	size_t count;
	uint64_t offset[PLACES_MAX * RETURNS_MAX];
	uint64_t semaphore[PLACES_MAX * RETURNS_MAX];
	uint64_t cookie[PLACES_MAX * RETURNS_MAX];
};

static void batch_add(struct batch *batch, uint64_t offset, uint64_t semaphore, uint32_t spec)
{
	batch->offset[batch->count] = offset;
	batch->semaphore[batch->count] = semaphore;
	batch->cookie[batch->count++] = spec;
}

static bool attachment_is_used(const struct attachment *attachment, const struct place *place)
{
	return attachment->used[place->probe - attachment->engine->table->probe];
}

static void batch_place(struct batch *batch, const struct place *place, enum attach_part part)
{
	if (part == ATTACH_ENTRY && place->entry_offset)
		batch_add(batch, place->entry_offset, place->semaphore_offset, place->spec);
	if (part == ATTACH_RETURN_PROBE && place->return_probe)
		batch_add(batch, place->function_offset, 0, place->spec);
	for (uint32_t i = 0; part == ATTACH_RETURN_INSN && i < place->returns; i++)
		batch_add(batch, place->return_offset[i], 0, place->spec);
}

static int attach_batch(struct attachment *attachment, enum level level, enum attach_part part, const struct batch *batch)
{
	const struct attach_engine *engine = attachment->engine;
	struct link_slot *slot = &attachment->link[attachment->links];
	char path[64];
	struct uprobe_target target = {
		.path = path,
		.count = batch->count,
		.offsets = batch->offset,
		.semaphores = part == ATTACH_ENTRY ? batch->semaphore : NULL,
		.cookies = batch->cookie,
	};
	int r;

	if (batch->count == 0)
		return 0;
	if (attachment->links >= LINKS_MAX)
		return -ENOSPC;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", attachment->library->fd);
	uprobe_detach_wait();
	r = engine->attach(engine->arg, part, &target, &slot->link);
	if (r < 0)
		return r;
	slot->level = level;
	slot->breakpoints = (unsigned)batch->count;
	attachment->links++;
	return 0;
}

/* One place at a time, so that one that the kernel refuses does not take the others with it. */
static int attach_singly(struct attachment *attachment, enum level level, enum attach_part part, struct batch *batch)
{
	int first_error = 0;

	for (unsigned i = 0; i < attachment->places.count; i++) {
		const struct place *place = &attachment->places.place[i];
		int r;

		if (place->probe->level != level || !attachment_is_used(attachment, place))
			continue;
		batch->count = 0;
		batch_place(batch, place, part);
		r = attach_batch(attachment, level, part, batch);
		if (r < 0) {
			attachment->error[i] = r;
			first_error = first_error ? first_error : r;
			log_warning("call", "cannot probe '%s' in %s: %s; going on without it", place->probe->name,
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
	for (unsigned i = 0; i < attachment->places.count; i++)
		if (attachment->places.place[i].probe->level == level && attachment_is_used(attachment, &attachment->places.place[i]))
			batch_place(batch, &attachment->places.place[i], part);
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
	for (unsigned i = 0; i < attachment->places.count; i++)
		if (attachment->places.place[i].probe->level == level)
			attachment->error[i] = 0;
	/* Ends before begins: what is entered while we attach is seen to leave, and an end without a begin is harmless. */
	for (int part = ATTACH_PARTS - 1; part >= 0; part--) {
		int r = attach_part(attachment, level, (enum attach_part)part);

		first_error = first_error ? first_error : r;
	}
	return first_error;
}

const bool *attachment_found(const struct attachment *attachment)
{
	return attachment->places.found;
}

void attachment_choose(struct attachment *attachment, const bool *group_found)
{
	const struct probe_table *table = attachment->engine->table;
	bool used[PROBES_MAX] = {0};
	bool changed = false;

	probe_table_choose(table, group_found, used);
	for (size_t i = 0; i < table->count; i++) {
		used[i] &= attachment->places.found[i];
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
	r = sites_find(engine, library, &attachment->places);
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
	for (unsigned i = 0; i < attachment->places.count; i++)
		attachment->engine->spec_free(attachment->engine->arg, attachment->places.place[i].spec);
	sites_free(&attachment->places);
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

const char *attachment_trouble(const struct attachment *attachment, size_t row)
{
	return attachment->places.trouble[row];
}

const char *attachment_refused(const struct attachment *attachment, enum level level, unsigned i, int *ret_error)
{
	for (unsigned k = 0; k < attachment->places.count; k++)
		if (attachment->places.place[k].probe->level == level && attachment->error[k] && i-- == 0) {
			*ret_error = attachment->error[k];
			return attachment->places.place[k].probe->name;
		}
	return NULL;
}

bool attachment_has_set(const struct attachment *attachment, const char *set)
{
	for (unsigned k = 0; k < attachment->places.count; k++)
		if (streq(attachment->places.place[k].probe->set, set) && attachment_is_used(attachment, &attachment->places.place[k]) &&
		    !attachment->error[k])
			return true;
	return false;
}
