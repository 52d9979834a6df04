/* SPDX-License-Identifier: Apache-2.0 */
/* See held.h. */
#include "analyzers/memory/held.h"

#include "analyzers/base/array.h"
#include "analyzers/memory/memory.h"

#include <math.h>
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
			ret[count++] = (struct memory_held){.site = block[i].site,
				.device = block[i].device,
				.window = block[i].window,
				.is_part = block[i].is_part};
		ret[count - 1].sampled += bytes;
		ret[count - 1].bytes += weight;
		ret[count - 1].blocks += weight / bytes;
		ret[count - 1].error2 += weight * (weight - bytes);
		if (weight > bytes)
			ret[count - 1].largest = fmax(ret[count - 1].largest, weight);
	}
	return count;
}

/* At least what blocks of the present window hold, exactly. */
static double held_live(const struct rt_memory_class *class)
{
	return (double)(class->live_bytes - class->live_min);
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

/* Takes from each in proportion to its variance, and from none what was sampled. True: so not all was taken. */
static bool held_take(struct memory_held *held, size_t count, double bytes)
{
	double variance = 0;
	bool again = false;

	for (size_t i = 0; i < count; i++)
		variance += held[i].bytes > held[i].sampled ? held[i].error2 : 0;
	for (size_t i = 0; variance > 0 && i < count; i++) {
		double left = held[i].bytes - bytes * held[i].error2 / variance;

		if (held[i].bytes <= held[i].sampled)
			continue;
		again |= left < held[i].sampled;
		held[i].bytes = fmax(held[i].sampled, left);
	}
	return again;
}

/* Takes until all hold so much together, or no more than was sampled. Each time one more has only that. */
static void held_reduce(struct memory_held *held, size_t count, double bytes)
{
	double sum;

	do
		sum = held_sum(held, count).bytes;
	while (sum > bytes && held_take(held, count, sum - bytes));
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
 * The weights add up to what is held, but for chance: the difference is divided in proportion to the variances, which
 * has the least error of all that add up (a regression estimate). One variance is that of a block that nobody has
 * sampled, so that few samples are no certainty. What is held is known at least: releases of blocks from before hide as
 * many that are held, as those of a ring do. Where the weights are more, beyond chance, they are what is held.
 */
static size_t held_class(
	const struct rt_memory_class *class, struct rt_memory_block *block, size_t blocks, struct memory_held *ret)
{
	size_t count = held_weigh(block, blocks, ret);
	struct memory_held sum = held_sum(ret, count);
	double live = fmax(held_live(class), sum.sampled), off = live - sum.bytes;
	double unseen = fmin((double)class->mean_max, live - sum.sampled), variance = sum.error2 + unseen * unseen;

	for (size_t i = 0; i < count; i++)
		ret[i].is_part = false;
	if (off < 0 && off * off > MEMORY_NORMAL_95 * MEMORY_NORMAL_95 * variance)
		return count;
	for (size_t i = 0; i < count; i++) {
		ret[i].blocks /= ret[i].bytes;
		if (off > 0 && variance > 0)
			ret[i].bytes += off * ret[i].error2 / variance;
	}
	held_reduce(ret, count, live);
	for (size_t i = 0; i < count; i++) {
		ret[i].blocks *= ret[i].bytes;
		if (variance > 0)
			ret[i].error2 -= ret[i].error2 * ret[i].error2 / variance; /* the residual of the regression */
	}
	held_settle(block, blocks, ret);
	return count;
}

/* At most what is allocated, which is exact. What was sampled is held, but carried blocks may have been released. */
static void held_bound(struct memory_held *held, size_t count, double allocated, bool carried)
{
	double sum, part = 1;

	held_reduce(held, count, allocated);
	sum = held_sum(held, count).bytes;
	if (carried && sum > allocated)
		part = allocated / sum;
	for (size_t i = 0; i < count; i++) {
		double cut = held[i].bytes * (1 - part);

		held[i].bytes -= cut;
		held[i].error2 += cut * cut;
		held[i].low = fmin(held[i].low * part, held[i].bytes);
		held[i].high = fmax(fmin(held[i].high, allocated), held[i].bytes);
	}
}

static int held_compare_part(const void *a, const void *b)
{
	const struct memory_held *x = a, *y = b;

	return ORDER(x->device, y->device) ?: ORDER(x->site, y->site) ?: ORDER(x->window, y->window);
}

static void held_add(struct memory_held *sum, const struct memory_held *part)
{
	sum->bytes += part->bytes;
	sum->blocks += part->blocks;
	sum->sampled += part->sampled;
	sum->error2 += part->error2;
	sum->largest = fmax(sum->largest, part->largest);
}

/* End of the 95 % interval of a sum of weights: normal < 0: the low one. The quantile is Wilson's and Hilferty's
 * (1931). */
static double held_end(double bytes, double error2, double normal)
{
	double part = error2 / (bytes * bytes), root = 1 - part / 9 + normal * sqrt(part) / 3;

	return bytes > 0 && root > 0 ? bytes * root * root * root : 0;
}

static void held_interval(struct memory_held *held)
{
	double low = held_end(held->bytes - held->largest, held->error2, -MEMORY_NORMAL_95);
	double high =
		held_end(held->bytes + held->largest, held->error2 + held->largest * held->largest, MEMORY_NORMAL_95);

	held->low = fmin(fmax(held->sampled, low), held->bytes);
	held->high = fmax(high, held->bytes);
}

void memory_held_add(struct memory_held *sum, const struct memory_held *held)
{
	double below = hypot(sum->bytes - sum->low, held->bytes - held->low);
	double above = hypot(sum->high - sum->bytes, held->high - held->bytes);

	held_add(sum, held);
	sum->low = sum->bytes - below;
	sum->high = sum->bytes + above;
}

/* What is carried over from windows has the variance between windows. Parts are in their order. */
static struct memory_held held_carried(const struct rt_memory_rank *rank, const struct memory_held *part, size_t parts)
{
	struct memory_held sum = {.error2 = 0};
	double windows = 0, squares = 0;

	for (size_t i = 0, end; i < parts; i = end) {
		double bytes = 0;

		for (end = i; end < parts && part[end].window == part[i].window; end++) {
			if (!part[end].is_part)
				continue;
			held_add(&sum, &part[end]);
			bytes += part[end].bytes;
		}
		if (bytes > 0 && !(windows > 0))
			windows = rank->window - part[i].window;
		squares += bytes * bytes;
		sum.largest = fmax(sum.largest, bytes);
	}
	/* Of one window nothing is known but that it has been seen. */
	sum.error2 =
		windows > 1 ? fmax(squares - sum.bytes * sum.bytes / windows, 0) * windows / (windows - 1) : squares;
	return sum;
}

static struct memory_held held_site(const struct rt_memory_rank *rank, const struct memory_held *part, size_t parts)
{
	struct memory_held sum = {.site = part->site, .device = part->device},
			   carried = held_carried(rank, part, parts);

	for (size_t i = 0; i < parts; i++)
		if (!part[i].is_part)
			held_add(&sum, &part[i]);
	held_interval(&sum);
	held_interval(&carried);
	memory_held_add(&sum, &carried);
	return sum;
}

/* Parts of a site become one. */
static size_t held_merge(const struct rt_memory_rank *rank, struct memory_held *held, size_t parts)
{
	size_t count = 0;

	qsort(held, parts, sizeof(*held), held_compare_part);
	for (size_t first = 0, end; first < parts; first = end) {
		for (end = first + 1;
			end < parts && held[end].device == held[first].device && held[end].site == held[first].site;
			end++)
			;
		held[count++] = held_site(rank, held + first, end - first);
	}
	return count;
}

size_t memory_held(const struct rt_memory_rank *rank, struct rt_memory_block *block, size_t blocks,
	struct memory_held *ret, double ret_unseen[RT_MEMORY_DEVICES_MAX])
{
	size_t parts = 0, count;

	for (size_t i = 0; i < RT_MEMORY_DEVICES_MAX; i++) {
		ret_unseen[i] = 0;
		for (size_t class = 0; class < RT_MEMORY_CLASSES; class ++)
			ret_unseen[i] += held_live(&rank->device[i].class[class]);
	}
	qsort(block, blocks, sizeof(*block), held_compare);
	for (size_t first = 0, end; first < blocks; first = end) {
		const struct rt_memory_block *one = &block[first];
		size_t number = one->device % RT_MEMORY_DEVICES_MAX;
		const struct rt_memory_class *class = &rank->device[number].class[one->class % RT_MEMORY_CLASSES];

		for (end = first + 1; end < blocks && block[end].device == one->device &&
				      block[end].window == one->window && block[end].class == one->class;
			end++)
			;
		if (one->window != rank->window) {
			parts += held_weigh(one, end - first, ret + parts);
			continue;
		}
		count = rank->is_part ? held_weigh(one, end - first, ret + parts)
				      : held_class(class, block + first, end - first, ret + parts);
		ret_unseen[number] -= fmin(held_sum(ret + parts, count).bytes, held_live(class));
		parts += count;
	}
	count = held_merge(rank, ret, parts);
	for (size_t first = 0, end; first < count; first = end) {
		size_t number = ret[first].device % RT_MEMORY_DEVICES_MAX;

		for (end = first; end < count && ret[end].device == ret[first].device; end++)
			;
		held_bound(ret + first, end - first, (double)rank->device[number].allocated, rank->is_part);
	}
	qsort(ret, count, sizeof(*ret), held_compare_site);
	return count;
}

void memory_held_raise(struct memory_held *held, const struct rt_memory_site *site,
	const struct rt_memory_device *device, double unseen)
{
	if (site->alloc_count > site->sampled << RT_MEMORY_COUNT_SHIFT)
		held->high = fmax(held->high, fmin(held->high + unseen, (double)device->allocated));
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

void memory_held_carry(const struct rt_memory_rank *rank, uint32_t now_ms, uint32_t young_ms,
	struct rt_memory_block *block, size_t blocks)
{
	qsort(block, blocks, sizeof(*block), held_compare_address);
	for (size_t i = 0; i < blocks; i++) {
		struct rt_memory_block *old = &block[i];

		if (old->window == rank->window && now_ms - old->born_ms < young_ms)
			old->weight_bytes = 0;
		/* Of two that overlap, the older one has been released. */
		if (i + 1 < blocks && block[i + 1].device == old->device &&
			block[i + 1].address - old->address < old->bytes) {
			if (now_ms - old->born_ms >= now_ms - block[i + 1].born_ms)
				old->weight_bytes = 0;
			else
				block[i + 1].weight_bytes = 0;
		}
	}
}

static int held_compare_block_site(const void *a, const void *b)
{
	const struct rt_memory_block *x = a, *y = b;

	return ORDER(x->site, y->site);
}

uint64_t memory_held_grown(
	struct rt_memory_block *block, size_t blocks, uint32_t device, uint32_t now_ms, uint32_t window_ms)
{
	double bytes = 0, most = 0;
	uint64_t site = 0;

	qsort(block, blocks, sizeof(*block), held_compare_block_site);
	for (size_t i = 0; i < blocks; i++) {
		uint32_t age_ms = now_ms - block[i].born_ms;

		if (i == 0 || block[i].site != block[i - 1].site)
			bytes = 0;
		if (block[i].device == device && age_ms <= window_ms && age_ms >= window_ms / MEMORY_OLD_PART)
			bytes += (double)block[i].weight_bytes;
		if (bytes > most) {
			most = bytes;
			site = block[i].site;
		}
	}
	return site;
}

uint64_t memory_pace_step_ns(struct memory_pace *pace, uint64_t steps, uint64_t end_ns, uint64_t now_ns)
{
	struct memory_pace before = *pace;

	*pace = (struct memory_pace){.steps = steps, .end_ns = end_ns};
	if (!before.end_ns)
		return 0;
	if (steps > before.steps && end_ns > before.end_ns)
		return (end_ns - before.end_ns) / (steps - before.steps);
	return now_ns > before.end_ns ? now_ns - before.end_ns : 0;
}

uint64_t memory_window_ns(uint64_t step_ns)
{
	if (!step_ns)
		return MEMORY_WINDOW_NO_STEP_NS;
	if (step_ns < MEMORY_WINDOW_MIN_NS / MEMORY_WINDOW_STEPS)
		return MEMORY_WINDOW_MIN_NS;
	return step_ns < MEMORY_WINDOW_MAX_NS / MEMORY_WINDOW_STEPS ? step_ns * MEMORY_WINDOW_STEPS
								    : MEMORY_WINDOW_MAX_NS;
}
