/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long operations take once all members are there: a series a (communicator or pair, operation, power of two of the
 * bytes). Pure; bounded. Inside slow_communication.c.
 *
 * The value of a frame is the shortest transfer of the series' groups in it: those whose last member has no record, and
 * those that queued behind others, seem longer. Peers of a series are those of equal kind and size of communicator,
 * operation and bytes, that cross nodes as it does. A series is slow in a frame where its value is LINK_RATIO times its
 * own baseline (median of its first LINK_LEARN frames, then slowly after what is not slow) and LINK_RATIO times the
 * median of its peers, with z > slow_z of either; of a series that was slow beside its peers while it learned, or still
 * learns, the peers alone decide; where there are less than LINK_PEERS others, the baseline alone. Groups whose last
 * member is slow itself are left out: what holds it up holds up its transfers. Where operations are timed on the host,
 * what else runs there comes and goes within seconds and holds up transfers too: a frame a LINK_LEARN_EVERY_NS is
 * learnt, and a series is slow only if it is so in LINK_HOST_FRAMES of LINK_HOST_OF frames.
 *
 * In frames of more than LINK_GROUPS groups only a part of the communicators is checked, in turns.
 */
#ifndef RANKTRACE_DETECT_SLOW_COMMUNICATION_SERIES_H
#define RANKTRACE_DETECT_SLOW_COMMUNICATION_SERIES_H

#include "analyzers/detect/detector.h"

#define LINK_RATIO 1.1
#define LINK_LEARN 16
#define LINK_MEMORY 64 /* frames after which a baseline has followed */
#define LINK_LEARN_EVERY_NS (600 * 1000 * 1000ULL)
#define LINK_HOST_FRAMES 10
#define LINK_HOST_OF 12
#define LINK_PEERS 3
#define LINK_GROUPS 16384
#define LINK_SERIES 16384 /* more are left out */
#define LINK_SLOTS (4 * LINK_SERIES)

struct link_series {
	uint64_t key, peer;
	double value_ns, baseline_ns, reference_ns; /* reference: what it is slow against */
	double noise;				    /* mean |value / baseline - 1| */
	float learned[LINK_LEARN];
	uint32_t checks, comm; /* checks: values learnt; comm: in the newest frame */
	uint64_t learnt_ns;   /* when the newest of them was */
	uint32_t slow;	      /* frames with it, newest in bit 0 */
	uint64_t frame, since_step, since_ns;
	bool spans, slow_learned, is_slow, tainted;
};

/* What a communicator's newest collective was, as mostly the next one is. */
struct link_newest {
	uint64_t key;
	uint32_t series; /* + 1, 0: none yet in this frame */
	bool turn;	 /* it is checked in this frame */
};

struct links {
	struct link_series *series;
	uint32_t *slot; /* LINK_SLOTS of them: index + 1 */
	size_t n;
	uint64_t frames;
	double z;
	unsigned int of, frames_min;
	uint32_t *touched;
	size_t n_touched, n_slow; /* n_slow: series that are slow now */
	uint64_t *comm_hash;
	struct link_newest *newest; /* by communicator */
	size_t comm_capacity;
	uint32_t *of_group; /* series + 1 of each group that was checked, 0 none */
	size_t group_capacity;
	double *scratch;
};

/* false: out of memory. */
bool links_init(struct links *links, const struct detect_options *options);
void links_free(struct links *links);
/* -ENOMEM. */
int links_frame(struct links *links, const struct frame *frame, const struct measures *measures, double slow_ratio);

#endif
