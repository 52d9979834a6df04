/* SPDX-License-Identifier: Apache-2.0 */
/* What main.c runs: the start and the event loop. */
#ifndef RANKTRACE_DAEMON_DAEMON_H
#define RANKTRACE_DAEMON_DAEMON_H

#include "daemon/base/util.h"
#include "daemon/core/context.h"

/*
 * The daemon's working thread (launch.h and base/thread.h have others): owns libevent's base, signals, the tick, the
 * ring's descriptor and systemd notification. Opened first, so that subsystems can add events to context->base; run
 * last.
 *
 * SIGTERM and SIGINT end loop_run(); SIGHUP calls reload. A tick is 100 ms; what each tick calls is a table in loop.c.
 */

struct context;
struct loop;

/* Sets context->base. reload rereads the configuration and logs the result. */
int loop_open(struct context *context, void (*reload)(void *arg), void *arg, struct loop **ret);
/* Call when every subsystem is open. Notifies READY, runs until a stop, notifies STOPPING. 0 or a negative errno. */
int loop_run(struct loop *loop);
struct loop *loop_close(struct loop *loop);

/* Steps of the daemon's start: configuration, identity of the node, store, levels. */

/* The command line; NULL: option not given. Texts are the caller's. */
struct start_options {
	const char *state_dir;
	const char *socket;
	const char *config;
	const char *log_level;
	bool check;
	bool check_config; /* check the configuration and the probe tables, and exit */
	bool json;
};

int start_options_check(const struct start_options *options, char *error, size_t error_size);

/*
 * The file of --config, else the installed one if it exists, else defaults; the command line overrides. Relative paths
 * become absolute. Uninstalled probe tables are taken from beside the program.
 */
int start_config(const struct start_options *options, struct config *ret, char *error, size_t error_size);

/* Reads the probe tables and keeps nothing. The error names file and line. */
int start_probes_check(const struct config *config, char *error, size_t error_size);

/* started_ns, boot_id and host. */
void start_identity(struct context *context);

/* Opens the store; names the owner if another daemon has it. */
int start_store(const struct config *config, struct store **ret);

/* Restores the levels of the last run. One that fails to turn on is logged and off. */
void start_levels(struct context *context);

#endif
