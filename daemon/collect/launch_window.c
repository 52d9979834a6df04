/* SPDX-License-Identifier: Apache-2.0 */
/* Owns bpf/launches.bpf.c: loaded once; outside launch_window_run() its map is empty and nothing is attached. */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "daemon/kernel/kernel.h"
#include "daemon/collect/launch.h"
#include "daemon/kernel/uprobe.h"
#include "launches.skel.h"

struct launch_window {
	struct launches_bpf *skeleton;
	bool multi; /* uprobe_multi, else perf events */
	bool has_cookies;
};

struct launch_window *launch_window_close(struct launch_window *window)
{
	if (window)
		launches_bpf__destroy(window->skeleton);
	free(window);
	return NULL;
}

DEFINE_CLEANUP(struct launch_window *, launch_window_close)

int launch_window_open(struct kernel *kernel, struct launch_window **ret)
{
	_cleanup_(launch_window_closep) struct launch_window *window = calloc(1, sizeof(*window));
	const struct kernel_features *features = kernel_features(kernel);
	int r;

	if (!window)
		return -ENOMEM;
	if (!features->uprobe_multi && !features->perf_uprobe)
		return -EOPNOTSUPP;
	window->multi = features->uprobe_multi;
	window->has_cookies = features->uprobe_multi || features->perf_cookie;
	window->skeleton = launches_bpf__open();
	if (!window->skeleton)
		return -errno;
	window->skeleton->rodata->has_cookies = window->has_cookies;
	if (window->multi)
		bpf_program__set_expected_attach_type(window->skeleton->progs.launch_call, UPROBE_MULTI_ATTACH_TYPE);
	r = kernel_load(kernel, window->skeleton->skeleton);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(window);
	return 0;
}

bool launch_window_has_apis(const struct launch_window *window)
{
	return window->has_cookies;
}

static int launch_window_attach(
	struct launch_window *window, const struct launch_target *from, struct uprobe_link **ret)
{
	const struct uprobe_target target = {
		.program_fd = bpf_program__fd(window->skeleton->progs.launch_call),
		.multi = window->multi,
		.file_fd = from->fd,
		.count = from->count,
		.offsets = from->offset,
		.cookies = window->has_cookies ? from->cookie : NULL,
	};

	return uprobe_attach(&target, ret);
}

/* The time from a thread's last launch to the window's end counts as a gap, of the last API. */
static void launch_window_take_thread(
	uint64_t key, const struct rt_launch_thread *from, uint64_t end_ns, struct launch_thread *ret)
{
	uint64_t gap_ns = end_ns > from->last_ns ? end_ns - from->last_ns : 0;
	struct rt_launch_sum *last = &ret->api[from->last_api % RT_LAUNCH_APIS_MAX];

	*ret = (struct launch_thread){.pid = (uint32_t)(key >> 32), .thread_id = (uint32_t)key};
	memcpy(ret->api, from->api, sizeof(ret->api));
	if (gap_ns > last->longest_gap_ns)
		last->longest_gap_ns = gap_ns;
}

/* Empties the map. No writer is left, so each call finds a new first key. */
static void take_all(struct launch_window *window, struct launch_result *ret)
{
	int map = bpf_map__fd(window->skeleton->maps.launches);
	uint64_t key;

	ret->thread = calloc(RT_LAUNCH_THREADS_MAX, sizeof(*ret->thread));
	for (size_t i = 0; i < RT_LAUNCH_THREADS_MAX && bpf_map_get_next_key(map, NULL, &key) == 0; i++) {
		struct rt_launch_thread thread;

		if (ret->thread && bpf_map_lookup_elem(map, &key, &thread) == 0)
			launch_window_take_thread(
				key, &thread, ret->start_ns + ret->duration_ns, &ret->thread[ret->threads++]);
		(void)bpf_map_delete_elem(map, &key);
	}
	if (!ret->thread)
		ret->error = ret->error ? ret->error : -ENOMEM;
}

void launch_window_run(struct launch_window *window, const struct launch_target *target, size_t targets,
	uint64_t length_ns, launch_wait wait, void *arg, struct launch_result *ret)
{
	struct uprobe_link *link[LAUNCH_TARGETS_MAX] = {0};
	volatile uint64_t *open_ns = &window->skeleton->bss->window_start_ns;
	uint64_t end_ns;

	*ret = (struct launch_result){0};
	for (size_t i = 0; i < targets && i < LAUNCH_TARGETS_MAX; i++) {
		int r = launch_window_attach(window, &target[i], &link[i]);

		if (r == 0)
			ret->attached += (unsigned)target[i].count;
		else if (!ret->error)
			ret->error = r;
	}
	if (ret->attached) {
		ret->start_ns = monotonic_ns();
		*open_ns = ret->start_ns;
		wait(arg, ret->start_ns + length_ns);
		end_ns = monotonic_ns();
		*open_ns = 0;
		ret->duration_ns = end_ns - ret->start_ns;
	}
	for (size_t i = 0; i < targets && i < LAUNCH_TARGETS_MAX; i++)
		uprobe_detach(link[i]);
	if (ret->attached)
		take_all(window, ret);
}
