/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is a member of which communicator, kept between frames: of a communicator that a rank uses once a step, one lost
 * record is all there was of it. For detect/whatif_hidden.c. The first WHATIF_KNOWN_MAX of a rank are kept; those of
 * point to point are not.
 */
#ifndef RANKTRACE_DETECT_WITHOUT_KNOWN_H
#define RANKTRACE_DETECT_WITHOUT_KNOWN_H

#include "analyzers/detect/frame.h"

#define WHATIF_KNOWN_MAX 8

struct whatif_known {
	uint64_t (*identity)[WHATIF_KNOWN_MAX]; /* of each rank, 0: no more */
	size_t ranks;
};

/* -ENOMEM. Operations with an index out of its range are left out. */
int whatif_known_see(struct whatif_known *known, const struct frame *frame);
uint64_t whatif_known_identity(const struct frame_comm *comm);
void whatif_known_free(struct whatif_known *known);

#endif
