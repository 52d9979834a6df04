/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device's clock against CLOCK_MONOTONIC of its host. Pure: no I/O, no clock, no globals.
 *
 * The offset is device time minus host time of the same moment, in ns; the drift is its change, in ns per ns. Nothing
 * reads both clocks at one moment, so both follow from bounds that always hold:
 *
 *   an operation starts on the device after the host gave it:  offset <= device_start + RESOLUTION - given
 *   it ends on the device before the host heard of its end:    offset >= device_stop - heard
 *
 * A bound holds at its device time. At x ns after it, the offset has changed by at least drift_min * x and at most
 * drift_max * x. So the tightest known bound of each side gives an interval [min, max] of the offset at any device
 * time; the interval grows with the distance from the bounds.
 *
 * Drift. The tightest bounds of WINDOW / BUCKET_NS buckets are kept. For bounds i before j, the mean drift between them
 * is at least (lower_j - upper_i) / x and at most (upper_j - lower_i) / x. The tightest of these, widened by WANDER, is
 * the interval of the drift; without them, and beyond the window, it is +- DRIFT_MAX.
 *
 * Best estimate. The host sees an end within microseconds, but it may give work long before it starts (10 ms and
 * more where it runs ahead of the device). So the truth is near the lower bound: the estimate is the lower bound plus
 * HEARD_NS, or the middle of the interval if that is less.
 *
 * Changes. A lower bound above the upper one contradicts it: the drift changed (it fits into +- DRIFT_MAX: the drift is
 * learned anew), or a clock was stepped (device reset, suspended machine: the estimate begins anew with this bound).
 * CLOCK_MONOTONIC does not follow steps of UTC. A step back of less than the interval contradicts nothing at first: a
 * lower bound older than LOWER_NS is replaced by a lower one. A device time that is a window older than the newest one
 * is a step, too.
 *
 * Times from device_clock_host_ns() lie between `given` and `heard` of their operation, whatever the device said.
 */
#ifndef RANKTRACE_COLL_DEVICE_CLOCK_H
#define RANKTRACE_COLL_DEVICE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

/* +- 50 ppm is what ordinary crystals keep over their temperatures: twice that for two. Seen on H200s: up to 12 ppm. */
#define DEVICE_CLOCK_DRIFT_MAX 100e-6
/* Change of the drift within the window: 0.04 ppm/s, a crystal of 0.3 ppm/K that warms by 8 K/min. */
#define DEVICE_CLOCK_WANDER 10e-6
#define DEVICE_CLOCK_BUCKET_NS 8000000000LL
#define DEVICE_CLOCK_BUCKETS 32 /* window of 256 s: bounds of 100 us give the drift to 0.4 ppm */
/* A step back is forgotten after this time and so many operations: longer than a load spike. */
#define DEVICE_CLOCK_LOWER_NS 8000000000LL
#define DEVICE_CLOCK_LOWER_OPS 16
#define DEVICE_CLOCK_HEARD_NS 5000	      /* from an end to its notice: 4 to 6 us seen on an idle host */
#define DEVICE_CLOCK_RESOLUTION_NS 1024	      /* NVIDIA's globaltimer advances every 32 to 1,024 ns */
#define DEVICE_CLOCK_TIME_MAX (INT64_MAX / 3) /* later times are invalid: year 2067 in UTC; sums of two fit */

struct device_clock_bound {
	bool known;
	int64_t device_ns, offset_ns;
};

struct device_clock_bucket {
	int64_t number; /* device time / DEVICE_CLOCK_BUCKET_NS */
	struct device_clock_bound lower, upper;
};

/* All zero: nothing known. */
struct device_clock {
	struct device_clock_bound lower, upper; /* the tightest at newest_ns */
	int64_t newest_ns;			/* device time */
	unsigned looser;			/* lower bounds since `lower` that it surpasses */
	bool drift_known;
	double drift, drift_min, drift_max; /* while drift_known */
	struct device_clock_bucket bucket[DEVICE_CLOCK_BUCKETS];
	uint64_t bounds, steps, drift_changes; /* so far */
};

/* At one moment. min, max: INT64_MIN, INT64_MAX if that side is not known. */
struct device_clock_estimate {
	int64_t offset_ns, offset_min_ns, offset_max_ns;
	double drift, drift_min, drift_max;
};

/* An operation from start_ns to stop_ns of the device, which the host gave (began the call) at given_ns and of whose
 * end it heard at heard_ns. 0: unknown. */
void device_clock_add(
	struct device_clock *clock, uint64_t start_ns, uint64_t stop_ns, uint64_t given_ns, uint64_t heard_ns);
/* False: nothing known. */
bool device_clock_at(const struct device_clock *clock, uint64_t device_ns, struct device_clock_estimate *ret);
/* Host time of the start of an operation that ran duration_ns. given_ns, heard_ns: of this operation, 0: unknown.
 * 0: not known. */
uint64_t device_clock_host_ns(const struct device_clock *clock, uint64_t start_ns, uint64_t duration_ns,
	uint64_t given_ns, uint64_t heard_ns);

#endif
