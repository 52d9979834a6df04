/* SPDX-License-Identifier: Apache-2.0 */
/* Turns levels on for suspicions and as a routine, within the bounds in online_internal.h. */
#include "daemon/findings/online_internal.h"

#include "analyzers/detect/detector.h"
#include "daemon/core/context.h"
#include "daemon/base/log.h"

#define HOUR_NS (3600 * NSEC_PER_SEC)
/* Suspicions are settled within a few steps: prolong by this much, this shortly before the end. */
#define PROLONG_NS (5 * NSEC_PER_SEC)
#define PROLONG_BEFORE_NS (2 * NSEC_PER_SEC)

static const struct {
	unsigned want;
	enum level level;
	bool is_routine; /* nothing is suspected */
} wanted[] = {
	{JUDGE_WANT_OPERATIONS, LEVEL_L1, false},
	{JUDGE_WANT_ROUTINE, LEVEL_L1, true},
	{JUDGE_WANT_SYSTEM, LEVEL_L3, false},
	{JUDGE_WANT_LAUNCHES, LEVEL_L1_LAUNCHES, false},
};

static uint64_t online_auto_level_full(const struct config *config)
{
	return HOUR_NS / 100 * config->online_auto_level_percent;
}

static uint64_t online_auto_level_budget(
	struct online_auto_level *state, const struct config *config, enum level level, uint64_t now_ns)
{
	uint64_t full_ns = online_auto_level_full(config), earned_ns = full_ns;

	/* A tick's time may precede a frame's. */
	if (state->budget_at_ns[level] && now_ns <= state->budget_at_ns[level])
		return state->budget_ns[level];
	if (state->budget_at_ns[level] && now_ns - state->budget_at_ns[level] < HOUR_NS)
		earned_ns = (now_ns - state->budget_at_ns[level]) / 100 * config->online_auto_level_percent;
	state->budget_ns[level] += earned_ns;
	if (state->budget_ns[level] > full_ns)
		state->budget_ns[level] = full_ns;
	state->budget_at_ns[level] = now_ns;
	return state->budget_ns[level];
}

/* What is left for suspicions: half, or what is more than one period. */
static uint64_t online_auto_level_left(const struct config *config, bool is_routine)
{
	uint64_t full_ns = online_auto_level_full(config), more_ns = full_ns - config->online_auto_level_for_ns;

	if (!is_routine || full_ns < config->online_auto_level_for_ns)
		return 0;
	return full_ns / 2 < more_ns ? full_ns / 2 : more_ns;
}

static bool online_auto_level_allowed(struct online_auto_level *state, const struct context *context, enum level level,
	bool is_routine, uint64_t now_ns)
{
	const struct levels *levels = &context->levels;
	const struct config *config = &context->config;
	uint64_t set_ns = levels->set_ns[level], left_ns = online_auto_level_left(config, is_routine);

	/* turned_on: it ended, online_auto_level_tick() has not seen the result yet. */
	if (!config->online_auto_level || (levels->on[level] && !levels->sampled[level]) || state->turned_on[level] ||
		now_ns < state->pause_until_ns[level])
		return false;
	if (set_ns && now_ns < set_ns + config->online_auto_level_pause_ns)
		return false;
	return online_auto_level_budget(state, config, level, now_ns) >= left_ns + config->online_auto_level_for_ns;
}

static bool online_auto_level_is_ending(
	const struct online_auto_level *state, const struct context *context, enum level level, uint64_t now_ns)
{
	uint64_t until_ns = context->levels.until_ns[level];

	return state->turned_on[level] && context->levels.is_auto[level] && until_ns &&
	       now_ns + PROLONG_BEFORE_NS >= until_ns;
}

static void online_auto_level_prolong(
	struct online_auto_level *state, struct context *context, enum level level, uint64_t now_ns)
{
	if (!context->config.online_auto_level || !online_auto_level_is_ending(state, context, level, now_ns) ||
		state->prolonged_ns[level] + PROLONG_NS > context->config.online_auto_level_for_ns ||
		online_auto_level_budget(state, &context->config, level, now_ns) <
			PROLONG_NS + online_auto_level_left(&context->config, state->is_routine[level]))
		return;
	state->budget_ns[level] -= PROLONG_NS;
	state->prolonged_ns[level] += PROLONG_NS;
	levels_prolong(&context->levels, level, PROLONG_NS);
}

/* Starts another period without detaching. */
static void online_auto_level_renew(
	struct online_auto_level *state, struct context *context, enum level level, const char *why)
{
	uint64_t for_ns = context->config.online_auto_level_for_ns;

	state->budget_ns[level] -= for_ns;
	state->prolonged_ns[level] = 0;
	state->fruitful[level] = false;
	state->count++;
	levels_prolong(&context->levels, level, for_ns);
	log_info("levels", "investigating \"%s\": %s prolonged", why, level_name(level));
}

static void online_auto_level_turn_on(struct online_auto_level *state, struct context *context, enum level level,
	bool is_routine, const char *job, const char *why, uint64_t now_ns)
{
	uint64_t for_ns = context->config.online_auto_level_for_ns;
	char text[512];

	if (state->turned_on[level] && is_routine) {
		online_auto_level_prolong(state, context, level, now_ns);
		return;
	}
	state->is_routine[level] &= is_routine;
	if (online_auto_level_is_ending(state, context, level, now_ns) && state->fruitful[level] &&
		context->config.online_auto_level &&
		online_auto_level_budget(state, &context->config, level, now_ns) >= for_ns) {
		online_auto_level_renew(state, context, level, why);
		return;
	}
	if (!online_auto_level_allowed(state, context, level, is_routine, now_ns))
		return;
	snprintf(text, sizeof(text), "%s%s%s", why, job[0] ? ", job " : "", job);
	if (levels_auto_on(context, level, for_ns, text) < 0) {
		/* Already logged; do not repeat with every step. */
		state->pause_until_ns[level] = now_ns + context->config.online_auto_level_pause_ns;
		return;
	}
	state->budget_ns[level] -= for_ns;
	state->prolonged_ns[level] = 0;
	state->turned_on[level] = true;
	state->fruitful[level] = false;
	state->is_routine[level] = is_routine;
	state->count++;
}

void online_auto_level_want(struct online_auto_level *state, struct context *context, unsigned wants, const char *job,
	const char *why, uint64_t now_ns)
{
	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++)
		if (wants & wanted[i].want)
			online_auto_level_turn_on(state, context, wanted[i].level, wanted[i].is_routine, job ? job : "",
				why ? why : "a suspicion", now_ns);
}

void online_auto_level_confirmed(struct online_auto_level *state)
{
	for (enum level level = 0; level < LEVEL_MAX; level++)
		state->fruitful[level] = true;
}

void online_auto_level_tick(struct online_auto_level *state, struct context *context, bool suspected, uint64_t now_ns)
{
	for (enum level level = 0; level < LEVEL_MAX; level++) {
		if (!state->turned_on[level])
			continue;
		if (context->levels.is_auto[level]) {
			if (suspected)
				online_auto_level_prolong(state, context, level, now_ns);
			continue;
		}
		state->turned_on[level] = false;
		if (!state->fruitful[level] && !state->is_routine[level])
			state->pause_until_ns[level] = now_ns + context->config.online_auto_level_pause_ns;
	}
}
