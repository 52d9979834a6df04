/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parser of all text files (ranktrace.conf, probes.d, saved levels): sections of `key = value` lines.
 *
 *   # comment        first non-blank character is # or ;
 *   [section]        or [section "name"]: kind and name, name may be empty
 *   key = value      surrounding blanks are trimmed; the value may be empty and extends to the end of the line
 *
 * Limits: 1 MiB per file, 4096 bytes per line; NUL and control characters are refused. No continuation lines, no
 * includes.
 */
#ifndef RANKTRACE_BASE_INI_H
#define RANKTRACE_BASE_INI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define INI_FILE_BYTES_MAX (1u << 20)
#define INI_LINE_BYTES_MAX 4096u
#define INI_ERROR_BYTES 512u

struct ini_line {
	const char *path;    /* as given, for messages */
	unsigned line;	     /* from 1 */
	const char *section; /* kind; "" before the first section */
	const char *name;    /* section's name, "" if none */
	const char *key;     /* NULL for the section line itself */
	const char *value;   /* NULL for the section line itself */
};

/*
 * Called for each section line and each key line, in order. Strings are valid during the call. To refuse, write a
 * sentence fragment into error (the parser adds file and line) and return a negative errno: parsing ends.
 */
typedef int (*ini_callback)(void *arg, const struct ini_line *line, char *error, size_t error_size);

/*
 * Parses memory (not terminated). On failure returns a negative errno and sets error, which is required, to a sentence
 * "PATH:LINE: ...". Never calls back with text beyond the limits.
 */
int ini_parse(const char *path, const char *text, size_t size_bytes, ini_callback callback, void *arg,
	char error[INI_ERROR_BYTES]);

/* Reads the file (regular files only, O_CLOEXEC) and parses it. -ENOENT if missing, also with a sentence. */
int ini_parse_file(const char *path, ini_callback callback, void *arg, char error[INI_ERROR_BYTES]);

/*
 * Value parsers for callbacks: 0 or -EINVAL. Numbers are the whole text; sizes take K, M, G, T (binary); booleans
 * take true/false/yes/no/on/off/1/0. Durations: units_parse_duration().
 */
int ini_bool(const char *value, bool *ret);
int ini_u64(const char *value, uint64_t min, uint64_t max, uint64_t *ret);
int ini_size_bytes(const char *value, uint64_t *ret);

#endif
