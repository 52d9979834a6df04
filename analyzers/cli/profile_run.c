/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/cli/profile_run.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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

static int profile_run_finish(FILE *out, int r, const char *what)
{
	int failed = ferror(out) ? EIO : 0;

	if (fclose(out) != 0)
		failed = errno;
	if (r < 0 || failed)
		return tool_fail(1, "cannot write %s: %s", what, strerror(r < 0 ? -r : failed));
	return 0;
}

/* Beside its place, so that nobody takes half of a file for a whole; devices and pipes as they are. */
int profile_run_write(const struct flame_view *view, const struct flame_format *format, const char *output)
{
	char part[PATH_MAX];
	struct stat st;
	FILE *out;
	int code;

	if (!output || strcmp(output, "-") == 0) {
		if (format->binary && isatty(STDOUT_FILENO))
			return tool_fail(2, "refusing to write %s to a terminal; use -o FILE", format->name);
		code = format->write(view, stdout);
		return code < 0 ? tool_fail(1, "cannot write the profile: %s", strerror(-code)) : tool_written();
	}
	if (stat(output, &st) == 0 && !S_ISREG(st.st_mode)) {
		if (S_ISDIR(st.st_mode))
			return tool_fail(1, "cannot write %s: it is a folder", output);
		out = fopen(output, "we");
		return out ? profile_run_finish(out, format->write(view, out), output)
			   : tool_fail(1, "cannot write %s: %s", output, strerror(errno));
	}
	if ((size_t)snprintf(part, sizeof(part), "%s.part", output) >= sizeof(part))
		return tool_fail(1, "cannot write %s: %s", output, strerror(ENAMETOOLONG));
	out = replace_create(part);
	if (!out)
		return tool_fail(1, "cannot write %s: %s", output, strerror(errno));
	code = profile_run_finish(out, format->write(view, out), output);
	if (code == 0 && rename(part, output) < 0)
		code = tool_fail(1, "cannot write %s: %s", output, strerror(errno));
	if (code)
		unlink(part);
	return code;
}
