/* SPDX-License-Identifier: Apache-2.0 */
/* tracectl ranks: the training ranks of this node, and where each stands right now. */
#include "ctl/client.h"
#include "ctl/out.h"

static json_t *number_or_null(int64_t n)
{
	return n >= 0 ? json_integer(n) : json_null();
}

static json_t *stage_json(const Ranktrace__Rank *r)
{
	if (!*r->stage)
		return json_null();
	return json_pack("{s:o, s:o, s:o, s:I, s:I}", "stage", out_json_text(r->stage), "name",
		out_json_text(r->stage_name), "step", number_or_null(r->step), "for_ns", (json_int_t)r->stage_for_ns,
		"thread_id", (json_int_t)r->stage_thread_id);
}

static json_t *rank_json(const Ranktrace__Rank *r)
{
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:b, s:o}", "rank",
		number_or_null(r->rank), "world_size", number_or_null(r->world_size), "local_rank",
		number_or_null(r->local_rank), "job", out_json_optional(r->job), "source", out_json_optional(r->source),
		"pid", (json_int_t)r->pid, "parent_pid", (json_int_t)r->parent_pid, "role", out_json_text(r->role),
		"card", out_json_optional(r->card), "host", out_json_text(r->host), "container",
		out_json_optional(r->container), "pod", out_json_optional(r->pod), "command", out_json_text(r->command),
		"since_ns", (json_int_t)r->since_ns, "from_start", (int)r->from_start, "current", stage_json(r));
}

static void print_number(char buffer[OUT_BYTES], const Ranktrace__Rank *r)
{
	if (strcmp(r->role, "rank") != 0)
		snprintf(buffer, OUT_BYTES, "%s", strcmp(r->role, "child") == 0 ? " child" : " launch");
	else if (r->world_size > 0)
		snprintf(buffer, OUT_BYTES, "%d/%d", r->rank, r->world_size);
	else
		snprintf(buffer, OUT_BYTES, "%d", r->rank);
}

/* Columns left for texts: the stage's name matters more than the command, for which a narrow terminal has no room. */
struct widths {
	size_t stage, command;
};

#define FIXED_COLUMNS 56
#define COMMAND_COLUMNS_MIN 16

static struct widths fit(size_t columns)
{
	size_t left = columns > FIXED_COLUMNS + 20 ? columns - FIXED_COLUMNS : 20;

	if (left < 20 + COMMAND_COLUMNS_MIN)
		return (struct widths){left, 0};
	return (struct widths){left / 2, left - left / 2 - 1};
}

static void print_line(const char *number, const char *pid, const char *card, const char *since, const char *step,
	const char *lasting, const char *stage, const char *command, const struct widths *widths)
{
	printf("%-8s %8s %-4s %-11s %7s %-11s ", number, pid, card, since, step, lasting);
	fputs(stage, stdout);
	if (widths->command)
		printf("%*s %s", (int)(widths->stage - out_columns(stage)), "", command);
	putchar('\n');
}

static void print_row(const Ranktrace__Rank *r, uint64_t now_ns, const struct widths *widths)
{
	char *card = out_clean(r->card), *stage = out_clean(r->stage), *command = out_clean(r->command);
	char number[OUT_BYTES], pid[OUT_BYTES], since[OUT_BYTES] = "-", step[OUT_BYTES] = "-", lasting[OUT_BYTES] = "-";

	print_number(number, r);
	snprintf(pid, sizeof(pid), "%u", r->pid);
	if (r->since_ns && now_ns > r->since_ns)
		out_duration(now_ns - r->since_ns, since);
	if (*stage) {
		out_duration(r->stage_for_ns, lasting);
		if (r->step >= 0)
			snprintf(step, sizeof(step), "%lld", (long long)r->step);
	}
	for (char *p = command; *p; p++)
		*p = *p == '\n' ? ' ' : *p;
	print_line(number, pid, *card ? out_cut(card, 4) : "-", since, step, lasting,
		*stage ? out_cut(stage, widths->stage) : "-", out_cut(command, widths->command), widths);
	free(card);
	free(stage);
	free(command);
}

/* What is the same for all of them stands once, above. */
static void print_ranks(const Ranktrace__RanksBody *body)
{
	uint64_t now_ns = out_now_ns();
	const char *job = NULL;
	struct widths widths = fit(out_terminal_columns());

	if (!body->n_ranks) {
		puts("no training rank on this node");
		return;
	}
	for (size_t i = 0; i < body->n_ranks; i++) {
		const Ranktrace__Rank *r = body->ranks[i];

		if (!job || strcmp(job, r->job) != 0) {
			char *name = out_clean(r->job), *source = out_clean(r->source), *pod = out_clean(r->pod);

			printf("%sjob %s%s%s%s%s\n", job ? "\n" : "", *name ? name : "without a name",
				*source ? ", by " : "", source, *pod ? ", pod " : "", pod);
			print_line("RANK", "PID", "CARD", "SEEN FOR", "STEP", "FOR", "NOW IN", "COMMAND", &widths);
			free(name);
			free(source);
			free(pod);
		}
		job = r->job;
		print_row(r, now_ns, &widths);
	}
	if (body->left_out)
		printf("and %llu processes more\n", (unsigned long long)body->left_out);
}

int cmd_ranks(const struct options *options, int argc, char **argv)
{
	Ranktrace__Response *response;
	int code;

	if (argc)
		return fail_argument("ranks", argv[0]);
	code = client_get(options, RANKTRACE__REQUEST_TYPE__REQUEST_RANKS, RANKTRACE__RESPONSE__BODY_RANKS, &response);
	if (code != EXIT_DONE)
		return code;
	if (options->json) {
		json_t *all = json_array();

		for (size_t i = 0; i < response->ranks->n_ranks; i++)
			json_array_append_new(all, rank_json(response->ranks->ranks[i]));
		code = out_json(all);
	} else {
		print_ranks(response->ranks);
	}
	client_free(response);
	return code;
}
