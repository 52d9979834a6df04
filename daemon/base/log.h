/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Logging: journald with structured fields if stderr is the journal (JOURNAL_STREAM matches), otherwise one line on
 * stderr.
 *
 * `component` is a lower-case module name ("ranks", "store"): RANKTRACE_COMPONENT= in the journal, prefix on stderr. A
 * message is one sentence without newlines (names in it may hold any bytes: what is not printable becomes '?'); a
 * non-fatal one names the consequence ("skipping it", "trying again in 5 s"). Levels by audience: LOG_ERR operator,
 * now; LOG_WARNING operator, later; LOG_NOTICE state changes; LOG_INFO progress; LOG_DEBUG developers.
 */
#ifndef RANKTRACE_DAEMON_BASE_LOG_H
#define RANKTRACE_DAEMON_BASE_LOG_H

#include <syslog.h>
#include "daemon/base/util.h"

/* Selects the destination; routes libbpf's and libevent's messages here. Returns 0. */
int log_open(int level_max);
void log_set_level(int level_max);

/* Names of levels in messages and configuration, by syslog level. */
#define LOG_LEVEL_NAMES (LOG_DEBUG + 1)
extern const char *const log_level_names[LOG_LEVEL_NAMES];

void log_message(int level, const char *component, const char *file, int line, const char *func, const char *format,
	...) _printf_(6, 7);

/*
 * A message with extra journal fields, each "NAME=value" (upper case; beyond LOG_FIELDS_MAX dropped). stderr shows
 * only the message.
 */
#define LOG_FIELDS_MAX 24
void log_fields(int level, const char *component, const char *message, const char *const *fields, size_t count);

#define log_at(level, component, ...) log_message(level, component, __FILE__, __LINE__, __func__, __VA_ARGS__)
#define log_debug(component, ...) log_at(LOG_DEBUG, component, __VA_ARGS__)
#define log_info(component, ...) log_at(LOG_INFO, component, __VA_ARGS__)
#define log_notice(component, ...) log_at(LOG_NOTICE, component, __VA_ARGS__)
#define log_warning(component, ...) log_at(LOG_WARNING, component, __VA_ARGS__)
#define log_error(component, ...) log_at(LOG_ERR, component, __VA_ARGS__)

/*
 * Logs and returns the error in one statement: return log_error_errno("store", r, "cannot open %s", path); Appends ":
 * " and the error's text.
 */
#define log_error_errno(component, error, format, ...) \
	({ \
		int _e = (error); \
		if (_e > 0) \
			_e = -_e; \
		log_at(LOG_ERR, component, format ": %s" __VA_OPT__(, ) __VA_ARGS__, strerror(-_e)); \
		_e; \
	})

#endif
