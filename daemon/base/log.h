/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Logging: journald with structured fields when stderr is the journal (JOURNAL_STREAM matches), else one line on stderr.
 *
 * `component` is a lower-case room name ("ranks", "store"); it becomes RANKTRACE_COMPONENT= in the journal and the
 * prefix on stderr. A message is one sentence without a trailing newline; a message about something that is not fatal
 * says what happens next ("skipping it", "trying again in 5 s"). The level says who acts: LOG_ERR the operator now,
 * LOG_WARNING the operator some day, LOG_NOTICE state changes, LOG_INFO progress, LOG_DEBUG us.
 */
#ifndef RANKTRACE_DAEMON_BASE_LOG_H
#define RANKTRACE_DAEMON_BASE_LOG_H

#include <syslog.h>
#include "daemon/base/util.h"

/* Chooses the target and routes libbpf's and libevent's messages here. Returns 0. */
int log_open(int level_max);
void log_set_level(int level_max);

/* What the levels are called, in messages and in the configuration; by syslog level. */
#define LOG_LEVEL_NAMES (LOG_DEBUG + 1)
extern const char *const log_level_names[LOG_LEVEL_NAMES];

void log_message(int level, const char *component, const char *file, int line, const char *func,
		 const char *format, ...) _printf_(6, 7);

/* A message with fields of its own in the journal, each "NAME=value" (upper case; what is beyond LOG_FIELDS_MAX is left out). On
 * stderr only the message is seen. */
#define LOG_FIELDS_MAX 24
void log_fields(int level, const char *component, const char *message, const char *const *fields, size_t count);

#define log_at(level, component, ...) log_message(level, component, __FILE__, __LINE__, __func__, __VA_ARGS__)
#define log_debug(component, ...) log_at(LOG_DEBUG, component, __VA_ARGS__)
#define log_info(component, ...) log_at(LOG_INFO, component, __VA_ARGS__)
#define log_notice(component, ...) log_at(LOG_NOTICE, component, __VA_ARGS__)
#define log_warning(component, ...) log_at(LOG_WARNING, component, __VA_ARGS__)
#define log_error(component, ...) log_at(LOG_ERR, component, __VA_ARGS__)

/* Logs and yields the error, so that a failure is one statement: return log_error_errno("store", r, "cannot open %s", path);
 * The text of the error is appended after ": ". */
#define log_error_errno(component, error, format, ...) \
	({ int _e = (error); if (_e > 0) _e = -_e; \
	   log_at(LOG_ERR, component, format ": %s" __VA_OPT__(,) __VA_ARGS__, strerror(-_e)); _e; })

#endif
