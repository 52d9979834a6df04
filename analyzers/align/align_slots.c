/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host samples to steps, by time. A sample is shared out to the steps that it lies in when it comes; what lies past the
 * newest step's end waits for the next ones. A step of which less than half was measured is not measured; what is
 * missing of the rest is taken to be like what was. Of the preemptors, a step keeps the one that took most.
 */
#include "analyzers/align/align_internal.h"
#include "analyzers/steps/steps.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The open steps of a process: a ring of slots by step number that grows as frames wait, up to the job's bound. */

#define SLOTS_AHEAD 8 /* a frame's ranks are prefetched that far ahead */

static struct align_slot *align_slots_at(const struct align_process *process, int64_t step)
{
	return &process->slot[(uint64_t)step & (process->slots - 1)];
}

int64_t align_slots_max(const struct align *align, const struct align_process *process)
{
	const struct align_job *job = align_job_of(align, process);

	return process->align == ALIGN_UNPLACED || !job ? ALIGN_UNPLACED_MAX : (int64_t)align_wait_max(job);
}

static bool align_slots_grow(struct align_process *process, uint32_t need)
{
	uint32_t slots = process->slots ? process->slots : 2;
	struct align_slot *old = process->slot, *grown;
	uint32_t old_slots = process->slots;

	while (slots < need)
		slots *= 2;
	grown = calloc(slots, sizeof(*grown));
	if (!grown)
		return false;
	process->slot = grown;
	process->slots = slots;
	for (uint32_t i = 0; i < old_slots; i++) {
		if (old[i].used)
			*align_slots_at(process, old[i].step) = old[i];
	}
	free(old);
	return true;
}

void align_slot_spare_words(struct align_process *process, struct align_slot *slot)
{
	if (slot->words > process->spare.words) {
		free(process->spare.word);
		process->spare.word = slot->word;
		process->spare.words = slot->words;
	} else {
		free(slot->word);
	}
	slot->word = NULL;
	slot->words = 0;
}

static void align_slot_release(struct align *align, struct align_process *process, struct align_slot *slot)
{
	struct align_job *job = align_job_of(align, process);

	if (job)
		job->records -= slot->records;
	if (slot->template) { /* the next ones need no full records */
		align_template_drop(job, &slot->template);
		free(slot->record);
		slot->record = NULL;
		slot->capacity = 0;
	}
	align_slot_spare_words(process, slot);
	if (slot->capacity > process->spare.capacity) {
		free(process->spare.record);
		process->spare.record = slot->record;
		process->spare.capacity = slot->capacity;
	} else {
		free(slot->record);
	}
	slot->used = false; /* and no more of it counts */
}

void align_slots_drop(struct align *align, struct align_process *process, int64_t before)
{
	while (process->low <= process->high && process->low < before) {
		struct align_slot *slot = align_slot_find(process, process->low);

		if (slot)
			align_slot_release(align, process, slot);
		process->low++;
	}
}

static bool align_slots_reserve(struct align *align, struct align_process *process, int64_t step)
{
	int64_t max = align_slots_max(align, process), low, high;

	if (process->newest != ALIGN_NO_STEP && process->newest - step >= max)
		return false;
	if (process->high < process->low) {
		process->low = step;
		process->high = step - 1;
	}
	if (step - process->high > max || process->low - step >= max)
		return false;
	if (step < process->low && process->high - step >= max)
		return false;
	if (step - process->low >= max)
		align_slots_drop(align, process, step - max + 1);
	if (process->high < process->low) {
		process->low = step;
		process->high = step - 1;
	}
	low = step < process->low ? step : process->low;
	high = step > process->high ? step : process->high;
	if ((uint64_t)(high - low) + 1 > process->slots && !align_slots_grow(process, (uint32_t)(high - low) + 1))
		return false;
	process->low = low;
	process->high = high;
	return true;
}

struct align_slot *align_slot_get(struct align *align, struct align_process *process, int64_t step)
{
	struct align_slot *slot = align_slot_find(process, step);
	struct align_job *job = align_job_of(align, process);

	if (slot)
		return slot;
	if (!job || (process->align != ALIGN_UNPLACED && align_frame_of(process, step) < job->head))
		return NULL;
	if (!align_slots_reserve(align, process, step))
		return NULL;
	slot = align_slots_at(process, step);
	*slot = (struct align_slot){.step = step, .used = true};
	slot->record = process->spare.record;
	slot->capacity = process->spare.capacity;
	process->spare.record = NULL;
	process->spare.capacity = 0;
	return slot;
}

int64_t align_slot_at(const struct align_process *process, uint64_t time_ns)
{
	int64_t low = process->low > process->by_time_low ? process->low : process->by_time_low;
	/* Beyond what is open nothing can be found: numbers may be as far apart as they like. */
	int64_t high = process->newest < process->high ? process->newest : process->high;

	if (process->newest == ALIGN_NO_STEP)
		return ALIGN_NO_STEP;
	if (time_ns >= process->newest_end_ns)
		return process->newest + 1;
	/* The first step that ends after that time; those that are missing end with the next one. */
	while (low < high) {
		int64_t middle = low + (high - low) / 2, next = middle;
		const struct align_slot *slot = align_slot_find(process, next);

		while (next < high && !(slot && slot->closed))
			slot = align_slot_find(process, ++next);
		if (!slot || !slot->closed || slot->start_ns + slot->step_ns > time_ns)
			high = middle;
		else
			low = next + 1;
	}
	{
		const struct align_slot *slot = align_slot_find(process, low);

		return slot && slot->closed && slot->start_ns <= time_ns && time_ns - slot->start_ns < slot->step_ns
			       ? low
			       : ALIGN_NO_STEP;
	}
}

void align_process_free(struct align *align, struct align_process *process)
{
	if (!process)
		return;
	align_slots_drop(align, process, INT64_MAX);
	align_period_free(process->host.period);
	if (process->template)
		align_template_drop(align_job_of(align, process), &process->template);
	free(process->parts.part);
	free(process->host.sample);
	free(process->spare.word);
	free(process->spare.record);
	free(process->slot);
	free(process);
}

void align_slot_prefetch(const struct align_job *job, size_t index)
{
	const struct align_process *process;

	if (index + 2 * SLOTS_AHEAD < job->ranks)
		align_prefetch(job->live[index + 2 * SLOTS_AHEAD], 128);
	if (index + SLOTS_AHEAD >= job->ranks)
		return;
	process = job->live[index + SLOTS_AHEAD];
	if (process->slots)
		align_prefetch(align_slots_at(process, job->head - process->offset), sizeof(struct align_slot));
}

/*
 * Stages to the step thread's split (align_split.c), and what class a step is. The step thread is the one that shows
 * loop stages best (stage_rank()).
 */

#define CHECKPOINT_NS_MAX 86400000000000ULL

/* Is it the step thread's? A thread that shows a better stage becomes it, and one that shows as good a one once the old
 * one has shown none for two steps. */
static bool on_step_thread(struct align_process *process, const struct align_stage *stage)
{
	unsigned rank = stage_rank(stage->kind);
	bool quiet = stage->step != STEPS_NONE && stage->step > process->thread.step + 2;

	if (stage->thread_id != process->thread.id && (rank > process->thread.rank || (quiet && rank))) {
		process->thread.id = stage->thread_id;
		process->thread.rank = rank;
		process->thread.step = stage->step;
		process->parts.count = process->parts.aside = 0; /* of the other one */
	}
	if (stage->thread_id != process->thread.id)
		return false;
	if (rank > process->thread.rank)
		process->thread.rank = rank;
	if (stage->step > process->thread.step)
		process->thread.step = stage->step;
	return true;
}

/* Of no step: an evaluation, or a checkpoint, before the step that comes next. */
static void align_slots_aside(struct align_process *process, const struct align_stage *stage)
{
	if (stage->kind == STAGE_CHECKPOINT)
		process->parts.aside_checkpoint = true;
	else if ((stage->kind == STAGE_DATALOADER || stage->kind == STAGE_FORWARD) && stage->depth == 0)
		process->parts.aside_ns += stage->duration_ns;
	if (process->parts.aside_ns > ALIGN_TIME_MAX)
		process->parts.aside_ns = ALIGN_TIME_MAX;
}

void align_stages_add(struct align *align, struct align_process *process, const struct align_stage *stage)
{
	struct align_job *job = align_job_of(align, process);
	bool of_open = stage->step != STEPS_NONE && (process->newest == ALIGN_NO_STEP || stage->step > process->newest);
	struct align_slot *slot;
	bool own;

	process->loop_seen = process->loop_seen || stage_is_loop(stage->kind);
	if (stage->kind == STAGE_CHECKPOINT && stage->duration_ns > job->checkpoint_ns &&
		stage->duration_ns < CHECKPOINT_NS_MAX)
		job->checkpoint_ns = stage->duration_ns;
	if (of_open && stage_is_loop(stage->kind))
		own = on_step_thread(process, stage);
	else
		own = process->thread.rank && stage->thread_id == process->thread.id;
	if (own)
		align_split_add(align, process, stage);
	if (stage->step == STEPS_NONE)
		align_slots_aside(process, stage);
	if (!of_open || (stage_is_loop(stage->kind) && !own))
		return; /* or it ends after its step, whose sums are final */
	slot = align_slot_get(align, process, stage->step);
	if (!slot || slot->closed)
		return;
	slot->checkpoint = slot->checkpoint || stage->kind == STAGE_CHECKPOINT;
}

static enum frame_class align_stages_class_of(
	const struct align_process *process, const struct align_slot *slot, uint64_t gap_ns)
{
	uint64_t median;

	if (process->steps_seen < ALIGN_FIRST)
		return FRAME_FIRST;
	if (slot->checkpoint || process->parts.aside_checkpoint)
		return FRAME_CHECKPOINT;
	if (!process->parts.aside_ns && !gap_ns)
		return FRAME_TRAIN;
	median = align_process_median(process);
	if (process->parts.aside_ns > median)
		return FRAME_EVALUATION;
	return gap_ns / ALIGN_PAUSE > median ? FRAME_FIRST : FRAME_TRAIN;
}

void align_stages_close(struct align_process *process, struct align_slot *slot, uint64_t gap_ns)
{
	slot->class = (uint8_t)align_stages_class_of(process, slot, gap_ns);
	process->parts.aside_ns = 0;
	process->parts.aside_checkpoint = false;
}

#define COVERED_MIN 0.5

static uint64_t align_host_end_of(const struct align_sample *sample)
{
	return sample->start_ns + sample->duration_ns;
}

static void align_host_share(struct align_slot *slot, const struct align_sample *sample)
{
	uint64_t slot_end_ns = slot->start_ns + slot->step_ns, end_ns = align_host_end_of(sample);
	uint64_t from = sample->start_ns > slot->start_ns ? sample->start_ns : slot->start_ns;
	uint64_t to = end_ns < slot_end_ns ? end_ns : slot_end_ns;
	struct align_host_sum *sum = &slot->host;
	double part;

	if (to <= from)
		return;
	part = (double)(to - from) / (double)sample->duration_ns;
	for (int i = 0; i < HOST_MEASURE_MAX; i++) {
		if (sample->value[i] == FRAME_UNKNOWN)
			continue;
		if (i == HOST_LAUNCH_GAP) {
			sum->sum[i] = fmax(sum->sum[i], (double)sample->value[i]);
			sum->covered_ns[i] = (double)slot->step_ns;
			continue;
		}
		sum->sum[i] += (double)sample->value[i] * part;
		sum->covered_ns[i] += (double)(to - from);
	}
	if (sample->preemptor_pid && sample->preemptor_pid == sum->preemptor_pid) {
		sum->preemptor_ns += (double)sample->preemptor_ns * part;
	} else if ((double)sample->preemptor_ns * part > sum->preemptor_ns) {
		sum->preemptor_ns = (double)sample->preemptor_ns * part;
		sum->preemptor_pid = sample->preemptor_pid;
		memcpy(sum->preemptor_name, sample->preemptor_name, sizeof(sum->preemptor_name));
	}
}

void align_host_close(struct align_process *process, struct align_slot *slot)
{
	uint64_t slot_end_ns = slot->start_ns + slot->step_ns;
	uint32_t kept = 0;

	for (uint32_t i = 0; i < process->host.samples; i++) {
		align_host_share(slot, &process->host.sample[i]);
		if (align_host_end_of(&process->host.sample[i]) > slot_end_ns)
			process->host.sample[kept++] = process->host.sample[i];
	}
	process->host.samples = kept;
}

/* The two oldest become one. */
static void align_host_merge(struct align_process *process)
{
	struct align_sample *a = &process->host.sample[0], *b = &process->host.sample[1];

	if (b->preemptor_pid == a->preemptor_pid) {
		a->preemptor_ns += b->preemptor_ns;
	} else if (b->preemptor_ns > a->preemptor_ns) {
		a->preemptor_ns = b->preemptor_ns;
		a->preemptor_pid = b->preemptor_pid;
		memcpy(a->preemptor_name, b->preemptor_name, sizeof(a->preemptor_name));
	}
	for (int i = 0; i < HOST_MEASURE_MAX; i++) {
		if (a->value[i] == FRAME_UNKNOWN)
			a->value[i] = b->value[i];
		else if (b->value[i] != FRAME_UNKNOWN && i == HOST_LAUNCH_GAP)
			a->value[i] = b->value[i] > a->value[i] ? b->value[i] : a->value[i];
		else if (b->value[i] != FRAME_UNKNOWN)
			a->value[i] += b->value[i];
	}
	a->duration_ns = align_host_end_of(b) > a->start_ns ? align_host_end_of(b) - a->start_ns : a->duration_ns;
	memmove(b, b + 1, (process->host.samples - 2) * sizeof(*b));
	process->host.samples--;
}

static void align_host_keep(struct align_process *process, const struct align_sample *sample)
{
	if (!process->host.sample)
		process->host.sample = calloc(ALIGN_SAMPLES, sizeof(*process->host.sample));
	if (!process->host.sample)
		return;
	if (process->host.samples == ALIGN_SAMPLES)
		align_host_merge(process);
	process->host.sample[process->host.samples++] = *sample;
}

/* It may not have taken more than was waited. */
static void keep_preemptor(struct align_sample *sample, const struct align_host *host)
{
	const char *name = host->preemptor_name ? host->preemptor_name : "";
	uint64_t waited_ns = sample->value[HOST_RUN_DELAY];

	if (!host->preemptor_pid || waited_ns == FRAME_UNKNOWN || strcmp(name, ALIGN_OURS) == 0)
		return;
	sample->preemptor_pid = host->preemptor_pid;
	sample->preemptor_ns = host->preemptor_ns < waited_ns ? host->preemptor_ns : waited_ns;
	snprintf(sample->preemptor_name, sizeof(sample->preemptor_name), "%s", name);
}

static uint64_t align_slots_measured(uint64_t value)
{
	return value < ALIGN_TIME_MAX ? value : FRAME_UNKNOWN;
}

void align_host_add(struct align *align, struct align_process *process, const struct align_host *host)
{
	struct align_sample sample = {.start_ns = host->start_ns, .duration_ns = host->duration_ns};

	for (int i = 0; i < HOST_MEASURE_MAX; i++)
		sample.value[i] = align_slots_measured(host->measure[i]);
	if (!sample.duration_ns) {
		align->counts.dropped++;
		return;
	}
	keep_preemptor(&sample, host);
	if ((sample.value[HOST_CPU] != FRAME_UNKNOWN || sample.value[HOST_RUN_DELAY] != FRAME_UNKNOWN) &&
		sample.duration_ns <= ALIGN_SETTLE_NS) {
		process->host.live = true;
		if (align_host_end_of(&sample) > process->host.until_ns)
			process->host.until_ns = align_host_end_of(&sample);
	}
	if (process->newest == ALIGN_NO_STEP || align_host_end_of(&sample) > process->newest_end_ns)
		align_host_keep(process, &sample);
	/* Backwards, from the newest that has a slot: most samples are of the last steps. */
	for (int64_t step = process->newest < process->high ? process->newest : process->high;
		step >= process->low && step >= process->by_time_low; step--) {
		struct align_slot *slot = align_slot_find(process, step);

		if (!slot || !slot->closed)
			continue;
		if (slot->start_ns + slot->step_ns <= sample.start_ns)
			break;
		align_host_share(slot, &sample);
	}
}

/* A sum over what was covered of the step, as that of all of it. */
static uint64_t align_slots_whole(const struct align_slot *slot, int what, double value)
{
	double covered_ns = slot->host.covered_ns[what], step_ns = (double)slot->step_ns;

	if (covered_ns <= 0 || covered_ns < COVERED_MIN * step_ns)
		return FRAME_UNKNOWN;
	if (covered_ns < step_ns)
		value *= step_ns / covered_ns;
	return value < (double)ALIGN_TIME_MAX ? (uint64_t)llround(value) : ALIGN_TIME_MAX;
}

static uint64_t align_host_value_of(const struct align_slot *slot, int what)
{
	return align_slots_whole(slot, what, slot->host.sum[what]);
}

void align_host_write(const struct align_slot *slot, struct frame_host *ret)
{
	uint64_t preemptor_ns = align_slots_whole(slot, HOST_RUN_DELAY, slot->host.preemptor_ns);

	*ret = (struct frame_host){.preemptor_ns = preemptor_ns == FRAME_UNKNOWN ? 0 : preemptor_ns,
		.preemptor_pid = preemptor_ns == FRAME_UNKNOWN ? 0 : slot->host.preemptor_pid};
	memcpy(ret->preemptor_name, slot->host.preemptor_name, sizeof(ret->preemptor_name));
	for (int i = 0; i < HOST_MEASURE_MAX; i++)
		ret->measure[i] = align_host_value_of(slot, i);
}
