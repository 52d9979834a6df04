/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a control request means: the table of requests (requests.def), what each does (request_NAME.c), and who may ask.
 * Independent of sockets. To add a request: its number in control.proto, its row, and request_NAME.c.
 *
 * An outsider is a peer that is neither root, nor the daemon's user, nor a member of the configured group or of the
 * daemon's own. Of ranks it learns what /proc mounted with hidepid would show it: its own ones.
 */
#ifndef RANKTRACE_DAEMON_CONTROL_REQUEST_H
#define RANKTRACE_DAEMON_CONTROL_REQUEST_H

#include <sys/types.h>
#include "daemon/base/util.h"
#include "proto/control.pb-c.h"

#define REQUEST_ERROR_BYTES 256u
#define REQUEST_ITEMS_MAX 16u /* levels named in one request */

struct context;
struct rank;

/* Who asks, from the kernel. */
struct request_peer {
	uid_t uid;
	gid_t gid;
	pid_t pid;
	int fd; /* of the connection: its supplementary groups are asked for only where they matter */
};

/*
 * Fills the response, which starts as initialised. On failure returns a negative errno; a handler that has said why
 * with response_say() keeps its sentence, any other gets the text of the errno.
 */
typedef int (*request_handler)(
	struct context *context, const Ranktrace__Request *request, Ranktrace__Response *response);

/* 0, or a negative errno with the sentence. */
typedef int (*request_validator)(const Ranktrace__Request *request, char error[REQUEST_ERROR_BYTES]);

/* Takes out of an answer what an outsider may not see. */
typedef void (*request_reducer)(const struct request_peer *peer, Ranktrace__Response *response);

struct request_row {
	Ranktrace__RequestType type;
	const char *name;
	bool needs_control; /* root, the daemon's own user, or the configured group */
	request_validator valid;
	request_handler handler;
	request_reducer reduce; /* NULL: the answer is for everybody */
};

/* Whether the message is one that a handler may be given: version, number, levels, values. Reads nothing else. */
int request_valid(const Ranktrace__Request *request, char error[REQUEST_ERROR_BYTES]);

/* Checks, asks for rights, handles. Always yields a response (NULL only without memory), for response_free(). */
Ranktrace__Response *request_answer(
	struct context *context, const struct request_peer *peer, const Ranktrace__Request *request);

/* A response that says what is wrong. error: negative errno. */
Ranktrace__Response *response_error(int error, const char *sentence);
Ranktrace__Response *response_free(Ranktrace__Response *response);
void response_say(Ranktrace__Response *response, const char *format, ...) _printf_(2, 3);

/* Owners (root, the daemon's user) need no lookup of groups. */
bool request_peer_is_owner(const struct request_peer *peer);
bool request_peer_may_control(const struct request_peer *peer, const char *group);
/* Sees everything: whoever may control, and the daemon's own group. */
bool request_peer_is_insider(const struct request_peer *peer, const char *group);
/* A group is named and there is none of that name. */
bool request_group_missing(const char *group);

/* The body of an answer, initialised and set; NULL without memory. */
void *request_body_new(Ranktrace__Response *response, Ranktrace__Response__BodyCase body);
/* A message in a field of another one, the last one of a list; initialised, and freed with the other. NULL without
 * memory. */
void *request_add(ProtobufCMessage *message, size_t offset);
#define REQUEST_ADD(message, field) request_add(&(message)->base, offsetof(__typeof__(*(message)), field))
/* Levels as they are now, in a field of `print` or `status`. */
int request_levels_fill(const struct context *context, ProtobufCMessage *body, size_t offset);

/* What is used of what is bounded, for `status`; after collectors and store. */
int request_limits_fill(const struct context *context, Ranktrace__StatusBody *body);

/* The levels, as request_levels_fill() gives them, as the body of an answer. */
int request_levels_body(struct context *context, Ranktrace__Response *response);
/* Who asks, where he may only see his own ranks; else NULL. */
const struct request_peer *request_outsider(const struct context *context);
/* Whether a rank is one of those that are asked for. */
bool request_has_rank(const Ranktrace__Request *request, int32_t rank, const char *job);
/* Ranks that a request selects: an outsider gets its own ones. */
struct request_selection {
	const Ranktrace__Request *request;
	const struct request_peer *outsider; /* NULL: sees all */
	size_t others;			     /* ranks of other users that were asked for */
};
/* arg: a struct request_selection. */
bool request_selects(void *arg, const struct rank *rank);
/* Says why none is selected. may: what insiders may do, "see their stacks". Negative errno. */
int request_selects_none(
	const struct request_selection *selection, const char *group, const char *may, Ranktrace__Response *response);

/* What requests.def names. */
int request_set_valid(const Ranktrace__Request *request, char error[REQUEST_ERROR_BYTES]);
int request_interval_valid(const Ranktrace__Request *request, char error[REQUEST_ERROR_BYTES]);
int request_ranges_valid(const Ranktrace__Request *request, char error[REQUEST_ERROR_BYTES]);
/* Time and frequency within their bounds; ranges. */
int request_profile_valid(const Ranktrace__Request *request, char error[REQUEST_ERROR_BYTES]);
void request_status_reduce(const struct request_peer *peer, Ranktrace__Response *response);
void request_ranks_reduce(const struct request_peer *peer, Ranktrace__Response *response);
void request_check_reduce(const struct request_peer *peer, Ranktrace__Response *response);
void request_ops_reduce(const struct request_peer *peer, Ranktrace__Response *response);
#define REQUEST(number, name, needs_control, valid, reduce) \
	int request_##name(struct context *context, const Ranktrace__Request *request, Ranktrace__Response *response);
#include "daemon/control/requests.def"
#undef REQUEST

#endif
