/* SPDX-License-Identifier: Apache-2.0 */
/* tracectl check: asks the daemon what it can see here; where none runs, asks the daemon's program. */
#include <errno.h>
#include <limits.h>
#include <unistd.h>
#include "ctl/client.h"
#include "ctl/out.h"

static const char *const check_verdicts[] = {
	[RANKTRACE__VERDICT__VERDICT_OK] = "ok",
	[RANKTRACE__VERDICT__VERDICT_LIMITED] = "limited",
	[RANKTRACE__VERDICT__VERDICT_MISSING] = "missing",
};

static const char *check_verdict(Ranktrace__Verdict verdict)
{
	return (size_t)verdict < ARRAY_SIZE(check_verdicts) ? check_verdicts[verdict] : "unknown";
}

static void check_show(const Ranktrace__CheckBody *body)
{
	static const enum term_colour colours[] = {
		[RANKTRACE__VERDICT__VERDICT_OK] = TERM_GREEN,
		[RANKTRACE__VERDICT__VERDICT_LIMITED] = TERM_YELLOW,
		[RANKTRACE__VERDICT__VERDICT_MISSING] = TERM_RED,
	};

	static const struct term_column columns[] = {
		{.name = ""}, {.name = ""}, {.name = "", .min = 40, .wraps = true}};
	struct term_table *table = term_table_new(columns, ARRAY_SIZE(columns));

	for (size_t i = 0; i < body->n_items; i++) {
		const Ranktrace__CheckItem *item = body->items[i];

		term_table_cell(table,
			(size_t)item->verdict < ARRAY_SIZE(colours) ? colours[item->verdict] : TERM_PLAIN, "%s",
			check_verdict(item->verdict));
		term_table_cell(table, TERM_PLAIN, "%s", item->topic);
		term_table_cell(table, TERM_PLAIN, "%s", item->sentence);
		if (*item->advice)
			term_table_line(table, "-> %s", item->advice);
	}
	term_table_print(table, stdout, 0);
	term_table_free(table);
}

/* Beside tracectl, in the sbin beside its folder, in a build tree's daemon/, else in PATH. Returns only on failure. */
static int check_run_daemon(const struct command *command)
{
	static const char *const places[] = {"ranktraced", "../sbin/ranktraced", "../daemon/ranktraced"};
	char self[PATH_MAX / 2], path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *args[] = {(char[]){"ranktraced"}, (char[]){"--check"}, command->json ? (char[]){"--json"} : NULL, NULL};

	fflush(stdout);
	self[n > 0 ? n : 0] = 0;
	for (size_t i = 0; strrchr(self, '/') && i < ARRAY_SIZE(places); i++) {
		*strrchr(self, '/') = 0;
		snprintf(path, sizeof(path), "%s/%s", self, places[i]);
		strcat(self, "/");
		if (access(path, X_OK) == 0)
			execv(path, args);
	}
	execvp("ranktraced", args);
	return ctl_fail(EXIT_UNREACHABLE, "no daemon answers on %s, and ranktraced cannot be run either: %s",
		command->socket, strerror(errno));
}

int cmd_check(const struct command *command)
{
	Ranktrace__Request request = RANKTRACE__REQUEST__INIT;
	Ranktrace__Response *response = NULL;
	int code;

	request.type = RANKTRACE__REQUEST_TYPE__REQUEST_CHECK;
	code = client_ask_quietly(command, &request, RANKTRACE__RESPONSE__BODY_CHECK, &response);
	if (code == EXIT_UNREACHABLE) {
		ctl_fail(EXIT_UNREACHABLE, "no daemon answers on %s; this is what one would find", command->socket);
		return check_run_daemon(command);
	}
	if (code == EXIT_DONE && command->json)
		code = out_json(out_message_list(response->check->n_items, (void *const *)response->check->items));
	else if (code == EXIT_DONE)
		check_show(response->check);
	for (size_t i = 0; code == EXIT_DONE && i < response->check->n_items; i++)
		if (response->check->items[i]->verdict == RANKTRACE__VERDICT__VERDICT_MISSING)
			code = ctl_fail(EXIT_REFUSED, "something that is needed is missing here");
	client_free(response);
	return code;
}
