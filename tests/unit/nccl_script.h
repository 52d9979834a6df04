/* SPDX-License-Identifier: Apache-2.0 */
/* Plays NCCL to the profiler plugin: the calls that NCCL 2.30 makes of a plugin, with times that the test knows. */
#ifndef RANKTRACE_TESTS_NCCL_SCRIPT_H
#define RANKTRACE_TESTS_NCCL_SCRIPT_H

#include <stdbool.h>
#include <string.h>

#include "bpf/marker/nccl_interface.h"

static inline void *nccl_start_call(const struct nccl_profiler_v5 *plugin, void *context, bool captured)
{
	struct nccl_event_v5 event = {.head = {.type = NCCL_EVENT_COLL_CALL}};
	void *handle = context;

	event.coll_call =
		(struct nccl_coll_call){.func = "AllReduce", .count = 1, .dtype = "ncclFloat32", .captured = captured};
	plugin->start(context, &handle, &event);
	return handle;
}

static inline void *nccl_start_coll(
	const struct nccl_profiler_v5 *plugin, void *context, void *call, size_t count, uint8_t channels)
{
	struct nccl_event_v5 event = {.head = {.type = NCCL_EVENT_COLL, .parent = call}};
	void *handle = context;

	event.coll =
		(struct nccl_coll){.func = "AllReduce", .count = count, .dtype = "ncclBfloat16", .channels = channels};
	plugin->start(context, &handle, &event);
	return handle;
}

static inline void *nccl_start_channel(
	const struct nccl_profiler_v5 *plugin, void *context, void *op, uint8_t channel, uint64_t time_ns)
{
	struct nccl_event_v5 event = {.head = {.type = NCCL_EVENT_KERNEL_CHANNEL, .parent = op}};
	void *handle = context;

	event.channel = (struct nccl_channel){.channel = channel, .time_ns = time_ns};
	plugin->start(context, &handle, &event);
	return handle;
}

static inline void nccl_stop_channel(const struct nccl_profiler_v5 *plugin, void *handle, uint64_t time_ns)
{
	union nccl_state_args args = {.channel_time_ns = time_ns};

	plugin->record(handle, NCCL_STATE_CHANNEL_STOP, &args);
	plugin->stop(handle);
}

/* All channels of an operation: the first to begin begins at start_ns, the last to end ends at stop_ns. */
static inline void nccl_run_channels(const struct nccl_profiler_v5 *plugin, void *context, void *op, uint8_t channels,
	uint64_t start_ns, uint64_t stop_ns)
{
	void *handle[64];

	for (uint8_t i = 0; i < channels; i++)
		handle[i] = nccl_start_channel(plugin, context, op, i, start_ns + (i + 1u) % channels);
	for (uint8_t i = 0; i < channels; i++)
		nccl_stop_channel(plugin, handle[i], stop_ns - (i + 2u) % channels);
}

#endif
