/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which other process had a rank's CPUs, over several frames. Pure. A frame may have one, be it of a moment: the one that
 * is kept stays until another had at least half as much, and each frame in which another had less halves that.
 */
#ifndef RANKTRACE_DETECT_CAUSE_HOG_H
#define RANKTRACE_DETECT_CAUSE_HOG_H

#include <stddef.h>

#include "analyzers/detect/frame.h"

struct cause_preemptor {
	uint32_t pid; /* 0: none yet */
	uint64_t ns;
	char name[16]; /* as it came, perhaps without an end */
};

void cause_hog_feed(struct cause_preemptor *preemptor, const struct frame_host *host);
/* "pid 4711 stress-ng", "" if there is none. */
void cause_hog_text(const struct cause_preemptor *preemptor, char *ret, size_t size);

#endif
