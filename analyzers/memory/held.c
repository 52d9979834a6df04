/* SPDX-License-Identifier: Apache-2.0 */
/* See held.h. */
#include "analyzers/memory/held.h"

#include "analyzers/base/array.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

static int held_compare(const void *a, const void *b)
{
	const struct rt_memory_block *x = a, *y = b;

	return ORDER(x->device, y->device) ?: ORDER(x->window, y->window) ?: ORDER(x->class, y->class) ?:
	       ORDER(x->site, y->site);
}

static int held_compare_site(const void *a, const void *b)
{
	const struct memory_held *x = a, *y = b;

	return (x->site > y->site) - (x->site < y->site);
}

/* One for each site of a class: what its blocks stand for, and the variance of that. */
static size_t held_weigh(const struct rt_memory_block *block, size_t blocks, struct memory_held *ret)
{
	size_t count = 0;

	for (size_t i = 0; i < blocks; i++) {
		double bytes = (double)block[i].bytes, weight = (double)block[i].weight_bytes;

		if (i == 0 || block[i].site != block[i - 1].site)
			ret[count++] = (struct memory_held){.site = block[i].site};
		ret[count - 1].sampled += bytes;
		ret[count - 1].bytes += weight;
		ret[count - 1].blocks += weight / bytes;
		ret[count - 1].error2 += weight * (weight - bytes);
	}
	return count;
}

static struct memory_held held_sum(const struct memory_held *held, size_t count)
{
	struct memory_held sum = {0};

	for (size_t i = 0; i < count; i++) {
		sum.sampled += held[i].sampled;
		sum.bytes += held[i].bytes;
		sum.error2 += held[i].error2;
	}
	return sum;
}

/* Takes from each in proportion to its variance, and from none what was sampled; false: none has more. */
static bool held_take(struct memory_held *held, size_t count, double bytes)
{
	double variance = 0;

	for (size_t i = 0; i < count; i++)
		variance += held[i].bytes > held[i].sampled ? held[i].error2 : 0;
	for (size_t i = 0; variance > 0 && i < count; i++)
		if (held[i].bytes > held[i].sampled)
			held[i].bytes = fmax(held[i].sampled, held[i].bytes - bytes * held[i].error2 / variance);
	return variance > 0;
}

/* Gives the blocks of each site what it holds, so that they can be carried over. */
static void held_settle(struct rt_memory_block *block, size_t blocks, const struct memory_held *held)
{
	double weight = 0;

	for (size_t i = 0, first = 0; i < blocks; i++) {
		weight += (double)block[i].weight_bytes;
		if (i + 1 < blocks && block[i + 1].site == block[i].site)
			continue;
		for (; first <= i; first++) {
			double bytes = (double)block[first].weight_bytes * held->bytes / weight;

			block[first].weight_bytes = (uint64_t)fmax((double)block[first].bytes, bytes);
		}
		weight = 0;
		held++;
	}
}

/*
 * The weights add up to what is held, but for chance: the difference is divided in proportion to the variances, which has
 * the least error of all that add up (a regression estimate). One variance is that of a block that nobody has sampled, so
 * that few samples are no certainty.
 */
static size_t held_class(
	const struct rt_memory_class *class, struct rt_memory_block *block, size_t blocks, struct memory_held *ret)
{
	size_t count = held_weigh(block, blocks, ret);
	struct memory_held sum = held_sum(ret, count);
	double live = fmax((double)(class->live_bytes - class->live_min), sum.sampled), off = live - sum.bytes;
	double unseen = fmin((double)class->mean_max, live - sum.sampled), variance = sum.error2 + unseen * unseen;

	for (size_t i = 0; i < count; i++) {
		ret[i].blocks /= ret[i].bytes;
		if (off > 0 && variance > 0)
			ret[i].bytes += off * ret[i].error2 / variance;
	}
	/* Each time all is taken, or one more has only what was sampled. */
	for (size_t i = 0; off < 0 && i < count && held_take(ret, count, held_sum(ret, count).bytes - live); i++)
		;
	for (size_t i = 0; i < count; i++) {
		ret[i].blocks *= ret[i].bytes;
		/* The residual of the regression, and its part of the block that nobody has sampled. */
		if (sum.error2 > 0) {
			double part = unseen * ret[i].error2 / sum.error2;

			ret[i].error2 += part * part - ret[i].error2 * ret[i].error2 / variance;
		}
	}
	held_settle(block, blocks, ret);
	return count;
}

/* At most what is allocated: carried blocks may have been released. */
static void held_bound(struct memory_held *held, size_t count, double allocated)
{
	double sum = held_sum(held, count).bytes, off = sum - allocated;

	if (!(off > 0))
		return;
	for (size_t i = 0; i < count && held_take(held, count, held_sum(held, count).bytes - allocated); i++)
		;
	sum = held_sum(held, count).bytes;
	for (size_t i = 0; sum > allocated && i < count; i++) {
		double cut = held[i].bytes * (1 - allocated / sum);

		held[i].bytes -= cut;
		held[i].error2 += cut * cut;
	}
}

size_t memory_held(const struct rt_memory_rank *rank, struct rt_memory_block *block, size_t blocks, struct memory_held *ret)
{
	size_t parts = 0, count = 0, device_parts = 0;

	qsort(block, blocks, sizeof(*block), held_compare);
	for (size_t first = 0, end; first < blocks; first = end) {
		const struct rt_memory_block *one = &block[first];
		const struct rt_memory_device *device = &rank->device[one->device % RT_MEMORY_DEVICES_MAX];

		for (end = first + 1; end < blocks && block[end].device == one->device && block[end].window == one->window &&
				      block[end].class == one->class; end++)
			;
		if (one->window == rank->window)
			parts += held_class(&device->class[one->class % RT_MEMORY_CLASSES], block + first, end - first, ret + parts);
		else
			parts += held_weigh(one, end - first, ret + parts);
		if (end < blocks && block[end].device == one->device)
			continue;
		if (rank->is_part)
			held_bound(ret + device_parts, parts - device_parts, (double)device->allocated);
		device_parts = parts;
	}
	qsort(ret, parts, sizeof(*ret), held_compare_site);
	for (size_t i = 0; i < parts; i++) {
		if (count && ret[count - 1].site == ret[i].site) {
			ret[count - 1].bytes += ret[i].bytes;
			ret[count - 1].blocks += ret[i].blocks;
			ret[count - 1].sampled += ret[i].sampled;
			ret[count - 1].error2 += ret[i].error2;
		} else {
			ret[count++] = ret[i];
		}
	}
	return count;
}

const struct memory_held *memory_held_find(const struct memory_held *held, size_t count, uint64_t site)
{
	return bsearch(&(struct memory_held){.site = site}, held, count, sizeof(*held), held_compare_site);
}

void memory_held_gap(const struct rt_memory_rank *rank, double share, struct rt_memory_block *block, size_t blocks)
{
	for (size_t i = 0; i < blocks; i++)
		if (block[i].window + 1 == rank->window)
			block[i].weight_bytes = (uint64_t)((double)block[i].weight_bytes * share);
}

static int held_compare_address(const void *a, const void *b)
{
	const struct rt_memory_block *x = a, *y = b;

	return ORDER(x->device, y->device) ?: ORDER(x->address, y->address);
}

void memory_held_carry(const struct rt_memory_rank *rank, uint32_t now_ms, uint32_t young_ms, struct rt_memory_block *block,
	size_t blocks)
{
	qsort(block, blocks, sizeof(*block), held_compare_address);
	for (size_t i = 0; i < blocks; i++) {
		struct rt_memory_block *old = &block[i];

		if (old->window == rank->window && now_ms - old->born_ms < young_ms)
			old->weight_bytes = 0;
		/* Of two that overlap, the older one has been released. */
		if (i + 1 < blocks && block[i + 1].device == old->device && block[i + 1].address - old->address < old->bytes) {
			if (now_ms - old->born_ms >= now_ms - block[i + 1].born_ms)
				old->weight_bytes = 0;
			else
				block[i + 1].weight_bytes = 0;
		}
	}
}
