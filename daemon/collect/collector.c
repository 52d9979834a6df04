/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the running collectors: opens those of collectors.def, dispatches each record of the ring by kind, passes rank
 * and level changes on. Records are not trusted: size and kind are checked first.
 */
#include <stdarg.h>
#include "daemon/collect/collect_internal.h"
#include "daemon/core/context.h"
#include "daemon/steps/rank_steps.h"
#include "daemon/base/log.h"

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

struct collectors {
	unsigned opened; /* the first `opened` of the table */
	void *state[ARRAY_SIZE(table)];
	uint8_t by_kind[RT_KIND_MAX]; /* index into the table, plus 1 */
	uint64_t refused;
	uint64_t work_ns[ARRAY_SIZE(table)]; /* of ticks, and of one record in WORK_RECORDS as many times */
	uint64_t records;
	struct losses *losses;
};

#define WORK_RECORDS 32
#define SCAN_STEPLESS_NS (5 * NSEC_PER_SEC) /* before the first step: its libraries may load late */

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

uint64_t collector_scan_interval(const struct context *context, uint32_t pid)
{
	uint64_t limit_ns = context->config.scan_interval_ns;
	const struct rank *rank = ranks_by_pid(context->ranks, pid);
	struct rank_steps_progress progress;

	if (rank && rank_steps_progress(context->steps, rank->slot, rank->instance, &progress) && progress.steps)
		return limit_ns;
	return limit_ns < SCAN_STEPLESS_NS ? limit_ns : SCAN_STEPLESS_NS;
}

static void collector_on_rank(void *arg, const struct rank *rank, enum rank_change change)
{
	struct collectors *collectors = arg;

	for (unsigned i = 0; i < collectors->opened; i++)
		if (table[i]->rank)
			table[i]->rank(collectors->state[i], rank, change);
	if (change == RANK_ENDED || rank->role != RANK_ROLE_RANK)
		losses_rank(collectors->losses, rank);
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

static const char *collector_of_kind(void *arg, unsigned kind)
{
	const struct collectors *collectors = arg;

	return collectors->by_kind[kind] ? table[collectors->by_kind[kind] - 1]->name : "kernel";
}

DEFINE_CLEANUP(struct collectors *, collectors_close)

int collectors_open(struct context *context, struct collectors **ret)
{
	_cleanup_(collectors_closep) struct collectors *collectors = calloc(1, sizeof(*collectors));
	int r;

	if (!collectors)
		return log_error_errno("collectors", -ENOMEM, "cannot open collectors");
	collectors->losses = losses_new(context);
	if (!collectors->losses)
		return log_error_errno("collectors", -ENOMEM, "cannot open collectors");
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
	if (collectors->losses)
		losses_write(collectors->losses, collector_of_kind, collectors);
	while (collectors->opened) {
		unsigned i = --collectors->opened;

		if (table[i]->close)
			table[i]->close(collectors->state[i]);
	}
	losses_free(collectors->losses);
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

int collectors_window(struct collectors *collectors, enum level level, bool open, double duty)
{
	for (unsigned i = 0; i < collectors->opened; i++) {
		char ignored[COLLECTOR_NOTE_BYTES] = "";
		int r = 0;

		if (!(table[i]->levels & LEVEL_BIT(level)))
			continue;
		if (table[i]->window)
			r = table[i]->window(collectors->state[i], level, open, duty);
		else if (table[i]->level)
			r = table[i]->level(collectors->state[i], level, open, ignored, sizeof(ignored));
		if (r < 0)
			return r;
	}
	return 0;
}

uint64_t collectors_window_end_ns(const struct collectors *collectors, enum level level, uint64_t open_ns)
{
	uint64_t end_ns = 0;

	for (unsigned i = 0; collectors && i < collectors->opened; i++) {
		uint64_t own_ns = (table[i]->levels & LEVEL_BIT(level)) && table[i]->window_end_ns
					  ? table[i]->window_end_ns(collectors->state[i], level, open_ns)
					  : 0;

		end_ns = own_ns > end_ns ? own_ns : end_ns;
	}
	return end_ns;
}

void collectors_event(struct collectors *collectors, const void *data, size_t size_bytes)
{
	const struct rt_event *event = data;
	uint64_t start_ns = 0;
	unsigned i;

	if (size_bytes < sizeof(*event) || event->size_bytes < sizeof(*event) || event->size_bytes > size_bytes ||
		event->kind >= RT_KIND_MAX || !collectors->by_kind[event->kind]) {
		collectors->refused++;
		return;
	}
	i = collectors->by_kind[event->kind] - 1u;
	if (!table[i]->event) {
		collectors->refused++;
		return;
	}
	if (collectors->records++ % WORK_RECORDS == 0)
		start_ns = monotonic_ns();
	table[i]->event(collectors->state[i], event, event->size_bytes);
	if (start_ns)
		collectors->work_ns[i] += (monotonic_ns() - start_ns) * WORK_RECORDS;
}

static uint64_t collector_levels_on(const struct collector *collector)
{
	return (uint64_t)__builtin_popcount(collector->levels);
}

uint64_t collectors_work_ns(const struct collectors *collectors, uint64_t ret_level[LEVEL_MAX])
{
	uint64_t all_ns = 0;

	for (enum level level = 0; level < LEVEL_MAX; level++)
		ret_level[level] = 0;
	for (unsigned i = 0; collectors && i < collectors->opened; i++) {
		all_ns += collectors->work_ns[i];
		for (enum level level = 0; level < LEVEL_MAX; level++)
			if (table[i]->levels & LEVEL_BIT(level))
				ret_level[level] += collectors->work_ns[i] / collector_levels_on(table[i]);
	}
	return all_ns;
}

void collectors_tick(struct collectors *collectors, uint64_t now_ns)
{
	for (unsigned i = 0; i < collectors->opened; i++) {
		uint64_t start_ns = monotonic_ns();

		if (table[i]->tick)
			table[i]->tick(collectors->state[i], now_ns);
		collectors->work_ns[i] += monotonic_ns() - start_ns;
	}
	if (losses_due(collectors->losses, now_ns))
		losses_write(collectors->losses, collector_of_kind, collectors);
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

uint64_t collectors_limited(const struct collectors *collectors)
{
	return losses_of_ranks(collectors->losses);
}
