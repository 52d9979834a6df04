/* SPDX-License-Identifier: Apache-2.0 */
/* State of the levels: turning them on and off, and the end of those set for a time. */
#include <stdarg.h>
#include "daemon/core/context.h"
#include "daemon/core/levels.h"
#include "daemon/base/log.h"

/* Between attempts to turn off a level that failed to. */
#define LEVELS_RETRY_NS (60 * NSEC_PER_SEC)

static void levels_append(char *report, size_t report_size, const char *format, ...) _printf_(3, 4);

static void levels_append(char *report, size_t report_size, const char *format, ...)
{
	size_t used = strnlen(report, report_size);
	va_list args;

	if (used + 1 >= report_size)
		return;
	va_start(args, format);
	vsnprintf(report + used, report_size - used, format, args);
	va_end(args);
}

static bool levels_estimated(enum level level)
{
	return LEVELS_ESTIMATED & LEVEL_BIT(level);
}

/* And still is when it is set: between windows, too, a part of it is attached. */
static bool levels_in_windows(const struct levels *levels, enum level level)
{
	return levels_estimated(level) && levels->sampled[level];
}

/* Is there nothing to attach or detach? L0 in windows is neither on as a whole nor off. */
static bool levels_is_so(const struct levels *levels, enum level level, bool on)
{
	if (levels_in_windows(levels, level))
		return on;
	return levels->on[level] == on && !(level == LEVEL_L0 && levels->sampled[level]);
}

/* Attaches or detaches, and reports the result. */
static int switch_level(struct context *context, enum level level, bool on, char *report, size_t report_size)
{
	struct levels *levels = &context->levels;
	uint64_t until_ns = levels->until_ns[level];
	char text[1024] = "";
	int r = 0;

	if (!on && !levels->on[level] && levels->sampled[level] && !levels_estimated(level) && level != LEVEL_L0) {
		levels_append(report, report_size, "%s off: it was on in windows", level_name(level));
		return 0;
	}
	if (levels_is_so(levels, level, on)) {
		levels_append(report, report_size, "%s was %s already%s", level_name(level), on ? "on" : "off",
			levels->is_auto[level] ? ", turned on by the daemon" : "");
		return 0;
	}
	levels->until_ns[level] = 0; /* dumps written while it goes off must not prolong it */
	if (levels->apply)
		r = levels->apply(context->collectors, level, on, text, sizeof(text));
	if (r < 0) {
		levels->until_ns[level] = until_ns;
		levels_append(report, report_size, "cannot turn %s %s: %s", level_name(level), on ? "on" : "off",
			text[0] ? text : strerror(-r));
		log_warning("levels", "%s", report);
		return r;
	}
	levels->on[level] = on;
	levels_append(report, report_size, "%s %s: %s", level_name(level), on ? "on" : "off",
		text[0] ? text : "no collector serves it here");
	return 0;
}

/* An end beyond the clock's range means none. */
static void set_end(struct levels *levels, enum level level, uint64_t for_ns, char *report, size_t report_size)
{
	uint64_t now_ns = monotonic_ns();
	double for_s = (double)for_ns / (double)NSEC_PER_SEC;
	bool on = levels->on[level] || levels->sampled[level];

	levels->until_ns[level] = on && for_ns && for_ns < UINT64_MAX - now_ns ? now_ns + for_ns : 0;
	if (levels->until_ns[level])
		levels_append(report, report_size, "; off again in %g %s", for_s < 60 ? for_s : for_s / 60,
			for_s < 60 ? "s" : "min");
}

int levels_set(struct context *context, enum level level, bool on, uint64_t for_ns, char *report, size_t report_size)
{
	struct levels *levels = &context->levels;
	int r;

	if (report_size)
		report[0] = 0;
	r = switch_level(context, level, on, report, report_size);
	if (r < 0)
		return r;
	levels->is_auto[level] = false;
	levels->sampled[level] = on && levels_in_windows(levels, level);
	levels->set_ns[level] = monotonic_ns();
	set_end(levels, level, for_ns, report, report_size);
	r = levels_save(levels, context->config.state_dir);
	if (r < 0)
		levels_append(report, report_size, "; a restart forgets this, because %s cannot be written: %s",
			context->config.state_dir, strerror(-r));
	log_notice("levels", "%s", report);
	return 0;
}

int levels_auto_on(struct context *context, enum level level, uint64_t for_ns, const char *why)
{
	struct levels *levels = &context->levels;
	char report[1024] = "";
	int r;

	if (levels->on[level] && !levels->sampled[level])
		return -EALREADY;
	r = levels->on[level] ? 0 : switch_level(context, level, true, report, sizeof(report));
	if (r < 0)
		return r;
	levels->is_auto[level] = true;
	set_end(levels, level, for_ns, report, sizeof(report));
	log_notice("levels", "investigating \"%s\": %s", why, report);
	return 0;
}

bool levels_may_sample(const struct levels *levels, enum level level, uint64_t now_ns)
{
	if (levels_estimated(level))
		return levels->on[level] || levels->sampled[level];
	if (levels->set_ns[level] && now_ns < levels->set_ns[level] + LEVELS_WHOLE_NS)
		return false;
	return (levels->on[level] || levels->sampled[level]) && !levels->is_auto[level] && !levels->until_ns[level];
}

int levels_window(struct context *context, enum level level, bool open, double duty)
{
	struct levels *levels = &context->levels;
	int r;

	if (!levels->sampled[level] || !levels_may_sample(levels, level, monotonic_ns()))
		return -EBUSY;
	if (levels->on[level] == open && duty < 1)
		return 0;
	r = levels->window ? levels->window(context->collectors, level, open, duty) : 0;
	if (r < 0) {
		log_warning("levels", "cannot %s a window of %s: %s", open ? "open" : "close", level_name(level),
			strerror(-r));
		return r;
	}
	levels->on[level] = open;
	return 0;
}

int levels_sample(struct context *context, enum level level, bool sampled)
{
	struct levels *levels = &context->levels;
	int r = 0;

	if (!levels_may_sample(levels, level, monotonic_ns()))
		return -EBUSY;
	if (!sampled)
		r = levels->sampled[level] ? levels_window(context, level, true, 1) : 0;
	if (r == 0)
		levels->sampled[level] = sampled;
	return r;
}

void levels_prolong(struct levels *levels, enum level level, uint64_t by_ns)
{
	if (levels->on[level] && levels->is_auto[level] && levels->until_ns[level])
		levels->until_ns[level] += by_ns;
}

/* Not saved: no operator set it. */
static int levels_lower(struct context *context, enum level level)
{
	struct levels *levels = &context->levels;
	char report[1024] = "";
	int r = switch_level(context, level, false, report, sizeof(report));

	if (r < 0)
		return r;
	levels->is_auto[level] = false;
	levels->until_ns[level] = 0;
	log_notice("levels", "%s", report);
	return 0;
}

void levels_tick(struct context *context, uint64_t now_ns)
{
	struct levels *levels = &context->levels;

	for (enum level l = 0; l < LEVEL_MAX; l++) {
		char report[1024];
		uint64_t set_ns = levels->set_ns[l];
		int r;

		if (!(levels->on[l] || levels->sampled[l]) || !levels->until_ns[l] || now_ns < levels->until_ns[l])
			continue;
		log_notice("levels", "%s: time limit reached, turning it off", level_name(l));
		r = levels->is_auto[l] ? levels_lower(context, l)
				       : levels_set(context, l, false, 0, report, sizeof(report));
		levels->set_ns[l] = set_ns; /* a time limit is no operator's setting */
		if (r < 0)
			levels->until_ns[l] = now_ns + LEVELS_RETRY_NS;
	}
}
