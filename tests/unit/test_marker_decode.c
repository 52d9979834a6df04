/* SPDX-License-Identifier: Apache-2.0 */
/* Records of marker libraries to operations: times, what is not known, and what no library would say. */
#include "daemon/collect/collect_internal.h"

#include "tests/test.h"

#define UTC_NS 1795220846000000000ULL
#define HOST_NS 5000000000ULL

static struct marker_process process;
static struct coll_device device;
static char name[64], op[32], dtype[16];
static unsigned devices;

static void on_device(void *arg, const struct coll_device *given)
{
	devices++;
	device = *given;
	copy_text(name, sizeof(name), given->name);
	copy_text(op, sizeof(op), given->op);
	copy_text(dtype, sizeof(dtype), given->dtype);
}

static struct rt_marker_record comm_record(uint64_t identity)
{
	struct rt_marker_comm comm = {.kind = RT_MARKER_COMM,
		.identity = identity,
		.interface = 5,
		.member = 1,
		.flags = 3,
		.lost = 3,
		.name = "dp"};
	struct rt_marker_record record;

	memcpy(&record, &comm, sizeof(record));
	return record;
}

static struct rt_marker_record collective(uint64_t identity)
{
	return (struct rt_marker_record){.kind = RT_MARKER_COLL,
		.identity = identity,
		.seq = 9,
		.count = 100,
		.host_ns = HOST_NS + 1000,
		.device_start_ns = UTC_NS + 2000,
		.device_stop_ns = UTC_NS + 3000,
		.host_stop_ns = HOST_NS + 4000,
		.member = 1,
		.members = 2,
		.peer = -1,
		.channels = 2,
		.channels_done = 2,
		.text = "AllReduce",
		.dtype = "ncclBfloat16"};
}

static void give(const struct rt_marker_record *record)
{
	struct rt_marker_event event = {.event = {.flags = RT_MARKER_VERSION}, .records = 1};

	event.record[0] = *record;
	marker_decode(&process, &event, sizeof(event), on_device, NULL);
}

static int forget(void **state)
{
	memset(&process, 0, sizeof(process));
	devices = 0;
	return 0;
}

TEST_WITH(test_times_are_the_devices, forget, NULL)
{
	struct rt_marker_record comm = comm_record(7), record = collective(7);

	give(&comm);
	give(&record);
	assert_int_equal(devices, 1);
	assert_int_equal(device.start_ns, UTC_NS + 2000);
	assert_int_equal(device.stop_ns, UTC_NS + 3000);
	assert_int_equal(device.heard_ns, HOST_NS + 4000);
	assert_int_equal(device.device, 3);
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
	assert_int_equal(device.start_ns, UTC_NS + 2000);
}

TEST_WITH(test_unknown_times, forget, NULL)
{
	struct rt_marker_record comm = comm_record(7), record = collective(7), other = collective(8);

	give(&other); /* whose communicator's record was lost: its device is unknown */
	assert_int_equal(device.start_ns, UTC_NS + 2000);
	assert_int_equal(device.device, 0);
	give(&comm);
	record.flags = RT_MARKER_INCOMPLETE;
	give(&record);
	assert_int_equal(device.start_ns, COLL_UNKNOWN);
	assert_int_equal(device.stop_ns, COLL_UNKNOWN);
	assert_int_equal(process.counts.incomplete, 1);
	assert_int_equal(devices, 2);
}

TEST_WITH(test_a_late_one_is_open, forget, NULL)
{
	struct rt_marker_record comm = comm_record(7), record = collective(7);

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

/* Whatever its epoch and however far from the host's clocks. */
TEST_WITH(test_any_clock_is_kept, forget, NULL)
{
	static const uint64_t offset_ns[] = {0, 10, 40 * NSEC_PER_MSEC, 3600 * NSEC_PER_SEC, (uint64_t)-1000000};
	struct rt_marker_record comm = comm_record(7), record = collective(7);

	give(&comm);
	for (size_t i = 0; i < ARRAY_SIZE(offset_ns); i++) {
		record.device_start_ns = UTC_NS + offset_ns[i];
		record.device_stop_ns = record.device_start_ns + 50;
		give(&record);
		assert_int_equal(device.start_ns, UTC_NS + offset_ns[i]);
		assert_int_equal(device.stop_ns, device.start_ns + 50);
	}
	record.device_start_ns = 1000; /* since the device's start */
	record.device_stop_ns = 2000;
	give(&record);
	assert_int_equal(device.stop_ns, 2000);
	assert_int_equal(process.counts.bad_times, 0);
	assert_int_equal(process.counts.operations, ARRAY_SIZE(offset_ns) + 1);
}

TEST_WITH(test_no_times, forget, NULL)
{
	static const struct {
		uint64_t start_ns, stop_ns;
	} bad[] = {
		{UTC_NS + 3000, UTC_NS + 2000}, /* backwards */
		{0, UTC_NS + 3000},
		{UTC_NS, 0},
		{UTC_NS, UINT64_MAX},
		{UINT64_MAX, UINT64_MAX},
	};
	struct rt_marker_record comm = comm_record(7), record = collective(7);

	give(&comm);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		record.device_start_ns = bad[i].start_ns;
		record.device_stop_ns = bad[i].stop_ns;
		give(&record);
		assert_int_equal(device.start_ns, COLL_UNKNOWN);
		assert_int_equal(device.stop_ns, COLL_UNKNOWN);
	}
	assert_int_equal(process.counts.bad_times, ARRAY_SIZE(bad));
}

/* One process, two devices: two members of the same communicator. */
TEST_WITH(test_members_have_devices, forget, NULL)
{
	struct rt_marker_record record = collective(7);
	struct rt_marker_comm comm = {.kind = RT_MARKER_COMM, .identity = 7};

	for (uint32_t member = 0; member < 2; member++) {
		struct rt_marker_record raw;

		comm.member = member;
		comm.flags = (uint16_t)(member + 1);
		memcpy(&raw, &comm, sizeof(raw));
		give(&raw);
	}
	for (uint32_t i = 0; i < 4; i++) {
		record.member = i % 2;
		give(&record);
		assert_int_equal(device.device, i % 2 + 1);
	}
}

TEST_WITH(test_lies, forget, NULL)
{
	struct rt_marker_event event = {
		.event = {.flags = RT_MARKER_VERSION}, .records = UINT32_MAX, .lost = UINT32_MAX};
	struct rt_marker_record comm = comm_record(7), record = collective(7);
	struct rt_marker_comm endless;

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
TEST_WITH(test_many_communicators, forget, NULL)
{
	for (uint64_t i = 1; i <= 3 * MARKER_COMMS_MAX; i++) {
		struct rt_marker_record comm = comm_record(i), record = collective(i);

		give(&comm);
		give(&record);
		assert_int_equal(device.device, 3);
	}
	for (uint64_t i = 2 * MARKER_COMMS_MAX + 1; i <= 3 * MARKER_COMMS_MAX; i++) {
		struct rt_marker_record record = collective(i);

		give(&record);
		assert_int_equal(device.device, 3);
	}
}

TEST_MAIN(NULL, NULL)
