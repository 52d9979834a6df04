/* SPDX-License-Identifier: Apache-2.0 */
/* The doors of the framer: what comes in is checked here, counted where it makes no sense, and handed on. */
#include "analyzers/detect/framer_internal.h"

#include <stdlib.h>

#include "analyzers/steps.h"

struct framer *framer_new(const struct framer_sink *sink)
{
	struct framer *framer = calloc(1, sizeof(*framer));

	if (framer && sink)
		framer->sink = *sink;
	return framer;
}

struct framer *framer_free(struct framer *framer)
{
	if (!framer)
		return NULL;
	framer_rooms_free(framer);
	framer_groups_free(&framer->scratch);
	framer_names_free(framer->names);
	free(framer);
	return NULL;
}

static void align_remember(struct framer_process *process, const struct framer_step *step)
{
	if (!process->first_end_ns)
		process->first_end_ns = step->start_ns + step->duration_ns;
	process->past[process->steps_seen++ % FRAMER_HISTORY] = (struct framer_past){
		.step = step->step, .end_ns = step->start_ns + step->duration_ns, .step_ns = step->duration_ns};
	process->newest = step->step;
	process->newest_end_ns = step->start_ns + step->duration_ns;
}

static uint64_t gap_before(struct framer_process *process, const struct framer_step *step)
{
	if (process->newest == FRAMER_NO_STEP)
		return 0;
	if (step->start_ns >= process->newest_end_ns)
		return step->start_ns - process->newest_end_ns;
	process->by_time_low = step->step; /* the clock went back: what was before cannot be found by time */
	return 0;
}

/* What came before the step may have had numbers that are far off; the step's own is the one that counts. */
static struct framer_slot *slot_for(struct framer *framer, struct framer_process *process, int64_t step)
{
	const struct framer_room *job = framer_room_of(framer, process);
	struct framer_slot *slot = framer_slot_get(framer, process, step);

	if (slot || (step >= process->low && step - process->high <= framer_slots_max(framer, process)))
		return slot;
	if (process->align != FRAMER_UNPLACED && framer_frame_of(process, step) < job->head)
		return NULL;
	framer_slots_drop(framer, process, INT64_MAX);
	return framer_slot_get(framer, process, step);
}

void framer_step_closed(struct framer *framer, struct framer_process *process, const struct framer_step *step)
{
	struct framer_room *job = framer_room_of(framer, process);
	struct framer_slot *slot;
	uint64_t gap_ns;

	if (process->newest != FRAMER_NO_STEP && step->step <= process->newest) {
		framer->counts.dropped++;
		return;
	}
	if (process->newest != FRAMER_NO_STEP && step->step - process->newest > framer_slots_max(framer, process))
		framer_align_lose(framer, process);
	gap_ns = gap_before(process, step);
	slot = slot_for(framer, process, step->step);
	if (slot) {
		slot->start_ns = step->start_ns;
		slot->step_ns = step->duration_ns;
		framer_stages_close(process, slot, gap_ns);
		framer_host_close(process, slot);
		slot->closed = true;
		slot->partial = slot->partial && !framer_is_watched(process, slot);
	} else {
		framer->counts.late++;
	}
	align_remember(process, step);
	if (process->high < process->low) { /* no slot: what walks back from the newest one has nothing to look at */
		process->low = step->step + 1;
		process->high = step->step;
	}
	process->absent = false;
	if (slot && process->align != FRAMER_UNPLACED)
		framer_wait_ended(framer, job, framer_frame_of(process, step->step), process->newest_end_ns);
	framer_align_step(framer, process);
	framer_wait_update(job, process);
	framer_wait_pump(framer, job);
}

void framer_step(struct framer *framer, int number, const struct framer_step *step)
{
	struct framer_process *process = framer_living(framer, number);

	if (!process)
		return;
	if (!framer_is_step(step->step) || !framer_is_time(step->start_ns, step->duration_ns)) {
		framer->counts.dropped++;
		return;
	}
	process->loop_seen = true;
	if (process->period) { /* guessing is over */
		framer_period_free(process->period);
		process->period = NULL;
		framer_align_lose(framer, process);
	}
	framer_step_closed(framer, process, step);
}

void framer_stage(struct framer *framer, int number, const struct framer_stage *stage)
{
	struct framer_process *process = framer_living(framer, number);

	if (!process)
		return;
	if (!framer_is_time(stage->start_ns, stage->duration_ns) || (unsigned)stage->kind >= STAGE_KIND_MAX ||
		(stage->step != STEPS_NONE && !framer_is_step(stage->step))) {
		framer->counts.dropped++;
		return;
	}
	framer_stages_add(framer, process, stage);
}

void framer_comm(struct framer *framer, int number, const char *communicator, enum comm_kind kind, uint32_t members,
	int32_t member)
{
	struct framer_process *process = framer_living(framer, number);

	(void)member;
	if (process && communicator && *communicator && (unsigned)kind < COMM_KIND_MAX)
		framer_names_comm(framer, process, communicator, kind, members);
}

void framer_host(struct framer *framer, int number, const struct framer_host *host)
{
	struct framer_process *process = framer_living(framer, number);

	if (!process)
		return;
	if (!framer_is_time(host->start_ns, host->duration_ns)) {
		framer->counts.dropped++;
		return;
	}
	framer_host_add(framer, process, host);
	if (process->waited) {
		struct framer_room *job = framer_room_of(framer, process);

		framer_wait_update(job, process);
		framer_wait_pump(framer, job);
	}
}

void framer_lost(struct framer *framer, int number, uint64_t records)
{
	struct framer_process *process = framer_living(framer, number);
	struct framer_room *job;

	if (!process)
		return;
	job = framer_room_of(framer, process);
	job->lost = job->lost + records < records ? UINT64_MAX : job->lost + records;
	if (process->newest == FRAMER_NO_STEP)
		return;
	process->lost_until = process->newest + 1;
	framer_wait_update(job, process);
	framer_wait_pump(framer, job);
}

void framer_watched(struct framer *framer, bool on, uint64_t from_ns)
{
	for (size_t i = 0; i < framer->processes; i++) {
		struct framer_process *process = framer->process[i];

		if (!process || process->ended)
			continue;
		process->watched_ns = on ? from_ns : 0;
		if (!on)
			process->unwatched_ns = from_ns;
	}
	for (size_t i = 0; i < FRAMER_JOBS_MAX; i++) {
		if (framer->job[i])
			framer_wait_recount(framer->job[i]);
	}
}

void framer_advance(struct framer *framer, uint64_t now_ns)
{
	if (now_ns >= FRAMER_TIME_MAX)
		return;
	if (now_ns > framer->now_ns)
		framer->now_ns = now_ns;
	for (size_t i = 0; i < FRAMER_JOBS_MAX; i++) {
		if (framer->job[i])
			framer_wait_tick(framer, framer->job[i]);
	}
}

void framer_end(struct framer *framer)
{
	for (size_t i = 0; i < FRAMER_JOBS_MAX; i++) {
		struct framer_room *job = framer->job[i];

		if (!job)
			continue;
		framer_align_tick(framer, job, true);
		framer_wait_flush(framer, job, job->top);
	}
}

void framer_counts(const struct framer *framer, struct framer_counts *ret)
{
	*ret = framer->counts;
}
