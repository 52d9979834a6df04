/* SPDX-License-Identifier: Apache-2.0 */
/* tracectl set LEVEL=true|false... [--for TIME]: the daemon answers when probes are attached or detached. */
#include "ctl/client.h"
#include "ctl/levels.h"
#include "ctl/out.h"

#define SET_MAX 16
#define FOR_NS_MAX (366 * 86400 * 1000000000ULL)

static int parse_on(const char *level, const char *value, protobuf_c_boolean *ret)
{
	static const struct {
		const char *word;
		bool on;
	} words[] = {{"true", true}, {"false", false}, {"on", true}, {"off", false}, {"1", true}, {"0", false}};

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		if (strcmp(value, words[i].word) == 0) {
			*ret = words[i].on;
			return EXIT_DONE;
		}
	}
	return fail(EXIT_USAGE, "%s cannot be '%s'; it is true or false", level, value);
}

/* "10m", "90", "1.5h" */
static int parse_for(const char *text, uint64_t *ret_ns)
{
	static const struct {
		const char *unit;
		double ns;
	} units[] = {{"", 1e9}, {"ms", 1e6}, {"s", 1e9}, {"m", 60e9}, {"min", 60e9}, {"h", 3600e9}, {"d", 86400e9}};
	size_t digits = strspn(text, "0123456789.");
	char *end;
	double value = strtod(text, &end);

	for (size_t i = 0; digits && end == text + digits && i < ARRAY_SIZE(units); i++) {
		double ns = value * units[i].ns;

		if (strcmp(end, units[i].unit) != 0 || !(ns >= 1) || ns > (double)FOR_NS_MAX)
			continue;
		*ret_ns = (uint64_t)ns;
		return EXIT_DONE;
	}
	return fail(
		EXIT_USAGE, "'%s' is not a time; --for takes a number with s, m, h or d, like 10m, up to 366d", text);
}

static int print_reports(const Ranktrace__SetBody *body)
{
	for (size_t i = 0; i < body->n_reports; i++) {
		char *report = out_clean(body->reports[i]->report);

		if (!body->reports[i]->error)
			puts(report);
		free(report);
	}
	return EXIT_DONE;
}

static int print_reports_json(const Ranktrace__SetBody *body)
{
	json_t *all = json_array();

	for (size_t i = 0; i < body->n_reports; i++) {
		const Ranktrace__SetReport *item = body->reports[i];

		json_array_append_new(
			all, json_pack("{s:o, s:b, s:b, s:o}", "level", out_json_text(item->level), "done",
				     item->error == 0, "on", item->on, "report", out_json_text(item->report)));
	}
	return out_json(all);
}

static int parse_words(int argc, char **argv, Ranktrace__LevelSwitch *switches, Ranktrace__Request *request)
{
	bool all_on = true;
	int code;

	for (int i = 0; i < argc; i++) {
		Ranktrace__LevelSwitch *item = &switches[request->n_set];
		char *value;

		if (strcmp(argv[i], "--for") == 0 || strncmp(argv[i], "--for=", 6) == 0) {
			const char *time = argv[i][5] ? argv[i] + 6 : i + 1 < argc ? argv[++i] : "";

			code = *time ? parse_for(time, &request->for_ns)
				     : fail(EXIT_USAGE, "--for needs a time, like 10m");
			if (code != EXIT_DONE)
				return code;
			continue;
		}
		if (argv[i][0] == '-')
			return fail_argument("set", argv[i]);
		if (request->n_set == SET_MAX)
			return fail(EXIT_USAGE, "set takes at most %d levels", SET_MAX);
		ranktrace__level_switch__init(item);
		code = level_split("set", argv[i], false, &item->level, &value);
		if (code == EXIT_DONE)
			code = parse_on(item->level, value, &item->on);
		if (code != EXIT_DONE)
			return code;
		all_on = all_on && item->on;
		request->set[request->n_set++] = item;
	}
	if (!request->n_set)
		return fail(
			EXIT_USAGE, "set needs a level, like L1=true; usage: tracectl set %s", verb_find("set")->usage);
	if (request->for_ns && !all_on)
		return fail(EXIT_USAGE, "--for goes with levels that are turned on");
	return EXIT_DONE;
}

int cmd_set(const struct options *options, int argc, char **argv)
{
	Ranktrace__LevelSwitch switches[SET_MAX], *list[SET_MAX];
	Ranktrace__Request request = RANKTRACE__REQUEST__INIT;
	Ranktrace__Response *response = NULL;
	int code;

	request.type = RANKTRACE__REQUEST_TYPE__REQUEST_SET;
	request.set = list;
	code = parse_words(argc, argv, switches, &request);
	if (code != EXIT_DONE)
		return code;
	code = client_ask(options, &request, &response);
	/* Where one level failed, the others may have changed: both are said. */
	if (response && response->body_case == RANKTRACE__RESPONSE__BODY_SET) {
		int printed = options->json ? print_reports_json(response->set) : print_reports(response->set);

		code = code == EXIT_DONE ? printed : code;
	}
	client_free(response);
	return code;
}
