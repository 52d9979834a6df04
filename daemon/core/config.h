/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's configuration: one table row a key (config.c) with section, name, type, default, limits and whether
 * SIGHUP may change it; one field here. Every key is documented in systemd/ranktrace.conf, and a test compares the two.
 */
#ifndef RANKTRACE_DAEMON_CORE_CONFIG_H
#define RANKTRACE_DAEMON_CORE_CONFIG_H

#include <limits.h>
#include "daemon/base/util.h"

struct config {
	/* [daemon] */
	char state_dir[PATH_MAX];
	char socket[108];              /* sun_path's size */
	char group[64];                /* may control */
	char probes_dir[PATH_MAX];     /* extra probe tables, read after the shipped ones */
	char probes_base_dir[PATH_MAX]; /* the shipped ones */
	int log_level;                 /* syslog level */
	uint64_t nice;                 /* of the daemon: an observer yields to the job */
	/* [ring] */
	uint64_t ring_size_bytes;      /* power of two pages */
	/* [ranks] */
	uint64_t ranks_max;            /* a node */
	uint64_t scan_interval_ns;     /* longest time between looks at a rank's libraries */
	/* [sched] */
	uint64_t offcpu_threshold_ns;
	/* [launches] */
	uint64_t launches_window_ns;   /* of each period, in which launches are counted */
	uint64_t launches_period_ns;
	/* [findings] */
	uint64_t findings_enabled;     /* 0 or 1, as all switches here */
	uint64_t findings_sample_ns;   /* between two looks at what the system gives a rank */
	uint64_t findings_slow_percent; /* that a rank needs more than its peers */
	uint64_t findings_gain_percent; /* of the step that it must cost */
	uint64_t findings_job_percent; /* that steps take longer than they did */
	uint64_t findings_hang_ns;     /* without progress */
	uint64_t findings_hang_busy_ns; /* the same, where the one that others wait for computes */
	uint64_t online_auto_level;       /* whether a suspicion turns levels on */
	uint64_t online_auto_level_for_ns;
	uint64_t online_auto_level_pause_ns;
	uint64_t online_auto_level_percent; /* of the time, at most */
	/* [dump] */
	uint64_t dump_enabled;
	uint64_t dump_l0_interval_ns;  /* of L0; the others have theirs from tracectl interval */
	uint64_t dump_window_ns;       /* of one set of files */
	uint64_t dump_size_bytes_max;  /* all files together */
	uint64_t dump_age_ns_max;
	/* [store] */
	uint64_t segment_ns;           /* length of a segment */
	uint64_t events_size_bytes_max; /* all event segments together */
	uint64_t events_age_ns_max;
	uint64_t summary_age_ns_max;
	uint64_t flush_interval_ns;    /* longest time that a row waits in memory */
};

void config_defaults(struct config *config);

/* Reads path over the defaults. On failure config is untouched and error holds the sentence ("FILE:LINE: ..."). */
int config_load(const char *path, struct config *config, char *error, size_t error_size);

/* Copies from fresh into running what may change without a restart; names the keys that may not in `ignored`. */
void config_reload(struct config *running, const struct config *fresh, char *ignored, size_t ignored_size);

/* "debug" .. "emergency" to syslog's number; -EINVAL for any other word. */
int config_log_level(const char *text, int *ret);

#endif
