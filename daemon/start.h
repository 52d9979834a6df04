/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of the daemon's start that need more than a line: where the configuration comes from, who we are, what is on.
 */
#ifndef RANKTRACE_DAEMON_START_H
#define RANKTRACE_DAEMON_START_H

#include "daemon/core/context.h"

/* The command line; NULL where an option was not given. Texts are the caller's. */
struct start_options {
	const char *state_dir;
	const char *socket;
	const char *config;
	const char *log_level;
	bool check;
	bool check_config; /* read it, say what is wrong, and end */
	bool json;
};

int start_options_check(const struct start_options *options, char *error, size_t error_size);

/*
 * The file of --config, else the installed one if it exists, else defaults; then what the command line says. Relative
 * paths are made absolute. Where the shipped probe tables are not installed, those beside the program are used.
 */
int start_config(const struct start_options *options, struct config *ret, char *error, size_t error_size);

/* started_ns, boot_id and host. */
void start_identity(struct context *context);

/* Opens the store; says who has it where another daemon does. */
int start_store(const struct config *config, struct store **ret);

/* Levels as they were when the last daemon stopped. One that cannot be turned on is logged and is off. */
void start_levels(struct context *context);

#endif
