/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which card of its node a rank works on, where its environment does not name one: it shows in the device nodes that
 * the process has open (/proc/PID/fd). The links are text that the process may have made up, so every number is checked
 * and no more than RANK_CARD_FDS_MAX of them are read.
 */
#ifndef RANKTRACE_RANK_CARD_H
#define RANKTRACE_RANK_CARD_H

#include "daemon/util.h"

#define RANK_CARD_FDS_MAX 4096
#define RANK_CARD_NUMBERS 256 /* of device nodes: those from here on are nobody's */

struct rank_card_nodes {
	uint64_t open[RANK_CARD_NUMBERS / 64]; /* bit N: a node of number N, of whatever make */
	bool rocm;			       /* those of ROCm, whose numbers are not the cards' */
};

/* What the process has open; *ret_fds: how many descriptors were read for it. -ENOENT, -EACCES and so on: nothing was.
 */
int rank_card_read(const char *root, uint32_t pid, struct rank_card_nodes *ret, unsigned *ret_fds);

/*
 * The card of a rank that has these open. With one open it is that. With several, which is usual, since CUDA opens all
 * that it sees, it is the local rank's, as torchrun counts: in the order of the open ones, where there is one for each
 * rank of the node, else the local rank itself. local_rank and local_world_size: -1 where not known.
 * False: it cannot be told.
 */
bool rank_card_pick(
	const struct rank_card_nodes *nodes, int32_t local_rank, int32_t local_world_size, char *ret, size_t size);

#endif
