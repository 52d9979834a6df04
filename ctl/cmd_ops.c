/* SPDX-License-Identifier: Apache-2.0 */
/* tracectl ops: where every rank stands on its communicators now, and who is missing. */
#include "ctl/client.h"
#include "ctl/out.h"
#include "ctl/rank_list.h"

static json_t *json_u64(uint64_t n)
{
	return json_integer((json_int_t)n);
}

static json_t *u64_or_null(bool known, uint64_t n)
{
	return known ? json_u64(n) : json_null();
}

static json_t *point_json(const Ranktrace__OpsPoint *p)
{
	if (!p)
		return json_null();
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "seq", u64_or_null(p->seq, p->seq), "op",
		out_json_text(p->op), "count", u64_or_null(p->count_known, p->count), "bytes",
		u64_or_null(p->bytes_known, p->bytes), "dtype", out_json_optional(p->dtype), "ago_ns",
		json_u64(p->ago_ns));
}

static json_t *member_json(const Ranktrace__OpsMember *m, bool sized)
{
	char address[OUT_BYTES];

	snprintf(address, sizeof(address), "0x%llx", (unsigned long long)m->address);
	return json_pack("{s:i, s:I, s:o, s:o, s:o, s:b, s:o, s:o, s:b, s:b, s:o, s:o, s:s}", "rank", (int)m->rank,
		"pid", (json_int_t)m->pid, "member", u64_or_null(sized, m->member), "entered", point_json(m->entered),
		"completed", point_json(m->completed), "completion_known", (int)m->completion_known, "in_call_ns",
		u64_or_null(m->in_call, m->in_call_ns), "seq_from", out_json_text(m->seq_from), "missing",
		(int)m->missing, "differs", (int)m->differs, "behind", json_u64(m->behind), "ended_ago_ns",
		u64_or_null(m->ended, m->ended_ago_ns), "address", address);
}

static json_t *communicator_json(const Ranktrace__OpsCommunicator *c)
{
	json_t *ranks = json_array();

	for (size_t i = 0; i < c->n_ranks; i++)
		json_array_append_new(ranks, member_json(c->ranks[i], c->members > 0));
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:o, s:o, s:o, s:o, s:o, s:o}", "communicator",
		out_json_optional(c->communicator), "family", out_json_text(c->family), "name",
		out_json_optional(c->name), "kind", out_json_optional(c->kind), "job", out_json_optional(c->job),
		"members", u64_or_null(c->members, c->members), "here", (json_int_t)c->here, "state",
		out_json_text(c->state), "sentence", out_json_text(c->sentence), "seq", u64_or_null(c->seq, c->seq),
		"waited_ns", json_u64(c->waited_ns), "trouble", out_json_optional(c->trouble), "ranks", ranks);
}

static json_t *ops_json(const Ranktrace__OpsBody *body)
{
	json_t *communicators = json_array(), *calls = json_array();

	for (size_t i = 0; i < body->n_communicators; i++)
		json_array_append_new(communicators, communicator_json(body->communicators[i]));
	for (size_t i = 0; i < body->n_calls; i++) {
		const Ranktrace__OpsCall *c = body->calls[i];

		json_array_append_new(calls,
			json_pack("{s:i, s:I, s:I, s:o, s:o, s:o}", "rank", (int)c->rank, "pid", (json_int_t)c->pid,
				"thread_id", (json_int_t)c->thread_id, "family", out_json_text(c->family), "op",
				out_json_text(c->op), "for_ns", json_u64(c->for_ns)));
	}
	return json_pack("{s:b, s:I, s:o, s:o, s:I}", "on", (int)body->on, "ranks", (json_int_t)body->ranks,
		"communicators", communicators, "calls_in_flight", calls, "left_out", (json_int_t)body->left_out);
}

#define POINT_BYTES 96

/* "118 AllReduce 4.0 MiB" */
static const char *point_text(const Ranktrace__OpsPoint *p, const char *none, char buffer[POINT_BYTES])
{
	char size[OUT_BYTES] = "", *op;

	if (!p) {
		snprintf(buffer, POINT_BYTES, "%s", none);
		return buffer;
	}
	op = out_clean(p->op);
	if (p->bytes_known)
		out_size(p->bytes, size);
	if (p->seq)
		snprintf(buffer, POINT_BYTES, "%llu %.40s %s", (unsigned long long)p->seq, op, size);
	else
		snprintf(buffer, POINT_BYTES, "%.40s %s", op, size);
	free(op);
	return buffer;
}

/* What the rank is doing about it, the most telling thing first. */
static const char *now_text(const Ranktrace__OpsMember *m, char buffer[POINT_BYTES])
{
	uint64_t done = m->completed ? m->completed->seq : 0;
	char lasting[OUT_BYTES];

	if (m->ended)
		snprintf(buffer, POINT_BYTES, "%sENDED %s ago", m->missing ? "MISSING: " : "",
			out_duration(m->ended_ago_ns, lasting));
	else if (m->missing && !m->entered)
		snprintf(buffer, POINT_BYTES, "MISSING");
	else if (m->missing)
		snprintf(buffer, POINT_BYTES, "MISSING, last call %s ago", out_duration(m->entered->ago_ns, lasting));
	else if (m->differs)
		snprintf(buffer, POINT_BYTES, "DIFFERS, last call %s ago",
			out_duration(m->entered ? m->entered->ago_ns : 0, lasting));
	else if (m->in_call)
		snprintf(buffer, POINT_BYTES, "in the call%s", out_for(m->in_call_ns, lasting));
	else if (!m->entered)
		snprintf(buffer, POINT_BYTES, "-");
	else if (m->completion_known && m->entered->seq > done)
		snprintf(buffer, POINT_BYTES, "in flight for %s", out_duration(m->entered->ago_ns, lasting));
	else
		snprintf(buffer, POINT_BYTES, "last call %s ago", out_duration(m->entered->ago_ns, lasting));
	return buffer;
}

static void print_member(const Ranktrace__OpsMember *m, bool sized)
{
	char entered[POINT_BYTES], completed[POINT_BYTES], now[POINT_BYTES], number[OUT_BYTES] = "-";
	char *seq_from = out_clean(m->seq_from);

	if (sized)
		snprintf(number, sizeof(number), "%u", m->member);
	printf("  %-5d %8u %6s  %-28s %-28s %-28s %s\n", m->rank, m->pid, number,
		point_text(m->entered, "none", entered),
		point_text(m->completed, m->completion_known ? "none" : "not known", completed), now_text(m, now),
		seq_from);
	free(seq_from);
}

/* Who it is about: "gloo 1f00..., default_pg, data; 2 of 4 members are here, the others are not judged" */
static void print_identity(const Ranktrace__OpsCommunicator *c)
{
	char *identity = out_clean(c->communicator), *family = out_clean(c->family), *name = out_clean(c->name);
	char *kind = out_clean(c->kind), *state = out_clean(c->state);

	printf("  %s: %s %s", state, family, *identity ? identity : "(not identified)");
	if (*name)
		printf(", %s", name);
	if (*kind && strcmp(kind, name) != 0)
		printf(", %s", kind);
	if (c->members && c->here < c->members)
		printf("; %u of %u members are on this node, the others are not judged", c->here, c->members);
	else if (c->members)
		printf("; %u member%s", c->members, c->members == 1 ? "" : "s");
	putchar('\n');
	free(identity);
	free(family);
	free(name);
	free(kind);
	free(state);
}

static void print_communicator(const Ranktrace__OpsCommunicator *c)
{
	char *sentence = out_clean(c->sentence);

	for (char *p = sentence; *p; p++)
		*p = *p == '\n' ? ' ' : *p;
	printf("%s\n", sentence);
	free(sentence);
	print_identity(c);
	printf("  %-5s %8s %6s  %-28s %-28s %-28s %s\n", "RANK", "PID", "MEMBER", "LAST ENTERED", "LAST COMPLETED",
		"NOW", "COUNTED FROM");
	for (size_t i = 0; i < c->n_ranks; i++)
		print_member(c->ranks[i], c->members > 0);
}

static void print_calls(const Ranktrace__OpsBody *body)
{
	if (!body->n_calls)
		return;
	puts("\nCalls that were entered and have not returned:");
	for (size_t i = 0; i < body->n_calls; i++) {
		const Ranktrace__OpsCall *c = body->calls[i];
		char *family = out_clean(c->family), *op = out_clean(c->op), lasting[OUT_BYTES];

		printf("  rank %d, process %u, thread %u: %s%s%s%s\n", c->rank, c->pid, c->thread_id, family,
			*family ? " " : "", op, out_for(c->for_ns, lasting));
		free(family);
		free(op);
	}
}

static void print_ops(const Ranktrace__OpsBody *body, bool filtered)
{
	if (!body->on) {
		puts("L1 is off, so no operation is seen; tracectl set L1=true turns it on, in running jobs too");
		return;
	}
	if (!body->ranks && !body->n_communicators)
		puts("no training rank on this node");
	else if (!body->n_communicators)
		printf("no communicator is known%s: no rank has called an operation since L1 is on; where ranks stood "
		       "before, tracectl ranks and tracectl findings say\n",
			filtered ? " of these ranks" : "");
	for (size_t i = 0; i < body->n_communicators; i++) {
		if (i)
			putchar('\n');
		print_communicator(body->communicators[i]);
	}
	print_calls(body);
	if (body->left_out)
		printf("\nand %llu members more; --rank shows some\n", (unsigned long long)body->left_out);
}

/* Takes "--rank LIST" and "--rank=LIST". Returns an exit code. */
static int parse(int argc, char **argv, struct rank_range range[RANK_RANGES_MAX], size_t *ret_count)
{
	for (int i = 0; i < argc; i++) {
		const char *list = NULL;

		if (strncmp(argv[i], "--rank=", 7) == 0)
			list = argv[i] + 7;
		else if (strcmp(argv[i], "--rank") == 0)
			list = i + 1 < argc ? argv[++i] : "";
		else
			return fail_argument("ops", argv[i]);
		if (!rank_list_parse(list, range, ret_count))
			return fail(EXIT_USAGE, "--rank takes ranks as in 0,3-7 (at most %d parts), not '%s'",
				RANK_RANGES_MAX, list);
	}
	return EXIT_DONE;
}

static int ask(const struct options *options, const struct rank_range *range, size_t count, Ranktrace__Response **ret)
{
	Ranktrace__RankRange item[RANK_RANGES_MAX], *items[RANK_RANGES_MAX];
	Ranktrace__Request request = RANKTRACE__REQUEST__INIT;
	int code;

	for (size_t i = 0; i < count; i++) {
		item[i] = (Ranktrace__RankRange)RANKTRACE__RANK_RANGE__INIT;
		item[i].first = range[i].first;
		item[i].last = range[i].last;
		items[i] = &item[i];
	}
	request.type = RANKTRACE__REQUEST_TYPE__REQUEST_OPS;
	request.ranks = items;
	request.n_ranks = count;
	code = client_ask(options, &request, ret);
	if (code == EXIT_DONE && (*ret)->body_case != RANKTRACE__RESPONSE__BODY_OPS) {
		client_free(*ret);
		*ret = NULL;
		return fail(EXIT_REFUSED, "the daemon on %s answered something else than was asked", options->socket);
	}
	return code;
}

int cmd_ops(const struct options *options, int argc, char **argv)
{
	struct rank_range range[RANK_RANGES_MAX];
	Ranktrace__Response *response = NULL;
	size_t ranges = 0;
	int code = parse(argc, argv, range, &ranges);

	if (code != EXIT_DONE)
		return code;
	code = ask(options, range, ranges, &response);
	if (code != EXIT_DONE) {
		client_free(response);
		return code;
	}
	if (options->json)
		code = out_json(ops_json(response->ops));
	else
		print_ops(response->ops, ranges > 0);
	client_free(response);
	return code;
}
