/* SPDX-License-Identifier: Apache-2.0 */
/* See online_internal.h. */
#include "daemon/findings/online_internal.h"

#include "analyzers/detect/detector.h"
#include "daemon/core/context.h"
#include "daemon/base/log.h"

#define HOUR_NS (3600 * NSEC_PER_SEC)
/* A suspicion is confirmed or dropped within some steps. Prolonged that much, this shortly before the end. */
#define PROLONG_NS (5 * NSEC_PER_SEC)
#define PROLONG_BEFORE_NS (2 * NSEC_PER_SEC)

static const struct {
	unsigned want;
	enum level level;
} wanted[] = {
	{DETECT_WANT_OPERATIONS, LEVEL_L1},
	{DETECT_WANT_SYSTEM, LEVEL_L3},
	{DETECT_WANT_LAUNCHES, LEVEL_L1_LAUNCHES},
};

static uint64_t budget(struct online_auto_level *raise, const struct config *config, enum level level, uint64_t now_ns)
{
	uint64_t full_ns = HOUR_NS / 100 * config->online_auto_level_percent, earned_ns = full_ns;

	if (raise->budget_at_ns[level] && now_ns <= raise->budget_at_ns[level]) /* a tick's time is older than a frame's */
		return raise->budget_ns[level];
	if (raise->budget_at_ns[level] && now_ns - raise->budget_at_ns[level] < HOUR_NS)
		earned_ns = (now_ns - raise->budget_at_ns[level]) / 100 * config->online_auto_level_percent;
	raise->budget_ns[level] += earned_ns;
	if (raise->budget_ns[level] > full_ns)
		raise->budget_ns[level] = full_ns;
	raise->budget_at_ns[level] = now_ns;
	return raise->budget_ns[level];
}

static bool may(struct online_auto_level *raise, const struct context *context, enum level level, uint64_t now_ns)
{
	const struct levels *levels = &context->levels;
	const struct config *config = &context->config;
	uint64_t set_ns = levels->set_ns[level];

	/* raised: it has ended, and online_auto_level_tick() has not yet seen whether it came to anything. */
	if (!config->online_auto_level || levels->on[level] || raise->raised[level] ||
		now_ns < raise->pause_until_ns[level])
		return false;
	if (set_ns && now_ns < set_ns + config->online_auto_level_pause_ns)
		return false;
	return budget(raise, config, level, now_ns) >= config->online_auto_level_for_ns;
}

static bool is_ending(
	const struct online_auto_level *raise, const struct context *context, enum level level, uint64_t now_ns)
{
	uint64_t until_ns = context->levels.until_ns[level];

	return raise->raised[level] && context->levels.raised[level] && until_ns &&
	       now_ns + PROLONG_BEFORE_NS >= until_ns;
}

/* Another one, without an end between. */
static void go_on(struct online_auto_level *raise, struct context *context, enum level level, const char *why)
{
	uint64_t for_ns = context->config.online_auto_level_for_ns;

	raise->budget_ns[level] -= for_ns;
	raise->prolonged_ns[level] = 0;
	raise->fruitful[level] = false;
	raise->count++;
	levels_prolong(&context->levels, level, for_ns);
	log_info("levels", "to see more of \"%s\": %s stays on", why, level_name(level));
}

static void raise_one(struct online_auto_level *raise, struct context *context, enum level level, const char *job,
	const char *why, uint64_t now_ns)
{
	uint64_t for_ns = context->config.online_auto_level_for_ns;
	char text[512];

	if (is_ending(raise, context, level, now_ns) && raise->fruitful[level] && context->config.online_auto_level &&
		budget(raise, &context->config, level, now_ns) >= for_ns) {
		go_on(raise, context, level, why);
		return;
	}
	if (!may(raise, context, level, now_ns))
		return;
	snprintf(text, sizeof(text), "%s%s%s", why, job[0] ? ", job " : "", job);
	if (levels_raise(context, level, for_ns, text) < 0) {
		/* It has said why; it would say so again with every step. */
		raise->pause_until_ns[level] = now_ns + context->config.online_auto_level_pause_ns;
		return;
	}
	raise->budget_ns[level] -= for_ns;
	raise->prolonged_ns[level] = 0;
	raise->raised[level] = true;
	raise->fruitful[level] = false;
	raise->count++;
}

void online_auto_level_want(struct online_auto_level *raise, struct context *context, unsigned wants, const char *job,
	const char *why, uint64_t now_ns)
{
	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++)
		if (wants & wanted[i].want)
			raise_one(raise, context, wanted[i].level, job ? job : "", why ? why : "a suspicion", now_ns);
}

void online_auto_level_confirmed(struct online_auto_level *raise)
{
	for (enum level level = 0; level < LEVEL_MAX; level++)
		raise->fruitful[level] = true;
}

static void prolong(struct online_auto_level *raise, struct context *context, enum level level, uint64_t now_ns)
{
	if (!context->config.online_auto_level || !is_ending(raise, context, level, now_ns) ||
		raise->prolonged_ns[level] + PROLONG_NS > context->config.online_auto_level_for_ns ||
		budget(raise, &context->config, level, now_ns) < PROLONG_NS)
		return;
	raise->budget_ns[level] -= PROLONG_NS;
	raise->prolonged_ns[level] += PROLONG_NS;
	levels_prolong(&context->levels, level, PROLONG_NS);
}

void online_auto_level_tick(struct online_auto_level *raise, struct context *context, bool suspected, uint64_t now_ns)
{
	for (enum level level = 0; level < LEVEL_MAX; level++) {
		if (!raise->raised[level])
			continue;
		if (context->levels.raised[level]) {
			if (suspected)
				prolong(raise, context, level, now_ns);
			continue;
		}
		raise->raised[level] = false;
		if (!raise->fruitful[level])
			raise->pause_until_ns[level] = now_ns + context->config.online_auto_level_pause_ns;
	}
}
