/* SPDX-License-Identifier: Apache-2.0 */
/* What the programs profile and diff share: a store's profile, and a file of one of the formats. */
#ifndef RANKTRACE_CLI_PROFILE_RUN_H
#define RANKTRACE_CLI_PROFILE_RUN_H

#include "analyzers/flame/flame.h"
#include "analyzers/tool/options.h"

/* For struct tool_option.call: a number of a profile, into the int64_t that arg points to. */
int profile_run_number(void *arg, const char *value);
/* Writes the view to the file; "-" or NULL: standard output. 0, or the exit code after a sentence. */
int profile_run_write(const struct flame_view *view, const struct flame_format *format, const char *output);

#endif
