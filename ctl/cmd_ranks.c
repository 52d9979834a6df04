/* SPDX-License-Identifier: Apache-2.0 */
/* tracectl ranks: the training ranks of this node, and where each stands right now. */

#include "analyzers/base/user.h"
#include "ctl/client.h"
#include "ctl/out.h"

static json_t *ranks_stage_json(const Ranktrace__Rank *r)
{
	if (!*r->stage)
		return json_null();
	return json_pack("{s:s, s:s, s:o, s:I, s:I}", "stage", r->stage, "name", r->stage_name, "step",
		r->step >= 0 ? json_integer(r->step) : json_null(), "for_ns", (json_int_t)r->stage_for_ns, "thread_id",
		(json_int_t)r->stage_thread_id);
}

static json_t *ranks_json(const Ranktrace__Rank *r)
{
	json_t *all = out_message(r);

	json_object_set_new(all, "current", ranks_stage_json(r));
	return all;
}

static void ranks_add_number(struct term_table *table, const Ranktrace__Rank *r)
{
	if (strcmp(r->role, "rank") != 0)
		term_table_cell(table, TERM_FAINT, "%s", strcmp(r->role, "child") == 0 ? "child" : "launch");
	else if (r->world_size > 0)
		term_table_cell(table, TERM_PLAIN, "%d/%d", r->rank, r->world_size);
	else
		term_table_cell(table, TERM_PLAIN, "%d", r->rank);
}

static enum term_colour ranks_state_colour(const char *state)
{
	static const struct {
		const char *state;
		enum term_colour colour;
	} colours[] = {{"D", TERM_YELLOW}, {"stopped", TERM_RED}, {"traced", TERM_RED}, {"zombie", TERM_RED}};

	for (size_t i = 0; i < ARRAY_SIZE(colours); i++)
		if (strcmp(colours[i].state, state) == 0)
			return colours[i].colour;
	return TERM_PLAIN;
}

static const char *ranks_or_dash(const char *text)
{
	return *text ? text : "-";
}

static void ranks_add_row(struct term_table *table, const Ranktrace__Rank *r, uint64_t now_ns)
{
	char user[USER_NAME_BYTES], since[UNITS_BYTES] = "-", step[UNITS_BYTES] = "-", lasting[UNITS_BYTES] = "-";

	if (r->since_ns && now_ns > r->since_ns)
		units_duration(now_ns - r->since_ns, since);
	if (*r->stage)
		units_duration(r->stage_for_ns, lasting);
	if (*r->stage && r->step >= 0)
		snprintf(step, sizeof(step), "%lld", (long long)r->step);
	ranks_add_number(table, r);
	term_table_cell(table, TERM_PLAIN, "%u", r->pid);
	term_table_cell(table, TERM_PLAIN, "%s", user_name(r->uid_known ? r->uid : USER_UNKNOWN, user));
	term_table_cell(table, TERM_PLAIN, "%s", ranks_or_dash(r->job));
	term_table_cell(table, TERM_PLAIN, "%s", ranks_or_dash(r->card));
	term_table_cell(table, ranks_state_colour(r->state), "%s", ranks_or_dash(r->state));
	term_table_cell(table, TERM_PLAIN, "%s", step);
	term_table_cell(table, TERM_PLAIN, "%s", ranks_or_dash(r->stage));
	term_table_cell(table, TERM_PLAIN, "%s", lasting);
	term_table_cell(table, TERM_PLAIN, "%s", since);
	term_table_cell(table, TERM_PLAIN, "%s", ranks_or_dash(r->pod));
	term_table_cell(table, TERM_PLAIN, "%s", ranks_or_dash(r->source));
	term_table_cell(table, TERM_PLAIN, "%s", r->command);
	if (*r->remark)
		term_table_line(table, "-> %s", r->remark);
}

static void ranks_print(const Ranktrace__RanksBody *body, const struct ranges *wanted)
{
	static const struct term_column columns[] = {
		{.name = "RANK"},
		{.name = "PID", .right = true},
		{.name = "USER", .min = 5},
		{.name = "JOB", .min = 8},
		{.name = "CARD", .min = 4},
		{.name = "STATE"},
		{.name = "STEP", .right = true},
		{.name = "NOW IN", .min = 10},
		{.name = "FOR"},
		{.name = "SEEN FOR", .optional = true},
		{.name = "POD", .min = 8, .optional = true},
		{.name = "BY", .optional = true},
		{.name = "COMMAND", .min = 16, .optional = true},
	};
	struct term_table *table = term_table_new(columns, ARRAY_SIZE(columns));
	uint64_t now_ns = out_now_ns();

	for (size_t i = 0; i < body->n_ranks; i++)
		if (ranges_have(wanted, body->ranks[i]->rank))
			ranks_add_row(table, body->ranks[i], now_ns);
	if (term_table_rows(table))
		term_table_print(table, stdout, 0);
	else
		puts("no training rank on this node");
	term_table_free(table);
	if (body->left_out)
		printf("and %llu more processes\n", (unsigned long long)body->left_out);
}

static int ranks_print_json(const Ranktrace__RanksBody *body, const struct ranges *wanted)
{
	json_t *all = json_array();

	for (size_t i = 0; i < body->n_ranks; i++)
		if (ranges_have(wanted, body->ranks[i]->rank))
			json_array_append_new(all, ranks_json(body->ranks[i]));
	return out_json(all);
}

int cmd_ranks(const struct command *command)
{
	Ranktrace__Response *response = NULL;
	struct ranges wanted;
	int code = client_get_of_ranks(
		command, RANKTRACE__REQUEST_TYPE__REQUEST_RANKS, RANKTRACE__RESPONSE__BODY_RANKS, &wanted, &response);

	if (code == EXIT_DONE)
		code = client_need_ranks(command, response->ranks, &wanted);
	/* A daemon older than --rank sends all of them. */
	if (code == EXIT_DONE && command->json)
		code = ranks_print_json(response->ranks, &wanted);
	else if (code == EXIT_DONE)
		ranks_print(response->ranks, &wanted);
	client_free(response);
	return code;
}
