/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel summed, as rows. */
#include <math.h>

#include "analyzers/base/array.h"
#include "daemon/core/context.h"
#include "daemon/core/limits.h"
#include "daemon/gauges/gauge_cards.h"
#include "daemon/gauges/gauges.h"
#include "daemon/memory/memory_rows.h"
#include "daemon/stacks/profile_rank.h"
#include "daemon/steps/rank_steps.h"
#include "daemon/store/store.h"

#define MEMORY_NAME_BYTES 32 /* of a device */

/* c10::DeviceType, which is the same in all versions. */
static const char *const memory_kinds[] = {
	[0] = "cpu",
	[1] = "cuda",
	[6] = "hip",
	[9] = "xla",
	[12] = "xpu",
	[13] = "mps",
	[15] = "hpu",
	[19] = "mtia",
	[20] = "npu", /* PrivateUse1, which torch_npu has */
};

/* "cuda", "cpu"; the number of the device, -1: none. */
static const char *memory_rows_kind(uint32_t device, int *ret_number)
{
	uint32_t type = device & 0xff;
	const char *kind = type < ARRAY_SIZE(memory_kinds) ? memory_kinds[type] : NULL;

	*ret_number = (int8_t)(device >> 8);
	return kind ? kind : "other";
}

static int64_t memory_rows_step(const struct memory_owner *owner, uint64_t time_ns)
{
	const struct rank_steps *steps = owner->context->steps;

	return steps && owner->live ? rank_steps_step(steps, owner->live, time_ns) : STEPS_NONE;
}

static void memory_rows_second(const struct memory_owner *owner, const struct rt_memory_device *device,
	const struct rt_memory_second *second, uint64_t seen_ns, struct memory_put *put)
{
	struct store *store = owner->context->store;
	int64_t step = memory_rows_step(owner, (second->second + 1) * RT_MEMORY_SECOND_NS);
	int number;
	const char *kind = memory_rows_kind(device->device, &number);

	store_put_memory_curve(
		store, &(struct row_memory_curve){
			       .rank = field_int(owner->is->env.rank),
			       .start_ns = field_time(store_utc_ns(store, second->second * RT_MEMORY_SECOND_NS)),
			       .step = field_int_if(step != STEPS_NONE, step),
			       .kind = field_text(kind),
			       .device = field_int_if(number >= 0, number),
			       .allocated_bytes = field_int((int64_t)second->allocated),
			       .allocated_min_bytes = field_int((int64_t)second->allocated_min),
			       .allocated_max_bytes = field_int((int64_t)second->allocated_max),
			       .reserved_bytes = field_int((int64_t)second->reserved),
			       .reserved_max_bytes = field_int((int64_t)second->reserved_max),
			       .before_bytes = field_int((int64_t)device->before),
			       .allocs = field_int((int64_t)(device->allocs - put->allocs)),
			       .frees = field_int((int64_t)(device->frees - put->frees)),
			       .alloc_bytes = field_int((int64_t)(device->alloc_bytes - put->alloc_bytes)),
			       .seen_ns = field_duration_if(seen_ns > 0, seen_ns),
			       .instance = field_int(owner->is->instance),
		       });
	put->second = second->second;
	put->allocs = device->allocs;
	put->frees = device->frees;
	put->alloc_bytes = device->alloc_bytes;
	memory_history_add(&put->lows, second->second * RT_MEMORY_SECOND_NS, (double)second->allocated_min);
}

/* The oldest window of those not put, that has ended. */
static const struct rt_memory_second *memory_rows_next(
	const struct rt_memory_device *device, uint64_t until, const struct memory_put *put)
{
	const struct rt_memory_second *next = NULL;

	for (size_t i = 0; i < RT_MEMORY_SECONDS; i++) {
		const struct rt_memory_second *second = &device->second[i];

		if (second->second > put->second && second->second < until && (!next || second->second < next->second))
			next = second;
	}
	return next;
}

void memory_rows_curve(const struct memory_owner *owner, const struct rt_memory_device *device, uint64_t until,
	uint64_t seen_ns, struct memory_put *put)
{
	const struct rt_memory_second *second;

	while ((second = memory_rows_next(device, until, put)))
		memory_rows_second(owner, device, second, seen_ns, put);
}

/* "cuda:0" */
static void memory_rows_name(uint32_t device, char *ret, size_t size)
{
	int number;
	const char *kind = memory_rows_kind(device, &number);

	snprintf(ret, size, number < 0 ? "%s" : "%s:%d", kind, number);
}

void memory_rows_leak(const struct memory_owner *owner, const struct rt_memory_device *device,
	const struct memory_trend *trend, const char *place, struct memory_put *put)
{
	char name[MEMORY_NAME_BYTES];
	struct online_leak_info info = {.rank = owner->live, .device = name, .place = put->leak_place};

	memory_rows_name(device->device, name, sizeof(name));
	if (!owner->live || (!trend && !put->leak.number))
		return;
	if (trend) {
		put->leak_from = put->leak.number ? put->leak_from : trend->from_bytes;
		put->leak_since_ns = put->leak.number
					     ? put->leak_since_ns
					     : monotonic_ns() - (uint64_t)(trend->window_s * (double)NSEC_PER_SEC);
		put->leak_grown = trend->to_bytes - put->leak_from;
		put->leak_hourly = trend->slope * 3600;
		if (place[0] || !put->leak.number)
			copy_text(put->leak_place, sizeof(put->leak_place), place);
	}
	info.since_ns = put->leak_since_ns;
	info.grown_bytes = put->leak_grown;
	info.hourly_bytes = put->leak_hourly;
	online_leak(owner->context->findings, &info, !trend, &put->leak);
}

static const struct rt_memory_device *memory_rows_device(const struct rt_memory_rank *counts, uint32_t device)
{
	for (size_t i = 0; i < RT_MEMORY_DEVICES_MAX; i++)
		if (counts->device[i].used && counts->device[i].device == device)
			return &counts->device[i];
	return NULL;
}

static void memory_rows_line(const struct memory_owner *owner, const struct rt_memory_rank *counts,
	const struct memory_line *line, const double *unseen, int64_t sites, uint64_t utc_ns)
{
	const struct rt_memory_site *site = &line->site;
	struct memory_held held = line->held;
	int64_t stack = 0;
	bool named = sites == 1 && profile_rank_id(owner->stacks, site->stack, &stack);
	int number;
	const char *kind = memory_rows_kind(site->device, &number);
	const struct rt_memory_device *device = memory_rows_device(counts, site->device);
	char thread[RT_COMM_SIZE + 1] = "";

	memcpy(thread, site->thread_name, sizeof(site->thread_name));
	if (device)
		memory_held_raise(&held, site, device, unseen[device - counts->device]);
	store_put_memory_live(owner->context->store,
		&(struct row_memory_live){
			.rank = field_int(owner->is->env.rank),
			.start_ns = field_time(utc_ns),
			.kind = field_text(kind),
			.device = field_int_if(number >= 0, number),
			.stack = field_int_if(named, stack),
			.sites = field_int(sites),
			.live_bytes = field_int(llround(held.bytes)),
			.live_error_bytes = field_int((int64_t)ceil(sqrt(held.error2))),
			.live_low_bytes = field_int((int64_t)floor(held.low)),
			.live_high_bytes = field_int((int64_t)ceil(held.high)),
			.live_blocks = field_int(llround(held.blocks)),
			/* Both are estimates, of other samples. What it holds it has allocated. */
			.alloc_bytes = field_int(llround(fmax((double)site->alloc_bytes, held.bytes))),
			.alloc_blocks = field_int(
				llround(fmax((double)(site->alloc_count >> RT_MEMORY_COUNT_SHIFT), held.blocks))),
			.sampled = field_int((int64_t)site->sampled),
			.allocated_bytes = field_int_if(device != NULL, device ? (int64_t)device->allocated : 0),
			.thread = field_text(*thread ? thread : NULL),
			.instance = field_int(owner->is->instance),
		});
}

/* By device, then the largest first. */
static int memory_rows_compare(const void *a, const void *b)
{
	const struct memory_line *x = a, *y = b;

	return ORDER(x->site.device, y->site.device) ?: ORDER(y->held.bytes, x->held.bytes);
}

static void memory_rows_add(struct memory_line *sum, const struct memory_line *line)
{
	sum->site.device = line->site.device;
	sum->site.alloc_bytes += line->site.alloc_bytes;
	sum->site.alloc_count += line->site.alloc_count;
	sum->site.sampled += line->site.sampled;
	memory_held_add(&sum->held, &line->held);
}

size_t memory_rows_live(const struct memory_owner *owner, const struct rt_memory_rank *counts, struct memory_line *line,
	size_t lines, const double unseen[RT_MEMORY_DEVICES_MAX], uint64_t now_ns)
{
	uint64_t utc_ns = store_utc_ns(owner->context->store, now_ns);
	size_t rows = 0;

	qsort(line, lines, sizeof(*line), memory_rows_compare);
	for (size_t first = 0, end; first < lines; first = end) {
		struct memory_line others = {0};
		int64_t count = 0;

		for (end = first; end < lines && line[end].site.device == line[first].site.device; end++) {
			if (end - first < LIMIT_MEMORY_ROWS) {
				memory_rows_line(owner, counts, &line[end], unseen, 1, utc_ns);
				rows++;
				continue;
			}
			memory_rows_add(&others, &line[end]);
			count++;
		}
		if (count) {
			memory_rows_line(owner, counts, &others, unseen, count, utc_ns);
			rows++;
		}
	}
	return rows;
}

static bool memory_rows_is_card(const struct rt_memory_device *device)
{
	return device->used && (device->device & 0xff) != 0;
}

/* Whose segment it is: of one without blocks, the first card that the allocator reported; NULL: none yet. */
static const struct rt_memory_device *memory_rows_segment_card(const struct rt_memory_rank *counts, uint32_t device)
{
	const struct rt_memory_device *own = &counts->device[device % RT_MEMORY_DEVICES_MAX];

	for (size_t i = 0; i < RT_MEMORY_DEVICES_MAX && !memory_rows_is_card(own); i++)
		own = &counts->device[i];
	return memory_rows_is_card(own) ? own : NULL;
}

size_t memory_rows_segments(const struct memory_owner *owner, const struct rt_memory_rank *counts,
	const struct memory_segment *segment, size_t segments, uint64_t now_ns)
{
	uint64_t utc_ns = store_utc_ns(owner->context->store, now_ns);
	size_t rows = 0;

	for (size_t i = 0; i < segments; i++, rows++) {
		const struct rt_memory_device *device = memory_rows_segment_card(counts, segment[i].device);
		const char *kind;
		int number;

		if (!device)
			break;
		kind = memory_rows_kind(device->device, &number);
		store_put_memory_segments(
			owner->context->store, &(struct row_memory_segments){
						       .rank = field_int(owner->is->env.rank),
						       .start_ns = field_time(utc_ns),
						       .kind = field_text(kind),
						       .device = field_int_if(number >= 0, number),
						       .address = field_int((int64_t)segment[i].address),
						       .bytes = field_int((int64_t)segment[i].bytes),
						       .used_bytes = field_int((int64_t)segment[i].used_bytes),
						       .gap_bytes = field_int((int64_t)segment[i].gap_bytes),
						       .blocks = field_int(segment[i].blocks),
						       .expandable = field_int(segment[i].is_expandable),
						       .instance = field_int(owner->is->instance),
					       });
	}
	return rows;
}

double memory_rows_leaked(const struct rt_memory_rank *counts, const struct memory_put *put, uint32_t device)
{
	const struct rt_memory_device *own = memory_rows_device(counts, device);
	struct memory_trend trend;

	return own && memory_history_trend(&put[own - counts->device].lows, &trend) && trend.leaks
		       ? trend.to_bytes - trend.from_bytes
		       : 0;
}

struct memory_of_card {
	const char *object;
	uint32_t pid;
	struct memory_card_gauges gauges;
};

static void memory_rows_on_gauge(
	void *arg, const struct gauge_source *source, const struct gauge *gauge, const char *object, double value)
{
	struct memory_of_card *of = arg;
	size_t length = strlen(of->object);

	(void)source;
	if (strncmp(object, of->object, length) == 0 && (!object[length] || object[length] == '/'))
		memory_card_gauge(&of->gauges, object, gauge->name, of->pid, value);
}

struct memory_card memory_rows_card(const struct memory_owner *owner, const struct rt_memory_rank *counts)
{
	const struct gauge_card *card = gauge_cards_find(owner->context->cards, owner->is->env.card);
	struct memory_of_card of = {.pid = owner->is->pid};
	unsigned cards = 0;

	for (size_t i = 0; i < ARRAY_SIZE(counts->device); i++)
		cards += memory_rows_is_card(&counts->device[i]);
	if (card && cards <= 1) {
		of.object = card->object;
		gauges_each(owner->context->gauges, memory_rows_on_gauge, &of);
	}
	return memory_card_of(&of.gauges);
}

void memory_rows_oom(
	const struct memory_owner *owner, const struct rt_memory_failed_event *event, const struct memory_then *then)
{
	char name[MEMORY_NAME_BYTES];

	memory_rows_name(event->device, name, sizeof(name));
	online_oom(owner->context->findings, &(struct online_oom_info){
						     .rank = owner->is,
						     .device = name,
						     .place = profile_rank_place(owner->stacks, event->stack),
						     .time_ns = event->event.time_ns,
						     .asked_bytes = (double)event->bytes,
						     .allocated_bytes = (double)event->allocated,
						     .reserved_bytes = (double)event->reserved,
						     .leaked_bytes = then->leaked_bytes,
						     .card = then->card,
					     });
}

struct steps_open memory_rows_at(const struct memory_owner *owner, const struct rt_memory_failed_event *event)
{
	struct rank_steps *steps = owner->context->steps;
	struct steps_open open;

	if (steps && owner->live && rank_steps_stage(steps, owner->live, event->event.thread_id, &open))
		return open;
	return (struct steps_open){.step = memory_rows_step(owner, event->event.time_ns)};
}

void memory_rows_failed(const struct memory_owner *owner, const struct rt_memory_failed_event *event,
	const struct steps_open *at, const struct memory_then *then)
{
	struct store *store = owner->context->store;
	int64_t stack = 0;
	bool named = profile_rank_id(owner->stacks, event->stack, &stack);
	int number;
	const char *kind = memory_rows_kind(event->device, &number);
	const struct memory_card *card = &then->card;
	bool others = card->total > 0 && !isnan(card->others);

	store_put_memory_failures(
		store, &(struct row_memory_failures){
			       .rank = field_int(owner->is->env.rank),
			       .start_ns = field_time(store_utc_ns(store, event->event.time_ns)),
			       .step = field_int_if(at->step != STEPS_NONE, at->step),
			       .stage = field_text_if(at->stage),
			       .kind = field_text(kind),
			       .device = field_int_if(number >= 0, number),
			       .bytes = field_int((int64_t)event->bytes),
			       .allocated_bytes = field_int((int64_t)event->allocated),
			       .reserved_bytes = field_int((int64_t)event->reserved),
			       .card_bytes = field_int_if(card->total > 0, (int64_t)card->total),
			       .card_free_bytes = field_int_if(card->total > 0, (int64_t)card->free),
			       .others_bytes = field_int_if(others, others ? (int64_t)card->others : 0),
			       .stack = field_int_if(named, stack),
			       .thread_id = field_int(event->event.thread_id),
			       .instance = field_int(owner->is->instance),
		       });
}
