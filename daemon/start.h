/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of the daemon's start: configuration, identity of the node, store, levels. */
#ifndef RANKTRACE_DAEMON_START_H
#define RANKTRACE_DAEMON_START_H

#include "daemon/core/context.h"

/* The command line; NULL: option not given. Texts are the caller's. */
struct start_options {
	const char *state_dir;
	const char *socket;
	const char *config;
	const char *log_level;
	bool check;
	bool check_config; /* check the configuration and exit */
	bool json;
};

int start_options_check(const struct start_options *options, char *error, size_t error_size);

/*
 * The file of --config, else the installed one if it exists, else defaults; the command line overrides. Relative paths
 * become absolute. Uninstalled probe tables are taken from beside the program.
 */
int start_config(const struct start_options *options, struct config *ret, char *error, size_t error_size);

/* started_ns, boot_id and host. */
void start_identity(struct context *context);

/* Opens the store; names the owner if another daemon has it. */
int start_store(const struct config *config, struct store **ret);

/* Restores the levels of the last run. One that fails to turn on is logged and off. */
void start_levels(struct context *context);

#endif
