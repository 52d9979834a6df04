/* SPDX-License-Identifier: Apache-2.0 */
/* One request to the daemon and its response, within a time limit. */
#ifndef RANKTRACE_CLIENT_H
#define RANKTRACE_CLIENT_H

#include "ctl/tracectl.h"
#include "proto/control.pb-c.h"

/*
 * Sends and waits. On EXIT_DONE ret holds the response, whose error is 0, for client_free(). Where the daemon refused
 * (EXIT_REFUSED) its sentence is on stderr and ret holds the response if it has a body. Otherwise the sentence is on
 * stderr, unless quiet, and ret is NULL.
 */
int client_ask(const struct options *options, Ranktrace__Request *request, Ranktrace__Response **ret);
/* The same without a sentence where no daemon is reachable. */
int client_ask_quietly(const struct options *options, Ranktrace__Request *request, Ranktrace__Response **ret);
void client_free(Ranktrace__Response *response);

/* A request without content; also checks that the body is the one expected (EXIT_REFUSED where not). */
int client_get(const struct options *options, Ranktrace__RequestType type, Ranktrace__Response__BodyCase body,
	Ranktrace__Response **ret);

#endif
