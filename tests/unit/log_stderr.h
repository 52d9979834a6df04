/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's log on standard error, from notices up, where the daemon's own is not linked in. */
#ifndef RANKTRACE_TESTS_LOG_STDERR_H
#define RANKTRACE_TESTS_LOG_STDERR_H

#include <stdarg.h>
#include <stdio.h>

#include "daemon/base/log.h"

__attribute__((weak)) void log_message(
	int level, const char *component, const char *file, int line, const char *func, const char *format, ...)
{
	va_list args;

	if (level > LOG_NOTICE)
		return;
	fprintf(stderr, "%s: ", component);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
}

#endif
