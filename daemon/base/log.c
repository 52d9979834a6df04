/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Destination of messages: the journal with searchable fields if stderr is the journal's stream, otherwise stderr, one
 * line per message. Never fails, never blocks on memory, preserves errno. A message of libbpf with line breaks (the
 * verifier's log) becomes several.
 */
#define SD_JOURNAL_SUPPRESS_LOCATION
#include <bpf/libbpf.h>
#include <event2/event.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <systemd/sd-journal.h>
#include <time.h>
#include "analyzers/base/term.h"
#include "analyzers/base/text.h"
#include "daemon/base/log.h"

#define LOG_MESSAGE_BYTES 2048

static int level_max = LOG_INFO;
static bool to_journal;

const char *const log_level_names[LOG_LEVEL_NAMES] = {
	[LOG_EMERG] = "emergency",
	[LOG_ALERT] = "alert",
	[LOG_CRIT] = "critical",
	[LOG_ERR] = "error",
	[LOG_WARNING] = "warning",
	[LOG_NOTICE] = "notice",
	[LOG_INFO] = "info",
	[LOG_DEBUG] = "debug",
};

#define JOURNAL_SOCKET "/run/systemd/journal/socket"

/*
 * Children inherit JOURNAL_STREAM with another stderr, so its numbers must match stderr. libsystemd drops messages
 * silently if the journal's socket is missing: then stderr reaches the journal too.
 */
static bool log_stderr_is_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	unsigned long long device, inode;
	struct stat st;

	if (!stream || sscanf(stream, "%llu:%llu", &device, &inode) != 2)
		return false;
	if (fstat(STDERR_FILENO, &st) < 0)
		return false;
	return st.st_dev == (dev_t)device && st.st_ino == (ino_t)inode;
}

static int log_send_to_journal(
	int level, const char *component, const char *file, int line, const char *func, const char *message)
{
	return sd_journal_send("MESSAGE=%s", message, "PRIORITY=%i", level, "CODE_FILE=%s", file, "CODE_LINE=%i", line,
		"CODE_FUNC=%s", func, "RANKTRACE_COMPONENT=%s", component, "SYSLOG_IDENTIFIER=ranktraced", NULL);
}

/* "2026-11-22 17:12:14.123 " on a terminal: no journal adds it there. */
static const char *log_time(char *buffer, size_t size)
{
	struct timespec now;
	struct tm tm;
	size_t n = 0;

	buffer[0] = 0;
	if (!isatty(STDERR_FILENO) || clock_gettime(CLOCK_REALTIME, &now) < 0 || !localtime_r(&now.tv_sec, &tm))
		return buffer;
	n = strftime(buffer, size, "%Y-%m-%d %H:%M:%S", &tm);
	snprintf(buffer + n, size - n, ".%03ld ", now.tv_nsec / 1000000);
	return buffer;
}

/* A broken stderr must not end the daemon. */
static void log_send_to_stderr(int level, const char *component, const char *message)
{
	enum term_colour colour = level <= LOG_ERR ? TERM_RED : level == LOG_WARNING ? TERM_YELLOW : TERM_PLAIN;
	char now[48];

	fprintf(stderr, "%sranktraced: %s%s%s: %s: %s\n", log_time(now, sizeof(now)), term_start(stderr, colour),
		log_level_names[level], term_end(stderr, colour), component, message);
}

/* Names of jobs and files may hold any bytes: one message is one line, which a terminal does not interpret. */
static void log_emit(int level, const char *component, const char *file, int line, const char *func, char *text)
{
	size_t n = strlen(text);

	while (n && strchr("\r\n", text[n - 1]))
		text[--n] = 0;
	if (!n)
		return;
	text_clean(text);
	if (!to_journal || log_send_to_journal(level, component, file, line, func, text) < 0)
		log_send_to_stderr(level, component, text);
}

static _printf_(6, 0) void log_list(int level, const char *component, const char *file, int line, const char *func,
	const char *format, va_list list)
{
	char text[LOG_MESSAGE_BYTES];
	int saved = errno;
	int n;

	if (level > level_max || level < 0 || level > LOG_DEBUG)
		return;
	n = vsnprintf(text, sizeof(text), format, list);
	if (n >= (int)sizeof(text))
		memcpy(text + sizeof(text) - 4, "...", 4);
	if (n > 0)
		log_emit(level, component, file, line, func, text);
	errno = saved;
}

void log_message(
	int level, const char *component, const char *file, int line, const char *func, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	log_list(level, component, file, line, func, format, list);
	va_end(list);
}

static void log_add_field(struct iovec *field, size_t *count, const char *text)
{
	field[(*count)++] = (struct iovec){.iov_base = (char *)text, .iov_len = strlen(text)};
}

/* "NAME=value", truncated to fit. */
static const char *log_join(char *buffer, size_t size, const char *name, const char *value)
{
	snprintf(buffer, size, "%s=%s", name, value);
	return buffer;
}

void log_fields(int level, const char *component, const char *message, const char *const *fields, size_t count)
{
	char text[LOG_MESSAGE_BYTES + 16], component_text[64], priority[16];
	struct iovec field[LOG_FIELDS_MAX + 4];
	int saved = errno;
	size_t n = 0;

	if (level > level_max || level < 0 || level > LOG_DEBUG)
		return;
	snprintf(priority, sizeof(priority), "PRIORITY=%d", level);
	(void)log_join(text, sizeof(text), "MESSAGE", message);
	log_add_field(field, &n, text_clean(text));
	log_add_field(field, &n, priority);
	log_add_field(field, &n, log_join(component_text, sizeof(component_text), "RANKTRACE_COMPONENT", component));
	log_add_field(field, &n, "SYSLOG_IDENTIFIER=ranktraced");
	for (size_t i = 0; i < count && i < LOG_FIELDS_MAX; i++)
		log_add_field(field, &n, fields[i]);
	if (!to_journal || sd_journal_sendv(field, (int)n) < 0)
		log_send_to_stderr(level, component, text + strlen("MESSAGE="));
	errno = saved;
}

/*
 * libbpf mostly warns about deliberate attempts (feature probes) that callers report themselves: logged one level
 * lower; the memory limit, unused by kernels since 5.11, and programs for another kernel two levels lower.
 */
static _printf_(2, 0) int log_on_libbpf(enum libbpf_print_level level, const char *format, va_list list)
{
	static const int levels[] = {
		[LIBBPF_WARN] = LOG_INFO,
		[LIBBPF_INFO] = LOG_DEBUG,
		[LIBBPF_DEBUG] = LOG_DEBUG,
	};
	int to = (size_t)level < ARRAY_SIZE(levels) ? levels[level] : LOG_DEBUG, saved = errno;
	char text[LOG_MESSAGE_BYTES], *rest = NULL;

	if (strstr(format, "RLIMIT_MEMLOCK") || strstr(format, "failed to attach"))
		to = LOG_DEBUG;
	if (to <= level_max && vsnprintf(text, sizeof(text), format, list) > 0)
		for (char *part = strtok_r(text, "\r\n", &rest); part; part = strtok_r(NULL, "\r\n", &rest))
			log_at(to, "libbpf", "%s", part);
	errno = saved;
	return 0;
}

static void log_on_libevent(int severity, const char *message)
{
	static const int levels[] = {
		[EVENT_LOG_DEBUG] = LOG_DEBUG,
		[EVENT_LOG_MSG] = LOG_INFO,
		[EVENT_LOG_WARN] = LOG_WARNING,
		[EVENT_LOG_ERR] = LOG_ERR,
	};
	int to = severity >= 0 && (size_t)severity < ARRAY_SIZE(levels) ? levels[severity] : LOG_WARNING;

	log_at(to, "libevent", "%s", message);
}

int log_open(int max)
{
	log_set_level(max);
	to_journal = log_stderr_is_journal() && access(JOURNAL_SOCKET, W_OK) == 0;
	libbpf_set_print(log_on_libbpf);
	event_set_log_callback(log_on_libevent);
	return 0;
}

void log_set_level(int max)
{
	level_max = max;
}
