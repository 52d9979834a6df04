/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/ops_stages.h"
#include "analyzers/base/array.h"

static bool ops_stages_is_wanted(const struct ranges *list, const Ranktrace__Rank *rank)
{
	return strcmp(rank->role, "rank") == 0 && (list->count == 0 || ranges_have(list, rank->rank));
}

static bool ops_stages_is_alike(const Ranktrace__Rank *a, const Ranktrace__Rank *b)
{
	return strcmp(a->job, b->job) == 0 && strcmp(a->stage, b->stage) == 0 &&
	       strcmp(a->stage_name, b->stage_name) == 0 && strcmp(a->state, b->state) == 0;
}

static void ops_stages_end_run(struct ops_stage *stage)
{
	size_t used = strlen(stage->list), size = sizeof(stage->list);
	const char *comma = used ? "," : "";
	int n;

	if (stage->run_first == stage->run_last)
		n = snprintf(stage->list + used, size - used, "%s%d", comma, stage->run_first);
	else
		n = snprintf(stage->list + used, size - used, "%s%d-%d", comma, stage->run_first, stage->run_last);
	if ((size_t)n >= size - used)
		memcpy(stage->list + size - 4, "...", 4);
}

/* Ranks of a job come in their order. */
static void ops_stages_add_rank(struct ops_stage *stage, const Ranktrace__Rank *rank)
{
	if (stage->ranks++ == 0) {
		stage->first = rank;
		stage->least_ns = stage->most_ns = rank->stage_for_ns;
		stage->run_first = stage->run_last = rank->rank;
		return;
	}
	if (rank->stage_for_ns < stage->least_ns)
		stage->least_ns = rank->stage_for_ns;
	if (rank->stage_for_ns > stage->most_ns)
		stage->most_ns = rank->stage_for_ns;
	if (rank->rank != stage->run_last + 1) {
		ops_stages_end_run(stage);
		stage->run_first = rank->rank;
	}
	stage->run_last = rank->rank;
}

static int ops_stages_by_length(const void *a, const void *b)
{
	const struct ops_stage *x = a, *y = b;

	return ORDER(y->most_ns, x->most_ns) ?: ORDER(x->first->rank, y->first->rank);
}

size_t ops_stages_group(
	const Ranktrace__RanksBody *body, const struct ranges *list, struct ops_stage ret[OPS_STAGES_MAX])
{
	size_t count = 0;

	for (size_t i = 0; i < body->n_ranks; i++) {
		const Ranktrace__Rank *rank = body->ranks[i];
		size_t at = 0;

		if (!ops_stages_is_wanted(list, rank))
			continue;
		while (at < count && at + 1 < OPS_STAGES_MAX && !ops_stages_is_alike(ret[at].first, rank))
			at++;
		if (at == count)
			ret[count++] = (struct ops_stage){0};
		ops_stages_add_rank(&ret[at], rank);
	}
	for (size_t i = 0; i < count; i++)
		ops_stages_end_run(&ret[i]);
	qsort(ret, count, sizeof(*ret), ops_stages_by_length);
	return count;
}

static void ops_stages_add_row(struct term_table *table, const struct ops_stage *stage)
{
	const Ranktrace__Rank *first = stage->first;
	char least[UNITS_BYTES] = "-", most[UNITS_BYTES] = "", step[UNITS_BYTES] = "-";
	bool stops = strcmp(first->state, "stopped") == 0 || strcmp(first->state, "traced") == 0;

	if (*first->stage) {
		units_duration(stage->least_ns, least);
		units_duration(stage->most_ns, most);
	}
	if (*first->stage && first->step >= 0)
		snprintf(step, sizeof(step), "%lld", (long long)first->step);
	term_table_cell(table, TERM_PLAIN, "%s", stage->list);
	term_table_cell(table, TERM_PLAIN, "%s", *first->job ? first->job : "-");
	term_table_cell(table, TERM_PLAIN, "%s", *first->stage ? first->stage : "no stage");
	if (*most && strcmp(least, most) != 0)
		term_table_cell(table, TERM_PLAIN, "%s to %s", least, most);
	else
		term_table_cell(table, TERM_PLAIN, "%s", least);
	term_table_cell(table, TERM_PLAIN, "%s", step);
	term_table_cell(table, stops ? TERM_RED : TERM_PLAIN, "%s", *first->state ? first->state : "-");
}

void ops_stages_print(const Ranktrace__RanksBody *body, const struct ranges *list)
{
	static const struct term_column columns[] = {
		{.name = "RANKS", .min = 8},
		{.name = "JOB", .min = 8},
		{.name = "NOW IN", .min = 10},
		{.name = "FOR"},
		{.name = "STEP", .right = true},
		{.name = "STATE"},
	};
	struct ops_stage stage[OPS_STAGES_MAX];
	size_t count = ops_stages_group(body, list, stage);
	struct term_table *table;

	if (!count)
		return;
	table = term_table_new(columns, ARRAY_SIZE(columns));
	for (size_t i = 0; i < count; i++)
		ops_stages_add_row(table, &stage[i]);
	term_table_print(table, stdout, 0);
	term_table_free(table);
}

json_t *ops_stages_json(const Ranktrace__RanksBody *body, const struct ranges *list)
{
	struct ops_stage stage[OPS_STAGES_MAX];
	size_t count = ops_stages_group(body, list, stage);
	json_t *all = json_array();

	for (size_t i = 0; i < count; i++)
		json_array_append_new(
			all, json_pack("{s:s, s:I, s:o, s:o, s:o, s:I, s:I}", "ranks", stage[i].list, "count",
				     (json_int_t)stage[i].ranks, "job", out_json_optional(stage[i].first->job), "stage",
				     out_json_optional(stage[i].first->stage), "state",
				     out_json_optional(stage[i].first->state), "for_ns_min",
				     (json_int_t)stage[i].least_ns, "for_ns_max", (json_int_t)stage[i].most_ns));
	return all;
}
