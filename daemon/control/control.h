/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control socket: clients, frames, timeouts. What requests mean is in request.h.
 *
 * One request, one response, then the client may send another. Bounded: CONTROL_CLIENTS_MAX connections (the last few
 * kept for root and the daemon's user, so that nobody else can lock them out), one response in memory a client,
 * CONTROL_REQUESTS_MAX requests a connection, CONTROL_IDLE_S from one answer to the end of the next. A client that
 * sends what is not a request gets a response that says so, and is closed.
 */
#ifndef RANKTRACE_DAEMON_CONTROL_CONTROL_H
#define RANKTRACE_DAEMON_CONTROL_CONTROL_H

#include "daemon/base/util.h"
#include "proto/control.pb-c.h"

#include <sys/types.h>

/* The listening end of the control socket: taken from systemd or made, and removed again. For control.c. */

struct control_listen {
	int fd;
	char path[108]; /* to remove at the end; "" where systemd owns it */
	dev_t device;	/* of what we made, so that nobody else's is removed */
	ino_t inode;
};

/* Non-blocking, close-on-exec, listening. Logs why it fails. */
int control_listen_open(const char *path, struct control_listen *ret);
/* Removes the socket file; the descriptor is its user's to close. */
void control_listen_remove(struct control_listen *listening);

#define CONTROL_CLIENTS_MAX 64u
#define CONTROL_CLIENTS_RESERVED 8u  /* for root and the daemon's user */
#define CONTROL_CLIENTS_USER_MAX 16u /* of any other user: four such users fill what is not reserved */
#define CONTROL_REQUESTS_MAX 1000u
#define CONTROL_IDLE_S 10
#define CONTROL_LATER_S 60 /* as long as tracectl waits */
#define CONTROL_HOLD_S 5

struct context;
struct control;
struct request_peer;

/*
 * Serves on the socket that systemd passed, if it did, else on config.socket, which is made (its folder too) and which
 * replaces one that a dead daemon left. -EADDRINUSE where another daemon answers on it. Logs why it fails.
 */
int control_open(struct context *context, struct control **ret);
/* Who sent the request that is being handled; NULL where none is. */
const struct request_peer *control_peer(const struct control *control);
/*
 * For the handler of a request whose answer takes time: nothing is sent when it returns 0, and control_answer() sends
 * its answer, once, from the loop. The client's wait is bounded by CONTROL_LATER_S.
 */
uint64_t control_later(struct control *control);
/* Takes the response; the client may be gone. */
void control_answer(struct control *control, uint64_t ticket, Ranktrace__Response *response);
/*
 * For a handler: its answer leaves once is_done() says so, or after CONTROL_HOLD_S. False: no client waits for it.
 */
bool control_hold(struct control *control, bool (*is_done)(void));
/* Ends all connections; removes the socket if we made it and it is still ours. */
struct control *control_close(struct control *control);

#endif
