/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that keep the others waiting: those of training steps and those of steps with a checkpoint, each judged among
 * themselves (slow_rank_court.h), and what more would have to be seen.
 *
 * Steps with a checkpoint are judged by what the checkpoint took (slow_rank_checkpoint.h, which also says whose last
 * two are enough to be told), and what is said of one goes on until the next one. Other frames that are no training
 * steps are left out: steps with an evaluation are long on the rank that reads, by design.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/detect/detector.h"
#include "analyzers/detect/robust.h"
#include "analyzers/detect/slow_rank_court.h"

struct slow_rank {
	struct candidate steps, checkpoints;
	struct slow_rank_checkpoint checkpoint;
	struct verdict said[GAIN_SET_MAX]; /* of the last checkpoint */
	size_t n_said;
	struct cause *cause;
	struct growth growth;
};

static void *slow_rank_free(void *arg)
{
	struct slow_rank *state = arg;

	if (!state)
		return NULL;
	candidate_free(&state->steps);
	candidate_free(&state->checkpoints);
	checkpoint_free(&state->checkpoint);
	cause_free(state->cause);
	free(state);
	return NULL;
}

static void *slow_rank_new(const struct detect_options *options)
{
	struct slow_rank *state = calloc(1, sizeof(*state));
	struct detect_options of_checkpoints = *options;

	if (!state)
		return NULL;
	state->cause = cause_new();
	if (!state->cause)
		return slow_rank_free(state);
	candidate_init(&state->steps, options, state->cause);
	state->steps.growth = &state->growth;
	of_checkpoints.slow_z = fmin(options->slow_z, CHECKPOINT_Z);
	candidate_init(&state->checkpoints, &of_checkpoints, state->cause);
	state->checkpoints.checkpoint = &state->checkpoint;
	state->checkpoints.view.series.timed = true;
	return state;
}

static void slow_rank_want(const struct frame *frame, const char *why, const struct detector_out *out)
{
	unsigned int wants = DETECT_WANT_SYSTEM;

	if (!out->want)
		return;
	if (frame->tier == FRAME_TIER_STAGES)
		wants |= DETECT_WANT_OPERATIONS;
	out->want(out->arg, wants, why);
}

/* Who listens to what is said of a checkpoint. */
struct listener {
	struct slow_rank *state;
	const struct detector_out *out;
	uint64_t checkpoint_ns;
};

static void on_checkpoint(void *arg, const struct verdict *verdict)
{
	struct listener *listener = arg;
	struct slow_rank *state = listener->state;
	struct verdict *said;

	if (state->n_said == GAIN_SET_MAX)
		return;
	said = &state->said[state->n_said++];
	*said = *verdict;
	said->finding.slowdown = checkpoint_slowdown(
		&state->checkpoint, said->lost_ns, (double)listener->checkpoint_ns, growth_usual(&state->growth));
	listener->out->say(listener->out->arg, said);
	said->lost_ns = 0;
}

static void judge_checkpoint(struct slow_rank *state, const struct frame *frame, const struct measures *measures,
	struct measure *measure, const struct detector_out *out)
{
	const struct measures *of =
		checkpoint_measures(&state->checkpoint, frame, measures, growth_usual(&state->growth));
	struct listener listener = {state, out, of ? of->step_ns : 0};
	const struct detector_out heard = {.say = on_checkpoint, .arg = &listener};
	bool said;

	state->n_said = 0;
	state->checkpoints.lost = measures->lost > 0;
	if (of)
		candidate_hold(&state->checkpoints, frame, of, measure, &heard, &said);
}

/* It is so until the next one tells otherwise, or does not come. A rank is told of once: if it keeps the others waiting
 * in all steps, for that. */
static void repeat_checkpoint(struct slow_rank *state, const struct frame *frame, const struct detector_out *out)
{
	if (checkpoint_past(&state->checkpoint, frame->step))
		state->n_said = 0;
	for (size_t i = 0; i < state->n_said; i++) {
		size_t rank = (size_t)state->said[i].finding.rank;

		if (rank < state->steps.ranks && !state->steps.verdict[rank].said)
			out->say(out->arg, &state->said[i]);
	}
}

static uint64_t longest(const struct frame *frame)
{
	uint64_t ns = 0;

	for (size_t i = 0; i < frame->ranks; i++) {
		if (frame->rank[i].here && frame->rank[i].step_ns != FRAME_UNKNOWN && frame->rank[i].step_ns > ns)
			ns = frame->rank[i].step_ns;
	}
	return ns;
}

static void slow_rank_frame(void *arg, const struct frame *frame, const struct measures *measures,
	struct measure *measure, const struct detector_out *out)
{
	struct slow_rank *state = arg;
	bool later, said, common;

	cause_frame(state->cause, frame, measures);
	if (!measures->ranks)
		return;
	if (frame->class == FRAME_CHECKPOINT)
		judge_checkpoint(state, frame, measures, measure, out);
	if (frame->class != FRAME_TRAIN)
		return;
	growth_step(&state->growth, frame->step, measures->step_ns, longest(frame), frame->tier);
	later = growth_slower(&state->growth); /* and stages do not tell whose fault it is */
	state->steps.view.series.grown = growth_ln(&state->growth);
	state->steps.view.series.longer = growth_is_long(&state->growth);
	common = candidate_hold(&state->steps, frame, measures, measure, out, &said);
	repeat_checkpoint(state, frame, out);
	if (said)
		slow_rank_want(frame, "a rank keeps the others waiting", out);
	if (frame->tier == FRAME_TIER_STAGES && (later || common))
		slow_rank_want(frame, "steps are longer, and stages do not tell why", out);
}

const struct detector slow_rank_detector = {
	.name = "slow_rank",
	.new = slow_rank_new,
	.free = slow_rank_free,
	.frame = slow_rank_frame,
};
