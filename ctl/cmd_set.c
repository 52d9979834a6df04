/* SPDX-License-Identifier: Apache-2.0 */
/* tracectl set LEVEL=true|false... [--for TIME]: the daemon answers when probes are attached or detached. */
#include <strings.h>
#include "ctl/client.h"
#include "ctl/levels.h"
#include "ctl/out.h"

#define FOR_NS_MAX (366 * 86400 * 1000000000ULL)

static int set_parse_value(const char *level, const char *value, protobuf_c_boolean *ret)
{
	static const struct {
		const char *word;
		bool on;
	} words[] = {{"on", true}, {"off", false}, {"true", true}, {"false", false}, {"yes", true}, {"no", false},
		{"1", true}, {"0", false}};

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		if (strcasecmp(value, words[i].word) == 0) {
			*ret = words[i].on;
			return EXIT_DONE;
		}
	}
	return fail(EXIT_USAGE, "%s cannot be '%s'; it is on or off (true or false, yes or no, 1 or 0)", level, value);
}

/* "10m", "90", "1.5h" */
static int set_parse_length(const char *text, uint64_t *ret_ns)
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
	return fail(EXIT_USAGE, "--for takes a length of time (90s, 10m, 2h, 1d; up to 366d), not '%s'", text);
}

static int set_print(const Ranktrace__SetBody *body)
{
	for (size_t i = 0; i < body->n_reports; i++) {
		char *report = out_clean(body->reports[i]->report);

		if (!body->reports[i]->error)
			puts(report);
		free(report);
	}
	return EXIT_DONE;
}

static int set_print_json(const Ranktrace__SetBody *body)
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

static int set_parse(const struct command *command, Ranktrace__LevelSwitch *switches, Ranktrace__Request *request)
{
	const char *length = command_option(command, "for");
	bool all_on = true;

	for (int i = 0; i < command->words; i++) {
		Ranktrace__LevelSwitch *item = &switches[request->n_set];
		const char *level;
		char *value;
		int code;

		ranktrace__level_switch__init(item);
		code = level_split(command->verb, command->word[i], false, &level, &value);
		if (code == EXIT_DONE)
			code = set_parse_value(level, value, &item->on);
		if (code != EXIT_DONE)
			return code;
		item->level = (char *)level;
		all_on = all_on && item->on;
		request->set[request->n_set++] = item;
	}
	if (length && !all_on)
		return fail(EXIT_USAGE, "--for goes with levels that are turned on");
	return length ? set_parse_length(length, &request->for_ns) : EXIT_DONE;
}

int cmd_set(const struct command *command)
{
	Ranktrace__LevelSwitch switches[LEVELS_MAX], *list[LEVELS_MAX];
	Ranktrace__Request request = RANKTRACE__REQUEST__INIT;
	Ranktrace__Response *response = NULL;
	int code;

	request.type = RANKTRACE__REQUEST_TYPE__REQUEST_SET;
	request.set = list;
	code = set_parse(command, switches, &request);
	if (code == EXIT_DONE)
		code = client_ask(command, &request, RANKTRACE__RESPONSE__BODY_SET, &response);
	/* Where one level failed, the others may have changed: both are reported. */
	if (response && response->body_case == RANKTRACE__RESPONSE__BODY_SET) {
		int printed = command->json ? set_print_json(response->set) : set_print(response->set);

		code = code == EXIT_DONE ? printed : code;
	}
	client_free(response);
	return code;
}
