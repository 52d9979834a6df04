/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's answers. */
#ifndef RANKTRACE_CLIENT_H
#define RANKTRACE_CLIENT_H

#include "analyzers/base/ranges.h"
#include "ctl/tracectl.h"
#include "proto/control.pb-c.h"

/*
 * Sends and waits. On EXIT_DONE ret holds the response, whose error is 0 and whose body is the one expected, for
 * client_free(). Where the daemon refused (EXIT_REFUSED) its sentence is on stderr and ret holds the response if it has
 * a body. Otherwise the sentence is on stderr and ret is unchanged. Every text of the response is one printable line.
 */
int client_ask(const struct command *command, Ranktrace__Request *request, Ranktrace__Response__BodyCase body,
	Ranktrace__Response **ret);
/* As client_ask(), without a sentence where no daemon listens. */
int client_ask_quietly(const struct command *command, Ranktrace__Request *request, Ranktrace__Response__BodyCase body,
	Ranktrace__Response **ret);
/* A request without content. */
int client_get(const struct command *command, Ranktrace__RequestType type, Ranktrace__Response__BodyCase body,
	Ranktrace__Response **ret);
/* As client_ask(), of the ranks of the option --rank, which ret_ranks holds then; of all without the option. */
int client_ask_of_ranks(const struct command *command, Ranktrace__Request *request, Ranktrace__Response__BodyCase body,
	struct ranges *ret_ranks, Ranktrace__Response **ret);
int client_get_of_ranks(const struct command *command, Ranktrace__RequestType type, Ranktrace__Response__BodyCase body,
	struct ranges *ret_ranks, Ranktrace__Response **ret);
/* Says so where ranks or a job were chosen and none of them is in the answer: EXIT_REFUSED. */
int client_need_ranks(const struct command *command, const Ranktrace__RanksBody *body, const struct ranges *wanted);
void client_free(Ranktrace__Response *response);

#endif
