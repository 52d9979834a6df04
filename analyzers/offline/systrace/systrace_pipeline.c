/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs that cannot be judged from sysTrace's files: those whose ranks send and receive in their steps (pipelines). A
 * job that sends now and then, fewer times than it makes steps meanwhile, is judged without those operations.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analyzers/offline/systrace/systrace_internal.h"

struct pipeline_job {
	uint64_t transfers, steps; /* steps: while the rank of the step sent and received */
	uint64_t ranks;
};

static struct pipeline_job add_job(const struct systrace_feed *feed, const char *job)
{
	struct pipeline_job ret = {0};

	for (size_t i = 0; i < feed->processes; i++) {
		const struct systrace_process *process = &feed->process[i];

		if (strcmp(process->job, job) != 0)
			continue;
		ret.ranks += process->first_ns != 0;
		ret.transfers += process->transfers;
	}
	for (size_t i = 0; i < feed->events.count && ret.transfers; i++) {
		const struct systrace_event *event = &feed->events.event[i];
		const struct systrace_process *process = &feed->process[event->process];

		ret.steps += event->what == SYSTRACE_STEP && process->transfers && strcmp(process->job, job) == 0 &&
			     event->start_ns >= process->transfers_first_ns &&
			     event->end_ns <= process->transfers_last_ns;
	}
	return ret;
}

static void refuse_job(struct systrace_feed *feed, const char *job, const struct pipeline_job *what)
{
	char sentence[512];

	for (size_t i = 0; i < feed->processes; i++)
		if (strcmp(feed->process[i].job, job) == 0)
			feed->process[i].is_pipeline = true;
	feed->counts.jobs_refused++;
	snprintf(sentence, sizeof(sentence),
		"%s%s%s is a pipeline job (%" PRIu64 " ranks, %" PRIu64
		" sends and receives) and is not judged: sysTrace's files do not say which send belongs to which "
		"receive",
		*job ? "job \"" : "a job without a name", job, *job ? "\"" : "", what->ranks, what->transfers);
	if (feed->options.warning)
		feed->options.warning(feed->options.arg, sentence);
}

void systrace_pipeline_mark(struct systrace_feed *feed)
{
	for (size_t i = 0; i < feed->processes; i++) {
		const struct systrace_process *process = &feed->process[i];
		struct pipeline_job what;

		if (process->is_pipeline || !process->transfers)
			continue;
		what = add_job(feed, process->job);
		if (what.transfers >= what.steps)
			refuse_job(feed, process->job, &what);
	}
}
