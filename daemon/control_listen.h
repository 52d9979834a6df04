/* SPDX-License-Identifier: Apache-2.0 */
/* The listening end of the control socket: taken from systemd or made, and removed again. For control.c. */
#ifndef RANKTRACE_CONTROL_LISTEN_H
#define RANKTRACE_CONTROL_LISTEN_H

#include <sys/types.h>
#include "daemon/util.h"

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

#endif
