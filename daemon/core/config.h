/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's configuration: one field per key here, one table row in config.c (section, name, type, default, limits,
 * whether SIGHUP may change it). Every key is documented in systemd/ranktrace.conf; a test compares the two.
 */
#ifndef RANKTRACE_DAEMON_CORE_CONFIG_H
#define RANKTRACE_DAEMON_CORE_CONFIG_H

#include <limits.h>
#include "daemon/base/util.h"

struct config {
	/* [daemon] */
	char state_dir[PATH_MAX];
	char socket[108];		/* sun_path's size */
	char group[64];			/* members may control the daemon */
	char probes_dir[PATH_MAX];	/* extra probe tables, read after the shipped ones */
	char probes_base_dir[PATH_MAX]; /* the shipped ones */
	int log_level;			/* syslog level */
	uint64_t nice;			/* of the daemon: below the job's priority */
	/* [ring] */
	uint64_t ring_size_bytes; /* power of two pages */
	/* [ranks] */
	uint64_t ranks_max;	   /* per node */
	uint64_t scan_interval_ns; /* maximum time between scans of a rank's libraries */
	uint64_t user_filesystems; /* 0 or 1: probe libraries on file systems that users serve (probes/maps.h) */
	/* [sched] */
	uint64_t offcpu_threshold_ns;
	/* [launches] */
	uint64_t launches_window_ns; /* part of each period in which launches are counted */
	uint64_t launches_period_ns;
	/* [budget]: parts per million of a rank's time, of a CPU */
	uint64_t budget_rank_ppm;
	uint64_t budget_cpu_ppm;
	uint64_t budget_memory_bytes;
	bool budget_samples_l0;
	/* [memory] */
	uint64_t memory_sample_bytes; /* blocks of so many bytes are followed, of smaller ones a part */
	/* [findings] */
	uint64_t findings_enabled;	/* 0 or 1, as all switches here */
	uint64_t findings_sample_ns;	/* between two samples of a rank */
	uint64_t findings_slow_percent; /* minimum excess of a slow communicator's transfers over its peers' */
	uint64_t findings_gain_percent; /* minimum cost in the step */
	uint64_t findings_job_percent;	/* minimum growth of steps without a rank to blame */
	uint64_t findings_notice_percent, findings_notice_ns; /* growth of the step and length of an episode */
	uint64_t findings_warning_percent, findings_warning_ns;
	uint64_t findings_critical_percent, findings_critical_ns;
	uint64_t findings_hang_ns;	/* without progress */
	uint64_t findings_hang_busy_ns; /* the same, if the awaited rank computes */
	uint64_t online_auto_level;	/* whether a suspicion turns levels on */
	uint64_t online_auto_level_for_ns;
	uint64_t online_auto_level_pause_ns;
	uint64_t online_auto_level_percent; /* maximum share of time */
	uint64_t findings_profile;	    /* 0 or 1: a suspected rank and its peers are sampled */
	/* [profiles] */
	uint64_t profiles_interval_ns;	  /* between two of a job; 0: none */
	uint64_t profiles_budget_percent; /* of a thread's time, while it is sampled */
	/* [metrics] */
	char metrics_listen[128];	 /* "ADDRESS:PORT" or a socket's path; "": off */
	char metrics_textfile[PATH_MAX]; /* folder; "": off */
	/* [fleet]: of tracectl fleet; the daemon only checks them */
	char fleet_url[512];
	char fleet_token_file[PATH_MAX], fleet_certificate[PATH_MAX], fleet_key[PATH_MAX], fleet_authority[PATH_MAX];
	/* [dump] */
	uint64_t dump_enabled;
	uint64_t dump_l0_interval_ns; /* of L0; `tracectl interval` sets the others */
	uint64_t dump_window_ns;      /* of one set of files */
	uint64_t dump_size_bytes_max; /* all files together */
	uint64_t dump_age_ns_max;
	/* [store] */
	uint64_t segment_ns;		/* length of a segment */
	uint64_t events_size_bytes_max; /* all event segments together */
	uint64_t events_age_ns_max;
	uint64_t summary_age_ns_max;
	uint64_t flush_interval_ns; /* maximum time of a row in memory */
};

void config_defaults(struct config *config);

/* Reads path over the defaults. On failure config is untouched and error is "FILE:LINE: ...". */
int config_load(const char *path, struct config *config, char *error, size_t error_size);

/* Copies from fresh into running what may change without a restart; lists the other changed keys in `ignored`. */
void config_reload(struct config *running, const struct config *fresh, char *ignored, size_t ignored_size);

/* "debug" .. "emergency" to syslog's number; -EINVAL for other words. */
int config_log_level(const char *text, int *ret);

#endif
