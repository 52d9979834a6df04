/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host samples to steps, by time. A sample is shared out to the steps that it lies in when it comes; what lies past the
 * newest step's end waits for the next ones. A step of which less than half was measured is not measured; what is
 * missing of the rest is taken to be like what was. Of those who had its CPUs a step keeps the one that took most.
 */
#include "analyzers/detect/framer_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COVERED_MIN 0.5

enum { CPU, RUN_DELAY, THROTTLED, FAULTS };

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
	for (int i = 0; i < 4; i++) {
		if (sample->value[i] == FRAME_UNKNOWN)
			continue;
		sum->sum[i] += (double)sample->value[i] * part;
		sum->covered_ns[i] += (double)(to - from);
	}
	if (sample->launch_gap_ns != FRAME_UNKNOWN && sample->launch_gap_ns >= sum->launch_gap_ns)
		sum->launch_gap_ns = sample->launch_gap_ns + 1; /* 0: not measured */
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

	for (uint32_t i = 0; i < process->samples; i++) {
		align_host_share(slot, &process->sample[i]);
		if (align_host_end_of(&process->sample[i]) > slot_end_ns)
			process->sample[kept++] = process->sample[i];
	}
	process->samples = kept;
}

/* The two oldest become one. */
static void align_host_merge(struct align_process *process)
{
	struct align_sample *a = &process->sample[0], *b = &process->sample[1];

	if (b->preemptor_pid == a->preemptor_pid) {
		a->preemptor_ns += b->preemptor_ns;
	} else if (b->preemptor_ns > a->preemptor_ns) {
		a->preemptor_ns = b->preemptor_ns;
		a->preemptor_pid = b->preemptor_pid;
		memcpy(a->preemptor_name, b->preemptor_name, sizeof(a->preemptor_name));
	}
	for (int i = 0; i < 4; i++) {
		if (a->value[i] == FRAME_UNKNOWN)
			a->value[i] = b->value[i];
		else if (b->value[i] != FRAME_UNKNOWN)
			a->value[i] += b->value[i];
	}
	if (a->launch_gap_ns == FRAME_UNKNOWN ||
		(b->launch_gap_ns != FRAME_UNKNOWN && b->launch_gap_ns > a->launch_gap_ns))
		a->launch_gap_ns = b->launch_gap_ns;
	a->duration_ns = align_host_end_of(b) > a->start_ns ? align_host_end_of(b) - a->start_ns : a->duration_ns;
	memmove(b, b + 1, (process->samples - 2) * sizeof(*b));
	process->samples--;
}

static void align_host_keep(struct align_process *process, const struct align_sample *sample)
{
	if (!process->sample)
		process->sample = calloc(ALIGN_SAMPLES, sizeof(*process->sample));
	if (!process->sample)
		return;
	if (process->samples == ALIGN_SAMPLES)
		align_host_merge(process);
	process->sample[process->samples++] = *sample;
}

/* It may not have taken more than was waited. */
static void keep_preemptor(struct align_sample *sample, const struct align_host *host)
{
	const char *name = host->preemptor_name ? host->preemptor_name : "";
	uint64_t waited_ns = sample->value[RUN_DELAY];

	if (!host->preemptor_pid || waited_ns == FRAME_UNKNOWN || strcmp(name, ALIGN_OURS) == 0)
		return;
	sample->preemptor_pid = host->preemptor_pid;
	sample->preemptor_ns = host->preemptor_ns < waited_ns ? host->preemptor_ns : waited_ns;
	snprintf(sample->preemptor_name, sizeof(sample->preemptor_name), "%s", name);
}

static uint64_t measured(uint64_t value)
{
	return value < ALIGN_TIME_MAX ? value : FRAME_UNKNOWN;
}

void align_host_add(struct align *align, struct align_process *process, const struct align_host *host)
{
	struct align_sample sample = {.start_ns = host->start_ns,
		.duration_ns = host->duration_ns,
		.value = {measured(host->cpu_ns), measured(host->run_delay_ns), measured(host->throttled_ns),
			measured(host->major_faults)},
		.launch_gap_ns = measured(host->launch_gap_ns)};

	if (!sample.duration_ns) {
		align->counts.dropped++;
		return;
	}
	keep_preemptor(&sample, host);
	if ((sample.value[CPU] != FRAME_UNKNOWN || sample.value[RUN_DELAY] != FRAME_UNKNOWN) &&
		sample.duration_ns <= ALIGN_SETTLE_NS) {
		process->host_live = true;
		if (align_host_end_of(&sample) > process->host_until_ns)
			process->host_until_ns = align_host_end_of(&sample);
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
static uint64_t whole(const struct align_slot *slot, int what, double value)
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
	return whole(slot, what, slot->host.sum[what]);
}

void align_host_write(const struct align_slot *slot, struct frame_host *ret)
{
	*ret = (struct frame_host){.cpu_ns = align_host_value_of(slot, CPU),
		.run_delay_ns = align_host_value_of(slot, RUN_DELAY),
		.throttled_ns = align_host_value_of(slot, THROTTLED),
		.major_faults = align_host_value_of(slot, FAULTS),
		.launch_gap_ns = slot->host.launch_gap_ns ? slot->host.launch_gap_ns - 1 : FRAME_UNKNOWN,
		.preemptor_ns = whole(slot, RUN_DELAY, slot->host.preemptor_ns),
		.preemptor_pid = slot->host.preemptor_pid};
	memcpy(ret->preemptor_name, slot->host.preemptor_name, sizeof(ret->preemptor_name));
}
