/* SPDX-License-Identifier: Apache-2.0 */
/* Asked by the operations' room for a process group of gloo: reads it from the rank's memory at once. */
#include "daemon/comm_ask.h"
#include "daemon/context.h"
#include "daemon/gloo_identity.h"
#include "daemon/ops_room.h"

static bool gloo_identifier_ask(struct context *context, const struct rank *rank, uint64_t address)
{
	const struct gloo_process process = {
		.pid = rank->pid,
		.proc_root = "/proc",
		.boot_id = rank->boot_id,
		.job = rank->env.job,
	};
	struct gloo_group group = {0};
	const char *trouble;
	int r = gloo_identity_read(&process, address, &group, &trouble); /* the trouble tells */

	rank_coll_identify(context->ops, rank, "gloo", address, group.identity, group.name, group.member, group.members,
		"memory", trouble);
	return r != -EAGAIN;
}

const struct coll_identifier coll_identifier_gloo = {.family = "gloo", .ask = gloo_identifier_ask};
