/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/cli/profile_run.h"

#include <errno.h>
#include <stdlib.h>

int profile_run_number(void *arg, const char *value)
{
	int64_t *number = arg;
	char *end;

	errno = 0;
	*number = strtoll(value, &end, 10);
	if (errno || *end || *number < 1)
		return 1 + tool_fail(2, "'%s' is no number of a profile", value);
	return 0;
}

struct profile_run_picture {
	const struct flame_view *view;
	const struct flame_format *format;
};

static int profile_run_put(const void *arg, FILE *out)
{
	const struct profile_run_picture *picture = arg;

	return picture->format->write(picture->view, out);
}

int profile_run_write(const struct flame_view *view, const struct flame_format *format, const char *output)
{
	const struct profile_run_picture picture = {view, format};

	return tool_save("the profile", output, !format->binary, profile_run_put, &picture);
}
