/* SPDX-License-Identifier: Apache-2.0 */
/* The NCCL profiler plugin, driven as NCCL drives it through each interface; what would reach the probe is checked.
 */
#define TEST_ALONE /* takes the place of the probe */
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>

#include "bpf/marker/device_ops.h"
#include "bpf/marker/usdt.h"
#include "tests/test.h"
#include "tests/unit/nccl_script.h"

#define RECORDS_MAX 65536
#define CHANNELS 24
#define UTC_NS 1795220846000000000ULL

extern const struct nccl_profiler_v1 ncclProfiler_v1, ncclProfiler_v2, ncclProfiler_v3;
extern const struct nccl_profiler_v4 ncclProfiler_v4;
extern const struct nccl_profiler_v5 ncclProfiler_v5, ncclProfiler_v6;

static struct rt_marker_record *seen;
static unsigned records, hits, comms;

/* What the daemon would read: each batch describes a communicator before its first record. */
void marker_probe(const void *data, uint32_t count, uint32_t record_bytes, uint32_t version)
{
	const struct rt_marker_record *record = data;
	uint64_t known[RT_MARKER_BATCH_MAX];
	unsigned n_known = 0;

	assert_int_equal(version, RT_MARKER_VERSION);
	assert_int_equal(record_bytes, sizeof(*record));
	assert_in_range(count, 1, RT_MARKER_BATCH_MAX);
	hits++;
	for (uint32_t i = 0; i < count; i++) {
		bool is_known = false;

		assert_int_equal(record[i].size_bytes, sizeof(*record));
		if (record[i].kind == RT_MARKER_COMM) {
			known[n_known++] = record[i].identity;
			comms++;
		}
		for (unsigned k = 0; k < n_known; k++)
			is_known |= known[k] == record[i].identity;
		assert_true(is_known);
		assert_true(records < RECORDS_MAX);
		if (record[i].kind != RT_MARKER_COMM && record[i].kind != RT_MARKER_OPEN) /* a slow machine */
			seen[records++] = record[i];
	}
}

static int forget(void **state)
{
	records = hits = comms = 0;
	return 0;
}

static void *open_v5(const struct nccl_profiler_v5 *plugin, uint64_t id, int expected_mask)
{
	void *context = NULL;
	int mask = 0;

	assert_int_equal(plugin->init(&context, id, &mask, "dp", 2, 16, 3, NULL), 0);
	assert_int_equal(mask, expected_mask);
	assert_non_null(context);
	return context;
}

#define MASK_V5 (NCCL_EVENT_COLL | NCCL_EVENT_P2P | NCCL_EVENT_KERNEL_CHANNEL)

TEST_WITH(times_are_the_first_start_and_the_last_stop, forget, NULL)
{
	void *context = open_v5(&ncclProfiler_v5, 0xabc, MASK_V5), *op;

	op = nccl_start_coll(
		&ncclProfiler_v5, context, nccl_start_call(&ncclProfiler_v5, context, false), 4096, CHANNELS);
	ncclProfiler_v5.stop(op);
	nccl_run_channels(&ncclProfiler_v5, context, op, CHANNELS, UTC_NS, UTC_NS + 5000);
	ncclProfiler_v5.finalize(context);
	assert_int_equal(records, 1);
	assert_int_equal(comms, 1);
	assert_int_equal(seen[0].kind, RT_MARKER_COLL);
	assert_int_equal(seen[0].flags, 0);
	assert_int_equal(seen[0].identity, 0xabc);
	assert_int_equal(seen[0].seq, 1);
	assert_int_equal(seen[0].count, 4096);
	assert_int_equal(seen[0].device_start_ns, UTC_NS);
	assert_int_equal(seen[0].device_stop_ns, UTC_NS + 5000);
	assert_true(seen[0].host_ns > 0 && seen[0].host_stop_ns >= seen[0].host_ns);
	assert_int_equal(seen[0].member, 3);
	assert_int_equal(seen[0].members, 16);
	assert_int_equal(seen[0].peer, -1);
	assert_int_equal(seen[0].channels, CHANNELS);
	assert_int_equal(seen[0].channels_done, CHANNELS);
	assert_string_equal(seen[0].text, "AllReduce");
	assert_string_equal(seen[0].dtype, "ncclBfloat16");
}

/* NCCL sorts the members of a group by size before it launches them: the number is the call's. */
TEST_WITH(numbers_are_those_of_calls, forget, NULL)
{
	static const unsigned order[] = {3, 1, 2};
	void *context = open_v5(&ncclProfiler_v6, 0xabd, MASK_V5 | NCCL_EVENT_COPY_COLL), *call[4];

	for (unsigned i = 1; i <= 3; i++)
		call[i] = nccl_start_call(&ncclProfiler_v6, context, i == 2);
	for (unsigned round = 0; round < 2; round++)
		for (unsigned i = 0; i < 3; i++) {
			void *op = nccl_start_coll(&ncclProfiler_v6, context, call[order[i]], order[i], 1);

			nccl_run_channels(&ncclProfiler_v6, context, op, 1, UTC_NS, UTC_NS + 1);
		}
	ncclProfiler_v6.finalize(context);
	assert_int_equal(records, 6);
	for (unsigned i = 0; i < 6; i++) {
		assert_int_equal(seen[i].seq, order[i % 3]);
		assert_int_equal(seen[i].count, order[i % 3]);
		assert_int_equal(seen[i].flags, order[i % 3] == 2 ? RT_MARKER_CAPTURED : 0);
	}
}

static void *announce_p2p(void *context, const char *func)
{
	struct nccl_event_v5 event = {.head = {.type = NCCL_EVENT_P2P_CALL}};
	void *handle = NULL;

	event.p2p_call.func = func;
	ncclProfiler_v5.start(context, &handle, &event);
	return handle;
}

static void run_one(void *context)
{
	void *op = nccl_start_coll(&ncclProfiler_v5, context, nccl_start_call(&ncclProfiler_v5, context, false), 1, 1);

	ncclProfiler_v5.stop(op);
	nccl_run_channels(&ncclProfiler_v5, context, op, 1, UTC_NS, UTC_NS + 1);
}

TEST_WITH(made_of_sends_is_counted_where_it_can_be, forget, NULL)
{
	void *context = open_v5(&ncclProfiler_v5, 0xabe, MASK_V5);

	announce_p2p(context, "Send");
	for (unsigned i = 0; i < 2 * 16 * 3; i++) /* three all-to-alls of 16 members */
		announce_p2p(context, "AlltoAll");
	run_one(context);
	announce_p2p(context, "Gather");
	run_one(context);
	ncclProfiler_v5.finalize(context);
	assert_int_equal(records, 2);
	assert_int_equal(seen[0].seq, 4);
	assert_int_equal(seen[1].seq, 0); /* not known from here on */
}

TEST_WITH(version_4_counts_launches, forget, NULL)
{
	struct nccl_event_v4 coll = {.head = {.type = NCCL_EVENT_COLL}}, p2p = {.head = {.type = NCCL_EVENT_P2P}};
	struct nccl_event_v4 channel = {.head = {.type = NCCL_EVENT_KERNEL_CHANNEL}};
	union nccl_state_args args = {.channel_time_ns = UTC_NS + 7};
	void *context = NULL, *op = NULL, *handle = NULL;
	int mask = 0;

	ncclProfiler_v4.init(&context, &mask, "tp", 0x44, 1, 8, 7, NULL);
	assert_int_equal(mask, MASK_V5);
	coll.coll = (struct nccl_coll){.func = "ReduceScatter", .count = 12, .dtype = "ncclInt8", .channels = 1};
	p2p.p2p = (struct nccl_p2p){.func = "Send", .count = 13, .dtype = "ncclInt8", .peer = 5, .channels = 1};
	for (unsigned i = 0; i < 2; i++) {
		ncclProfiler_v4.start(context, &op, i ? &p2p : &coll);
		channel.head.parent = op;
		channel.channel.time_ns = UTC_NS;
		ncclProfiler_v4.start(context, &handle, &channel);
		ncclProfiler_v4.record(handle, NCCL_STATE_CHANNEL_STOP, &args);
		ncclProfiler_v4.stop(handle);
	}
	ncclProfiler_v4.finalize(context);
	assert_int_equal(records, 2);
	assert_int_equal(seen[0].seq, 1);
	assert_int_equal(seen[0].flags, RT_MARKER_BY_LAUNCH);
	assert_int_equal(seen[0].device_stop_ns, UTC_NS + 7);
	assert_int_equal(seen[1].kind, RT_MARKER_P2P);
	assert_int_equal(seen[1].seq, 0);
	assert_int_equal(seen[1].peer, 5);
	assert_string_equal(seen[1].text, "Send");
}

TEST_WITH(oldest_versions_know_no_times, forget, NULL)
{
	struct nccl_coll_v1 first = {.head = {.type = NCCL_EVENT_COLL, .rank = 2}};
	struct nccl_coll_v2 second = {.head = {.type = NCCL_EVENT_COLL, .rank = 2}};
	const struct nccl_profiler_v1 *plugin[] = {&ncclProfiler_v1, &ncclProfiler_v2, &ncclProfiler_v3};

	first.coll.name = second.coll.name = "pp";
	first.coll.hash = second.coll.hash = 0x77;
	first.coll.func = 4;
	first.coll.dtype = 9;
	second.coll.func = "AllReduce";
	second.coll.dtype = "ncclBfloat16";
	for (unsigned i = 0; i < 3; i++) {
		void *context = NULL, *op = NULL;
		int mask = 0;

		plugin[i]->init(&context, &mask);
		assert_int_equal(mask, NCCL_EVENT_COLL | NCCL_EVENT_P2P);
		plugin[i]->start(context, &op, i ? (const void *)&second : &first);
		plugin[i]->stop(op);
		plugin[i]->finalize(context);
	}
	assert_int_equal(records, 3);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(seen[i].identity, 0x77);
		assert_int_equal(seen[i].member, 2);
		assert_int_equal(seen[i].flags, RT_MARKER_INCOMPLETE | RT_MARKER_BY_LAUNCH);
		assert_int_equal(seen[i].device_start_ns, 0);
		assert_string_equal(seen[i].text, "AllReduce");
		assert_string_equal(seen[i].dtype, "ncclBfloat16");
	}
}

#define PLAYED 4001

static struct {
	void *context;
	void *volatile op[PLAYED];
	volatile unsigned started;
} play;

static void *progress(void *arg)
{
	for (unsigned i = 0; i < PLAYED; i++) {
		while (__atomic_load_n(&play.started, __ATOMIC_ACQUIRE) <= i)
			sched_yield();
		nccl_run_channels(&ncclProfiler_v5, play.context, play.op[i], CHANNELS, UTC_NS + i * 1000,
			UTC_NS + i * 1000 + 500);
	}
	return arg;
}

/* One thread launches while another receives the channel events, as in NCCL. The host may run ahead without limit. */
TEST_WITH(two_threads_lose_nothing, forget, NULL)
{
	pthread_t thread;

	play.context = open_v5(&ncclProfiler_v5, 0xb, MASK_V5);
	assert_int_equal(pthread_create(&thread, NULL, progress, NULL), 0);
	for (unsigned i = 0; i < PLAYED; i++) {
		void *call = nccl_start_call(&ncclProfiler_v5, play.context, false);

		play.op[i] = nccl_start_coll(&ncclProfiler_v5, play.context, call, i, CHANNELS);
		__atomic_store_n(&play.started, i + 1, __ATOMIC_RELEASE);
		ncclProfiler_v5.stop(play.op[i]);
	}
	pthread_join(thread, NULL);
	ncclProfiler_v5.finalize(play.context);
	for (unsigned i = 0, k = 0; i < PLAYED; i++) {
		if (!play.op[i]) /* buffer full: counted */
			continue;
		assert_true(k < records);
		assert_int_equal(seen[k].seq, i + 1);
		assert_int_equal(seen[k].device_start_ns, UTC_NS + i * 1000);
		assert_int_equal(seen[k].device_stop_ns, UTC_NS + i * 1000 + 500);
		assert_int_equal(seen[k].flags & ~RT_MARKER_LOST, 0);
		k++;
	}
}

TEST_WITH(dropped_operations_are_counted, forget, NULL)
{
	void *context = open_v5(&ncclProfiler_v5, 0xc, MASK_V5), *op[DEVICE_OPS_MAX + 10];

	for (unsigned i = 0; i < DEVICE_OPS_MAX + 10; i++)
		op[i] = nccl_start_coll(
			&ncclProfiler_v5, context, nccl_start_call(&ncclProfiler_v5, context, false), i, 1);
	for (unsigned i = 0; i < DEVICE_OPS_MAX + 10; i++) {
		assert_true(i < DEVICE_OPS_MAX ? op[i] != NULL : op[i] == NULL);
		nccl_run_channels(&ncclProfiler_v5, context, op[i], 1, UTC_NS + 1, UTC_NS + 2);
	}
	/* The buffer has space again, and numbers went on. */
	op[0] = nccl_start_coll(&ncclProfiler_v5, context, nccl_start_call(&ncclProfiler_v5, context, false), 1, 1);
	nccl_run_channels(&ncclProfiler_v5, context, op[0], 1, UTC_NS + 1, UTC_NS + 2);
	ncclProfiler_v5.finalize(context);
	assert_int_equal(records, DEVICE_OPS_MAX + 1);
	assert_int_equal(seen[0].flags, RT_MARKER_LOST);
	assert_int_equal(seen[1].flags, 0);
	assert_int_equal(seen[DEVICE_OPS_MAX].seq, DEVICE_OPS_MAX + 11);
}

TEST_WITH(unfinished_operations_are_sent_at_the_end, forget, NULL)
{
	void *context = open_v5(&ncclProfiler_v5, 0xd, MASK_V5), *other = open_v5(&ncclProfiler_v5, 0xe, MASK_V5), *op;

	op = nccl_start_coll(&ncclProfiler_v5, context, NULL, 1, 2);
	nccl_stop_channel(&ncclProfiler_v5, nccl_start_channel(&ncclProfiler_v5, context, op, 0, UTC_NS), UTC_NS + 1);
	ncclProfiler_v5.finalize(context);
	assert_int_equal(records, 1);
	assert_int_equal(seen[0].flags, RT_MARKER_INCOMPLETE | RT_MARKER_BY_LAUNCH);
	assert_int_equal(seen[0].channels_done, 1);
	/* The slot is another communicator's now: late events of the old one must not reach it. */
	context = open_v5(&ncclProfiler_v5, 0xf, MASK_V5);
	nccl_run_channels(&ncclProfiler_v5, context, op, 2, UTC_NS, UTC_NS + 1);
	ncclProfiler_v5.stop(op);
	ncclProfiler_v5.finalize(context);
	ncclProfiler_v5.finalize(context);
	ncclProfiler_v5.finalize(other);
	assert_int_equal(records, 1);
}

TEST_WITH(a_hundred_communicators, forget, NULL)
{
	void *context[100];

	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < 100; i++)
			context[i] = open_v5(&ncclProfiler_v5, 1000 + i, MASK_V5);
		for (unsigned i = 0; i < 100; i++)
			run_one(context[i]);
		for (unsigned i = 0; i < 100; i++)
			ncclProfiler_v5.finalize(context[i]);
	}
	assert_int_equal(records, 300);
	for (unsigned i = 0; i < 300; i++)
		assert_int_equal(seen[i].seq, 1); /* numbers begin anew with a communicator */
}

TEST_WITH(garbage_is_survived, forget, NULL)
{
	struct nccl_event_v5 event;
	void *context = open_v5(&ncclProfiler_v6, 0x10, MASK_V5 | NCCL_EVENT_COPY_COLL), *handle = NULL;

	assert_int_equal(ncclProfiler_v6.start(context, NULL, NULL), 0);
	assert_int_equal(ncclProfiler_v6.init(NULL, 1, NULL, NULL, -1, -1, -1, NULL), 0);
	for (unsigned bit = 0; bit < 64; bit++) { /* types that there may be one day, with nothing in them */
		memset(&event, 0, sizeof(event));
		event.head.type = 1ULL << bit;
		assert_int_equal(ncclProfiler_v6.start(context, &handle, &event), 0);
		assert_int_equal(ncclProfiler_v6.record(handle, (int)bit, NULL), 0);
		assert_int_equal(ncclProfiler_v6.stop(handle), 0);
		assert_int_equal(ncclProfiler_v6.stop(handle), 0);
	}
	for (unsigned i = 0; i < 256; i++) { /* handles of anything */
		handle = (void *)((uintptr_t)i << 56 | 0x00ffffffffffffff);
		ncclProfiler_v6.stop(handle);
		nccl_stop_channel(&ncclProfiler_v6, handle, UINT64_MAX);
		nccl_start_channel(&ncclProfiler_v6, handle, handle, 255, UINT64_MAX);
		nccl_start_coll(&ncclProfiler_v6, handle, handle, SIZE_MAX, 255);
		ncclProfiler_v6.finalize(handle);
	}
	ncclProfiler_v6.finalize(context);
	ncclProfiler_v6.finalize(context);
	ncclProfiler_v6.finalize(NULL);
}

int main(void)
{
	int failed;

	seen = calloc(RECORDS_MAX, sizeof(*seen));
	if (!seen)
		return 1;
	failed = TEST_RUN(NULL, NULL);
	free(seen);
	return failed;
}
