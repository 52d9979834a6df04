/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libnccl-profiler-ranktrace.so: NCCL's profiler plugin, which provides device times of its operations to ranktrace.
 * NCCL uses the newest exported interface that it supports. Each interface translates NCCL's events into calls of
 * device_ops.h, which owns all state. Any pointer may be NULL, any number or handle invalid. Nothing is refused: an
 * unsupported event gets no handle, and NCCL continues as without plugin.
 *
 * Without GPU times (interfaces 1 to 3) an operation ends when NCCL has enqueued it: its record has unknown device
 * times. The same for copy-engine collectives, which no channel reports.
 */
#include <string.h>

#include "bpf/marker/cuda_device.h"
#include "bpf/marker/device_ops.h"
#include "bpf/marker/nccl_interface.h"

#define EXPORTED __attribute__((visibility("default")))
#define POINTER_MIN 4096 /* no text is in the first page */

static const char *const funcs_v1[] = {
	"Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce", "SendRecv", "Send", "Recv"};
static const char *const dtypes_v1[] = {"ncclInt8", "ncclUint8", "ncclInt32", "ncclUint32", "ncclInt64", "ncclUint64",
	"ncclFloat16", "ncclFloat32", "ncclFloat64", "ncclBfloat16"};

#define NAME_V1(names, i) ((i) < sizeof(names) / sizeof((names)[0]) ? (names)[i] : "")

static const char *nccl_profiler_text(const char *pointer)
{
	return (uintptr_t)pointer < POINTER_MIN ? "" : pointer;
}

static void *pointer_of(device_handle handle)
{
	return (void *)(uintptr_t)handle; /* NCCL only passes it back */
}

static device_handle handle_from(const void *pointer)
{
	return (uintptr_t)pointer;
}

/* NCCL calls init on a thread that uses the communicator's device. */
static int open_comm(void **context, int *mask, int events, const struct device_comm_info *given)
{
	struct device_comm_info info = *given;
	device_handle comm;

	info.device = cuda_device();
	comm = device_comm_open(&info);
	if (context)
		*context = pointer_of(comm);
	if (mask)
		*mask = events;
	return 0;
}

static uint32_t nccl_profiler_number(int value)
{
	return value < 0 ? 0 : (uint32_t)value;
}

static device_handle start_coll(device_handle comm, const struct nccl_coll *coll, uint16_t channels, device_handle call)
{
	const struct device_op_info info = {
		.kind = RT_MARKER_COLL,
		.channels = channels,
		.count = coll->count,
		.peer = -1,
		.operation = nccl_profiler_text(coll->func),
		.dtype = nccl_profiler_text(coll->dtype),
		.call = call,
	};

	return device_op_start(comm, &info);
}

static device_handle start_p2p(device_handle comm, const struct nccl_p2p *p2p, uint16_t channels, device_handle call)
{
	const struct device_op_info info = {
		.kind = RT_MARKER_P2P,
		.channels = channels,
		.count = p2p->count,
		.peer = p2p->peer,
		.operation = nccl_profiler_text(p2p->func),
		.dtype = nccl_profiler_text(p2p->dtype),
		.call = call,
	};

	return device_op_start(comm, &info);
}

/* Versions 1 to 3: init has no description, each operation names its communicator. */
static int init_v1(void **context, int *mask, uint32_t version)
{
	return open_comm(
		context, mask, NCCL_EVENT_COLL | NCCL_EVENT_P2P, &(struct device_comm_info){.interface = version});
}

#define INIT_V1(n) \
	static int init_##n(void **context, int *mask) \
	{ \
		return init_v1(context, mask, n); \
	}

INIT_V1(1)
INIT_V1(2)
INIT_V1(3)

static int start_v1(void *context, void **handle, const void *event)
{
	const struct nccl_head_v1 *head = event;
	const struct nccl_coll_v1 *coll = event;
	const struct nccl_p2p_v1 *p2p = event;
	device_handle comm = handle_from(context), op = 0;

	if (handle)
		*handle = NULL;
	if (!event || !handle)
		return 0;
	if (head->type == NCCL_EVENT_COLL) {
		struct nccl_coll alike = {.func = NAME_V1(funcs_v1, coll->coll.func),
			.dtype = NAME_V1(dtypes_v1, coll->coll.dtype),
			.count = coll->coll.count};

		device_comm_identify(
			comm, coll->coll.hash, nccl_profiler_number(head->rank), nccl_profiler_text(coll->coll.name));
		op = start_coll(comm, &alike, 0, 0);
	} else if (head->type == NCCL_EVENT_P2P) {
		struct nccl_p2p alike = {.func = NAME_V1(funcs_v1, p2p->p2p.func),
			.dtype = NAME_V1(dtypes_v1, p2p->p2p.dtype),
			.count = p2p->p2p.count,
			.peer = p2p->p2p.peer};

		device_comm_identify(
			comm, p2p->p2p.hash, nccl_profiler_number(head->rank), nccl_profiler_text(p2p->p2p.name));
		op = start_p2p(comm, &alike, 0, 0);
	}
	*handle = pointer_of(op);
	return 0;
}

static int start_v2(void *context, void **handle, const void *event)
{
	const struct nccl_head_v1 *head = event;
	const struct nccl_coll_v2 *coll = event;
	const struct nccl_p2p_v2 *p2p = event;
	device_handle comm = handle_from(context), op = 0;

	if (handle)
		*handle = NULL;
	if (!event || !handle)
		return 0;
	if (head->type == NCCL_EVENT_COLL) {
		struct nccl_coll alike = {
			.func = coll->coll.func, .dtype = coll->coll.dtype, .count = coll->coll.count};

		device_comm_identify(
			comm, coll->coll.hash, nccl_profiler_number(head->rank), nccl_profiler_text(coll->coll.name));
		op = start_coll(comm, &alike, 0, 0);
	} else if (head->type == NCCL_EVENT_P2P) {
		struct nccl_p2p alike = {
			.func = p2p->p2p.func, .dtype = p2p->p2p.dtype, .count = p2p->p2p.count, .peer = p2p->p2p.peer};

		device_comm_identify(
			comm, p2p->p2p.hash, nccl_profiler_number(head->rank), nccl_profiler_text(p2p->p2p.name));
		op = start_p2p(comm, &alike, 0, 0);
	}
	*handle = pointer_of(op);
	return 0;
}

static int init_4(
	void **context, int *mask, const char *name, uint64_t hash, int nodes, int ranks, int rank, void *logger)
{
	const struct device_comm_info info = {
		.identity = hash,
		.nodes = nccl_profiler_number(nodes),
		.member = nccl_profiler_number(rank),
		.members = nccl_profiler_number(ranks),
		.interface = 4,
		.name = nccl_profiler_text(name),
	};

	(void)logger;
	return open_comm(context, mask, NCCL_EVENT_COLL | NCCL_EVENT_P2P | NCCL_EVENT_KERNEL_CHANNEL, &info);
}

static int start_v4(void *context, void **handle, const void *event)
{
	const struct nccl_event_v4 *e = event;
	device_handle comm = handle_from(context), started = 0;

	if (handle)
		*handle = NULL;
	if (!event || !handle)
		return 0;
	if (e->head.type == NCCL_EVENT_KERNEL_CHANNEL)
		started = device_channel_start(handle_from(e->head.parent), e->channel.time_ns);
	else if (e->head.type == NCCL_EVENT_COLL)
		started = start_coll(comm, &e->coll, e->coll.channels, 0);
	else if (e->head.type == NCCL_EVENT_P2P)
		started = start_p2p(comm, &e->p2p, e->p2p.channels, 0);
	*handle = pointer_of(started);
	return 0;
}

static int init_v5(
	void **context, uint64_t id, int *mask, const char *name, int nodes, int ranks, int rank, uint32_t version)
{
	const struct device_comm_info info = {
		.identity = id,
		.nodes = nccl_profiler_number(nodes),
		.member = nccl_profiler_number(rank),
		.members = nccl_profiler_number(ranks),
		.interface = version,
		.name = nccl_profiler_text(name),
	};
	int events = NCCL_EVENT_COLL | NCCL_EVENT_P2P | NCCL_EVENT_KERNEL_CHANNEL;

	return open_comm(context, mask, version >= 6 ? events | NCCL_EVENT_COPY_COLL : events, &info);
}

#define INIT_V5(n) \
	static int init_##n(void **context, uint64_t id, int *mask, const char *name, int nodes, int ranks, int rank, \
		void *logger) \
	{ \
		(void)logger; \
		return init_v5(context, id, mask, name, nodes, ranks, rank, n); \
	}

INIT_V5(5)
INIT_V5(6)

/*
 * NCCL announces calls even if not requested. A collective made of sends and receives is announced once for each of
 * them: a constant number for an all-to-all, for a gather or scatter a number known only to its root.
 */
static device_handle start_p2p_call(device_handle comm, const struct nccl_p2p_call *call)
{
	const char *func = nccl_profiler_text(call->func);

	if (strcmp(func, "AlltoAll") == 0)
		return device_call_all_to_all(comm, call->captured);
	if (strcmp(func, "Send") != 0 && strcmp(func, "Recv") != 0)
		device_call_uncounted(comm);
	return device_call(comm, false, call->captured);
}

static device_handle start_copy_coll(device_handle comm, const struct nccl_copy_coll *copy, device_handle call)
{
	struct nccl_coll alike = {.func = copy->func, .dtype = copy->dtype, .count = copy->count};

	return start_coll(comm, &alike, 0, call);
}

static int start_v5(void *context, void **handle, const void *event)
{
	const struct nccl_event_v5 *e = event;
	device_handle comm = handle_from(context), started = 0, parent;

	if (handle)
		*handle = NULL;
	if (!event || !handle)
		return 0;
	parent = handle_from(e->head.parent);
	if (e->head.type == NCCL_EVENT_KERNEL_CHANNEL)
		started = device_channel_start(parent, e->channel.time_ns);
	else if (e->head.type == NCCL_EVENT_COLL)
		started = start_coll(comm, &e->coll, e->coll.channels, parent);
	else if (e->head.type == NCCL_EVENT_P2P)
		started = start_p2p(comm, &e->p2p, e->p2p.channels, parent);
	else if (e->head.type == NCCL_EVENT_COLL_CALL)
		started = device_call(comm, true, e->coll_call.captured);
	else if (e->head.type == NCCL_EVENT_P2P_CALL)
		started = start_p2p_call(comm, &e->p2p_call);
	else if (e->head.type == NCCL_EVENT_COPY_COLL)
		started = start_copy_coll(comm, &e->copy_coll, parent);
	*handle = pointer_of(started);
	return 0;
}

static int nccl_profiler_stop(void *handle)
{
	device_op_stop(handle_from(handle)); /* a channel's end was reported already */
	return 0;
}

static int nccl_profiler_record(void *handle, int state, const union nccl_state_args *args)
{
	if (state == NCCL_STATE_CHANNEL_STOP && args)
		device_channel_stop(handle_from(handle), args->channel_time_ns);
	return 0;
}

static int nccl_profiler_finalize(void *context)
{
	device_comm_close(handle_from(context));
	return 0;
}

#define NAME "ranktrace"
#define ENDS nccl_profiler_stop, nccl_profiler_record, nccl_profiler_finalize /* equal in all versions */

EXPORTED const struct nccl_profiler_v1 ncclProfiler_v1 = {NAME, init_1, start_v1, ENDS};
EXPORTED const struct nccl_profiler_v1 ncclProfiler_v2 = {NAME, init_2, start_v2, ENDS};
EXPORTED const struct nccl_profiler_v1 ncclProfiler_v3 = {NAME, init_3, start_v2, ENDS};
EXPORTED const struct nccl_profiler_v4 ncclProfiler_v4 = {NAME, init_4, start_v4, ENDS};
EXPORTED const struct nccl_profiler_v5 ncclProfiler_v5 = {NAME, init_5, start_v5, ENDS};
EXPORTED const struct nccl_profiler_v5 ncclProfiler_v6 = {NAME, init_6, start_v5, ENDS};
