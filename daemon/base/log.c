/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns where messages go: the journal, with fields that can be searched for, where our stderr is the journal's stream;
 * otherwise stderr, one line a message. Promises never to fail, never to allocate for long, and to keep errno, so that
 * it may be called between a failure and its handling. A message that holds line breaks (libbpf's) becomes several.
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
#include "analyzers/base/utf8.h"
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
 * JOURNAL_STREAM is inherited by children whose stderr is elsewhere, so its numbers must match our stderr. libsystemd
 * drops messages silently where the journal's own socket is missing: then stderr, which arrives there too, is better.
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

/* A broken stderr must not end the daemon, and nobody could be informed. */
static void log_send_to_stderr(int level, const char *component, const char *message)
{
	enum term_colour colour = level <= LOG_ERR ? TERM_RED : level == LOG_WARNING ? TERM_YELLOW : TERM_PLAIN;
	char now[48];

	fprintf(stderr, "%sranktraced: %s%s%s: %s: %s\n", log_time(now, sizeof(now)), term_start(stderr, colour),
		log_level_names[level], term_end(stderr, colour), component, message);
}

/* Names of jobs and files may be any bytes: a terminal shall not obey them, and of a message that is no UTF-8
 * journalctl shows only its length. */
static char *log_clean(char *text)
{
	size_t left = strlen(text);

	for (char *p = text; left;) {
		size_t size = utf8_character((const unsigned char *)p, left);
		bool control = ((unsigned char)*p < ' ' && !strchr("\r\n\t", *p)) || *p == 0x7f;

		if (!size || control)
			*p = '?';
		size = size ? size : 1;
		p += size;
		left -= size;
	}
	return text;
}

static void log_emit(int level, const char *component, const char *file, int line, const char *func, char *text)
{
	char *rest = NULL;

	for (char *part = strtok_r(log_clean(text), "\r\n", &rest); part; part = strtok_r(NULL, "\r\n", &rest)) {
		if (to_journal && log_send_to_journal(level, component, file, line, func, part) >= 0)
			continue;
		log_send_to_stderr(level, component, part);
	}
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

/* "NAME=value", cut to fit. */
static const char *log_join(char *buffer, size_t size, const char *name, const char *value)
{
	snprintf(buffer, size, "%s=%s", name, value);
	return buffer;
}

void log_fields(int level, const char *component, const char *message, const char *const *fields, size_t count)
{
	char text[LOG_MESSAGE_BYTES + 16], room[64], priority[16];
	struct iovec field[LOG_FIELDS_MAX + 4];
	int saved = errno;
	size_t n = 0;

	if (level > level_max || level < 0 || level > LOG_DEBUG)
		return;
	snprintf(priority, sizeof(priority), "PRIORITY=%d", level);
	(void)log_join(text, sizeof(text), "MESSAGE", message);
	log_add_field(field, &n, log_clean(text));
	log_add_field(field, &n, priority);
	log_add_field(field, &n, log_join(room, sizeof(room), "RANKTRACE_COMPONENT", component));
	log_add_field(field, &n, "SYSLOG_IDENTIFIER=ranktraced");
	for (size_t i = 0; i < count && i < LOG_FIELDS_MAX; i++)
		log_add_field(field, &n, fields[i]);
	if (!to_journal || sd_journal_sendv(field, (int)n) < 0)
		log_send_to_stderr(level, component, text + strlen("MESSAGE="));
	errno = saved;
}

/*
 * What libbpf warns of is mostly something that our callers try on purpose (feature probes) and report in their own
 * words; it is kept one step lower, and the memory limit, which kernels since 5.11 do not look at, two steps.
 */
static _printf_(2, 0) int log_on_libbpf(enum libbpf_print_level level, const char *format, va_list list)
{
	static const int levels[] = {
		[LIBBPF_WARN] = LOG_INFO,
		[LIBBPF_INFO] = LOG_DEBUG,
		[LIBBPF_DEBUG] = LOG_DEBUG,
	};
	int to = (size_t)level < ARRAY_SIZE(levels) ? levels[level] : LOG_DEBUG;

	if (strstr(format, "RLIMIT_MEMLOCK"))
		to = LOG_DEBUG;
	log_list(to, "libbpf", __FILE__, __LINE__, __func__, format, list);
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
