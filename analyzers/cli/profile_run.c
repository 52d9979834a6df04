/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/cli/profile_run.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzers/base/replace.h"

int profile_run_number(void *arg, const char *value)
{
	int64_t *number = arg;
	char *end;

	errno = 0;
	*number = strtoll(value, &end, 10);
	if (errno || *end || *number < 1)
		return 1 + tool_fail(2, "\"%s\" is no number of a profile", value);
	return 0;
}

int profile_run_open(const char *state_dir, struct reader **ret)
{
	struct reader_options how = {.warning = tool_warn, .sort_on_disk = true};
	char error[1024] = "";
	int code = tool_state_dir(state_dir, &state_dir);

	if (code)
		return code;
	if (reader_open(state_dir, &how, ret, error, sizeof(error)) < 0)
		return tool_fail(1, "%s", error);
	return 0;
}

int profile_run_write(const struct flame_view *view, const struct flame_format *format, const char *output)
{
	struct replace replace;
	int r;

	if (!output || strcmp(output, "-") == 0) {
		if (format->binary && isatty(STDOUT_FILENO))
			return tool_fail(2, "refusing to write %s to a terminal; use -o FILE", format->name);
		r = format->write(view, stdout);
		return r < 0 ? tool_fail(1, "cannot write the profile: %s", strerror(-r)) : tool_written();
	}
	r = replace_begin(&replace, output);
	if (r == 0)
		r = replace_end(&replace, format->write(view, replace.out), false);
	return r < 0 ? tool_fail_write(output, r) : 0;
}
