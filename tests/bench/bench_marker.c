/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_marker PLUGIN: what the NCCL profiler plugin costs a job, in ns a callback: loads it as NCCL does and plays
 * collectives of 24 channels from one thread, with nobody attached.
 */
#include <dlfcn.h>

#include "daemon/base/util.h"
#include "tests/unit/nccl_script.h"

#define CHANNELS 24
#define COLLECTIVES 100000
#define CALLBACKS (4 + 3 * CHANNELS) /* of each: the call, start and stop; of a channel: start, its end, stop */

int main(int argc, char **argv)
{
	void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL, *context = NULL;
	const struct nccl_profiler_v5 *plugin = library ? dlsym(library, "ncclProfiler_v5") : NULL;
	uint64_t start_ns, took_ns;
	int mask;

	if (!plugin) {
		fprintf(stderr, "bench_marker PLUGIN: %s\n", library ? "no interface 5" : dlerror());
		return 1;
	}
	plugin->init(&context, 1, &mask, "bench", 1, 8, 0, NULL);
	start_ns = monotonic_ns();
	for (unsigned i = 0; i < COLLECTIVES; i++) {
		void *call = nccl_start_call(plugin, context, false);
		void *op = nccl_start_coll(plugin, context, call, 1, CHANNELS);

		plugin->stop(op);
		nccl_run_channels(plugin, context, op, CHANNELS, 1000, 2000);
		plugin->stop(call);
	}
	took_ns = monotonic_ns() - start_ns;
	plugin->finalize(context);
	printf("callback_ns %.1f collective_ns %.0f\n", (double)took_ns / COLLECTIVES / CALLBACKS,
		(double)took_ns / COLLECTIVES);
	return 0;
}
