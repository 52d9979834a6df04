/* SPDX-License-Identifier: Apache-2.0 */
/* The slots of all ranks of a step to a frame. */
#include "analyzers/detect/framer_internal.h"

#include <stdlib.h>
#include <string.h>

#define PREFETCH_RANKS 4
#define PREFETCH_WORDS 160 /* what follows them the processor finds */

/* Which class a frame is, by the ranks': the first of these that one has. */
static const enum frame_class precedence[] = {FRAME_FIRST, FRAME_CHECKPOINT, FRAME_EVALUATION};

static struct align_slot *align_out_slot_of(const struct align_job *job, size_t index)
{
	const struct align_process *process = job->live[index];
	struct align_slot *slot;

	if (process->align == ALIGN_UNPLACED)
		return NULL;
	slot = align_slot_find(process, job->head - process->offset);
	return slot && slot->closed ? slot : NULL;
}

/* Less than half of the usual ones, and none of a later step: they ceased to be seen within it. Where nobody looks any
 * more, not all of them is enough: those of a card come after its step's end. */
static bool has_ops(const struct align_process *process, const struct align_slot *slot)
{
	uint32_t least = align_is_unwatched(process) ? process->usual : process->usual / 2;
	bool ceased = process->usual != UINT32_MAX && slot->records < least && process->coll_newest <= slot->step;

	return slot->records && !slot->partial && !ceased && !align_is_cut(process, slot);
}

static bool align_out_reserve(struct align_scratch *scratch, size_t ranks)
{
	size_t many = scratch->rank_room;

	if (!align_grow((void **)&scratch->slot, &many, ranks, sizeof(struct align_slot *), SIZE_MAX / 512))
		return false;
	many = scratch->rank_room;
	if (!align_grow((void **)&scratch->rank, &many, ranks, sizeof(*scratch->rank), SIZE_MAX / 512))
		return false;
	many = scratch->rank_room;
	if (!align_grow((void **)&scratch->stop, &many, ranks, sizeof(*scratch->stop), SIZE_MAX / 512))
		return false;
	scratch->rank_room = many;
	return true;
}

static bool align_out_write_ranks(struct align *align, struct align_job *job, struct frame *frame, size_t *ret_with_ops)
{
	struct align_scratch *scratch = &align->scratch;
	unsigned classes = 0;
	size_t here = 0;

	*ret_with_ops = 0;
	if (!align_out_reserve(scratch, job->ranks))
		return false;
	for (size_t i = 0; i < job->ranks; i++) {
		struct align_slot *slot = scratch->slot[i] = align_out_slot_of(job, i);
		struct frame_rank *rank = &scratch->rank[i];

		align_slot_prefetch(job, i);
		if (!slot) {
			*rank = (struct frame_rank){.here = false};
			continue;
		}
		here++;
		*rank = (struct frame_rank){
			.here = true, .step_ns = slot->step_ns, .end_ns = slot->start_ns + slot->step_ns};
		memcpy(rank->stage_ns, slot->stage_ns, sizeof(rank->stage_ns));
		align_host_write(slot, &rank->host);
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
static void prefetch_ops(const struct align_scratch *scratch, size_t ranks, size_t i)
{
	const struct align_slot *slot;

	if (i + 2 * PREFETCH_RANKS < ranks && scratch->slot[i + 2 * PREFETCH_RANKS])
		align_prefetch(scratch->slot[i + 2 * PREFETCH_RANKS], 128);
	slot = i + PREFETCH_RANKS < ranks ? scratch->slot[i + PREFETCH_RANKS] : NULL;
	if (!slot || !slot->plan)
		return;
	align_prefetch(slot->plan, sizeof(*slot->plan) + 2 * sizeof(*slot->plan->lane));
	align_prefetch(slot->word, slot->words < PREFETCH_WORDS ? slot->words * 4 : PREFETCH_WORDS * 4);
}

static void align_out_write_ops(struct align *align, struct align_job *job, struct frame *frame, bool wanted)
{
	const struct align_scratch *scratch = &align->scratch;
	uint8_t worst = FRAME_TIER_MAX;

	if (!align_groups_begin(align, job))
		wanted = false;
	for (size_t i = 0; i < job->ranks; i++) {
		struct align_slot *slot = scratch->slot[i];

		prefetch_ops(scratch, job->ranks, i);
		scratch->stop[i] = scratch->ops;
		if (!slot || !slot->records)
			continue;
		if (!wanted || !slot->has_ops) {
			align->counts.coll_left_out += slot->records;
			continue;
		}
		align_groups_add(align, job, job->live[i], slot, (uint32_t)i);
		scratch->stop[i] = scratch->ops;
		if (slot->worst_tier < worst)
			worst = slot->worst_tier;
	}
	align_groups_end(align);
	frame->tier = align->scratch.ops ? worst : FRAME_TIER_STAGES;
	frame->comms = job->comms;
	frame->comm = job->comm;
	frame->groups = align->scratch.groups;
	frame->group = align->scratch.group;
	frame->ops = align->scratch.ops;
	frame->op = align->scratch.op;
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
static void align_out_learn(struct align_job *job, const struct frame *frame)
{
	uint64_t sorted[ALIGN_MEDIAN];
	size_t index = 0, count;
	const struct align_process *ref = align_process_get(job->align, job->ref);

	if (ref && frame->rank[ref->index].here)
		index = ref->index;
	while (index < frame->ranks && !frame->rank[index].here)
		index++;
	if (index == frame->ranks || (frame->class != FRAME_TRAIN && job->recents >= ALIGN_FIRST))
		return;
	if (frame->class == FRAME_TRAIN && !job->trained) { /* the first ones were better than nothing */
		job->trained = true;
		job->recents = 0;
	}
	job->recent[job->recents++ % ALIGN_MEDIAN] = frame->rank[index].step_ns;
	count = job->recents < ALIGN_MEDIAN ? job->recents : ALIGN_MEDIAN;
	memcpy(sorted, job->recent, count * sizeof(*sorted));
	qsort(sorted, count, sizeof(*sorted), align_out_compare);
	job->step_ns = sorted[count / 2];
}

static void learn_usual(struct align_process *process, uint32_t records)
{
	process->usual = records;
	process->less = process->before < records ? process->before : records;
	process->before = records;
}

static void align_out_release(struct align *align, struct align_job *job)
{
	for (size_t i = 0; i < job->ranks; i++) {
		struct align_process *process = job->live[i];
		struct align_slot *slot;

		align_slot_prefetch(job, i);
		if (process->align == ALIGN_UNPLACED)
			continue;
		slot = align_slot_find(process, job->head - process->offset);
		if (slot && align_is_unwatched(process) && align_is_cut(process, slot)) {
			process->coll_live = false;
			if (process->usual != UINT32_MAX)
				process->usual_once = process->usual;
			align_usual_from(process, UINT32_MAX);
		}
		/* Where some were lost, it may have had more. */
		if (slot && process->coll_live && slot->records && !slot->partial &&
			(slot->step > process->lost_until || process->usual == UINT32_MAX))
			learn_usual(process, slot->records);
		align_slots_drop(align, process, job->head - process->offset + 1);
	}
}

void align_out(struct align *align, struct align_job *job)
{
	struct frame frame = {.step = (uint64_t)job->head,
		.world_size = job->world_size > job->ranks ? job->world_size : (uint32_t)job->ranks,
		.ranks = job->ranks,
		.who = job->who,
		.lost = job->lost};
	size_t with_ops;

	frame.cards = frame.world_size;
	if (align_out_write_ranks(align, job, &frame, &with_ops)) {
		frame.rank = align->scratch.rank;
		align_out_write_ops(align, job, &frame, with_ops > 0);
		job->lost = 0;
		align->counts.frames++;
		align_out_learn(job, &frame);
		if (align->sink.frame)
			align->sink.frame(align->sink.arg, job->number, &frame);
	}
	align_out_release(align, job);
}
