/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/detect/without_known.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

uint64_t whatif_known_identity(const struct frame_comm *comm)
{
	uint64_t hash = 14695981039346656037ULL;

	for (size_t i = 0; i < sizeof(comm->communicator) && comm->communicator[i]; i++)
		hash = (hash ^ (unsigned char)comm->communicator[i]) * 1099511628211ULL;
	return hash | 1;
}

static int whatif_known_reserve(struct whatif_known *known, size_t ranks)
{
	void *more;

	if (ranks <= known->ranks)
		return 0;
	more = reallocarray(known->identity, ranks, sizeof(*known->identity));
	if (!more)
		return -ENOMEM;
	known->identity = more;
	memset(known->identity + known->ranks, 0, (ranks - known->ranks) * sizeof(*known->identity));
	known->ranks = ranks;
	return 0;
}

int whatif_known_see(struct whatif_known *known, const struct frame *frame)
{
	uint64_t *identity = calloc(frame->comms + 1, sizeof(*identity));
	int r = identity ? whatif_known_reserve(known, frame->ranks) : -ENOMEM;

	for (size_t i = 0; !r && i < frame->comms; i++)
		identity[i] = whatif_known_identity(&frame->comm[i]);
	for (size_t i = 0; !r && i < frame->ops; i++) {
		const struct frame_op *op = &frame->op[i];
		uint64_t *of;
		size_t k = 0;

		if (op->rank >= frame->ranks || op->group >= frame->groups || frame->group[op->group].p2p ||
			frame->group[op->group].comm >= frame->comms)
			continue;
		of = known->identity[op->rank];
		while (k < WHATIF_KNOWN_MAX && of[k] && of[k] != identity[frame->group[op->group].comm])
			k++;
		if (k < WHATIF_KNOWN_MAX)
			of[k] = identity[frame->group[op->group].comm];
	}
	free(identity);
	return r;
}

void whatif_known_free(struct whatif_known *known)
{
	free(known->identity);
	*known = (struct whatif_known){0};
}
