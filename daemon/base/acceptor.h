/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accepts connections of a listening socket, some of them in a turn of the loop: who connects as fast as he can would
 * hold a loop that accepts until none is left. After an error, descriptors that ran out most likely, it rests for a
 * second.
 */
#ifndef RANKTRACE_DAEMON_BASE_ACCEPTOR_H
#define RANKTRACE_DAEMON_BASE_ACCEPTOR_H

#define ACCEPTOR_TURN_MAX 16 /* each costs up to 50 us where it is turned away, with a line of the log */

struct event_base;
struct acceptor;

/*
 * fd: listening, non-blocking; taken. name: of the module, for the log; not copied. take() gets each connection,
 * non-blocking and close-on-exec, which is its own to close. Negative errno.
 */
int acceptor_new(struct event_base *base, int fd, const char *name, void (*take)(void *arg, int fd), void *arg,
	struct acceptor **ret);
/* Closes the listening socket. Always NULL. */
struct acceptor *acceptor_free(struct acceptor *acceptor);

#endif
