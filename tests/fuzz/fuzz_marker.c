/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as what NCCL says to the profiler plugin, through any interface, and any bytes as what the ring holds for
 * the daemon. Texts of events are valid or no pointers at all: that much the interface promises.
 */
#undef NDEBUG
#include <assert.h>

#include "bpf/marker/nccl_interface.h"
#include "bpf/marker/usdt.h"
#include "daemon/collect/collect_internal.h"

#define HANDLES 64

extern const struct nccl_profiler_v1 ncclProfiler_v1, ncclProfiler_v2, ncclProfiler_v3;
extern const struct nccl_profiler_v4 ncclProfiler_v4;
extern const struct nccl_profiler_v5 ncclProfiler_v5, ncclProfiler_v6;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct marker_process process;

struct input {
	const uint8_t *data;
	size_t size;
};

static uint64_t take(struct input *input, size_t bytes)
{
	uint64_t value = 0;

	if (bytes > input->size)
		bytes = input->size;
	memcpy(&value, input->data, bytes);
	input->data += bytes;
	input->size -= bytes;
	return value;
}

static void check_device(void *arg, const struct coll_device *device)
{
	assert(strlen(device->op) < 32 && strlen(device->name) < 64);
	assert((device->start_ns == COLL_UNKNOWN) == (device->stop_ns == COLL_UNKNOWN));
	assert(device->start_ns == COLL_UNKNOWN || device->start_ns <= device->stop_ns);
}

void marker_probe(const void *records, uint32_t count, uint32_t record_bytes, uint32_t version)
{
	struct rt_marker_event event = {.event = {.flags = (uint16_t)version}};
	const struct rt_marker_record *record = records;

	assert(count > 0 && count <= RT_MARKER_BATCH_MAX && record_bytes == sizeof(*record));
	for (uint32_t i = 0; i < count; i++) {
		event.record[0] = record[i];
		event.records = 1;
		assert(record[i].kind > RT_MARKER_NONE && record[i].kind <= RT_MARKER_OPEN);
		marker_decode(&process, &event, sizeof(event), check_device, NULL);
	}
}

static const char *a_text(struct input *input)
{
	static const char *const texts[] = {NULL, "", "AllReduce", "AlltoAll", "Gather", "Send", (const char *)1,
		"a text that is longer than any field that keeps it, by far, so that it must be cut somewhere in it"};

	return texts[take(input, 1) % ARRAY_SIZE(texts)];
}

static void fill(struct input *input, void *event, size_t bytes)
{
	for (size_t i = 0; i < bytes; i += 8) {
		uint64_t value = take(input, 8);

		memcpy((char *)event + i, &value, sizeof(value));
	}
}

/* Texts of the kind that the type says, where the plugin would read them. */
static void fill_v5(struct input *input, struct nccl_event_v5 *event)
{
	static const uint64_t types[] = {NCCL_EVENT_COLL, NCCL_EVENT_P2P, NCCL_EVENT_KERNEL_CHANNEL,
		NCCL_EVENT_COLL_CALL, NCCL_EVENT_P2P_CALL, NCCL_EVENT_COPY_COLL, 1ULL << 40, 0};

	fill(input, event, sizeof(*event));
	event->head.type = types[take(input, 1) % ARRAY_SIZE(types)];
	if (event->head.type == NCCL_EVENT_COLL || event->head.type == NCCL_EVENT_COPY_COLL) {
		event->coll.func = a_text(input);
		event->coll.dtype = a_text(input);
	} else if (event->head.type == NCCL_EVENT_P2P) {
		event->p2p.func = a_text(input);
		event->p2p.dtype = a_text(input);
	} else if (event->head.type == NCCL_EVENT_P2P_CALL) {
		event->p2p_call.func = a_text(input);
	}
}

static void fill_v4(struct input *input, struct nccl_event_v4 *event)
{
	struct nccl_event_v5 wide;

	fill_v5(input, &wide);
	memset(event, 0, sizeof(*event));
	event->head.type = (uint8_t)wide.head.type;
	event->head.parent = wide.head.parent;
	memcpy(&event->coll, &wide.coll, sizeof(event->coll));
}

static void fill_v2(struct input *input, struct nccl_coll_v2 *event)
{
	fill(input, event, sizeof(*event));
	event->head.type = take(input, 1) & 1 ? NCCL_EVENT_COLL : (uint8_t)take(input, 1) & ~NCCL_EVENT_P2P;
	event->coll.name = a_text(input);
	event->coll.func = a_text(input);
	event->coll.dtype = a_text(input);
}

static void fill_v1(struct input *input, struct nccl_coll_v1 *event)
{
	fill(input, event, sizeof(*event));
	event->coll.name = a_text(input);
}

static void start_one(struct input *input, unsigned version, void *context, void **handle, void *parent)
{
	struct nccl_event_v5 v5;
	struct nccl_event_v4 v4;
	struct nccl_coll_v2 v2;
	struct nccl_coll_v1 v1[2];

	if (version >= 5) {
		fill_v5(input, &v5);
		v5.head.parent = parent;
		ncclProfiler_v6.start(context, handle, &v5);
	} else if (version == 4) {
		fill_v4(input, &v4);
		v4.head.parent = parent;
		ncclProfiler_v4.start(context, handle, &v4);
	} else if (version >= 2) {
		fill_v2(input, &v2);
		ncclProfiler_v3.start(context, handle, &v2);
	} else {
		fill_v1(input, &v1[0]);
		fill_v1(input, &v1[1]);
		ncclProfiler_v1.start(context, handle, v1);
	}
}

static void open_one(struct input *input, unsigned version, void **context)
{
	const char *name = a_text(input);
	int mask, number = (int)take(input, 4);

	if (version >= 5)
		ncclProfiler_v6.init(context, take(input, 8), &mask, name, number, number, number, NULL);
	else if (version == 4)
		ncclProfiler_v4.init(context, &mask, name, take(input, 8), number, number, number, NULL);
	else
		ncclProfiler_v2.init(context, &mask);
}

static void play(struct input *input)
{
	void *handle[HANDLES] = {0};

	while (input->size > 0) {
		uint8_t what = (uint8_t)take(input, 1), version = what % 7;
		void **slot = &handle[take(input, 1) % HANDLES], *other = handle[take(input, 1) % HANDLES];
		union nccl_state_args args = {.channel_time_ns = take(input, 4)};

		if (what >> 5 == 0)
			open_one(input, version, slot);
		else if (what >> 5 == 1)
			ncclProfiler_v5.finalize(*slot);
		else if (what >> 5 == 2)
			*slot = (void *)(uintptr_t)take(input, 8);
		else if (what >> 5 == 3)
			ncclProfiler_v5.stop(*slot);
		else if (what >> 5 == 4)
			ncclProfiler_v5.record(*slot, NCCL_STATE_CHANNEL_STOP, &args);
		else
			start_one(input, version, handle[what % 4], slot, other);
	}
	for (unsigned i = 0; i < HANDLES; i++)
		ncclProfiler_v5.finalize(handle[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input = {data, size};
	struct rt_marker_event event = {0};

	memset(&process, 0, sizeof(process));
	if (size < 1)
		return 0;
	if (take(&input, 1) & 1) {
		while (input.size > 0) {
			size_t bytes = input.size < sizeof(event) ? input.size : sizeof(event);

			memcpy(&event, input.data, bytes);
			event.event.flags &= 1;
			marker_decode(&process, &event, bytes, check_device, NULL);
			input.data += bytes;
			input.size -= bytes;
		}
		return 0;
	}
	play(&input);
	return 0;
}
