/* SPDX-License-Identifier: Apache-2.0 */
/* Chosen and usual steps to parts, and their excess. */
#include "analyzers/why/why_internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/array.h"
#include "analyzers/base/robust.h"
#include "analyzers/base/text.h"

/* Means over some steps. */
struct why_mean {
	struct why_split split;
	double step_ns, faults;
	double off_ns, throttled_ns; /* by samples: without a CPU, and of it throttled */
	size_t steps, faults_known;
};

/* The activity without what was waiting for others in it. */
static double why_own(const struct why_step *step, enum activity activity)
{
	return fmax(0, step->activity_ns[activity] - step->waiting_ns[activity]);
}

static void why_mean_own(const struct why_step *const *steps, size_t count, double ret[ACTIVITY_MAX])
{
	memset(ret, 0, ACTIVITY_MAX * sizeof(*ret));
	for (size_t i = 0; i < count; i++)
		for (enum activity a = 0; a < ACTIVITY_MAX; a++)
			ret[a] += why_own(steps[i], a) / (double)count;
}

/*
 * Ready and throttled time, whose activity is not known: from those that grew, in proportion; beyond, from all.
 * ret: part of `off_ns` in each activity.
 */
static void why_place(
	const struct why_step *step, double off_ns, const double usual_own[ACTIVITY_MAX], double ret[ACTIVITY_MAX])
{
	double growth[ACTIVITY_MAX], grown = 0, left = 0, rest;

	for (enum activity a = 0; a < ACTIVITY_MAX; a++) {
		growth[a] = fmax(0, why_own(step, a) - usual_own[a]);
		grown += growth[a];
		left += why_own(step, a);
	}
	left -= grown;
	rest = fmax(0, off_ns - grown);
	for (enum activity a = 0; a < ACTIVITY_MAX; a++) {
		ret[a] = grown > 0 ? growth[a] * fmin(1, off_ns / grown) : 0;
		if (left > 0)
			ret[a] += (why_own(step, a) - growth[a]) * fmin(1, rest / left);
	}
}

/* By samples alone. */
static void why_split_sampled(const struct why_step *step, const double usual_own[ACTIVITY_MAX], struct why_split *ret)
{
	double off_ns = step->ready_ns + step->throttled_ns, placed[ACTIVITY_MAX];

	why_place(step, off_ns, usual_own, placed);
	*ret = (struct why_split){0};
	for (enum activity a = 0; a < ACTIVITY_MAX; a++) {
		ret->part[a][WHY_WAITING] = step->waiting_ns[a];
		ret->part[a][WHY_READY] = placed[a];
		ret->part[a][WHY_WORK] = step->activity_ns[a] - step->waiting_ns[a] - placed[a];
	}
}

/* By intervals of the thread: a wait for others is a time off the CPU, too, and counts once. sleeps: who waits does:
 * what stages alone take for waiting is no more than the thread sleeps. */
static void why_split_thread(const struct why_step *step, bool sleeps, struct why_split *split)
{
	for (enum activity a = 0; a < ACTIVITY_MAX; a++) {
		double *part = split->part[a], waiting = step->waiting_ns[a], own;

		if (sleeps && step->tier == FRAME_TIER_STAGES)
			waiting = fmin(waiting, part[WHY_BLOCKED]);
		own = fmax(0, step->activity_ns[a] - waiting);
		part[WHY_READY] = fmin(part[WHY_READY], own);
		part[WHY_BLOCKED] = fmin(fmax(0, part[WHY_BLOCKED] - waiting), own - part[WHY_READY]);
		part[WHY_WAITING] = waiting;
		part[WHY_WORK] = step->activity_ns[a] - part[WHY_WAITING] - part[WHY_READY] - part[WHY_BLOCKED];
	}
}

static void why_mean_of(struct why *why, const struct why_step *const *steps, size_t count,
	const double usual_own[ACTIVITY_MAX], struct why_result *result, bool chosen, struct why_mean *ret)
{
	bool thread = chosen ? result->thread_known : result->usual_known;

	*ret = (struct why_mean){.steps = count};
	for (size_t i = 0; i < count; i++) {
		const struct why_step *step = steps[i];
		struct why_split split;

		if (thread) {
			why_thread_split(why, step, &split, result->other, &result->others, chosen);
			why_split_thread(step, !why->picked->who.card[0], &split);
		} else {
			why_split_sampled(step, usual_own, &split);
			if (step->preemptor_pid && !result->thread_known)
				why_other_add(result->other, &result->others, step->preemptor_pid, step->preemptor_name,
					step->preemptor_ns, chosen);
		}
		ret->split.short_ready_ns += split.short_ready_ns / (double)count;
		ret->split.short_blocked_ns += split.short_blocked_ns / (double)count;
		for (enum activity a = 0; a < ACTIVITY_MAX; a++) {
			ret->split.behind[a] += split.behind[a] / (double)count;
			for (enum why_kind k = 0; k < WHY_KIND_MAX; k++)
				ret->split.part[a][k] += split.part[a][k] / (double)count;
		}
		ret->step_ns += (double)step->step_ns / (double)count;
		ret->off_ns += step->ready_ns + step->throttled_ns;
		ret->throttled_ns += step->throttled_ns;
		if (!isnan(step->faults)) {
			ret->faults += step->faults;
			ret->faults_known++;
		}
	}
}

/* Of a part, or of the step as a whole (activity ACTIVITY_MAX). */
static double why_peers_median(
	const struct why_jobs *job, enum activity activity, enum why_kind kind, size_t *ret_peers)
{
	double *value = calloc(job->peers + 1, sizeof(*value)), median;
	size_t count = 0;

	for (size_t i = 0; value && i < job->peers; i++)
		if (job->peer[i].steps)
			value[count++] = (activity == ACTIVITY_MAX ? job->peer[i].step_ns
								   : job->peer[i].split.part[activity][kind]) /
					 (double)job->peer[i].steps;
	median = count ? robust_median(value, count) : NAN;
	free(value);
	if (ret_peers)
		*ret_peers = count;
	return median;
}

/* Differences; then what shrank pays for what grew. */
static void why_excess(struct why_result *ret)
{
	double grown_ns = 0, saved_ns = 0, paid_ns;

	for (size_t i = 0; i < ret->parts; i++) {
		struct why_part *part = &ret->part[i];

		part->excess_ns = part->chosen_ns - part->usual_ns;
		if (part->excess_ns > 0)
			grown_ns += part->excess_ns;
		else
			saved_ns -= part->excess_ns;
	}
	paid_ns = fmin(grown_ns, saved_ns);
	for (size_t i = 0; i < ret->parts && paid_ns > 0; i++) {
		struct why_part *part = &ret->part[i];

		part->excess_ns *= 1 - paid_ns / (part->excess_ns > 0 ? grown_ns : saved_ns);
	}
}

static int why_compare_excess(const void *a, const void *b)
{
	double x = ((const struct why_part *)a)->excess_ns, y = ((const struct why_part *)b)->excess_ns;

	return ORDER(y, x);
}

static int why_compare_other(const void *a, const void *b)
{
	double x = ((const struct why_other *)a)->chosen_ns - ((const struct why_other *)a)->usual_ns;
	double y = ((const struct why_other *)b)->chosen_ns - ((const struct why_other *)b)->usual_ns;

	return ORDER(y, x);
}

/* Moves time from the activity's work to its time off the CPU. */
static void why_take_shorts(struct why_split *split, enum activity a, double ready_ns, double blocked_ns)
{
	split->part[a][WHY_READY] += ready_ns;
	split->part[a][WHY_BLOCKED] += blocked_ns;
	split->part[a][WHY_WORK] -= ready_ns + blocked_ns;
	split->short_ready_ns -= ready_ns;
	split->short_blocked_ns -= blocked_ns;
}

/* From each activity in proportion to its work, and no more than that. */
static void why_take_shorts_of_all(struct why_split *split)
{
	double ready_ns = split->short_ready_ns, blocked_ns = split->short_blocked_ns, sum = 0;
	double work[ACTIVITY_MAX];

	for (enum activity a = 0; a < ACTIVITY_MAX; a++)
		sum += work[a] = fmax(0, split->part[a][WHY_WORK]);
	sum = fmax(sum, ready_ns + blocked_ns);
	for (enum activity a = 0; a < ACTIVITY_MAX && sum > 0; a++)
		why_take_shorts(split, a, work[a] / sum * ready_ns, work[a] / sum * blocked_ns);
}

/*
 * Short times off the CPU are no work. What exceeds the usual is taken from the activity whose work grew most, up to that
 * growth, then from the next: others may work longer on the CPU alone, because caches are cold.
 */
static void why_place_shorts(struct why_mean *chosen, struct why_mean *usual, bool usual_known)
{
	double ready_ns = fmax(0, chosen->split.short_ready_ns - usual->split.short_ready_ns);
	double blocked_ns = fmax(0, chosen->split.short_blocked_ns - usual->split.short_blocked_ns);
	double longer_ns[ACTIVITY_MAX];

	for (enum activity a = 0; a < ACTIVITY_MAX; a++)
		longer_ns[a] = chosen->split.part[a][WHY_WORK] - usual->split.part[a][WHY_WORK];
	for (unsigned i = 0; i < ACTIVITY_MAX && usual_known && ready_ns + blocked_ns > 0; i++) {
		enum activity most = 0;
		double part;

		for (enum activity a = 1; a < ACTIVITY_MAX; a++)
			if (longer_ns[a] > longer_ns[most])
				most = a;
		if (longer_ns[most] <= 0)
			break;
		part = fmin(1, longer_ns[most] / (ready_ns + blocked_ns));
		why_take_shorts(&chosen->split, most, part * ready_ns, part * blocked_ns);
		ready_ns *= 1 - part;
		blocked_ns *= 1 - part;
		longer_ns[most] = 0;
	}
	why_take_shorts_of_all(&chosen->split);
	why_take_shorts_of_all(&usual->split);
}

/*
 * The thread sleeps longer than usual, and more of it than usual behind threads of its own that are without a CPU: that
 * much it waits for these.
 */
static void why_behind(struct why_mean *chosen, const struct why_mean *usual)
{
	for (enum activity a = 0; a < ACTIVITY_MAX; a++) {
		double slept_ns = chosen->split.part[a][WHY_BLOCKED] - usual->split.part[a][WHY_BLOCKED];
		double moved_ns = fmax(0, fmin(slept_ns, chosen->split.behind[a] - usual->split.behind[a]));

		chosen->split.part[a][WHY_BLOCKED] -= moved_ns;
		chosen->split.part[a][WHY_READY] += moved_ns;
	}
}

/*
 * Intervals of the chosen steps alone, as where L3 was turned on for this: a usual step is taken to work as much, as
 * far as its activity lasts; then to be ready as long as samples show; what is left, it sleeps.
 */
static void why_usual_as_chosen(const struct why_mean *chosen, struct why_mean *usual)
{
	for (enum activity a = 0; a < ACTIVITY_MAX; a++) {
		const double *of_chosen = chosen->split.part[a];
		double *part = usual->split.part[a], own = part[WHY_WORK] + part[WHY_READY];

		part[WHY_WORK] = fmin(own, of_chosen[WHY_WORK]);
		part[WHY_READY] = fmin(own - part[WHY_WORK], part[WHY_READY]);
		part[WHY_BLOCKED] = own - part[WHY_WORK] - part[WHY_READY];
	}
}

/*
 * Of the time without a CPU, what the CPU limit took: samples give its share, of the usual time and of what is beyond
 * it.
 */
static void why_throttled(struct why_mean *chosen, struct why_mean *usual)
{
	double share = chosen->off_ns > 0 ? chosen->throttled_ns / chosen->off_ns : 0;
	double usual_share = usual->off_ns > 0 ? usual->throttled_ns / usual->off_ns : 0;

	for (enum activity a = 0; a < ACTIVITY_MAX; a++) {
		double *of_chosen = chosen->split.part[a], *of_usual = usual->split.part[a];
		double same = fmin(of_chosen[WHY_READY], of_usual[WHY_READY]);

		of_chosen[WHY_THROTTLED] = usual_share * same + share * (of_chosen[WHY_READY] - same);
		of_chosen[WHY_READY] -= of_chosen[WHY_THROTTLED];
		of_usual[WHY_THROTTLED] = usual_share * of_usual[WHY_READY];
		of_usual[WHY_READY] -= of_usual[WHY_THROTTLED];
	}
}

static void why_parts(
	const struct why *why, const struct why_mean *chosen, const struct why_mean *usual, struct why_result *ret)
{
	double excess_ns = 0;

	for (enum activity a = 0; a < ACTIVITY_MAX; a++) {
		for (enum why_kind k = 0; k < WHY_KIND_MAX; k++) {
			struct why_part *part = &ret->part[ret->parts];
			/* Of peers nobody has read the thread: their work has what they were blocked for in it. */
			bool known = !ret->thread_known || (k != WHY_WORK && k != WHY_BLOCKED);

			if (chosen->split.part[a][k] <= 0 && usual->split.part[a][k] <= 0)
				continue;
			*part = (struct why_part){.activity = a,
				.kind = k,
				.chosen_ns = chosen->split.part[a][k],
				.usual_ns = usual->split.part[a][k],
				.peers_ns = known ? why_peers_median(why->picked, a, k, NULL) : NAN};
			excess_ns += part->chosen_ns - part->usual_ns;
			ret->parts++;
		}
	}
	ret->residual_ns = ret->chosen_ns - ret->usual_ns - excess_ns;
	why_excess(ret);
	qsort(ret->part, ret->parts, sizeof(*ret->part), why_compare_excess);
}

static bool why_has_operations(const struct why *why, const struct why_step *step)
{
	(void)why;
	return step->tier > FRAME_TIER_STAGES;
}

/* Keeps the steps of which that is known, if they are one of so many at least. Whether they are. */
static bool why_keep(struct why *why, const struct why_step **steps, size_t *count, size_t one_of,
	bool (*known)(const struct why *why, const struct why_step *step))
{
	size_t kept = 0;

	for (size_t i = 0; i < *count; i++)
		kept += known(why, steps[i]);
	if (!kept || kept * one_of < *count)
		return false;
	kept = 0;
	for (size_t i = 0; i < *count; i++)
		if (known(why, steps[i]))
			steps[kept++] = steps[i];
	*count = kept;
	return true;
}

static bool why_has_both(const struct why *why, const struct why_step *step)
{
	return why_has_operations(why, step) && why_thread_covers(why, step);
}

/* Steps that were watched less than most are left out, of the usual ones if a quarter was watched as much. */
static void why_know(struct why *why, struct why_result *ret)
{
	size_t all = why->chosen_count;

	if (why_keep(why, why->chosen, &why->chosen_count, 2, why_has_both)) {
		ret->thread_known = true;
		ret->usual_known = why_keep(why, why->usual, &why->usual_count, 4, why_has_both);
	} else if (why_keep(why, why->chosen, &why->chosen_count, 2, why_thread_covers)) {
		ret->thread_known = true;
	} else if (why_keep(why, why->chosen, &why->chosen_count, 2, why_has_operations)) {
		(void)why_keep(why, why->usual, &why->usual_count, 4, why_has_operations);
	}
	if (ret->thread_known && !ret->usual_known)
		ret->usual_known = why_keep(why, why->usual, &why->usual_count, 4, why_thread_covers);
	ret->left_out = all - why->chosen_count;
}

int why_explain(struct why *why, struct why_result *ret)
{
	double usual_own[ACTIVITY_MAX];
	struct why_mean chosen, usual;

	*ret = (struct why_result){.who = why->picked->who, .tier = FRAME_TIER_DEVICE};
	(void)text_clean(ret->who.host);
	(void)text_clean(ret->who.card);
	if (!why->chosen_count)
		return -ENOENT;
	if (!why->usual_count)
		return -ENODATA;
	ret->usual_within = why->usual_within;
	ret->of = why->chosen_all;
	why_know(why, ret);
	ret->begin_ns = UINT64_MAX;
	for (size_t i = 0; i < why->chosen_count; i++) {
		const struct why_step *step = why->chosen[i];

		ret->tier = step->tier < ret->tier ? step->tier : ret->tier;
		ret->begin_ns =
			step->end_ns - step->step_ns < ret->begin_ns ? step->end_ns - step->step_ns : ret->begin_ns;
		ret->end_ns = step->end_ns > ret->end_ns ? step->end_ns : ret->end_ns;
	}
	why_mean_own(why->usual, why->usual_count, usual_own);
	why_mean_of(why, why->chosen, why->chosen_count, usual_own, ret, true, &chosen);
	why_mean_of(why, why->usual, why->usual_count, usual_own, ret, false, &usual);
	why_place_shorts(&chosen, &usual, ret->usual_known);
	if (ret->thread_known && !ret->usual_known)
		why_usual_as_chosen(&chosen, &usual);
	why_behind(&chosen, &usual);
	why_throttled(&chosen, &usual);
	ret->chosen = chosen.steps;
	ret->usual = usual.steps;
	ret->chosen_ns = chosen.step_ns;
	ret->usual_ns = usual.step_ns;
	ret->peers_ns = why_peers_median(why->picked, ACTIVITY_MAX, 0, &ret->peers);
	ret->major_faults = chosen.faults_known ? chosen.faults / (double)chosen.faults_known : NAN;
	ret->major_faults_usual = usual.faults_known ? usual.faults / (double)usual.faults_known : NAN;
	for (size_t i = 0; i < ret->others; i++) {
		ret->other[i].chosen_ns /= (double)chosen.steps;
		ret->other[i].usual_ns /= (double)usual.steps;
	}
	why_parts(why, &chosen, &usual, ret);
	qsort(ret->other, ret->others, sizeof(*ret->other), why_compare_other);
	for (size_t i = 0; i < ret->others && ret->thread_known && !ret->usual_known; i++)
		ret->other[i].usual_ns = NAN;
	return 0;
}
