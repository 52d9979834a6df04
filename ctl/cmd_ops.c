/* SPDX-License-Identifier: Apache-2.0 */
/* tracectl ops: where every rank stands on its communicators now, and who is missing. */
#include "ctl/client.h"
#include "ctl/ops_stages.h"
#include "ctl/out.h"

static json_t *ops_u64_or_null(bool known, uint64_t n)
{
	return known ? out_json_u64(n) : json_null();
}

static json_t *ops_point_json(const Ranktrace__OpsPoint *p)
{
	if (!p)
		return json_null();
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "seq", ops_u64_or_null(p->seq, p->seq), "op",
		out_json_text(p->op), "count", ops_u64_or_null(p->count_known, p->count), "bytes",
		ops_u64_or_null(p->bytes_known, p->bytes), "dtype", out_json_optional(p->dtype), "ago_ns",
		out_json_u64(p->ago_ns));
}

static json_t *ops_member_json(const Ranktrace__OpsMember *m, bool sized)
{
	char address[UNITS_BYTES];

	snprintf(address, sizeof(address), "0x%llx", (unsigned long long)m->address);
	return json_pack("{s:i, s:I, s:o, s:o, s:o, s:b, s:o, s:o, s:b, s:b, s:o, s:o, s:s}", "rank", (int)m->rank,
		"pid", (json_int_t)m->pid, "member", ops_u64_or_null(sized, m->member), "entered",
		ops_point_json(m->entered), "completed", ops_point_json(m->completed), "completion_known",
		(int)m->completion_known, "in_call_ns", ops_u64_or_null(m->in_call, m->in_call_ns), "seq_from",
		out_json_text(m->seq_from), "missing", (int)m->missing, "differs", (int)m->differs, "behind",
		out_json_u64(m->behind), "ended_ago_ns", ops_u64_or_null(m->ended, m->ended_ago_ns), "address",
		address);
}

static json_t *ops_communicator_json(const Ranktrace__OpsCommunicator *c)
{
	json_t *ranks = json_array();

	for (size_t i = 0; i < c->n_ranks; i++)
		json_array_append_new(ranks, ops_member_json(c->ranks[i], c->members > 0));
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:o, s:o, s:o, s:o, s:o, s:o}", "communicator",
		out_json_optional(c->communicator), "family", out_json_text(c->family), "name",
		out_json_optional(c->name), "kind", out_json_optional(c->kind), "job", out_json_optional(c->job),
		"members", ops_u64_or_null(c->members, c->members), "here", (json_int_t)c->here, "state",
		out_json_text(c->state), "sentence", out_json_text(c->sentence), "seq", ops_u64_or_null(c->seq, c->seq),
		"waited_ns", out_json_u64(c->waited_ns), "trouble", out_json_optional(c->trouble), "ranks", ranks);
}

static json_t *ops_json(const Ranktrace__OpsBody *body)
{
	json_t *communicators = json_array(), *calls = json_array();

	for (size_t i = 0; i < body->n_communicators; i++)
		json_array_append_new(communicators, ops_communicator_json(body->communicators[i]));
	for (size_t i = 0; i < body->n_calls; i++) {
		const Ranktrace__OpsCall *c = body->calls[i];

		json_array_append_new(calls,
			json_pack("{s:i, s:I, s:I, s:o, s:o, s:o}", "rank", (int)c->rank, "pid", (json_int_t)c->pid,
				"thread_id", (json_int_t)c->thread_id, "family", out_json_text(c->family), "op",
				out_json_text(c->op), "for_ns", out_json_u64(c->for_ns)));
	}
	return json_pack("{s:b, s:I, s:o, s:o, s:I}", "on", (int)body->on, "ranks", (json_int_t)body->ranks,
		"communicators", communicators, "calls_in_flight", calls, "left_out", (json_int_t)body->left_out);
}

#define OPS_POINT_BYTES 96

/* "118 AllReduce 4.0 MiB" */
static const char *ops_point_text(const Ranktrace__OpsPoint *p, const char *none, char buffer[OPS_POINT_BYTES])
{
	char size[UNITS_BYTES] = "", *op;

	if (!p) {
		snprintf(buffer, OPS_POINT_BYTES, "%s", none);
		return buffer;
	}
	op = out_clean(p->op);
	if (p->bytes_known)
		units_size(p->bytes, size);
	if (p->seq)
		snprintf(buffer, OPS_POINT_BYTES, "%llu %.40s %s", (unsigned long long)p->seq, op, size);
	else
		snprintf(buffer, OPS_POINT_BYTES, "%.40s %s", op, size);
	free(op);
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
	char *identity = out_clean(c->communicator), *family = out_clean(c->family), *name = out_clean(c->name);
	char *kind = out_clean(c->kind), *state = out_clean(c->state), members[96] = "";
	bool shows_kind = *kind && strcmp(kind, name) != 0;

	if (c->members && c->here < c->members)
		snprintf(members, sizeof(members), "; %u of %u members are on this node, the others are not judged",
			c->here, c->members);
	else if (c->members)
		snprintf(members, sizeof(members), "; %u member%s", c->members, c->members == 1 ? "" : "s");
	out_below(2, "%s: %s %s%s%s%s%s%s", state, family, *identity ? identity : "(not identified)", *name ? ", " : "",
		name, shows_kind ? ", " : "", shows_kind ? kind : "", members);
	free(identity);
	free(family);
	free(name);
	free(kind);
	free(state);
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
	char *sentence = out_clean(c->sentence);

	out_below(0, "%s%s%s", out_start(colour), sentence, out_end(colour));
	free(sentence);
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
		char *family = out_clean(c->family), *op = out_clean(c->op), lasting[UNITS_BYTES];

		out_below(2, "rank %d, process %u, thread %u: %s%s%s%s", c->rank, c->pid, c->thread_id, family,
			*family ? " " : "", op, out_for(c->for_ns, lasting));
		free(family);
		free(op);
	}
}

static void ops_print(const Ranktrace__OpsBody *body, bool filtered)
{
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
	int code = client_get(command, RANKTRACE__REQUEST_TYPE__REQUEST_RANKS, RANKTRACE__RESPONSE__BODY_RANKS, &response);

	if (code == EXIT_DONE && command->json) {
		json_t *all = ops_json(body);

		json_object_set_new(all, "stages", ops_stages_json(response->ranks, list));
		code = out_json(all);
	} else if (code == EXIT_DONE) {
		ops_stages_print(response->ranks, list);
		out_below(0, "L1 is off, so no operation is seen; tracectl set L1=on turns it on, in running jobs too");
	}
	client_free(response);
	return code;
}

int cmd_ops(const struct command *command)
{
	Ranktrace__Response *response = NULL;
	struct ranges ranks;
	int code = client_get_of_ranks(command, RANKTRACE__REQUEST_TYPE__REQUEST_OPS, RANKTRACE__RESPONSE__BODY_OPS,
		&ranks, &response);

	if (code == EXIT_DONE && !response->ops->on)
		code = ops_stages(command, &ranks, response->ops);
	else if (code == EXIT_DONE && command->json)
		code = out_json(ops_json(response->ops));
	else if (code == EXIT_DONE)
		ops_print(response->ops, ranks.count > 0);
	client_free(response);
	return code;
}
