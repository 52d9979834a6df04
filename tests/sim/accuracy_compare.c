/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/accuracy_compare.h"

/* Sums over cases with a verdict of both. */
struct both {
	unsigned cases, required, culprits;
	unsigned top, found, wrong;
	unsigned their_top, their_found, their_wrong, their_slow;
	double rank_days;
};

static struct both by_kind[SIM_INJECT_MAX][CASE_SEVERITIES_MAX], by_size[CASE_SIZES], by_tier[FRAME_TIER_MAX], of_all;
static struct both by_inject[SIM_INJECT_MAX]; /* without the least severity of ranks */

static unsigned least(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

static void add(struct both *both, const struct outcome *o)
{
	both->cases++;
	both->wrong += o->wrong;
	both->their_wrong += o->theirs.wrong;
	both->rank_days += o->rank_days;
	both->their_slow += (o->required || !o->culprits) && o->theirs.slow;
	if (!o->required)
		return;
	both->required++;
	both->culprits += o->culprits;
	both->top += o->top;
	both->found += least(o->right, o->culprits);
	both->their_top += o->theirs.top;
	both->their_found += least(o->theirs.right, o->culprits);
}

void compare_add(const struct case_spec *spec, const struct outcome *outcome)
{
	if (!outcome->theirs.judged)
		return;
	if (!case_kinds[spec->inject].rank || spec->severity > 0)
		add(&by_inject[spec->inject], outcome);
	add(&by_kind[spec->inject][spec->severity], outcome);
	add(&by_size[spec->size], outcome);
	add(&by_tier[spec->tier], outcome);
	add(&of_all, outcome);
}

static double percent(double a, double of)
{
	return of > 0 ? 100 * a / of : 0;
}

static void head(FILE *out, const char *what, bool markdown)
{
	if (markdown)
		fprintf(out,
			"\n| %s | cases | must | top-1 %% | recall %% | wrong a rank-day | sysTrace: top-1 %% | recall "
			"%% | "
			"wrong a rank-day | steps slow %% |\n|---|---|---|---|---|---|---|---|---|---|\n",
			what);
	else
		fprintf(out, "\n%-20s %5s %5s  %6s %6s %8s  | %6s %6s %8s %6s\n", what, "cases", "must", "top1%",
			"rec%", "acc/r-d", "top1%", "rec%", "acc/r-d", "steps%");
}

static void line(FILE *out, const char *name, const struct both *b, bool markdown)
{
	const char *format = markdown ? "| %s | %u | %u | %.1f | %.1f | %.3f | %.1f | %.1f | %.2f | %.1f |\n"
				      : "%-20s %5u %5u  %6.1f %6.1f %8.3f  | %6.1f %6.1f %8.2f %6.1f\n";
	double days = b->rank_days > 0 ? b->rank_days : 1;
	unsigned of_slow = b->required ? b->required : b->cases;

	if (b->cases)
		fprintf(out, format, name, b->cases, b->required, percent(b->top, b->required),
			percent(b->found, b->culprits), b->wrong / days, percent(b->their_top, b->required),
			percent(b->their_found, b->culprits), b->their_wrong / days, percent(b->their_slow, of_slow));
}

void compare_print(FILE *out, bool markdown)
{
	static const char *const tiers[FRAME_TIER_MAX] = {"stages", "host", "device"};
	char name[40];

	fprintf(out, "\nCompared with sysTrace's rules, on the same cases (up to %d ranks)\n", YARDSTICK_RANKS_MAX);
	head(out, "injection, from 10 %", markdown);
	for (unsigned i = 0; i < SIM_INJECT_MAX; i++)
		line(out, sim_inject_word(i), &by_inject[i], markdown);
	head(out, "injection x excess", markdown);
	for (unsigned i = 0; i < SIM_INJECT_MAX; i++) {
		for (unsigned s = 0; s < case_kinds[i].severities; s++) {
			snprintf(name, sizeof(name), "%s %.0f%%", sim_inject_word(i), 100 * case_kinds[i].severity[s]);
			line(out, name, &by_kind[i][s], markdown);
		}
	}
	head(out, "size", markdown);
	for (unsigned i = 0; i < CASE_SIZES; i++)
		line(out, case_sizes[i].name, &by_size[i], markdown);
	head(out, "tier", markdown);
	for (unsigned i = 0; i < FRAME_TIER_MAX; i++)
		line(out, tiers[i], &by_tier[i], markdown);
	line(out, "all", &of_all, markdown);
	fprintf(out,
		"\nsteps: its step rule calls a step slow from the onset on (of clean: ever), in cases that cost 3 %% "
		"or more\n");
}
