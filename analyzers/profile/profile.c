/* SPDX-License-Identifier: Apache-2.0 */
/* What was fed: texts, functions, lines and stacks are kept once. */
#include "analyzers/profile/profile_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/array.h"
#include "analyzers/base/fnv1a.h"
#include "analyzers/base/hash.h"

/* -ENOSPC beyond max, else -ENOMEM. */
static int profile_reserve(void *items, size_t *capacity, size_t need, size_t size, size_t max)
{
	if (need > max)
		return -ENOSPC;
	return array_reserve(items, capacity, need, size, max) ? 0 : -ENOMEM;
}

/* Twice as many slots; what hashes they have is not kept, so the caller has them computed again. */
static bool profile_index_grow(struct profile_index *index)
{
	size_t slots = index->slots ? 2 * index->slots : 1024;
	uint32_t *grown = calloc(slots, 2 * sizeof(*grown));

	if (!grown)
		return false;
	/* Beside each number stands the lower half of its hash. */
	for (size_t i = 0; i < index->slots; i++) {
		size_t at;

		if (!index->slot[2 * i])
			continue;
		at = index->slot[2 * i + 1] & (slots - 1);
		while (grown[2 * at])
			at = (at + 1) & (slots - 1);
		memcpy(&grown[2 * at], &index->slot[2 * i], 2 * sizeof(*grown));
	}
	free(index->slot);
	index->slot = grown;
	index->slots = slots;
	return true;
}

uint32_t *profile_index_find(struct profile_index *index, uint64_t hash,
	bool (*same)(const struct profile *profile, uint32_t number, const void *key), const struct profile *profile,
	const void *key)
{
	uint32_t half = (uint32_t)hash_mix(hash, 0);
	size_t at;

	if (4 * (index->used + 1) > 3 * index->slots && !profile_index_grow(index))
		return NULL;
	at = half & (index->slots - 1);
	while (index->slot[2 * at] && (index->slot[2 * at + 1] != half || !same(profile, index->slot[2 * at] - 1, key)))
		at = (at + 1) & (index->slots - 1);
	if (!index->slot[2 * at])
		index->slot[2 * at + 1] = half;
	return &index->slot[2 * at];
}

static bool profile_same_text(const struct profile *profile, uint32_t number, const void *key)
{
	return strcmp(profile->text[number], key) == 0;
}

/* The kept copy. */
static int profile_intern_text(struct profile *profile, const char *text, const char **ret)
{
	uint32_t *slot = profile_index_find(
		&profile->text_index, fnv1a_text(FNV1A_START, text), profile_same_text, profile, text);
	size_t bytes = strlen(text) + 1;
	int r;

	if (!slot)
		return -ENOMEM;
	if (!*slot) {
		if (profile->text_bytes + bytes > PROFILE_TEXT_BYTES_MAX)
			return -ENOSPC;
		r = profile_reserve((void **)&profile->text, &profile->texts_capacity, profile->texts + 1,
			sizeof(*profile->text), PROFILE_TEXTS_MAX);
		if (r < 0)
			return r;
		profile->text[profile->texts] = strdup(text);
		if (!profile->text[profile->texts])
			return -ENOMEM;
		profile->text_bytes += bytes;
		profile->text_index.used++;
		*slot = (uint32_t)++profile->texts;
	}
	*ret = profile->text[*slot - 1];
	return 0;
}

/* Texts are interned: equal ones have one address. */
static bool profile_same_function(const struct profile *profile, uint32_t number, const void *key)
{
	const struct profile_function *a = &profile->function[number], *b = key;

	return a->kind == b->kind && a->name == b->name && a->file == b->file && a->line == b->line;
}

static uint64_t profile_hash_function(const struct profile_function *function)
{
	uint64_t hash = hash_mix((uintptr_t)function->name, (uintptr_t)function->file);

	return hash_mix(hash, (uintptr_t)function->kind ^ function->line);
}

static int profile_intern_function(struct profile *profile, const struct profile_function *function, uint32_t *ret)
{
	uint32_t *slot = profile_index_find(
		&profile->function_index, profile_hash_function(function), profile_same_function, profile, function);
	int r;

	if (!slot)
		return -ENOMEM;
	if (!*slot) {
		r = profile_reserve((void **)&profile->function, &profile->functions_capacity, profile->functions + 1,
			sizeof(*profile->function), PROFILE_TEXTS_MAX);
		if (r < 0)
			return r;
		profile->function[profile->functions] = *function;
		profile->function_index.used++;
		*slot = (uint32_t)++profile->functions;
	}
	*ret = *slot - 1;
	return 0;
}

static bool profile_same_line(const struct profile *profile, uint32_t number, const void *key)
{
	const struct profile_line *a = &profile->line[number], *b = key;

	return a->function == b->function && a->frame.line == b->frame.line && a->frame.address == b->frame.address;
}

static int profile_intern_line(struct profile *profile, const struct profile_line *line, uint32_t *ret)
{
	uint64_t hash = hash_mix(line->function, line->frame.line + hash_mix(line->frame.address, 0));
	uint32_t *slot = profile_index_find(&profile->line_index, hash, profile_same_line, profile, line);
	int r;

	if (!slot)
		return -ENOMEM;
	if (!*slot) {
		r = profile_reserve((void **)&profile->line, &profile->lines_capacity, profile->lines + 1,
			sizeof(*profile->line), PROFILE_TEXTS_MAX);
		if (r < 0)
			return r;
		profile->line[profile->lines] = *line;
		profile->line_index.used++;
		*slot = (uint32_t)++profile->lines;
	}
	*ret = *slot - 1;
	return 0;
}

/* "<lambda>", "f.<locals>.<listcomp>"; but a "<module>" is one. */
static bool profile_is_nameless(const struct stack_frame *frame)
{
	const char *open = strrchr(frame->function, '<');

	return stack_frame_is_python(frame) && open && strcmp(open, "<module>") != 0 && strcmp(open, "<locals>") != 0;
}

static int profile_intern_frame(struct profile *profile, const struct stack_frame *frame, uint32_t *ret)
{
	struct profile_function function = {.line = profile_is_nameless(frame) ? frame->line : 0};
	struct profile_line line = {.frame = {.line = frame->line, .address = frame->address}};
	int r = profile_intern_text(profile, frame->kind, &function.kind);

	function.by_line = function.line != 0;
	if (r == 0)
		r = profile_intern_text(profile, frame->function, &function.name);
	if (r == 0)
		r = profile_intern_text(profile, frame->file, &function.file);
	if (r == 0)
		r = profile_intern_function(profile, &function, &line.function);
	line.frame.kind = function.kind;
	line.frame.function = function.name;
	line.frame.file = function.file;
	return r == 0 ? profile_intern_line(profile, &line, ret) : r;
}

static bool profile_same_stack(const struct profile *profile, uint32_t number, const void *key)
{
	return profile->stack[number].id == *(const int64_t *)key;
}

/* What the innermost Python frame and the native ones within it say. */
static void profile_mark_stack(struct profile_stack *stack, const struct stack_frame *frame, size_t count)
{
	size_t inner = count;

	while (inner > 0 && !stack_frame_is_python(&frame[inner - 1]))
		inner--;
	stack->python = inner > 0;
	stack->communicates = stack_communicates(&(struct stack_thread){
		.frames = count - (inner ? inner - 1 : 0), .frame = &frame[inner ? inner - 1 : 0]});
	stack->backward = inner > 0 && (strstr(frame[inner - 1].file, "/torch/autograd/") ||
					       strstr(frame[inner - 1].file, "/torch/_tensor.py"));
}

int profile_add_stack(struct profile *profile, int64_t id, const char *frames, unsigned cut)
{
	uint32_t *slot = profile_index_find(&profile->stack_index, (uint64_t)id, profile_same_stack, profile, &id);
	struct profile_stack stack = {.id = id, .cut = cut};
	static const struct stack_frame none = {.kind = "native", .function = "(no frames)", .file = ""};
	struct stack_frame frame[PROFILE_FRAMES_MAX];
	char *text;
	size_t count;
	int r;

	if (!slot)
		return -ENOMEM;
	if (*slot)
		return 0;
	r = profile_reserve((void **)&profile->stack, &profile->stacks_capacity, profile->stacks + 1,
		sizeof(*profile->stack), PROFILE_STACKS_MAX);
	text = r == 0 ? strdup(frames) : NULL;
	if (!text)
		return r < 0 ? r : -ENOMEM;
	count = stack_frames_parse(text, frame, PROFILE_FRAMES_MAX);
	if (!count)
		frame[count++] = none;
	stack.line = calloc(count, sizeof(*stack.line));
	r = stack.line ? 0 : -ENOMEM;
	for (size_t i = 0; r == 0 && i < count; i++)
		r = profile_intern_frame(profile, &frame[i], &stack.line[stack.lines++]);
	if (r == 0) {
		profile_mark_stack(&stack, frame, count);
		profile->stack[profile->stacks] = stack;
		profile->stack_index.used++;
		*slot = (uint32_t)++profile->stacks;
	} else {
		free(stack.line);
	}
	free(text);
	return r;
}

struct profile_rank *profile_find_rank(struct profile *profile, int64_t rank)
{
	for (size_t i = 0; i < profile->ranks; i++)
		if (profile->rank[i].rank == rank)
			return &profile->rank[i];
	return NULL;
}

static int profile_make_rank(struct profile *profile, int64_t rank, struct profile_rank **ret)
{
	struct profile_rank *found = profile_find_rank(profile, rank);
	int r;

	if (!found) {
		r = profile_reserve((void **)&profile->rank, &profile->ranks_capacity, profile->ranks + 1,
			sizeof(*profile->rank), PROFILE_RANKS_MAX);
		if (r < 0)
			return r;
		found = &profile->rank[profile->ranks++];
		*found = (struct profile_rank){.rank = rank, .step_thread = -1};
	}
	found->sorted = false;
	*ret = found;
	return 0;
}

/* The end of what begins and lasts; false: no times. */
static bool profile_end(int64_t start_ns, int64_t duration_ns, int64_t *ret)
{
	return start_ns >= 0 && duration_ns >= 0 && !__builtin_add_overflow(start_ns, duration_ns, ret);
}

int profile_add_step(struct profile *profile, int64_t rank, int64_t start_ns, int64_t duration_ns)
{
	struct profile_rank *to;
	int64_t end_ns;
	int r;

	if (!profile_end(start_ns, duration_ns, &end_ns) || !duration_ns)
		return 0;
	r = profile_make_rank(profile, rank, &to);
	if (r == 0)
		r = profile_reserve(
			(void **)&to->step, &to->steps_capacity, to->steps + 1, sizeof(*to->step), PROFILE_STEPS_MAX);
	if (r == 0)
		to->step[to->steps++] = (struct profile_step){start_ns, end_ns};
	return r;
}

int profile_add_stage(struct profile *profile, int64_t rank, int64_t thread_id, const char *stage, int64_t start_ns,
	int64_t duration_ns)
{
	struct profile_stage add = {.thread_id = thread_id};
	struct profile_rank *to;
	int r;

	if (!profile_end(start_ns, duration_ns, &add.end_ns))
		return 0;
	add.start_ns = start_ns;
	r = profile_make_rank(profile, rank, &to);
	if (r == 0)
		r = profile_intern_text(profile, stage, &add.name);
	if (r == 0)
		r = profile_reserve((void **)&to->stage, &to->stages_capacity, to->stages + 1, sizeof(*to->stage),
			PROFILE_STEPS_MAX);
	if (r < 0)
		return r;
	to->stage[to->stages++] = add;
	/* The optimizer runs where the steps are made. */
	if (strcmp(stage, "optimizer") == 0)
		to->step_thread = thread_id;
	return 0;
}

static int profile_make_thread(
	struct profile *profile, struct profile_rank *to, const struct profile_sample *sample, uint32_t *ret)
{
	struct profile_thread thread = {.thread_id = sample->thread_id, .main = sample->main};
	int r;

	/* The newest first: samples of a thread come together. */
	for (size_t i = to->threads; i-- > 0;)
		if (to->thread[i].thread_id == sample->thread_id) {
			*ret = (uint32_t)i;
			return 0;
		}
	r = profile_intern_text(profile, sample->thread_name, &thread.name);
	if (r == 0)
		r = profile_reserve((void **)&to->thread, &to->threads_capacity, to->threads + 1, sizeof(*to->thread),
			PROFILE_STEPS_MAX);
	if (r < 0)
		return r;
	to->thread[to->threads] = thread;
	*ret = (uint32_t)to->threads++;
	return 0;
}

static void profile_count(
	struct profile *profile, const struct profile_sample *sample, const struct profile_stack *stack)
{
	struct profile_totals *totals = &profile->totals;

	totals->samples++;
	totals->cut += (stack->cut & PROFILE_CUT_PYTHON) != 0;
	totals->native_cut += (stack->cut & PROFILE_CUT_NATIVE) != 0;
	if (!totals->first_ns || sample->start_ns < totals->first_ns)
		totals->first_ns = sample->start_ns;
	if (sample->start_ns > totals->last_ns)
		totals->last_ns = sample->start_ns;
}

int profile_add_sample(struct profile *profile, const struct profile_sample *sample)
{
	uint32_t *slot = profile_index_find(
		&profile->stack_index, (uint64_t)sample->stack, profile_same_stack, profile, &sample->stack);
	struct profile_taken taken = {
		sample->start_ns, sample->off_cpu ? sample->duration_ns : 1, sample->weight_ns, 0, 0, sample->off_cpu};
	struct profile_rank *to;
	int64_t end_ns;
	int r;

	if (!slot)
		return -ENOMEM;
	if (!*slot || sample->weight_ns < 0 || taken.duration_ns <= 0 ||
		!profile_end(sample->start_ns, taken.duration_ns, &end_ns)) {
		profile->totals.unknown++;
		return 0;
	}
	if (profile->totals.samples >= PROFILE_SAMPLES_MAX)
		return -ENOSPC;
	taken.stack = *slot - 1;
	r = profile_make_rank(profile, sample->rank, &to);
	if (r == 0)
		r = profile_make_thread(profile, to, sample, &taken.thread);
	if (r == 0)
		r = profile_reserve((void **)&to->sample, &to->samples_capacity, to->samples + 1, sizeof(*to->sample),
			PROFILE_SAMPLES_MAX);
	if (r < 0)
		return r;
	to->sample[to->samples++] = taken;
	profile_count(profile, sample, &profile->stack[taken.stack]);
	return 0;
}

void profile_totals(const struct profile *profile, struct profile_totals *ret)
{
	*ret = profile->totals;
	ret->stacks = profile->stacks;
}

const struct stack_frame *profile_frame(const struct profile *profile, uint32_t number)
{
	return number < profile->lines ? &profile->line[number].frame : NULL;
}

struct profile *profile_new(void)
{
	return calloc(1, sizeof(struct profile));
}

struct profile *profile_free(struct profile *profile)
{
	if (!profile)
		return NULL;
	for (size_t i = 0; i < profile->ranks; i++) {
		free(profile->rank[i].step);
		free(profile->rank[i].stage);
		free(profile->rank[i].sample);
		free(profile->rank[i].thread);
	}
	for (size_t i = 0; i < profile->stacks; i++)
		free(profile->stack[i].line);
	for (size_t i = 0; i < profile->texts; i++)
		free(profile->text[i]);
	free(profile->rank);
	free(profile->stack);
	free(profile->function);
	free(profile->line);
	free(profile->text);
	free(profile->stack_index.slot);
	free(profile->function_index.slot);
	free(profile->line_index.slot);
	free(profile->text_index.slot);
	free(profile);
	return NULL;
}
