/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which functions launch kernels, and where they are in the libraries that ranks map: rows of the probe tables with the
 * level L1.launches, found and placed as those of the call engine are. Attaches nothing; a window is given the places.
 */
#ifndef RANKTRACE_LAUNCH_PLACES_H
#define RANKTRACE_LAUNCH_PLACES_H

#include "daemon/launch_window.h"
#include "daemon/probes/table.h"

struct launch_sites;

/* Takes the table over, rows past RT_LAUNCH_APIS_MAX are cut off it. -ENOMEM leaves it the caller's. */
int launch_sites_new(struct probe_table *table, struct launch_sites **ret);
struct launch_sites *launch_sites_free(struct launch_sites *places);

/* A rank is there, or it may have mapped something since; it has ended. */
void launch_sites_scan(struct launch_sites *places, uint32_t pid, int64_t instance);
void launch_sites_forget(struct launch_sites *places, int64_t instance);

/* What a window has to probe: at most max files, with descriptors of their own that the caller closes. */
size_t launch_sites_targets(struct launch_sites *places, struct launch_target *ret, size_t max);
/* Whether a function of it would be seen. */
bool launch_sites_has(struct launch_sites *places, int64_t instance);
/* Functions and files that a window probes. */
void launch_sites_count(struct launch_sites *places, unsigned *ret_functions, unsigned *ret_libraries);
/* What it cannot see and why, "" if nothing. */
const char *launch_sites_trouble(const struct launch_sites *places);
/* The row's name; "" for a number that is none. */
const char *launch_sites_api(const struct launch_sites *places, unsigned api);

#endif
