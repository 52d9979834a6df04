/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Evidence over time: for the costliest findings, the rank's measurements beside those of its peers, gathered while
 * rows are read. Activities come from the split of steps (splits.h). Operations are read of a few nodes only, including
 * the rank's own; a plot gives the number of its peers.
 */
#ifndef RANKTRACE_REPORT_PLOTS_H
#define RANKTRACE_REPORT_PLOTS_H

#include "analyzers/report/splits.h"

enum plot_host { PLOT_CPU, PLOT_RUN_DELAY, PLOT_THROTTLED, PLOT_FAULTS, PLOT_MEMORY_STALL, PLOT_HOST_MAX };

struct plots_sample {
	uint64_t start_ns, duration_ns;
	uint64_t value[PLOT_HOST_MAX];
};

/* For the costliest finding of each of the first groups. NULL: out of memory. */
struct plots *plots_new(struct report *report, struct splits *splits);
struct plots *plots_free(struct plots *plots);
void plots_step(struct plots *plots, const struct report_rank *rank, uint64_t start_ns, uint64_t duration_ns);
void plots_host(struct plots *plots, const struct report_rank *rank, const struct plots_sample *sample);
/* Operations of that store are needed, and of which time and communicators. */
bool plots_want_operations(const struct plots *plots, uint32_t store, uint64_t *ret_since_ns, uint64_t *ret_until_ns);
bool plots_want_communicator(const struct plots *plots, uint32_t store, const char *communicator);
void plots_operation(struct plots *plots, const struct report_rank *rank, const char *communicator, uint64_t start_ns,
	uint64_t duration_ns);
/* Attaches plots with enough points, and bars, to their findings. */
int plots_finish(struct plots *plots);

#endif
