/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where steps begin and end. An optimizer's end is first a candidate (ends[]): the next begin on the step thread
 * decides whether it was the step's last. While there is a candidate, and while an iteration of a data loader may be
 * evaluation, the step of a new stage is undecided; deciding settles all undecided ones at once.
 */
#include "analyzers/steps/steps_internal.h"

#include <stdio.h>

bool steps_rule_certain(const struct steps *steps)
{
	if (!steps->open || steps->n_ends)
		return false;
	if (steps->mode != STEPS_BY_NAMES)
		return true;
	return steps->trained || !steps->loader_seen || (steps->infers && !steps->trains);
}

static void steps_rules_release(struct steps *steps)
{
	if (steps_rule_certain(steps))
		steps_settle(steps, UINT64_MAX, steps->next);
}

static void steps_rules_open_at(struct steps *steps, uint64_t start_ns)
{
	steps->open = true;
	steps->mid = false;
	steps->start_ns = start_ns;
	steps->trained = false;
	steps->has_load = false;
	steps->shown = false;
	steps->iteration_marked = false;
	steps->idle_loads = 0;
}

static void close_at(struct steps *steps, uint64_t end_ns, const char *kind)
{
	if (steps->open) {
		struct steps_step step = {steps->next, steps->start_ns, end_ns - steps->start_ns, kind,
			steps->unwatched || steps->start_ns < steps->watched_ns};

		steps_settle(steps, end_ns, steps->next);
		steps->sink.step(steps->sink.arg, &step);
		steps->previous_start_ns = steps->start_ns;
		steps->previous_end_ns = end_ns;
		steps->next++;
	} else {
		steps_settle(steps, end_ns, STEPS_NONE);
	}
	steps_rules_open_at(steps, end_ns);
}

/* A step is over. single: it alone, so that all since the one before is its own. */
static void steps_rules_compare(struct steps *steps, bool single)
{
	const struct steps_round *is = &steps->round, *was = &steps->steady;
	bool alike = is->backwards == was->backwards && is->optimizers == was->optimizers;

	if (!single || !is->backwards)
		steps->steady_steps = 0;
	else
		steps->steady_steps = alike && steps->steady_steps ? steps->steady_steps + 1 : 1;
	steps->steady = steps->round;
	steps->round = (struct steps_round){0};
}

/* Each candidate ends a step. */
static void close_each(struct steps *steps)
{
	static const char *const kinds[] = {
		[STEPS_ENDS_TRAIN] = "train",
		[STEPS_ENDS_INFERENCE] = "inference",
	};
	const char *kind = kinds[steps->ends_kind];
	size_t n = steps->n_ends;

	if (n)
		steps_rules_compare(steps, n == 1 && steps->ends_kind == STEPS_ENDS_TRAIN);
	steps->n_ends = 0;
	for (size_t i = 0; i < n; i++)
		close_at(steps, steps->ends[i], kind);
	if (n)
		steps->trained = steps->trained_since;
	steps->sealed = steps->trained_since = false;
	steps->ends_kind = STEPS_ENDS_TRAIN;
	steps_rules_release(steps);
}

/* Only the last candidate ends a step. */
static void close_last(struct steps *steps)
{
	steps->ends[0] = steps->ends[steps->n_ends - 1];
	steps->n_ends = 1;
	close_each(steps);
}

void steps_rule_decide(struct steps *steps, bool over)
{
	if (!steps->n_ends)
		return;
	if (steps->ends_kind == STEPS_ENDS_INFERENCE && !over)
		return;
	if (steps->has_load && steps->loader_drives)
		close_last(steps);
	else
		close_each(steps);
}

/* A new round begins: decides, unless a data loader does with its next call. */
static void steps_rules_seal(struct steps *steps)
{
	if (!steps->n_ends || steps->ends_kind != STEPS_ENDS_TRAIN || steps->sealed)
		return;
	steps->sealed = true;
	if (!steps->has_load || steps->n_ends == STEPS_ROUNDS_MAX)
		close_each(steps);
}

/* Iterations of the open step before now_ns were evaluation. */
static void skip_idle(struct steps *steps, uint64_t now_ns)
{
	steps_settle(steps, now_ns, steps->shown ? steps->next : STEPS_NONE);
	if (!steps->shown)
		steps->start_ns = now_ns;
}

static void steps_rules_train(struct steps *steps)
{
	steps->trains = true;
	if (steps->n_ends && steps->ends_kind == STEPS_ENDS_TRAIN) {
		steps->trained_since = true;
		return;
	}
	if (steps->ends_kind == STEPS_ENDS_INFERENCE) {
		if (steps->n_ends > 1 && steps->open)
			skip_idle(steps, steps->ends[steps->n_ends - 1]);
		steps->n_ends = 0;
		steps->ends_kind = STEPS_ENDS_TRAIN;
	}
	steps->trained = true;
	steps_rules_release(steps);
}

static void steps_rules_anchor(struct steps *steps, uint64_t now_ns, bool load)
{
	steps->has_anchor = true;
	steps->anchor_is_load = load;
	steps->anchor_ns = now_ns;
	steps->gap_start_ns = steps->gap_end_ns = now_ns;
	steps->forward_marked = false;
}

static void derive_forward(struct steps *steps, uint64_t now_ns, uint32_t depth)
{
	struct steps_entry entry = {.kind = STAGE_FORWARD};
	uint64_t end_ns = now_ns;

	if (!steps->has_anchor || steps->forward_marked)
		return;
	steps->has_anchor = false;
	entry.start_ns = steps->anchor_ns;
	if (steps->gap_end_ns - steps->gap_start_ns > now_ns - steps->anchor_ns) {
		entry.start_ns = steps->gap_start_ns;
		end_ns = steps->gap_end_ns;
	}
	snprintf(entry.stage, sizeof(entry.stage), "%s", stage_text(STAGE_FORWARD));
	snprintf(entry.name, sizeof(entry.name), "(derived)");
	entry.step = steps_find_step(steps, entry.start_ns);
	steps_finish(steps, &entry, steps->thread_id, depth, end_ns);
}

/* Ends an inference iteration, unless it was the loader's last call. */
static void close_inference(struct steps *steps, uint64_t now_ns, uint32_t depth)
{
	if (steps->inference_marked && !steps->iteration_marked)
		return;
	steps->inference_marked = steps->iteration_marked;
	derive_forward(steps, now_ns, depth);
	steps->ends_kind = STEPS_ENDS_INFERENCE;
	steps->ends[steps->n_ends++] = now_ns;
	if (steps->n_ends == STEPS_INFERENCE_MIN)
		steps->infers = true;
	if (steps->infers)
		close_each(steps);
}

static void load_begin(struct steps *steps, uint64_t now_ns, uint32_t depth)
{
	steps->loader_seen = true;
	if (steps->mode == STEPS_SAMPLED)
		return;
	if (!steps->open && !steps->mid) {
		steps_rules_open_at(steps, now_ns);
	} else if (steps->n_ends && steps->ends_kind == STEPS_ENDS_TRAIN) {
		steps->loader_drives |= steps->has_load;
		close_last(steps);
	} else if (steps->open && steps->has_load && !steps->trained) {
		if (!steps->trains) {
			close_inference(steps, now_ns, depth);
		} else if (++steps->idle_loads > 1) {
			skip_idle(steps, now_ns);
		}
	}
	steps->has_load = true;
	steps->iteration_marked = false;
}

static void load_end(struct steps *steps, uint64_t now_ns)
{
	steps_rules_anchor(steps, now_ns, true);
}

static void forward_begin(struct steps *steps, uint64_t now_ns, uint32_t depth)
{
	steps_rules_seal(steps);
	if (!steps->open && !steps->mid)
		steps_rules_open_at(steps, now_ns);
	steps->forward_marked = true;
	steps->iteration_marked = true;
}

static void zero_grad_begin(struct steps *steps, uint64_t now_ns, uint32_t depth)
{
	if (!steps->open && !steps->mid)
		steps_rules_open_at(steps, now_ns);
	if (steps->has_anchor && steps->anchor_is_load) {
		steps->gap_start_ns = steps->anchor_ns;
		steps->gap_end_ns = now_ns;
	}
}

static void zero_grad_end(struct steps *steps, uint64_t now_ns)
{
	steps->has_anchor = true;
	steps->anchor_is_load = false;
	steps->anchor_ns = now_ns;
}

/* After an attach in mid-run, a mark of a later part of a step opens none. */
static void open_late(struct steps *steps, uint64_t now_ns)
{
	if (steps->open || steps->mid)
		return;
	if (steps->from_start)
		steps_rules_open_at(steps, now_ns);
	else
		steps->mid = true;
}

static void backward_begin(struct steps *steps, uint64_t now_ns, uint32_t depth)
{
	steps_rules_seal(steps);
	open_late(steps, now_ns);
	steps_rules_train(steps);
	if (steps->mode == STEPS_BY_NAMES || steps->mode == STEPS_SAMPLED)
		derive_forward(steps, now_ns, depth);
}

static void steps_rules_add_end(struct steps *steps, uint64_t now_ns)
{
	if (steps->n_ends && !steps->sealed)
		steps->n_ends--;
	steps->ends[steps->n_ends++] = now_ns;
	steps->sealed = steps->trained_since = false;
}

static void backward_end(struct steps *steps, uint64_t now_ns, bool optimizer_inside)
{
	if (steps->mode == STEPS_SAMPLED) {
		if (!steps->unwatched)
			steps_rules_anchor(steps, now_ns, false);
		return;
	}
	if (steps->mode != STEPS_BY_NAMES) {
		close_at(steps, now_ns, "backward");
		return;
	}
	steps_rules_anchor(steps, now_ns, false);
	if (optimizer_inside) {
		steps_rules_add_end(steps, now_ns);
	} else if (!steps->optimizer_seen && steps->round.backwards >= STEPS_BACKWARDS_MAX) {
		steps->mode = STEPS_BY_BACKWARD;
		close_at(steps, now_ns, "backward");
	}
}

static void optimizer_begin(struct steps *steps, uint64_t now_ns, uint32_t depth)
{
	open_late(steps, now_ns);
	steps->optimizer_seen = true;
	if (steps->mode == STEPS_BY_BACKWARD)
		steps->mode = STEPS_BY_NAMES;
	if (!steps->late_optimizer && (!steps->n_ends || steps->ends_kind != STEPS_ENDS_TRAIN))
		steps_rules_train(steps);
}

static void optimizer_end(struct steps *steps, uint64_t now_ns)
{
	steps_rules_anchor(steps, now_ns, false);
	if (steps->late_optimizer)
		return;
	steps->round.optimizers++;
	if (steps->mode != STEPS_SAMPLED)
		steps_rules_add_end(steps, now_ns);
}

static const struct rule {
	void (*begin)(struct steps *steps, uint64_t now_ns, uint32_t depth);
	void (*end)(struct steps *steps, uint64_t now_ns);
} rules[STAGE_KIND_MAX] = {
	[STAGE_DATALOADER] = {load_begin, load_end},
	[STAGE_FORWARD] = {forward_begin, NULL},
	[STAGE_ZERO_GRAD] = {zero_grad_begin, zero_grad_end},
	[STAGE_BACKWARD] = {backward_begin, NULL},
	[STAGE_OPTIMIZER] = {optimizer_begin, optimizer_end},
};

/* Without names only backward counts, and an optimizer that ends that mode. */
static bool ignores_mark(const struct steps *steps, enum stage_kind kind)
{
	if (kind == STAGE_BACKWARD || steps->mode == STEPS_BY_NAMES || steps->mode == STEPS_SAMPLED)
		return false;
	return steps->mode == STEPS_NO_NAMES || kind != STAGE_OPTIMIZER;
}

static uint64_t steps_rules_tick(struct steps *steps, uint64_t now_ns)
{
	if (now_ns > steps->clock_ns)
		steps->clock_ns = now_ns;
	return steps->clock_ns;
}

void steps_rule_begin(struct steps *steps, enum stage_kind kind, uint64_t now_ns, uint32_t depth)
{
	now_ns = steps_rules_tick(steps, now_ns);
	if (rules[kind].begin && !ignores_mark(steps, kind))
		rules[kind].begin(steps, now_ns, depth);
}

void steps_rule_end(struct steps *steps, enum stage_kind kind, uint64_t now_ns, bool optimizer_inside)
{
	now_ns = steps_rules_tick(steps, now_ns);
	if (kind == STAGE_BACKWARD)
		backward_end(steps, now_ns, optimizer_inside);
	else if (rules[kind].end && !ignores_mark(steps, kind))
		rules[kind].end(steps, now_ns);
}

void steps_rule_user(struct steps *steps, uint64_t now_ns)
{
	if (steps->from_start && !steps->open && !steps->mid && !steps->has_thread && steps->mode == STEPS_BY_NAMES)
		steps_rules_open_at(steps, steps_rules_tick(steps, now_ns));
}

void steps_rule_no_names(struct steps *steps)
{
	steps->mode = STEPS_NO_NAMES;
	close_each(steps);
}

void steps_rule_backward(struct steps *steps, uint64_t now_ns)
{
	const struct steps_round *steady = &steps->steady;

	steps->round.backwards++;
	steps->late_optimizer = false;
	steps->round_ns = now_ns = steps_rules_tick(steps, now_ns);
	if (steps->mode != STEPS_SAMPLED || steps->round.backwards < steady->backwards)
		return;
	if (!steps->unwatched && steps->start_ns >= steps->watched_ns && steps->round.optimizers != steady->optimizers)
		steps->steady_steps = 0; /* the job has changed: may_sample() says so */
	steps->round = (struct steps_round){0};
	close_at(steps, now_ns, "backward");
}

bool steps_may_sample(const struct steps *steps)
{
	if (steps->mode == STEPS_NO_NAMES)
		return true;
	return steps->open && steps->steady_steps >= STEPS_STEADY &&
	       (steps->mode == STEPS_BY_NAMES || steps->mode == STEPS_SAMPLED);
}

/* The open step has all of its backwards: it is over. */
static void steps_rules_enter(struct steps *steps)
{
	uint64_t end_ns = steps->n_ends ? steps->ends[steps->n_ends - 1] : 0;
	bool over = steps->round.backwards >= steps->steady.backwards;

	steps->mode = STEPS_SAMPLED;
	steps->n_ends = 0;
	steps->sealed = steps->trained_since = false;
	if (over) {
		close_at(steps, end_ns > steps->round_ns ? end_ns : steps->round_ns, "train");
		steps->round = (struct steps_round){0};
	}
	steps_rules_release(steps);
}

/* All marks come again, from somewhere in the open step on. */
static void steps_rules_leave(struct steps *steps)
{
	struct steps_thread *thread = steps_threads_find(&steps->threads, steps->thread_id);
	struct steps_entry *backward = thread ? steps_thread_loop(thread) : NULL;

	steps->mode = STEPS_BY_NAMES;
	steps->late_optimizer = steps->round.backwards == 0;
	steps->trained = steps->round.backwards > 0;
	steps->has_load = steps->loader_seen;
	/* Optimizers that step in backward may have done so. */
	if (backward && backward->kind == STAGE_BACKWARD && !steps->steady.optimizers)
		backward->optimizer_inside = true;
	steps->steady_steps = 0;
	steps->round.optimizers = 0;
}

void steps_sample(struct steps *steps, bool on)
{
	if (on && steps->mode == STEPS_BY_NAMES && steps_may_sample(steps))
		steps_rules_enter(steps);
	if (!on && steps->mode == STEPS_SAMPLED)
		steps_rules_leave(steps);
	steps->unwatched &= on;
}

void steps_watch(struct steps *steps, bool all, uint64_t from_ns)
{
	steps->unwatched = !all;
	steps->watched_ns = from_ns;
	if (all)
		return;
	steps->has_anchor = steps->forward_marked = false;
	steps_threads_keep_backward(&steps->threads);
}

void steps_rule_closure(struct steps *steps)
{
	steps_rules_seal(steps);
	steps_rules_train(steps);
}

void steps_rule_thread(struct steps *steps, uint32_t thread_id, enum stage_kind kind)
{
	unsigned int rank = stage_rank(kind);

	if (!steps->has_thread || thread_id == steps->thread_id) {
		steps->has_thread = true;
		steps->thread_id = thread_id;
		if (rank > steps->thread_rank)
			steps->thread_rank = rank;
		steps->foreign = 0;
		return;
	}
	if (rank < steps->thread_rank || (rank == steps->thread_rank && ++steps->foreign < 3))
		return;
	steps->thread_id = thread_id;
	steps->thread_rank = rank;
	steps->foreign = 0;
	if (steps->ends_kind == STEPS_ENDS_INFERENCE) {
		steps->n_ends = 0;
		steps->ends_kind = STEPS_ENDS_TRAIN;
	}
	steps->has_anchor = steps->has_load = steps->loader_seen = steps->loader_drives = false;
	steps->idle_loads = 0;
}
