/* SPDX-License-Identifier: Apache-2.0 */
/* The report of a day with recurrences: groups, heat map, plot and bars, totals, hangs, new ones, chosen ranks. */
#include "tests/unit/report_day.h"

#include <jansson.h>

#include "analyzers/report/judge.h"
#include "analyzers/report/model.h"

#define MINUTE (60 * SCRIPT_SECOND)

static void shows(void (*render)(FILE *out, const struct report *report), const struct report *report, const char *part)
{
	static char *text;
	static size_t size;
	FILE *out = open_memstream(&text, &size);

	render(out, report);
	assert_int_equal(fclose(out), 0);
	if (!strstr(text, part))
		fail_msg("\"%s\" is not in:\n%s", part, text);
	free(text);
}

/* Rank 2 loads data slowly three times; rank 1 hangs once; the job is slow once. */
static struct script day(void)
{
	struct script script = script_healthy(dir, UNTIL, 1, 4);

	script_loads(&script, 20 * SCRIPT_HOUR, 60 * MINUTE, 0.5);
	script_loads(&script, 10 * SCRIPT_HOUR, 30 * MINUTE, 0.8);
	script_loads(&script, 5 * SCRIPT_HOUR, 30 * MINUTE, 0.4);
	finding_add(script_slow(&script, FINDING_HANG, CAUSE_MISSING, 0, 1, 15 * SCRIPT_HOUR, 15 * MINUTE, 0),
		"waiting", "1", 3, NAN, "AllReduce 118");
	finding_add(script_slow(&script, FINDING_SLOW_JOB, CAUSE_UNKNOWN, 0, -1, 3 * SCRIPT_HOUR, 20 * MINUTE, 0.2),
		"step_time", "ns", 72e9, 60e9, NULL);
	return script;
}

static void check_groups(const struct report *report)
{
	const struct report_group *group = &report->group[0];
	double cost = 4 * (0.5 / 1.5 + 0.8 / 1.8 * 0.5 + 0.4 / 1.4 * 0.5);

	assert_int_equal(report->findings, 5);
	assert_int_equal(report->groups, 3);
	assert_int_equal(group->is.count, 3);
	assert_true(fabs(group->is.cost_card_hours - cost) < 0.01);
	assert_true(group->is.lasted_ns == 120 * MINUTE);
	assert_int_equal(report->finding[group->first].is.rank, 2);
	/* The costliest one stands for the group. */
	assert_true(fabs(report->finding[0].is.slowdown - 1.5) < 1e-9);
	assert_string_equal(
		report->headline.since, "Fri 20 Nov 10:00 to Sat 21 Nov 01:30, 3 times, 2 h in all; closed");
	assert_string_equal(report->headline.why, "data loading: 33.6 s a step, peers 3.6 s");
	assert_string_equal(report->headline.todo, finding_cause_advice(CAUSE_DATALOADER));
	shows(render_text, report, "1: recurred 2 times since Fri 20 Nov 10:00, 2 h in all, 2.8 card-hours\n");
	shows(render_text, report, "      2026-11-21 01:00:00, 30 min, ");
	shows(render_html, report, "recurred 2 times since Fri 20 Nov 10:00, 2 h in all");
	shows(render_html, report,
		"tracectl timeline --since &#39;2026-11-20 19:59:55&#39; --until &#39;2026-11-20 20:30:05&#39;");
}

/* The plot shows what the sentence names, and its mean while found slow is the sentence's number. */
static void check_plot(const struct report *report)
{
	const struct report_finding *finding = &report->finding[0];
	const struct report_bars *bars = finding->bars;
	bool waits = false;

	assert_non_null(finding->plot);
	assert_int_equal(finding->plot->activity, ACTIVITY_DATALOADER);
	assert_string_equal(finding->plot->unit, "ns a step");
	assert_true(
		fabs(finding->plot->found_own - finding->is.evidence[0].value) < 0.05 * finding->is.evidence[0].value);
	assert_true(fabs(finding->plot->found_peers - 3.6e9) < 0.05 * 3.6e9);
	assert_non_null(bars);
	assert_int_equal(bars->peers, 3);
	for (size_t i = 0; i < bars->bars; i++) {
		if (bars->bar[i].activity == ACTIVITY_DATALOADER)
			assert_true(bars->bar[i].own_ns > 30e9 && bars->bar[i].waiting_ns == 0 &&
				    bars->bar[i].peers_own_ns < 4e9);
		if (bars->bar[i].activity == ACTIVITY_BACKWARD) {
			waits = true;
			assert_true(bars->bar[i].waiting_ns < 2e9 && bars->bar[i].peers_waiting_ns > 25e9);
		}
	}
	assert_true(waits);
}

static const struct report_heat_cell *cell_at(const struct report_heat *heat, int32_t rank, uint64_t time_ns)
{
	for (size_t i = 0; i < heat->rows; i++)
		if (heat->row[i].rank == rank)
			return &heat->row[i].cell[(time_ns - heat->since_ns) / heat->bucket_ns];
	fail_msg("no row of rank %d", rank);
	return NULL;
}

static void check_heat(const struct report *report)
{
	const struct report_heat *heat = report->job[0].heat;
	const struct report_heat_cell *cell;

	assert_non_null(heat);
	assert_int_equal(heat->ranks, 4);
	/* Round columns of the local zone. */
	assert_true(heat->bucket_ns == 15 * MINUTE && heat->since_ns == UNTIL - SCRIPT_DAY);
	assert_int_equal(heat->buckets, 96);
	cell = cell_at(heat, 2, UNTIL - 10 * SCRIPT_HOUR + 15 * MINUTE);
	assert_true(fabs((double)cell->share - 0.8 / 1.8) < 0.05);
	assert_int_equal(cell->activity, ACTIVITY_DATALOADER);
	assert_int_equal(cell->group, 0);
	/* Who waits is not slow, nor is the slow one at other times. */
	assert_true((double)cell_at(heat, 0, UNTIL - 10 * SCRIPT_HOUR + 15 * MINUTE)->share < 0.02);
	assert_true((double)cell_at(heat, 2, UNTIL - 8 * SCRIPT_HOUR)->share < 0.02);
	/* A hang has no steps: its finding says so. The job as a whole has a row. */
	assert_true(fabs((double)cell_at(heat, 1, UNTIL - 15 * SCRIPT_HOUR)->share - 1) < 0.01);
	assert_true((double)cell_at(heat, -1, UNTIL - 3 * SCRIPT_HOUR)->share > 0.1);
	shows(render_html, report, "<h2>Slow-down by rank and time</h2>");
	shows(render_html, report, "of the step lost, data loading; finding 1");
}

/* What cards and rows without a card say adds up to the total. */
static void check_totals(const struct report *report)
{
	double sum = report->cardless_card_hours + report->brief_card_hours;
	bool hung = false;

	for (size_t i = 0; i < report->worsts; i++) {
		const struct report_card *card = &report->card[report->worst[i]];

		sum += card->cost_card_hours;
		hung |= card->rank == 1 && fabs(card->cost_card_hours - 1) < 0.01;
	}
	assert_true(hung);
	assert_true(fabs(sum - report->cost_card_hours) < 1e-6);
	assert_true(fabs(report->cardless_card_hours - 4 * 0.2 / 1.2 / 3) < 0.01);
	shows(render_text, report, "not of a single card");
}

TEST_WITH(test_day, report_day_setup, store_teardown)
{
	struct script script = day();
	struct report *report;

	assert_int_equal(script_write(&script), 0);
	report = report_day_read(NULL);
	check_groups(report);
	check_plot(report);
	check_heat(report);
	check_totals(report);
	report_free(report);
}

/* New is what had no episode in the 24 h before. */
TEST_WITH(test_new, report_day_setup, store_teardown)
{
	struct script script = day();
	struct report *report;

	script_loads(&script, 40 * SCRIPT_HOUR, 30 * MINUTE, 0.2);
	assert_int_equal(script_write(&script), 0);
	report = report_day_read(NULL);
	assert_int_equal(report->group[0].is.count, 3);
	assert_false(report->group[0].fresh);
	assert_true(report->group[1].fresh && report->group[2].fresh);
	shows(render_text, report, "closed, new");
	report_free(report);
}

/* Only of these ranks; they are compared with all others all the same. */
TEST_WITH(test_ranks, report_day_setup, store_teardown)
{
	struct script script = day();
	struct report *report;

	assert_int_equal(script_write(&script), 0);
	report = report_day_read("2-3");
	assert_int_equal(report->groups, 1);
	assert_int_equal(report->cards_here, 2);
	assert_int_equal(report->job[0].heat->rows, 2);
	assert_int_equal(report->job[0].heat->ranks, 4);
	assert_int_equal(report->finding[0].plot->peers, 3);
	shows(render_text, report, ", ranks 2-3 only\n");
	report_free(report);
	report = report_day_read("0");
	assert_int_equal(report->headline.verdict, REPORT_HEALTHY);
	report_free(report);
}

/* On CPUs a long forward is own work where nobody else explains it, and waiting where another rank does. */
TEST_WITH(test_forward, report_day_setup, store_teardown)
{
	uint64_t at_ns = UNTIL - 10 * SCRIPT_HOUR + 15 * MINUTE;
	struct script script = script_healthy(dir, UNTIL, 1, 3);
	struct report *report;
	const struct report_heat_cell *cell;

	script.cardless = true;
	script.waits = "forward";
	script_loads(&script, 10 * SCRIPT_HOUR, 60 * MINUTE, 0.8);
	assert_int_equal(script_write(&script), 0);
	report = report_day_read(NULL);
	assert_false(report->job[0].cards);
	assert_string_equal(report->headline.which, "local rank 2 of node000 (rank 2 of llama-70b)");
	cell = cell_at(report->job[0].heat, 2, at_ns);
	assert_true(fabs((double)cell->share - 0.8 / 1.8) < 0.05);
	assert_int_equal(cell->activity, ACTIVITY_DATALOADER);
	assert_true((double)cell_at(report->job[0].heat, 0, at_ns)->share < 0.02);
	assert_true((double)cell_at(report->job[0].heat, 1, at_ns)->share < 0.02);
	report_free(report);
}

/* Ranks wait in an operation of the script's own, in the optimizer: the bars show that as waiting for the slow one. */
TEST_WITH(test_waits_elsewhere, report_day_setup, store_teardown)
{
	struct script script = script_healthy(dir, UNTIL, 1, 3);
	struct report *report;
	const struct report_bars *bars;
	bool seen = false;

	script.waits = "optimizer";
	script_loads(&script, 10 * SCRIPT_HOUR, 60 * MINUTE, 0.8);
	assert_int_equal(script_write(&script), 0);
	report = report_day_read(NULL);
	bars = report->finding[0].bars;
	assert_non_null(bars);
	for (size_t i = 0; i < bars->bars; i++) {
		const struct report_bar *bar = &bars->bar[i];

		seen |= bar->activity == ACTIVITY_OPTIMIZER;
		if (bar->activity == ACTIVITY_OPTIMIZER)
			assert_true(bar->waiting_ns == 0 && bar->peers_waiting_ns > 25e9 && bar->peers_own_ns < 8e9);
		if (bar->activity == ACTIVITY_DATALOADER)
			assert_true(bar->own_ns > 30e9 && bar->waiting_ns == 0 && bar->peers_waiting_ns == 0);
	}
	assert_true(seen);
	report_free(report);
}

TEST_WITH(test_forward_own, report_day_setup, store_teardown)
{
	uint64_t at_ns = UNTIL - 5 * SCRIPT_HOUR + 15 * MINUTE;
	struct script script = script_healthy(dir, UNTIL, 1, 3);
	struct report *report;
	const struct report_heat_cell *cell;
	struct finding *f;

	script.cardless = true;
	f = script_slow(&script, FINDING_SLOW_RANK, CAUSE_UNKNOWN, 0, 1, 5 * SCRIPT_HOUR, 60 * MINUTE, 0.5);
	finding_add(f, "forward", "ns", 48e9, 18e9, NULL);
	f->state = FINDING_SUSPECTED; /* nobody reports it: the stages show it all the same */
	assert_int_equal(script_write(&script), 0);
	report = report_day_read(NULL);
	assert_int_equal(report->findings, 0);
	cell = cell_at(report->job[0].heat, 1, at_ns);
	assert_true(fabs((double)cell->share - 0.5 / 1.5) < 0.05);
	assert_int_equal(cell->activity, ACTIVITY_FORWARD);
	assert_true((double)cell_at(report->job[0].heat, 0, at_ns)->share < 0.02);
	report_free(report);
}

/* Samples of other lengths: a rank whose forward differs from step to step is not slow. */
TEST_WITH(test_uneven, report_day_setup, store_teardown)
{
	struct script script = script_healthy(dir, UNTIL, 1, 3);
	const struct report_heat *heat;
	struct report *report;
	size_t warm = 0;

	script.cardless = true;
	script.uneven = 0.3;
	script.step_ns = script.sample_ns = 5 * MINUTE;
	assert_int_equal(script_write(&script), 0);
	report = report_day_read(NULL);
	heat = report->job[0].heat;
	assert_int_equal(heat->rows, 3);
	for (size_t i = 0; i < heat->rows; i++)
		for (uint32_t at = 0; at < heat->buckets; at++)
			warm += (double)heat->row[i].cell[at].share >= 0.02;
	assert_true(warm * 20 < heat->rows * heat->buckets);
	report_free(report);
}

/* A step longer than a column fills all that it covers. */
TEST_WITH(test_long_steps, report_day_setup, store_teardown)
{
	struct script script = script_healthy(dir, UNTIL, 1, 3);
	struct report *report;
	const struct report_heat *heat;

	script.step_ns = 40 * MINUTE;
	script.sample_ns = 10 * MINUTE;
	script_loads(&script, 12 * SCRIPT_HOUR, 6 * SCRIPT_HOUR, 0.5);
	assert_int_equal(script_write(&script), 0);
	report = report_day_read(NULL);
	heat = report->job[0].heat;
	assert_true(heat->bucket_ns == 15 * MINUTE);
	for (uint64_t at_ns = UNTIL - 11 * SCRIPT_HOUR; at_ns < UNTIL - 7 * SCRIPT_HOUR; at_ns += heat->bucket_ns) {
		assert_true(fabs((double)cell_at(heat, 2, at_ns)->share - 0.5 / 1.5) < 0.05);
		assert_true((double)cell_at(heat, 1, at_ns)->share < 0.02);
	}
	report_free(report);
}

/* Steps without stages: no excess is made up. */
TEST_WITH(test_no_stages, report_day_setup, store_teardown)
{
	struct script script = script_healthy(dir, UNTIL, 1, 2);
	struct report *report;

	script.stage_nodes = 0;
	assert_int_equal(script_write(&script), 0);
	report = report_day_read(NULL);
	assert_int_equal(report->headline.verdict, REPORT_HEALTHY);
	for (uint32_t i = 0; i < report->job[0].heat->buckets; i++)
		assert_true(isnan(report->job[0].heat->row[0].cell[i].share));
	report_free(report);
}

TEST_WITH(test_round, report_day_setup, store_teardown)
{
	assert_true(report_round_step(SCRIPT_DAY, 9) == 3 * SCRIPT_HOUR);
	assert_true(report_round_step(50 * SCRIPT_SECOND, 9) == 10 * SCRIPT_SECOND);
	assert_true(report_round_step(5 * MINUTE, 9) == MINUTE);
	/* Half an hour from UTC. */
	setenv("TZ", "IST-5:30", 1);
	tzset();
	assert_true(report_round_time(UNTIL + 1, SCRIPT_HOUR) == UNTIL + 30 * MINUTE);
	setenv("TZ", "UTC", 1);
	tzset();
	assert_true(report_round_time(UNTIL, SCRIPT_HOUR) == UNTIL);
	assert_true(report_round_time(UNTIL + 1, SCRIPT_HOUR) == UNTIL + SCRIPT_HOUR);
}

TEST_MAIN(NULL, NULL)
