/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/collect/collect_internal.h"

#define TIME_MAX_NS ((uint64_t)INT64_MAX) /* later times are invalid */

static struct marker_comm *marker_decode_comm_of(struct marker_process *process, uint64_t identity, bool make)
{
	struct marker_comm *oldest = &process->comm[0];

	for (size_t i = 0; i < MARKER_COMMS_MAX; i++) {
		struct marker_comm *comm = &process->comm[i];

		if (comm->identity == identity && comm->reported)
			return comm;
		if (comm->reported < oldest->reported)
			oldest = comm;
	}
	return make ? oldest : NULL;
}

static void on_comm(struct marker_process *process, const struct rt_marker_record *record)
{
	struct rt_marker_comm report;
	struct marker_comm *comm;

	memcpy(&report, record, sizeof(report));
	report.name[sizeof(report.name) - 1] = 0;
	if (report.device_pair_ns > TIME_MAX_NS || report.host_pair_ns > TIME_MAX_NS) {
		process->counts.unreadable++;
		return;
	}
	comm = marker_decode_comm_of(process, report.identity, true);
	*comm = (struct marker_comm){
		.identity = report.identity,
		.reported = ++process->reports,
		.offset_ns = (int64_t)(report.host_pair_ns - report.device_pair_ns),
		.nodes = report.nodes,
	};
	copy_text(comm->name, sizeof(comm->name), report.name);
	process->interface = report.interface;
	if (report.lost > process->counts.lost)
		process->counts.lost = report.lost;
}

/* Device time to CLOCK_MONOTONIC; 0: none. */
static uint64_t map_time(const struct marker_comm *comm, uint64_t device_ns)
{
	int64_t mapped;

	if (device_ns == 0 || device_ns > TIME_MAX_NS ||
		__builtin_add_overflow((int64_t)device_ns, comm->offset_ns, &mapped) || mapped <= 0)
		return 0;
	return (uint64_t)mapped;
}

static bool times_hold(const struct rt_marker_record *record, uint64_t start_ns, uint64_t stop_ns)
{
	return start_ns != 0 && stop_ns >= start_ns && stop_ns <= record->host_stop_ns + DEVICE_LATE_BY_NS &&
	       start_ns + DEVICE_EARLY_NS >= record->host_ns;
}

/* NCCL's "ncclFloat32" to the table's "float32". */
static void dtype_word(const char *dtype, char ret[sizeof(((struct rt_marker_record *)NULL)->dtype)])
{
	bool prefixed = strncmp(dtype, "nccl", 4) == 0 && dtype[4] >= 'A' && dtype[4] <= 'Z';

	copy_text(ret, sizeof(((struct rt_marker_record *)NULL)->dtype), prefixed ? dtype + 4 : dtype);
	if (prefixed)
		ret[0] = (char)(ret[0] - 'A' + 'a');
}

static void on_operation(struct marker_process *process, const struct rt_marker_record *record, marker_sink sink, void *arg)
{
	bool is_open = record->kind == RT_MARKER_OPEN;
	char dtype[sizeof(record->dtype)];
	const struct marker_comm *comm = marker_decode_comm_of(process, record->identity, false);
	struct coll_device device = {
		.identity = record->identity,
		.name = comm ? comm->name : "",
		.seq = record->peer < 0 && !(record->flags & RT_MARKER_BY_LAUNCH) ? record->seq : 0,
		.op = record->text,
		.count = record->count,
		.host_ns = record->host_ns,
		.start_ns = COLL_UNKNOWN,
		.stop_ns = COLL_UNKNOWN,
		.member = record->member,
		.members = record->members,
		.peer = record->peer < 0 ? -1 : record->peer,
		.captured = record->flags & RT_MARKER_CAPTURED,
		.open = is_open,
		.dtype = dtype,
	};
	uint64_t start_ns, stop_ns;

	dtype_word(record->dtype, dtype);
	if (is_open) {
		process->counts.late++;
		sink(arg, &device);
		return;
	}
	if (record->flags & RT_MARKER_INCOMPLETE || !comm) {
		process->counts.incomplete++;
		sink(arg, &device);
		return;
	}
	start_ns = map_time(comm, record->device_start_ns);
	stop_ns = map_time(comm, record->device_stop_ns);
	if (times_hold(record, start_ns, stop_ns)) {
		device.start_ns = start_ns;
		device.stop_ns = stop_ns;
		process->counts.operations++;
	} else {
		process->counts.bad_clock++;
	}
	sink(arg, &device);
}

static void marker_decode_on_record(struct marker_process *process, const struct rt_marker_record *record, marker_sink sink, void *arg)
{
	if (record->kind == RT_MARKER_COMM)
		on_comm(process, record);
	else if (record->host_ns > record->host_stop_ns || record->host_stop_ns > TIME_MAX_NS)
		process->counts.unreadable++;
	else if (record->kind == RT_MARKER_OPEN || record->kind == RT_MARKER_COLL || record->kind == RT_MARKER_P2P)
		on_operation(process, record, sink, arg);
	else
		process->counts.unreadable++;
}

void marker_decode(struct marker_process *process, const struct rt_marker_event *event, size_t size_bytes, marker_sink sink,
	void *arg)
{
	if (size_bytes < sizeof(*event) || event->records > RT_MARKER_EVENT_RECORDS) {
		process->counts.unreadable++;
		return;
	}
	/* Newer libraries append to records, and change the version if known fields changed. */
	if (event->event.flags != RT_MARKER_VERSION) {
		process->counts.newer++;
		return;
	}
	process->counts.unreadable += event->lost < RT_MARKER_EVENT_RECORDS ? event->lost : RT_MARKER_EVENT_RECORDS;
	for (uint32_t i = 0; i < event->records; i++) {
		struct rt_marker_record record = event->record[i];

		if (record.kind != RT_MARKER_COMM) { /* has its name elsewhere */
			record.text[sizeof(record.text) - 1] = 0;
			record.dtype[sizeof(record.dtype) - 1] = 0;
		}
		if (record.kind != RT_MARKER_NONE) /* NONE: not copied */
			marker_decode_on_record(process, &record, sink, arg);
	}
}
