/* SPDX-License-Identifier: Apache-2.0 */
/* tracectl check: asks the daemon what it can see here; where none runs, asks the daemon's program. */
#include <errno.h>
#include <limits.h>
#include <unistd.h>
#include "ctl/client.h"
#include "ctl/out.h"

static const char *const verdicts[] = {
	[RANKTRACE__VERDICT__VERDICT_OK] = "ok",
	[RANKTRACE__VERDICT__VERDICT_LIMITED] = "limited",
	[RANKTRACE__VERDICT__VERDICT_MISSING] = "missing",
};

static const char *verdict_name(Ranktrace__Verdict verdict)
{
	return (size_t)verdict < ARRAY_SIZE(verdicts) ? verdicts[verdict] : "unknown";
}

static int show_json(const Ranktrace__CheckBody *body)
{
	json_t *all = json_array();

	for (size_t i = 0; i < body->n_items; i++)
		json_array_append_new(
			all, json_pack("{s:o, s:s, s:o, s:o}", "topic", out_json_text(body->items[i]->topic), "verdict",
				     verdict_name(body->items[i]->verdict), "sentence",
				     out_json_text(body->items[i]->sentence), "advice",
				     out_json_text(body->items[i]->advice)));
	return out_json(all);
}

static void show(const Ranktrace__CheckBody *body)
{
	for (size_t i = 0; i < body->n_items; i++) {
		const Ranktrace__CheckItem *item = body->items[i];
		char *topic = out_clean(item->topic), *sentence = out_clean(item->sentence),
		     *advice = out_clean(item->advice);

		printf("%-8s %-20s %s\n", verdict_name(item->verdict), topic, sentence);
		if (*advice)
			printf("%-29s -> %s\n", "", advice);
		free(topic);
		free(sentence);
		free(advice);
	}
}

/* Beside tracectl, in the sbin beside its folder, in a build tree's daemon/, else in PATH. Returns only on failure. */
static int run_daemon_check(const struct options *options)
{
	static const char *const places[] = {"ranktraced", "../sbin/ranktraced", "../daemon/ranktraced"};
	char self[PATH_MAX / 2], path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *args[] = {(char[]){"ranktraced"}, (char[]){"--check"}, options->json ? (char[]){"--json"} : NULL, NULL};

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
	return fail(EXIT_UNREACHABLE, "no daemon answers on %s, and ranktraced cannot be run either: %s",
		options->socket, strerror(errno));
}

int cmd_check(const struct options *options, int argc, char **argv)
{
	Ranktrace__Request request = RANKTRACE__REQUEST__INIT;
	Ranktrace__Response *response = NULL;
	int code;

	if (argc)
		return fail_argument("check", argv[0]);
	request.type = RANKTRACE__REQUEST_TYPE__REQUEST_CHECK;
	code = client_ask_quietly(options, &request, &response);
	if (code == EXIT_UNREACHABLE) {
		fail(EXIT_UNREACHABLE, "no daemon answers on %s; this is what one would find", options->socket);
		return run_daemon_check(options);
	}
	if (code == EXIT_DONE && response->body_case != RANKTRACE__RESPONSE__BODY_CHECK)
		code = fail(EXIT_REFUSED, "the daemon answered something else than was asked");
	if (code == EXIT_DONE && options->json)
		code = show_json(response->check);
	else if (code == EXIT_DONE)
		show(response->check);
	for (size_t i = 0; code == EXIT_DONE && i < response->check->n_items; i++)
		if (response->check->items[i]->verdict == RANKTRACE__VERDICT__VERDICT_MISSING)
			code = fail(EXIT_REFUSED, "something that is needed is missing here");
	client_free(response);
	return code;
}
