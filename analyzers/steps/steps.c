/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pairs marks on their threads, drops marks whose end was lost, assigns stages to steps and reports them. steps_rules.c
 * decides where steps begin and end.
 *
 * Lost ends. A begin that cannot lie within an open mark (stage_may_hold(), or a name nested in itself where it cannot
 * be), or a stack pointer above its frame, proves that the open mark ended unseen. It and all marks above it are
 * dropped and counted, not reported: a made-up duration is worse than none. A dropped optimizer still ends, at the
 * present time.
 */
#include "analyzers/steps/steps_internal.h"

#include <stdlib.h>
#include <string.h>

#include "analyzers/base/array.h"

#define LEFT_OUT_MAX 1024 /* open marks beyond a full stack; then the stack is stale */
#define BACKWARD_STALE 8  /* times the last backward's duration; then an open one has ended unseen */

struct steps *steps_new(const struct steps_sink *sink, int64_t first_step, bool from_start)
{
	struct steps *steps = calloc(1, sizeof(*steps));

	if (!steps)
		return NULL;
	steps->sink = *sink;
	steps->next = first_step;
	steps->from_start = from_start;
	return steps;
}

struct steps *steps_free(struct steps *steps)
{
	if (!steps)
		return NULL;
	steps_threads_done(&steps->threads);
	free(steps->held);
	free(steps);
	return NULL;
}

size_t steps_bytes(const struct steps *steps)
{
	return sizeof(*steps) + steps->threads.count * sizeof(*steps->threads.rows) +
	       steps->threads.entries * sizeof(struct steps_entry) + steps->held_capacity * sizeof(*steps->held);
}

int64_t steps_find_step(const struct steps *steps, uint64_t start_ns)
{
	if (steps->open && start_ns < steps->start_ns)
		return start_ns >= steps->previous_start_ns && start_ns < steps->previous_end_ns ? steps->next - 1
												 : STEPS_NONE;
	if (steps->n_ends && start_ns >= steps->ends[0])
		return STEPS_UNDECIDED;
	if (!steps->open)
		return STEPS_NONE;
	if (steps->n_ends && steps->ends_kind == STEPS_ENDS_TRAIN)
		return steps->next;
	return steps_rule_certain(steps) ? steps->next : STEPS_UNDECIDED;
}

static void steps_emit(
	struct steps *steps, const struct steps_entry *entry, uint32_t thread_id, uint32_t depth, uint64_t end_ns)
{
	struct steps_stage stage = {
		.step = entry->step,
		.stage = entry->stage,
		.name = entry->name,
		.start_ns = entry->start_ns,
		.duration_ns = end_ns - entry->start_ns,
		.thread_id = thread_id,
		.depth = depth,
	};

	if (steps->open && entry->step == steps->next)
		steps->shown = true;
	steps->sink.stage(steps->sink.arg, &stage);
}

static bool steps_hold(struct steps *steps, const struct steps_held *held)
{
	if (!array_reserve((void **)&steps->held, &steps->held_capacity, steps->held_count + 1, sizeof(*steps->held),
		    STEPS_HELD_MAX))
		return false;
	steps->held[steps->held_count++] = *held;
	return true;
}

void steps_finish(
	struct steps *steps, const struct steps_entry *entry, uint32_t thread_id, uint32_t depth, uint64_t end_ns)
{
	struct steps_held held = {*entry, end_ns, thread_id, depth};

	if (entry->step == STEPS_UNDECIDED) {
		if (steps_hold(steps, &held))
			return;
		steps->counts.not_held++;
		held.entry.step = STEPS_NONE;
	}
	steps_emit(steps, &held.entry, thread_id, depth, end_ns);
}

/* Assigns all undecided marks, open or ended, that started before until_ns to a step. */
void steps_settle(struct steps *steps, uint64_t until_ns, int64_t number)
{
	size_t kept = 0;

	for (size_t i = 0; i < steps->threads.count; i++) {
		struct steps_thread *thread = &steps->threads.rows[i];

		for (size_t j = 0; j < thread->depth; j++) {
			struct steps_entry *entry = &thread->entries[j];

			if (entry->step == STEPS_UNDECIDED && entry->start_ns < until_ns) {
				entry->step = number;
				steps->shown |= steps->open && number == steps->next;
			}
		}
	}
	for (size_t i = 0; i < steps->held_count; i++) {
		struct steps_held *held = &steps->held[i];

		if (held->entry.start_ns < until_ns) {
			held->entry.step = number;
			steps_emit(steps, &held->entry, held->thread_id, held->depth, held->end_ns);
		} else {
			steps->held[kept++] = *held;
		}
	}
	steps->held_count = kept;
}

static bool is_step_thread(const struct steps *steps, const struct steps_thread *thread)
{
	return steps->has_thread && thread->id == steps->thread_id;
}

/* Drops the marks from index on: their ends were lost. */
static void steps_drop(struct steps *steps, struct steps_thread *thread, size_t index, uint64_t now_ns)
{
	const struct steps_entry *loop = steps_thread_loop(thread);
	bool optimized = false, backward_since = false;

	if (index >= thread->depth)
		return;
	if (loop && loop >= &thread->entries[index]) {
		optimized = loop->kind == STAGE_OPTIMIZER || loop->optimizer_inside;
		backward_since = loop->backward_inside;
	}
	steps->counts.unpaired += thread->depth - index;
	thread->depth = index;
	if (!optimized || !is_step_thread(steps, thread))
		return;
	steps_rule_end(steps, STAGE_OPTIMIZER, now_ns, false);
	if (backward_since) /* it belongs to the next step */
		steps_rule_closure(steps);
}

/* Drops functions unwound by an exception: the stack is no deeper than at their entry. */
static void drop_unwound(struct steps *steps, struct steps_thread *thread, const struct steps_mark *mark)
{
	uint64_t at = mark->stack_pointer;

	for (size_t i = 0; at && i < thread->depth; i++) {
		uint64_t frame = thread->entries[i].frame;

		if (frame && (at > frame || (at == frame && mark->edge == STEPS_BEGIN))) {
			steps_drop(steps, thread, i, thread->last_ns);
			return;
		}
	}
}

static bool is_stale(const struct steps *steps, const struct steps_entry *outer, const struct steps_entry *inner)
{
	if (!stage_may_hold(outer->kind, inner->kind))
		return true;
	if (outer->kind == inner->kind && inner->once && strcmp(outer->name, inner->name) == 0)
		return true;
	if (outer->kind != STAGE_BACKWARD)
		return false;
	if (inner->kind == STAGE_BACKWARD)
		return steps->backward_ns && (inner->start_ns - outer->start_ns) / BACKWARD_STALE > steps->backward_ns;
	/* A job steps either inside of backward or outside. */
	return steps->optimizer_seen && (inner->kind == STAGE_OPTIMIZER || inner->kind == STAGE_ZERO_GRAD);
}

static void drop_stale(struct steps *steps, struct steps_thread *thread, const struct steps_entry *inner)
{
	if (thread->depth >= STEPS_DEPTH_MAX &&
		((stage_is_loop(inner->kind) && inner->kind != STAGE_FORWARD) || thread->left_out >= LEFT_OUT_MAX)) {
		steps_drop(steps, thread, 0, inner->start_ns);
		thread->left_out = 0;
		return;
	}
	for (size_t i = 0; i < thread->depth; i++) {
		if (is_stale(steps, &thread->entries[i], inner)) {
			steps_drop(steps, thread, i, inner->start_ns);
			return;
		}
	}
}

/* A loop mark begins inside another, or on another thread during the step thread's backward. */
static void begin_inside(struct steps *steps, struct steps_entry *outer, enum stage_kind kind)
{
	if (outer->kind == STAGE_BACKWARD && kind == STAGE_OPTIMIZER)
		outer->optimizer_inside = true;
	if (outer->kind == STAGE_OPTIMIZER && kind == STAGE_BACKWARD) {
		outer->backward_inside = true;
		steps_rule_closure(steps);
	}
}

static void begin_loop(struct steps *steps, struct steps_thread *thread, const struct steps_entry *entry)
{
	struct steps_thread *own = steps->has_thread ? steps_threads_find(&steps->threads, steps->thread_id) : NULL;
	struct steps_entry *outer = own ? steps_thread_loop(own) : NULL;

	if (own != thread && outer && outer->kind == STAGE_BACKWARD) {
		begin_inside(steps, outer, entry->kind);
		return;
	}
	steps_rule_thread(steps, thread->id, entry->kind);
	if (!is_step_thread(steps, thread))
		return;
	outer = steps_thread_loop(thread);
	if (outer)
		begin_inside(steps, outer, entry->kind);
	else
		steps_rule_begin(steps, entry->kind, entry->start_ns, (uint32_t)thread->depth);
}

static void steps_on_begin(struct steps *steps, struct steps_thread *thread, const struct steps_mark *mark)
{
	const char *name = mark->name ? mark->name : "";
	struct stage_meaning meaning = mark->stage ? stage_of_stage(mark->stage) : stage_of_name(name);
	struct steps_entry entry =
				   {
					   .start_ns = thread->last_ns,
					   .kind = meaning.kind,
					   .once = meaning.once,
					   .from_name = !mark->stage,
					   .frame = mark->is_frame ? mark->stack_pointer : 0,
				   },
			   *pushed;
	const char *stage = mark->stage ? mark->stage : meaning.kind == STAGE_USER ? name : stage_text(meaning.kind);
	bool whole = steps_copy(entry.name, name);

	whole &= steps_copy(entry.stage, stage);
	steps->counts.names_cut += !whole;

	drop_stale(steps, thread, &entry);
	if (stage_is_loop(meaning.kind))
		begin_loop(steps, thread, &entry);
	else if (meaning.kind == STAGE_USER && !mark->stage)
		steps_rule_user(steps, entry.start_ns);
	if ((meaning.kind == STAGE_USER || meaning.kind == STAGE_SYNC) && is_step_thread(steps, thread) &&
		!steps_thread_loop(thread))
		steps->iteration_marked = true;

	pushed = steps_thread_push(&steps->threads, thread);
	if (!pushed) {
		steps->counts.too_deep++;
		thread->left_out++;
		return;
	}
	*pushed = entry;
	pushed->step = steps_find_step(steps, entry.start_ns);
	steps->shown |= steps->open && pushed->step == steps->next;
}

static void steps_on_end(struct steps *steps, struct steps_thread *thread, const struct steps_mark *mark)
{
	int index = steps_thread_match(thread, mark->stage);
	const struct steps_entry *loop;
	struct steps_entry entry;
	bool outermost;

	if (thread->left_out) {
		thread->left_out--;
		return;
	}
	if (index < 0) {
		steps->counts.unpaired++;
		return;
	}
	steps_drop(steps, thread, (size_t)index + 1, thread->last_ns);
	entry = thread->entries[index];
	loop = steps_thread_loop(thread);
	outermost = loop == &thread->entries[index];
	thread->depth = (size_t)index;
	steps_finish(steps, &entry, thread->id, (uint32_t)index, thread->last_ns);
	if (!is_step_thread(steps, thread))
		return;
	if (outermost && entry.kind == STAGE_BACKWARD)
		steps->backward_ns = thread->last_ns - entry.start_ns;
	if (entry.kind == STAGE_BACKWARD && steps_thread_match(thread, stage_text(STAGE_BACKWARD)) < 0)
		steps_rule_backward(steps, thread->last_ns);
	if (outermost)
		steps_rule_end(steps, entry.kind, thread->last_ns, entry.optimizer_inside);
}

void steps_feed(struct steps *steps, const struct steps_mark *mark)
{
	struct steps_thread *thread;

	steps->counts.marks++;
	thread = mark->edge == STEPS_BEGIN
			 ? steps_threads_get(&steps->threads, mark->thread_id,
				   steps->has_thread ? steps->thread_id : mark->thread_id, &steps->counts.unpaired)
			 : steps_threads_find(&steps->threads, mark->thread_id);
	if (!thread) {
		steps->counts.unpaired++;
		return;
	}
	if (mark->time_ns > thread->last_ns)
		thread->last_ns = mark->time_ns;
	drop_unwound(steps, thread, mark);
	if (mark->edge == STEPS_BEGIN)
		steps_on_begin(steps, thread, mark);
	else
		steps_on_end(steps, thread, mark);
}

/* Undecided stages most likely belong to the next step, unless an evaluation runs. */
static void settle_all(struct steps *steps)
{
	steps_settle(steps, UINT64_MAX, steps->open && steps->idle_loads < 2 ? steps->next : STEPS_NONE);
}

void steps_idle(struct steps *steps, uint64_t now_ns, uint64_t idle_ns)
{
	const struct steps_thread *thread =
		steps->has_thread ? steps_threads_find(&steps->threads, steps->thread_id) : NULL;
	const struct steps_entry *loop = thread ? steps_thread_loop(thread) : NULL;

	if (!thread || now_ns < thread->last_ns || now_ns - thread->last_ns < idle_ns)
		return;
	if (!steps->sealed && (!loop || (loop->kind != STAGE_OPTIMIZER && loop->kind != STAGE_BACKWARD)))
		steps_rule_decide(steps, false);
	if ((now_ns - thread->last_ns) / STEPS_IDLE_HELD >= idle_ns && !steps->n_ends)
		settle_all(steps);
}

void steps_end(struct steps *steps, uint64_t now_ns)
{
	steps_rule_decide(steps, true);
	for (size_t i = 0; i < steps->threads.count; i++)
		steps->threads.rows[i].depth = 0;
	steps->n_ends = 0;
	settle_all(steps);
	steps->open = steps->mid = steps->has_anchor = false;
}

void steps_names_readable(struct steps *steps, bool readable)
{
	if (!readable)
		steps_rule_no_names(steps);
	else if (steps->mode == STEPS_NO_NAMES)
		steps->mode = STEPS_BY_NAMES;
}

static size_t list_thread(
	const struct steps *steps, const struct steps_thread *thread, struct steps_open *ret, size_t max)
{
	size_t n = 0;

	for (; n < thread->depth && n < max; n++) {
		const struct steps_entry *entry = &thread->entries[n];

		ret[n] = (struct steps_open){
			.step = entry->step,
			.start_ns = entry->start_ns,
			.thread_id = thread->id,
			.depth = (uint32_t)n,
		};
		if (entry->step == STEPS_UNDECIDED)
			ret[n].step = steps->open ? steps->next + (steps->n_ends > 0) : STEPS_NONE;
		memcpy(ret[n].stage, entry->stage, sizeof(ret[n].stage));
		memcpy(ret[n].name, entry->name, sizeof(ret[n].name));
	}
	return n;
}

size_t steps_in_flight(const struct steps *steps, struct steps_open *ret, size_t max)
{
	size_t n = 0;

	for (int own = 1; own >= 0; own--) {
		for (size_t i = 0; i < steps->threads.count && n < max; i++) {
			const struct steps_thread *thread = &steps->threads.rows[i];

			if (is_step_thread(steps, thread) == (own == 1))
				n += list_thread(steps, thread, ret + n, max - n);
		}
	}
	return n;
}

uint32_t steps_step_thread(const struct steps *steps)
{
	return steps->has_thread ? steps->thread_id : 0;
}

void steps_counts(const struct steps *steps, struct steps_counts *ret)
{
	*ret = steps->counts;
}

int64_t steps_step_at(const struct steps *steps, uint64_t time_ns)
{
	int64_t step = steps_find_step(steps, time_ns);

	if (step != STEPS_UNDECIDED)
		return step;
	if (!steps->open)
		return STEPS_NONE;
	return steps->next + (steps->n_ends > 0 && time_ns >= steps->ends[0]);
}

int64_t steps_next(const struct steps *steps)
{
	return steps->next;
}
