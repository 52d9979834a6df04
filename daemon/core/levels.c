/* SPDX-License-Identifier: Apache-2.0 */
/* Collection levels: which are on, turning them on and off, and the end of those set for a time. See levels.h. */
#include <stdarg.h>
#include "daemon/core/context.h"
#include "daemon/core/levels.h"
#include "daemon/base/log.h"

/* After an end of time that failed; a second would fill the log. */
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

/* Attaches or detaches, and says what happened. */
static int switch_level(struct context *context, enum level level, bool on, char *report, size_t report_size)
{
	struct levels *levels = &context->levels;
	uint64_t until_ns = levels->until_ns[level];
	char told[1024] = "";
	int r = 0;

	if (levels->on[level] == on) {
		levels_append(report, report_size, "%s was %s already%s", level_name(level), on ? "on" : "off",
			levels->raised[level] ? ", because of a finding" : "");
		return 0;
	}
	levels->until_ns[level] = 0; /* what is told while it goes off prolongs nothing */
	if (levels->apply)
		r = levels->apply(context->collectors, level, on, told, sizeof(told));
	if (r < 0) {
		levels->until_ns[level] = until_ns;
		levels_append(report, report_size, "%s stays %s: %s", level_name(level), on ? "off" : "on",
			told[0] ? told : strerror(-r));
		log_warning("levels", "%s", report);
		return r;
	}
	levels->on[level] = on;
	levels_append(report, report_size, "%s %s: %s", level_name(level), on ? "on" : "off",
		told[0] ? told : "no collector serves it here");
	return 0;
}

/* A time beyond the clock's end is no end. */
static void set_end(struct levels *levels, enum level level, uint64_t for_ns, char *report, size_t report_size)
{
	uint64_t now_ns = monotonic_ns();
	double for_s = (double)for_ns / (double)NSEC_PER_SEC;

	levels->until_ns[level] = levels->on[level] && for_ns && for_ns < UINT64_MAX - now_ns ? now_ns + for_ns : 0;
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
	levels->raised[level] = false;
	levels->set_ns[level] = monotonic_ns();
	set_end(levels, level, for_ns, report, report_size);
	r = levels_save(levels, context->config.state_dir);
	if (r < 0)
		levels_append(report, report_size, "; a restart forgets this, because %s cannot be written: %s",
			context->config.state_dir, strerror(-r));
	log_notice("levels", "%s", report);
	return 0;
}

int levels_raise(struct context *context, enum level level, uint64_t for_ns, const char *why)
{
	struct levels *levels = &context->levels;
	char report[1024] = "";
	int r;

	if (levels->on[level])
		return -EALREADY;
	r = switch_level(context, level, true, report, sizeof(report));
	if (r < 0)
		return r;
	levels->raised[level] = true;
	set_end(levels, level, for_ns, report, sizeof(report));
	log_notice("levels", "to see more of \"%s\": %s", why, report);
	return 0;
}

void levels_prolong(struct levels *levels, enum level level, uint64_t by_ns)
{
	if (levels->on[level] && levels->raised[level] && levels->until_ns[level])
		levels->until_ns[level] += by_ns;
}

/* Nobody set it, so nothing is saved. */
static int lower(struct context *context, enum level level)
{
	struct levels *levels = &context->levels;
	char report[1024] = "";
	int r = switch_level(context, level, false, report, sizeof(report));

	if (r < 0)
		return r;
	levels->raised[level] = false;
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

		if (!levels->on[l] || !levels->until_ns[l] || now_ns < levels->until_ns[l])
			continue;
		log_notice("levels", "the time of %s is over, turning it off", level_name(l));
		r = levels->raised[l] ? lower(context, l) : levels_set(context, l, false, 0, report, sizeof(report));
		levels->set_ns[l] = set_ns; /* it was time, nobody's wish */
		if (r < 0)
			levels->until_ns[l] = now_ns + LEVELS_RETRY_NS;
	}
}
