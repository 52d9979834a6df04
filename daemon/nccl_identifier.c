/* SPDX-License-Identifier: Apache-2.0 */
/* Asked by the operations' room for the name of a communicator of NCCL: PyTorch's process group has it. */
#include "daemon/comm_ask.h"
#include "daemon/context.h"
#include "daemon/ops_room.h"
#include "daemon/torch_group.h"

static void nccl_identifier_name(struct context *context, const struct rank *rank, uint64_t address, uint64_t process_group)
{
	char text[COLL_NAME_BYTES];

	if (torch_group_nccl_name(rank->pid, process_group, text, sizeof(text)) == 0 && text[0])
		rank_coll_identify(context->ops, rank, "nccl", address, 0, text, 0, 0, "", "");
}

const struct coll_identifier coll_identifier_nccl = {.family = "nccl", .name = nccl_identifier_name};
