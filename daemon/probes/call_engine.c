/* SPDX-License-Identifier: Apache-2.0 */
/* Owns the skeleton, the program pairs for kernels without cookies, and the kernel's copy of the specifications. */
#include "daemon/probes/call_engine.h"
#include "bpf/call.h"
#include "call.skel.h"
#include "daemon/base/log.h"
#include "daemon/kernel/uprobe.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fcntl.h>

/* Numbers of specifications. */

static bool specs_is_same(const struct spec_slot *slot, const struct probe *probe, const struct rt_call_spec *spec)
{
	return slot->probe == probe && memcmp(&slot->spec, spec, sizeof(*spec)) == 0;
}

/* An unused number, else the one released longest ago. */
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

/* Undoes a fresh take that was not used. */
static void specs_clear(struct specs *specs, uint32_t id)
{
	specs->slot[id] = (struct spec_slot){0};
}

const struct probe *specs_probe(const struct specs *specs, uint32_t id, uint64_t time_ns)
{
	if (id >= specs->limit || time_ns < specs->slot[id].since_ns)
		return NULL;
	return specs->slot[id].probe;
}

struct pair {
	int enter_fd;
	int exit_fd;
};

struct call_engine {
	struct kernel *kernel;
	enum call_engine_mode mode;
	struct call_bpf *skeleton; /* its maps serve all pairs */
	struct pair pair;	   /* of modes with cookies */
	struct pair fixed[CALL_ENGINE_FIXED_MAX];
	struct bpf_link *thread_exit; /* removes what ended threads left in the maps */
	uint64_t refused;
	struct specs specs;
};

static const struct {
	const char *name;
	bool own_programs; /* a pair for each specification */
	uint32_t specs_max;
} modes[] = {
	[CALL_ENGINE_NONE] = {"nothing", false, 0},
	[CALL_ENGINE_MULTI] = {"uprobe_multi", false, RT_CALL_SPECS_MAX},
	[CALL_ENGINE_COOKIE] = {"perf events with cookies", false, RT_CALL_SPECS_MAX},
	[CALL_ENGINE_FIXED] = {"perf events without cookies", true, CALL_ENGINE_FIXED_MAX},
};

enum call_engine_mode call_engine_mode(const struct kernel_features *features)
{
	if (features->uprobe_multi)
		return CALL_ENGINE_MULTI;
	if (features->perf_cookie)
		return CALL_ENGINE_COOKIE;
	return features->perf_uprobe ? CALL_ENGINE_FIXED : CALL_ENGINE_NONE;
}

const char *call_engine_mode_name(enum call_engine_mode mode)
{
	return modes[mode].name;
}

static void pair_close(struct pair *pair)
{
	closep(&pair->enter_fd);
	closep(&pair->exit_fd);
	*pair = (struct pair){-1, -1};
}

DEFINE_CLEANUP(struct call_bpf *, call_bpf__destroy)

struct call_engine *call_engine_close(struct call_engine *engine)
{
	if (!engine)
		return NULL;
	for (size_t i = 0; i < ARRAY_SIZE(engine->fixed); i++)
		pair_close(&engine->fixed[i]);
	bpf_link__destroy(engine->thread_exit);
	call_bpf__destroy(engine->skeleton);
	free(engine);
	return NULL;
}

DEFINE_CLEANUP(struct call_engine *, call_engine_close)

/* Entries for each rank: one rank's calls cannot take another's. */
static int size_maps(const struct kernel *kernel, const struct call_bpf *skeleton)
{
	const struct {
		struct bpf_map *map;
		uint32_t each;
	} maps[] = {
		{skeleton->maps.inflight, RT_RANK_CALLS_MAX},
		{skeleton->maps.groups, RT_RANK_GROUPS_MAX},
		{skeleton->maps.call_texts, RT_RANK_TEXTS_MAX},
	};

	for (size_t i = 0; i < ARRAY_SIZE(maps); i++) {
		int r = bpf_map__set_max_entries(maps[i].map, kernel_entries(kernel, maps[i].each));

		if (r < 0)
			return r;
	}
	return 0;
}

/* Which programs to load: the probes, unless each specification has its own, and one for ends of threads. */
static void choose_programs(const struct call_engine *engine)
{
	bool btf = kernel_features(engine->kernel)->tp_btf;
	struct bpf_program *probes[] = {engine->skeleton->progs.call_enter, engine->skeleton->progs.call_exit};

	for (size_t i = 0; i < ARRAY_SIZE(probes); i++) {
		bpf_program__set_autoload(probes[i], !modes[engine->mode].own_programs);
		if (engine->mode == CALL_ENGINE_MULTI)
			bpf_program__set_expected_attach_type(probes[i], UPROBE_MULTI_ATTACH_TYPE);
	}
	bpf_program__set_autoload(engine->skeleton->progs.thread_exit_btf, btf);
	bpf_program__set_autoload(engine->skeleton->progs.thread_exit_raw, !btf);
}

/* Without it, entries of ended threads remain until the process ends, and count against their rank alone. */
static void attach_thread_exit(struct call_engine *engine)
{
	bool btf = kernel_features(engine->kernel)->tp_btf;

	engine->thread_exit = bpf_program__attach(
		btf ? engine->skeleton->progs.thread_exit_btf : engine->skeleton->progs.thread_exit_raw);
	if (!engine->thread_exit)
		log_warning("call", "cannot follow ends of threads: %s", strerror(errno));
}

int call_engine_open(struct kernel *kernel, enum call_engine_mode mode, struct call_engine **ret)
{
	_cleanup_(call_engine_closep) struct call_engine *engine = calloc(1, sizeof(*engine));
	int r;

	if (!engine)
		return -ENOMEM;
	engine->kernel = kernel;
	engine->mode = mode;
	engine->specs.limit = modes[mode].specs_max;
	for (size_t i = 0; i < ARRAY_SIZE(engine->fixed); i++)
		engine->fixed[i] = (struct pair){-1, -1};
	engine->skeleton = call_bpf__open();
	if (!engine->skeleton)
		return log_error_errno("call", -errno, "cannot open the BPF object");
	choose_programs(engine);
	r = size_maps(kernel, engine->skeleton);
	if (r < 0)
		return log_error_errno("call", r, "cannot set the sizes of the BPF maps");
	r = kernel_load(kernel, engine->skeleton->skeleton);
	if (r < 0)
		return log_error_errno("call", r, "the kernel refused the BPF programs");
	engine->pair = (struct pair){bpf_program__fd(engine->skeleton->progs.call_enter),
		bpf_program__fd(engine->skeleton->progs.call_exit)};
	attach_thread_exit(engine);
	*ret = TAKE_PTR(engine);
	return 0;
}

/* The specification and its number are in the pair's read-only data: the program uses no cookie. */
static int load_pair(struct call_engine *engine, uint32_t id, const struct rt_call_spec *spec)
{
	_cleanup_(call_bpf__destroyp) struct call_bpf *own = call_bpf__open();
	struct bpf_map *map;
	struct pair pair;
	int r;

	if (!own)
		return -errno;
	own->rodata->fixed_id = id;
	own->rodata->fixed_spec = *spec;
	bpf_program__set_autoload(own->progs.thread_exit_btf, false);
	bpf_program__set_autoload(own->progs.thread_exit_raw, false);
	bpf_object__for_each_map(map, own->obj)
	{
		struct bpf_map *shared = bpf_object__find_map_by_name(engine->skeleton->obj, bpf_map__name(map));

		if (bpf_map__is_internal(map) || !shared)
			continue;
		r = bpf_map__reuse_fd(map, bpf_map__fd(shared));
		if (r < 0)
			return r;
	}
	r = kernel_load(engine->kernel, own->skeleton);
	if (r < 0)
		return r;
	pair.enter_fd = fcntl(bpf_program__fd(own->progs.call_enter), F_DUPFD_CLOEXEC, 3);
	pair.exit_fd = fcntl(bpf_program__fd(own->progs.call_exit), F_DUPFD_CLOEXEC, 3);
	if (pair.enter_fd < 0 || pair.exit_fd < 0) {
		r = -errno;
		pair_close(&pair);
		return r;
	}
	pair_close(&engine->fixed[id]);
	engine->fixed[id] = pair;
	return 0;
}

static bool is_current(void *arg, uint32_t pid, const struct probe *probe, uint64_t start_ns)
{
	return probe != NULL;
}

static int call_engine_spec_new(void *arg, const struct site *site, const struct rt_call_spec *spec, uint32_t *ret)
{
	struct call_engine *engine = arg;
	struct rt_call_spec own = *spec;
	bool fresh;
	uint32_t id;
	int r;

	own.cost_level = (uint8_t)site->probe->level;
	own.flags |= site->emulated ? 0 : RT_CALL_STEPPED;
	r = specs_take(&engine->specs, site->probe, &own, monotonic_ns(), &id, &fresh);

	if (r < 0) {
		engine->refused++;
		return r;
	}
	if (fresh) {
		r = bpf_map_update_elem(bpf_map__fd(engine->skeleton->maps.specs), &id, &own, BPF_ANY);
		if (r == 0 && modes[engine->mode].own_programs)
			r = load_pair(engine, id, &own);
		if (r < 0) {
			specs_clear(&engine->specs, id);
			return r;
		}
		call_engine_sweep(engine, is_current, NULL); /* drops calls in flight of the number's old meaning */
	}
	*ret = id;
	return 0;
}

static void call_engine_spec_free(void *arg, uint32_t spec)
{
	struct call_engine *engine = arg;

	specs_drop(&engine->specs, spec, monotonic_ns());
}

static int call_engine_attach_one(
	void *arg, enum attach_part part, const struct uprobe_target *target, struct uprobe_job **ret)
{
	struct call_engine *engine = arg;
	bool own = modes[engine->mode].own_programs;
	const struct pair *pair = own ? &engine->fixed[target->cookies[0]] : &engine->pair;
	const int program_fd[ATTACH_PARTS] = {
		[ATTACH_ENTRY] = pair->enter_fd,
		[ATTACH_MEMORY] = kernel_edge_program(engine->kernel, RT_EDGE_MEMORY),
		[ATTACH_MEMORY_FAILED] = kernel_edge_program(engine->kernel, RT_EDGE_MEMORY_FAILED),
		[ATTACH_EXCEPTION] = kernel_edge_program(engine->kernel, RT_EDGE_EXCEPTION),
		[ATTACH_RETURN_INSN] = pair->exit_fd,
		[ATTACH_RETURN_PROBE] = pair->exit_fd,
	};
	struct uprobe_target full = *target;

	if (program_fd[part] < 0)
		return -EOPNOTSUPP;
	full.program_fd = program_fd[part];
	full.multi = engine->mode == CALL_ENGINE_MULTI;
	full.on_return = part == ATTACH_RETURN_PROBE;
	if (own)
		full.cookies = NULL;
	return uprobe_job_attach(&full, ret);
}

static bool call_engine_is_paused(void *arg, enum attach_part part)
{
	const struct call_engine *engine = arg;

	return part == ATTACH_MEMORY && kernel_memory_is_paused(engine->kernel);
}

struct attach_engine call_engine_attach(struct call_engine *engine, const struct probe_table *table)
{
	return (struct attach_engine){
		.table = table,
		.mixes_specs = !modes[engine->mode].own_programs,
		.spec_new = call_engine_spec_new,
		.spec_free = call_engine_spec_free,
		.attach = call_engine_attach_one,
		.is_paused = call_engine_is_paused,
		.arg = engine,
	};
}

const struct probe *call_engine_probe(const struct call_engine *engine, const struct rt_call_event *event)
{
	return specs_probe(&engine->specs, event->spec, event->event.time_ns);
}

uint64_t call_engine_refused(const struct call_engine *engine)
{
	return engine->refused;
}

struct sweep {
	struct call_engine *engine;
	bool (*keep)(void *arg, uint32_t pid, const struct probe *probe, uint64_t start_ns);
	void *arg;
};

static void remove_call(const struct call_engine *engine, int map, const struct rt_inflight_key *key)
{
	uint32_t pid = (uint32_t)(key->pid_thread >> 32);

	if (bpf_map_delete_elem(map, key) == 0)
		kernel_release(engine->kernel, pid, RT_HELD_CALLS);
	if (bpf_map_delete_elem(bpf_map__fd(engine->skeleton->maps.call_texts), key) == 0)
		kernel_release(engine->kernel, pid, RT_HELD_TEXTS);
}

static void sweep_inflight(const struct sweep *sweep)
{
	int map = bpf_map__fd(sweep->engine->skeleton->maps.inflight);
	uint32_t max = bpf_map__max_entries(sweep->engine->skeleton->maps.inflight);
	struct rt_inflight_key key, next;
	bool more = bpf_map_get_next_key(map, NULL, &next) == 0;

	/* The map changes concurrently, which may restart the walk: bounded. */
	for (uint32_t i = 0; more && i < 2 * max; i++) {
		struct rt_inflight call;

		key = next;
		more = bpf_map_get_next_key(map, &key, &next) == 0;
		if (bpf_map_lookup_elem(map, &key, &call) == 0 &&
			!sweep->keep(sweep->arg, (uint32_t)(key.pid_thread >> 32),
				specs_probe(&sweep->engine->specs, key.spec, call.start_ns), call.start_ns))
			remove_call(sweep->engine, map, &key);
	}
}

void call_engine_inflight(struct call_engine *engine,
	void (*each)(void *arg, uint64_t pid_thread, const struct probe *probe, const struct rt_inflight *call),
	void *arg)
{
	int map = bpf_map__fd(engine->skeleton->maps.inflight);
	uint32_t max = bpf_map__max_entries(engine->skeleton->maps.inflight);
	struct rt_inflight_key key, *last = NULL;

	/* Bounded as above. */
	for (uint32_t i = 0; i < 2 * max && bpf_map_get_next_key(map, last, &key) == 0; i++) {
		const struct probe *probe;
		struct rt_inflight call;

		last = &key;
		if (bpf_map_lookup_elem(map, &key, &call) < 0)
			continue;
		probe = specs_probe(&engine->specs, key.spec, call.start_ns);
		if (probe)
			each(arg, key.pid_thread, probe, &call);
	}
}

static void sweep_groups(const struct sweep *sweep)
{
	int map = bpf_map__fd(sweep->engine->skeleton->maps.groups);
	uint32_t max = bpf_map__max_entries(sweep->engine->skeleton->maps.groups);
	uint64_t key, next;
	bool more = bpf_map_get_next_key(map, NULL, &next) == 0;

	for (uint32_t i = 0; more && i < 2 * max; i++) {
		struct rt_group group;

		key = next;
		more = bpf_map_get_next_key(map, &key, &next) == 0;
		if (bpf_map_lookup_elem(map, &key, &group) == 0 &&
			!sweep->keep(sweep->arg, (uint32_t)(key >> 32),
				specs_probe(&sweep->engine->specs, group.spec, group.start_ns), group.start_ns) &&
			bpf_map_delete_elem(map, &key) == 0)
			kernel_release(sweep->engine->kernel, (uint32_t)(key >> 32), RT_HELD_GROUPS);
	}
}

void call_engine_sweep(struct call_engine *engine,
	bool (*keep)(void *arg, uint32_t pid, const struct probe *probe, uint64_t start_ns), void *arg)
{
	struct sweep sweep = {engine, keep, arg};

	sweep_inflight(&sweep);
	sweep_groups(&sweep);
}
