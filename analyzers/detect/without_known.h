/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is a member of which communicator, kept between frames: of a communicator that a rank uses once a step, one lost
 * record is all there was of it. For detect/without_hidden.c. The first WITHOUT_KNOWN_MAX of a rank are kept; those of
 * point to point are not.
 */
#ifndef RANKTRACE_DETECT_WITHOUT_KNOWN_H
#define RANKTRACE_DETECT_WITHOUT_KNOWN_H

#include "analyzers/detect/frame.h"

#define WITHOUT_KNOWN_MAX 8

struct without_known {
	uint64_t (*identity)[WITHOUT_KNOWN_MAX]; /* of each rank, 0: no more */
	size_t ranks;
};

/* -ENOMEM. Operations with an index out of its range are left out. */
int without_known_see(struct without_known *known, const struct frame *frame);
uint64_t without_known_identity(const struct frame_comm *comm);
void without_known_free(struct without_known *known);

#endif
