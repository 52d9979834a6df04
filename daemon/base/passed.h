/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets that systemd opened for the daemon (sd_listen_fds(3)), by the name of FileDescriptorName=. */
#ifndef RANKTRACE_DAEMON_BASE_PASSED_H
#define RANKTRACE_DAEMON_BASE_PASSED_H

#define PASSED_METRICS "metrics"

/*
 * How many sockets of that name were passed; NULL: of any name but PASSED_METRICS. *ret_fd: the first, the caller's.
 * Negative errno. From the loop's thread.
 */
int passed_sockets(const char *name, int *ret_fd);
/* Takes the variables out of the environment, so that no child takes the sockets for its own. Call after the last
 * question. */
void passed_end(void);

#endif
