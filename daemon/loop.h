/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's one thread of work (launch.h has the only other): owns libevent's base, signals, the tick that calls
 * every room, the ring's descriptor and what systemd is told. Opened first, so that rooms may add their own events to
 * context->base; run last.
 *
 * SIGTERM and SIGINT end loop_run(); SIGHUP calls reload. A tick is 100 ms; what each tick calls is a table in loop.c.
 */
#ifndef RANKTRACE_DAEMON_LOOP_H
#define RANKTRACE_DAEMON_LOOP_H

#include "daemon/base/util.h"

struct context;
struct loop;

/* Sets context->base. reload reads the configuration again and logs what it did. */
int loop_open(struct context *context, void (*reload)(void *arg), void *arg, struct loop **ret);
/* Every room is open. Says READY, works until told to stop, says STOPPING. 0, or a negative errno if it cannot work. */
int loop_run(struct loop *loop);
struct loop *loop_close(struct loop *loop);

#endif
