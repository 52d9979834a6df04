/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long operations take once all members are there: a series a (communicator or pair, operation, power of two of the
 * bytes), and which series are slow beside their own past and their peers (links.c). Pure; bounded.
 */
#ifndef RANKTRACE_DETECT_LINKS_H
#define RANKTRACE_DETECT_LINKS_H

#include "analyzers/detect/detector.h"

#define LINK_LEARN 16

struct link_series {
	uint64_t key, peer;			    /* peer: of all series that it is compared with */
	double value_ns, baseline_ns, reference_ns; /* of its newest frame; 0: not known yet; what it is slow against */
	double noise;				    /* mean |value / baseline - 1| */
	float learned[LINK_LEARN];
	uint32_t checks, comm; /* checks: values learnt; comm: in the newest frame */
	uint64_t learnt_ns;    /* when the newest of them was */
	uint32_t slow;	       /* frames with it, newest in bit 0 */
	uint64_t frame, since_step, since_ns;
	bool spans; /* nodes */
	bool slow_learned, is_slow;
	bool tainted; /* by a slow last member, in its newest frame */
};

struct links;

/* NULL: out of memory. */
struct links *links_new(const struct detect_options *options);
struct links *links_free(struct links *links);
/* Adds a frame. 0 or -ENOMEM. */
int links_frame(struct links *links, const struct frame *frame, const struct measures *measures);
/* Of a group of the newest frame; NULL: it was not checked. */
const struct link_series *links_of_group(const struct links *links, uint32_t group);
/* The series of the newest frame that is slow by the largest ratio; NULL: none is slow. */
const struct link_series *links_worst(const struct links *links);

#endif
