/* SPDX-License-Identifier: Apache-2.0 */
/* Records of marker libraries to operations: clocks, what is not known, and what no library would say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "daemon/collect/collect_internal.h"

#define UTC_NS 1795220846000000000ULL
#define HOST_NS 5000000000ULL /* the same moment in CLOCK_MONOTONIC */

static struct marker_process process;
static struct coll_device device;
static char name[64], op[32], dtype[16];
static unsigned devices;

static void on_device(void *arg, const struct coll_device *given)
{
	(void)arg;
	devices++;
	device = *given;
	copy_text(name, sizeof(name), given->name);
	copy_text(op, sizeof(op), given->op);
	copy_text(dtype, sizeof(dtype), given->dtype);
}

static struct rt_marker_record comm_record(uint64_t identity)
{
	struct rt_marker_comm comm = {.kind = RT_MARKER_COMM, .identity = identity, .interface = 5, .device_pair_ns = UTC_NS,
		.host_pair_ns = HOST_NS, .lost = 3, .name = "dp"};
	struct rt_marker_record record;

	memcpy(&record, &comm, sizeof(record));
	return record;
}

static struct rt_marker_record collective(uint64_t identity)
{
	return (struct rt_marker_record){.kind = RT_MARKER_COLL, .identity = identity, .seq = 9, .count = 100,
		.host_ns = HOST_NS + 1000, .device_start_ns = UTC_NS + 2000, .device_stop_ns = UTC_NS + 3000,
		.host_stop_ns = HOST_NS + 4000, .member = 1, .members = 2, .peer = -1, .channels = 2, .channels_done = 2,
		.text = "AllReduce", .dtype = "ncclBfloat16"};
}

static void give(const struct rt_marker_record *record)
{
	struct rt_marker_event event = {.event = {.flags = RT_MARKER_VERSION}, .records = 1};

	event.record[0] = *record;
	marker_decode(&process, &event, sizeof(event), on_device, NULL);
}

static int forget(void **state)
{
	(void)state;
	memset(&process, 0, sizeof(process));
	devices = 0;
	return 0;
}

static void test_times_are_mapped(void **state)
{
	struct rt_marker_record comm = comm_record(7), record = collective(7);

	(void)state;
	give(&comm);
	give(&record);
	assert_int_equal(devices, 1);
	assert_int_equal(device.start_ns, HOST_NS + 2000);
	assert_int_equal(device.stop_ns, HOST_NS + 3000);
	assert_int_equal(device.seq, 9);
	assert_int_equal(device.peer, -1);
	assert_false(device.captured);
	assert_string_equal(name, "dp");
	assert_string_equal(op, "AllReduce");
	assert_string_equal(dtype, "bfloat16");
	assert_false(device.open);
	assert_int_equal(process.counts.operations, 1);
	assert_int_equal(process.counts.lost, 3);
	record.flags = RT_MARKER_CAPTURED | RT_MARKER_BY_LAUNCH | RT_MARKER_LOST;
	give(&record);
	assert_true(device.captured);
	assert_int_equal(device.seq, 0); /* a launch's number is not a call's */
	assert_int_equal(device.start_ns, HOST_NS + 2000);
}

static void test_unknown_times(void **state)
{
	struct rt_marker_record comm = comm_record(7), record = collective(7), other = collective(8);

	(void)state;
	give(&other); /* whose communicator's record was lost: nothing pairs its clocks */
	assert_int_equal(device.start_ns, COLL_UNKNOWN);
	give(&comm);
	record.flags = RT_MARKER_INCOMPLETE;
	give(&record);
	assert_int_equal(device.start_ns, COLL_UNKNOWN);
	assert_int_equal(device.stop_ns, COLL_UNKNOWN);
	assert_int_equal(process.counts.incomplete, 2);
	assert_int_equal(devices, 2);
}

static void test_a_late_one_is_open(void **state)
{
	struct rt_marker_record comm = comm_record(7), record = collective(7);

	(void)state;
	give(&comm);
	record.kind = RT_MARKER_OPEN;
	record.device_stop_ns = 0;
	give(&record);
	assert_int_equal(devices, 1);
	assert_true(device.open);
	assert_int_equal(device.seq, 9);
	assert_int_equal(device.start_ns, COLL_UNKNOWN);
	assert_int_equal(process.counts.late, 1);
}

static void test_a_clock_that_is_not_utc(void **state)
{
	static const struct {
		uint64_t start_ns, stop_ns;
	} bad[] = {
		{UTC_NS + 3000, UTC_NS + 2000},			/* backwards */
		{1000, 2000},					/* since the device's start */
		{UTC_NS + 2000, UTC_NS + 40 * NSEC_PER_MSEC},	/* after the host saw its end */
		{UTC_NS - 2 * NSEC_PER_SEC, UTC_NS + 3000},	/* long before it was launched */
		{0, UTC_NS + 3000},
		{UINT64_MAX, UINT64_MAX},
	};
	struct rt_marker_record comm = comm_record(7), record = collective(7);

	(void)state;
	give(&comm);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		record.device_start_ns = bad[i].start_ns;
		record.device_stop_ns = bad[i].stop_ns;
		give(&record);
		assert_int_equal(device.start_ns, COLL_UNKNOWN);
		assert_int_equal(device.stop_ns, COLL_UNKNOWN);
	}
	assert_int_equal(process.counts.bad_clock, ARRAY_SIZE(bad));
}

static void test_the_latest_pair_counts(void **state)
{
	struct rt_marker_record comm = comm_record(7), record = collective(7);
	struct rt_marker_comm stepped;

	(void)state;
	give(&comm);
	memcpy(&stepped, &comm, sizeof(stepped));
	stepped.device_pair_ns += 3600 * NSEC_PER_SEC; /* someone set the clock */
	memcpy(&comm, &stepped, sizeof(comm));
	give(&comm);
	record.device_start_ns += 3600 * NSEC_PER_SEC;
	record.device_stop_ns += 3600 * NSEC_PER_SEC;
	give(&record);
	assert_int_equal(device.start_ns, HOST_NS + 2000);
}

static void test_lies(void **state)
{
	struct rt_marker_event event = {.event = {.flags = RT_MARKER_VERSION}, .records = UINT32_MAX, .lost = UINT32_MAX};
	struct rt_marker_record comm = comm_record(7), record = collective(7);
	struct rt_marker_comm endless;

	(void)state;
	marker_decode(&process, &event, sizeof(event), on_device, NULL);
	marker_decode(&process, &event, sizeof(event) - 1, on_device, NULL);
	assert_int_equal(process.counts.unreadable, 2);
	event.records = 0;
	marker_decode(&process, &event, sizeof(event), on_device, NULL);
	assert_int_equal(process.counts.unreadable, 2 + RT_MARKER_EVENT_RECORDS);
	record.kind = 77;
	give(&record);
	record = collective(7);
	record.host_ns = UINT64_MAX;
	give(&record);
	assert_int_equal(process.counts.unreadable, 4 + RT_MARKER_EVENT_RECORDS);
	assert_int_equal(devices, 0);
	record = collective(7);
	memset(record.text, 'x', sizeof(record.text));
	memcpy(&endless, &comm, sizeof(endless));
	memset(endless.name, 'y', sizeof(endless.name));
	memcpy(&comm, &endless, sizeof(comm));
	give(&comm);
	give(&record);
	assert_int_equal(strlen(op), 31);
	assert_int_equal(strlen(name), 63);
}

/* A process may name any number of communicators: the newest are known. */
static void test_many_communicators(void **state)
{
	(void)state;
	for (uint64_t i = 1; i <= 3 * MARKER_COMMS_MAX; i++) {
		struct rt_marker_record comm = comm_record(i), record = collective(i);

		give(&comm);
		give(&record);
		assert_int_equal(device.start_ns, HOST_NS + 2000);
	}
	for (uint64_t i = 2 * MARKER_COMMS_MAX + 1; i <= 3 * MARKER_COMMS_MAX; i++) {
		struct rt_marker_record record = collective(i);

		give(&record);
		assert_int_equal(device.start_ns, HOST_NS + 2000);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_times_are_mapped, forget),
		cmocka_unit_test_setup(test_unknown_times, forget),
		cmocka_unit_test_setup(test_a_late_one_is_open, forget),
		cmocka_unit_test_setup(test_a_clock_that_is_not_utc, forget),
		cmocka_unit_test_setup(test_the_latest_pair_counts, forget),
		cmocka_unit_test_setup(test_lies, forget),
		cmocka_unit_test_setup(test_many_communicators, forget),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
