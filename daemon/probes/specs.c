/* SPDX-License-Identifier: Apache-2.0 */
/* Owns the numbering; see specs.h. */
#include "daemon/probes/specs.h"

static bool specs_is_same(const struct spec_slot *slot, const struct probe *probe, const struct rt_call_spec *spec)
{
	return slot->probe == probe && memcmp(&slot->spec, spec, sizeof(*spec)) == 0;
}

/* A number never used, or else the one that has been unused longest. */
static int find_free(const struct specs *specs, uint32_t *ret)
{
	const struct spec_slot *oldest = NULL;

	for (uint32_t id = 0; id < specs->limit; id++) {
		const struct spec_slot *slot = &specs->slot[id];

		if (!slot->probe) {
			*ret = id;
			return 0;
		}
		if (slot->users == 0 && (!oldest || slot->dropped_ns < oldest->dropped_ns))
			oldest = slot;
	}
	if (!oldest)
		return -ENOSPC;
	*ret = (uint32_t)(oldest - specs->slot);
	return 0;
}

int specs_take(struct specs *specs, const struct probe *probe, const struct rt_call_spec *spec, uint64_t now_ns,
	uint32_t *ret, bool *ret_fresh)
{
	uint32_t id;
	int r;

	for (id = 0; id < specs->limit; id++) {
		if (!specs_is_same(&specs->slot[id], probe, spec))
			continue;
		specs->slot[id].users++;
		*ret_fresh = false;
		*ret = id;
		return 0;
	}
	r = find_free(specs, &id);
	if (r < 0)
		return r;
	specs->slot[id] = (struct spec_slot){.probe = probe, .spec = *spec, .users = 1, .since_ns = now_ns};
	*ret_fresh = true;
	*ret = id;
	return 0;
}

void specs_drop(struct specs *specs, uint32_t id, uint64_t now_ns)
{
	struct spec_slot *slot = &specs->slot[id];

	if (slot->users > 0 && --slot->users == 0)
		slot->dropped_ns = now_ns;
}

void specs_clear(struct specs *specs, uint32_t id)
{
	specs->slot[id] = (struct spec_slot){0};
}

const struct probe *specs_probe(const struct specs *specs, uint32_t id, uint64_t time_ns)
{
	if (id >= specs->limit || time_ns < specs->slot[id].since_ns)
		return NULL;
	return specs->slot[id].probe;
}
