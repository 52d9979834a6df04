/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of sysTrace: the first byte chooses the reader, the rest is the file. What comes out is whole: names end, times
 * do not run backwards, and records are no more than the bytes could hold. Their stages and operations go through the
 * making of steps and the joining, which must keep each of them.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/offline/systrace/systrace_files.h"
#include "analyzers/offline/systrace/systrace_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct systrace_events events;
static uint8_t process;

static void check(bool holds)
{
	if (!holds)
		abort();
}

static int on_stage(void *arg, const struct systrace_stage *stage)
{
	const struct systrace_word word = systrace_word_of(stage->name);
	const struct systrace_event event = {
		.start_ns = stage->start_ns,
		.end_ns = stage->end_ns,
		.number = stage->number < UINT32_MAX ? stage->number : 0,
		.process = process++ & 3,
		.what = SYSTRACE_STAGE,
		.kind = (uint8_t)word.kind,
		.op = word.rank,
		.opens = word.opens,
		.closes = word.closes,
	};

	check(arg == &events && memchr(stage->name, 0, sizeof(stage->name)) && stage->end_ns >= stage->start_ns);
	check(word.kind < STAGE_KIND_MAX && !(word.opens && word.closes));
	return systrace_events_add(&events, &event);
}

static int on_op(void *arg, const struct systrace_op *op)
{
	const struct systrace_event event = {
		.start_ns = op->start_ns,
		.end_ns = op->end_ns,
		.bytes = op->bytes,
		.process = process++ & 3,
		.op = (uint8_t)op->op[0] & 3,
		.comm = (uint8_t)op->group[0] & 1,
		.what = SYSTRACE_OP,
	};

	check(arg == &events && op->op[0] && memchr(op->op, 0, sizeof(op->op)));
	check(op->group[0] && memchr(op->group, 0, sizeof(op->group)) && op->end_ns >= op->start_ns);
	return systrace_events_add(&events, &event);
}

static void check_steps(size_t before)
{
	check(events.count >= before);
	for (size_t i = 0; i < events.count; i++)
		check(events.event[i].end_ns >= events.event[i].start_ns &&
			(events.event[i].what != SYSTRACE_STEP || events.event[i].number > 0));
	systrace_events_sort(&events);
	for (size_t i = 1; i < events.count; i++)
		check(events.event[i].end_ns >= events.event[i - 1].end_ns);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct systrace_sink sink = {.stage = on_stage, .op = on_op, .arg = &events};
	struct systrace_said said;
	struct systrace_name name;
	char text[64];
	size_t before;
	FILE *file;

	if (size < 2)
		return 0;
	file = fmemopen((void *)(data + 1), size - 1, "r");
	if (!file)
		return 0;
	process = 0;
	sink.host_ops = data[0] & 4;
	if (data[0] & 1)
		(void)systrace_csv_read(file, &sink, &said);
	else
		(void)systrace_timeline_read(file, &sink, &said);
	fclose(file);
	check(said.records <= size && said.dropped <= size && memchr(said.job, 0, sizeof(said.job)));
	before = events.count;
	check(systrace_join(&events, 4) == 0 && systrace_events_steps(&events) == 0);
	check_steps(before);
	events.count = 0;
	snprintf(text, sizeof(text), "%.*s%s", (int)(size < 50 ? size - 1 : 49), (const char *)data + 1,
		data[0] & 2 ? ".csv" : ".timeline");
	if (systrace_name_parse(text, &name))
		check(name.host[0] && name.rank >= -1);
	return 0;
}
