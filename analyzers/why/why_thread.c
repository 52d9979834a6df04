/* SPDX-License-Identifier: Apache-2.0 */
/* What the step thread went through: stages and times off the CPU, in order of their starts, to parts of a step. */
#include "analyzers/why/why_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "analyzers/base/array.h"
#include "analyzers/base/text.h"

#define DEPTH_MAX 64
/* A thread has a row for each second in which it was off the CPU: rows that are closer, two starts of them, are one
 * time. */
#define GAP_NS 2000000000ULL
#define SHORT_NS 1000000000ULL /* the time of a sum (offcpu_sums) */

static struct why_interval *why_interval_add(struct why_intervals *intervals, uint64_t start_ns, uint64_t end_ns)
{
	struct why_interval *interval;

	if (!array_reserve((void **)&intervals->at, &intervals->capacity, intervals->count + 1, sizeof(*intervals->at),
		    WHY_INTERVALS_MAX))
		return NULL;
	interval = &intervals->at[intervals->count++];
	*interval = (struct why_interval){.start_ns = start_ns, .end_ns = end_ns};
	return interval;
}

int why_covered(struct why *why, uint64_t start_ns, uint64_t end_ns)
{
	struct why_interval *last = why->covered.count ? &why->covered.at[why->covered.count - 1] : NULL;

	if (last && start_ns <= last->end_ns + GAP_NS) {
		last->end_ns = end_ns > last->end_ns ? end_ns : last->end_ns;
		return 0;
	}
	return why_interval_add(&why->covered, start_ns, end_ns) ? 0 : -ENOMEM;
}

int why_stage(struct why *why, const struct why_stage *stage)
{
	struct why_interval *interval = why_interval_add(&why->stages, stage->start_ns, stage->end_ns);

	if (!interval)
		return -ENOMEM;
	interval->activity = (uint8_t)stage->activity;
	return 0;
}

int why_off(struct why *why, const struct why_off *off)
{
	struct why_interval *interval = why_interval_add(&why->off, off->start_ns, off->end_ns);

	if (!interval)
		return -ENOMEM;
	interval->ready_ns = off->ready_ns;
	interval->pid = off->pid;
	snprintf(interval->name, sizeof(interval->name), "%s", off->name ? off->name : "");
	return 0;
}

int why_short(struct why *why, const struct why_short *sum)
{
	struct why_interval *interval = why_interval_add(&why->shorts, sum->start_ns, sum->start_ns + SHORT_NS);

	if (!interval)
		return -ENOMEM;
	interval->off_ns = sum->off_ns;
	interval->ready_ns = sum->ready_ns < sum->off_ns ? sum->ready_ns : sum->off_ns;
	return 0;
}

/* What lies within one before adds nothing; what reaches beyond it, its end. */
int why_off_other(struct why *why, const struct why_off *off)
{
	struct why_intervals *others = &why->off_others;
	uint64_t start_ns = off->start_ns;
	struct why_interval *interval;

	if (others->count && start_ns < others->at[others->count - 1].end_ns)
		start_ns = others->at[others->count - 1].end_ns;
	if (start_ns >= off->end_ns)
		return 0;
	interval = why_interval_add(others, start_ns, off->end_ns);
	if (!interval)
		return -ENOMEM;
	interval->pid = off->pid;
	snprintf(interval->name, sizeof(interval->name), "%s", off->name ? off->name : "");
	return 0;
}

bool why_thread_covers(const struct why *why, const struct why_step *step)
{
	for (size_t i = 0; i < why->covered.count; i++)
		if (why->covered.at[i].start_ns <= step->end_ns - step->step_ns &&
			why->covered.at[i].end_ns + GAP_NS >= step->end_ns)
			return true;
	return false;
}

/* The first interval that may reach beyond a time: intervals of a thread are in order, and one step's are near. */
static size_t why_interval_first(const struct why_intervals *intervals, uint64_t time_ns)
{
	return array_first_not(i, intervals->count, intervals->at[i].start_ns < time_ns);
}

static double why_overlap(uint64_t a_ns, uint64_t b_ns, uint64_t c_ns, uint64_t d_ns)
{
	uint64_t from = a_ns > c_ns ? a_ns : c_ns, to = b_ns < d_ns ? b_ns : d_ns;

	return to > from ? (double)(to - from) : 0;
}

/* Any user of the node chooses the name of a process: what it cannot do on a terminal is taken out here. */
void why_other_add(struct why_other *other, size_t *count, uint32_t pid, const char *name, double ns, bool chosen)
{
	size_t i = 0, least = 0;
	char clean[sizeof(other->name)];

	snprintf(clean, sizeof(clean), "%s", name);
	(void)text_clean(clean);
	while (i < *count && (other[i].pid != pid || strcmp(other[i].name, clean) != 0)) {
		if (other[i].chosen_ns + other[i].usual_ns < other[least].chosen_ns + other[least].usual_ns)
			least = i;
		i++;
	}
	if (i == *count) {
		i = *count < WHY_OTHERS_MAX ? (*count)++ : least;
		other[i] = (struct why_other){.pid = pid};
		memcpy(other[i].name, clean, sizeof(clean));
	}
	*(chosen ? &other[i].chosen_ns : &other[i].usual_ns) += ns;
}

struct why_counting {
	const struct why *why;
	struct why_split *split;
	struct why_other *other;
	size_t *others;
	bool chosen;
};

static void why_count_by(const struct why_counting *counting, const struct why_interval *by, double ns)
{
	if (ns > 0 && by->pid)
		why_other_add(counting->other, counting->others, by->pid, by->name, ns, counting->chosen);
}

/* The thread slept in [from, to): while another one was ready, it may have waited for that one. */
static void why_count_blocked(
	const struct why_counting *counting, enum activity activity, uint64_t from_ns, uint64_t to_ns)
{
	const struct why_intervals *others = &counting->why->off_others;
	size_t i = why_interval_first(others, from_ns);

	if (to_ns <= from_ns)
		return;
	counting->split->part[activity][WHY_BLOCKED] += (double)(to_ns - from_ns);
	for (i -= i > 0; i < others->count && others->at[i].start_ns < to_ns; i++) {
		double behind_ns = why_overlap(from_ns, to_ns, others->at[i].start_ns, others->at[i].end_ns);

		counting->split->behind[activity] += behind_ns;
		why_count_by(counting, &others->at[i], behind_ns);
	}
}

/* [from, to) of the step belongs to the activity: what of it was off the CPU. */
static void why_count(const struct why_counting *counting, enum activity activity, uint64_t from_ns, uint64_t to_ns)
{
	const struct why_intervals *off = &counting->why->off;
	size_t i = why_interval_first(off, from_ns);

	/* One that began before may reach into it; times off the CPU of a thread do not overlap. */
	for (i -= i > 0; i < off->count && off->at[i].start_ns < to_ns; i++) {
		const struct why_interval *at = &off->at[i];
		uint64_t off_ns = at->end_ns - at->start_ns,
			 ready_from_ns = at->end_ns - (at->ready_ns < off_ns ? at->ready_ns : off_ns);
		uint64_t blocked_from_ns = at->start_ns > from_ns ? at->start_ns : from_ns;
		double ready_ns = why_overlap(from_ns, to_ns, ready_from_ns, at->end_ns);

		counting->split->part[activity][WHY_READY] += ready_ns;
		why_count_by(counting, at, ready_ns);
		why_count_blocked(counting, activity, blocked_from_ns, ready_from_ns < to_ns ? ready_from_ns : to_ns);
	}
}

/* Nobody knows when in their second they were: the step has its share. */
static void why_count_shorts(const struct why_intervals *shorts, const struct why_step *step, struct why_split *ret)
{
	uint64_t start_ns = step->end_ns - step->step_ns;
	size_t i = why_interval_first(shorts, start_ns);

	for (i -= i > 0; i < shorts->count && shorts->at[i].start_ns < step->end_ns; i++) {
		const struct why_interval *at = &shorts->at[i];
		double part = why_overlap(start_ns, step->end_ns, at->start_ns, at->end_ns) / (double)SHORT_NS;

		ret->short_ready_ns += part * (double)at->ready_ns;
		ret->short_blocked_ns += part * (double)(at->off_ns - at->ready_ns);
	}
}

/* At each time the innermost stage counts: the one that began last. */
void why_thread_split(const struct why *why, const struct why_step *step, struct why_split *ret,
	struct why_other *other, size_t *count, bool chosen)
{
	const struct why_counting counting = {why, ret, other, count, chosen};
	uint64_t at_ns = step->end_ns - step->step_ns;
	const struct why_interval *open[DEPTH_MAX];
	size_t depth = 0, i = why_interval_first(&why->stages, at_ns);

	*ret = (struct why_split){0};
	while (at_ns < step->end_ns) {
		const struct why_interval *next = i < why->stages.count ? &why->stages.at[i] : NULL;
		uint64_t until_ns = next && next->start_ns < step->end_ns ? next->start_ns : step->end_ns;

		/* Up to the next stage, those that are open end one after the other. */
		while (depth && open[depth - 1]->end_ns <= until_ns) {
			if (open[depth - 1]->end_ns > at_ns) {
				why_count(&counting, open[depth - 1]->activity, at_ns, open[depth - 1]->end_ns);
				at_ns = open[depth - 1]->end_ns;
			}
			depth--;
		}
		if (until_ns > at_ns)
			why_count(&counting, depth ? open[depth - 1]->activity : ACTIVITY_OUTSIDE, at_ns, until_ns);
		at_ns = until_ns > at_ns ? until_ns : at_ns;
		if (!next || next->start_ns >= step->end_ns)
			continue;
		if (depth < DEPTH_MAX)
			open[depth++] = next;
		i++;
	}
	why_count_shorts(&why->shorts, step, ret);
}
