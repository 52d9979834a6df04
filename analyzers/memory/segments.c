/* SPDX-License-Identifier: Apache-2.0 */
/* See segments.h. */
#include "analyzers/memory/segments.h"

#include <math.h>
#include <stdlib.h>

#define SPLIT_MIN 0.1  /* of what is reserved: then a setting is worth a restart */
#define UNSEEN_MIN 0.5 /* of what is reserved: then what is known of the rest says little */
#define CALLS_MIN 0.01 /* of the time: what tests of the whole allow themselves */

static int segments_compare(const void *a, const void *b)
{
	const struct memory_segment *x = a, *y = b;

	return (x->address > y->address) - (x->address < y->address);
}

static int segments_compare_block(const void *a, const void *b)
{
	const struct rt_memory_block *x = a, *y = b;

	return (x->address > y->address) - (x->address < y->address);
}

/* Its blocks are those from `first` on; returns the first one behind it. */
static size_t segment_fill(
	struct memory_segment *segment, const struct rt_memory_block *block, size_t blocks, size_t first)
{
	uint64_t free_from = segment->address, end = segment->address + segment->bytes;
	size_t i = first;

	segment->used_bytes = segment->gap_bytes = segment->blocks = 0;
	for (; i < blocks && block[i].address < end; i++) {
		uint64_t bytes = block[i].bytes < end - block[i].address ? block[i].bytes : end - block[i].address;

		/* Of two that overlap, one has been released meanwhile. */
		if (block[i].address < free_from)
			continue;
		if (block[i].address - free_from > segment->gap_bytes)
			segment->gap_bytes = block[i].address - free_from;
		free_from = block[i].address + bytes;
		segment->used_bytes += bytes;
		segment->device = block[i].device;
		segment->blocks++;
	}
	if (end - free_from > segment->gap_bytes)
		segment->gap_bytes = end - free_from;
	return i;
}

static size_t segments_join(struct memory_segment *segment, size_t segments)
{
	size_t count = 0;

	for (size_t i = 0; i < segments; i++) {
		struct memory_segment *below = count ? &segment[count - 1] : NULL;

		if (below && below->is_expandable && segment[i].is_expandable &&
			segment[i].address - below->address == below->bytes)
			below->bytes += segment[i].bytes;
		else
			segment[count++] = segment[i];
	}
	return count;
}

size_t memory_segments_fill(
	struct memory_segment *segment, size_t segments, struct rt_memory_block *block, size_t blocks)
{
	size_t first = 0;

	qsort(segment, segments, sizeof(*segment), segments_compare);
	segments = segments_join(segment, segments);
	qsort(block, blocks, sizeof(*block), segments_compare_block);
	for (size_t i = 0; i < segments; i++) {
		if (i > 0)
			segment[i].device = segment[i - 1].device;
		/* The ends of those below may be wrong: releases are seen later than what takes their place. */
		if (i + 1 < segments && segment[i].bytes > segment[i + 1].address - segment[i].address)
			segment[i].bytes = segment[i + 1].address - segment[i].address;
		while (first < blocks && block[first].address < segment[i].address)
			first++;
		first = segment_fill(&segment[i], block, blocks, first);
	}
	return segments;
}

static uint64_t segments_less(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t segments_more(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

void memory_pieces_add(struct memory_pieces *pieces, const struct memory_segment *segment)
{
	uint64_t free_bytes = segment->bytes > segment->used_bytes ? segment->bytes - segment->used_bytes : 0;

	pieces->segments++;
	pieces->bytes += segment->bytes;
	pieces->used_bytes += segment->used_bytes;
	if (segment->blocks) {
		pieces->split_bytes += free_bytes;
		pieces->expandable_bytes += segment->is_expandable ? free_bytes : 0;
		pieces->split += free_bytes > 0;
		pieces->gap_bytes = segments_more(pieces->gap_bytes, segment->gap_bytes);
	} else {
		pieces->empty_bytes += free_bytes;
		pieces->empty_gap_bytes = segments_more(pieces->empty_gap_bytes, segment->gap_bytes);
	}
}

void memory_pieces_end(struct memory_pieces *pieces, uint64_t reserved_bytes)
{
	uint64_t beyond = pieces->bytes > reserved_bytes ? pieces->bytes - reserved_bytes : 0;

	pieces->outside_bytes = segments_less(beyond, pieces->empty_bytes);
	pieces->empty_bytes -= pieces->outside_bytes;
	pieces->before_bytes =
		reserved_bytes != UINT64_MAX && reserved_bytes > pieces->bytes ? reserved_bytes - pieces->bytes : 0;
	/* Which of the segments without a block are the allocator's is not known: all of them together are as large as
	 * this. */
	pieces->gap_bytes =
		segments_more(pieces->gap_bytes, segments_less(pieces->empty_gap_bytes, pieces->empty_bytes));
}

void memory_pieces_cap(struct memory_pieces *pieces, uint64_t unused_bytes)
{
	uint64_t known = pieces->split_bytes + pieces->empty_bytes;
	double part = known > unused_bytes ? (double)unused_bytes / (double)known : 1;

	pieces->split_bytes = (uint64_t)(part * (double)pieces->split_bytes);
	pieces->expandable_bytes = (uint64_t)(part * (double)pieces->expandable_bytes);
	pieces->empty_bytes = (uint64_t)(part * (double)pieces->empty_bytes);
	pieces->used_bytes += known - pieces->split_bytes - pieces->empty_bytes;
	pieces->gap_bytes = segments_less(pieces->gap_bytes, unused_bytes);
}

double memory_calls_again_ns(const struct memory_calls *calls)
{
	double again = fmin(calls->take_bytes, calls->give_bytes);

	return again > 0 ? calls->take_ns * again / calls->take_bytes + calls->give_ns * again / calls->give_bytes : 0;
}

bool memory_calls_judge(struct memory_calls_judge *judge, uint64_t now_ns, uint64_t steps,
	const struct memory_calls *calls, double percent_min)
{
	double percent = now_ns > judge->judged_ns
				 ? 100 * memory_calls_again_ns(calls) / (double)(now_ns - judge->judged_ns)
				 : 0;
	bool costs = judge->judged_ns && steps > judge->steps && percent >= percent_min,
	     again = costs && judge->since_ns;

	judge->percent = costs ? percent : judge->percent;
	if (!again)
		judge->since_ns = costs ? judge->judged_ns : 0;
	judge->judged_ns = now_ns;
	judge->steps = steps;
	return again;
}

static const char *const memory_remedies[MEMORY_REMEDY_MAX] = {
	[MEMORY_REMEDY_NONE] = "",
	[MEMORY_REMEDY_EXPANDABLE] = "free memory is in pieces between blocks that are kept: "
				     "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; where that "
				     "is not possible, max_split_size_mb at the size of the largest blocks",
	[MEMORY_REMEDY_RETRIES] = "the allocator takes memory from the driver and gives it back all the time, and each "
				  "of these calls waits for the card: "
				  "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, or roundup_power2_divisions:4 "
				  "where sizes vary from step to step; "
				  "without torch.cuda.empty_cache() in the step",
	[MEMORY_REMEDY_UNKNOWN] = "not known: L2 was off when most of the allocator's segments were taken",
};

enum memory_remedy memory_waste_remedy(const struct memory_waste *waste)
{
	if (waste->calls_share >= CALLS_MIN)
		return MEMORY_REMEDY_RETRIES;
	/* Both: what is reserved is not needed even at the peak, and it cannot be given back. */
	if (waste->reserved > 0 &&
		fmin(waste->reserved - waste->allocated, waste->split) >= SPLIT_MIN * waste->reserved)
		return MEMORY_REMEDY_EXPANDABLE;
	if (waste->reserved > 0 && waste->unseen_share > UNSEEN_MIN &&
		waste->reserved - waste->allocated >= SPLIT_MIN * waste->reserved)
		return MEMORY_REMEDY_UNKNOWN;
	return MEMORY_REMEDY_NONE;
}

const char *memory_remedy_text(enum memory_remedy remedy)
{
	return memory_remedies[remedy];
}
