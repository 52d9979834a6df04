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
	return ctl_fail(
		EXIT_USAGE, "%s cannot be '%s'; it is on or off (true or false, yes or no, 1 or 0)", level, value);
}

static int set_parse_length(const char *text, uint64_t *ret_ns)
{
	if (units_parse_duration(text, ret_ns) == 0 && *ret_ns && *ret_ns <= FOR_NS_MAX)
		return EXIT_DONE;
	return ctl_fail(EXIT_USAGE, "--for takes a length of time (90s, 10m, 2h, 1d; up to 366d), not '%s'", text);
}

static int set_print(const Ranktrace__SetBody *body)
{
	for (size_t i = 0; i < body->n_reports; i++)
		if (!body->reports[i]->error)
			puts(body->reports[i]->report);
	return EXIT_DONE;
}

static int set_print_json(const Ranktrace__SetBody *body)
{
	json_t *all = json_array();

	for (size_t i = 0; i < body->n_reports; i++) {
		json_t *one = out_message(body->reports[i]);

		json_object_set_new(one, "done", json_boolean(body->reports[i]->error == 0));
		json_array_append_new(all, one);
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
		return ctl_fail(EXIT_USAGE, "--for goes with levels that are turned on");
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
