/* SPDX-License-Identifier: Apache-2.0 */
/* Records of sysTrace's files to the aligner, in the order of time. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/offline/systrace/systrace_internal.h"
#include "analyzers/base/array.h"
#include "analyzers/base/fnv1a.h"
#include "analyzers/steps/steps.h"

/* Who was there before with this rank has ended; of the others it is unknown whether they continue. */
static bool is_replaced(const struct systrace_feed *feed, const struct systrace_process *process)
{
	for (size_t i = 0; i < feed->processes; i++) {
		const struct systrace_process *other = &feed->process[i];

		if (other != process && other->rank == process->rank && strcmp(other->job, process->job) == 0 &&
			other->first_ns >= process->last_ns && other->last_ns > process->last_ns)
			return true;
	}
	return false;
}

static int add_lives(struct systrace_feed *feed)
{
	int r = 0;

	for (size_t i = 0; i < feed->processes && r == 0; i++) {
		const struct systrace_process *process = &feed->process[i];
		struct systrace_event event = {
			.start_ns = process->first_ns,
			.end_ns = process->first_ns,
			.process = (uint32_t)i,
			.what = SYSTRACE_BEGIN,
		};

		if (!process->first_ns)
			continue;
		r = systrace_events_add(&feed->events, &event);
		event.end_ns = process->last_ns;
		event.what = SYSTRACE_END;
		if (r == 0 && is_replaced(feed, process))
			r = systrace_events_add(&feed->events, &event);
	}
	return r;
}

/* How many processes show operations of each group. */
static int count_members(struct systrace_feed *feed)
{
	uint64_t *pair = calloc(feed->events.count + 1, sizeof(*pair));
	size_t pairs = 0;

	if (!pair)
		return -ENOMEM;
	for (size_t i = 0; i < feed->events.count; i++) {
		const struct systrace_event *event = &feed->events.event[i];

		if (event->what == SYSTRACE_OP)
			pair[pairs++] = (uint64_t)event->comm << 32 | event->process;
	}
	if (pairs)
		qsort(pair, pairs, sizeof(*pair), compare_u64);
	for (size_t i = 0; i < pairs; i++)
		feed->members[pair[i] >> 32] += i == 0 || pair[i] != pair[i - 1];
	free(pair);
	return 0;
}

int systrace_emit_prepare(struct systrace_feed *feed)
{
	int r = count_members(feed);

	if (r == 0)
		r = systrace_join(&feed->events, feed->processes);
	if (r == 0)
		r = systrace_events_steps(&feed->events);
	if (r == 0)
		r = add_lives(feed);
	if (r < 0)
		return r;
	systrace_events_sort(&feed->events);
	for (size_t i = 0; i < feed->events.count; i++) {
		const struct systrace_event *event = &feed->events.event[i];

		feed->counts.steps += event->what == SYSTRACE_STEP;
		feed->counts.ops += event->what == SYSTRACE_OP;
		feed->counts.coll_not_joined += event->what == SYSTRACE_OP && !event->number;
	}
	return 0;
}

static void systrace_emit_begin(const struct systrace_feed *feed, struct systrace_process *process, struct align *align)
{
	int32_t highest = 0;
	struct align_rank rank = {
		.job = process->job,
		.rank = process->rank,
		.host = process->host,
		.card = "",
		.start_ns = process->first_ns,
		.uid = ALIGN_UID_UNKNOWN,
		.from_start = true, /* counters of calls are the same on all ranks */
	};

	for (size_t i = 0; i < feed->processes; i++)
		if (strcmp(feed->process[i].job, process->job) == 0 && feed->process[i].rank > highest)
			highest = feed->process[i].rank;
	rank.world_size = (uint32_t)highest + 1;
	process->number = align_rank_new(align, &rank);
}

static void emit_op(struct systrace_feed *feed, const struct systrace_event *event, struct align *align)
{
	const char *group = text_pool_text(feed->groups, event->comm);
	char communicator[20];

	snprintf(communicator, sizeof(communicator), "%016llx", (unsigned long long)fnv1a_text(FNV1A_START, group));
	align_comm(align, feed->process[event->process].number, communicator, COMM_KIND_UNCLEAR,
		feed->members[event->comm], -1);
	align_op(align, feed->process[event->process].number,
		&(struct align_op){
			.communicator = communicator,
			.seq = event->number,
			.op = text_pool_text(feed->ops, event->op),
			.step = STEPS_NONE,
			.start_ns = event->start_ns,
			.duration_ns = event->end_ns - event->start_ns,
			.bytes = event->bytes,
			.lead_ns = ALIGN_LEAD_UNKNOWN,
			.peer = -1,
			.member = -1,
			.tier = event->is_host ? FRAME_TIER_HOST : FRAME_TIER_DEVICE,
		});
}

static void systrace_emit_publish(struct systrace_feed *feed, const struct systrace_event *event, struct align *align)
{
	struct systrace_process *process = &feed->process[event->process];

	if (process->is_pipeline)
		return;
	switch ((enum systrace_what)event->what) {
	case SYSTRACE_BEGIN:
		systrace_emit_begin(feed, process, align);
		return;
	case SYSTRACE_END:
		align_rank_end(align, process->number, event->end_ns);
		return;
	case SYSTRACE_STAGE:
		align_stage(align, process->number,
			&(struct align_stage){
				.step = event->number ? (int64_t)event->number - 1 : STEPS_NONE,
				.kind = (enum stage_kind)event->kind,
				.start_ns = event->start_ns,
				.duration_ns = event->end_ns - event->start_ns,
			});
		return;
	case SYSTRACE_STEP:
		align_step(align, process->number,
			&(struct align_step){
				(int64_t)event->number - 1, event->start_ns, event->end_ns - event->start_ns, false});
		return;
	case SYSTRACE_OP:
		if (event->number)
			emit_op(feed, event, align);
		return;
	}
}

static uint64_t systrace_emit_next(const void *arg)
{
	const struct systrace_feed *feed = arg;

	return feed->next < feed->events.count ? feed->events.event[feed->next].end_ns : UINT64_MAX;
}

static int feed_next(void *arg, const struct source_sink *sink, char *error, size_t error_size)
{
	struct systrace_feed *feed = arg;

	systrace_emit_publish(feed, &feed->events.event[feed->next++], sink->align);
	return 0;
}

const struct source_ops systrace_feed_source = {.next = systrace_emit_next, .feed = feed_next};
