/* SPDX-License-Identifier: Apache-2.0 */
/* What online detection (online.h) sees and finds, for a module above it. */
#ifndef RANKTRACE_DAEMON_FINDINGS_ONLINE_OBSERVE_H
#define RANKTRACE_DAEMON_FINDINGS_ONLINE_OBSERVE_H

#include "analyzers/finding/finding.h"
#include "analyzers/judge/measure.h"
#include "daemon/findings/online.h"

/* What was sampled of a rank's process in an interval; UINT64_MAX: unknown. */
struct online_sample_info {
	uint64_t duration_ns, cpu_ns, run_delay_ns, throttled_ns, major_faults;
	uint64_t resident_bytes, swapped_bytes; /* at its end */
};

struct online_observer {
	/* A finding was published. number: as in the store and the journal; changed: its state, rank, cause or severity
	 * did, and the journal has it. */
	void (*finding)(void *arg, uint64_t number, const struct finding *finding, bool changed);
	/* A rank's part of a frame (analyzers/align/frame.h). */
	void (*frame)(void *arg, uint32_t slot, int64_t instance, enum frame_tier tier, const struct frame_rank *rank,
		const struct measure_rank *measure);
	void (*sample)(void *arg, uint32_t slot, int64_t instance, const struct online_sample_info *sample);
};
/* One observer; NULL: none. *observer outlives the observation. */
void online_observe(struct online *online, const struct online_observer *observer, void *arg);

#endif
