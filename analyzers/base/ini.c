/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parser of the text files: lines, sections, keys, and values (numbers, sizes, durations, booleans). Works within the
 * given memory and fixed buffers; reports line and reason of an error.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>
#include "analyzers/base/ini.h"

#define INI_SHOWN 60 /* length of a quoted wrong text */

struct parser {
	struct ini_line at;
	ini_callback callback;
	void *arg;
	char *error;
	char section[INI_LINE_BYTES_MAX + 1];
	char name[INI_LINE_BYTES_MAX + 1];
	char text[INI_LINE_BYTES_MAX + 1];
};

static void ini_free(void *pointer)
{
	free(*(void **)pointer);
}

static void ini_close(const int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

__attribute__((format(printf, 3, 4))) static int ini_refuse(struct parser *p, int r, const char *format, ...)
{
	va_list list;
	int n;

	n = snprintf(p->error, INI_ERROR_BYTES, "%s:%u: ", p->at.path, p->at.line);
	if (n < 0 || (unsigned)n >= INI_ERROR_BYTES)
		return r;
	va_start(list, format);
	vsnprintf(p->error + n, INI_ERROR_BYTES - n, format, list);
	va_end(list);
	return r;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static bool ini_is_word(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
	       c == '.';
}

static size_t word_length(const char *text)
{
	size_t n = 0;

	while (ini_is_word(text[n]))
		n++;
	return n;
}

static char *skip_blanks(char *text)
{
	while (is_blank(*text))
		text++;
	return text;
}

static void cut_blanks_at_end(char *text)
{
	size_t n = strlen(text);

	while (n && is_blank(text[n - 1]))
		text[--n] = 0;
}

static int ini_call(struct parser *p)
{
	char fragment[INI_ERROR_BYTES] = "";
	int r = p->callback(p->arg, &p->at, fragment, sizeof(fragment));

	if (r >= 0)
		return 0;
	return ini_refuse(p, r, "%s", fragment[0] ? fragment : strerror(-r));
}

/* text: after the '['. */
static int parse_section(struct parser *p, char *text)
{
	size_t n;
	char *end;

	text = skip_blanks(text);
	n = word_length(text);
	if (!n)
		return ini_refuse(p, -EINVAL, "a section needs a name: [section] or [section \"name\"]");
	memcpy(p->section, text, n);
	p->section[n] = 0;
	p->name[0] = 0;
	text = skip_blanks(text + n);
	if (*text == '"') {
		end = strchr(text + 1, '"');
		if (!end)
			return ini_refuse(
				p, -EINVAL, "the name of section [%.*s] has no closing quote", INI_SHOWN, p->section);
		*end = 0;
		snprintf(p->name, sizeof(p->name), "%s", text + 1);
		text = skip_blanks(end + 1);
	}
	if (*text && *text != ']' && !p->name[0])
		return ini_refuse(p, -EINVAL, "the name of section [%.*s] needs quotes: [%.*s \"name\"]", INI_SHOWN,
			p->section, INI_SHOWN, p->section);
	if (*text != ']')
		return ini_refuse(p, -EINVAL, "expected ']' after section '%.*s'", INI_SHOWN, p->section);
	if (text[1])
		return ini_refuse(p, -EINVAL, "unexpected text after [%.*s]", INI_SHOWN, p->section);
	p->at.section = p->section;
	p->at.name = p->name;
	p->at.key = NULL;
	p->at.value = NULL;
	return ini_call(p);
}

static int parse_key(struct parser *p, char *text)
{
	size_t n = word_length(text);
	char *value;

	value = skip_blanks(text + n);
	if (!n || *value != '=')
		return ini_refuse(p, -EINVAL, "expected 'key = value' or '[section]', found '%.*s'", INI_SHOWN, text);
	value = skip_blanks(value + 1);
	text[n] = 0;
	p->at.key = text;
	p->at.value = value;
	return ini_call(p);
}

static int parse_line(struct parser *p, const char *line, size_t size_bytes)
{
	char *text;

	if (size_bytes > INI_LINE_BYTES_MAX)
		return ini_refuse(p, -E2BIG, "line is longer than %u bytes", INI_LINE_BYTES_MAX);
	for (size_t i = 0; i < size_bytes; i++) {
		unsigned char c = line[i];

		if ((c < 0x20 && c != '\t') || c == 0x7f)
			return ini_refuse(p, -EINVAL, "control character 0x%02x in column %zu", c, i + 1);
	}
	memcpy(p->text, line, size_bytes);
	p->text[size_bytes] = 0;
	text = skip_blanks(p->text);
	cut_blanks_at_end(text);
	if (!*text || *text == '#' || *text == ';')
		return 0;
	return *text == '[' ? parse_section(p, text + 1) : parse_key(p, text);
}

int ini_parse(const char *path, const char *text, size_t size_bytes, ini_callback callback, void *arg,
	char error[INI_ERROR_BYTES])
{
	__attribute__((cleanup(ini_free))) struct parser *p = calloc(1, sizeof(*p));
	const char *end = text + size_bytes;

	if (!p) {
		snprintf(error, INI_ERROR_BYTES, "%s:0: out of memory", path);
		return -ENOMEM;
	}
	p->at = (struct ini_line){.path = path, .section = p->section, .name = p->name};
	p->callback = callback;
	p->arg = arg;
	p->error = error;
	if (size_bytes > INI_FILE_BYTES_MAX)
		return ini_refuse(p, -EFBIG, "file is larger than %u bytes", INI_FILE_BYTES_MAX);
	while (text < end) {
		const char *newline = memchr(text, '\n', end - text);
		size_t length = (newline ? newline : end) - text;
		int r;

		p->at.line++;
		r = parse_line(p, text, length);
		if (r < 0)
			return r;
		text += length + (newline ? 1 : 0);
	}
	return 0;
}

static int ini_read_all(int fd, char *buffer, size_t size_bytes, size_t *ret)
{
	size_t n = 0;

	while (n < size_bytes) {
		ssize_t r = read(fd, buffer + n, size_bytes - n);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return -errno;
		if (!r)
			break;
		n += r;
	}
	*ret = n;
	return 0;
}

int ini_parse_file(const char *path, ini_callback callback, void *arg, char error[INI_ERROR_BYTES])
{
	__attribute__((cleanup(ini_close))) int fd = -1;
	__attribute__((cleanup(ini_free))) char *text = NULL;
	struct stat st;
	size_t n = 0;
	int r;

	/* Non-blocking: opening a FIFO must not hang before it is refused. */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || fstat(fd, &st) < 0) {
		r = -errno;
		snprintf(error, INI_ERROR_BYTES, "%s: cannot open: %s", path, strerror(-r));
		return r;
	}
	if (!S_ISREG(st.st_mode)) {
		snprintf(error, INI_ERROR_BYTES, "%s: not a regular file", path);
		return -EINVAL;
	}
	/* One byte above the limit: detects an oversized file whatever fstat reported. */
	text = malloc(INI_FILE_BYTES_MAX + 1);
	r = text ? ini_read_all(fd, text, INI_FILE_BYTES_MAX + 1, &n) : -ENOMEM;
	if (r < 0) {
		snprintf(error, INI_ERROR_BYTES, "%s: cannot read: %s", path, strerror(-r));
		return r;
	}
	return ini_parse(path, text, n, callback, arg, error);
}

int ini_bool(const char *value, bool *ret)
{
	static const struct {
		const char *text;
		bool value;
	} words[] = {
		{"true", true},
		{"yes", true},
		{"on", true},
		{"1", true},
		{"false", false},
		{"no", false},
		{"off", false},
		{"0", false},
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcasecmp(value, words[i].text) != 0)
			continue;
		*ret = words[i].value;
		return 0;
	}
	return -EINVAL;
}

/* Decimal digits only: no sign, no blanks. ret_rest: the text after them. */
static int parse_digits(const char *text, uint64_t *ret, const char **ret_rest)
{
	const char *p = text;
	uint64_t value = 0;

	for (; *p >= '0' && *p <= '9'; p++)
		if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, *p - '0', &value))
			return -EINVAL;
	if (p == text)
		return -EINVAL;
	*ret = value;
	*ret_rest = p;
	return 0;
}

int ini_u64(const char *value, uint64_t min, uint64_t max, uint64_t *ret)
{
	const char *rest;
	uint64_t number;

	if (parse_digits(value, &number, &rest) < 0 || *rest || number < min || number > max)
		return -EINVAL;
	*ret = number;
	return 0;
}

int ini_size_bytes(const char *value, uint64_t *ret)
{
	static const struct {
		const char *name;
		unsigned shift;
	} units[] = {{"", 0}, {"K", 10}, {"M", 20}, {"G", 30}, {"T", 40}};
	const char *rest;
	uint64_t number;

	if (parse_digits(value, &number, &rest) < 0)
		return -EINVAL;
	while (is_blank(*rest))
		rest++;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (strcmp(rest, units[i].name) != 0)
			continue;
		if (number > UINT64_MAX >> units[i].shift)
			return -EINVAL;
		*ret = number << units[i].shift;
		return 0;
	}
	return -EINVAL;
}
