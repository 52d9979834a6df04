/* SPDX-License-Identifier: Apache-2.0 */
/* The doors of the aligner: what comes in is checked here, counted where it makes no sense, and handed on. */
#include "analyzers/align/align_internal.h"

#include <stdlib.h>

#include "analyzers/steps/steps.h"

struct align *align_new(const struct align_sink *sink)
{
	struct align *align = calloc(1, sizeof(*align));

	if (align && sink)
		align->sink = *sink;
	return align;
}

struct align *align_free(struct align *align)
{
	if (!align)
		return NULL;
	align_jobs_free(align);
	align_groups_free(&align->scratch);
	align_names_free(align->names);
	free(align);
	return NULL;
}

static void align_remember(struct align_process *process, const struct align_step *step)
{
	if (!process->first_end_ns)
		process->first_end_ns = step->start_ns + step->duration_ns;
	process->past[process->steps_seen++ % ALIGN_HISTORY] = (struct align_past){
		.step = step->step, .end_ns = step->start_ns + step->duration_ns, .step_ns = step->duration_ns};
	process->newest = step->step;
	process->newest_end_ns = step->start_ns + step->duration_ns;
}

static uint64_t gap_before(struct align_process *process, const struct align_step *step)
{
	if (process->newest == ALIGN_NO_STEP)
		return 0;
	if (step->start_ns >= process->newest_end_ns)
		return step->start_ns - process->newest_end_ns;
	process->by_time_low = step->step; /* the clock went back: what was before cannot be found by time */
	return 0;
}

/* The longest phases of a job that are no training: what a hang must last longer than. */
static void align_learn_phase(
	struct align_job *job, const struct align_process *process, const struct align_slot *slot, uint64_t gap_ns)
{
	uint64_t *longest_ns = process->steps_seen < ALIGN_FIRST ? &job->warm_ns : &job->phase_ns;
	uint64_t phase_ns = process->steps_seen < ALIGN_FIRST ? slot->step_ns : gap_ns + slot->step_ns;

	if (slot->class != FRAME_TRAIN && phase_ns > *longest_ns)
		*longest_ns = phase_ns;
}

/* What came before the step may have had numbers that are far off; the step's own is the one that counts. */
static struct align_slot *slot_for(struct align *align, struct align_process *process, int64_t step)
{
	const struct align_job *job = align_job_of(align, process);
	struct align_slot *slot = align_slot_get(align, process, step);

	if (slot || (step >= process->low && step - process->high <= align_slots_max(align, process)))
		return slot;
	if (process->align != ALIGN_UNPLACED && align_frame_of(process, step) < job->head)
		return NULL;
	align_slots_drop(align, process, INT64_MAX);
	return align_slot_get(align, process, step);
}

void align_step_closed(struct align *align, struct align_process *process, const struct align_step *step)
{
	struct align_job *job = align_job_of(align, process);
	struct align_slot *slot;
	uint64_t gap_ns;

	if (process->newest != ALIGN_NO_STEP && step->step <= process->newest) {
		align->counts.dropped++;
		return;
	}
	if (process->newest != ALIGN_NO_STEP && step->step - process->newest > align_slots_max(align, process))
		align_steps_lose(align, process);
	gap_ns = gap_before(process, step);
	slot = slot_for(align, process, step->step);
	align_split_close(process, step, slot);
	if (slot) {
		slot->start_ns = step->start_ns;
		slot->step_ns = step->duration_ns;
		align_stages_close(process, slot, gap_ns);
		align_learn_phase(job, process, slot, gap_ns);
		align_host_close(process, slot);
		slot->closed = true;
		slot->partial = slot->partial && !align_is_watched(process, slot);
	} else {
		align->counts.late++;
	}
	align_remember(process, step);
	if (process->high < process->low) { /* no slot: a walk back from the newest one finds none */
		process->low = step->step + 1;
		process->high = step->step;
	}
	process->absent = false;
	if (slot && process->align != ALIGN_UNPLACED)
		align_wait_ended(align, job, align_frame_of(process, step->step), process->newest_end_ns);
	align_steps_step(align, process);
	align_wait_update(job, process);
	align_wait_pump(align, job);
}

void align_step(struct align *align, int number, const struct align_step *step)
{
	struct align_process *process = align_living(align, number);

	if (!process)
		return;
	if (!align_is_step(step->step) || !align_is_time(step->start_ns, step->duration_ns)) {
		align->counts.dropped++;
		return;
	}
	process->loop_seen = true;
	if (process->host.period) { /* guessing is over */
		align_period_free(process->host.period);
		process->host.period = NULL;
		align_steps_lose(align, process);
	}
	align_step_closed(align, process, step);
}

void align_stage(struct align *align, int number, const struct align_stage *stage)
{
	struct align_process *process = align_living(align, number);

	if (!process)
		return;
	if (!align_is_time(stage->start_ns, stage->duration_ns) || (unsigned)stage->kind >= STAGE_KIND_MAX ||
		(stage->step != STEPS_NONE && !align_is_step(stage->step))) {
		align->counts.dropped++;
		return;
	}
	align_stages_add(align, process, stage);
}

void align_comm(struct align *align, int number, const char *communicator, enum comm_kind kind, uint32_t members,
	int32_t member)
{
	struct align_process *process = align_living(align, number);

	if (process && communicator && *communicator && (unsigned)kind < COMM_KIND_MAX)
		align_names_comm(align, process, communicator, kind, members);
}

void align_host(struct align *align, int number, const struct align_host *host)
{
	struct align_process *process = align_living(align, number);

	if (!process)
		return;
	if (!align_is_time(host->start_ns, host->duration_ns)) {
		align->counts.dropped++;
		return;
	}
	align_host_add(align, process, host);
	if (process->waited) {
		struct align_job *job = align_job_of(align, process);

		align_wait_update(job, process);
		align_wait_pump(align, job);
	}
}

void align_lost(struct align *align, int number, uint64_t records)
{
	struct align_process *process = align_living(align, number);
	struct align_job *job;

	if (!process)
		return;
	job = align_job_of(align, process);
	job->lost = job->lost + records < records ? UINT64_MAX : job->lost + records;
	if (process->newest == ALIGN_NO_STEP)
		return;
	process->lost_until = process->newest + 1;
	align_wait_update(job, process);
	align_wait_pump(align, job);
}

void align_watched(struct align *align, bool on, uint64_t from_ns)
{
	for (size_t i = 0; i < align->processes; i++) {
		struct align_process *process = align->process[i];

		if (!process || process->ended)
			continue;
		process->coll.watched_ns = on ? from_ns : 0;
		if (!on)
			process->coll.unwatched_ns = from_ns;
	}
	for (size_t i = 0; i < ALIGN_JOBS_MAX; i++) {
		if (align->job[i])
			align_wait_recount(align->job[i]);
	}
}

void align_advance(struct align *align, uint64_t now_ns)
{
	if (now_ns >= ALIGN_TIME_MAX)
		return;
	if (now_ns > align->now_ns)
		align->now_ns = now_ns;
	for (size_t i = 0; i < ALIGN_JOBS_MAX; i++) {
		if (align->job[i])
			align_wait_tick(align, align->job[i]);
	}
}

void align_end(struct align *align)
{
	for (size_t i = 0; i < ALIGN_JOBS_MAX; i++) {
		struct align_job *job = align->job[i];

		if (!job)
			continue;
		align_steps_tick(align, job, true);
		align_wait_flush(align, job, job->top);
	}
}

void align_counts(const struct align *align, struct align_counts *ret)
{
	*ret = align->counts;
}
