/* SPDX-License-Identifier: Apache-2.0 */
/* Texts are cut to DUMP_TEXT_BYTES, so that a record fits DUMP_RECORD_BYTES. */
#include "analyzers/dump/dump_rows.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "proto/systrace.pb-c.h"

#define NSEC_PER_USEC 1000
#define OFFCPU_KIND 4

const char dump_csv_header[] =
	"Flag,Id,Kind,Name,SourceKind,Timestamp,msptiObjectId_Ds_DeviceId,msptiObjectId_Ds_StreamId,"
	"msptiObjectId_Pt_ProcessId,msptiObjectId_Pt_ThreadId\n";

static uint64_t dump_encode_natural(int64_t n)
{
	return n > 0 ? (uint64_t)n : 0;
}

static uint32_t dump_encode_natural32(int64_t n)
{
	return n > 0 && n <= UINT32_MAX ? (uint32_t)n : 0;
}

/* End in us. Start and end round down, so that consecutive intervals do not overlap. */
static uint64_t end_us(int64_t start_ns, int64_t duration_ns)
{
	int64_t end_ns;

	if (duration_ns <= 0 || __builtin_add_overflow(start_ns, duration_ns, &end_ns))
		end_ns = start_ns;
	return dump_encode_natural(end_ns) / NSEC_PER_USEC;
}

static size_t dump_encode_pack(const ProtobufCMessage *message, uint8_t *ret)
{
	return protobuf_c_message_get_packed_size(message) <= DUMP_RECORD_BYTES ? protobuf_c_message_pack(message, ret)
										: 0;
}

size_t dump_encode_timeline_head(int64_t rank, const char *job, uint8_t *ret)
{
	Systrace__Timeline message = SYSTRACE__TIMELINE__INIT;
	char text[DUMP_TEXT_BYTES];

	dump_utf8(job && *job ? job : "NONE", text, sizeof(text));
	message.rank = dump_encode_natural32(rank);
	message.job = text;
	return dump_encode_pack(&message.base, ret);
}

size_t dump_encode_stage(const struct dump_stage *stage, uint8_t *ret)
{
	Systrace__TimelineStage item = SYSTRACE__TIMELINE_STAGE__INIT, *items[] = {&item};
	Systrace__Timeline message = SYSTRACE__TIMELINE__INIT;
	char name[DUMP_TEXT_BYTES], mark[DUMP_TEXT_BYTES], *frames[] = {mark};

	dump_utf8(dump_stage_name(stage->stage, stage->name), name, sizeof(name));
	dump_utf8(stage->name, mark, sizeof(mark));
	item.number = dump_encode_natural32(stage->step);
	item.name = name;
	item.start_us = dump_encode_natural(stage->start_ns) / NSEC_PER_USEC;
	item.end_us = end_us(stage->start_ns, stage->duration_ns);
	item.frames = frames;
	item.n_frames = mark[0] && strcmp(mark, name) != 0;
	message.stages = items;
	message.n_stages = 1;
	return dump_encode_pack(&message.base, ret);
}

/* MSPTI flags of start and end: 2 and 4 for host only, 16 and 32 with device. */
struct side {
	int64_t start_ns, duration_ns;
	unsigned source; /* 0: host, 1: device */
	int64_t a, b;	 /* process and thread, or device and stream */
};

static size_t encode_side(const struct dump_op *op, const struct side *side, const char *name, char *ret, size_t size)
{
	bool device = op->device_start_ns != DUMP_UNKNOWN;
	int64_t end_ns;
	int n = 0, m = 0;

	if (side->start_ns == DUMP_UNKNOWN)
		return 0;
	n = snprintf(ret, size, "%d,%" PRIu64 ",1,%s,%u,%" PRIu64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 "\n",
		device ? 16 : 2, op->id, name, side->source, dump_encode_natural(side->start_ns), side->a, side->b,
		side->a, side->b);
	if (side->duration_ns != DUMP_UNKNOWN && side->duration_ns >= 0 &&
		!__builtin_add_overflow(side->start_ns, side->duration_ns, &end_ns))
		m = snprintf(ret + n, size - (size_t)n,
			"%d,%" PRIu64 ",1,,%u,%" PRIu64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 "\n",
			device ? 32 : 4, op->id, side->source, dump_encode_natural(end_ns), side->a, side->b, side->a,
			side->b);
	return (size_t)n + (size_t)m;
}

size_t dump_encode_op(const struct dump_op *op, uint8_t *ret)
{
	char word[128], group[DUMP_TEXT_BYTES], dtype[64], name[2 * DUMP_TEXT_BYTES];
	const struct side sides[] = {
		{op->host_start_ns, op->host_duration_ns, 0, op->pid, op->thread_id},
		{op->device_start_ns, op->device_duration_ns, 1, op->device, 0},
	};
	size_t used = 0;

	dump_op_name(op->op, word, sizeof(word));
	dump_field(op->communicator, group, sizeof(group));
	dump_field(op->dtype, dtype, sizeof(dtype));
	snprintf(name, sizeof(name), "comm:%s!%s!%s!%" PRIu64, word, group[0] ? group : "unknown",
		dtype[0] ? dtype : "unknown", dump_encode_natural(op->count));
	for (size_t i = 0; i < sizeof(sides) / sizeof(sides[0]); i++)
		used += encode_side(op, &sides[i], name, (char *)ret + used, DUMP_RECORD_BYTES - used);
	return used;
}

size_t dump_encode_memory_head(int64_t rank, uint8_t *ret)
{
	Systrace__Memory message = SYSTRACE__MEMORY__INIT;

	message.rank = dump_encode_natural32(rank);
	return dump_encode_pack(&message.base, ret);
}

size_t dump_encode_memory(const struct dump_memory *memory, uint8_t *ret)
{
	Systrace__Allocation allocation = SYSTRACE__ALLOCATION__INIT, *allocations[] = {&allocation};
	Systrace__Release release = SYSTRACE__RELEASE__INIT, *releases[] = {&release};
	Systrace__Memory message = SYSTRACE__MEMORY__INIT;
	Systrace__Frame item[DUMP_FRAMES_MAX], *items[DUMP_FRAMES_MAX];
	struct dump_frame frame[DUMP_FRAMES_MAX];
	Systrace__StageClass class = (Systrace__StageClass)dump_stage_class(memory->stage);

	if (dump_is_release(memory->op)) {
		release.address = (uint64_t)memory->address; /* all 64 bits are an address */
		release.step = dump_encode_natural32(memory->step);
		release.stage = class;
		message.releases = releases;
		message.n_releases = 1;
	} else {
		allocation.address = (uint64_t)memory->address;
		allocation.step = dump_encode_natural32(memory->step);
		allocation.stage = class;
		allocation.bytes = dump_encode_natural(memory->bytes);
		allocation.frames = items;
		allocation.n_frames = memory->frames ? dump_frames(memory->frames, frame) : 0;
		for (size_t i = 0; i < allocation.n_frames; i++) {
			item[i] = (Systrace__Frame)SYSTRACE__FRAME__INIT;
			item[i].address = frame[i].address;
			item[i].library = frame[i].library;
			items[i] = &item[i];
		}
		message.allocations = allocations;
		message.n_allocations = 1;
	}
	return dump_encode_pack(&message.base, ret);
}

size_t dump_encode_offcpu(const struct dump_offcpu *offcpu, uint8_t *ret)
{
	Systrace__SystemEvent event = SYSTRACE__SYSTEM_EVENT__INIT, *events[] = {&event};
	Systrace__System message = SYSTRACE__SYSTEM__INIT;
	char name[DUMP_TEXT_BYTES], next[DUMP_TEXT_BYTES];

	dump_utf8(offcpu->thread_name, name, sizeof(name));
	dump_utf8(offcpu->next_name, next, sizeof(next));
	event.key = dump_encode_natural32(offcpu->thread_id);
	event.start_us = dump_encode_natural(offcpu->start_ns) / NSEC_PER_USEC;
	event.duration_us = dump_encode_natural(offcpu->duration_ns) / NSEC_PER_USEC;
	event.run_delay_ns = offcpu->run_delay_ns;
	event.kind = OFFCPU_KIND;
	event.rank = dump_encode_natural32(offcpu->rank);
	event.thread_name = name;
	event.next_name = next;
	event.next_pid = dump_encode_natural32(offcpu->next_pid);
	message.events = events;
	message.n_events = 1;
	return dump_encode_pack(&message.base, ret);
}
