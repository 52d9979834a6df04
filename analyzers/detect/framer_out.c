/* SPDX-License-Identifier: Apache-2.0 */
/* The slots of all ranks of a step to a frame. */
#include "analyzers/detect/framer_internal.h"

#include <stdlib.h>
#include <string.h>

#define PREFETCH_RANKS 4
#define PREFETCH_WORDS 160 /* what follows them the processor finds */

/* Which class a frame is, by the ranks': the first of these that one has. */
static const enum frame_class precedence[] = {FRAME_FIRST, FRAME_CHECKPOINT, FRAME_EVALUATION};

static struct framer_slot *align_out_slot_of(const struct framer_room *job, size_t index)
{
	const struct framer_process *process = job->live[index];
	struct framer_slot *slot;

	if (process->align == FRAMER_UNPLACED)
		return NULL;
	slot = framer_slot_find(process, job->head - process->offset);
	return slot && slot->closed ? slot : NULL;
}

/* Less than half of the usual ones, and none of a later step: they ceased to be seen within it. Where nobody looks any
 * more, not all of them is enough: those of a card come after its step's end. */
static bool has_ops(const struct framer_process *process, const struct framer_slot *slot)
{
	uint32_t least = framer_is_unwatched(process) ? process->usual : process->usual / 2;
	bool ceased = process->usual != UINT32_MAX && slot->records < least && process->ops_newest <= slot->step;

	return slot->records && !slot->partial && !ceased && !framer_is_cut(process, slot);
}

static bool align_out_reserve(struct framer_scratch *scratch, size_t ranks)
{
	size_t many = scratch->rank_room;

	if (!framer_grow((void **)&scratch->slot, &many, ranks, sizeof(struct framer_slot *), SIZE_MAX / 512))
		return false;
	many = scratch->rank_room;
	if (!framer_grow((void **)&scratch->rank, &many, ranks, sizeof(*scratch->rank), SIZE_MAX / 512))
		return false;
	many = scratch->rank_room;
	if (!framer_grow((void **)&scratch->stop, &many, ranks, sizeof(*scratch->stop), SIZE_MAX / 512))
		return false;
	scratch->rank_room = many;
	return true;
}

static bool align_out_write_ranks(struct framer *framer, struct framer_room *job, struct frame *frame, size_t *ret_with_ops)
{
	struct framer_scratch *scratch = &framer->scratch;
	unsigned classes = 0;
	size_t here = 0;

	*ret_with_ops = 0;
	if (!align_out_reserve(scratch, job->ranks))
		return false;
	for (size_t i = 0; i < job->ranks; i++) {
		struct framer_slot *slot = scratch->slot[i] = align_out_slot_of(job, i);
		struct frame_rank *rank = &scratch->rank[i];

		framer_slot_prefetch(job, i);
		if (!slot) {
			*rank = (struct frame_rank){.here = false};
			continue;
		}
		here++;
		*rank = (struct frame_rank){
			.here = true, .step_ns = slot->step_ns, .end_ns = slot->start_ns + slot->step_ns};
		memcpy(rank->stage_ns, slot->stage_ns, sizeof(rank->stage_ns));
		framer_host_write(slot, &rank->host);
		frame->lost += slot->lost;
		classes |= 1u << slot->class;
		slot->has_ops = has_ops(job->live[i], slot);
		*ret_with_ops += slot->has_ops;
	}
	if (*ret_with_ops * 2 <= here)
		*ret_with_ops = 0;
	for (size_t i = sizeof(precedence) / sizeof(precedence[0]); i-- > 0;) {
		if (classes & 1u << precedence[i])
			frame->class = precedence[i];
	}
	return here > 0;
}

/* Of a rank that comes soon. */
static void prefetch_ops(const struct framer_scratch *scratch, size_t ranks, size_t i)
{
	const struct framer_slot *slot;

	if (i + 2 * PREFETCH_RANKS < ranks && scratch->slot[i + 2 * PREFETCH_RANKS])
		framer_prefetch(scratch->slot[i + 2 * PREFETCH_RANKS], 128);
	slot = i + PREFETCH_RANKS < ranks ? scratch->slot[i + PREFETCH_RANKS] : NULL;
	if (!slot || !slot->plan)
		return;
	framer_prefetch(slot->plan, sizeof(*slot->plan) + 2 * sizeof(*slot->plan->lane));
	framer_prefetch(slot->word, slot->words < PREFETCH_WORDS ? slot->words * 4 : PREFETCH_WORDS * 4);
}

static void align_out_write_ops(struct framer *framer, struct framer_room *job, struct frame *frame, bool wanted)
{
	const struct framer_scratch *scratch = &framer->scratch;
	uint8_t worst = FRAME_TIER_MAX;

	if (!framer_groups_begin(framer, job))
		wanted = false;
	for (size_t i = 0; i < job->ranks; i++) {
		struct framer_slot *slot = scratch->slot[i];

		prefetch_ops(scratch, job->ranks, i);
		scratch->stop[i] = scratch->ops;
		if (!slot || !slot->records)
			continue;
		if (!wanted || !slot->has_ops) {
			framer->counts.ops_left_out += slot->records;
			continue;
		}
		framer_groups_add(framer, job, job->live[i], slot, (uint32_t)i);
		scratch->stop[i] = scratch->ops;
		if (slot->worst_tier < worst)
			worst = slot->worst_tier;
	}
	framer_groups_end(framer);
	frame->tier = framer->scratch.ops ? worst : FRAME_TIER_STAGES;
	frame->comms = job->comms;
	frame->comm = job->comm;
	frame->groups = framer->scratch.groups;
	frame->group = framer->scratch.group;
	frame->ops = framer->scratch.ops;
	frame->op = framer->scratch.op;
	if (scratch->tame && scratch->ops) {
		frame->shortest = scratch->shortest;
		frame->stop = scratch->stop;
	}
}

static int align_out_compare(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* The reference's step stands for the job's: they differ little. */
static void align_out_learn(struct framer_room *job, const struct frame *frame)
{
	uint64_t sorted[FRAMER_MEDIAN];
	size_t index = 0, count;
	const struct framer_process *ref = framer_process_get(job->framer, job->ref);

	if (ref && frame->rank[ref->index].here)
		index = ref->index;
	while (index < frame->ranks && !frame->rank[index].here)
		index++;
	if (index == frame->ranks || (frame->class != FRAME_TRAIN && job->recents >= FRAMER_FIRST))
		return;
	if (frame->class == FRAME_TRAIN && !job->trained) { /* the first ones were better than nothing */
		job->trained = true;
		job->recents = 0;
	}
	job->recent[job->recents++ % FRAMER_MEDIAN] = frame->rank[index].step_ns;
	count = job->recents < FRAMER_MEDIAN ? job->recents : FRAMER_MEDIAN;
	memcpy(sorted, job->recent, count * sizeof(*sorted));
	qsort(sorted, count, sizeof(*sorted), align_out_compare);
	job->step_ns = sorted[count / 2];
}

static void learn_usual(struct framer_process *process, uint32_t records)
{
	process->usual = records;
	process->less = process->before < records ? process->before : records;
	process->before = records;
}

static void align_out_release(struct framer *framer, struct framer_room *job)
{
	for (size_t i = 0; i < job->ranks; i++) {
		struct framer_process *process = job->live[i];
		struct framer_slot *slot;

		framer_slot_prefetch(job, i);
		if (process->align == FRAMER_UNPLACED)
			continue;
		slot = framer_slot_find(process, job->head - process->offset);
		if (slot && framer_is_unwatched(process) && framer_is_cut(process, slot)) {
			process->ops_live = false;
			if (process->usual != UINT32_MAX)
				process->usual_once = process->usual;
			framer_usual_from(process, UINT32_MAX);
		}
		/* Where some were lost, it may have had more. */
		if (slot && process->ops_live && slot->records && !slot->partial &&
			(slot->step > process->lost_until || process->usual == UINT32_MAX))
			learn_usual(process, slot->records);
		framer_slots_drop(framer, process, job->head - process->offset + 1);
	}
}

void framer_out(struct framer *framer, struct framer_room *job)
{
	struct frame frame = {.step = (uint64_t)job->head,
		.world_size = job->world_size > job->ranks ? job->world_size : (uint32_t)job->ranks,
		.ranks = job->ranks,
		.who = job->who,
		.lost = job->lost};
	size_t with_ops;

	frame.cards = frame.world_size;
	if (align_out_write_ranks(framer, job, &frame, &with_ops)) {
		frame.rank = framer->scratch.rank;
		align_out_write_ops(framer, job, &frame, with_ops > 0);
		job->lost = 0;
		framer->counts.frames++;
		align_out_learn(job, &frame);
		if (framer->sink.frame)
			framer->sink.frame(framer->sink.arg, job->number, &frame);
	}
	align_out_release(framer, job);
}
