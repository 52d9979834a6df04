/* SPDX-License-Identifier: Apache-2.0 */
/* tracectl ops: where every rank stands on its communicators now, and who is missing. */
#include "ctl/client.h"
#include "ctl/ops_stages.h"
#include "ctl/out.h"

static json_t *ops_json(const Ranktrace__OpsBody *body)
{
	json_t *all = out_message(body), *communicators = json_object_get(all, "communicators");

	/* Members have no numbers in a communicator of unknown size. */
	for (size_t i = 0; i < body->n_communicators; i++) {
		json_t *ranks = json_object_get(json_array_get(communicators, i), "ranks");

		for (size_t j = 0; j < body->communicators[i]->n_ranks && !body->communicators[i]->members; j++)
			json_object_set_new(json_array_get(ranks, j), "member", json_null());
	}
	return all;
}

#define OPS_POINT_BYTES 96

/* "118 AllReduce 4.0 MiB" */
static const char *ops_point_text(const Ranktrace__OpsPoint *p, const char *none, char buffer[OPS_POINT_BYTES])
{
	char size[UNITS_BYTES] = "";

	if (!p) {
		snprintf(buffer, OPS_POINT_BYTES, "%s", none);
		return buffer;
	}
	if (p->bytes_known)
		units_size(p->bytes, size);
	if (p->seq)
		snprintf(buffer, OPS_POINT_BYTES, "%llu %.40s %s", (unsigned long long)p->seq, p->op, size);
	else
		snprintf(buffer, OPS_POINT_BYTES, "%.40s %s", p->op, size);
	return buffer;
}

/* What the rank does now, the most important first. */
static const char *ops_now_text(const Ranktrace__OpsMember *m, char buffer[OPS_POINT_BYTES])
{
	uint64_t done = m->completed ? m->completed->seq : 0;
	char lasting[UNITS_BYTES];

	if (m->ended)
		snprintf(buffer, OPS_POINT_BYTES, "%sENDED %s ago", m->missing ? "MISSING: " : "",
			units_duration(m->ended_ago_ns, lasting));
	else if (m->missing && !m->entered)
		snprintf(buffer, OPS_POINT_BYTES, "MISSING");
	else if (m->missing)
		snprintf(buffer, OPS_POINT_BYTES, "MISSING, last call %s ago",
			units_duration(m->entered->ago_ns, lasting));
	else if (m->differs)
		snprintf(buffer, OPS_POINT_BYTES, "DIFFERS, last call %s ago",
			units_duration(m->entered ? m->entered->ago_ns : 0, lasting));
	else if (m->in_call)
		snprintf(buffer, OPS_POINT_BYTES, "in the call%s", out_for(m->in_call_ns, lasting));
	else if (!m->entered)
		snprintf(buffer, OPS_POINT_BYTES, "-");
	else if (m->completion_known && m->entered->seq > done)
		snprintf(buffer, OPS_POINT_BYTES, "in flight for %s", units_duration(m->entered->ago_ns, lasting));
	else
		snprintf(buffer, OPS_POINT_BYTES, "last call %s ago", units_duration(m->entered->ago_ns, lasting));
	return buffer;
}

static void ops_add_member(struct term_table *table, const Ranktrace__OpsMember *m, bool sized)
{
	char entered[OPS_POINT_BYTES], completed[OPS_POINT_BYTES], now[OPS_POINT_BYTES], number[UNITS_BYTES] = "-";

	if (sized)
		snprintf(number, sizeof(number), "%u", m->member);
	term_table_cell(table, TERM_PLAIN, "%d", m->rank);
	term_table_cell(table, TERM_PLAIN, "%u", m->pid);
	term_table_cell(table, TERM_PLAIN, "%s", number);
	term_table_cell(table, TERM_PLAIN, "%s", ops_point_text(m->entered, "none", entered));
	term_table_cell(table, TERM_PLAIN, "%s",
		ops_point_text(m->completed, m->completion_known ? "none" : "not known", completed));
	term_table_cell(
		table, m->missing || m->differs || m->ended ? TERM_RED : TERM_PLAIN, "%s", ops_now_text(m, now));
	term_table_cell(table, TERM_PLAIN, "%s", m->seq_from);
}

/* Who it is about: "gloo 1f00..., default_pg, data; 2 of 4 members are here, the others are not judged" */
static void ops_print_identity(const Ranktrace__OpsCommunicator *c)
{
	bool shows_kind = *c->kind && strcmp(c->kind, c->name) != 0;
	char members[96] = "";

	if (c->members && c->here < c->members)
		snprintf(members, sizeof(members), "; %u of %u members are on this node, the others are not judged",
			c->here, c->members);
	else if (c->members)
		snprintf(members, sizeof(members), "; %u member%s", c->members, c->members == 1 ? "" : "s");
	out_below(2, "%s: %s %s%s%s%s%s%s", c->state, c->family,
		*c->communicator ? c->communicator : "(not identified)", *c->name ? ", " : "", c->name,
		shows_kind ? ", " : "", shows_kind ? c->kind : "", members);
}

static enum term_colour ops_state_colour(const char *state)
{
	return strcmp(state, "RUNNING") == 0 ? TERM_GREEN : strcmp(state, "UNKNOWN") == 0 ? TERM_YELLOW : TERM_RED;
}

static void ops_print_communicator(const Ranktrace__OpsCommunicator *c)
{
	static const struct term_column columns[] = {
		{.name = "RANK"},
		{.name = "PID", .right = true},
		{.name = "MEMBER", .right = true},
		{.name = "LAST ENTERED", .min = 16},
		{.name = "LAST COMPLETED", .min = 16},
		{.name = "NOW"},
		{.name = "COUNTED FROM", .min = 12, .wraps = true},
	};
	struct term_table *table = term_table_new(columns, ARRAY_SIZE(columns));
	enum term_colour colour = ops_state_colour(c->state);

	out_below(0, "%s%s%s", out_start(colour), c->sentence, out_end(colour));
	ops_print_identity(c);
	for (size_t i = 0; i < c->n_ranks; i++)
		ops_add_member(table, c->ranks[i], c->members > 0);
	term_table_print(table, stdout, 2);
	term_table_free(table);
}

static void ops_print_calls(const Ranktrace__OpsBody *body)
{
	if (!body->n_calls)
		return;
	puts("\nCalls that were entered and have not returned:");
	for (size_t i = 0; i < body->n_calls; i++) {
		const Ranktrace__OpsCall *c = body->calls[i];
		char lasting[UNITS_BYTES];

		out_below(2, "rank %d, process %u, thread %u: %s%s%s%s", c->rank, c->pid, c->thread_id, c->family,
			*c->family ? " " : "", c->op, out_for(c->for_ns, lasting));
	}
}

/* Of jobs that hang, and of ranks that ended. */
static void ops_print_stacks(const Ranktrace__OpsBody *body)
{
	for (size_t i = 0; i < body->n_stacks; i++) {
		char lasting[UNITS_BYTES];

		const Ranktrace__OpsStack *stack = body->stacks[i];

		out_below(0, stack->ended ? "%s ago: %s" : "stacks %s ago: %s; tracectl stack shows them",
			units_duration(stack->ago_ns, lasting), stack->sentence);
	}
	if (body->n_stacks)
		putchar('\n');
}

static void ops_print(const Ranktrace__OpsBody *body, bool filtered)
{
	ops_print_stacks(body);
	if (!body->ranks && !body->n_communicators)
		puts("no training rank on this node");
	else if (!body->n_communicators)
		out_below(0,
			"no communicator is known%s: no rank has called an operation since L1 is on; tracectl ranks "
			"and "
			"tracectl findings show what ranks were in before",
			filtered ? " of these ranks" : "");
	for (size_t i = 0; i < body->n_communicators; i++) {
		if (i)
			putchar('\n');
		ops_print_communicator(body->communicators[i]);
	}
	ops_print_calls(body);
	if (body->left_out)
		printf("\nand %llu more members; --rank shows some\n", (unsigned long long)body->left_out);
}

/* L1 is off: what L0 knows comes first. */
static int ops_stages(const struct command *command, const struct ranges *list, const Ranktrace__OpsBody *body)
{
	Ranktrace__Response *response = NULL;
	struct ranges ranks;
	int code = client_get_of_ranks(
		command, RANKTRACE__REQUEST_TYPE__REQUEST_RANKS, RANKTRACE__RESPONSE__BODY_RANKS, &ranks, &response);

	if (code == EXIT_DONE && command->json) {
		json_t *all = ops_json(body);

		json_object_set_new(all, "stages", ops_stages_json(response->ranks, list));
		code = out_json(all);
	} else if (code == EXIT_DONE) {
		ops_print_stacks(body);
		ops_stages_print(response->ranks, list);
		out_below(0, "L1 is off, so no operation is seen; tracectl set L1=on turns it on, in running jobs too");
	}
	client_free(response);
	return code;
}

/* Of ranks that were chosen and have no communicator: whether they are there. */
static int ops_need_ranks(const struct command *command)
{
	Ranktrace__Response *response = NULL;
	struct ranges ranks;
	int code = client_get_of_ranks(
		command, RANKTRACE__REQUEST_TYPE__REQUEST_RANKS, RANKTRACE__RESPONSE__BODY_RANKS, &ranks, &response);

	if (code == EXIT_DONE)
		code = client_need_ranks(command, response->ranks, &ranks);
	client_free(response);
	return code;
}

int cmd_ops(const struct command *command)
{
	Ranktrace__Response *response = NULL;
	struct ranges ranks;
	int code = client_get_of_ranks(
		command, RANKTRACE__REQUEST_TYPE__REQUEST_OPS, RANKTRACE__RESPONSE__BODY_OPS, &ranks, &response);

	if (code == EXIT_DONE && (ranks.count || command_option(command, "job")) && !response->ops->n_communicators)
		code = ops_need_ranks(command);
	if (code == EXIT_DONE && !response->ops->on)
		code = ops_stages(command, &ranks, response->ops);
	else if (code == EXIT_DONE && command->json)
		code = out_json(ops_json(response->ops));
	else if (code == EXIT_DONE)
		ops_print(response->ops, ranks.count > 0);
	client_free(response);
	return code;
}
