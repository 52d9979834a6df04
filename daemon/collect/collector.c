/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the running collectors: opens those of collectors.def, dispatches each record of the ring by kind, passes rank
 * and level changes on. Records are not trusted: size and kind are checked first.
 */
#include <stdarg.h>
#include "daemon/collect/collector.h"
#include "daemon/core/context.h"
#include "daemon/kernel/kernel.h"
#include "daemon/base/log.h"
#include "daemon/store/store.h"

#ifndef COLLECTORS_DEF /* its unit test has a table of its own */
#define COLLECTORS_DEF "daemon/collect/collectors.def"
#endif

#define COLLECTOR(name) extern const struct collector collector_##name;
#include COLLECTORS_DEF
#undef COLLECTOR

static const struct collector *const table[] = {
#define COLLECTOR(name) &collector_##name,
#include COLLECTORS_DEF
#undef COLLECTOR
};

#define LOST_TOLD_EVERY_NS (60 * NSEC_PER_SEC)

struct collectors {
	unsigned opened; /* the first `opened` of the table */
	void *state[ARRAY_SIZE(table)];
	uint8_t by_kind[RT_KIND_MAX]; /* index into the table, plus 1 */
	uint64_t refused;
	const struct context *context;
	uint64_t lost[RT_KIND_MAX]; /* reported to the store */
	uint64_t lost_logged_ns;
};

void collector_note(struct collector_status *status, const char *format, ...)
{
	va_list list;

	if (status->notes >= COLLECTOR_NOTES_MAX) {
		status->notes_left_out++;
		return;
	}
	va_start(list, format);
	vsnprintf(status->note[status->notes++], COLLECTOR_NOTE_BYTES, format, list);
	va_end(list);
}

static void collector_on_rank(void *arg, const struct rank *rank, enum rank_change change)
{
	struct collectors *collectors = arg;

	for (unsigned i = 0; i < collectors->opened; i++)
		if (table[i]->rank)
			table[i]->rank(collectors->state[i], rank, change);
}

/* Two collectors of one kind are a build error: one would get nothing. */
static int claim_kinds(struct collectors *collectors, unsigned i)
{
	for (unsigned kind = 0; kind < RT_KIND_MAX; kind++) {
		if (!(table[i]->kinds & (1u << kind)))
			continue;
		if (collectors->by_kind[kind])
			return -EEXIST;
		collectors->by_kind[kind] = (uint8_t)(i + 1);
	}
	return 0;
}

/* Stores the kernel side's drops, so that readers know the data is incomplete. */
static void log_lost(struct collectors *collectors, uint64_t now_ns)
{
	const struct context *context = collectors->context;

	if (!context->kernel || !context->store)
		return;
	for (unsigned kind = RT_KIND_NONE + 1; kind < RT_KIND_MAX; kind++) {
		uint64_t lost = kernel_drops(context->kernel, kind);
		uint64_t since_ns = collectors->lost_logged_ns ? collectors->lost_logged_ns : context->started_ns;
		const struct row_drops row = {
			.start_ns = field_time(store_utc_ns(context->store, since_ns)),
			.source = field_text(
				collectors->by_kind[kind] ? table[collectors->by_kind[kind] - 1]->name : "kernel"),
			.reason = field_text("lost in the kernel"),
			.count = field_int(lost - collectors->lost[kind]),
		};

		if (lost > collectors->lost[kind])
			store_put_drops(context->store, &row);
		collectors->lost[kind] = lost;
	}
	collectors->lost_logged_ns = now_ns;
}

static void collectors_closep(struct collectors **collectors)
{
	*collectors = collectors_close(*collectors);
}

int collectors_open(struct context *context, struct collectors **ret)
{
	_cleanup_(collectors_closep) struct collectors *collectors = calloc(1, sizeof(*collectors));
	int r;

	if (!collectors)
		return log_error_errno("collectors", -ENOMEM, "cannot open collectors");
	collectors->context = context;
	for (unsigned i = 0; i < ARRAY_SIZE(table); i++) {
		r = claim_kinds(collectors, i);
		if (r < 0)
			return log_error_errno("collectors", r, "two collectors decode a kind of '%s'", table[i]->name);
		r = table[i]->open(context, &collectors->state[i]);
		if (r < 0)
			return log_error_errno("collectors", r, "cannot open collector '%s'", table[i]->name);
		collectors->opened++;
	}
	/* Last: observers cannot be removed, so nothing may fail after this. */
	r = ranks_observe(context->ranks, collector_on_rank, collectors);
	if (r < 0)
		return log_error_errno("collectors", r, "cannot follow the ranks");
	*ret = TAKE_PTR(collectors);
	return 0;
}

struct collectors *collectors_close(struct collectors *collectors)
{
	if (!collectors)
		return NULL;
	if (collectors->context)
		log_lost(collectors, monotonic_ns());
	while (collectors->opened) {
		unsigned i = --collectors->opened;

		if (table[i]->close)
			table[i]->close(collectors->state[i]);
	}
	free(collectors);
	return NULL;
}

/* A level is on or off as a whole: turns off what succeeded before a failure. */
static void undo_level(struct collectors *collectors, enum level level, unsigned end)
{
	char ignored[COLLECTOR_NOTE_BYTES];

	for (unsigned i = 0; i < end; i++)
		if ((table[i]->levels & LEVEL_BIT(level)) && table[i]->level)
			table[i]->level(collectors->state[i], level, false, ignored, sizeof(ignored));
}

int collectors_level(struct collectors *collectors, enum level level, bool on, char *report, size_t report_size)
{
	size_t used = 0;

	if (report_size)
		report[0] = 0;
	for (unsigned i = 0; i < collectors->opened; i++) {
		char text[1024] = "";
		int r, n;

		if (!(table[i]->levels & LEVEL_BIT(level)) || !table[i]->level)
			continue;
		r = table[i]->level(collectors->state[i], level, on, text, sizeof(text));
		if (r < 0) {
			if (on)
				undo_level(collectors, level, i);
			if (!text[0])
				snprintf(text, sizeof(text), "collector '%s' failed: %s", table[i]->name, strerror(-r));
			snprintf(report, report_size, "%s", text);
			return r;
		}
		if (!text[0] || used >= report_size)
			continue;
		n = snprintf(report + used, report_size - used, "%s%s", used ? "; " : "", text);
		used += n > 0 ? (size_t)n : 0;
	}
	return 0;
}

void collectors_event(struct collectors *collectors, const void *data, size_t size_bytes)
{
	const struct rt_event *event = data;
	unsigned i;

	if (size_bytes < sizeof(*event) || event->size_bytes < sizeof(*event) || event->size_bytes > size_bytes ||
		event->kind >= RT_KIND_MAX || !collectors->by_kind[event->kind]) {
		collectors->refused++;
		return;
	}
	i = collectors->by_kind[event->kind] - 1u;
	if (table[i]->event)
		table[i]->event(collectors->state[i], event, event->size_bytes);
	else
		collectors->refused++;
}

void collectors_tick(struct collectors *collectors, uint64_t now_ns)
{
	for (unsigned i = 0; i < collectors->opened; i++)
		if (table[i]->tick)
			table[i]->tick(collectors->state[i], now_ns);
	if (now_ns - collectors->lost_logged_ns >= LOST_TOLD_EVERY_NS)
		log_lost(collectors, now_ns);
}

bool collectors_status(
	struct collectors *collectors, unsigned i, const struct collector **ret_collector, struct collector_status *ret)
{
	if (i >= collectors->opened || i >= ARRAY_SIZE(table))
		return false;
	*ret = (struct collector_status){0};
	if (table[i]->status)
		table[i]->status(collectors->state[i], ret);
	*ret_collector = table[i];
	return true;
}

uint64_t collectors_refused(const struct collectors *collectors)
{
	return collectors->refused;
}
