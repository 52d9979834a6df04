/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bound on messages that users can cause. A message is counted by where it is in the source and by a key, the user
 * that caused it: at most `burst` of them are logged within LOG_LIMIT_PERIOD_NS, the others are counted and named in
 * one line when the period is over. One user's messages leave the others' bound as it is.
 */
#ifndef RANKTRACE_DAEMON_BASE_LOG_LIMIT_H
#define RANKTRACE_DAEMON_BASE_LOG_LIMIT_H

#include "daemon/base/log.h"

#define LOG_LIMIT_PERIOD_NS (60 * NSEC_PER_SEC)
#define LOG_LIMIT_BURST 20u /* of a message and a user: one training that starts and ends on 8 cards */
/* (place, key) counted at a time. Beyond it several share one count, so that inventing users gains nothing. 64 KiB. */
#define LOG_LIMIT_SLOTS 1024u

struct log_limit_place {
	const char *file, *component, *format; /* literals */
	int line, level;
};

/* Whether this message is to be logged now; counts it. Any thread. */
bool log_limit_pass(const struct log_limit_place *place, uint64_t key, unsigned burst, uint64_t now_ns);
/* Logs how many messages were left out in periods that are over; at UINT64_MAX, in all. Call about once a second. */
void log_limit_tick(uint64_t now_ns);

/* log_limited(LOG_INFO, "control", peer->uid, "refusing user %u", peer->uid) */
#define log_limited(log_level, log_component, key, log_format, ...) \
	do { \
		static const struct log_limit_place _place = {.file = __FILE__, \
			.component = log_component, \
			.format = log_format, \
			.line = __LINE__, \
			.level = log_level}; \
		if (log_limit_pass(&_place, key, LOG_LIMIT_BURST, monotonic_ns())) \
			log_at(log_level, log_component, log_format __VA_OPT__(, ) __VA_ARGS__); \
	} while (0)

#endif
