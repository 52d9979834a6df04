/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's working thread (launch.h and base/thread.h have others): owns libevent's base, signals, the tick, the
 * ring's descriptor and systemd notification. Opened first, so that subsystems can add events to context->base; run
 * last.
 *
 * SIGTERM and SIGINT end loop_run(); SIGHUP calls reload. A tick is 100 ms; what each tick calls is a table in loop.c.
 */
#ifndef RANKTRACE_DAEMON_LOOP_H
#define RANKTRACE_DAEMON_LOOP_H

#include "daemon/base/util.h"

struct context;
struct loop;

/* Sets context->base. reload rereads the configuration and logs the result. */
int loop_open(struct context *context, void (*reload)(void *arg), void *arg, struct loop **ret);
/* Call when every subsystem is open. Notifies READY, runs until a stop, notifies STOPPING. 0 or a negative errno. */
int loop_run(struct loop *loop);
struct loop *loop_close(struct loop *loop);

#endif
