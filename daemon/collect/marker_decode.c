/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/collect/collect_internal.h"

#define TIME_MAX_NS ((uint64_t)INT64_MAX) /* later times are invalid */

/* A process with several devices is several members of one communicator. */
static struct marker_comm *marker_decode_comm_of(
	struct marker_process *process, uint64_t identity, uint32_t member, bool make)
{
	struct marker_comm *oldest = &process->comm[0];

	for (size_t i = 0; i < MARKER_COMMS_MAX; i++) {
		struct marker_comm *comm = &process->comm[i];

		if (comm->identity == identity && comm->member == member && comm->reported)
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
	comm = marker_decode_comm_of(process, report.identity, report.member, true);
	*comm = (struct marker_comm){
		.identity = report.identity,
		.reported = ++process->reports,
		.member = report.member,
		.device = report.flags,
		.nodes = report.nodes,
	};
	copy_text(comm->name, sizeof(comm->name), report.name);
	process->interface = report.interface;
	if (report.lost > process->counts.lost)
		process->counts.lost = report.lost;
}

static bool marker_decode_times_hold(const struct rt_marker_record *record)
{
	return record->device_start_ns != 0 && record->device_stop_ns >= record->device_start_ns &&
	       record->device_stop_ns <= TIME_MAX_NS && record->host_stop_ns != 0;
}

/* NCCL's "ncclFloat32" to the table's "float32". */
static void dtype_word(const char *dtype, char ret[sizeof(((struct rt_marker_record *)NULL)->dtype)])
{
	bool prefixed = strncmp(dtype, "nccl", 4) == 0 && dtype[4] >= 'A' && dtype[4] <= 'Z';

	copy_text(ret, sizeof(((struct rt_marker_record *)NULL)->dtype), prefixed ? dtype + 4 : dtype);
	if (prefixed)
		ret[0] = (char)(ret[0] - 'A' + 'a');
}

static void on_operation(
	struct marker_process *process, const struct rt_marker_record *record, marker_sink sink, void *arg)
{
	bool is_open = record->kind == RT_MARKER_OPEN;
	char dtype[sizeof(record->dtype)];
	const struct marker_comm *comm = marker_decode_comm_of(process, record->identity, record->member, false);
	struct coll_device device = {
		.identity = record->identity,
		.name = comm ? comm->name : "",
		.seq = record->peer < 0 && !(record->flags & RT_MARKER_BY_LAUNCH) ? record->seq : 0,
		.op = record->text,
		.count = record->count,
		.host_ns = record->host_ns,
		.start_ns = COLL_UNKNOWN,
		.stop_ns = COLL_UNKNOWN,
		.heard_ns = record->host_stop_ns,
		.device = comm ? comm->device : 0,
		.member = record->member,
		.members = record->members,
		.peer = record->peer < 0 ? -1 : record->peer,
		.captured = record->flags & RT_MARKER_CAPTURED,
		.open = is_open,
		.dtype = dtype,
	};

	dtype_word(record->dtype, dtype);
	if (is_open) {
		process->counts.late++;
		sink(arg, &device);
		return;
	}
	if (record->flags & RT_MARKER_INCOMPLETE) {
		process->counts.incomplete++;
		sink(arg, &device);
		return;
	}
	if (marker_decode_times_hold(record)) {
		device.start_ns = record->device_start_ns;
		device.stop_ns = record->device_stop_ns;
		process->counts.operations++;
	} else {
		process->counts.bad_times++;
	}
	sink(arg, &device);
}

static void marker_decode_on_record(
	struct marker_process *process, const struct rt_marker_record *record, marker_sink sink, void *arg)
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

void marker_decode(struct marker_process *process, const struct rt_marker_event *event, size_t size_bytes,
	marker_sink sink, void *arg)
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
